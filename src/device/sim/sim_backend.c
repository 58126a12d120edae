/* The simulated backend as the registry sees it: two devices that always exist, described by one model, and
 * how they are opened and closed. Memory and time are in sim_memory.c and sim_queue.c.
 * Covered by tests/device/test_sim.c.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "device/sim/sim.h"

enum { DEVICE_COUNT = 2 };

#define MIB (UINT64_C(1) << 20)

/* ---------------------------------------------------------------- probe */

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void fill_caps(const sim_model *model, bool timestamps, td_device_caps *caps)
{
    const uint64_t max_alloc_mb = lesser(model->max_alloc_mb, model->memory_mb);
    const uint64_t binding_mb = model->binding_mb ? lesser(model->binding_mb, max_alloc_mb) : max_alloc_mb;
    *caps = (td_device_caps){
        .memory_bytes = model->memory_mb * MIB,
        .max_alloc_bytes = max_alloc_mb * MIB,
        .max_binding_bytes = binding_mb * MIB,
        .host_import_align = 4096,
        .offset_align = (uint32_t)model->offset_align,
        .max_group_size = (uint32_t)model->group_size,
        .max_group_count = 65535,
        .local_memory_bytes = 65536,
        .compute_units = 64,
        .vector_width = 1,
        .subgroup_min = 32,
        .subgroup_max = 32,
        .max_params_bytes = TD_KERNEL_MAX_PARAMS,
        .max_buffers = TD_KERNEL_MAX_BUFFERS,
        .local_memory_real = true,
        .copy_queue = model->copy_queue != 0,
        .host_import = model->host_import != 0,
        .timestamps = timestamps,
        .fp16_storage = true,
        .fp16_math = true,
        .int64 = true,
        .estimated_gflops = model->gflops,
        .estimated_gbps = model->gbps,
        .link_gbps = model->copy_gbps,
    };
}

static td_status probe(const td_registry_options *options, td_info_list *infos, td_api_report *report,
                       void **state)
{
    sim_model *model = NULL;
    td_status status = TD_OK;
    TD_TRY(TD_NEW(&model));
    TD_TRY(td_sim_model_parse(options->sim_model, model));
    const char *text = options->sim_model && *options->sim_model ? options->sim_model : "defaults";
    for (uint32_t i = 0; i < DEVICE_COUNT; ++i) {
        td_device_info *info = NULL;
        TD_TRY(td_info_list_add(infos, &info));
        info->api = TD_API_SIM;
        info->type = TD_DEVICE_SIM;
        info->ordinal = i;
        info->usable = true;
        info->selftest_done = true; /* it computes nothing, so there is nothing to test */
        info->selftest_passed = true;
        snprintf(info->name, sizeof info->name, "simulated device %u", i);
        snprintf(info->vendor, sizeof info->vendor, "tandem");
        snprintf(info->platform_name, sizeof info->platform_name, "simulation");
        snprintf(info->driver, sizeof info->driver, "model %s", text);
        snprintf(info->api_version, sizeof info->api_version, "sim 1");
        fill_caps(model, !options->no_timestamps, &info->caps);
    }
    report->loaded = true;
    snprintf(report->library, sizeof report->library, "built in");
    *state = model;
    return TD_OK;
fail:
    free(model);
    return status;
}

static void unload(void *state)
{
    free(state);
}

/* ---------------------------------------------------------------- open and close */

bool td_sim_fault_fires(uint64_t *calls, uint64_t fatal, const char *fault)
{
    if (++*calls != fatal) return false;
    td_log_info("simulated fault: %s=%llu fires", fault, (unsigned long long)fatal);
    return true;
}

/* The caller is its first holder. */
static td_status create_group(const sim_model *model, sim_group **out)
{
    td_status status = TD_NEW(out);
    if (status != TD_OK) return status;
    (*out)->model = *model;
    (*out)->holders = 1;
    td_condition_open(&(*out)->changed);
    pthread_mutex_init(&(*out)->mutex, NULL);
    return TD_OK;
}

