/* See need.h. */
#include "train/need.h"

#include "base/error.h"

enum { ROUND = 32, SMALL = 2, LARGE = 4, MOST_ITEMS = 4096 };

/* ---------------------------------------------------------------- rules */

uint32_t td_run_round_length(uint32_t n)
{
    return (n + ROUND - 1) / ROUND * ROUND;
}

uint32_t td_run_prefetch(const td_train_settings *s)
{
    const uint32_t usual = 64 / (s->data.batch_size > 0 ? s->data.batch_size : 1);
    if (s->prefetch_size > 0) return s->prefetch_size;
    return usual < 2 ? 2 : usual > 8 ? 8 : usual;
}

uint32_t td_run_reference_frames(const td_train_settings *s, const td_mel_config *mel)
{
    const double seconds = s->data.reference_s > 0 ? s->data.reference_s : TD_REFERENCE_S;
    const td_model_facts facts = td_model_describe(&s->model);
    if (!facts.takes_reference) return 0;
    if (facts.slice.most > 0) return td_mel_frames(mel, facts.slice.most);
    return td_mel_frames(mel, (uint64_t)(seconds * mel->rate));
}

td_batch_shape td_run_shape(const td_train_settings *s, td_lengths longest)
{
    const td_mel_config mel = td_mel_config_default();
    const bool is_static = s->data.n_buckets == 1;
    const uint32_t crop = td_model_crop_frames(&s->model);
    uint32_t frames = s->data.max_mel_frames, tokens = s->data.max_text_length;
    if (crop) return (td_batch_shape){.items = 1, .frames = crop, .tokens = 1};
    if (!is_static && longest.frames > 0 && longest.frames < frames) frames = longest.frames;
    if (!is_static && longest.tokens > 0 && longest.tokens < tokens) tokens = longest.tokens;
    return (td_batch_shape){.items = 1,
                            .frames = td_run_round_length(frames),
                            .tokens = td_run_round_length(tokens),
                            .reference_frames = td_run_reference_frames(s, &mel)};
}

/* The model of the settings, for batches of this shape. */
static td_model_config fit_model(const td_train_settings *s, const td_batch_shape *shape)
{
    td_model_config model = s->model;
    const td_model_facts now = td_model_describe(&model);
    const td_data_facts facts = {.n_symbols = now.n_symbols,
                                 .n_mels = now.n_mels,
                                 .has_predictions = s->acoustic != NULL,
                                 .max_tokens = shape->tokens,
                                 .max_frames = shape->frames,
                                 .tokens = shape->tokens,
                                 .frames = shape->frames};
    model.family->fit(&facts, NULL, &model.values);
    return model;
}

bool td_run_updates_in_backward(const td_train_settings *s, uint32_t n_ranks)
{
    return n_ranks <= 1 && s->grad_accum <= 1 && !(s->optimizer.max_norm > 0) && s->plan.half != TD_F16 &&
           s->dump_step == NULL && td_model_learners(&s->model) == 1;
}

/* What any learner takes, once. Inputs of one element are the family's own, and next to nothing. */
td_status td_run_batch_bytes(const td_train_settings *s, const td_batch_shape *shape, double *out)
{
    const td_model_config model = fit_model(s, shape);
    td_graph *graphs[TD_MAX_LEARNERS] = {0};
    const uint32_t n_learners = td_model_learners(&model);
    td_status status = TD_OK;
    *out = 0;
    for (uint32_t l = 0; l < n_learners; ++l) {
        TD_TRY(td_family_build(&(td_build){.config = &model, .shape = *shape, .learner = l}, &graphs[l]));
        for (size_t i = 0; i < td_graph_input_count(graphs[l]); ++i) {
            const td_tensor input = td_graph_input_at(graphs[l], i);
            bool is_known = false;
            for (uint32_t k = 0; k < l; ++k)
                is_known |= td_graph_find_input(graphs[k], td_graph_name(graphs[l], input)).id != 0;
            if (!is_known) *out += 4.0 * (double)td_shape_size(td_graph_shape(graphs[l], input));
        }
    }
fail:
    for (uint32_t l = 0; l < n_learners; ++l)
        td_graph_destroy(graphs[l]);
    return status;
}

/* ---------------------------------------------------------------- a step */

/* Buckets, and where they are wanted shards and reducers, of one learner. */
static td_status open_buckets(td_memory *memory, const td_train_settings *s, td_cluster *cluster,
                              uint32_t learner, td_ready_step *out)
{
    TD_CHECK(td_buckets_create(out->store, learner, s->bucket_bytes > 0 ? s->bucket_bytes : TD_BUCKET_BYTES,
                               &out->buckets[learner]));
    if (s->grad_accum > 1) TD_CHECK(td_buckets_want_sums(out->buckets[learner]));
    if (s->shard_optimizer)
        TD_CHECK(td_shards_create(cluster, out->store, out->buckets[learner], &out->shards[learner]));
    if (td_cluster_size(cluster) == 1) return TD_OK;
    return td_reducer_create(&(td_reducer_settings){.cluster = cluster,
                                                    .memory = memory,
                                                    .store = out->store,
                                                    .buckets = out->buckets[learner],
                                                    .format = s->reduce_format},
                             &out->reducers[learner]);
}

