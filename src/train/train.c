/* Opens all that a run needs, runs the loop, closes it again. See train.h. Covered by
 * tests/train/test_train_run.c and tests/cli/test_train.py. */
#include "train/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "data/pair.h"
#include "train/hear.h"
#include "train/need.h"
#include "train/train_internal.h"

enum { BUFFER_SIZE = 50 };

/* ---------------------------------------------------------------- small things */

td_batch_shape td_trainer_largest_shape(const td_trainer *t, uint32_t items)
{
    td_batch_shape shape = {
        .items = items, .reference_frames = td_run_reference_frames(&t->s, td_mel_get_config(t->data.mel))};
    for (size_t i = 0; i < td_sampler_shape_count(t->train.sampler); ++i) {
        uint32_t frames, tokens;
        td_sampler_shape(t->train.sampler, i, &frames, &tokens);
        if (frames > shape.frames) shape.frames = frames;
        if (tokens > shape.tokens) shape.tokens = tokens;
    }
    return shape;
}

td_status td_trainer_tell(td_trainer *t, td_train_event *event)
{
    event->ranks = t->n_ranks;
    if (t->s.tell != NULL && t->rank == 0) t->s.tell(t->s.context, event);
    return t->record != NULL ? td_record_event(t->record, event) : TD_OK;
}

td_status td_trainer_tell_warnings(td_trainer *t)
{
    char text[TD_WARNING_BYTES];
    while (td_warnings_take(t->warnings, text)) {
        td_train_event event = {.kind = TD_TRAIN_WARNING,
                                .step = t->state.step,
                                .epoch = t->state.sampler.epoch,
                                .distance = NAN,
                                .text = text};
        TD_CHECK(td_trainer_tell(t, &event));
    }
    return TD_OK;
}

/* The term of this name, added if the event has none. */
static double *find_term(td_trainer *t, td_train_event *event, const char *name)
{
    size_t at = 0;
    while (at < event->n_terms && strcmp(event->names[at], name) != 0)
        ++at;
    if (at == TD_TRAIN_TERMS) return NULL;
    if (at == event->n_terms) {
        snprintf(t->names[at], sizeof t->names[at], "%s", name);
        event->names[at] = t->names[at];
        event->values[at] = 0;
        ++event->n_terms;
    }
    return &event->values[at];
}

void td_trainer_add(td_trainer *t, size_t learner, const td_scalars *scalars, double weight,
                    td_train_event *event)
{
    const bool judges = learner == t->info.model.family->judge;
    (void)find_term(t, event, "loss"); /* is the first */
    for (size_t i = 0; i < scalars->count; ++i) {
        const bool is_own = t->n_learners == 1 || (judges && strcmp(scalars->names[i], "loss") == 0);
        char name[sizeof t->names[0]];
        snprintf(name, sizeof name, "%s%s%s", is_own ? "" : td_learner_name(t->learners[learner]),
                 is_own ? "" : ".", scalars->names[i]);
        double *value = find_term(t, event, name);
        if (value != NULL) *value += weight * (double)scalars->values[i];
    }
}

/* ---------------------------------------------------------------- data */

/* With one device the loader's batches are the model's; with two each side has its own. */
static void plan_rooms(td_trainer *t)
{
    t->n_rooms = td_run_prefetch(&t->s) + 1; /* one is in use */
    t->s.data.n_ready = t->n_rooms;
    if (t->data_device == t->device) return;
    t->s.data.n_ready = t->s.buffer_size > 0 ? t->s.buffer_size : BUFFER_SIZE;
    if (t->s.is_serial) t->n_rooms = 1;
}

td_status td_trainer_start_batches(td_trainer *t, td_batches *batches, td_monitor *monitor)
{
    const td_batches_way way = {
        .model = t->model_memory, .n_ready = t->n_rooms, .verify = t->s.verify_transfers, .monitor = monitor};
    return td_batches_start(batches, &way);
}

/* A checkpoint of another family is refused later, with the reason. */
static td_status open_frozen(td_trainer *t)
{
    const td_checkpoint *from = t->from;
    if (t->resumes && td_checkpoint_get_info(from)->model.family != t->info.model.family) from = NULL;
    TD_CHECK(td_frozen_open(t->data_memory, &t->info.model, t->s.seed, from, t->resumes, &t->frozen));
    return td_frozen_join(t->frozen, &t->data);
}

