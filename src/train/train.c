/* Opens all that a run needs, runs the loop, closes it again. See train.h. Covered by
 * tests/train/test_train_run.c and tests/cli/test_train.py. */
#include "train/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "train/train_internal.h"

enum { ROUND = 32, BUFFER_SIZE = 50 };

/* ---------------------------------------------------------------- small things */

static uint32_t round_up(uint32_t n)
{
    return (n + ROUND - 1) / ROUND * ROUND;
}

td_model_shape td_trainer_shape(const td_trainer *t, const td_batch *batch)
{
    td_model_shape shape = td_batch_shape(batch);
    if (!t->info.model.speaker_encoder) shape.reference_frames = 0;
    return shape;
}

static uint32_t count_reference_frames(const td_trainer *t)
{
    const td_mel_config *mel = td_mel_get_config(t->feed.mel);
    if (!t->info.model.speaker_encoder) return 0;
    return td_mel_frames(mel, (uint64_t)(t->s.feed.reference_s * mel->rate));
}

td_model_shape td_trainer_largest_shape(const td_trainer *t, uint32_t items)
{
    td_model_shape shape = {.items = items, .reference_frames = count_reference_frames(t)};
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
    if (t->s.tell != NULL) t->s.tell(t->s.context, event);
    return t->record != NULL ? td_record_event(t->record, event) : TD_OK;
}

td_status td_trainer_tell_warnings(td_trainer *t)
{
    td_status status = TD_OK;
    char text[TD_WARNING_BYTES];
    while (td_warnings_take(t->warnings, text)) {
        td_train_event event = {.kind = TD_TRAIN_WARNING,
                                .step = t->state.step,
                                .epoch = t->state.sampler.epoch,
                                .distance = NAN,
                                .text = text};
        TD_TRY(td_trainer_tell(t, &event));
    }
fail:
    return status;
}

void td_train_event_add(td_train_event *event, const td_scalars *scalars, double weight)
{
    size_t at = 1;
    event->n_terms = scalars->count;
    for (size_t i = 0; i < scalars->count; ++i) {
        const size_t place = strcmp(scalars->names[i], "loss") == 0 ? 0 : at++;
        event->names[place] = scalars->names[i];
        event->values[place] += weight * (double)scalars->values[i];
    }
}

/* ---------------------------------------------------------------- data */

/* With one device the loader's batches are the model's; with two each side has its own. */
static void plan_rooms(td_trainer *t)
{
    const uint32_t usual = 64 / (t->s.feed.batch_size > 0 ? t->s.feed.batch_size : 1);
    uint32_t prefetch = t->s.prefetch_size;
    if (prefetch == 0) prefetch = usual < 2 ? 2 : usual > 8 ? 8 : usual;
    t->n_rooms = prefetch + 1; /* one is in use */
    t->s.feed.n_ready = t->n_rooms;
    if (t->data_device == t->device) return;
    t->s.feed.n_ready = t->s.buffer_size > 0 ? t->s.buffer_size : BUFFER_SIZE;
    if (t->s.is_serial) t->n_rooms = 1;
}

/* A stream's way to the model device. */
static td_status open_lane(td_trainer *t, const td_stream *stream, td_monitor *monitor, td_lane *lane)
{
    const td_lane_settings settings = {.loader = stream->loader,
                                       .data = t->data_memory,
                                       .model = t->model_memory,
                                       .n_ready = t->n_rooms,
                                       .verify = t->s.verify_transfers,
                                       .monitor = monitor};
    return td_lane_open(&settings, lane);
}

static td_status open_feed(td_trainer *t)
{
    td_status status = TD_OK;
    bool changed;
    td_feed_options *o = &t->s.feed;
    plan_rooms(t);
    o->dataset.seed = t->s.seed;
    if (t->s.val_dir != NULL) o->dataset.val_fraction = 0;
    if (t->resumes) o->dataset.symbols = td_checkpoint_get_info(t->from)->symbols;
    if (o->dataset.symbols != NULL && o->dataset.symbols[0] == '\0') o->dataset.symbols = NULL;
    TD_TRY(td_feed_open(t->data_memory, o, &t->feed));
    if (t->from == NULL || t->resumes || o->dataset.tokens == TD_TOKENS_BPE) return TD_OK;
    TD_TRY(td_trainer_join_symbols(t, &changed));
    if (!changed) return TD_OK;
    td_feed_close(&t->feed);
    o->dataset.symbols = t->symbols;
    TD_TRY(td_feed_open(t->data_memory, o, &t->feed));
fail:
    return status;
}

