/* See speak.h: the encoder over all utterances of a call, then the decoder that the model has. */
#include "families/acoustic_speak.h"

#include <stdlib.h>

#include "base/error.h"
#include "families/acoustic.h"

void td_utterance_clear(td_utterance *utterance)
{
    free(utterance->mel);
    free(utterance->frames);
    *utterance = (td_utterance){0};
}

td_status td_speaking_plan(const td_speaking *s, const td_graph *graph, td_plan **out)
{
    return td_plan_create(s->store, graph,
                          &(td_plan_options){.forward_only = true, .averaged = true, .slots = 1}, out);
}

td_status td_speaking_fill(td_plan *plan, td_tensor input, const void *values)
{
    return input.id == 0 ? TD_OK : td_plan_fill(plan, 0, input, values);
}

td_status td_speaking_run(td_plan *plan, uint32_t step)
{
    return td_plan_run(plan, &(td_run){.step = step}, NULL);
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

static td_status encode_one(const td_acoustic_encoder *e, td_plan *plan, const td_utterance *u,
                            td_spoken *out)
{
    td_status status = TD_OK;
    TD_TRY(td_speaking_fill(plan, e->token_ids, u->ids));
    TD_TRY(td_speaking_fill(plan, e->token_counts, u->tokens));
    TD_TRY(td_speaking_fill(plan, e->speakers, u->speakers));
    TD_TRY(td_speaking_fill(plan, e->reference_mel, u->reference));
    TD_TRY(td_speaking_fill(plan, e->reference_counts, u->reference_counts));
    TD_TRY(td_speaking_run(plan, 0));
    TD_TRY(read_output(plan, e->graph, e->hidden, &out->hidden));
    TD_TRY(read_output(plan, e->graph, e->log_durations, &out->durations));
    TD_TRY(read_output(plan, e->graph, e->pitch, &out->pitch));
    TD_TRY(read_output(plan, e->graph, e->energy, &out->energy));
    TD_TRY(read_output(plan, e->graph, e->speaker, &out->speaker));
fail:
    return status;
}

td_status td_speaking_encode(const td_speaking *s, bool predicts, td_spoken **out)
{
    const td_batch_shape shape = {
        .items = s->items, .tokens = s->max_tokens, .reference_frames = s->reference_frames};
    td_acoustic_encoder e = {0};
    td_plan *plan = NULL;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(out, s->n_utterances));
    TD_TRY(td_acoustic_encoder_graph(s->model, &shape, predicts, &e));
    TD_TRY(td_speaking_plan(s, e.graph, &plan));
    for (size_t i = 0; i < s->n_utterances; i++)
        TD_TRY(encode_one(&e, plan, &s->utterances[i], &(*out)[i]));
fail:
    td_plan_destroy(plan);
    td_graph_destroy(e.graph);
    return status;
}

void td_spoken_free(const td_speaking *s, td_spoken *spoken)
{
    for (size_t i = 0; spoken && i < s->n_utterances; i++) {
        free(spoken[i].hidden);
        free(spoken[i].durations);
        free(spoken[i].pitch);
        free(spoken[i].energy);
        free(spoken[i].speaker);
    }
    free(spoken);
}

td_status td_model_speak(td_speaking *s)
{
    s->max_frames = 0;
    s->n_cut = 0;
    if (!s->model->family->speak)
        return TD_FAIL(TD_ERR_CONFIG, "a model of family %s does not speak", s->model->family->name);
    return s->model->family->speak(s);
}
