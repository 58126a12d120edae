/* From a graph to runs on a device.
 *
 *   store   what outlives a run: parameters, gradients, moments, states, in flat blocks; and the arena that
 *           plans share
 *   plan    one graph made ready for one device: what nobody reads dropped, nodes fused, every tensor given
 *           its offset, commands recorded; replayed each time without host work in between
 *
 * The update of the parameters is optimizer.h's. Plans of one store run one at a time, in the order of their
 * submission. Covered by tests/graph.
 */
#ifndef TD_GRAPH_PLAN_H
#define TD_GRAPH_PLAN_H

#include <stdio.h>

#include "graph/graph.h"
#include "graph/packed.h"
#include "kernels/optim_geometry.h"

/* ---------------------------------------------------------------- store */

typedef struct td_store td_store;

/* The flat blocks: the same order and offsets in each. */
typedef enum td_block {
    TD_BLOCK_WEIGHT,
    TD_BLOCK_GRADIENT,
    TD_BLOCK_MOMENT1,
    TD_BLOCK_MOMENT2,
    TD_BLOCK_AVERAGE,
    TD_BLOCK_HALF, /* weights in 16 bits, two to a word */
    TD_BLOCK_COUNT
} td_block;

typedef struct td_store_options {
    bool training;     /* gradients and moments */
    bool no_moments;   /* somebody else keeps them: shard.h */
    bool no_gradients; /* plans use them up themselves (td_plan_options.updates) */
    bool host_moments; /* moments are in the host's memory; updates fetch and bring back piece after piece */
    bool average;      /* running average of the parameters */
    /* Prefixes of names, ended by NULL: entries lie in the order of the first that fits, those that none fits
     * last. NULL: as the graphs have them. */
    const char *const *order;
    /* TD_BF16, TD_F16: products of training plans read a copy of the weights in 16 bits, which every change of
     * them brings up to date; the group DECAY has one. Else none. With TD_F16 the loss scale starts at
     * TD_LOSS_SCALE_START, else it is 1 and stays. */
    td_dtype half;
    td_state_format state; /* of the moments */
    bool
        half_frozen; /* with `half`: weights that nobody updates, and that products alone read, exist in 16 bits
                              only; plans without gradients then read 16 bits too. Somebody else has their fp32 */
} td_store_options;

/* Room, filled with zeros, for the parameters and states of `graph`; other graphs with the same ones can be
 * planned on it. `memory` is borrowed until the store is destroyed; the graph only during the call. *out is
 * owned; destroy it after its plans. */
td_status td_store_create(td_memory *memory, const td_graph *graph, const td_store_options *options,
                          td_store **out);
void td_store_destroy(td_store *store);

/* The same for graphs of several learners, graph i being learner i's: a parameter is updated by the one
 * learner in whose graph it is not frozen. One that is in two is TD_ERR_ARGUMENT. */
#define TD_MAX_LEARNERS 4u
td_status td_store_create_shared(td_memory *memory, const td_graph *const *graphs, size_t n_graphs,
                                 const td_store_options *options, td_store **out);

/* A second store on the same parameters, for plans that only read them: states are its own, beginning with what the
 * lender's hold, as is the arena; so plans of both may run at once, from two threads. Neither writes parameters from
 * here on. The lender must not be one for training, rests during the call, and is destroyed last. *out is owned. */
td_status td_store_borrow(const td_store *lender, td_store **out);

/* Room, filled with zeros, for those states of `graph` that the store does not have: caches of a graph that
 * comes later. Plans that exist stay as they are. */
td_status td_store_extend(td_store *store, const td_graph *graph);

/* Fills parameters and constants as their graph says they begin; host work, then one copy each. */
td_status td_store_init(td_store *store, uint64_t seed);

/* Only the constants: after a checkpoint was loaded, which need not hold them. */
td_status td_store_init_constants(td_store *store);

/* Parameters and states in the order of the graph. */
typedef struct td_store_entry {
    const char *name; /* borrowed until the store is destroyed */
    td_shape shape;
    td_tensor_role role;
    td_param_group group;
    td_state_kind state_kind; /* of a state */
    uint32_t learner;         /* that updates it; TD_MAX_LEARNERS: none */
} td_store_entry;
size_t td_store_count(const td_store *store);
td_store_entry td_store_get(const td_store *store, size_t i);