/* Names of the speakers, one a line. */
static td_status list_speakers(td_trainer *t)
{
    td_status status = TD_OK;
    const td_block_view *view = &t->feed.dataset->view;
    size_t bytes = 1, at = 0;
    for (size_t i = 0; i < view->n_speakers; ++i)
        bytes += view->speakers[i].bytes + 1;
    TD_TRY(TD_NEW_ARRAY(&t->speakers, bytes));
    for (size_t i = 0; i < view->n_speakers; ++i)
        at += (size_t)snprintf(t->speakers + at, bytes - at, "%s%s", i > 0 ? "\n" : "",
                               td_block_string(view, view->speakers[i]));
fail:
    return status;
}

/* The language that most rows have. */
static const char *find_language(const td_dataset *dataset)
{
    size_t counts[TD_LANG_COUNT] = {0}, best = 0;
    for (size_t i = 0; i < dataset->view.n_rows; ++i)
        if (dataset->view.rows[i].lang < TD_LANG_COUNT) ++counts[dataset->view.rows[i].lang];
    for (size_t i = 1; i < TD_LANG_COUNT; ++i)
        if (counts[i] > counts[best]) best = i;
    return td_lang_code((td_lang)best);
}

/* Of the training rows: texts as tokens, and the sizes of the recordings. Not their times, which a copy of
 * the data does not have. */
static uint64_t hash_data(const td_dataset *d)
{
    td_hasher hasher;
    td_hasher_init(&hasher);
    for (size_t i = 0; i < d->n_train; ++i) {
        const td_block_row *row = &d->view.rows[d->train[i]];
        const uint64_t sizes[] = {row->n_tokens, row->clip.frames, row->clip.rate_hz,
                                  (uint64_t)row->clip.file_bytes};
        td_hasher_string(&hasher, td_dataset_id(d, d->train[i]));
        td_hasher_bytes(&hasher, sizes, sizeof sizes);
        td_hasher_bytes(&hasher, d->view.tokens + row->first_token, row->n_tokens * sizeof *d->view.tokens);
    }
    return td_hasher_digest(&hasher).low;
}

/* Tokens per step of the autoregressive decoder, on average. */
static float measure_rate(const td_trainer *t)
{
    const td_dataset *d = t->feed.dataset;
    double tokens = 0, frames = 0;
    const td_mel_config *mel = td_mel_get_config(t->feed.mel);
    for (size_t i = 0; i < d->n_train; ++i) {
        td_sampler_row row;
        td_loader_lengths(d, &d->train[i], 1, mel, &row);
        tokens += row.tokens;
        frames += row.frames;
    }
    return frames > 0 ? (float)(tokens * t->info.model.reduction / frames) : 0;
}

/* What the data says about the model. */
static td_status describe(td_trainer *t)
{
    td_status status = TD_OK;
    const td_dataset *dataset = t->feed.dataset;
    td_model_config *model = &t->info.model;
    TD_TRY(list_speakers(t));
    t->info = (td_checkpoint_info){.model = t->s.model,
                                   .mel = *td_mel_get_config(t->feed.mel),
                                   .token_kind = (td_token_kind)dataset->view.header->token_kind,
                                   .symbols = td_block_string(&dataset->view, dataset->view.header->symbols),
                                   .tokenizer =
                                       t->s.feed.dataset.bpe_path != NULL ? t->s.feed.dataset.bpe_path : "",
                                   .language = find_language(dataset),
                                   .speakers = t->speakers};
    model->n_symbols = dataset->view.header->vocab_size;
    model->n_mels = t->info.mel.n_mels;
    if (model->n_speakers == 0 && !model->speaker_encoder && dataset->view.n_speakers > 1)
        model->n_speakers = (uint32_t)dataset->view.n_speakers;
    model->attention_rate = measure_rate(t);
    if (t->s.feed.max_text_length > 0) model->max_tokens = round_up(t->s.feed.max_text_length);
    if (t->s.feed.max_mel_frames > 0) model->max_frames = round_up(t->s.feed.max_mel_frames);
    if (t->resumes) model->attention_rate = td_checkpoint_get_info(t->from)->model.attention_rate;
    TD_TRY(td_model_config_check(model));
fail:
    return status;
}

/* Batches that the data device may be ahead, so that its slowest batch does not stop the model: by a trial of
 * some batches. */
