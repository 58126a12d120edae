/* What a rank of a cluster does besides training: makes sure that all ranks train the same, starts from the
 * same parameters, and agrees with the others on losses and on the end. See train_internal.h. Covered by
 * tests/cluster/test_train.py. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "tandem/version.h"
#include "train/train_internal.h"

/* ---------------------------------------------------------------- the same training */

enum { N_FACTS = 7, HOST_BYTES = 64 };

/* What must be the same on all ranks, each as a number, and who told it. */
typedef struct facts {
    uint64_t of[N_FACTS];
    char host[HOST_BYTES];
} facts;

static const char *const FACTS[N_FACTS] = {"build of tandem",
                                           "model",
                                           "training.batch_size",
                                           "configuration of [training] or [cluster]",
                                           "dataset",
                                           "checkpoint to go on from",
                                           "front end"};

/* Of the training rows: texts as tokens, and the sizes of the recordings. Not their times, which a copy of
 * the data does not have. */
uint64_t td_trainer_hash_data(const td_dataset *d)
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

static uint64_t hash_training(const td_train_settings *s)
{
    td_hasher hasher;
    td_hasher_init(&hasher);
    const double numbers[] = {s->schedule.lr,
                              s->schedule.min_lr,
                              (double)s->schedule.warmup_steps,
                              (double)s->schedule.decay_steps,
                              s->schedule.decay_rate,
                              (double)s->schedule.kind,
                              (double)s->optimizer.beta1,
                              (double)s->optimizer.beta2,
                              (double)s->optimizer.eps,
                              (double)s->optimizer.decay,
                              (double)s->optimizer.max_norm,
                              (double)s->optimizer.average_decay,
                              (double)s->optimizer.scale_growth_steps,
                              (double)s->average,
                              (double)s->plan.half,
                              (double)s->grad_accum,
                              (double)s->max_steps,
                              (double)s->epochs,
                              (double)s->save_every,
                              (double)s->log_every,
                              (double)s->val_every,
                              (double)s->sample_every,
                              (double)s->patience,
                              (double)s->max_bad_steps,
                              (double)s->depth,
                              (double)s->seed,
                              (double)s->data.n_buckets,
                              (double)s->bucket_bytes,
                              (double)s->reduce_format,
                              (double)s->shard_optimizer,
                              (double)s->balances,
                              (double)s->state,
                              (double)s->best_by_distance,
                              (double)s->data.max_mel_frames,
                              (double)s->data.max_text_length,
                              s->data.reference_s};
    td_hasher_bytes(&hasher, numbers, sizeof numbers);
    td_hasher_string(&hasher, s->freeze);
    return td_hasher_digest(&hasher).low;
}

static uint64_t hash_model(const td_model_config *model)
{
    td_hasher hasher;
    char value[TD_MODEL_VALUE_BYTES];
    td_hasher_init(&hasher);
    td_hasher_string(&hasher, model->family->name);
    for (size_t i = 0; i < model->family->n_keys; ++i) {
        td_model_config_get(model, i, value);
        td_hasher_string(&hasher, value);
    }
    return td_hasher_digest(&hasher).low;
}

static uint64_t hash_text(const char *text)
{
    return td_hash64(text, strlen(text));
}

td_status td_trainer_compare_ranks(td_trainer *t)
{
    td_status status = TD_OK;
    facts mine = {.of = {hash_text(TANDEM_VERSION " " TD_BUILD_ID), hash_model(&t->info.model),
                         t->s.data.batch_size, hash_training(&t->s), t->state.data, t->state.step}};
    facts *all = NULL;
    char mel[TD_MEL_CONFIG_TEXT_BYTES];
    if (t->n_ranks == 1) return TD_OK;
    td_mel_config_format(&t->info.mel, mel);
    mine.of[N_FACTS - 1] = hash_text(mel);
    if (gethostname(mine.host, sizeof mine.host - 1) != 0) snprintf(mine.host, sizeof mine.host, "?");
    TD_TRY(TD_NEW_ARRAY(&all, t->n_ranks));
    TD_TRY(td_cluster_all_gather(t->s.cluster, &mine, sizeof mine, all));
    for (uint32_t r = 1; r < t->n_ranks; ++r) {
        for (size_t f = 0; f < N_FACTS; ++f) {
            if (all[r].of[f] == all[0].of[f]) continue;
            t->result->is_common = true;
            TD_FAIL_IF(true, TD_ERR_CONFIG,
                       "rank %u (on %s) has another %s than rank 0 (on %s); start all ranks with the same "
                       "program, configuration and dataset, and a training.checkpoint_dir that all "
                       "computers share",
                       r, all[r].host, FACTS[f], all[0].host);
        }
    }
fail:
    free(all);
    return status;
}