/* What the voice predicts of the rows, if there is one, or what its frozen parts make of them. */
static td_status open_predictions(td_trainer *t, td_data *data, td_predictions **out)
{
    const bool hears = td_hears(&t->info.model);
    if (t->acoustic == NULL && !hears) return TD_OK;
    if (hears)
        TD_CHECK(td_hear_rows(t->from, data, out));
    else
        TD_CHECK(td_predict_rows(t->acoustic, data, out));
    data->predictions = *out;
    return TD_OK;
}

/* What an input is filled with: a feature of batches, or a number that the family tells. */
static td_status choose_feature(td_trainer *t, const td_graph *graph, td_tensor input, bool is_inner)
{
    const td_family *family = t->info.model.family;
    const char *name = td_graph_name(graph, input);
    if (td_data_knows(&t->data, name))
        return is_inner ? td_data_want_inner(&t->s.data, name) : td_data_want(&t->s.data, name);
    if (family->scalar != NULL && td_shape_size(td_graph_shape(graph, input)) == 1) return TD_OK;
    return TD_FAIL(TD_ERR_ARGUMENT, "a graph of family %s takes '%s', which no batch has", family->name,
                   name);
}

/* What frozen parts read must be made too, if anybody takes what they make. */
static td_status choose_frozen_features(td_trainer *t)
{
    const td_family *family = t->info.model.family;
    td_status status = TD_OK;
    td_graph *graph = NULL;
    td_tensor output;
    for (size_t p = 0; p < family->n_frozen; ++p) {
        if (!td_data_wants(&t->s.data, family->frozen[p].name)) continue;
        TD_TRY(td_family_frozen_graph(&t->info.model, p, NULL, &graph, &output));
        for (size_t i = 0; i < td_graph_input_count(graph); ++i)
            TD_TRY(choose_feature(t, graph, td_graph_input_at(graph, i), true));
        td_graph_destroy(graph);
        graph = NULL;
    }
fail:
    td_graph_destroy(graph);
    return status;
}

/* What the learners take of a batch is what the loaders make: the inputs of their graphs. */
static td_status choose_features(td_trainer *t)
{
    td_status status = TD_OK;
    td_graph *graph = NULL;
    t->s.data.n_features = t->s.data.n_inner_features = 0;
    for (uint32_t l = 0; l < td_model_learners(&t->info.model); ++l) {
        TD_TRY(td_family_least_graph(&t->info.model, l, NULL, &graph));
        for (size_t i = 0; i < td_graph_input_count(graph); ++i)
            TD_TRY(choose_feature(t, graph, td_graph_input_at(graph, i), false));
        td_graph_destroy(graph);
        graph = NULL;
    }
    TD_TRY(choose_frozen_features(t));
    if (td_data_wants(&t->s.data, "reference_mel") && !(t->s.data.reference_s > 0) &&
        t->s.data.slice.most == 0)
        t->s.data.reference_s = TD_REFERENCE_S;
    TD_FAIL_IF(t->acoustic != NULL && !td_data_wants(&t->s.data, "predicted_mel"), TD_ERR_CONFIG,
               "training.acoustic is for vocoders; a model of family %s does not learn from predictions",
               t->info.model.family->name);
    t->s.data.crop_frames = td_model_crop_frames(&t->info.model);
    t->s.data.frames_per_step = td_model_describe(&t->info.model).frames_per_step;
    t->data.settings = t->s.data;
fail:
    td_graph_destroy(graph);
    return status;
}

/* Batches that the data device may be ahead, so that its slowest batch does not stop the model: by a trial of
 * some batches. */
