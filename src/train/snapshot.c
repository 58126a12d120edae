/* See snapshot.h. */
#include "train/snapshot.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "families/carried.h"

enum {
    N_KEYS = 16,
    VALUE_BYTES = 32,
    HEADER_BYTES_EACH = 200,
    CONTROL_BYTES = 4 * TD_CONTROL_WORDS,
    NAME_BYTES = 64
};
enum { OLDER_CONTROL_BYTES = 32 }; /* before there was a loss scale */

struct td_snapshot {
    td_memory *memory;
    td_store *store;
    td_span host; /* all tensors, one behind the other */
    td_list *list;
    td_queue *queue;
    td_checkpoint_tensor_data *tensors; /* owned; they point into `host` */
    size_t n_tensors;
    td_shards *const *shards; /* by learner; NULL where all moments are the store's */
    uint64_t constant_bytes;
    const td_checkpoint *rest; /* as td_checkpoint_info */
    char control_names[TD_MAX_LEARNERS][NAME_BYTES];
};

/* ---------------------------------------------------------------- taking */

static const struct {
    td_block block;
    const char *prefix;
} BLOCKS[] = {
    {TD_BLOCK_WEIGHT, "param."},
    {TD_BLOCK_MOMENT1, "moment1."},
    {TD_BLOCK_MOMENT2, "moment2."},
    {TD_BLOCK_AVERAGE, "average."},
};
static const char *const SCALES[TD_BLOCK_COUNT] = {
    [TD_BLOCK_MOMENT1] = "scale1.", [TD_BLOCK_MOMENT2] = "scale2."};
enum { N_BLOCKS = sizeof BLOCKS / sizeof BLOCKS[0] };

/* What nobody updates is in the file that the run began with, if checkpoints take things over from there. */
static bool is_kept(const td_snapshot *s, const td_store_entry *entry)
{
    if (entry->role == TD_TENSOR_STATE) return entry->state_kind == TD_STATE_KEPT;
    return entry->learner != TD_MAX_LEARNERS || s->rest == NULL || !td_carried_has(s->rest, entry->name);
}

/* The first learner's block has the name that it had when there was one alone. */
static const char *name_control(const td_family *family, size_t learner, char out[NAME_BYTES])
{
    if (learner == 0) return "control";
    snprintf(out, NAME_BYTES, "%s.control", family->learners[learner].name);
    return out;
}

/* Moments that are cut among ranks, where they are gathered; NULL: they are not, or this is no moment. */
static const float *find_moment(const td_snapshot *s, const td_store_entry *entry, size_t i, td_block block)
{
    if (s->shards == NULL || (block != TD_BLOCK_MOMENT1 && block != TD_BLOCK_MOMENT2)) return NULL;
    if (entry->learner >= TD_MAX_LEARNERS || s->shards[entry->learner] == NULL) return NULL;
    return td_shards_moment(s->shards[entry->learner], i, block);
}

/* Moments are written as they are kept. */
static td_safetensors_dtype get_dtype(const td_store *store, td_block block)
{
    const td_state_format format =
        block == TD_BLOCK_MOMENT1 || block == TD_BLOCK_MOMENT2 ? td_store_state(store) : TD_STATE_FP32;
    if (format == TD_STATE_FP32) return TD_SAFETENSORS_F32;
    return format == TD_STATE_BF16 ? TD_SAFETENSORS_BF16 : TD_SAFETENSORS_U8;
}

static void describe(const td_store_entry *entry, size_t block, td_safetensors_dtype dtype, const void *data,
                     td_checkpoint_tensor_data *out)
{
    *out = (td_checkpoint_tensor_data){
        .prefix = entry->role == TD_TENSOR_STATE ? "state." : BLOCKS[block].prefix,
        .name = entry->name,
        .dtype = dtype,
        .rank = entry->shape.n_dims,
        .data = data,
        .bytes = td_safetensors_dtype_bytes(dtype) * td_shape_size(entry->shape)};
    for (size_t d = 0; d < out->rank; ++d)
        out->dims[d] = entry->shape.dims[d];
}

