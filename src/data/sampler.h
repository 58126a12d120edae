/* Which rows make up which batch. Rows are put in buckets by their length, so that a batch has little
 * padding, or all in one for a single static shape. Each epoch shuffles the rows of every bucket and then the
 * order of the batches; both are pure functions of seed and epoch, so that a sampler set to a stored state
 * goes on exactly as the one it was taken from. What a bucket has left over after its whole batches moves to
 * the next longer one, whose shape it fits; the longest bucket's rest is the one incomplete batch of an
 * epoch, and `last` says what becomes of it. Several samplers of the same rows and settings can share the
 * order (td_sampler_cut): each batch is then given by one of them. One thread at a time. Covered by
 * tests/data/test_sampler.c.
 */
#ifndef TD_DATA_SAMPLER_H
#define TD_DATA_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tandem/status.h"

typedef enum td_sampler_last {
    TD_LAST_FILL, /* filled up with rows drawn again from the same bucket: all batches are whole */
    TD_LAST_KEEP, /* given as it is, with fewer rows */
} td_sampler_last;

/* What losses are means over: frames, tokens, or steps of a decoder that makes several frames at once. */
typedef enum td_count_kind { TD_COUNT_FRAMES, TD_COUNT_TOKENS, TD_COUNT_STEPS, TD_COUNT_KINDS } td_count_kind;

typedef struct td_sampler_settings {
    uint32_t batch_size;
    uint32_t n_buckets;    /* 1 = one static shape */
    uint32_t round_frames; /* lengths of shapes are multiples of this */
    uint32_t max_frames;   /* longer rows are left out; a static shape has this length. 0: no limit */
    uint32_t max_tokens;   /* longer texts are left out. 0: no limit */
    td_sampler_last last;
    bool in_order; /* no shuffle, for validation: the same batches in every epoch */
    uint64_t seed;
    uint32_t frames_per_step; /* 0: 1 */
} td_sampler_settings;

/* A row and how long it is. */
typedef struct td_sampler_row {
    uint32_t row;
    uint32_t frames;
    uint32_t tokens;
} td_sampler_row;

/* All there is to store. */
typedef struct td_sampler_state {
    uint64_t epoch;
    uint64_t position; /* batches given in this epoch */
} td_sampler_state;

typedef struct td_batch_rows {
    const uint32_t *rows; /* borrowed until the next call */
    uint32_t count;       /* batch_size, or less for a kept last batch */
    uint32_t n_fresh;     /* rows from here on fill a last batch up */
    uint32_t frames;      /* of the bucket's shape: no row is longer */
    uint32_t tokens;
    uint32_t bucket;
    uint64_t epoch, position;
    /* By td_count_kind, what it has of all that its group counts, times the batches of the group: 1 where all are
     * alike. A mean over the batch times this, averaged over the group, is the mean over the whole group. */
    float shares[TD_COUNT_KINDS];
    td_sampler_state after; /* when all batches of the group are done */
} td_batch_rows;

typedef struct td_sampler td_sampler;

/* *out: owned, td_sampler_destroy(). `rows` is copied. TD_ERR_FORMAT if the limits leave no row. */
td_status td_sampler_create(const td_sampler_settings *settings, const td_sampler_row *rows, size_t n_rows,
                            td_sampler **out);
void td_sampler_destroy(td_sampler *sampler);

/* Batches that belong together, those of one step: `of` of them, one after the other, from the state that is
 * set on; `count` of them, from number `first` on, are given here, the others by other samplers. */
typedef struct td_sampler_part {
    uint32_t first, count, of;
} td_sampler_part;

/* Until then a group is one batch. Before the first batch, or before a state is set. */
td_status td_sampler_cut(td_sampler *sampler, td_sampler_part part);

/* The next batch of this part; after the last of an epoch the first of the next one. Cannot fail. */
void td_sampler_next(td_sampler *sampler, td_batch_rows *out);

td_sampler_state td_sampler_get_state(const td_sampler *sampler);

/* The next batch will be the one that followed when `state` was taken from a sampler of the same rows and
 * settings. TD_ERR_FORMAT for a position past the epoch's end. */
td_status td_sampler_set_state(td_sampler *sampler, td_sampler_state state);

/* These never change: they may be asked while another thread takes batches. */

size_t td_sampler_batches_per_epoch(const td_sampler *sampler);
size_t td_sampler_left_out(const td_sampler *sampler); /* rows past a limit */

/* The shapes there can be, shortest first: a graph is built for each. */
size_t td_sampler_shape_count(const td_sampler *sampler);
void td_sampler_shape(const td_sampler *sampler, size_t index, uint32_t *frames, uint32_t *tokens);

#endif