static td_status tune_buffer(td_trainer *t)
{
    enum { TRIAL = 6, LEAST = 8, MOST = 100 };
    td_batches trial = {0};
    td_data_rows rows = t->train.rows;
    td_batch batch;
    double slowest_ms = 0, sum_ms = 0;
    td_status status = TD_OK;
    if (!t->s.auto_tune || t->data_device == t->device) return TD_OK;
    rows.n_batches = TRIAL;
    TD_TRY(td_batches_open(&t->data, &rows, &trial));
    TD_TRY(td_batches_start(&trial, &(td_batches_way){0}));
    for (int i = 0; i < TRIAL; ++i) {
        TD_TRY(td_batches_next(&trial, &batch));
        const double ms = 1e-6 * (double)(batch.load_end_ns - batch.load_start_ns);
        td_batches_release(&trial, &batch, (td_point){0});
        sum_ms += ms;
        if (ms > slowest_ms) slowest_ms = ms;
    }
    const double mean_ms = sum_ms / TRIAL;
    const double size = 2 * (double)t->data.workers * ceil(mean_ms > 0 ? slowest_ms / mean_ms : 1);
    t->s.data.n_ready = size < LEAST ? LEAST : size > MOST ? MOST : (uint32_t)size;
    t->data.settings.n_ready = t->s.data.n_ready;
    td_log_info("buffer of %u batches: %zu workers, batches load in %.1f ms, the slowest in %.1f ms",
                t->s.data.n_ready, t->data.workers, mean_ms, slowest_ms);
fail:
    td_batches_close(&trial);
    return status;
}

static td_status open_training(td_trainer *t)
{
    td_data_rows rows = {
        .rows = t->data.dataset->train, .n_rows = t->data.dataset->n_train, .last = TD_LAST_FILL};
    TD_CHECK(td_data_open_cache(&t->data, &t->cache));
    rows.cache = t->cache;
    TD_CHECK(td_batches_open(&t->data, &rows, &t->train));
    if (t->s.auto_batch) {
        TD_CHECK(td_trainer_find_batch_size(t, &t->s.data.batch_size));
        TD_CHECK(td_trainer_least(t, &t->s.data.batch_size));
        t->data.settings.batch_size = t->s.data.batch_size;
        td_batches_close(&t->train);
        TD_CHECK(td_batches_open(&t->data, &rows, &t->train));
    }
    if (t->s.data.batch_size > rows.n_rows)
        td_log_warn("%zu rows train, fewer than a batch of %u: batches are filled up with rows drawn again",
                    rows.n_rows, t->s.data.batch_size);
    TD_CHECK(tune_buffer(t));
    const size_t left_out = td_sampler_left_out(t->train.sampler);
    if (left_out > 0)
        td_log_warn(
            "%zu of %zu rows are longer than data.max_mel_frames or data.max_text_length and left out",
            left_out, rows.n_rows);
    return TD_OK;
}

/* A model with a table of speakers cannot be validated with others. */
static void leave_out_strangers(td_trainer *t)
{
    char place[TD_FILE_PATH_BYTES + 16];
    uint32_t first;
    td_dataset *val = t->val_data.dataset;
    const size_t n_known = td_model_describe(&t->info.model).n_speakers;
    const size_t n_left_out = n_known > 0 ? td_dataset_keep_speakers(val, n_known, &first) : 0;
    if (n_left_out == 0) return;
    const td_block_row *row = &val->view.rows[first];
    td_dataset_place(val, row->line, place);
    td_log_warn("%zu rows do not validate, since their speakers do not train; the first is %s: '%s'",
                n_left_out, place, td_block_string(&val->view, val->view.speakers[row->speaker]));
}

/* Rows of a table of their own (pair.h), else the dataset's own share, else, so that there is something to
 * look at, the first training rows. */
static td_status open_validation(td_trainer *t)
{
    const td_data *data = &t->data;
    td_data_settings settings = t->s.data;
    td_data_rows rows = {.rows = t->data.dataset->val,
                         .n_rows = t->data.dataset->n_val,
                         .last = TD_LAST_KEEP,
                         .in_order = true,
                         .cache = t->cache};
    if (t->has_val) {
        settings.dataset = t->val_plan;
        settings.dataset.symbols = t->info.symbols[0] != '\0' ? t->info.symbols : NULL;
        settings.dataset.table.speakers = t->speakers;
        TD_CHECK(td_data_open(t->data_memory, &settings, &t->val_data));
        TD_CHECK(td_dataset_pair_check(t->data.dataset, t->val_data.dataset));
        leave_out_strangers(t);
        TD_CHECK(td_frozen_join(t->frozen, &t->val_data));
        TD_CHECK(open_predictions(t, &t->val_data, &t->val_predictions));
        TD_CHECK(td_data_open_cache(&t->val_data, &t->val_cache));
        data = &t->val_data;
        rows.rows = data->dataset->train;
        rows.n_rows = data->dataset->n_train;
        rows.cache = t->val_cache;
    }
    if (t->s.val_every == 0 && t->s.sample_every == 0) return TD_OK;
    if (rows.n_rows == 0) {
        td_log_warn("no rows validate; the first training rows stand in for them");
        rows.rows = t->data.dataset->train;
        rows.n_rows =
            t->data.dataset->n_train < t->s.data.batch_size ? t->data.dataset->n_train : t->s.data.batch_size;
    }
    td_log_info("%zu rows of %s validate, %zu of %s train", rows.n_rows, data->dataset->metadata_path,
                t->data.dataset->n_train, t->data.dataset->metadata_path);
    TD_CHECK(td_batches_open(data, &rows, &t->val));
    return td_trainer_start_batches(t, &t->val, NULL);
}

