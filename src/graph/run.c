/* Running plans: slots that the host fills ahead, scalars that come back late. Nothing here waits for the
 * device but td_plan_fill (for its own slot) and those who read. See plan.h. Covered by
 * tests/graph/test_plan.c. */
#include <stdlib.h>
#include <string.h>

#include "device/blocking.h"
#include "graph/bucket.h"
#include "graph/plan_internal.h"
#include "graph/shard.h"

#define PACE_CLOSE 0.67           /* estimates this near to the truth stay */
#define TIME_SCALE_LEAST_NS 200e6 /* shorter lists are one submission anyway */

/* ---------------------------------------------------------------- slots */

/* A slot holds the inputs one after the other, then the step. */
static td_status list_inputs(td_plan *plan)
{
    const td_draft *draft = &plan->draft;
    TD_CHECK(TD_NEW_ARRAY(&plan->inputs, draft->n_tensors));
    TD_CHECK(TD_NEW_ARRAY(&plan->input_at, draft->n_tensors));
    for (uint32_t id = 1; id < draft->n_tensors; id++) {
        const td_tensor_info *t = &draft->tensors[id];
        if (t->role != TD_TENSOR_INPUT || t->root != id) continue;
        plan->inputs[plan->n_inputs] = id;
        plan->input_at[plan->n_inputs++] = plan->slot_bytes;
        plan->slot_bytes += td_round_up(td_tensor_bytes(t), TD_STORAGE_ALIGN);
    }
    plan->slot_bytes += TD_STORAGE_ALIGN;
    return TD_OK;
}

static td_span slot_step(const td_plan *plan, const td_plan_slot *slot)
{
    return td_span_part(slot->host, plan->slot_bytes - TD_STORAGE_ALIGN, 4);
}

/* Copies what a run takes in: the inputs from where they come, and the step. */
static td_status record_slot(td_plan *plan, td_plan_slot *slot)
{
    td_list *list = NULL;
    td_status status = TD_OK;
    TD_TRY(td_list_create(plan->store->device, TD_QUEUE_COMPUTE, &list));
    for (size_t i = 0; i < plan->n_inputs; i++) {
        const td_span to = plan->spans[plan->inputs[i]];
        if (to.buffer) TD_TRY(td_list_copy(list, to, slot->sources[i]));
    }
    TD_TRY(td_list_copy(list, plan->store->step, slot_step(plan, slot)));
    TD_TRY(td_list_finish(list));
    td_list_destroy(slot->list);
    slot->list = list;
    return TD_OK;
fail:
    td_list_destroy(list);
    return status;
}

static td_status open_slot(td_plan *plan, td_plan_slot *slot)
{
    TD_CHECK(TD_NEW_ARRAY(&slot->sources, plan->n_inputs + 1));
    TD_CHECK(td_memory_alloc(plan->store->memory, TD_MEMORY_HOST, plan->slot_bytes, &slot->host));
    memset(td_span_host(slot->host), 0, plan->slot_bytes);
    for (size_t i = 0; i < plan->n_inputs; i++)
        slot->sources[i] = td_span_part(slot->host, plan->input_at[i],
                                        td_tensor_bytes(&plan->draft.tensors[plan->inputs[i]]));
    return record_slot(plan, slot);
}

static td_status list_scalars(td_plan *plan)
{
    for (uint32_t id = 1; id < plan->draft.n_tensors; id++) {
        const td_tensor_info *t = &plan->draft.tensors[id];
        if (!t->is_output || td_shape_size(t->shape) != 1 || !plan->spans[id].buffer) continue;
        TD_REFUSE_IF(plan->n_scalars == TD_PLAN_SCALARS, TD_ERR_LIMIT, "a plan has at most %d scalars",
                     TD_PLAN_SCALARS);
        plan->scalars[plan->n_scalars++] = id;
    }
    return TD_OK;
}

static td_status open_ring(td_plan *plan, td_plan_ring *ring)
{
    TD_CHECK(
        td_memory_alloc(plan->store->memory, TD_MEMORY_HOST, UINT64_C(4) * TD_PLAN_SCALARS, &ring->host));
    TD_CHECK(td_list_create(plan->store->device, TD_QUEUE_COMPUTE, &ring->list));
    for (size_t i = 0; i < plan->n_scalars; i++)
        TD_CHECK(td_list_copy(ring->list, td_span_part(ring->host, 4 * i, 4), plan->spans[plan->scalars[i]]));
    return td_list_finish(ring->list);
}

td_status td_plan_open_slots(td_plan *plan)
{
    TD_CHECK(list_inputs(plan));
    TD_CHECK(list_scalars(plan));
    TD_CHECK(TD_NEW_ARRAY(&plan->slots, plan->options.slots));
    for (uint32_t s = 0; s < plan->options.slots; s++)
        TD_CHECK(open_slot(plan, &plan->slots[s]));
    for (size_t i = 0; i < TD_SCALAR_RING; i++)
        TD_CHECK(open_ring(plan, &plan->ring[i]));
    return TD_OK;
}