static void release_group(sim_group *group)
{
    pthread_mutex_lock(&group->mutex);
    const bool held = --group->holders > 0;
    pthread_mutex_unlock(&group->mutex);
    if (held) return;
    for (size_t i = 0; i < group->n_queues; ++i)
        free(group->queues[i]);
    free(group->queues);
    pthread_mutex_destroy(&group->mutex);
    pthread_cond_destroy(&group->changed);
    free(group);
}

/* Also of a device whose opening failed half-way. */
static void close_device(td_device *base)
{
    if (!base) return;
    td_queue *compute = base->queues[TD_QUEUE_COMPUTE], *copy = base->queues[TD_QUEUE_COPY];
    if (copy && copy != compute) td_sim_queue_stop(copy);
    if (compute) td_sim_queue_stop(compute);
    sim_group *group = ((sim_device *)base)->group;
    free(base);
    release_group(group);
}

static td_status list_compile(td_list *list)
{
    sim_group *group = ((sim_device *)list->device)->group;
    pthread_mutex_lock(&group->mutex);
    const bool fault = SIM_FAULT_FIRES(group, fail_compile);
    pthread_mutex_unlock(&group->mutex);
    if (fault) {
        return TD_FAIL_NATIVE(TD_ERR_BUILD, "SIM_BUILD_FAILED",
                              "%s refused a list of %zu commands, as the model's fail_compile says",
                              list->device->info.name, list->n_commands);
    }
    return TD_OK;
}

/* The worker reads the commands themselves; there is nothing native to make or to free. */
static void list_discard(td_list *list)
{
    (void)list;
}

static td_status calibrate(td_device *device, td_clock_map *out)
{
    (void)device;
    const uint64_t now_ns = td_clock_ns();
    *out = (td_clock_map){.device_ref_ns = now_ns, .host_ref_ns = now_ns, .scale = 1};
    return TD_OK;
}

static const td_device_ops OPS = {
    .close = close_device,
    .buffer_create = td_sim_buffer_create,
    .buffer_import = td_sim_buffer_import,
    .buffer_destroy = td_sim_buffer_destroy,
    .list_compile = list_compile,
    .list_discard = list_discard,
    .submit = td_sim_submit,
    .wait = td_sim_wait,
    .can_wait = td_sim_can_wait,
    .times = td_sim_times,
    .calibrate = calibrate,
};

/* On failure *out is NULL or half open. */
static td_status open_device(sim_group *group, const td_device_info *info, td_blob_cache *cache,
                             td_device **out)
{
    sim_device *device = NULL;
    TD_CHECK(TD_NEW(&device));
    device->group = group;
    ++group->holders;
    td_device *base = *out = &device->base;
    base->ops = &OPS;
    base->info = *info;
    base->kernel_class = TD_CLASS_GPU;
    base->share_group = group;
    base->cache = cache;
    TD_CHECK(td_sim_queue_start(device, TD_QUEUE_COMPUTE, &base->queues[TD_QUEUE_COMPUTE]));
    base->queues[TD_QUEUE_COPY] = base->queues[TD_QUEUE_COMPUTE];
    if (info->caps.copy_queue)
        TD_CHECK(td_sim_queue_start(device, TD_QUEUE_COPY, &base->queues[TD_QUEUE_COPY]));
    return TD_OK;
}

static td_status open_devices(void *state, const td_device_info *const *infos, size_t count,
                              td_blob_cache *cache, td_device **out)
{
    sim_group *group = NULL;
    td_status status = TD_OK;
    for (size_t i = 0; i < count; ++i)
        out[i] = NULL;
    TD_TRY(create_group(state, &group));
    for (size_t i = 0; i < count; ++i)
        TD_TRY(open_device(group, infos[i], cache, &out[i]));
    release_group(group); /* the devices hold it now */
    return TD_OK;
fail:
    for (size_t i = 0; i < count; ++i) {
        close_device(out[i]);
        out[i] = NULL;
    }
    if (group) release_group(group);
    return status;
}

const td_backend td_backend_sim = {
    .api = TD_API_SIM,
    .name = "sim",
    .probe = probe,
    .unload = unload,
    .open = open_devices,
};
