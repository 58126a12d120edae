/* See plans.h. */
#include "families/xtts/plans.h"

#include "base/error.h"

static void destroy_plan(td_xtts_plan *plan)
{
    td_plan_destroy(plan->plan);
    td_graph_destroy(plan->graph);
    *plan = (td_xtts_plan){0};
}

static td_status make_plan(td_xtts_plans *plans, td_xtts_plan *p)
{
    const td_plan_options options = {.forward_only = true, .slots = 1};
    td_status status = TD_OK;
    TD_TRY(p->build(plans->c, p->size, &p->graph));
    TD_TRY(td_store_extend(plans->store, p->graph));
    TD_TRY(td_plan_create(plans->store, p->graph, &options, &p->plan));
fail:
    if (status != TD_OK) destroy_plan(p);
    return status;
}

td_status td_xtts_plans_find(td_xtts_plans *plans, td_xtts_builder build, uint32_t size, td_xtts_plan **out)
{
    td_xtts_plan made = {.build = build, .size = size, .used = ++plans->clock};
    td_xtts_plan *oldest = plans->kept;
    for (size_t i = 0; i < plans->count; i++) {
        td_xtts_plan *p = *out = &plans->kept[i];
        if (p->build == build && p->size == size) {
            p->used = plans->clock;
            return TD_OK;
        }
        if (p->used < oldest->used) oldest = p;
    }
    TD_CHECK(make_plan(plans, &made));
    if (plans->count < TD_XTTS_PLANS)
        oldest = &plans->kept[plans->count++];
    else
        destroy_plan(oldest);
    *oldest = made;
    *out = oldest;
    return TD_OK;
}

void td_xtts_plans_close(td_xtts_plans *plans)
{
    for (size_t i = 0; i < plans->count; i++)
        destroy_plan(&plans->kept[i]);
    plans->count = 0;
}

td_status td_xtts_plan_fill(td_xtts_plan *plan, const char *input, const void *values)
{
    return td_plan_fill(plan->plan, 0, td_graph_find_input(plan->graph, input), values);
}

td_status td_xtts_plan_run(td_xtts_plan *plan)
{
    return td_plan_run(plan->plan, &(td_run){0}, NULL);
}

td_status td_xtts_plan_read(td_xtts_plan *plan, const char *output, float *values)
{
    return td_plan_read(plan->plan, td_graph_find_output(plan->graph, output), values);
}