static uint64_t hash_device(const td_device *device)
{
    const td_device_info *info = td_device_get_info(device);
    td_hasher hasher;
    td_hasher_init(&hasher);
    td_hasher_bytes(&hasher, &info->api, sizeof info->api);
    td_hasher_string(&hasher, info->name);
    td_hasher_string(&hasher, info->driver);
    return td_hasher_digest(&hasher).low;
}

/* Unlike devices round updates differently, and their parameters would drift apart. Where each parameter is
 * updated by one rank, which gives it to the others, all have the same bits. */
td_status td_trainer_meet(td_trainer *t)
{
    td_status status = TD_OK;
    const uint64_t mine = hash_device(t->device);
    uint64_t *all = NULL;
    bool is_unlike = false;
    if (t->n_ranks == 1) return TD_OK;
    TD_TRY(TD_NEW_ARRAY(&all, t->n_ranks));
    TD_TRY(td_cluster_all_gather(t->s.cluster, &mine, sizeof mine, all));
    for (uint32_t r = 1; r < t->n_ranks; ++r)
        is_unlike |= all[r] != all[0];
    if (is_unlike && !t->s.shard_optimizer) {
        t->s.shard_optimizer = true;
        if (t->rank == 0)
            td_log_info(
                "the ranks' devices are unlike: cluster.shard_optimizer is on, so that all ranks keep "
                "the same parameters");
    }
fail:
    free(all);
    return status;
}

/* Rank 0's parameters, averages and states: the mathematics of another computer may begin a bit off. */
td_status td_trainer_share_start(td_trainer *t)
{
    static const td_block SHARED[] = {TD_BLOCK_WEIGHT, TD_BLOCK_AVERAGE};
    td_status status = TD_OK;
    float *values = NULL;
    for (size_t i = 0; t->n_ranks > 1 && i < td_store_count(t->store); ++i) {
        const uint64_t n = td_shape_size(td_store_get(t->store, i).shape);
        free(values);
        TD_TRY(TD_NEW_ARRAY(&values, n));
        for (size_t b = 0; b < sizeof SHARED / sizeof SHARED[0]; ++b) {
            if (td_store_span(t->store, i, SHARED[b]).buffer == NULL) continue;
            TD_TRY(td_store_read(t->store, i, SHARED[b], values));
            TD_TRY(td_cluster_broadcast(t->s.cluster, values, n * sizeof *values, 0));
            if (t->rank > 0) TD_TRY(td_store_write(t->store, i, SHARED[b], values));
        }
    }
fail:
    free(values);
    return status;
}

/* ---------------------------------------------------------------- sums */

td_status td_trainer_make_buckets(td_trainer *t, uint32_t learner)
{
    const uint64_t bytes = t->s.bucket_bytes > 0 ? t->s.bucket_bytes : TD_BUCKET_BYTES;
    if (t->n_ranks == 1) return TD_OK;
    TD_CHECK(td_buckets_create(t->store, learner, bytes, &t->buckets[learner]));
    if (t->s.grad_accum > 1) TD_CHECK(td_buckets_want_sums(t->buckets[learner]));
    if (t->s.shard_optimizer)
        TD_CHECK(td_shards_create(t->s.cluster, t->store, t->buckets[learner], &t->shards[learner]));
    return TD_OK;
}

td_status td_trainer_open_reducers(td_trainer *t)
{
    for (uint32_t i = 0; t->n_ranks > 1 && i < t->n_learners; ++i) {
        TD_CHECK(td_reducer_create(&(td_reducer_settings){.cluster = t->s.cluster,
                                                          .memory = t->model_memory,
                                                          .store = t->store,
                                                          .buckets = t->buckets[i],
                                                          .format = t->s.reduce_format},
                                   &t->reducers[i]));
    }
    return TD_OK;
}

static void tell_travel(const char *what, const td_travel *t, const char *behind)
{
    const double per_ms = 1e-6 / (double)t->n_steps;
    td_log_info(
        "%s of a step: %.1f MB, %.1f ms on their way, %.1f ms waited for: %.2f of it hidden behind %s", what,
        1e-6 * (double)t->bytes / (double)t->n_steps, per_ms * (double)t->way_ns, per_ms * (double)t->wait_ns,
        fmax(0, 1 - (double)t->wait_ns / (double)t->way_ns), behind);
}

