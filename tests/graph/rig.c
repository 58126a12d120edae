/* See rig.h. */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

/* ---------------------------------------------------------------- models */

/* Which words an uint input gets is kept in its name: "index<bound>" or "lengths<bound>". */
td_tensor model_index(td_graph *graph, td_shape shape, uint32_t bound)
{
    char name[32];
    snprintf(name, sizeof name, "index%u", bound);
    return td_graph_input(graph, name, shape, TD_U32);
}

td_tensor model_lengths(td_graph *graph, uint32_t items, uint32_t bound)
{
    char name[32];
    snprintf(name, sizeof name, "lengths%u", bound);
    return td_graph_input(graph, name, td_dims(items), TD_U32);
}

static double draw(const model *m, const td_tensor_info *t, uint32_t id, size_t i)
{
    unsigned bound = 0;
    if (sscanf(t->name, "index%u", &bound) == 1) return (double)td_rng_below(m->seed, id, i, bound);
    if (sscanf(t->name, "lengths%u", &bound) == 1) return 1.0 + (double)td_rng_below(m->seed, id, i, bound);
    if (strstr(t->name, "gamma")) return (double)(0.5f + td_rng_float(m->seed, id, i));
    if (strstr(t->name, "running_var")) return 1.0;
    return (double)(2 * td_rng_float(m->seed, id, i) - 1);
}

void model_fill(model *m)
{
    check(td_graph_status(m->graph));
    interpreter_open(&m->truth, m->graph);
    m->truth.step = 7;
    for (uint32_t id = 1; id < m->graph->n_tensors; id++) {
        const td_tensor_info *t = &m->graph->tensors[id];
        if (t->role == TD_TENSOR_ACTIVATION || t->role == TD_TENSOR_GRADIENT) continue;
        for (size_t i = 0; i < td_shape_size(t->shape); i++)
            m->truth.values[id][i] = draw(m, t, id, i);
    }
}

void model_close(model *m)
{
    if (m->truth.values) interpreter_close(&m->truth);
    td_graph_destroy(m->graph);
    *m = (model){0};
}

/* ---------------------------------------------------------------- benches */

static uint32_t *to_words(const td_tensor_info *t, const double *values)
{
    const size_t n = (size_t)td_shape_size(t->shape);
    uint32_t *words = malloc(n * sizeof *words);
    for (size_t i = 0; i < n; i++) {
        const float x = (float)values[i];
        if (t->dtype == TD_U32)
            words[i] = (uint32_t)values[i];
        else
            memcpy(&words[i], &x, sizeof x);
    }
    return words;
}

static void fill_store(const bench *b, const model *m)
{
    for (uint32_t id = 1, entry = 0; id < m->graph->n_tensors; id++) {
        const td_tensor_info *t = &m->graph->tensors[id];
        if (t->role != TD_TENSOR_PARAMETER && t->role != TD_TENSOR_STATE) continue;
        uint32_t *words = to_words(t, m->truth.values[id]);
        if (t->init.rule == TD_INIT_MADE) check(t->init.make(t->init.words, t->shape, (float *)words));
        check(td_store_write(b->store, entry++, TD_BLOCK_WEIGHT, (float *)words));
        free(words);
    }
}

static void fill_inputs(const bench *b, const model *m, uint32_t slot)
{
    for (uint32_t id = 1; id < m->graph->n_tensors; id++) {
        const td_tensor_info *t = &m->graph->tensors[id];
        if (t->role != TD_TENSOR_INPUT) continue;
        uint32_t *words = to_words(t, m->truth.values[id]);
        check(td_plan_fill(b->plan, slot, (td_tensor){id}, words));
        free(words);
    }
}

void bench_store(bench *out, const rig *r, const model *m, const td_store_options *options)
{
    *out = (bench){0};
    check(td_store_create(r->memory, m->graph, options, &out->store));
    fill_store(out, m);
}

void bench_open_half(bench *out, const rig *r, const model *m, const td_plan_options *options,
                     td_dtype narrow)
{
    bench_store(out, r, m, &(td_store_options){.training = true, .half = narrow});
    bench_plan(out, m, options);
}

void bench_open(bench *out, const rig *r, const model *m, const td_plan_options *options)
{
    bench_open_half(out, r, m, options, TD_F32);
}

void bench_plan(bench *b, const model *m, const td_plan_options *options)
{
    td_plan_destroy(b->plan);
    check(td_plan_create(b->store, m->graph, options, &b->plan));
    for (uint32_t slot = 0; slot < 2; slot++)
        fill_inputs(b, m, slot);
}

void bench_close(bench *b)
{
    td_plan_destroy(b->plan);
    td_store_destroy(b->store);
    *b = (bench){0};
}

void bench_run(bench *b, uint32_t micro)
{
    td_point reached = {0};
    for (uint32_t i = 0; i < micro; i++)
        check(td_plan_run(b->plan, &(td_run){.slot = i % 2, .step = 7, .adds = i > 0}, &reached));
    check(td_point_wait(reached, TD_WAIT_FOREVER));
}