/* ---------------------------------------------------------------- model */

static td_status open_learners(td_trainer *t)
{
    td_learner_settings settings = {.store = t->store,
                                    .model = t->info.model,
                                    .seed = t->s.seed,
                                    .grad_accum = t->n_micro,
                                    .no_dropout = t->s.dump_step != NULL,
                                    .freeze = t->s.freeze,
                                    .plan = t->s.plan,
                                    .in_backward = td_run_updates_in_backward(&t->s, t->n_ranks),
                                    .n_slots = t->n_rooms,
                                    .pace = {t->s.schedule, t->s.optimizer}};
    for (; settings.number < td_model_learners(&t->info.model); ++settings.number) {
        settings.buckets = t->buckets[settings.number];
        settings.shards = t->shards[settings.number];
        TD_CHECK(td_learner_open(&settings, &t->learners[t->n_learners]));
        ++t->n_learners;
    }
    return TD_OK;
}

/* A pattern that freezes nothing is a mistake. */
static td_status check_freeze(const td_trainer *t)
{
    size_t frozen = 0, all = 0;
    if (t->s.freeze == NULL || t->s.freeze[0] == '\0') return TD_OK;
    for (size_t i = 0; i < td_store_count(t->store); ++i) {
        const td_store_entry entry = td_store_get(t->store, i);
        if (entry.role != TD_TENSOR_PARAMETER) continue;
        ++all;
        frozen += entry.learner == TD_MAX_LEARNERS;
    }
    if (frozen == 0)
        return TD_FAIL(TD_ERR_CONFIG,
                       "training.freeze '%s' names no parameter; `tandem inspect -v CHECKPOINT` lists them, "
                       "and * stands "
                       "for anything",
                       t->s.freeze);
    td_log_info("%zu of %zu tensors are not trained", frozen, all);
    return TD_OK;
}

/* What a graph itself writes in every step, such as moving averages, would differ from rank to rank. */
static td_status check_states(const td_trainer *t)
{
    for (size_t i = 0; t->n_ranks > 1 && i < td_store_count(t->store); ++i) {
        const td_store_entry entry = td_store_get(t->store, i);
        TD_REFUSE_IF(entry.role == TD_TENSOR_STATE && entry.state_kind == TD_STATE_KEPT, TD_ERR_UNSUPPORTED,
                     "%s moves with every batch, which ranks do not share yet; train the family %s without a "
                     "launcher",
                     entry.name, t->info.model.family->name);
    }
    return TD_OK;
}