static td_status tune_buffer(td_trainer *t)
{
    enum { TRIAL = 6, LEAST = 8, MOST = 100 };
    td_stream trial = {0};
    td_stream_settings rows = t->train_rows;
    td_batch batch;
    double slowest_ms = 0, sum_ms = 0;
    td_status status = TD_OK;
    if (!t->s.auto_tune || t->data_device == t->device) return TD_OK;
    rows.n_batches = TRIAL;
    TD_TRY(td_stream_open(&t->feed, &rows, &trial));
    TD_TRY(td_stream_start(&t->feed, &rows, &trial));
    for (int i = 0; i < TRIAL; ++i) {
        TD_TRY(td_loader_next(trial.loader, &batch));
        const double ms = 1e-6 * (double)(batch.load_end_ns - batch.load_start_ns);
        td_loader_release(trial.loader, &batch, (td_point){0});
        sum_ms += ms;
        if (ms > slowest_ms) slowest_ms = ms;
    }
    const double mean_ms = sum_ms / TRIAL;
    const double size = 2 * (double)t->feed.workers * ceil(mean_ms > 0 ? slowest_ms / mean_ms : 1);
    t->s.feed.n_ready = size < LEAST ? LEAST : size > MOST ? MOST : (uint32_t)size;
    t->feed.options.n_ready = t->s.feed.n_ready;
    td_log_info("buffer of %u batches: %zu workers, batches load in %.1f ms, the slowest in %.1f ms",
                t->s.feed.n_ready, t->feed.workers, mean_ms, slowest_ms);
fail:
    td_stream_close(&trial);
    return status;
}

static td_status open_training(td_trainer *t)
{
    td_status status = TD_OK;
    t->train_rows = (td_stream_settings){
        .rows = t->feed.dataset->train, .n_rows = t->feed.dataset->n_train, .last = TD_LAST_FILL};
    TD_TRY(td_feed_open_cache(&t->feed, &t->cache));
    t->train_rows.cache = t->cache;
    TD_TRY(td_stream_open(&t->feed, &t->train_rows, &t->train));
    if (t->s.auto_batch) {
        TD_TRY(td_trainer_find_batch_size(t, &t->s.feed.batch_size));
        t->feed.options.batch_size = t->s.feed.batch_size;
        td_stream_close(&t->train);
        TD_TRY(td_stream_open(&t->feed, &t->train_rows, &t->train));
    }
    TD_TRY(tune_buffer(t));
    const size_t left_out = td_sampler_left_out(t->train.sampler);
    if (left_out > 0)
        td_log_warn(
            "%zu of %zu rows are longer than data.max_mel_frames or data.max_text_length and left out",
            left_out, t->train_rows.n_rows);
fail:
    return status;
}

/* Rows of --val-data, else the dataset's own share, else, so that there is something to look at, the first
 * training rows. */
static td_status open_validation(td_trainer *t)
{
    td_status status = TD_OK;
    const td_feed *feed = &t->feed;
    td_feed_options options = t->s.feed;
    t->val_rows = (td_stream_settings){.rows = t->feed.dataset->val,
                                       .n_rows = t->feed.dataset->n_val,
                                       .last = TD_LAST_KEEP,
                                       .in_order = true,
                                       .cache = t->cache};
    if (t->s.val_dir != NULL) {
        options.dataset.dir = t->s.val_dir;
        options.dataset.val_fraction = 0;
        options.dataset.symbols = t->info.symbols[0] != '\0' ? t->info.symbols : NULL;
        TD_TRY(td_feed_open(t->data_memory, &options, &t->val_feed));
        TD_TRY(td_feed_open_cache(&t->val_feed, &t->val_cache));
        feed = &t->val_feed;
        t->val_rows.rows = feed->dataset->train;
        t->val_rows.n_rows = feed->dataset->n_train;
        t->val_rows.cache = t->val_cache;
    }
    if (t->s.val_every == 0 && t->s.sample_every == 0) return TD_OK;
    if (t->val_rows.n_rows == 0) {
        td_log_warn("no rows validate; the first training rows stand in for them");
        t->val_rows.rows = t->feed.dataset->train;
        t->val_rows.n_rows =
            t->feed.dataset->n_train < t->s.feed.batch_size ? t->feed.dataset->n_train : t->s.feed.batch_size;
    }
    TD_TRY(td_stream_open(feed, &t->val_rows, &t->val));
    TD_TRY(td_stream_start(feed, &t->val_rows, &t->val));
    TD_TRY(open_lane(t, &t->val, NULL, &t->val_lane));
fail:
    return status;
}

