/* Memory. See planner.h; times are in forecast.c. */
#include "tools/planner.h"

#include <stdlib.h>

#include "base/error.h"

enum { ROUND = 32, SMALL = 2, LARGE = 4, MOST_ITEMS = 4096 };

td_status td_planner_open(const char *model, td_planner *out)
{
    const td_device_info *info;
    td_registry_options options;
    td_status status = TD_OK;
    *out = (td_planner){0};
    td_registry_options_from_env(&options);
    options.sim_model = model ? model : "memory_mb=16777216,max_alloc_mb=2048";
    options.visible = NULL;
    TD_TRY(td_registry_open(&options, &out->registry));
    TD_TRY(td_registry_select(out->registry, "sim:0", &info));
    TD_TRY(td_device_open(out->registry, info, &out->device));
    TD_TRY(td_memory_create(out->device, "model", 0, &out->memory));
fail:
    return status;
}

void td_planner_close(td_planner *planner)
{
    td_memory_destroy(planner->memory);
    td_device_close(planner->device);
    td_registry_close(planner->registry);
    *planner = (td_planner){0};
}

/* ---------------------------------------------------------------- shapes */

static uint32_t round_up(uint32_t n)
{
    return (n + ROUND - 1) / ROUND * ROUND;
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

td_model_shape td_planner_shape(const td_train_settings *s, td_lengths longest)
{
    const td_mel_config mel = td_mel_config_default();
    const bool is_static = s->data.n_buckets == 1;
    uint32_t frames = s->data.max_mel_frames, tokens = s->data.max_text_length;
    if (!is_static && longest.frames > 0 && longest.frames < frames) frames = longest.frames;
    if (!is_static && longest.tokens > 0 && longest.tokens < tokens) tokens = longest.tokens;
    td_model_shape shape = {.items = 1, .frames = round_up(frames), .tokens = round_up(tokens)};
    if (s->model.speaker_encoder) {
        const double seconds = s->data.reference_s > 0 ? s->data.reference_s : 3;
        shape.reference_frames = td_mel_frames(&mel, (uint64_t)(seconds * mel.rate));
    }
    return shape;
}

double td_planner_batch_bytes(const td_train_settings *s, const td_model_shape *shape)
{
    const double tracks = 1 + td_data_wants(&s->data, "pitch"); /* energy, pitch */
    const double frames = (double)shape->frames * (s->model.n_mels + tracks);
    return 4.0 * shape->items *
           (frames + (double)shape->reference_frames * s->model.n_mels + (double)shape->tokens);
}

uint32_t td_planner_prefetch(const td_train_settings *s)
{
    const uint32_t usual = 64 / (s->data.batch_size > 0 ? s->data.batch_size : 1);
    if (s->prefetch_size > 0) return s->prefetch_size;
    return usual < 2 ? 2 : usual > 8 ? 8 : usual;
}

/* ---------------------------------------------------------------- needs */

td_status td_planner_plan(const td_planner *planner, const td_train_settings *s, const td_model_shape *shape,
                          td_plans **plans, td_shaped_plan **shaped)
{
    td_status status = TD_OK;
    td_plans_settings settings = {.memory = planner->memory,
                                  .model = s->model,
                                  .losses = s->losses,
                                  .grad_accum = s->grad_accum,
                                  .average = s->average,
                                  .plan = s->plan,
                                  .n_slots = 1};
    if (settings.model.max_frames < shape->frames) settings.model.max_frames = shape->frames;
    if (settings.model.max_tokens < shape->tokens) settings.model.max_tokens = shape->tokens;
    TD_TRY(td_plans_create(&settings, shape, plans));
    TD_TRY(td_plans_get(*plans, TD_USE_TRAIN, shape, shaped));
    return TD_OK;
fail:
    td_plans_destroy(*plans);
    *plans = NULL;
    return status;
}

static td_status plan_bytes(const td_planner *planner, const td_train_settings *s,
                            const td_model_shape *shape, double *out)
{
    td_plans *plans = NULL;
    td_shaped_plan *shaped;
    td_plan_stats stats;
    const td_status status = td_planner_plan(planner, s, shape, &plans, &shaped);
    if (status != TD_OK) return status;
    td_plan_get_stats(shaped->plan, &stats);
    *out = (double)(stats.arena_bytes + stats.store_bytes) +
           (td_planner_prefetch(s) + 1) * td_planner_batch_bytes(s, shape);
    td_plans_destroy(plans);
    return TD_OK;
}

td_status td_planner_need(const td_planner *planner, const td_train_settings *s, td_model_shape shape,
                          td_need *out)
{
    double small = 0, large = 0;
    td_status status = TD_OK;
    shape.items = SMALL;
    TD_TRY(plan_bytes(planner, s, &shape, &small));
    shape.items = LARGE;
    TD_TRY(plan_bytes(planner, s, &shape, &large));
    out->item_bytes = large > small ? (large - small) / (LARGE - SMALL) : 1;
    out->fixed_bytes = small - SMALL * out->item_bytes;
fail:
    return status;
}

uint64_t td_need_bytes(const td_need *need, uint32_t items)
{
    return (uint64_t)(need->fixed_bytes + need->item_bytes * items);
}

uint32_t td_need_largest(const td_need *need, uint64_t limit_bytes)
{
    const double fits = ((double)limit_bytes - need->fixed_bytes) / need->item_bytes;
    const uint32_t items = fits < 1 ? 0 : fits > MOST_ITEMS ? MOST_ITEMS : (uint32_t)fits;
    return items > 8 ? items / 8 * 8 : items;
}

uint64_t td_planner_data_bytes(const td_train_settings *s, const td_model_shape *shape, uint32_t buffer_size,
                               bool is_single)
{
    const td_mel_config mel = td_mel_config_default();
    const double samples = ((double)shape->frames + shape->reference_frames + 2) * mel.hop_samples;
    const double batches = buffer_size + (is_single ? 0 : td_planner_prefetch(s) + 1);
    return (uint64_t)(batches * td_planner_batch_bytes(s, shape) + 4 * shape->items * samples);
}
