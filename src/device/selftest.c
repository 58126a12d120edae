/* Self-test; see selftest.h. Small inputs of awkward sizes, checked against sums in double on the host.
 *
 * Only verdicts about computed results are remembered: a driver call that fails (out of memory, device
 * lost) is an error of this run, not a property of the driver version. */
#include "device/selftest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "device/dispatch.h"
#include "kernels/geometry.h"

#define SELFTEST_VERSION 2u
#define N_ELEMENTS 4099u /* prime: no multiple of any group or vector */
#define SPAN_BYTES (UINT64_C(4) * N_ELEMENTS)
#define MATRIX_M 37u
#define MATRIX_N 29u
#define MATRIX_K 41u
#define SUM_COLUMNS 67u
#define SUM_ROWS ((N_ELEMENTS + SUM_COLUMNS - 1) / SUM_COLUMNS)
#define PATIENCE_NS UINT64_C(60000000000) /* the first launch may compile */
#define CLOCK_TOLERANCE_NS UINT64_C(20000000)

typedef struct verdict {
    uint32_t version;
    uint32_t computes; /* 0: an essential test gave wrong numbers */
    uint32_t host_import_fails;
    uint32_t timestamps_fail;
    char reason[256];
} verdict;

/* One device's room for the tests: a and b go in, c comes out, d is between. */
typedef struct test_bench {
    td_device *device;
    td_memory *memory;
    td_span a, b, c, d;
    td_span host_a, host_b, host_c;
    float *in_a, *in_b, *out;
} test_bench;

typedef struct trial {
    const char *name;
    td_status (*record)(const test_bench *bench, td_list *list);
    bool (*is_right)(const test_bench *bench);
} trial;

/* ---------------------------------------------------------------- the trials */

static td_status record_trial(td_list *list, td_span x, td_span y, td_span z, td_trial_params params,
                              td_grid grid)
{
    const td_span spans[] = {x, y, z};
    return td_list_dispatch(list, TD_K_trial, spans, &params, grid, (td_cost){0});
}

static td_status record_add(const test_bench *bench, td_list *list)
{
    return record_trial(list, bench->a, bench->b, bench->c,
                        (td_trial_params){.kind = TD_TRIAL_ADD, .n = N_ELEMENTS},
                        td_grid_elements(td_device_class(bench->device), N_ELEMENTS));
}

static bool add_is_right(const test_bench *bench)
{
    for (uint32_t i = 0; i < N_ELEMENTS; i++)
        if (!(bench->out[i] == bench->in_a[i] + bench->in_b[i])) return false;
    return true;
}

static td_status record_product(const test_bench *bench, td_list *list)
{
    const td_trial_params params = {
        .kind = TD_TRIAL_PRODUCT, .rows = MATRIX_M, .columns = MATRIX_N, .depth = MATRIX_K};
    return record_trial(list, bench->a, bench->b, bench->c, params, td_grid_groups(MATRIX_M));
}

static bool product_is_right(const test_bench *bench)
{
    for (uint32_t i = 0; i < MATRIX_M; i++) {
        for (uint32_t j = 0; j < MATRIX_N; j++) {
            double sum = 0;
            for (uint32_t k = 0; k < MATRIX_K; k++)
                sum += (double)bench->in_a[i * MATRIX_K + k] * (double)bench->in_b[k * MATRIX_N + j];
            if (!(fabs((double)bench->out[i * MATRIX_N + j] - sum) <= 1e-5 * MATRIX_K)) return false;
        }
    }
    return true;
}

/* In two launches, of which the second needs what the first one wrote. */
static td_status record_sum(const test_bench *bench, td_list *list)
{
    const td_trial_params first = {
        .kind = TD_TRIAL_SUM, .n = N_ELEMENTS, .rows = SUM_ROWS, .columns = SUM_COLUMNS};
    const td_trial_params last = {.kind = TD_TRIAL_SUM, .n = SUM_ROWS, .rows = 1, .columns = SUM_ROWS};
    TD_CHECK(record_trial(list, bench->a, bench->b, bench->d, first, td_grid_groups(SUM_ROWS)));
    return record_trial(list, bench->d, bench->b, bench->c, last, td_grid_groups(1));
}

static bool sum_is_right(const test_bench *bench)
{
    double sum = 0;
    for (uint32_t i = 0; i < N_ELEMENTS; i++)
        sum += (double)bench->in_a[i];
    return fabs((double)bench->out[0] - sum) <= 1e-6 * N_ELEMENTS;
}

static td_status record_random(const test_bench *bench, td_list *list)
{
    return record_trial(list, bench->a, bench->b, bench->c,
                        (td_trial_params){.kind = TD_TRIAL_RANDOM, .n = N_ELEMENTS},
                        td_grid_elements(td_device_class(bench->device), (N_ELEMENTS + 3) / 4));
}