/* ---------------------------------------------------------------- model */

static td_plans_settings describe_plans(const td_trainer *t)
{
    return (td_plans_settings){.memory = t->model_memory,
                               .model = t->info.model,
                               .losses = t->s.losses,
                               .seed = t->s.seed,
                               .grad_accum = t->s.grad_accum,
                               .no_dropout = t->s.dump_step != NULL,
                               .average = t->s.average,
                               .freeze = (const char *const *)t->freeze,
                               .n_freeze = t->n_freeze,
                               .plan = t->s.plan,
                               .n_slots = t->n_rooms};
}

static td_status open_model(td_trainer *t)
{
    td_status status = TD_OK;
    const td_model_shape shape = td_trainer_largest_shape(t, t->s.feed.batch_size);
    td_plans_settings settings = describe_plans(t);
    TD_TRY(td_plans_create(&settings, &shape, &t->plans));
    if (t->s.freeze != NULL && t->s.freeze[0] != '\0') {
        TD_TRY(td_trainer_expand_freeze(t, td_plans_store(t->plans)));
        td_plans_destroy(t->plans);
        t->plans = NULL;
        settings = describe_plans(t);
        TD_TRY(td_plans_create(&settings, &shape, &t->plans));
    }
    t->store = td_plans_store(t->plans);
    TD_TRY(td_trainer_load_start(t));
    TD_TRY(td_optimizer_create(t->store, &t->s.optimizer, &t->optimizer));
    TD_TRY(td_snapshot_create(t->model_memory, t->store, &t->snapshot));
fail:
    return status;
}

/* ---------------------------------------------------------------- the whole */

static td_status find_end(td_trainer *t)
{
    td_status status = TD_OK;
    const uint64_t per_epoch = td_sampler_batches_per_epoch(t->train.sampler);
    t->max_step = t->s.max_steps;
    if (t->s.epochs > 0) {
        const uint64_t steps = (t->s.epochs * per_epoch + t->s.grad_accum - 1) / t->s.grad_accum;
        if (t->max_step == 0 || steps < t->max_step) t->max_step = steps;
    }
    td_schedule *schedule = &t->s.schedule;
    if (schedule->decay_steps == 0)
        schedule->decay_steps =
            t->max_step > schedule->warmup_steps ? t->max_step - schedule->warmup_steps : 100000;
    TD_TRY(td_schedule_check(schedule));
fail:
    return status;
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
    td_status status = TD_OK;
    char path[TD_FILE_PATH_BYTES];
    if (t->s.config_text != NULL) {
        TD_TRY(td_run_dir_path(t->run, "config.ini", path));
        TD_TRY(td_file_write_atomic(path, t->s.config_text, strlen(t->s.config_text)));
    }
    if (!t->s.is_trial && t->s.dump_step == NULL) TD_TRY(forecast_space(t));
    TD_TRY(td_run_dir_path(t->run, "samples", path));
    TD_TRY(td_file_make_dirs(path));
    TD_TRY(td_record_open(t->run, t->s.events_dir != NULL ? t->s.events_dir : td_run_dir_name(t->run),
                          t->state.step, &t->record));
    TD_TRY(td_side_create(&t->side));
    TD_TRY(td_side_create(&t->painter));
fail:
    return status;
}

static td_status tell_start(td_trainer *t)
{
    td_status status = TD_OK;
    td_train_event event = {.kind = TD_TRAIN_START,
                            .step = t->state.step,
                            .epoch = t->state.sampler.epoch,
                            .batch_size = t->s.feed.batch_size,
                            .batches_per_epoch = td_sampler_batches_per_epoch(t->train.sampler),
                            .start_step = t->state.step,
                            .max_step = t->max_step,
                            .data_device = td_device_get_info(t->data_device),
                            .model_device = td_device_get_info(t->device),
                            .distance = NAN,
                            .text = td_run_dir_name(t->run)};
    TD_TRY(td_model_count(&t->info.model, &event.parameters));
    TD_TRY(td_trainer_tell(t, &event));
fail:
    return status;
}

/* The run is watched also where nobody asked for its times. */
static td_status open_watch(td_trainer *t)
{
    td_status status = TD_OK;
    const bool is_single = t->data_device == t->device;
    if (t->s.monitor != NULL) return TD_OK;
    TD_TRY(td_monitor_create(TD_MONITOR_WINDOW, is_single, &t->own_monitor));
    t->s.monitor = t->own_monitor;
    t->watch = (td_watch){.monitor = t->own_monitor, .is_single = is_single, .capacity = TD_MONITOR_WINDOW};
fail:
    return status;
}

