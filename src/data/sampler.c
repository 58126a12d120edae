/* Batches in seeded order (sampler.h). An epoch is planned when it begins: `order` holds the rows of its
 * batches one after another, `batches` where each starts. */
#include "data/sampler.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"

/* Streams of the generator: one per epoch and purpose. */
enum { ROW_STREAM = 1, BATCH_STREAM = 2, FILL_STREAM = 3, STREAMS = 16 };

typedef struct bucket {
    size_t first, count; /* in `rows` */
    uint32_t frames, tokens;
} bucket;

typedef struct batch {
    size_t first; /* in `order` */
    uint32_t count, n_fresh;
    uint32_t bucket;
    uint64_t counts[TD_COUNT_KINDS]; /* of all its rows */
} batch;

struct td_sampler {
    td_sampler_settings settings;
    td_sampler_row *rows; /* by frames, then tokens, then row */
    size_t n_rows;
    size_t n_left_out;
    bucket *buckets; /* shortest first, none empty */
    size_t n_buckets;
    td_sampler_state state;
    td_sampler_part part;
    uint32_t n_given;              /* of the part, in this group */
    uint32_t n_ahead;              /* batches of others before the next group */
    td_sampler_state after;        /* this group */
    uint64_t sums[TD_COUNT_KINDS]; /* of this group */
    uint32_t *order;               /* room for n_rows + batch_size */
    uint32_t *pool;                /* room for n_rows: places in `rows` */
    batch *batches;                /* room for n_rows */
    size_t n_planned;              /* of them, so far */
    size_t n_batches;              /* of every epoch: the rows and the settings alone decide */
};