static bool random_is_right(const test_bench *bench)
{
    const uint32_t *words = (const uint32_t *)(const void *)bench->out;
    for (uint32_t i = 0; i < N_ELEMENTS; i++)
        if (words[i] != td_rng_u32((UINT64_C(1) << 32) + 7, 3, i)) return false;
    return true;
}

static const trial TRIALS[] = {
    {"addition", record_add, add_is_right},
    {"matrix product", record_product, product_is_right},
    {"sum", record_sum, sum_is_right},
    {"random numbers", record_random, random_is_right},
};

/* ---------------------------------------------------------------- running them */

static void close_bench(test_bench *bench)
{
    td_memory_destroy(bench->memory);
}

/* Also on failure *out has to be closed. */
static td_status open_bench(td_device *device, test_bench *out)
{
    td_span *const device_spans[] = {&out->a, &out->b, &out->c, &out->d};
    td_span *const host_spans[] = {&out->host_a, &out->host_b, &out->host_c};
    *out = (test_bench){.device = device};
    TD_CHECK(td_memory_create(device, "self-test", 0, &out->memory));
    for (size_t i = 0; i < 4; i++)
        TD_CHECK(td_memory_alloc(out->memory, TD_MEMORY_DEVICE, SPAN_BYTES, device_spans[i]));
    for (size_t i = 0; i < 3; i++)
        TD_CHECK(td_memory_alloc(out->memory, TD_MEMORY_HOST, SPAN_BYTES, host_spans[i]));
    out->in_a = td_span_host(out->host_a);
    out->in_b = td_span_host(out->host_b);
    out->out = td_span_host(out->host_c);
    for (uint32_t i = 0; i < N_ELEMENTS; i++) {
        out->in_a[i] = 2.0f * td_rng_float(1, 1, i) - 1.0f;
        out->in_b[i] = 2.0f * td_rng_float(1, 2, i) - 1.0f;
    }
    return TD_OK;
}

static td_status run_list(td_device *device, td_list *list, td_point *done)
{
    TD_CHECK(td_list_finish(list));
    TD_CHECK(
        td_queue_submit(td_device_queue(device, TD_QUEUE_COMPUTE), &(td_submission){.list = list}, done));
    return td_point_wait(*done, PATIENCE_NS);
}

static td_status run_trial(const test_bench *bench, const trial *test, bool *right)
{
    td_list *list = NULL;
    td_point done;
    td_status status = TD_OK;
    memset(bench->out, 0xff, SPAN_BYTES);
    TD_TRY(td_list_create(bench->device, TD_QUEUE_COMPUTE, &list));
    TD_TRY(td_list_copy(list, bench->a, bench->host_a));
    TD_TRY(td_list_copy(list, bench->b, bench->host_b));
    TD_TRY(td_list_fill(list, bench->c, 0x7fc00000u)); /* NaN: what no kernel wrote shows */
    TD_TRY(test->record(bench, list));
    TD_TRY(td_list_copy(list, bench->host_c, bench->c));
    TD_TRY(run_list(bench->device, list, &done));
    *right = test->is_right(bench);
fail:
    td_list_destroy(list);
    return status;
}

/* A device's write must show through the host's pointer, with nothing but the wait in between. */
static td_status try_host_import(const test_bench *bench, bool *right)
{
    const uint64_t align = bench->device->info.caps.host_import_align;
    td_list *list = NULL;
    td_span span = {0};
    void *block = NULL;
    td_point done;
    td_status status = TD_OK;
    TD_FAIL_IF(posix_memalign(&block, align, align) != 0, TD_ERR_HOST_MEMORY,
               "no host memory for the self-test");
    memset(block, 0, align);
    TD_TRY(td_memory_import(bench->memory, block, align, &span));
    TD_TRY(td_list_create(bench->device, TD_QUEUE_COMPUTE, &list));
    TD_TRY(td_list_fill(list, span, 0x01020304u));
    TD_TRY(run_list(bench->device, list, &done));
    const uint32_t *words = block;
    *right = true;
    for (uint64_t i = 0; i < align / 4; i++)
        *right &= words[i] == 0x01020304u;
fail:
    td_list_destroy(list);
    td_memory_free(bench->memory, span);
    free(block);
    return status;
}

static td_status try_timestamps(const test_bench *bench, bool *right)
{
    td_list *list = NULL;
    td_point done;
    td_times times;
    td_status status = TD_OK;
    const uint64_t before_ns = td_clock_ns();
    TD_TRY(td_list_create(bench->device, TD_QUEUE_COMPUTE, &list));
    TD_TRY(td_list_copy(list, bench->c, bench->a));
    TD_TRY(run_list(bench->device, list, &done));
    const uint64_t after_ns = td_clock_ns();
    TD_TRY(td_point_times(done, &times));
    *right = times.started_ns <= times.finished_ns && times.started_ns + CLOCK_TOLERANCE_NS >= before_ns &&
             times.finished_ns <= after_ns + CLOCK_TOLERANCE_NS;
fail:
    td_list_destroy(list);
    return status;
}