/* Lists tensors and their sources, block by block; `sources` may be NULL for the first pass, which counts. */
static uint64_t list_tensors(td_snapshot *s, td_store *store, td_span *sources)
{
    uint64_t at = 0;
    s->n_tensors = 0;
    for (size_t b = 0; b < N_BLOCKS; ++b) {
        for (size_t i = 0; i < td_store_count(store); ++i) {
            const td_store_entry entry = td_store_get(store, i);
            const td_span span = td_store_span(store, i, BLOCKS[b].block);
            const float *moment = find_moment(s, &entry, i, BLOCKS[b].block);
            if ((span.buffer == NULL && moment == NULL) || !is_kept(s, &entry)) continue;
            const td_span scales = td_store_scales(store, i, BLOCKS[b].block);
            if (sources != NULL) {
                describe(&entry, b, get_dtype(store, BLOCKS[b].block), moment, &s->tensors[s->n_tensors]);
                sources[s->n_tensors] = span;
            }
            ++s->n_tensors;
            at += span.bytes + scales.bytes;
            if (scales.buffer == NULL) continue;
            if (sources != NULL) {
                s->tensors[s->n_tensors] = (td_checkpoint_tensor_data){.prefix = SCALES[BLOCKS[b].block],
                                                                       .name = entry.name,
                                                                       .dtype = TD_SAFETENSORS_F32,
                                                                       .rank = 1,
                                                                       .dims = {scales.bytes / 4},
                                                                       .bytes = scales.bytes};
                sources[s->n_tensors] = scales;
            }
            ++s->n_tensors;
        }
    }
    return at;
}

static td_status record(td_snapshot *s, td_store *store, const td_family *family, const td_span *sources)
{
    uint64_t at = 0;
    TD_CHECK(td_list_create(td_memory_device(s->memory), TD_QUEUE_COMPUTE, &s->list));
    for (size_t i = 0; i < s->n_tensors; ++i) {
        if (sources[i].buffer == NULL) {
            s->constant_bytes += s->tensors[i].bytes;
            continue;
        }
        const td_span to = td_span_part(s->host, at, sources[i].bytes);
        TD_CHECK(td_list_copy(s->list, to, sources[i]));
        s->tensors[i].data = td_span_host(to);
        at += sources[i].bytes;
    }
    for (size_t i = 0; i < td_store_learners(store); ++i) {
        const td_span to = td_span_part(s->host, at, CONTROL_BYTES);
        TD_CHECK(td_list_copy(s->list, to, td_span_part(td_store_control(store, i), 0, CONTROL_BYTES)));
        s->tensors[s->n_tensors++] =
            (td_checkpoint_tensor_data){.prefix = "optimizer.",
                                        .name = name_control(family, i, s->control_names[i]),
                                        .dtype = TD_SAFETENSORS_U32,
                                        .rank = 1,
                                        .dims = {TD_CONTROL_WORDS},
                                        .data = td_span_host(to),
                                        .bytes = CONTROL_BYTES};
        at += CONTROL_BYTES;
    }
    return td_list_finish(s->list);
}

static void add_constants(td_snapshot *s, const td_checkpoint_tensor_data *constants, size_t n)
{
    for (size_t i = 0; i < n; ++i) {
        s->tensors[s->n_tensors++] = constants[i];
        s->constant_bytes += constants[i].bytes;
    }
}

td_status td_snapshot_create(td_memory *memory, td_store *store, const td_checkpoint_info *info,
                             td_shards *const *shards, const td_checkpoint_tensor_data *constants,
                             size_t n_constants, td_snapshot **out)
{
    td_status status = TD_OK;
    td_snapshot *s = NULL;
    td_span *sources = NULL;
    *out = NULL;
    TD_TRY(TD_NEW(&s));
    s->memory = memory;
    s->store = store;
    s->shards = shards;
    s->rest = info->rest;
    if (s->rest != NULL) s->constant_bytes = td_carried_bytes(s->rest);
    s->queue = td_device_queue(td_memory_device(memory), TD_QUEUE_COMPUTE);
    const uint64_t bytes = list_tensors(s, store, NULL);
    const size_t n_learners = td_store_learners(store);
    TD_TRY(TD_NEW_ARRAY(&s->tensors, s->n_tensors + n_learners + n_constants));
    TD_TRY(TD_NEW_ARRAY(&sources, s->n_tensors + 1));
    (void)list_tensors(s, store, sources);
    TD_TRY(td_memory_alloc(memory, TD_MEMORY_HOST, bytes + n_learners * CONTROL_BYTES, &s->host));
    TD_TRY(record(s, store, info->model.family, sources));
    add_constants(s, constants, n_constants);
    *out = s;
    s = NULL;
fail:
    free(sources);
    td_snapshot_destroy(s);
    return status;
}