void td_plan_close_slots(td_plan *plan)
{
    for (uint32_t s = 0; plan->slots && s < plan->options.slots; s++) {
        td_list_destroy(plan->slots[s].list);
        free(plan->slots[s].sources);
        td_memory_free(plan->store->memory, plan->slots[s].host);
    }
    for (size_t i = 0; i < TD_SCALAR_RING; i++) {
        td_list_destroy(plan->ring[i].list);
        td_memory_free(plan->store->memory, plan->ring[i].host);
    }
    free(plan->slots);
    free(plan->inputs);
    free(plan->input_at);
}

static td_status find_input(const td_plan *plan, uint32_t slot, td_tensor input, size_t *out)
{
    size_t i = 0;
    while (i < plan->n_inputs && plan->inputs[i] != input.id)
        i++;
    TD_REFUSE_IF(i == plan->n_inputs || slot >= plan->options.slots, TD_ERR_ARGUMENT,
                 "slot %u has no input %s", slot, td_graph_name(plan->draft.graph, input));
    *out = i;
    return TD_OK;
}

td_status td_plan_fill(td_plan *plan, uint32_t slot, td_tensor input, const void *values)
{
    size_t i = 0;
    TD_CHECK(find_input(plan, slot, input, &i));
    TD_CHECK(td_point_wait(plan->slots[slot].taken, TD_WAIT_FOREVER));
    memcpy((char *)td_span_host(plan->slots[slot].host) + plan->input_at[i], values,
           td_tensor_bytes(&plan->draft.tensors[input.id]));
    return TD_OK;
}

td_status td_plan_bind(td_plan *plan, uint32_t slot, td_tensor input, td_span source)
{
    size_t i = 0;
    TD_CHECK(find_input(plan, slot, input, &i));
    const uint64_t bytes = td_tensor_bytes(&plan->draft.tensors[input.id]);
    TD_REFUSE_IF(source.bytes < bytes, TD_ERR_ARGUMENT, "input %s has %llu bytes, its source %llu",
                 td_graph_name(plan->draft.graph, input), (unsigned long long)bytes,
                 (unsigned long long)source.bytes);
    plan->slots[slot].sources[i] = td_span_part(source, 0, bytes);
    return record_slot(plan, &plan->slots[slot]);
}

td_point td_plan_taken(const td_plan *plan, uint32_t slot)
{
    return slot < plan->options.slots ? plan->slots[slot].taken : (td_point){0};
}

/* ---------------------------------------------------------------- runs */

static td_status submit(td_plan *plan, td_list *list, const td_run *run, td_point *reached)
{
    const td_submission submission = {
        .list = list, .waits = run ? run->waits : NULL, .n_waits = run ? run->n_waits : 0};
    return td_queue_submit(td_device_queue(plan->store->device, TD_QUEUE_COMPUTE), &submission, reached);
}

/* Waits for the parameters that a part is the first to read; in a plan that is not cut for it, or in the run that is
 * timed, for all of them before the first. */
static td_status admit(td_plan *plan, size_t part)
{
    for (size_t l = 0; l < TD_MAX_LEARNERS; l++) {
        td_shards *shards = plan->store->shards[l];
        const size_t *first = plan->read_part[l];
        if (!shards) continue;
        if (part == 0 && (!first || plan->runs == 1)) TD_CHECK(td_shards_finish(shards, plan->last));
        if (!first) continue;
        for (size_t b = td_buckets_count(td_shards_buckets(shards)); b-- > 0;)
            if (first[b] == part) TD_CHECK(td_shards_await(shards, b, plan->last));
    }
    return TD_OK;
}

/* That part i is behind: whose parameters come next. */
static void note_reads(td_plan *plan, size_t i)
{
    const size_t *first = plan->read_part[plan->options.learner];
    for (size_t b = 0; first && b < plan->n_ready; b++)
        if (first[b] == i + 1) plan->reads[b] = plan->last;
}

/* Part after part, and behind each the sums of what is final then. */
static td_status submit_parts(td_plan *plan, bool adds)
{
    for (size_t i = 0; i < plan->n_parts; i++) {
        TD_CHECK(admit(plan, i));
        TD_CHECK(submit(plan, plan->parts[i], NULL, &plan->last));
        if (plan->runs == 1 && i == 0) plan->timed[0] = plan->last; /* in the first, drivers may compile */
        if (plan->runs == 1) plan->timed[1] = plan->last;
        for (size_t b = 0; b < plan->n_ready; b++) {
            if (plan->ready_part[b] != i) continue;
            if (adds) TD_CHECK(submit(plan, td_buckets_sum(plan->options.buckets, b), NULL, &plan->last));
            plan->ready[b] = plan->last;
        }
        note_reads(plan, i);
    }
    if (adds && plan->n_ready == 0)
        TD_CHECK(submit(plan, plan->store->sum[plan->options.learner], NULL, &plan->last));
    return TD_OK;
}