void td_trainer_tell_reduction(const td_trainer *t)
{
    const td_travel sums = td_reducers_count(t->reducers, t->n_learners);
    const td_travel parameters = td_shards_count(t->shards, t->n_learners);
    if (t->rank > 0) return;
    if (sums.n_steps > 0) tell_travel("gradients", &sums, "the backward pass");
    if (parameters.n_steps > 0) tell_travel("parameters", &parameters, "the next forward pass");
}

/* What is being written is gathered into the same place. */
td_status td_trainer_gather_moments(td_trainer *t)
{
    for (size_t i = 0; i < t->n_learners; ++i) {
        if (t->shards[i] == NULL) continue;
        if (t->rank == 0) TD_CHECK(td_side_wait(t->side));
        TD_CHECK(td_shards_gather(t->shards[i]));
    }
    return TD_OK;
}

/* ---------------------------------------------------------------- agreeing */

td_status td_trainer_least(td_trainer *t, uint32_t *size)
{
    td_status status = TD_OK;
    uint32_t *all = NULL;
    if (t->n_ranks == 1) return TD_OK;
    TD_TRY(TD_NEW_ARRAY(&all, t->n_ranks));
    TD_TRY(td_cluster_all_gather(t->s.cluster, size, sizeof *size, all));
    for (uint32_t r = 0; r < t->n_ranks; ++r)
        if (all[r] < *size) *size = all[r];
fail:
    free(all);
    return status;
}

/* What each rank tells the others of a step. */
typedef struct word {
    uint64_t reason; /* to end: 1 + td_train_reason; 0: none */
    uint64_t items, count;
    double audio_s;
    double values[TD_TRAIN_TERMS];
} word;

static uint64_t find_reason(const td_trainer *t)
{
    const double seconds = 1e-9 * (double)(td_clock_ns() - t->start_ns);
    if (t->s.wants_end != NULL && t->s.wants_end(t->s.context)) return 1 + TD_END_ASKED;
    if (t->wished_stop) return 1 + TD_END_WISHED;
    if (t->rank == 0 && t->s.max_minutes > 0 && seconds >= 60 * t->s.max_minutes) return 1 + TD_END_TIME;
    return 0;
}

td_status td_trainer_agree(td_trainer *t)
{
    td_status status = TD_OK;
    td_train_event *event = &t->sums.event;
    word mine = {
        .reason = find_reason(t), .items = t->own_items, .count = t->sums.count, .audio_s = t->own_audio_s};
    word *all = NULL;
    if (t->n_ranks == 1) return TD_OK;
    memcpy(mine.values, event->values, sizeof mine.values);
    TD_TRY(TD_NEW_ARRAY(&all, t->n_ranks));
    TD_TRY(td_cluster_all_gather(t->s.cluster, &mine, sizeof mine, all));
    memset(event->values, 0, sizeof event->values);
    t->own_items = 0;
    t->own_audio_s = 0;
    t->sums.count = 0;
    for (uint32_t r = 0; r < t->n_ranks; ++r) {
        for (size_t i = 0; i < event->n_terms; ++i)
            event->values[i] += all[r].values[i];
        t->sums.count += (uint32_t)all[r].count;
        t->window_items += all[r].items;
        t->window_audio_s += all[r].audio_s;
        t->result->n_items += all[r].items;
        t->result->audio_s += all[r].audio_s;
        if (t->agreed == 0) t->agreed = all[r].reason;
    }
fail:
    free(all);
    return status;
}

td_status td_trainer_share_verdict(td_trainer *t, bool *better)
{
    struct {
        td_train_state state;
        uint64_t better;
    } verdict = {t->state, *better};
    if (t->n_ranks == 1) return TD_OK;
    TD_CHECK(td_cluster_broadcast(t->s.cluster, &verdict, sizeof verdict, 0));
    t->state.best_loss = verdict.state.best_loss;
    t->state.best_step = verdict.state.best_step;
    t->state.val_step = verdict.state.val_step;
    t->state.val_loss = verdict.state.val_loss;
    t->state.n_stale = verdict.state.n_stale;
    *better = verdict.better != 0;
    return TD_OK;
}
