/* See step_work.h. Covered by tests/cli/test_step.py. */
#include "tools/step_work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "tools/planner.h"

#define SEED 1
#define REFERENCE_FRAMES 258 /* three seconds */
#define IDS 64               /* tokens and codes are below this */
#define HOP 256              /* samples of a frame */

void td_step_work_clear(td_step_work *work)
{
    for (size_t i = 0; i < work->n_inputs; i++)
        free(work->inputs[i].words);
    td_graph_destroy(work->graph);
    *work = (td_step_work){0};
}

/* Room for an input, filled with zeros; *words is borrowed from the work. */
static td_status add_input(td_step_work *work, td_tensor tensor, bool is_uint, void *words)
{
    td_step_input *input = &work->inputs[work->n_inputs];
    const size_t n = (size_t)td_shape_size(td_graph_shape(work->graph, tensor));
    uint32_t *room = NULL;
    TD_CHECK(TD_NEW_ARRAY(&room, n));
    *input = (td_step_input){.tensor = tensor, .words = room, .n = n, .is_uint = is_uint};
    memcpy(words, &room, sizeof room);
    work->n_inputs++;
    return TD_OK;
}

static td_status add_counts(td_step_work *work, td_tensor tensor, uint32_t items, uint32_t most, bool ragged)
{
    uint32_t *counts = NULL;
    TD_CHECK(add_input(work, tensor, true, &counts));
    for (uint32_t i = 0; i < items; i++)
        counts[i] = ragged ? most - most * i / (2 * items) : most;
    return TD_OK;
}

static td_status add_tokens(td_step_work *work, td_tensor tensor, uint32_t symbols)
{
    uint32_t *ids = NULL;
    TD_CHECK(add_input(work, tensor, true, &ids));
    for (size_t i = 0; i < work->inputs[work->n_inputs - 1].n; i++)
        ids[i] = (uint32_t)td_rng_below(SEED, 1, i, symbols);
    return TD_OK;
}

static td_status add_noise(td_step_work *work, td_tensor tensor, float **out)
{
    TD_CHECK(add_input(work, tensor, false, out));
    for (size_t i = 0; i < work->inputs[work->n_inputs - 1].n; i++)
        (*out)[i] = td_rng_normal(SEED, 2, i);
    return TD_OK;
}

td_status td_step_work_sketch(const td_sketch_size *size, bool ragged, bool is_scaled, td_step_work *out)
{
    td_sketch sketch;
    float *mel = NULL, *previous = NULL, *stop = NULL;
    td_status status = TD_OK;
    *out = (td_step_work){.is_cut = true};
    TD_TRY(td_sketch_build(size, is_scaled, &sketch));
    out->graph = sketch.graph;
    TD_TRY(add_tokens(out, sketch.token_ids, TD_SKETCH_SYMBOLS));
    TD_TRY(add_counts(out, sketch.token_counts, size->items, size->tokens, ragged));
    TD_TRY(add_counts(out, sketch.frame_counts, size->items, size->frames, ragged));
    const uint32_t *frames = out->inputs[out->n_inputs - 1].words;
    TD_TRY(add_noise(out, sketch.mel, &mel));
    TD_TRY(add_input(out, sketch.previous, false, &previous));
    TD_TRY(add_input(out, sketch.stop, false, &stop));
    const size_t item = (size_t)size->frames * TD_SKETCH_BANDS;
    for (size_t i = 0; i < size->items; i++) {
        memcpy(previous + i * item + TD_SKETCH_BANDS, mel + i * item, (item - TD_SKETCH_BANDS) * sizeof *mel);
        stop[i * size->frames + frames[i] - 1] = 1;
    }
    return TD_OK;
fail:
    td_step_work_clear(out);
    return status;
}

/* ---------------------------------------------------------------- models */