static td_status open_model(td_trainer *t)
{
    td_status status = TD_OK;
    const td_store_options options = {.training = true,
                                      .average = t->s.average,
                                      .half = t->s.plan.half,
                                      .state = t->s.state,
                                      .host_moments = t->s.host_moments,
                                      .no_gradients = td_run_updates_in_backward(&t->s, t->n_ranks),
                                      .half_frozen = t->info.rest != NULL,
                                      .no_moments = t->n_ranks > 1 && t->s.shard_optimizer};
    td_checkpoint_tensor_data *constants = NULL;
    TD_TRY(td_family_store(t->model_memory, &t->info.model, t->s.freeze, &options, &t->store));
    TD_TRY(check_freeze(t));
    TD_TRY(check_states(t));
    for (uint32_t i = 0; i < td_model_learners(&t->info.model); ++i)
        TD_TRY(td_trainer_make_buckets(t, i));
    TD_TRY(td_trainer_load_start(t));
    TD_TRY(open_learners(t));
    TD_TRY(td_trainer_open_reducers(t));
    if (t->rank > 0) return TD_OK; /* writes nothing */
    size_t n_frozen;
    const td_checkpoint_tensor_data *frozen = td_frozen_tensors(t->frozen, &n_frozen);
    TD_TRY(TD_NEW_ARRAY(&constants, n_frozen + 1));
    if (n_frozen > 0) memcpy(constants, frozen, n_frozen * sizeof *constants);
    constants[n_frozen] = td_marks_tensor(&t->marks);
    TD_TRY(td_snapshot_create(t->model_memory, t->store, &t->info, t->shards, constants, n_frozen + 1,
                              &t->snapshot));
fail:
    free(constants);
    return status;
}

/* ---------------------------------------------------------------- the whole */

static td_status find_end(td_trainer *t)
{
    const uint64_t per_epoch = td_sampler_batches_per_epoch(t->train.sampler);
    t->max_step = t->s.max_steps;
    if (t->s.epochs > 0) {
        const uint64_t steps = (t->s.epochs * per_epoch + t->n_micro - 1) / t->n_micro;
        if (t->max_step == 0 || steps < t->max_step) t->max_step = steps;
    }
    td_schedule *schedule = &t->s.schedule;
    if (schedule->decay_steps == 0)
        schedule->decay_steps =
            t->max_step > schedule->warmup_steps ? t->max_step - schedule->warmup_steps : 100000;
    return td_schedule_check(schedule);
}

/* Room for the checkpoints that will lie in the folder at once: those that are kept, the best one, and one
 * that is being written. */
static td_status forecast_space(const td_trainer *t)
{
    const uint64_t ahead = t->max_step > t->state.step ? t->max_step - t->state.step : 0;
    const uint64_t dues = t->max_step > 0 && t->s.save_every > 0 ? ahead / t->s.save_every + 1 : t->s.keep;
    const bool judges = t->s.val_every > 0 || t->s.sample_every > 0;
    if (t->max_step > 0 && ahead == 0) return TD_OK;
    return td_run_dir_forecast(t->run, td_snapshot_bytes(t->snapshot),
                               (dues < t->s.keep ? dues : t->s.keep) + 1 + judges);
}

static td_status open_files(td_trainer *t)
{
    char path[TD_FILE_PATH_BYTES];
    TD_CHECK(td_side_create(&t->side));
    TD_CHECK(td_side_create(&t->painter));
    if (t->rank > 0) return TD_OK;
    if (t->s.config_text != NULL) {
        TD_CHECK(td_run_dir_path(t->run, "config.ini", path));
        TD_CHECK(td_file_write_atomic(path, t->s.config_text, strlen(t->s.config_text)));
    }
    if (!t->s.is_trial && t->s.dump_step == NULL) TD_CHECK(forecast_space(t));
    TD_CHECK(td_run_dir_path(t->run, "samples", path));
    TD_CHECK(td_file_make_dirs(path));
    return td_record_open(t->run, t->s.events_dir != NULL ? t->s.events_dir : td_run_dir_name(t->run),
                          t->state.step, &t->record);
}

static td_status tell_start(td_trainer *t)
{
    td_train_event event = {.kind = TD_TRAIN_START,
                            .step = t->state.step,
                            .epoch = t->state.sampler.epoch,
                            .batch_size = t->s.data.batch_size,
                            .batches_per_epoch = td_sampler_batches_per_epoch(t->train.sampler),
                            .start_step = t->state.step,
                            .max_step = t->max_step,
                            .data_device = td_device_get_info(t->data_device),
                            .model_device = td_device_get_info(t->device),
                            .layout = t->data.dataset->source.layout->name,
                            .distance = NAN,
                            .text = td_run_dir_name(t->run)};
    TD_CHECK(td_family_parameters(&t->info.model, &event.parameters));
    TD_CHECK(td_trainer_introduce(t, &event));
    return td_trainer_tell(t, &event);
}