static bool teaches_nothing(td_status status)
{
    return status == TD_ERR_HOST_MEMORY || status == TD_ERR_DEVICE_MEMORY || status == TD_ERR_DEVICE_LOST ||
           status == TD_ERR_TIMEOUT;
}

/* An optional feature whose test cannot be run counts as failed: nothing depends on it. Unless a passing
 * shortage or a lost device is the reason: that is not a verdict to remember, and is returned. */
static td_status judge_feature(const test_bench *bench, bool claimed,
                               td_status (*try)(const test_bench *, bool *), const char *name, verdict *out,
                               uint32_t *fails)
{
    bool right = false;
    if (!claimed) return TD_OK;
    const td_status status = try(bench, &right);
    if (teaches_nothing(status)) return status;
    if (status == TD_OK && right) return TD_OK;
    *fails = 1;
    const size_t used = strlen(out->reason);
    snprintf(out->reason + used, sizeof out->reason - used, "%s%s switched off: its self-test failed",
             used ? "; " : "", name);
    return TD_OK;
}

static td_status judge(td_device *device, verdict *out)
{
    test_bench bench = {0};
    td_status status = TD_OK;
    *out = (verdict){.version = SELFTEST_VERSION, .computes = 1};
    TD_TRY(open_bench(device, &bench));
    for (size_t i = 0; out->computes && i < sizeof TRIALS / sizeof TRIALS[0]; i++) {
        bool right = false;
        TD_TRY(run_trial(&bench, &TRIALS[i], &right));
        if (right) continue;
        out->computes = 0;
        snprintf(out->reason, sizeof out->reason,
                 "the self-test \"%s\" gave wrong results with this driver version; update the driver",
                 TRIALS[i].name);
    }
    if (out->computes) {
        const td_device_caps *caps = &device->info.caps;
        TD_TRY(judge_feature(&bench, caps->host_import, try_host_import, "host memory in place", out,
                             &out->host_import_fails));
        TD_TRY(judge_feature(&bench, caps->timestamps, try_timestamps, "timestamps", out,
                             &out->timestamps_fail));
        TD_FAIL_IF(atomic_load(&device->lost), TD_ERR_DEVICE_LOST, "%s", td_error_last()->message);
    }
fail:
    close_bench(&bench);
    return status;
}

/* ---------------------------------------------------------------- verdicts */

static td_digest make_key(const td_device_info *info)
{
    td_hasher hasher;
    const uint32_t facts[] = {SELFTEST_VERSION, info->caps.host_import, info->caps.timestamps,
                              info->gpu_kernels};
    td_hasher_init(&hasher);
    td_hasher_bytes(&hasher, facts, sizeof facts);
    td_hasher_bytes(&hasher, &info->api, sizeof info->api);
    td_hasher_string(&hasher, info->platform_name);
    td_hasher_string(&hasher, info->name);
    td_hasher_string(&hasher, info->driver);
    td_hasher_string(&hasher, info->api_version);
    for (int id = 0; id < TD_KERNEL_COUNT; id++)
        td_hasher_string(&hasher, td_kernel_get((td_kernel_id)id)->cl_source);
    return td_hasher_digest(&hasher);
}

static void apply(const verdict *given, td_device_info *info)
{
    info->selftest_done = true;
    info->selftest_passed = given->computes != 0;
    info->caps.host_import &= !given->host_import_fails;
    info->caps.timestamps &= !given->timestamps_fail;
    info->usable &= given->computes != 0;
    snprintf(info->reason, sizeof info->reason, "%s", given->reason);
}

void td_selftest_recall(td_blob_cache *cache, td_device_info *info)
{
    void *data = NULL;
    size_t bytes = 0;
    verdict known;
    if (!td_blob_cache_load(cache, "selftest", make_key(info), &data, &bytes)) return;
    if (bytes == sizeof known) {
        memcpy(&known, data, sizeof known);
        known.reason[sizeof known.reason - 1] = '\0';
        if (known.version == SELFTEST_VERSION) apply(&known, info);
    }
    free(data);
}

static td_status test_now(td_device *device)
{
    verdict fresh;
    const td_digest key = make_key(&device->info); /* before the verdict changes the info */
    td_log_info("testing %s for the first time with this driver (once; takes a moment)", device->info.name);
    TD_CHECK(judge(device, &fresh));
    td_blob_cache_store(device->cache, "selftest", key, &fresh, sizeof fresh);
    apply(&fresh, &device->info);
    if (fresh.reason[0]) td_log_warn("%s: %s", device->info.name, fresh.reason);
    return TD_OK;
}

td_status td_selftest_ensure(td_device *device)
{
    td_device_info *info = &device->info;
    if (info->api == TD_API_SIM) return TD_OK;
    if (!info->selftest_done) td_selftest_recall(device->cache, info); /* since the registry was opened */
    if (!info->selftest_done) TD_CHECK(test_now(device));
    TD_REFUSE_IF(!info->selftest_passed, TD_ERR_UNSUPPORTED, "device %s cannot be used: %s", info->name,
                 info->reason);
    return TD_OK;
}