td_status td_plan_run(td_plan *plan, const td_run *run, td_point *reached)
{
    td_plan_ring *ring = &plan->ring[plan->runs % TD_SCALAR_RING];
    TD_REFUSE_IF(run->slot >= plan->options.slots, TD_ERR_ARGUMENT, "the plan has no slot %u", run->slot);
    td_plan_slot *slot = &plan->slots[run->slot];
    const bool sums = plan->options.sums_gradients && !plan->options.forward_only;
    const bool adds = run->adds && !sums; /* else the plan does itself */
    if (adds) TD_CHECK(td_store_want_sums(plan->store, plan->options.learner));
    if (sums) TD_CHECK(td_store_want_clear(plan->store, plan->options.learner));
    TD_CHECK(td_point_wait(slot->taken, TD_WAIT_FOREVER));
    memcpy(td_span_host(slot_step(plan, slot)), &run->step, 4);
    TD_CHECK(submit(plan, slot->list, run, &slot->taken));
    plan->last = slot->taken;
    if (adds) TD_CHECK(submit(plan, plan->store->keep[plan->options.learner], NULL, &plan->last));
    if (sums && !run->adds)
        TD_CHECK(submit(plan, plan->store->clear[plan->options.learner], NULL, &plan->last));
    TD_CHECK(submit_parts(plan, adds));
    plan->points[0] = slot->taken;
    plan->points[1] = plan->last;
    TD_CHECK(submit(plan, ring->list, NULL, &ring->reached));
    plan->points[2] = plan->last = ring->reached;
    plan->runs++;
    if (reached) *reached = plan->last;
    return TD_OK;
}

/* Where a step is long and estimates were far off, the list is recorded again, cut by what was measured. */
static td_status adapt(td_plan *plan)
{
    td_times first, last;
    const double estimated_ns = td_plan_estimated_ns(plan);
    if (td_point_times(plan->timed[0], &first) != TD_OK || td_point_times(plan->timed[1], &last) != TD_OK)
        return TD_OK; /* a device without timestamps */
    const double measured_ns = (double)(last.finished_ns - first.started_ns);
    const double off = measured_ns / estimated_ns;
    if (td_plan_submissions(plan) == plan->n_parts && measured_ns < TIME_SCALE_LEAST_NS) return TD_OK;
    if (!(off > 0) || (off > PACE_CLOSE && off < 1 / PACE_CLOSE)) return TD_OK;
    plan->store->time_scale *= off;
    return td_plan_record_parts(plan);
}

const td_point *td_plan_points(const td_plan *plan)
{
    return plan->points;
}

const td_point *td_plan_ready(const td_plan *plan)
{
    return plan->ready;
}

const td_point *td_plan_reads(const td_plan *plan)
{
    return plan->reads;
}

uint64_t td_plan_runs(const td_plan *plan)
{
    return plan->runs;
}

td_status td_plan_scalars(td_plan *plan, uint64_t run, td_scalars *out)
{
    const td_plan_ring *ring = &plan->ring[run % TD_SCALAR_RING];
    *out = (td_scalars){.count = plan->n_scalars};
    TD_REFUSE_IF(run >= plan->runs || plan->runs - run > TD_SCALAR_RING, TD_ERR_NOT_FOUND,
                 "scalars are kept for the last %d runs", TD_SCALAR_RING);
    TD_CHECK(td_point_wait(ring->reached, TD_WAIT_FOREVER));
    if (run == 1 && plan->timed[1].queue) {
        TD_CHECK(adapt(plan));
        plan->timed[1] = (td_point){0};
    }
    memcpy(out->values, td_span_host(ring->host), 4 * plan->n_scalars);
    for (size_t i = 0; i < plan->n_scalars; i++)
        out->names[i] = plan->draft.tensors[plan->scalars[i]].name;
    return TD_OK;
}

td_status td_plan_output(const td_plan *plan, td_tensor output, td_span *out)
{
    const td_tensor_info *t = td_graph_at(plan->draft.graph, output.id);
    TD_REFUSE_IF(!output.id || !t->is_output || !plan->spans[output.id].buffer, TD_ERR_ARGUMENT,
                 "%s was not kept; mark it with td_graph_output before planning", t->name);
    *out = plan->spans[output.id];
    return TD_OK;
}

td_status td_plan_read(td_plan *plan, td_tensor output, void *values)
{
    td_span span;
    TD_CHECK(td_plan_output(plan, output, &span));
    return td_blocking_read(plan->store->memory, span, (td_point){0}, values);
}