/* The run is watched also where nobody asked for its times. */
static td_status open_watch(td_trainer *t)
{
    const bool is_single = t->data_device == t->device;
    if (t->s.monitor != NULL) return TD_OK;
    TD_CHECK(td_monitor_create(TD_MONITOR_WINDOW, is_single, &t->own_monitor));
    t->s.monitor = t->own_monitor;
    t->watch = (td_watch){.monitor = t->own_monitor, .is_single = is_single, .capacity = TD_MONITOR_WINDOW};
    return TD_OK;
}

/* Rank 0 goes ahead: it makes the run's folder and what is cached of the dataset, which the others then
 * find. */
static td_status open_first(td_trainer *t)
{
    if (t->rank > 0) TD_CHECK(td_cluster_barrier(t->s.cluster));
    if (t->rank == 0)
        TD_CHECK(td_run_dir_open(t->s.run_dir, &t->run));
    else
        TD_CHECK(td_run_dir_look(t->s.run_dir, &t->run));
    TD_CHECK(td_trainer_find_start(t));
    if (t->s.acoustic != NULL) TD_CHECK(td_checkpoint_open(t->s.acoustic, &t->acoustic));
    TD_CHECK(td_memory_create(t->data_device, "data", t->s.data_limit_bytes, &t->data_memory));
    TD_CHECK(td_memory_create(t->device, "model", t->s.model_limit_bytes, &t->model_memory));
    plan_rooms(t);
    TD_CHECK(td_trainer_open_data(t));
    if (t->rank == 0 && t->n_ranks > 1) TD_CHECK(td_cluster_barrier(t->s.cluster));
    return TD_OK;
}

static td_status check_start(td_trainer *t)
{
    TD_REFUSE_IF(t->s.run_dir == NULL, TD_ERR_CONFIG,
                 "no folder for the run was named; set training.checkpoint_dir");
    if (t->s.grad_accum == 0) t->s.grad_accum = 1;
    if (t->s.depth == 0) t->s.depth = 2;
    if (t->s.keep == 0) t->s.keep = 5;
    TD_REFUSE_IF(t->s.depth > TD_SCALAR_RING, TD_ERR_CONFIG, "pipeline.pipeline_depth is %u; put 1 to %d",
                 t->s.depth, TD_SCALAR_RING);
    if (t->s.dump_step != NULL) t->s.grad_accum = 1;
    t->n_ranks = t->s.cluster != NULL ? td_cluster_size(t->s.cluster) : 1;
    t->rank = t->n_ranks > 1 ? td_cluster_rank(t->s.cluster) : 0;
    t->n_micro = t->s.grad_accum * t->n_ranks;
    TD_REFUSE_IF(t->n_ranks > 1 && t->s.dump_step != NULL, TD_ERR_CONFIG,
                 "logging.dump_step writes out one step of one rank; start it without a launcher");
    return TD_OK;
}

static td_status open_trainer(td_trainer *t)
{
    TD_CHECK(check_start(t));
    TD_CHECK(td_trainer_meet(t));
    TD_CHECK(open_first(t));
    TD_CHECK(td_trainer_describe(t));
    if (t->info.model.family->speaker == NULL) t->s.best_by_distance = false;
    TD_CHECK(open_frozen(t));
    TD_CHECK(choose_features(t));
    TD_CHECK(open_predictions(t, &t->data, &t->predictions));
    TD_CHECK(open_training(t));
    TD_CHECK(find_end(t));
    t->state = (td_train_state){
        .best_loss = NAN, .best_by_distance = t->s.best_by_distance, .loss = NAN, .val_loss = NAN};
    TD_CHECK(open_model(t));
    t->state.seed = t->s.seed;
    t->state.batch_size = t->s.data.batch_size;
    t->state.grad_accum = t->n_micro;
    t->first_loss = t->state.loss > 1 ? t->state.loss : NAN;
    const uint64_t data = td_trainer_hash_data(t->data.dataset);
    const bool changed = t->state.data != 0 && t->state.data != data;
    t->state.data = data;
    if (changed || td_sampler_set_state(t->train.sampler, t->state.sampler) != TD_OK) {
        td_log_warn("other rows train than when the checkpoint was written: the epoch starts over");
        t->state.sampler.position = 0;
        TD_CHECK(td_sampler_set_state(t->train.sampler, t->state.sampler));
    }
    TD_CHECK(td_trainer_compare_ranks(t));
    TD_CHECK(td_trainer_share_start(t));
    TD_CHECK(td_trainer_balance(t));
    TD_CHECK(open_files(t));
    TD_CHECK(open_watch(t));
    if (t->rank == 0) TD_CHECK(open_validation(t));
    TD_CHECK(td_trainer_start_batches(t, &t->train, t->s.monitor));
    TD_CHECK(tell_start(t));
    return td_trainer_tell_warnings(t);
}