static int compare_rows(const void *a, const void *b)
{
    const td_sampler_row *x = a, *y = b;
    if (x->frames != y->frames) return x->frames < y->frames ? -1 : 1;
    if (x->tokens != y->tokens) return x->tokens < y->tokens ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

static uint32_t round_up(uint32_t frames, uint32_t to, uint32_t limit)
{
    const uint64_t rounded = to > 1 ? ((uint64_t)frames + to - 1) / to * to : frames;
    if (limit > 0 && rounded > limit) return limit;
    return rounded > UINT32_MAX ? UINT32_MAX : (uint32_t)rounded;
}

/* Equal numbers of rows in each, but rows of one shape stay together: a bucket ends where the rounded length
 * changes. Shapes grow from bucket to bucket, so that left-over rows fit the next. */
static void make_buckets(td_sampler *s)
{
    const td_sampler_settings *set = &s->settings;
    uint32_t tokens = 0;
    for (size_t at = 0; at < s->n_rows;) {
        const size_t n_ahead = set->n_buckets > s->n_buckets ? set->n_buckets - s->n_buckets : 1;
        size_t end = at + (s->n_rows - at + n_ahead - 1) / n_ahead;
        const uint32_t frames = round_up(s->rows[end - 1].frames, set->round_frames, set->max_frames);
        while (end < s->n_rows && s->rows[end].frames <= frames)
            ++end;
        for (size_t i = at; i < end; ++i)
            tokens = s->rows[i].tokens > tokens ? s->rows[i].tokens : tokens;
        s->buckets[s->n_buckets++] =
            (bucket){.first = at, .count = end - at, .frames = frames, .tokens = tokens};
        at = end;
    }
    if (set->n_buckets == 1 && set->max_frames > 0) s->buckets[0].frames = set->max_frames;
    if (set->n_buckets == 1 && set->max_tokens > 0) s->buckets[0].tokens = set->max_tokens;
}

/* ---------------------------------------------------------------- an epoch */

static uint64_t make_stream(uint64_t epoch, uint64_t purpose, uint64_t number)
{
    return (epoch * STREAMS + purpose) << 16 | number;
}

static void add_row(td_sampler *s, size_t *used, size_t at)
{
    const uint32_t per_step = s->settings.frames_per_step > 0 ? s->settings.frames_per_step : 1;
    const td_sampler_row *row = &s->rows[at];
    batch *last = &s->batches[s->n_planned - 1];
    s->order[(*used)++] = row->row;
    last->counts[TD_COUNT_FRAMES] += row->frames;
    last->counts[TD_COUNT_TOKENS] += row->tokens;
    last->counts[TD_COUNT_STEPS] += ((uint64_t)row->frames + per_step - 1) / per_step;
    ++last->count;
}

static void add_batch(td_sampler *s, size_t *used, const uint32_t *places, uint32_t count, uint32_t number)
{
    s->batches[s->n_planned++] = (batch){.first = *used, .n_fresh = count, .bucket = number};
    for (uint32_t i = 0; i < count; ++i)
        add_row(s, used, places[i]);
}

/* The rest of the longest bucket. Rows to fill it up with are drawn from all that fit its shape. */
static void add_last(td_sampler *s, size_t *used, uint32_t count, uint32_t number)
{
    const td_sampler_settings *set = &s->settings;
    const bucket *b = &s->buckets[number];
    if (count == 0) return;
    add_batch(s, used, s->pool, count, number);
    if (set->last == TD_LAST_KEEP) return;
    const batch *last = &s->batches[s->n_planned - 1];
    for (uint64_t i = 0; last->count < set->batch_size; ++i) {
        const uint64_t stream = make_stream(set->in_order ? 0 : s->state.epoch, FILL_STREAM, number);
        const size_t drawn = b->first + (size_t)td_rng_below(set->seed, stream, i, b->count);
        add_row(s, used, drawn);
    }
}

static void plan_epoch(td_sampler *s)
{
    const td_sampler_settings *set = &s->settings;
    const uint64_t epoch = s->state.epoch;
    size_t used = 0, n_pool = 0;
    s->n_planned = 0;
    for (uint32_t number = 0; number < s->n_buckets; ++number) {
        const bucket *b = &s->buckets[number];
        for (size_t i = 0; i < b->count; ++i)
            s->pool[n_pool++] = (uint32_t)(b->first + i);
        if (!set->in_order)
            td_rng_shuffle(set->seed, make_stream(epoch, ROW_STREAM, number), s->pool, n_pool,
                           sizeof *s->pool);
        size_t taken = 0;
        for (; n_pool - taken >= set->batch_size; taken += set->batch_size)
            add_batch(s, &used, s->pool + taken, set->batch_size, number);
        memmove(s->pool, s->pool + taken, (n_pool - taken) * sizeof *s->pool);
        n_pool -= taken;
    }
    add_last(s, &used, (uint32_t)n_pool, (uint32_t)s->n_buckets - 1);
    if (!set->in_order)
        td_rng_shuffle(set->seed, make_stream(epoch, BATCH_STREAM, 0), s->batches, s->n_planned,
                       sizeof *s->batches);
}

/* ---------------------------------------------------------------- the interface */

static td_status check_settings(const td_sampler_settings *set)
{
    if (set->batch_size == 0 || set->n_buckets == 0 || set->n_buckets > 1 << 15)
        return TD_FAIL(TD_ERR_ARGUMENT, "a sampler needs a batch size and 1 to 32768 buckets, not %u and %u",
                       set->batch_size, set->n_buckets);
    return TD_OK;
}

td_status td_sampler_create(const td_sampler_settings *settings, const td_sampler_row *rows, size_t n_rows,
                            td_sampler **out)
{
    td_status status = TD_OK;
    td_sampler *s = NULL;
    *out = NULL;
    TD_TRY(check_settings(settings));
    TD_TRY(TD_NEW(&s));
    s->settings = *settings;
    s->part = (td_sampler_part){.count = 1, .of = 1};
    TD_TRY(TD_NEW_ARRAY(&s->rows, n_rows + 1));
    TD_TRY(TD_NEW_ARRAY(&s->pool, n_rows + 1));
    TD_TRY(TD_NEW_ARRAY(&s->order, n_rows + settings->batch_size));
    TD_TRY(TD_NEW_ARRAY(&s->batches, n_rows + 1));
    TD_TRY(TD_NEW_ARRAY(&s->buckets, settings->n_buckets + 1));
    for (size_t i = 0; i < n_rows; ++i) {
        const bool fits = (settings->max_frames == 0 || rows[i].frames <= settings->max_frames) &&
                          (settings->max_tokens == 0 || rows[i].tokens <= settings->max_tokens);
        if (fits)
            s->rows[s->n_rows++] = rows[i];
        else
            ++s->n_left_out;
    }
    TD_FAIL_IF(s->n_rows == 0, TD_ERR_FORMAT,
               "none of %zu rows can be used: all are longer than %u frames or %u tokens; raise "
               "data.max_mel_frames or data.max_text_length",
               n_rows, settings->max_frames, settings->max_tokens);
    qsort(s->rows, s->n_rows, sizeof *s->rows, compare_rows);
    make_buckets(s);
    plan_epoch(s);
    s->n_batches = s->n_planned;
    *out = s;
    return TD_OK;
fail:
    td_sampler_destroy(s);
    return status;
}

void td_sampler_destroy(td_sampler *sampler)
{
    if (sampler == NULL) return;
    free(sampler->rows);
    free(sampler->pool);
    free(sampler->order);
    free(sampler->batches);
    free(sampler->buckets);
    free(sampler);
}

/* Goes past `count` batches, into other epochs too. */
static void pass_over(td_sampler *s, uint32_t count)
{
    s->state.position += count;
    if (s->state.position < s->n_batches) return;
    s->state.epoch += s->state.position / s->n_batches;
    s->state.position %= s->n_batches;
    plan_epoch(s);
}

/* What all its batches hold together, and where it ends, which may be in another epoch. */
static void begin_group(td_sampler *s)
{
    pass_over(s, s->n_ahead);
    const td_sampler_state start = s->state;
    memset(s->sums, 0, sizeof s->sums);
    for (uint32_t i = 0; i < s->part.of; ++i) {
        if (i > 0) pass_over(s, 1);
        for (size_t kind = 0; kind < TD_COUNT_KINDS; ++kind)
            s->sums[kind] += s->batches[s->state.position].counts[kind];
    }
    s->after = (td_sampler_state){s->state.epoch, s->state.position + 1};
    const bool crosses = s->state.epoch != start.epoch;
    s->state = start;
    if (crosses) plan_epoch(s);
    pass_over(s, s->part.first);
}

void td_sampler_next(td_sampler *sampler, td_batch_rows *out)
{
    td_sampler *s = sampler;
    if (s->n_given == 0)
        begin_group(s);
    else
        pass_over(s, 0);
    const batch *b = &s->batches[s->state.position];
    *out = (td_batch_rows){
        .rows = s->order + b->first,
        .count = b->count,
        .n_fresh = b->n_fresh,
        .frames = s->buckets[b->bucket].frames,
        .tokens = s->buckets[b->bucket].tokens,
        .bucket = b->bucket,
        .epoch = s->state.epoch,
        .position = s->state.position++,
        .after = s->after,
    };
    for (size_t kind = 0; kind < TD_COUNT_KINDS; ++kind) /* exactly 1 where a group is one batch */
        out->shares[kind] =
            s->sums[kind] > 0 ? (float)((double)b->counts[kind] * s->part.of / (double)s->sums[kind]) : 1.0F;
    if (++s->n_given < s->part.count) return;
    s->n_given = 0;
    s->n_ahead = s->part.of - s->part.first - s->part.count;
}

td_status td_sampler_cut(td_sampler *sampler, td_sampler_part part)
{
    TD_REFUSE_IF(part.count == 0 || part.first + part.count > part.of, TD_ERR_ARGUMENT,
                 "batches %u to %u of a group of %u", part.first, part.first + part.count, part.of);
    sampler->part = part;
    sampler->n_given = sampler->n_ahead = 0;
    return TD_OK;
}

td_sampler_state td_sampler_get_state(const td_sampler *sampler)
{
    return sampler->state;
}

td_status td_sampler_set_state(td_sampler *sampler, td_sampler_state state)
{
    if (state.position > sampler->n_batches) {
        return TD_FAIL(TD_ERR_FORMAT,
                       "batch %llu of an epoch of %zu: the state belongs to other data or another batch size",
                       (unsigned long long)state.position, sampler->n_batches);
    }
    sampler->state = state;
    sampler->n_given = sampler->n_ahead = 0;
    plan_epoch(sampler);
    return TD_OK;
}

size_t td_sampler_batches_per_epoch(const td_sampler *sampler)
{
    return sampler->n_batches;
}

size_t td_sampler_left_out(const td_sampler *sampler)
{
    return sampler->n_left_out;
}

size_t td_sampler_shape_count(const td_sampler *sampler)
{
    return sampler->n_buckets;
}

void td_sampler_shape(const td_sampler *sampler, size_t index, uint32_t *frames, uint32_t *tokens)
{
    *frames = sampler->buckets[index].frames;
    *tokens = sampler->buckets[index].tokens;
}
