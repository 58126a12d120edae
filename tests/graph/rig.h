/* What the tests of the graph share: the values of a graph's leaves, drawn once and given to the
 * interpreter and to plans alike. */
#ifndef TD_TESTS_GRAPH_RIG_H
#define TD_TESTS_GRAPH_RIG_H

#include "graph/optimizer.h"
#include "interpret.h"
#include "support/rig.h"
#include "support/store.h"

/* A graph with values for its leaves: an interpreter whose leaves are filled. Parameters and inputs are
 * uniform in -1..1, uint inputs as their maker filled them. */
typedef struct model {
    td_graph *graph;
    td_tensor loss;
    interpreter truth;
    uint64_t seed;
} model;

void model_fill(model *m); /* opens truth and draws; call after td_graph_backward */
void model_close(model *m);

/* Values of an uint input that is to be below `bound`, or of a length that is to be from 1 to bound. */
td_tensor model_index(td_graph *graph, td_shape shape, uint32_t bound);
td_tensor model_lengths(td_graph *graph, uint32_t items, uint32_t bound);

/* A store with the model's values, and a plan with its inputs in every slot. */
typedef struct bench {
    td_store *store;
    td_plan *plan;
} bench;
void bench_store(bench *out, const rig *r, const model *m, const td_store_options *options); /* no plan yet */
void bench_open(bench *out, const rig *r, const model *m, const td_plan_options *options);
void bench_open_half(bench *out, const rig *r, const model *m, const td_plan_options *options,
                     td_dtype narrow); /* with copies of the weights in 16 bits */
void bench_plan(bench *b, const model *m,
                const td_plan_options *options); /* another plan on the same store */
void bench_close(bench *b);

/* Runs `micro` micro-batches of the same inputs; no update. */
void bench_run(bench *b, uint32_t micro);

#endif