void td_snapshot_destroy(td_snapshot *s)
{
    if (s == NULL) return;
    td_list_destroy(s->list);
    td_memory_free(s->memory, s->host);
    free(s->tensors);
    free(s);
}

uint64_t td_snapshot_bytes(const td_snapshot *s)
{
    return s->host.bytes + s->constant_bytes + (s->n_tensors + 100) * HEADER_BYTES_EACH;
}

/* ---------------------------------------------------------------- writing */

/* Text of the numbers; doubles by their bits, so that they come back the same. */
typedef struct pairs {
    td_safetensors_pair items[N_KEYS];
    char values[N_KEYS][VALUE_BYTES];
    size_t count;
} pairs;

static void put_whole(pairs *p, const char *key, uint64_t value)
{
    snprintf(p->values[p->count], VALUE_BYTES, "%" PRIu64, value);
    p->items[p->count] = (td_safetensors_pair){key, p->values[p->count]};
    ++p->count;
}

static void put_real(pairs *p, const char *key, double value)
{
    if (!isfinite(value)) return;
    td_text_format_double(value, p->values[p->count]);
    p->items[p->count] = (td_safetensors_pair){key, p->values[p->count]};
    ++p->count;
}

static void put_state(pairs *p, const td_train_state *state)
{
    put_whole(p, "train.step", state->step);
    put_whole(p, "train.sampler_epoch", state->sampler.epoch);
    put_whole(p, "train.sampler_position", state->sampler.position);
    put_whole(p, "train.seed", state->seed);
    put_whole(p, "train.data", state->data);
    put_whole(p, "train.batch_size", state->batch_size);
    put_whole(p, "train.grad_accum", state->grad_accum);
    put_real(p, "train.best_loss", state->best_loss);
    put_whole(p, "train.best_step", state->best_step);
    if (state->best_by_distance) put_whole(p, "train.best_by_distance", 1);
    put_whole(p, "train.val_step", state->val_step);
    put_whole(p, "train.stale", state->n_stale);
    put_whole(p, "train.skipped", state->n_skipped);
    put_real(p, "train.loss", state->loss);
    put_real(p, "train.val_loss", state->val_loss);
}

typedef struct write_job {
    td_snapshot *snapshot;
    td_snapshot_order order;
    td_point copied;
} write_job;

static td_status write_files(void *context)
{
    const write_job *job = context;
    char path[TD_FILE_PATH_BYTES];
    pairs p = {0};
    const td_snapshot *s = job->snapshot;
    const td_snapshot_order *order = &job->order;
    TD_CHECK(td_point_wait(job->copied, TD_WAIT_FOREVER));
    put_state(&p, &order->state);
    TD_CHECK(td_run_dir_checkpoint(order->run, order->state.step, path));
    TD_CHECK(td_checkpoint_write(path, order->info, p.items, p.count, s->tensors, s->n_tensors));
    if (order->is_best) {
        TD_CHECK(td_run_dir_path(order->run, "best.safetensors", path));
        TD_CHECK(td_checkpoint_write(path, order->info, p.items, p.count, s->tensors, s->n_tensors));
    }
    return td_run_dir_finish(order->run, order->state.step, order->keep);
}

td_status td_snapshot_save(td_snapshot *s, td_side *side, const td_snapshot_order *order)
{
    td_status status = TD_OK;
    write_job *job = NULL;
    TD_TRY(td_side_wait(side));
    TD_TRY(TD_NEW(&job));
    *job = (write_job){.snapshot = s, .order = *order};
    TD_TRY(td_store_settle(s->store));
    TD_TRY(td_queue_submit(s->queue, &(td_submission){.list = s->list}, &job->copied));
    status = td_side_give(side, write_files, job);
    job = NULL;
fail:
    free(job);
    return status;
}

/* ---------------------------------------------------------------- loading */

static td_status get_whole(const td_checkpoint *c, const char *key, uint64_t *out)
{
    const char *text = td_checkpoint_text(c, key);
    if (text == NULL)
        return TD_FAIL(
            TD_ERR_FORMAT,
            "'%s' lacks '%s': it can speak but not be trained further; use it with training.init_from",
            td_checkpoint_path(c), key);
    return td_text_parse_u64(text, out) == TD_OK ? TD_OK : td_error_context("'%s'", td_checkpoint_path(c));
}

static double get_real(const td_checkpoint *c, const char *key)
{
    double value = NAN;
    const char *text = td_checkpoint_text(c, key);
    if (text != NULL && td_text_parse_double(text, &value) != TD_OK) value = NAN;
    return value;
}

