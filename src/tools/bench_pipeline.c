/* See bench_pipeline.h. */
#include "tools/bench_pipeline.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/stats.h"

const char *td_pipeline_way_name(td_pipeline_way way)
{
    static const char *const NAMES[] = {"single_device", "unoverlapped", "two_device"};
    return NAMES[way];
}

void td_bench_pipeline_free(td_bench_pipeline_result *result)
{
    for (int way = 0; way < TD_WAY_COUNT; ++way)
        td_profile_free(&result->profiles[way]);
}

/* Of the steps that count. */
static td_status find_median(const td_profile *profile, double *out)
{
    const size_t n = profile->n_times - profile->n_warm_up - 1;
    const td_batch_times *times = profile->times + profile->n_warm_up;
    double *ms = NULL;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&ms, n));
    for (size_t i = 0; i < n; ++i)
        ms[i] = 1e-6 *
                (double)(times[i + 1].stages[TD_STAGE_TRAIN].end_ns - times[i].stages[TD_STAGE_TRAIN].end_ns);
    *out = td_stats_of(ms, n).median;
fail:
    free(ms);
    return status;
}

td_status td_bench_pipeline_run(td_registry *registry, const td_roles *roles,
                                const td_train_settings *settings, uint64_t steps,
                                td_bench_pipeline_result *out)
{
    td_status status = TD_OK;
    *out = (td_bench_pipeline_result){0};
    TD_FAIL_IF(roles->data == roles->model, TD_ERR_CONFIG,
               "bench pipeline compares one device with two; add --data-device SEL beside --model-device");
    for (int way = 0; way < TD_WAY_COUNT; ++way) {
        td_roles chosen = *roles;
        td_train_settings s = *settings;
        if (way == TD_WAY_SINGLE) chosen = (td_roles){TD_ROLES_SINGLE, roles->model, roles->model};
        s.is_serial = way == TD_WAY_SERIAL;
        TD_TRY(td_profile_train(registry, &chosen, &s, steps, &out->profiles[way]));
        TD_TRY(find_median(&out->profiles[way], &out->median_ms[way]));
    }
fail:
    return status;
}
