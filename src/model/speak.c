/* See speak.h: the plans by shape, the encoder, and the way to the decoder that the model has. */
#include "model/speak.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "device/once.h"
#include "model/speak_internal.h"

/* ---------------------------------------------------------------- plans */

static void free_encoded(td_speaker *s, td_encoded *e)
{
    td_memory_free(s->memory, e->hidden);
    td_memory_free(s->memory, e->pitch);
    td_memory_free(s->memory, e->energy);
    td_memory_free(s->memory, e->speaker);
    *e = (td_encoded){0};
}

static void destroy_plan(td_speaker *s, td_speaker_plan *plan)
{
    td_plan_destroy(plan->plan);
    td_graph_destroy(plan->graph);
    free_encoded(s, &plan->in);
    td_memory_free(s->memory, plan->reference);
    td_memory_free(s->memory, plan->previous);
    td_memory_free(s->memory, plan->coarse);
    *plan = (td_speaker_plan){0};
}

static td_status build_graph(td_speaker *s, td_speaker_plan *p)
{
    td_model_options options = s->options;
    options.seed = p->seed;
    switch (p->kind) {
    case TD_SPEAKER_ENCODE:
        return td_model_encode_graph(s->model, &p->shape, &options, &p->encode);
    case TD_SPEAKER_DECODE:
        return td_model_decode_graph(s->model, &p->shape, &options, &p->decode);
    case TD_SPEAKER_STEP:
        return td_model_step_graph(s->model, &p->shape, &options, &p->step);
    case TD_SPEAKER_FINISH:
        break;
    }
    return td_model_finish_graph(s->model, &p->shape, &options, &p->finish);
}

/* Room on the device that an input comes from, unless the graph does not have it. */
static td_status bind(td_speaker *s, td_speaker_plan *p, td_tensor input, td_span *out)
{
    td_status status = TD_OK;
    if (input.id == 0) return TD_OK;
    TD_TRY(td_memory_alloc(s->memory, TD_MEMORY_DEVICE,
                           sizeof(float) * td_shape_size(td_graph_shape(p->graph, input)), out));
    TD_TRY(td_plan_bind(p->plan, 0, input, *out));
fail:
    return status;
}

static td_status bind_inputs(td_speaker *s, td_speaker_plan *p)
{
    td_status status = TD_OK;
    switch (p->kind) {
    case TD_SPEAKER_ENCODE:
        TD_TRY(bind(s, p, p->encode.reference_mel, &p->reference));
        break;
    case TD_SPEAKER_DECODE:
        TD_TRY(bind(s, p, p->decode.hidden, &p->in.hidden));
        TD_TRY(bind(s, p, p->decode.speaker, &p->in.speaker));
        TD_TRY(bind(s, p, p->decode.pitch, &p->in.pitch));
        TD_TRY(bind(s, p, p->decode.energy, &p->in.energy));
        break;
    case TD_SPEAKER_STEP:
        TD_TRY(bind(s, p, p->step.hidden, &p->in.hidden));
        TD_TRY(bind(s, p, p->step.speaker, &p->in.speaker));
        TD_TRY(bind(s, p, p->step.previous, &p->previous));
        break;
    case TD_SPEAKER_FINISH:
        TD_TRY(bind(s, p, p->finish.coarse, &p->coarse));
        break;
    }
fail:
    return status;
}

static td_status build(td_speaker *s, td_speaker_plan *p)
{
    td_status status = TD_OK;
    TD_TRY(build_graph(s, p));
    if (p->kind == TD_SPEAKER_STEP) TD_TRY(td_store_extend(s->store, p->graph));
    TD_TRY(
        td_plan_create(s->store, p->graph, &(td_plan_options){.forward_only = true, .slots = 1}, &p->plan));
    TD_TRY(bind_inputs(s, p));
fail:
    if (status != TD_OK) destroy_plan(s, p);
    return status;
}

static bool is_same_shape(const td_model_shape *a, const td_model_shape *b)
{
    return a->items == b->items && a->tokens == b->tokens && a->frames == b->frames &&
           a->reference_frames == b->reference_frames;
}

td_status td_speaker_find_plan(td_speaker *s, td_speaker_graph kind, const td_model_shape *shape,
                               td_speaker_plan **out)
{
    const uint64_t seed = kind == TD_SPEAKER_STEP ? s->speaking->seed : 0;
    td_speaker_plan *oldest = NULL, made = {.kind = kind, .shape = *shape, .seed = seed, .used = ++s->clock};
    td_status status = TD_OK;
    for (size_t i = 0; i < s->n_plans; i++) {
        td_speaker_plan *p = *out = &s->plans[i];
        if (p->kind == kind && p->seed == seed && is_same_shape(&p->shape, shape)) {
            p->used = s->clock;
            return TD_OK;
        }
        if (!oldest || p->used < oldest->used) oldest = p;
    }
    TD_TRY(build(s, &made));
    if (s->n_plans < TD_SPEAKER_PLANS)
        oldest = &s->plans[s->n_plans++];
    else
        destroy_plan(s, oldest);
    *oldest = made;
    *out = oldest;
fail:
    return status;
}

