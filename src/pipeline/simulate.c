/* Stages of given length on simulated devices. See simulate.h. */
#include "pipeline/simulate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "device/dispatch.h"
#include "pipeline/rehearse.h"

/* Truly copied, so small; the link is made slow to match, down to 1 MB/s. */
#define BATCH_BYTES UINT64_C(65536)
#define SLOW_BATCH_BYTES UINT64_C(1048576)
#define SLOW_MS 50.0

#define SIM_GFLOPS 1000.0

/* ---------------------------------------------------------------- what was asked for */

static const struct {
    const char *key;
    size_t offset;
    double most;
} KEYS[] = {
    {"data", offsetof(td_simulation, data_ms), 1e6},
    {"transfer", offsetof(td_simulation, transfer_ms), 1e6},
    {"train", offsetof(td_simulation, train_ms), 1e6},
    {"jitter", offsetof(td_simulation, jitter), 0.99},
};
enum { N_KEYS = sizeof KEYS / sizeof KEYS[0] };

static td_status parse_pair(const char *text, size_t length, td_simulation *simulation)
{
    for (size_t k = 0; k < N_KEYS; ++k) {
        const size_t n = strlen(KEYS[k].key);
        if (length <= n || strncmp(text, KEYS[k].key, n) != 0 || text[n] != '=') continue;
        char *end;
        const double value = strtod(text + n + 1, &end);
        if (end != text + length || end == text + n + 1 || !(value >= 0 && value <= KEYS[k].most))
            return TD_FAIL(TD_ERR_CONFIG, "'%.*s' of profile.simulate: %s is a number from 0 to %g",
                           (int)length, text, KEYS[k].key, KEYS[k].most);
        *(double *)((char *)simulation + KEYS[k].offset) = value;
        return TD_OK;
    }
    return TD_FAIL(
        TD_ERR_CONFIG,
        "'%.*s' of profile.simulate is not known; write data=MS,transfer=MS,train=MS[,jitter=SHARE]",
        (int)length, text);
}

td_status td_simulation_parse(const char *text, td_simulation *simulation)
{
    for (const char *at = text; *at != '\0';) {
        const size_t length = strcspn(at, ",");
        TD_CHECK(parse_pair(at, length, simulation));
        at += length + (at[length] == ',');
    }
    TD_REFUSE_IF(!(simulation->train_ms > 0), TD_ERR_CONFIG,
                 "profile.simulate needs at least train=MS above 0, such as data=30,transfer=5,train=40");
    return TD_OK;
}

/* ---------------------------------------------------------------- devices */

typedef struct rig {
    td_registry *registry;
    td_device *devices[2];
    size_t n_devices;
} rig;

static uint64_t get_batch_bytes(const td_simulation *s)
{
    return s->transfer_ms > SLOW_MS ? SLOW_BATCH_BYTES : BATCH_BYTES;
}

static td_status open_rig(rig *r, const td_simulation *s)
{
    const td_device_info *infos[2];
    td_registry_options options = {0};
    char model[128];
    const double gbps = s->transfer_ms > 0 ? (double)get_batch_bytes(s) / (s->transfer_ms * 1e6) : 1e6;
    (void)snprintf(model, sizeof model, "gflops=%g,copy_gbps=%.17g,latency_us=1", SIM_GFLOPS, gbps);
    td_registry_options_from_env(&options);
    options.sim_model = model;
    options.visible = NULL;
    r->n_devices = s->is_single ? 1 : 2;
    TD_CHECK(td_registry_open(&options, &r->registry));
    TD_CHECK(td_registry_select(r->registry, "sim:0", &infos[0]));
    TD_CHECK(td_registry_select(r->registry, "sim:1", &infos[1]));
    return td_devices_open(r->registry, infos, r->n_devices, r->devices);
}

static void close_rig(rig *r)
{
    for (size_t i = 0; i < r->n_devices; ++i)
        td_device_close(r->devices[i]);
    td_registry_close(r->registry);
}

/* ---------------------------------------------------------------- work */

/* A list that takes `ms` on a device and would write `span`. */
static td_status make_work(td_device *device, td_span span, double ms, td_list **out)
{
    const td_fill_params params = {.n = (uint32_t)(span.bytes / 4)};
    const td_cost cost = {.flops = ms * 1e6 * SIM_GFLOPS};
    TD_CHECK(td_list_create(device, TD_QUEUE_COMPUTE, out));
    TD_CHECK(td_list_dispatch(*out, TD_K_fill, &span, &params,
                              td_grid_elements(td_device_class(device), params.n), cost));
    return td_list_finish(*out);
}

static td_status make_prepare(void *context, td_device *device, td_span span, uint64_t number, td_list **out)
{
    const td_simulation *s = context;
    const double share = td_rng_double(s->seed, 0, number);
    return make_work(device, span, s->data_ms * (1 + s->jitter * (2 * share - 1)), out);
}

static td_status make_train(void *context, td_device *device, td_span span, uint64_t number, td_list **out)
{
    const td_simulation *s = context;
    (void)number;
    return make_work(device, span, s->train_ms, out);
}

td_status td_simulate(const td_simulation *simulation, td_monitor *monitor)
{
    rig r = {0};
    td_simulation s = *simulation;
    td_status status = TD_OK;
    TD_TRY(open_rig(&r, &s));
    const td_rehearsal rehearsal = {.data = r.devices[0],
                                    .model = r.devices[r.n_devices - 1],
                                    .prepare = make_prepare,
                                    .train = make_train,
                                    .context = &s,
                                    .batch_bytes = get_batch_bytes(&s),
                                    .steps = s.steps,
                                    .buffer_size = s.buffer_size,
                                    .prefetch_size = s.prefetch_size,
                                    .depth = s.depth,
                                    .is_serial = s.is_serial};
    TD_TRY(td_rehearse(&rehearsal, monitor, NULL));
fail:
    close_rig(&r);
    return status;
}