/* Where entry i lies in a block; a zero span where it has no place (states have weights alone). Moments that are packed
 * lie there in their format. td_store_scales: the largest magnitudes, where moments are kept in 8 bits. */
td_span td_store_span(const td_store *store, size_t i, td_block block);
td_span td_store_scales(const td_store *store, size_t i, td_block block);

/* Whether td_store_read() and td_store_write() find something there; weights in 16 bits alone count as weights. */
bool td_store_has(const td_store *store, size_t i, td_block block);

td_state_format td_store_state(const td_store *store);

/* Copies an entry between the host and the device, and waits; for loading, saving and looking. `values` has
 * as many floats as the entry; gradients come without the loss scale, if no update came after them. */
td_status td_store_write(td_store *store, size_t i, td_block block, const float *values);
td_status td_store_read(td_store *store, size_t i, td_block block, float *values);

/* Waits for parameters that are on their way from other ranks (shard.h), so that whatever is submitted to the compute
 * queue after this sees them. Runs of plans and the two functions above do so themselves. */
td_status td_store_settle(td_store *store);

size_t td_store_learners(const td_store *store);

/* TD_CONTROL_WORDS words of a learner's optimizer, for checkpoints. A loss scale that is not there, or that
 * this store does not have, becomes what it starts with. */
td_status td_store_write_control(td_store *store, size_t learner, const uint32_t *words);
td_status td_store_read_control(td_store *store, size_t learner, uint32_t *words);

/* Where those words lie, for copies that do not wait. */
td_span td_store_control(const td_store *store, size_t learner);

/* The first entry, in order, whose values in a block are not all finite; the count of entries if there is
 * none. Reads everything back: for finding out what went wrong, not for each step. */
td_status td_store_find_broken(td_store *store, td_block block, size_t *out);

/* Room for sums of a learner's gradients over several runs (td_run.adds), which the first such run would take
 * otherwise. */
td_status td_store_want_sums(td_store *store, uint32_t learner);

/* ---------------------------------------------------------------- plan */

typedef struct td_plan td_plan;

typedef struct td_plan_options {
    uint32_t learner;  /* whose graph it is, by its number in the store */
    bool forward_only; /* without the gradients that the graph may have */
    bool averaged;     /* parameters are read from their running averages, where the store has them */
    bool no_fusion;    /* every node a launch of its own */
    bool no_reuse;     /* every tensor a place of its own */
    bool checkpoint;   /* blocks are computed again in the backward pass instead of kept */
    bool remake_cheap; /* what one pass over memory makes again is not kept either, also where that costs
                          more than a few hundredths of the step; so it is with checkpoint
                          and half */
    td_dtype half;     /* TD_BF16, TD_F16: what the backward pass needs of activations is kept in 16 bits, and
                          products read the weights so if the store has such copies. Else nothing of it */
    uint32_t slots;    /* 0: 2 */
    /* With no_gradients: each parameter is updated in the run itself, as soon as its gradient is final and nothing
     * reads it any more. Made with in_backward (optimizer.h). Borrowed until the plan is destroyed. Else NULL. */
    const struct td_optimizer *updates;
    /* Gradients are added to the store's one by one, each as soon as it is final, and lie in the arena until then: for
     * steps of several runs, without room for sums. The run that does not add clears them first. Not with buckets. */
    bool sums_gradients;
    const struct td_buckets
        *buckets; /* bucket.h: each gets a point when it is final; NULL: none. Borrowed until
                                         the plan is destroyed */
    bool
        cuts_reads; /* a run waits for parameters that are on their way (shard.h) where it first reads some of a
                        bucket, not at its beginning; and td_plan_reads() knows */
} td_plan_options;