td_status td_speaker_fill(td_speaker_plan *plan, td_tensor input, const void *values)
{
    return input.id == 0 ? TD_OK : td_plan_fill(plan->plan, 0, input, values);
}

td_status td_speaker_run(td_speaker_plan *plan, uint32_t step)
{
    return td_plan_run(plan->plan, &(td_run){.step = step}, NULL);
}

td_status td_speaker_check_cancel(const td_speaker *s)
{
    const atomic_bool *cancel = s->speaking->cancel;
    return cancel && atomic_load(cancel) ? TD_FAIL(TD_ERR_CANCELLED, "speaking was cancelled") : TD_OK;
}

/* ---------------------------------------------------------------- encoder */

td_status td_speaker_copy_all(td_speaker *s, const td_speaker_copy *copies, size_t n)
{
    td_list *list = NULL;
    td_status status = TD_OK;
    TD_TRY(td_list_create(td_memory_device(s->memory), TD_QUEUE_COMPUTE, &list));
    for (size_t i = 0; i < n; i++)
        if (copies[i].to.buffer) TD_TRY(td_list_copy(list, copies[i].to, copies[i].from));
    TD_TRY(td_list_finish(list));
    TD_TRY(td_once_run(list, NULL));
fail:
    td_list_destroy(list);
    return status;
}

td_status td_speaker_pass(td_speaker *s, size_t number, td_speaker_plan *plan)
{
    const td_encoded *to = &plan->in, *from = &s->encoded[number];
    return td_speaker_copy_all(s,
                               (const td_speaker_copy[]){{to->hidden, from->hidden},
                                                         {to->speaker, from->speaker},
                                                         {to->pitch, from->pitch},
                                                         {to->energy, from->energy}},
                               4);
}

/* Room of its own for an output, which the next plan would overwrite. */
static td_status keep(td_speaker *s, const td_speaker_plan *plan, td_tensor output, td_span *to,
                      td_speaker_copy *copy)
{
    td_status status = TD_OK;
    if (output.id == 0) return TD_OK;
    TD_TRY(td_plan_output(plan->plan, output, &copy->from));
    TD_TRY(td_memory_alloc(s->memory, TD_MEMORY_DEVICE, copy->from.bytes, to));
    copy->to = *to;
fail:
    return status;
}

static td_status keep_outputs(td_speaker *s, const td_speaker_plan *plan, td_encoded *out)
{
    const td_model_encode *e = &plan->encode;
    td_speaker_copy copies[4] = {{{0}, {0}}};
    td_status status = TD_OK;
    TD_TRY(keep(s, plan, e->hidden, &out->hidden, &copies[0]));
    TD_TRY(keep(s, plan, e->speaker, &out->speaker, &copies[1]));
    TD_TRY(keep(s, plan, e->pitch, &out->pitch, &copies[2]));
    TD_TRY(keep(s, plan, e->energy, &out->energy, &copies[3]));
    TD_TRY(td_speaker_copy_all(s, copies, 4));
fail:
    return status;
}

static td_status fill_reference(td_speaker *s, const td_speaker_plan *plan, const td_utterance *u)
{
    const uint32_t items = s->speaking->items;
    const uint64_t bytes = plan->reference.bytes / items;
    td_speaker_copy *copies = NULL;
    td_status status = TD_OK;
    if (!plan->reference.buffer) return TD_OK;
    TD_TRY(TD_NEW_ARRAY(&copies, items));
    for (uint32_t i = 0; i < items; i++)
        copies[i] = (td_speaker_copy){td_span_part(plan->reference, i * bytes, bytes), u->references[i]};
    TD_TRY(td_speaker_copy_all(s, copies, items));
fail:
    free(copies);
    return status;
}

/* The units in which the predictors speak: model.h. */
static float shift_pitch(float value, double semitones)
{
    const double hz = 100 * (exp((double)value) - 1);
    return (float)log(1 + fmax(hz, 0) / 100 * pow(2, semitones / 12));
}

static float scale_energy(float value, double factor)
{
    const double rms = (exp((double)value) - 1) / 20;
    return (float)log(1 + 20 * fmax(rms, 0) * factor);
}

static td_status change(td_speaker *s, td_span span, float (*convert)(float, double), double by)
{
    const size_t n = (size_t)(span.bytes / sizeof(float));
    float *values = NULL;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&values, n));
    TD_TRY(td_once_read(s->memory, span, (td_point){0}, values));
    for (size_t i = 0; i < n; i++)
        values[i] = convert(values[i], by);
    TD_TRY(td_once_write(s->memory, span, values));