/* In the order of who uses whom; what the device still does is waited for first. */
static void close_trainer(td_trainer *t)
{
    td_warnings_close(t->warnings);
    td_side_destroy(t->side);
    td_side_destroy(t->painter);
    (void)td_queue_finish(td_device_queue(t->device, TD_QUEUE_COMPUTE));
    td_batches_close(&t->train);
    td_batches_close(&t->val);
    td_snapshot_destroy(t->snapshot);
    for (size_t i = 0; i < t->n_learners; ++i) {
        td_reducer_destroy(t->reducers[i]);
        td_learner_close(t->learners[i]);
    }
    for (size_t i = 0; i < TD_MAX_LEARNERS; ++i) {
        td_shards_destroy(t->shards[i]);
        td_buckets_destroy(t->buckets[i]);
    }
    free(t->rank_figures);
    td_speaker_destroy(t->speaker);
    td_store_destroy(t->store);
    td_record_close(t->record);
    td_mel_cache_close(t->cache);
    td_mel_cache_close(t->val_cache);
    td_frozen_close(t->frozen);
    td_data_close(&t->val_data);
    td_data_close(&t->data);
    td_memory_destroy(t->model_memory);
    td_memory_destroy(t->data_memory);
    td_monitor_destroy(t->own_monitor);
    td_predictions_free(t->predictions);
    td_predictions_free(t->val_predictions);
    td_checkpoint_close(t->acoustic);
    td_checkpoint_close(t->from);
    td_run_dir_close(t->run);
    td_marks_free(&t->marks);
    free(t->symbols);
    free(t->unseen);
    free(t->speakers);
    free(t->bpe_json);
}

static uint64_t get_peak(const td_memory *memory)
{
    td_memory_stats stats;
    td_memory_get_stats(memory, &stats);
    return stats.peak_used_bytes;
}

const char *td_train_reason_text(td_train_reason reason)
{
    static const char *const TEXTS[] = {"done",
                                        "time is up",
                                        "validation got no better",
                                        "ended on request",
                                        "the first step was written out",
                                        "ended by a file in its folder"};
    return TEXTS[reason];
}

static td_status tell_end(td_trainer *t)
{
    td_train_event event = {.kind = TD_TRAIN_END,
                            .step = t->state.step,
                            .epoch = t->state.sampler.epoch,
                            .n_skipped = t->state.n_skipped,
                            .distance = NAN,
                            .text = td_train_reason_text(t->result->reason)};
    t->result->best_loss = t->state.best_loss;
    t->result->n_skipped = t->state.n_skipped;
    t->result->step = t->state.step;
    t->result->data_peak_bytes = get_peak(t->data_memory);
    t->result->model_peak_bytes = get_peak(t->model_memory);
    return td_trainer_tell(t, &event);
}

td_status td_train_run(td_device *data, td_device *model, const td_train_settings *settings,
                       td_train_result *result)
{
    td_status status = TD_OK;
    td_trainer *t = NULL;
    td_error error = {0};
    *result = (td_train_result){.loss = NAN, .best_loss = NAN};
    TD_TRY(TD_NEW(&t));
    t->s = *settings;
    t->device = model;
    t->data_device = data;
    t->result = result;
    TD_TRY(td_warnings_open(&t->warnings));
    TD_TRY(open_trainer(t));
    TD_TRY(t->s.dump_step != NULL ? td_trainer_dump(t) : td_trainer_loop(t));
    TD_TRY(td_trainer_tell_warnings(t));
    TD_TRY(tell_end(t));
fail:
    if (status != TD_OK) error = *td_error_last();
    if (t != NULL) close_trainer(t);
    free(t);
    return status == TD_OK ? TD_OK : td_error_adopt(&error);
}
