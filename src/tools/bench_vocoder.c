/* See bench_vocoder.h. Plans are made before anything is measured, as they are kept between calls of a voice. */
#include "tools/bench_vocoder.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"

#define SEED 1u
#define MEASURED_RUNS 3u /* of each node, for an explanation */

typedef struct vocoder_bench {
    const td_bench_vocoder_options *options;
    td_device *device;
    td_memory *memory;
    td_store *store;
} vocoder_bench;

/* The graph of so many frames, ready to run. */
typedef struct wave_run {
    td_graph *graph;
    td_plan *plan;
    float **inputs; /* [n_inputs] */
    size_t n_inputs;
    float *samples;
} wave_run;

static void close_run(wave_run *run)
{
    td_plan_destroy(run->plan);
    td_graph_destroy(run->graph);
    for (size_t i = 0; run->inputs && i < run->n_inputs; i++)
        free(run->inputs[i]);
    free(run->inputs);
    free(run->samples);
}

static td_status fill_inputs(wave_run *run)
{
    run->n_inputs = td_graph_input_count(run->graph);
    TD_CHECK(TD_NEW_ARRAY(&run->inputs, run->n_inputs));
    for (size_t i = 0; i < run->n_inputs; i++) {
        const size_t n = (size_t)td_shape_size(td_graph_shape(run->graph, td_graph_input_at(run->graph, i)));
        TD_CHECK(TD_NEW_ARRAY(&run->inputs[i], n));
        for (size_t j = 0; j < n; j++)
            run->inputs[i][j] = td_rng_normal(SEED, i, j);
    }
    return TD_OK;
}

static td_status open_run(vocoder_bench *b, const td_model_config *model, uint32_t frames, wave_run *run)
{
    const td_plan_options options = {.forward_only = true, .slots = 1};
    td_wave_facts facts;
    TD_CHECK(model->family->wave_graph(model, frames, &run->graph, &facts));
    const td_tensor wave = td_graph_find_output(run->graph, "wave");
    TD_CHECK(TD_NEW_ARRAY(&run->samples, td_shape_size(td_graph_shape(run->graph, wave))));
    TD_CHECK(fill_inputs(run));
    if (!b->store) {
        TD_CHECK(td_store_create(b->memory, run->graph, &(td_store_options){0}, &b->store));
        TD_CHECK(td_store_init(b->store, SEED));
    }
    return td_plan_create(b->store, run->graph, &options, &run->plan);
}

static td_status run_once(const wave_run *run)
{
    for (size_t i = 0; i < run->n_inputs; i++)
        TD_CHECK(td_plan_fill(run->plan, 0, td_graph_input_at(run->graph, i), run->inputs[i]));
    TD_CHECK(td_plan_run(run->plan, &(td_run){0}, NULL));
    return td_plan_read(run->plan, td_graph_find_output(run->graph, "wave"), run->samples);
}

static td_status measure(const wave_run *run, uint32_t rounds, td_stats *out)
{
    double *ms = NULL;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&ms, rounds));
    TD_TRY(run_once(run)); /* the first may build kernels */
    for (uint32_t i = 0; i < rounds; i++) {
        const uint64_t start = td_clock_ns();
        TD_TRY(run_once(run));
        ms[i] = (double)(td_clock_ns() - start) * 1e-6;
    }
    *out = td_stats_of(ms, rounds);
fail:
    free(ms);
    return status;
}

static td_status measure_both(vocoder_bench *b, const td_model_config *model, td_bench_vocoder_result *out)
{
    wave_run whole = {0}, first = {0};
    td_wave_facts facts;
    td_stats first_ms;
    td_status status = TD_OK;
    TD_TRY(model->family->wave_graph(model, 0, NULL, &facts));
    out->rate = facts.rate;
    out->frames = (uint32_t)(b->options->seconds * facts.rate / facts.hop + 0.5);
    out->seconds = (double)out->frames * facts.hop / facts.rate;
    TD_TRY(open_run(b, model, out->frames, &whole));
    TD_TRY(open_run(b, model, facts.first_frames, &first));
    TD_TRY(measure(&whole, b->options->rounds, &out->ms));
    TD_TRY(measure(&first, b->options->rounds, &first_ms));
    td_plan_get_stats(whole.plan, &out->plan);
    out->parameters = td_graph_parameters(whole.graph);
    out->first_audio_ms = first_ms.median;
    out->realtime_factor = 1e3 * out->seconds / out->ms.median;
    out->gflops = out->plan.flops * 1e-6 / out->ms.median;
    if (b->options->explain) {
        TD_TRY(td_plan_measure(whole.plan, MEASURED_RUNS));
        TD_TRY(td_plan_explain(whole.plan, b->options->explain));
    }
fail:
    close_run(&whole);
    close_run(&first);
    return status;
}

td_status td_bench_vocoder_run(td_registry *registry, const td_device_info *info,
                               const td_bench_vocoder_options *options, td_bench_vocoder_result *out)
{
    vocoder_bench b = {.options = options};
    td_model_config model;
    td_status status = TD_OK;
    *out = (td_bench_vocoder_result){0};
    TD_FAIL_IF(info->type == TD_DEVICE_SIM, TD_ERR_UNSUPPORTED,
               "the simulated device computes nothing, so there is nothing to measure");
    TD_FAIL_IF(!options->family->wave_graph, TD_ERR_CONFIG,
               "models of family %s make no samples; name one that does with model.family",
               options->family->name);
    TD_TRY(td_model_preset(options->family, options->preset, &model));
    TD_TRY(td_device_open(registry, info, &b.device));
    TD_TRY(td_memory_create(b.device, "bench", 0, &b.memory));
    TD_TRY(measure_both(&b, &model, out));
fail:
    td_store_destroy(b.store);
    td_memory_destroy(b.memory);
    td_device_close(b.device);
    return status;
}