fail:
    free(values);
    return status;
}

td_status td_speaker_encode(td_speaker *s, size_t number, float *log_durations)
{
    const td_speaking *speaking = s->speaking;
    const td_utterance *u = &speaking->utterances[number];
    const td_model_shape shape = {.items = speaking->items,
                                  .tokens = speaking->max_tokens,
                                  .reference_frames = speaking->reference_frames};
    td_encoded *encoded = &s->encoded[number];
    td_speaker_plan *plan;
    td_status status = TD_OK;
    TD_TRY(td_speaker_check_cancel(s));
    TD_TRY(td_speaker_find_plan(s, TD_SPEAKER_ENCODE, &shape, &plan));
    const td_model_encode *e = &plan->encode;
    TD_TRY(td_speaker_fill(plan, e->token_ids, u->ids));
    TD_TRY(td_speaker_fill(plan, e->token_counts, u->tokens));
    TD_TRY(td_speaker_fill(plan, e->speakers, u->speakers));
    TD_TRY(fill_reference(s, plan, u));
    TD_TRY(td_speaker_fill(plan, e->reference_counts, u->reference_counts));
    TD_TRY(td_speaker_run(plan, 0));
    if (log_durations) TD_TRY(td_plan_read(plan->plan, e->log_durations, log_durations));
    TD_TRY(keep_outputs(s, plan, encoded));
    if (encoded->pitch.buffer && speaking->pitch_shift != 0)
        TD_TRY(change(s, encoded->pitch, shift_pitch, speaking->pitch_shift));
    if (encoded->energy.buffer && speaking->energy != 1)
        TD_TRY(change(s, encoded->energy, scale_energy, speaking->energy));
fail:
    return status;
}

void td_speaker_drop_encoded(td_speaker *s, size_t number)
{
    free_encoded(s, &s->encoded[number]);
}

/* ---------------------------------------------------------------- speaker */

td_status td_speaker_create(td_memory *memory, td_store *store, const td_model_config *model,
                            const td_model_options *options, td_speaker **out)
{
    td_status status = TD_OK;
    TD_TRY(TD_NEW(out));
    **out = (td_speaker){.memory = memory, .store = store, .model = model, .options = *options};
fail:
    return status;
}

void td_speaker_end(td_speaker *s)
{
    td_speaker_walk *w = &s->walk;
    for (size_t i = 0; s->encoded && i < s->speaking->n_utterances; i++)
        td_speaker_drop_encoded(s, i);
    td_memory_free(s->memory, w->mel);
    td_memory_free(s->memory, w->decided);
    free(w->window);
    free(w->position);
    free(w->keys);
    free(w->at);
    free(w->is_done);
    free(s->encoded);
    free(s->frames);
    free(s->spread);
    free(s->index);
    free(s->n_cut);
    *w = (td_speaker_walk){0};
    s->encoded = NULL;
    s->frames = s->spread = s->index = s->n_cut = NULL;
    s->speaking = NULL;
}

void td_speaker_destroy(td_speaker *speaker)
{
    if (!speaker) return;
    td_speaker_end(speaker);
    for (size_t i = 0; i < speaker->n_plans; i++)
        destroy_plan(speaker, &speaker->plans[i]);
    free(speaker);
}

static bool steps(const td_speaker *s)
{
    return s->model->decoder_strategy == TD_AUTOREGRESSIVE;
}

td_status td_speaker_start(td_speaker *s, const td_speaking *speaking)
{
    td_status status = TD_OK;
    td_speaker_end(s);
    s->speaking = speaking;
    TD_TRY(TD_NEW_ARRAY(&s->encoded, speaking->n_utterances));
    TD_TRY(TD_NEW_ARRAY(&s->frames, speaking->n_utterances * speaking->items));
    TD_TRY(TD_NEW_ARRAY(&s->n_cut, speaking->n_utterances));
    TD_TRY(steps(s) ? td_speaker_start_steps(s) : td_speaker_start_parallel(s));
fail:
    if (status != TD_OK) td_speaker_end(s);
    return status;
}

td_status td_speaker_say(td_speaker *s, size_t number, td_spoken *out)
{
    td_status status = TD_OK;
    TD_TRY(td_speaker_check_cancel(s));
    if (!s->encoded[number].hidden.buffer) TD_TRY(td_speaker_encode(s, number, NULL));
    *out = (td_spoken){.frames = s->frames + number * s->speaking->items, .max_frames = s->max_frames};
    TD_TRY(steps(s) ? td_speaker_decode_steps(s, number, &out->mel)
                    : td_speaker_decode_parallel(s, number, &out->mel));
    out->n_cut = s->n_cut[number];
fail:
    td_speaker_drop_encoded(s, number);
    return status;
}