/* Made-up values for an input, by its name. */
static td_status add_by_name(td_step_work *work, td_tensor input, const td_batch_shape *shape, bool ragged)
{
    const char *name = td_graph_name(work->graph, input);
    uint32_t *words = NULL;
    float *values = NULL;
    const bool is_ids = td_graph_shape(work->graph, input).n_dims == 2 && strcmp(name, "cond_range") != 0;
    if (strcmp(name, "token_counts") == 0 || strcmp(name, "text_counts") == 0)
        return add_counts(work, input, shape->items, shape->tokens, ragged);
    if (strcmp(name, "code_counts") == 0 || strcmp(name, "wave_counts") == 0)
        return add_counts(work, input, shape->items, (shape->frames - 1) * HOP, ragged);
    if (strcmp(name, "frame_counts") == 0)
        return add_counts(work, input, shape->items, shape->frames, ragged);
    if (strcmp(name, "reference_counts") == 0)
        return add_counts(work, input, shape->items, shape->reference_frames, false);
    if (td_graph_dtype(work->graph, input) == TD_U32 && is_ids) return add_tokens(work, input, IDS);
    if (td_graph_dtype(work->graph, input) == TD_U32) return add_input(work, input, true, &words);
    if (td_shape_size(td_graph_shape(work->graph, input)) > 1) return add_noise(work, input, &values);
    const td_status status = add_input(work, input, false, &values);
    if (status == TD_OK) values[0] = 1;
    return status;
}

static td_status add_inputs(td_step_work *work, const td_batch_shape *shape, bool ragged)
{
    for (size_t i = 0; i < td_graph_input_count(work->graph); i++)
        TD_CHECK(add_by_name(work, td_graph_input_at(work->graph, i), shape, ragged));
    return TD_OK;
}

/* "KEY=VALUE KEY=VALUE" */
static td_status put_keys(td_model_config *config, const char *keys)
{
    char key[64], value[TD_MODEL_VALUE_BYTES];
    int used = 0;
    for (; keys && sscanf(keys, " %63[^=]=%31s%n", key, value, &used) == 2; keys += used)
        TD_CHECK(td_model_config_put(config, key, value));
    return TD_OK;
}

td_status td_step_work_model(const td_family *family, const char *preset, const char *keys,
                             const td_sketch_size *size, bool ragged, bool is_scaled, td_step_work *out)
{
    td_model_config config;
    td_status status = TD_OK;
    *out = (td_step_work){0};
    TD_TRY(td_model_preset(family, preset, &config));
    TD_TRY(put_keys(&config, keys));
    const td_model_facts facts = td_model_describe(&config);
    const td_batch_shape shape = {.items = size->items,
                                  .tokens = size->tokens,
                                  .frames = size->frames,
                                  .reference_frames =
                                      facts.slice.most ? facts.slice.most / HOP + 1 : REFERENCE_FRAMES};
    family->fit(&(td_data_facts){.n_symbols = facts.n_symbols,
                                 .n_mels = TD_SKETCH_BANDS,
                                 .max_tokens = size->tokens,
                                 .max_frames = size->frames,
                                 .tokens = size->tokens,
                                 .frames = size->frames},
                NULL, &config.values);
    TD_TRY(td_family_build(&(td_build){.config = &config,
                                       .shape = shape,
                                       .seed = SEED,
                                       .dropout = true,
                                       .backward = true,
                                       .backward_scaled = is_scaled},
                           &out->graph));
    TD_TRY(add_inputs(out, &shape, ragged));
    const char *cut = td_planner_usual(&config, "training.grad_clip");
    out->is_cut = cut == NULL || strtod(cut, NULL) > 0;
    return TD_OK;
fail:
    td_step_work_clear(out);
    return status;
}

td_status td_step_work_fill(const td_graph *graph, td_plan *plan, const td_batch_shape *shape)
{
    td_step_work work = {.graph = (td_graph *)graph}; /* only looked at */
    td_status status = TD_OK;
    TD_TRY(add_inputs(&work, shape, false));
    for (size_t i = 0; i < work.n_inputs; i++)
        TD_TRY(td_plan_fill(plan, 0, work.inputs[i].tensor, work.inputs[i].words));
fail:
    work.graph = NULL;
    td_step_work_clear(&work);
    return status;
}
