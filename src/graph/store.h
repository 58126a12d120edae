/* The inside of a store, for plans and the optimizer. See plan.h. */
#ifndef TD_GRAPH_STORE_H
#define TD_GRAPH_STORE_H

#include "graph/internal.h"
#include "graph/plan.h"

#define TD_CONTROL_BYTES (UINT64_C(4) * TD_CONTROL_WORDS)

/* Entries of one learner and group that lie in one piece, short enough for one binding. */
typedef struct td_segment {
    uint32_t learner; /* TD_MAX_LEARNERS: none */
    td_param_group group;
    bool is_state;
    bool is_half_only; /* weights in 16 bits alone */
    uint64_t elements;
    td_span blocks[TD_BLOCK_COUNT];
    td_span before;   /* gradients of the runs before this one; without a place until they are wanted */
    bool is_borrowed; /* the weights are another store's */
} td_segment;

typedef struct td_placed_entry {
    td_store_entry entry;
    td_init init; /* names are the store's */
    bool is_half_only;
    uint32_t segment;
    uint64_t offset; /* elements */
} td_placed_entry;

struct td_store {
    td_memory *memory;
    td_device *device;
    td_arena *names;
    td_store_options options;
    td_placed_entry *entries;
    size_t n_entries, entry_capacity;
    td_segment *segments;
    size_t n_segments, segment_capacity;
    td_span controls[TD_MAX_LEARNERS]; /* TD_CONTROL_WORDS words each */
    size_t n_learners;
    struct td_shards
        *shards[TD_MAX_LEARNERS]; /* shard.h: parameters that may be on their way; NULL: none are */
    /* accumulate.c: NULL until wanted */
    td_list *keep[TD_MAX_LEARNERS], *sum[TD_MAX_LEARNERS], *clear[TD_MAX_LEARNERS];
    td_span step;      /* one word */
    td_span arena[16]; /* chunks that plans share */
    size_t n_arena;
    uint64_t bytes;    /* without the arena */
    double time_scale; /* how much longer work takes than estimated; 1 until a plan has run */
};

/* Where a parameter, gradient or state of a graph lies in a block; fails if the store does not have it so. */
td_status td_store_find(const td_store *store, const td_graph *graph, uint32_t tensor, td_block block,
                        td_span *out);

/* Moments in fewer bits, as floats of the host (store_formats.c); and weights that exist in 16 bits alone, of which one of
 * `from` and `to` is given. */
td_status td_store_write_packed(td_store *store, size_t i, td_block block, const float *values);
td_status td_store_read_packed(td_store *store, size_t i, td_block block, float *values);
td_status td_store_move_half(td_store *store, size_t i, const float *from, float *to);

/* Makes the list that clears a learner's gradients (accumulate.c). */
td_status td_store_want_clear(td_store *store, uint32_t learner);

/* Records the sum of what was put aside and what is there (accumulate.c), of a range of elements. */
td_status td_store_record_sum(td_list *list, const td_segment *segment, uint64_t first, uint64_t count);

#endif
