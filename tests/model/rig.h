/* What the tests of models share: batches, and graphs ready to run. */
#ifndef TD_TESTS_MODEL_RIG_H
#define TD_TESTS_MODEL_RIG_H

#include "families/autoregressive/autoregressive.h"
#include "families/parallel/parallel.h"
#include "graph/optimizer.h"
#include "support/rig.h"

/* Host values of a batch; arrays are owned. */
typedef struct batch {
    td_batch_shape shape;
    uint32_t n_mels;
    uint32_t *token_ids, *token_counts, *frame_counts, *speakers, *reference_counts;
    float *mel, *energy, *pitch, *reference_mel;
    float supervision_weight, guided_weight;
} batch;

/* Texts of random symbols, of which each sounds for 2 to 5 frames in a way of its own; item 0 is full. */
batch batch_make(const td_acoustic *c, td_batch_shape shape, uint64_t seed);
void batch_free(batch *b);

/* Puts what a graph asks for into slot 0. */
void batch_fill(const batch *b, td_plan *plan, const td_graph *graph);

/* A training graph with its store, filled, and plan. All attention terms have weight 1. */
typedef struct trainer {
    td_model_config config;
    td_graph *graph;
    td_store *store;
    td_plan *plan;
} trainer;
void trainer_open(trainer *out, const rig *r, const td_family *family, const td_acoustic *c,
                  td_batch_shape shape, const td_build *build); /* of `build` the rest counts */
void trainer_open_config(trainer *out, const rig *r, const td_model_config *config, td_batch_shape shape,
                         const td_build *build); /* any family, weights of losses as they are */
void trainer_close(trainer *t);

/* One run without update (or with), waited for. */
void run_plan(td_plan *plan, uint32_t step, td_optimizer *optimizer, float learning_rate);

/* Reads an output of n floats (or words); owned by the caller. */
float *read_output(td_plan *plan, td_tensor output, size_t n);
float *read_named(const trainer *t, const char *output, size_t n);

float scalar_of(td_plan *plan, const char *name); /* of the last run */

#endif