static td_status load_state(const td_checkpoint *c, td_train_state *out)
{
    uint64_t batch_size, grad_accum;
    TD_CHECK(get_whole(c, "train.step", &out->step));
    TD_CHECK(get_whole(c, "train.sampler_epoch", &out->sampler.epoch));
    TD_CHECK(get_whole(c, "train.sampler_position", &out->sampler.position));
    TD_CHECK(get_whole(c, "train.seed", &out->seed));
    TD_CHECK(get_whole(c, "train.batch_size", &batch_size));
    TD_CHECK(get_whole(c, "train.grad_accum", &grad_accum));
    TD_CHECK(get_whole(c, "train.best_step", &out->best_step));
    TD_CHECK(get_whole(c, "train.stale", &out->n_stale));
    TD_CHECK(get_whole(c, "train.skipped", &out->n_skipped));
    if (td_checkpoint_text(c, "train.val_step") != NULL)
        TD_CHECK(get_whole(c, "train.val_step", &out->val_step));
    if (td_checkpoint_text(c, "train.data") != NULL) TD_CHECK(get_whole(c, "train.data", &out->data));
    out->batch_size = (uint32_t)batch_size;
    out->grad_accum = (uint32_t)grad_accum;
    out->best_loss = get_real(c, "train.best_loss");
    out->best_by_distance = td_checkpoint_text(c, "train.best_by_distance") != NULL;
    out->loss = get_real(c, "train.loss");
    out->val_loss = get_real(c, "train.val_loss");
    return TD_OK;
}

static td_status load_control(const td_checkpoint *c, td_store *store, size_t learner)
{
    const td_safetensors_tensor *control;
    uint32_t words[TD_CONTROL_WORDS] = {0};
    char name[NAME_BYTES];
    const td_family *family = td_checkpoint_get_info(c)->model.family;
    TD_CHECK(td_checkpoint_tensor(c, "optimizer.", name_control(family, learner, name), &control));
    TD_REFUSE_IF(control->bytes != CONTROL_BYTES && control->bytes != OLDER_CONTROL_BYTES, TD_ERR_FORMAT,
                 "'%s': %s has a wrong size", td_checkpoint_path(c), control->name);
    memcpy(words, control->data, control->bytes);
    return td_store_write_control(store, learner, words);
}

/* This rank's part of the moments of a learner whose moments are cut. */
static td_status load_moments(const td_checkpoint *c, const td_store *store, td_shards *const *shards,
                              td_block block, const char *prefix)
{
    for (size_t i = 0; i < td_store_count(store); ++i) {
        const td_store_entry entry = td_store_get(store, i);
        const td_safetensors_tensor *tensor;
        if (entry.learner >= TD_MAX_LEARNERS || shards[entry.learner] == NULL) continue;
        TD_CHECK(td_checkpoint_tensor(c, prefix, entry.name, &tensor));
        TD_REFUSE_IF(!td_checkpoint_has_shape(tensor, entry.shape), TD_ERR_FORMAT,
                     "'%s': %s%s has another shape", td_checkpoint_path(c), prefix, entry.name);
        TD_CHECK(td_shards_load(shards[entry.learner], i, block, tensor->data));
    }
    return TD_OK;
}

td_status td_snapshot_load(const td_checkpoint *c, td_store *store, td_shards *const *shards,
                           td_train_state *out)
{
    bool averages = false;
    TD_CHECK(load_state(c, out));
    TD_CHECK(td_checkpoint_verify(c));
    TD_CHECK(td_checkpoint_load(c, store, TD_BLOCK_WEIGHT));
    TD_CHECK(td_checkpoint_load(c, store, TD_BLOCK_MOMENT1));
    TD_CHECK(td_checkpoint_load(c, store, TD_BLOCK_MOMENT2));
    TD_CHECK(load_moments(c, store, shards, TD_BLOCK_MOMENT1, "moment1."));
    TD_CHECK(load_moments(c, store, shards, TD_BLOCK_MOMENT2, "moment2."));
    for (size_t i = 0; i < td_store_count(store); ++i)
        averages |= td_store_span(store, i, TD_BLOCK_AVERAGE).buffer != NULL;
    if (averages) TD_CHECK(td_checkpoint_load(c, store, TD_BLOCK_AVERAGE));
    for (size_t i = 0; i < td_store_learners(store); ++i)
        TD_CHECK(load_control(c, store, i));
    return TD_OK;
}
