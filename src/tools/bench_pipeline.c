/* See bench_pipeline.h. */
#include "tools/bench_pipeline.h"

#include "base/error.h"

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
        out->median_ms[way] = out->profiles[way].figures.step_ms.median;
    }
fail:
    return status;
}
