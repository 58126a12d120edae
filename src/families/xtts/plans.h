/* Graphs made ready on one store, kept by builder and size: the last few that were used. Covered by
 * tests/xtts/test_xtts_parts.c.
 */
#ifndef TD_FAMILIES_XTTS_PLANS_H
#define TD_FAMILIES_XTTS_PLANS_H

#include "families/xtts/graphs.h"
#include "graph/plan.h"

typedef struct td_xtts_plan {
    td_xtts_builder build;
    uint32_t size;
    uint64_t used;
    td_graph *graph; /* owned, as is the plan */
    td_plan *plan;
} td_xtts_plan;

enum { TD_XTTS_PLANS = 6 };

typedef struct td_xtts_plans {
    const td_xtts *c; /* borrowed, as is the store */
    td_store *store;
    td_xtts_plan kept[TD_XTTS_PLANS];
    size_t count;
    uint64_t clock;
} td_xtts_plans;

/* The plan of a size, new or kept. Borrowed until TD_XTTS_PLANS - 1 others were asked for. */
td_status td_xtts_plans_find(td_xtts_plans *plans, td_xtts_builder build, uint32_t size, td_xtts_plan **out);
void td_xtts_plans_close(td_xtts_plans *plans);

/* Puts values into an input; runs; reads an output and waits for it. */
td_status td_xtts_plan_fill(td_xtts_plan *plan, const char *input, const void *values);
td_status td_xtts_plan_run(td_xtts_plan *plan);
td_status td_xtts_plan_read(td_xtts_plan *plan, const char *output, float *values);

#endif
