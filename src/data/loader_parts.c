/* Frozen parts of models (loader.h) on the data device: a plan for each shape of batch, kept as long as the
 * loader, whose output is copied to where the feature lies. Covered by tests/data/test_loader.c and
 * tests/pipeline/test_batches.c. */
#include <stdlib.h>

#include "base/error.h"
#include "data/loader_internal.h"

static td_part_plan *find_plan(const td_loader *loader, const td_frozen_part *part,
                               const td_batch_shape *shape)
{
    td_part_plan *p = loader->part_plans;
    while (p != NULL && (p->part != part || !td_batch_shape_equal(&p->shape, shape)))
        p = p->next;
    return p;
}

const td_part_plan *td_loader_find_part(const td_loader *loader, const td_frozen_part *part,
                                        const td_batch_shape *shape)
{
    return find_plan(loader, part, shape);
}

static void free_plan(td_part_plan *p)
{
    td_plan_destroy(p->plan);
    td_graph_destroy(p->graph);
    free(p->is_bound);
    free(p);
}

void td_loader_free_parts(td_loader *loader)
{
    while (loader->part_plans != NULL) {
        td_part_plan *next = loader->part_plans->next;
        free_plan(loader->part_plans);
        loader->part_plans = next;
    }
}

static td_status check_part(const td_loader *loader, const td_part_plan *p)
{
    const td_part_plan *largest = find_plan(loader, p->part, &loader->largest);
    const uint64_t words = td_shape_size(td_graph_shape(p->graph, p->output));
    for (size_t i = 0; i < td_graph_input_count(p->graph); ++i) {
        const char *name = td_graph_name(p->graph, td_graph_input_at(p->graph, i));
        TD_REFUSE_IF(!td_loader_wants(loader, name), TD_ERR_ARGUMENT,
                     "'%s' is made from '%s', which is not wanted", p->part->name, name);
    }
    TD_REFUSE_IF(largest != NULL && words > td_shape_size(td_graph_shape(largest->graph, largest->output)),
                 TD_ERR_LIMIT, "'%s' is larger for a smaller batch", p->part->name);
    return TD_OK;
}

static td_status plan_part(td_loader *loader, const td_frozen_part *part, const td_batch_shape *shape)
{
    td_status status = TD_OK;
    td_part_plan *p = NULL;
    const uint32_t n_slots = loader->settings.n_ready;
    TD_TRY(TD_NEW(&p));
    p->part = part;
    p->shape = *shape;
    TD_TRY(TD_NEW_ARRAY(&p->is_bound, n_slots));
    TD_TRY(part->build(part->context, shape, &p->graph, &p->output));
    TD_TRY(td_graph_status(p->graph));
    TD_TRY(check_part(loader, p));
    TD_TRY(td_plan_create(part->store, p->graph, &(td_plan_options){.forward_only = true, .slots = n_slots},
                          &p->plan));
    p->next = loader->part_plans;
    loader->part_plans = p;
    return TD_OK;
fail:
    if (p != NULL) free_plan(p);
    return status;
}

td_status td_loader_plan_parts(td_loader *loader, const td_batch_shape *shape)
{
    td_status status = TD_OK;
    for (size_t i = 0; i < loader->n_features; ++i) {
        const td_frozen_part *part = loader->features[i].row->part;
        if (part == NULL || find_plan(loader, part, shape) != NULL) continue;
        pthread_mutex_lock(part->lock);
        status = plan_part(loader, part, shape);
        pthread_mutex_unlock(part->lock);
        TD_TRY(status);
    }
fail:
    return status;
}

static td_status bind_inputs(td_part_plan *p, uint32_t slot, const td_batch *batch)
{
    if (p->is_bound[slot]) return TD_OK; /* a device slot has the features of a shape at the same places */
    for (size_t i = 0; i < td_graph_input_count(p->graph); ++i) {
        const td_tensor input = td_graph_input_at(p->graph, i);
        const td_feature *feature = td_batch_find(batch, td_graph_name(p->graph, input));
        TD_CHECK(td_plan_bind(p->plan, slot, input, feature->span));
    }
    p->is_bound[slot] = true;
    return TD_OK;
}

/* The queue runs in order: what is submitted here is over before another plan of the store begins. */
static td_status run_part(td_loader *loader, td_host_slot *slot, td_part_plan *p,
                          const td_loader_feature *feature, td_span to, td_list **copy)
{
    td_device *target = td_memory_device(loader->settings.memory);
    const uint32_t at = (uint32_t)(slot->number % loader->settings.n_ready);
    td_span made;
    TD_CHECK(td_plan_run(p->plan, &(td_run){.slot = at, .waits = &slot->done, .n_waits = 1}, &slot->done));
    TD_CHECK(td_plan_output(p->plan, p->output, &made));
    TD_CHECK(td_list_create(target, TD_QUEUE_COMPUTE, copy));
    TD_CHECK(td_list_copy(*copy, to, td_span_part(made, 0, to.bytes)));
    if (feature->kept > 0)
        TD_CHECK(td_list_copy(*copy, td_span_part(slot->kept_spans[feature->kept - 1], 0, to.bytes), to));
    TD_CHECK(td_list_finish(*copy));
    const td_submission work = {.list = *copy, .waits = &slot->done, .n_waits = 1};
    return td_queue_submit(td_device_queue(target, TD_QUEUE_COMPUTE), &work, &slot->done);
}

td_status td_loader_run_parts(td_loader *loader, td_host_slot *slot, td_device_slot *device)
{
    td_status status = TD_OK;
    for (size_t i = 0; i < loader->n_features; ++i) {
        const td_frozen_part *part = loader->features[i].row->part;
        if (part == NULL || td_loader_skips_part(slot, &loader->features[i])) continue;
        td_part_plan *p = find_plan(loader, part, &slot->shape);
        TD_TRY(bind_inputs(p, (uint32_t)(slot->number % loader->settings.n_ready), &device->batch));
        pthread_mutex_lock(part->lock);
        status =
            run_part(loader, slot, p, &loader->features[i], device->batch.features[i].span, &slot->copies[i]);
        for (size_t k = 0; k < TD_RUN_POINTS; ++k)
            td_loader_note(device, td_plan_points(p->plan)[k]);
        td_loader_note(device, slot->done);
        pthread_mutex_unlock(part->lock);
        TD_TRY(status);
    }
fail:
    return status;
}
