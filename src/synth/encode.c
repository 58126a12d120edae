/* The encoder over all utterances of a call (internal.h). */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "synth/internal.h"

td_status td_speaking_fill(td_plan *plan, td_tensor input, const void *values)
{
    return input.id == 0 ? TD_OK : td_plan_fill(plan, 0, input, values);
}

td_status td_speaking_run(td_plan *plan, uint32_t step)
{
    td_point done;
    td_status status = TD_OK;
    TD_TRY(td_plan_run(plan, &(td_run){.step = step}, &done));
    TD_TRY(td_point_wait(done, TD_WAIT_FOREVER));
fail:
    return status;
}

/* A new host copy of an output, or NULL where the graph has none. */
static td_status read_output(td_plan *plan, const td_graph *graph, td_tensor output, float **out)
{
    td_status status = TD_OK;
    if (output.id == 0) return TD_OK;
    TD_TRY(TD_NEW_ARRAY(out, (size_t)td_shape_size(td_graph_shape(graph, output))));
    TD_TRY(td_plan_read(plan, output, *out));
fail:
    return status;
}

static td_status encode_one(const td_model_encode *e, td_plan *plan, td_utterance *u)
{
    td_status status = TD_OK;
    TD_TRY(td_speaking_fill(plan, e->token_ids, u->ids));
    TD_TRY(td_speaking_fill(plan, e->token_counts, u->tokens));
    TD_TRY(td_speaking_run(plan, 0));
    TD_TRY(read_output(plan, e->graph, e->hidden, &u->hidden));
    TD_TRY(read_output(plan, e->graph, e->log_durations, &u->durations));
    TD_TRY(read_output(plan, e->graph, e->pitch, &u->pitch));
    TD_TRY(read_output(plan, e->graph, e->energy, &u->energy));
    TD_TRY(read_output(plan, e->graph, e->speaker, &u->speaker));
fail:
    return status;
}

/* The same for every item: who speaks. */
static td_status fill_speaker(const td_speaking *s, const td_model_encode *e, td_plan *plan)
{
    const td_voice *v = s->voice;
    const size_t size = (size_t)v->reference_frames * s->model->n_mels;
    uint32_t *numbers = NULL, *counts = NULL;
    float *references = NULL;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&numbers, s->items));
    TD_TRY(TD_NEW_ARRAY(&counts, s->items));
    TD_TRY(TD_NEW_ARRAY(&references, s->items * size + 1));
    for (uint32_t i = 0; i < s->items; i++) {
        numbers[i] = s->options->speaker;
        counts[i] = v->reference_frames;
        if (size) memcpy(references + i * size, v->reference, size * sizeof *references);
    }
    TD_TRY(td_speaking_fill(plan, e->speakers, numbers));
    TD_TRY(td_speaking_fill(plan, e->reference_mel, references));
    TD_TRY(td_speaking_fill(plan, e->reference_counts, counts));
fail:
    free(numbers);
    free(counts);
    free(references);
    return status;
}

td_status td_speaking_encode(td_speaking *s)
{
    const td_model_shape shape = {
        .items = s->items, .tokens = s->max_tokens, .reference_frames = s->voice->reference_frames};
    td_model_encode e = {0};
    td_plan *plan = NULL;
    td_status status = TD_OK;
    TD_TRY(td_model_encode_graph(s->model, &shape, NULL, &e));
    if (!s->store) {
        TD_TRY(td_store_create(s->voice->memory, e.graph, &(td_store_options){0}, &s->store));
        TD_TRY(td_checkpoint_load(s->voice->checkpoint, s->store, TD_BLOCK_WEIGHT));
    }
    TD_TRY(td_plan_create(s->store, e.graph, &(td_plan_options){.forward_only = true, .slots = 1}, &plan));
    for (size_t i = 0; i < s->n_utterances; i++) {
        TD_TRY(fill_speaker(s, &e, plan));
        TD_TRY(encode_one(&e, plan, &s->utterances[i]));
    }
fail:
    td_plan_destroy(plan);
    td_graph_destroy(e.graph);
    return status;
}
