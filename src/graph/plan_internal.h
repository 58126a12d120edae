/* The inside of a plan, shared by plan.c (making), run.c (running) and explain.c. */
#ifndef TD_GRAPH_PLAN_INTERNAL_H
#define TD_GRAPH_PLAN_INTERNAL_H

#include "graph/draft.h"
#include "graph/store.h"

/* Host memory for the inputs and for the words that change from run to run, and the small list that copies
 * them in. Inputs may come from elsewhere. */
typedef struct td_plan_slot {
    td_span host;
    td_span *sources; /* by input */
    td_list *list;
    td_point taken; /* when the host may write again */
} td_plan_slot;

typedef struct td_plan_ring {
    td_span host;
    td_list *list;
    td_point reached;
} td_plan_ring;

struct td_plan {
    td_store *store;
    td_plan_options options;
    td_draft draft;
    td_layout layout;
    td_span *spans;   /* by tensor */
    td_list **parts;  /* one after the other: the run */
    size_t *part_end; /* number of the node behind each */
    size_t n_parts;
    size_t *ready_part; /* by bucket: the part behind which it is final */
    td_point *ready;    /* by bucket: when it was, in the last run */
    size_t n_ready;
    size_t *read_part
        [TD_MAX_LEARNERS]; /* by learner and bucket: the part that first reads parameters of it, n_parts:
                                           none does; NULL: the learner's are not known, or no part waits for them */
    td_point *reads;       /* by bucket: what was submitted before that part, in the last run */
    double *node_ms;       /* by node, measured; or NULL */
    uint32_t *inputs;      /* tensors that are filled, and where each starts in a slot */
    uint64_t *input_at;
    size_t n_inputs;
    uint64_t slot_bytes;
    td_plan_slot *slots;
    uint32_t scalars[TD_PLAN_SCALARS];
    size_t n_scalars;
    td_plan_ring ring[TD_SCALAR_RING];
    uint64_t runs;
    td_point last;                  /* of the last run */
    td_point points[TD_RUN_POINTS]; /* of the last run */
    td_point timed[2]; /* first and last part of the second run: its time decides how lists are cut */
};

/* What record functions need, for this plan; no list yet. */
td_recorder td_plan_recorder(const td_plan *plan);

/* Records the nodes from `first` up to `end` into a new list. */
td_status td_plan_record(td_plan *plan, size_t first, size_t end, td_list **out);

/* parts.c: where the run is cut, and the lists of it, which take the place of those there are. */
td_status td_plan_cut(td_plan *plan);
td_status td_plan_record_parts(td_plan *plan);
void td_plan_free_parts(td_plan *plan);
double td_plan_estimated_ns(const td_plan *plan);
size_t td_plan_submissions(const td_plan *plan);

/* Slots and ring (run.c). */
td_status td_plan_open_slots(td_plan *plan);
void td_plan_close_slots(td_plan *plan);

/* Estimated milliseconds of a node on the plan's device. */
double td_plan_node_ms(const td_plan *plan, const td_node *node);
double td_plan_node_flops(const td_plan *plan, const td_node *node);
double td_plan_node_bytes(const td_plan *plan, const td_node *node);

#endif
