/* See step_work.h. Covered by tests/cli/test_step.py. */
#include "tools/step_work.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"

#define SEED 1
#define REFERENCE_FRAMES 258 /* three seconds */

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
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&room, n));
    *input = (td_step_input){.tensor = tensor, .words = room, .n = n, .is_uint = is_uint};
    memcpy(words, &room, sizeof room);
    work->n_inputs++;
fail:
    return status;
}

static td_status add_counts(td_step_work *work, td_tensor tensor, uint32_t items, uint32_t most, bool ragged)
{
    uint32_t *counts = NULL;
    td_status status = TD_OK;
    TD_TRY(add_input(work, tensor, true, &counts));
    for (uint32_t i = 0; i < items; i++)
        counts[i] = ragged ? most - most * i / (2 * items) : most;
fail:
    return status;
}

static td_status add_tokens(td_step_work *work, td_tensor tensor, uint32_t symbols)
{
    uint32_t *ids = NULL;
    td_status status = TD_OK;
    TD_TRY(add_input(work, tensor, true, &ids));
    for (size_t i = 0; i < work->inputs[work->n_inputs - 1].n; i++)
        ids[i] = (uint32_t)td_rng_below(SEED, 1, i, symbols);
fail:
    return status;
}

static td_status add_noise(td_step_work *work, td_tensor tensor, float **out)
{
    td_status status = TD_OK;
    TD_TRY(add_input(work, tensor, false, out));
    for (size_t i = 0; i < work->inputs[work->n_inputs - 1].n; i++)
        (*out)[i] = td_rng_normal(SEED, 2, i);
fail:
    return status;
}

td_status td_step_work_sketch(const td_sketch_size *size, bool ragged, bool is_scaled, td_step_work *out)
{
    td_sketch sketch;
    float *mel = NULL, *previous = NULL, *stop = NULL;
    td_status status = TD_OK;
    *out = (td_step_work){0};
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

static td_status add_model_text(td_step_work *work, const td_model_inputs *in, const td_sketch_size *size,
                                bool ragged)
{
    uint32_t *speakers = NULL;
    td_status status = TD_OK;
    TD_TRY(add_tokens(work, in->token_ids, work->config.n_symbols));
    TD_TRY(add_counts(work, in->token_counts, size->items, size->tokens, ragged));
    TD_TRY(add_counts(work, in->frame_counts, size->items, size->frames, ragged));
    if (in->speakers.id) TD_TRY(add_input(work, in->speakers, true, &speakers));
fail:
    return status;
}

static td_status add_model_audio(td_step_work *work, const td_model_inputs *in, const td_sketch_size *size,
                                 uint32_t reference_frames)
{
    const td_tensor noises[] = {in->mel, in->energy, in->pitch, in->reference_mel};
    const td_tensor ones[] = {in->supervision_weight, in->guided_weight};
    float *values = NULL;
    td_status status = TD_OK;
    for (size_t i = 0; i < sizeof noises / sizeof *noises; i++) {
        if (noises[i].id) TD_TRY(add_noise(work, noises[i], &values));
    }
    for (size_t i = 0; i < sizeof ones / sizeof *ones; i++) {
        if (!ones[i].id) continue;
        TD_TRY(add_input(work, ones[i], false, &values));
        values[0] = 1;
    }
    if (in->reference_counts.id)
        TD_TRY(add_counts(work, in->reference_counts, size->items, reference_frames, false));
fail:
    return status;
}

td_status td_step_work_model(const char *preset, td_strategy strategy, const td_sketch_size *size,
                             bool ragged, bool is_scaled, td_step_work *out)
{
    const td_model_losses losses = td_model_losses_default();
    td_model_shape shape = {.items = size->items, .tokens = size->tokens, .frames = size->frames};
    td_model_graph model = {0};
    td_status status = TD_OK;
    *out = (td_step_work){.is_model = true};
    TD_TRY(td_model_preset(preset, strategy, &out->config));
    if (out->config.max_tokens < size->tokens) out->config.max_tokens = size->tokens;
    if (out->config.max_frames < size->frames) out->config.max_frames = size->frames;
    if (out->config.speaker_encoder) shape.reference_frames = REFERENCE_FRAMES;
    TD_TRY(td_model_train_graph(
        &out->config, &losses, &shape,
        &(td_model_options){.seed = SEED, .dropout = true, .backward = true, .backward_scaled = is_scaled},
        &model));
    out->graph = model.graph;
    TD_TRY(add_model_text(out, &model.in, size, ragged));
    TD_TRY(add_model_audio(out, &model.in, size, shape.reference_frames));
    return TD_OK;
fail:
    td_step_work_clear(out);
    return status;
}

td_status td_step_work_init(const td_step_work *work, td_store *store)
{
    return work->is_model ? td_model_init(store, &work->config, SEED) : td_sketch_init(store, SEED);
}
