/* A batch: named tensors ("features") that lie in the memory of one device, and what is known about them. Who
 * uses a batch asks for features by name, so that a stage neither knows nor lists what passes through it.
 * Also how a batch as a whole is taken from one place in memory to another. Covered by
 * tests/data/test_loader.c and tests/pipeline/test_transfer.c.
 */
#ifndef TD_DATA_BATCH_H
#define TD_DATA_BATCH_H

#include "data/sampler.h"
#include "graph/graph.h"

#define TD_FEATURE_NAME_BYTES 32

/* A tensor of a batch. */
typedef struct td_feature {
    const char *name; /* "mel"; borrowed for as long as the loader lives */
    td_dtype dtype;   /* TD_F32 or TD_U32 */
    td_shape shape;   /* [B, T, n_mels] */
    td_span span;     /* where it lies; exact */
    bool is_inner;    /* others are made from it on this device, and nobody else takes it: it is not packed */
} td_feature;

/* What graphs are built for: B, the length of texts, of recordings and of references (0: without). */
typedef struct td_batch_shape {
    uint32_t items, tokens, frames, reference_frames;
} td_batch_shape;

bool td_batch_shape_equal(const td_batch_shape *a, const td_batch_shape *b);

#define TD_BATCH_FEATURES 16
#define TD_BATCH_POINTS 16

/* Valid until it is released. */
typedef struct td_batch {
    uint64_t number; /* from 0 */
    uint64_t epoch;
    td_sampler_state after;       /* the sampler's when this batch is done: what a checkpoint keeps */
    float shares[TD_COUNT_KINDS]; /* in its step, by td_count_kind (sampler.h) */
    uint32_t count;               /* shape.items */
    uint32_t n_fresh;             /* items from here on fill a last batch up */
    uint32_t bucket;
    const uint32_t *rows;                         /* host [B]: of the dataset, replacements in place */
    double audio_s;                               /* of all items together */
    uint64_t load_start_ns, load_end_ns, load_ns; /* host: first item begun, last done, all items together */
    td_point ready;                               /* the spans hold it from here on */
    td_point made[TD_BATCH_POINTS]; /* what the data device did for it, for who measures: front ends, parts */
    size_t n_made;
    td_batch_shape shape;
    td_feature features[TD_BATCH_FEATURES];
    size_t n_features;
} td_batch;

/* NULL: it has none of this name. Borrowed from the batch. */
const td_feature *td_batch_find(const td_batch *batch, const char *name);

/* Inputs of graphs, [1], that are filled with the batch's shares: their names; and the share of a name, NULL: it
 * is of none, else borrowed from the batch. */
const char *td_share_name(td_count_kind kind);
const float *td_batch_share(const td_batch *batch, const char *name);

/* Room that the batch's features take when packed. */
uint64_t td_batch_bytes(const td_batch *batch);

/* Records copies of all features but inner ones into `room`, which has td_batch_bytes(). */
td_status td_batch_pack(const td_batch *batch, td_span room, td_list *list);

/* The same batch, without inner features, with its features where td_batch_pack() puts them in `room`, which may be another memory
 * that got its bytes. `ready` stays. Cannot fail. */
td_batch td_batch_packed(const td_batch *batch, td_span room);

#endif