static td_status open_trainer(td_trainer *t)
{
    td_status status = TD_OK;
    TD_FAIL_IF(t->s.run_dir == NULL, TD_ERR_CONFIG,
               "no folder for the run was named; set training.checkpoint_dir");
    if (t->s.grad_accum == 0) t->s.grad_accum = 1;
    if (t->s.depth == 0) t->s.depth = 2;
    if (t->s.keep == 0) t->s.keep = 5;
    TD_FAIL_IF(t->s.depth > TD_SCALAR_RING, TD_ERR_CONFIG, "pipeline.pipeline_depth is %u; put 1 to %d",
               t->s.depth, TD_SCALAR_RING);
    if (t->s.dump_step != NULL) t->s.grad_accum = 1;
    if (t->s.model.speaker_encoder && !(t->s.feed.reference_s > 0)) t->s.feed.reference_s = 3;
    t->s.feed.with_pitch = t->s.model.pitch_predictor;
    TD_TRY(td_run_dir_open(t->s.run_dir, &t->run));
    TD_TRY(td_trainer_find_start(t));
    TD_TRY(td_memory_create(t->data_device, "data", t->s.data_limit_bytes, &t->data_memory));
    TD_TRY(td_memory_create(t->device, "model", t->s.model_limit_bytes, &t->model_memory));
    TD_TRY(open_feed(t));
    TD_TRY(describe(t));
    TD_TRY(open_training(t));
    TD_TRY(find_end(t));
    t->state = (td_train_state){.best_loss = NAN, .loss = NAN, .val_loss = NAN};
    TD_TRY(open_model(t));
    t->state.seed = t->s.seed;
    t->state.batch_size = t->s.feed.batch_size;
    t->state.grad_accum = t->s.grad_accum;
    t->first_loss = t->state.loss > 1 ? t->state.loss : NAN;
    const uint64_t data = hash_data(t->feed.dataset);
    const bool changed = t->state.data != 0 && t->state.data != data;
    t->state.data = data;
    if (changed || td_sampler_set_state(t->train.sampler, t->state.sampler) != TD_OK) {
        td_log_warn("the data has changed since the checkpoint was written: the epoch begins anew");
        t->state.sampler.position = 0;
        TD_TRY(td_sampler_set_state(t->train.sampler, t->state.sampler));
    }
    TD_TRY(open_files(t));
    TD_TRY(open_watch(t));
    TD_TRY(open_validation(t));
    TD_TRY(td_stream_start(&t->feed, &t->train_rows, &t->train));
    TD_TRY(open_lane(t, &t->train, t->s.monitor, &t->train_lane));
    TD_TRY(tell_start(t));
    TD_TRY(td_trainer_tell_warnings(t));
fail:
    return status;
}

/* In the order of who uses whom; what the device still does is waited for first. */
static void close_trainer(td_trainer *t)
{
    td_warnings_close(t->warnings);
    td_side_destroy(t->side);
    td_side_destroy(t->painter);
    (void)td_queue_finish(td_device_queue(t->device, TD_QUEUE_COMPUTE));
    td_lane_close(&t->train_lane);
    td_lane_close(&t->val_lane);
    td_stream_close(&t->train);
    td_stream_close(&t->val);
    td_snapshot_destroy(t->snapshot);
    td_optimizer_destroy(t->optimizer);
    td_plans_destroy(t->plans);
    td_record_close(t->record);
    td_mel_cache_close(t->cache);
    td_mel_cache_close(t->val_cache);
    td_feed_close(&t->val_feed);
    td_feed_close(&t->feed);
    td_memory_destroy(t->model_memory);
    td_memory_destroy(t->data_memory);
    td_monitor_destroy(t->own_monitor);
    td_checkpoint_close(t->from);
    td_run_dir_close(t->run);
    for (size_t i = 0; i < t->n_freeze; ++i)
        free(t->freeze[i]);
    free((void *)t->freeze);
    free(t->symbols);
    free(t->speakers);
}

static uint64_t get_peak(const td_memory *memory)
{
    td_memory_stats stats;
    td_memory_get_stats(memory, &stats);
    return stats.peak_used_bytes;
}

const char *td_train_reason_text(td_train_reason reason)
{
    static const char *const TEXTS[] = {"done", "time is up", "validation got no better", "ended on request",
                                        "the first step was written out"};
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