typedef struct td_plan_stats {
    size_t nodes, launches; /* commands of a step */
    uint64_t arena_bytes;   /* peak of activations, inputs and scratch */
    uint64_t kept_bytes;    /* of that, what the forward pass leaves to the backward pass */
    uint64_t sum_bytes;     /* the same if nothing shared its place */
    uint64_t store_bytes;   /* parameters, gradients, moments ... */
    double flops;           /* of products, convolutions and attention, without what is computed again */
    double estimated_ms;
    size_t fused;       /* nodes that went into others */
    size_t submissions; /* to the driver, of about 250 ms at most: by estimates, then by measurement */
} td_plan_stats;

/* Plans and records. The graph and the store are borrowed until the plan is destroyed. A plan that does not
 * fit fails with TD_ERR_LIMIT before anything is allocated, and says what is needed, what is there, the
 * largest tensors and what would help. *out is owned. */
td_status td_plan_create(td_store *store, const td_graph *graph, const td_plan_options *options,
                         td_plan **out);
void td_plan_destroy(td_plan *plan);
void td_plan_get_stats(const td_plan *plan, td_plan_stats *out);

/* Times each node alone, the shortest of `rounds` runs, for td_plan_explain. Tensors are left with whatever
 * the nodes make of them; parameters too, so train before or load again. */
td_status td_plan_measure(td_plan *plan, uint32_t rounds);

/* The plan for people: a table, or a picture for Graphviz. */
td_status td_plan_explain(const td_plan *plan, FILE *file);
td_status td_plan_explain_dot(const td_plan *plan, FILE *file);

/* ---------------------------------------------------------------- steps */

/* Puts an input's values into a slot, waiting if the slot's last run has not taken them yet. Whole tensors.
 */
td_status td_plan_fill(td_plan *plan, uint32_t slot, td_tensor input, const void *values);

/* From now on an input of a slot comes from this range (where a channel delivers, say) instead of
 * td_plan_fill. The range is borrowed until the plan is destroyed or another is bound; runs wait for its
 * writer by td_run.waits, the writer for the run by td_plan_taken. */
td_status td_plan_bind(td_plan *plan, uint32_t slot, td_tensor input, td_span source);

/* The point from which what a slot's last run took in may be written again. */
td_point td_plan_taken(const td_plan *plan, uint32_t slot);

/* One run: the inputs of a slot go in, the plan runs, scalars come out. Submits, and waits only for
 * parameters that are on their way. */
typedef struct td_run {
    uint32_t slot;
    uint32_t step; /* changes dropout masks */
    bool adds;     /* a micro-batch after the first: what it makes is added to the gradients before */
    const td_point *waits;
    size_t n_waits;
} td_run;
td_status td_plan_run(td_plan *plan, const td_run *run, td_point *reached);

/* The TD_RUN_POINTS points of the last run, in order: inputs taken in, the plan, scalars out. For watching.
 * Valid until the next run. */
#define TD_RUN_POINTS 3
const td_point *td_plan_points(const td_plan *plan);

/* By bucket: when its gradients were final in the last run. Valid until the next run. */
const td_point *td_plan_ready(const td_plan *plan);

/* By bucket, with td_plan_options.cuts_reads: when the last run was about to read parameters of it for the first time;
 * a point of no queue: at its beginning. Valid until the next run. */
const td_point *td_plan_reads(const td_plan *plan);

/* What a run left in its scalars: values of the graph's outputs of one element, in the order of their making.
 * Kept for the last TD_SCALAR_RING runs; waits for that run. */
#define TD_SCALAR_RING 4
#define TD_PLAN_SCALARS 16
typedef struct td_scalars {
    size_t count;
    const char *names[TD_PLAN_SCALARS]; /* borrowed from the graph */
    float values[TD_PLAN_SCALARS];
} td_scalars;
uint64_t td_plan_runs(const td_plan *plan); /* submitted so far; the last is td_plan_runs() - 1 */
td_status td_plan_scalars(td_plan *plan, uint64_t run, td_scalars *out);

/* Where a tensor marked with td_graph_output lies; it holds what the last run made until a plan of the same
 * store runs. */
td_status td_plan_output(const td_plan *plan, td_tensor output, td_span *out);

/* Reads such a tensor after the last run, and waits. */
td_status td_plan_read(td_plan *plan, td_tensor output, void *values);

#endif
