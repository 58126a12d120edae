/* Memory. See planner.h; times are in forecast.c. */
#include "tools/planner.h"

#include <string.h>

#include <stdlib.h>

#include "base/error.h"

td_status td_planner_open(const char *model, td_planner *out)
{
    const td_device_info *info;
    td_registry_options options;
    *out = (td_planner){0};
    td_registry_options_from_env(&options);
    options.sim_model = model ? model : "memory_mb=16777216,max_alloc_mb=2048";
    options.visible = NULL;
    TD_CHECK(td_registry_open(&options, &out->registry));
    TD_CHECK(td_registry_select(out->registry, "sim:0", &info));
    TD_CHECK(td_device_open(out->registry, info, &out->device));
    return td_memory_create(out->device, "model", 0, &out->memory);
}

void td_planner_close(td_planner *planner)
{
    td_memory_destroy(planner->memory);
    td_device_close(planner->device);
    td_registry_close(planner->registry);
    *planner = (td_planner){0};
}

const char *td_planner_usual(const td_model_config *model, const char *key)
{
    if (model->family->usual == NULL) return NULL;
    for (const td_usual *row = model->family->usual(&model->values); row->key != NULL; ++row)
        if (strcmp(row->key, key) == 0) return row->value;
    return NULL;
}

td_status td_planner_measure(const td_data_settings *data, td_lengths *out)
{
    const td_mel_config mel = td_mel_config_default();
    td_pool *pool = NULL;
    td_dataset *dataset = NULL;
    td_sampler_row *rows = NULL;
    td_status status = TD_OK;
    *out = (td_lengths){0};
    TD_TRY(td_pool_create(0, &pool));
    TD_TRY(td_dataset_open(&data->dataset, pool, &dataset));
    TD_TRY(TD_NEW_ARRAY(&rows, dataset->n_train + 1));
    td_loader_lengths(dataset, dataset->train, dataset->n_train, &mel, rows);
    for (size_t i = 0; i < dataset->n_train; ++i) {
        if (rows[i].frames > out->frames) out->frames = rows[i].frames;
        if (rows[i].tokens > out->tokens) out->tokens = rows[i].tokens;
    }
fail:
    free(rows);
    td_dataset_close(dataset);
    td_pool_destroy(pool);
    return status;
}

td_status td_planner_data_bytes(const td_train_settings *s, const td_batch_shape *shape, uint32_t buffer_size,
                                bool is_single, uint64_t *out)
{
    const td_mel_config mel = td_mel_config_default();
    const double samples = ((double)shape->frames + shape->reference_frames + 2) * mel.hop_samples;
    const double batches = buffer_size + (is_single ? 0 : td_run_prefetch(s) + 1);
    double batch_bytes = 0;
    TD_CHECK(td_run_batch_bytes(s, shape, &batch_bytes));
    *out = (uint64_t)(batches * batch_bytes + 4 * shape->items * samples);
    return TD_OK;
}
