/* The update of one learner's parameters: norm of its gradients, clipping, AdamW and the running average, on
 * the flat blocks of a store (plan.h), recorded once. Its state is the learner's moments and its control
 * block, both the store's, so that checkpoints find them there. Apart from the runs of plans, so that
 * something (a reduction over computers) can happen to the gradients between. Covered by
 * tests/graph/test_plan.c and tests/graph/test_precision.c.
 */
#ifndef TD_GRAPH_OPTIMIZER_H
#define TD_GRAPH_OPTIMIZER_H

#include "graph/shard.h"

typedef struct td_optimizer td_optimizer;

#define TD_SCALE_GROWTH_STEPS 2000u

typedef struct td_optimizer_options {
    float beta1, beta2, eps;
    float decay;                 /* of the group TD_PARAM_DECAY */
    float max_norm;              /* 0: no clipping */
    float average_decay;         /* used if the store has averages */
    uint32_t scale_growth_steps; /* good steps after which the loss scale doubles; it halves in each that is
                                    skipped. 0: it stays. TD_SCALE_GROWTH_STEPS is usual with TD_F16 */
    /* Each parameter is updated in the run of a plan (td_plan_options.updates), as soon as its gradient is final; a step
     * then is td_optimizer_begin(), the run, td_optimizer_step(). The same bits as else, but nothing is known of all
     * gradients beforehand: max_norm must be 0, a loss that is not finite skips the update, and gradients that are not
     * finite though the loss is have been used (td_update.is_broken). Not with shards or loss scales. */
    bool in_backward;
    td_shards
        *shards; /* NULL: none. Each step then updates this rank's part of the parameters and sends for the
                          rest, which is waited for where it is read. Borrowed until the optimizer is destroyed */
} td_optimizer_options;

/* Records the update of the parameters of a learner. *out is owned; the store is borrowed until it is
 * destroyed. */
td_status td_optimizer_create(td_store *store, uint32_t learner, const td_optimizer_options *options,
                              td_optimizer **out);
void td_optimizer_destroy(td_optimizer *optimizer);

/* With in_backward, before the run that updates; else nothing happens. Submits and does not wait. */
td_status td_optimizer_begin(td_optimizer *optimizer, float learning_rate);

/* One update from the gradients that the runs submitted before have left. Submits and does not wait.
 * `reached` may be NULL. */
td_status td_optimizer_step(td_optimizer *optimizer, float learning_rate, td_point *reached);

/* What an update left in the control block. Kept for the last TD_SCALAR_RING updates; waits for that one. */
typedef struct td_update {
    float norm;       /* of the gradients, before clipping */
    float loss_scale; /* of the next run */
    uint32_t steps, skipped;
    bool is_broken; /* parameters were updated by gradients that are not finite */
} td_update;
uint64_t td_optimizer_steps(const td_optimizer *optimizer); /* submitted so far; the last is one less */
td_status td_optimizer_result(td_optimizer *optimizer, uint64_t number, td_update *out);

/* For plans, with in_backward: records what is decided before the first update, by the loss; and the update of a
 * parameter by its gradient, with td_optimizer_scratch() bytes of scratch. */
td_status td_optimizer_record_begin(const td_optimizer *optimizer, td_list *list, td_span loss);
td_status td_optimizer_record_update(const td_optimizer *optimizer, td_list *list, const char *parameter,
                                     td_span gradient, td_span scratch);
uint64_t td_optimizer_scratch(const td_optimizer *optimizer, uint64_t elements);

#endif