td_status td_ready_open(td_memory *memory, const td_train_settings *s, const td_batch_shape *shape,
                        td_ready_step *out)
{
    return td_ready_open_rank(memory, s, shape, NULL, out);
}

td_status td_ready_open_rank(td_memory *memory, const td_train_settings *s, const td_batch_shape *shape,
                             td_cluster *cluster, td_ready_step *out)
{
    const bool in_backward = cluster == NULL && td_run_updates_in_backward(s, 1);
    const td_store_options options = {.training = true,
                                      .average = s->average,
                                      .half = s->plan.half,
                                      .state = s->state,
                                      .host_moments = s->host_moments,
                                      .no_gradients = in_backward,
                                      .half_frozen = s->model.family->carries,
                                      .no_moments = cluster != NULL && s->shard_optimizer};
    td_learner_settings settings = {.model = fit_model(s, shape),
                                    .grad_accum = s->grad_accum,
                                    .freeze = s->freeze,
                                    .plan = s->plan,
                                    .in_backward = in_backward,
                                    .n_slots = 1,
                                    .pace = {{.lr = 1, .kind = TD_SCHEDULE_CONSTANT}, s->optimizer}};
    *out = (td_ready_step){0};
    TD_CHECK(td_family_store(memory, &settings.model, s->freeze, &options, &out->store));
    settings.store = out->store;
    for (uint32_t l = 0; cluster != NULL && l < td_model_learners(&settings.model); ++l)
        TD_CHECK(open_buckets(memory, s, cluster, l, out)); /* plans look for all of them */
    for (; settings.number < td_model_learners(&settings.model); ++settings.number) {
        td_shaped_plan *shaped;
        const size_t n = out->n_learners;
        settings.buckets = out->buckets[n];
        settings.shards = out->shards[n];
        TD_CHECK(td_learner_open(&settings, &out->learners[n]));
        ++out->n_learners;
        TD_CHECK(td_learner_plan(out->learners[n], TD_USE_TRAIN, shape, &shaped));
        out->plans[n] = shaped->plan;
        out->graphs[n] = shaped->graph;
    }
    return TD_OK;
}

td_status td_ready_run(td_ready_step *step, uint32_t grad_accum, uint32_t number, bool reduces,
                       td_point *updated)
{
    for (size_t i = 0; i < step->n_learners; ++i)
        if (step->shards[i] != NULL) td_shards_rest(step->shards[i], !reduces);
    for (uint32_t micro = 0; micro < grad_accum; ++micro) {
        for (size_t i = 0; i < step->n_learners; ++i) {
            const td_run run = {.step = number * grad_accum + micro, .adds = micro > 0};
            TD_CHECK(td_optimizer_begin(td_learner_optimizer(step->learners[i]), 0));
            TD_CHECK(td_plan_run(step->plans[i], &run, NULL));
            if (reduces && micro + 1 == grad_accum)
                TD_CHECK(td_reducer_begin(step->reducers[i], td_plan_ready(step->plans[i])));
        }
    }
    for (size_t i = 0; i < step->n_learners; ++i) {
        if (reduces) TD_CHECK(td_reducer_finish(step->reducers[i]));
        TD_CHECK(td_optimizer_step(td_learner_optimizer(step->learners[i]), 0, updated));
    }
    return TD_OK;
}

void td_ready_close(td_ready_step *step)
{
    for (size_t i = 0; i < TD_MAX_LEARNERS; ++i) {
        td_reducer_destroy(step->reducers[i]);
        td_learner_close(step->learners[i]);
        td_shards_destroy(step->shards[i]);
        td_buckets_destroy(step->buckets[i]);
    }
    td_store_destroy(step->store);
    *step = (td_ready_step){0};
}

/* The arena is shared: that of the largest plan counts. */
uint64_t td_ready_bytes(const td_ready_step *step)
{
    uint64_t arena = 0, store = 0;
    for (size_t i = 0; i < step->n_learners; ++i) {
        td_plan_stats stats;
        td_plan_get_stats(step->plans[i], &stats);
        if (stats.arena_bytes > arena) arena = stats.arena_bytes;
        store = stats.store_bytes;
    }
    return arena + store;
}

/* ---------------------------------------------------------------- needs */

static td_status count_bytes(td_memory *memory, const td_train_settings *s, const td_batch_shape *shape,
                             double *out)
{
    td_ready_step step = {0};
    double batch_bytes = 0;
    td_status status = TD_OK;
    TD_TRY(td_run_batch_bytes(s, shape, &batch_bytes));
    TD_TRY(td_ready_open(memory, s, shape, &step));
    *out = (double)td_ready_bytes(&step) + (td_run_prefetch(s) + 1) * batch_bytes;
fail:
    td_ready_close(&step);
    return status;
}

td_status td_run_need(td_memory *memory, const td_train_settings *s, td_batch_shape shape, td_need *out)
{
    double small = 0, large = 0;
    shape.items = SMALL;
    TD_CHECK(count_bytes(memory, s, &shape, &small));
    shape.items = LARGE;
    TD_CHECK(count_bytes(memory, s, &shape, &large));
    out->item_bytes = large > small ? (large - small) / (LARGE - SMALL) : 1;
    out->fixed_bytes = small - SMALL * out->item_bytes;
    return TD_OK;
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
