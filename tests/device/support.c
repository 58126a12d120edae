/* See support.h. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"

/* ---------------------------------------------------------------- devices */

td_registry_options options_of_environment(void)
{
    td_registry_options options;
    td_registry_options_from_env(&options);
    return options;
}

size_t list_devices(td_registry *registry, const td_device_info *infos[BED_MAX], size_t *n_real)
{
    const size_t visible = td_registry_count(registry);
    size_t count = 0;
    for (size_t i = 0; i < visible && count < BED_MAX - 2; i++) {
        const td_device_info *info = td_registry_info(registry, i);
        if (info->usable) infos[count++] = info;
    }
    *n_real = count;
    check(td_registry_select(registry, "sim:0", &infos[count++]));
    check(td_registry_select(registry, "sim:1", &infos[count++]));
    return count;
}

void standard_devices_found(td_registry *registry)
{
    if (missing_is_allowed()) return;
    const td_device_info *info = NULL;
    check(td_registry_select(registry, POCL_SELECTOR, &info));
    check(td_registry_select(registry, LAVAPIPE_SELECTOR, &info));
}

static void open_registry(bed *out, const char *sim_model, const td_device_info *infos[BED_MAX])
{
    td_registry_options options = options_of_environment();
    if (sim_model) options.sim_model = sim_model;
    *out = (bed){0};
    check(td_registry_open(&options, &out->registry));
    standard_devices_found(out->registry);
    out->count = list_devices(out->registry, infos, &out->n_real);
    out->sim = out->n_real;
}

static void open_devices(bed *out, const td_device_info *const *infos)
{
    check(td_devices_open(out->registry, infos, out->count, out->device));
    for (size_t i = 0; i < out->count; i++) {
        out->name[i] = td_device_get_info(out->device[i])->selector;
        check(td_memory_create(out->device[i], "test", 0, &out->memory[i]));
        check(td_memory_create(out->device[i], "scratch", 0, &out->scratch[i]));
        take(out->scratch[i], TD_MEMORY_HOST, 4); /* keeps a chunk, which would else come and go each time */
    }
}

void bed_open(bed *out, const char *sim_model)
{
    const td_device_info *infos[BED_MAX];
    open_registry(out, sim_model, infos);
    open_devices(out, infos);
}

void bed_open_real(bed *out, bed_kind kind)
{
    const td_device_info *infos[BED_MAX];
    td_device_info copies[BED_MAX];
    open_registry(out, NULL, infos);
    out->count = out->n_real;
    for (size_t i = 0; i < out->count; i++) {
        copies[i] = *infos[i];
        if (kind == BED_AS_GPUS) {
            copies[i].type = TD_DEVICE_GPU;
            copies[i].gpu_kernels = true;
        }
        infos[i] = &copies[i];
    }
    if (kind == BED_AS_GPUS) print_message("    as if they were GPUs:\n");
    open_devices(out, infos);
    for (size_t i = 0; kind == BED_AS_GPUS && i < out->count; i++)
        assert_int_equal(td_device_class(out->device[i]), TD_CLASS_GPU);
}

void bed_close(bed *b)
{
    for (size_t i = 0; i < b->count; i++) {
        td_memory_destroy(b->memory[i]);
        td_memory_destroy(b->scratch[i]);
    }
    for (size_t i = 0; i < b->count; i++)
        td_device_close(b->device[i]);
    assert_int_equal(td_registry_validation_messages(b->registry), 0);
    td_registry_close(b->registry);
    *b = (bed){0};
}

bool announce(const bed *b, size_t i)
{
    print_message("    on %s\n", b->name[i]);
    return true;
}

bool announce_pair(const bed *b, size_t i, size_t j)
{
    print_message("    from %s to %s\n", b->name[i], b->name[j]);
    return true;
}

size_t find_elder(const td_device_info *const *infos, size_t i)
{
    size_t elder = 0;
    while (infos[elder]->api != infos[i]->api ||
           strcmp(infos[elder]->platform_name, infos[i]->platform_name) != 0)
        elder++;
    return elder;
}

bool is_new_pair(const bed *b, size_t i, size_t j)
{
    const td_device_info *infos[BED_MAX];
    for (size_t k = 0; k < b->count; k++)
        infos[k] = td_device_get_info(b->device[k]);
    const size_t elder_of_i = find_elder(infos, i);
    const size_t elder_of_j = find_elder(infos, j);
    return (elder_of_i == i || elder_of_i == j) && (elder_of_j == j || elder_of_j == i);
}

/* ---------------------------------------------------------------- memory and work */

td_span take(td_memory *memory, td_memory_kind kind, uint64_t bytes)
{
    td_span span;
    check(td_memory_alloc(memory, kind, bytes, &span));
    return span;
}

/* A copy within one device, waited for. */
static void copy_now(const bed *b, size_t i, td_span to, td_span from)
{
    td_list *list = new_list(b->device[i], TD_QUEUE_COPY);
    check(td_list_copy(list, to, from));
    run_once(b->device[i], TD_QUEUE_COPY, list);
    td_list_destroy(list);
}

void write_span(const bed *b, size_t i, td_span to, const void *from)
{
    const td_span host = take(b->scratch[i], TD_MEMORY_HOST, to.bytes);
    memcpy(td_span_host(host), from, to.bytes);
    copy_now(b, i, to, host);
    td_memory_free(b->scratch[i], host);
}

void read_span(const bed *b, size_t i, td_span from, void *to)
{
    const td_span host = take(b->scratch[i], TD_MEMORY_HOST, from.bytes);
    copy_now(b, i, host, from);
    memcpy(to, td_span_host(host), from.bytes);
    td_memory_free(b->scratch[i], host);
}

void fill_words(uint32_t *words, size_t n, uint64_t stream)
{
    uint32_t block[4] = {0};
    for (size_t i = 0; i < n; i++) {
        if (i % 4 == 0) td_rng_block(2024, stream, i / 4, block);
        words[i] = block[i % 4];
    }
}

td_list *new_list(td_device *device, td_queue_kind kind)
{
    td_list *list = NULL;
    check(td_list_create(device, kind, &list));
    return list;
}

td_point submit(td_queue *queue, td_list *list, const td_point *waits, size_t n_waits)
{
    td_point reached = {0};
    const td_submission submission = {.list = list, .waits = waits, .n_waits = n_waits};
    check(td_queue_submit(queue, &submission, &reached));
    return reached;
}

void await(td_point point)
{
    check(td_point_wait(point, PATIENCE_NS));
}

void run_once(td_device *device, td_queue_kind kind, td_list *list)
{
    check(td_list_finish(list));
    await(submit(td_device_queue(device, kind), list, NULL, 0));
}

td_times times_of(td_point point)
{
    td_times times;
    check(td_point_times(point, &times));
    return times;
}

void record_fill_kernel(td_list *list, td_device *device, td_span span, uint32_t word, double flops)
{
    const td_fill_params params = {.n = (uint32_t)(span.bytes / 4), .word = word};
    check(td_list_dispatch(list, TD_K_fill, &span, &params,
                           td_grid_elements(td_device_class(device), params.n), (td_cost){.flops = flops}));
}
