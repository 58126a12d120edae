/* See acoustic_speak.h. Covered by tests/synth/test_voice.c. */
#include "families/acoustic_speak.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "device/blocking.h"

/* Names of the inputs that rooms are for, and of the encoder's outputs. */
static const char *const names[TD_SPEECH_ROOMS] = {
    [TD_ROOM_HIDDEN] = "hidden", [TD_ROOM_SPEAKER] = "speaker",         [TD_ROOM_PITCH] = "pitch",
    [TD_ROOM_ENERGY] = "energy", [TD_ROOM_REFERENCE] = "reference_mel", [TD_ROOM_PREVIOUS] = "previous",
    [TD_ROOM_COARSE] = "coarse"};

/* ---------------------------------------------------------------- plans */

static void destroy_plan(td_acoustic_speaker *s, td_speech_plan *plan)
{
    td_plan_destroy(plan->plan);
    td_graph_destroy(plan->graph);
    for (size_t i = 0; i < TD_SPEECH_ROOMS; i++)
        td_memory_free(s->base.memory, plan->rooms[i]);
    *plan = (td_speech_plan){0};
}

/* Room on the device for inputs that come from it. */
static td_status bind_rooms(td_acoustic_speaker *s, td_speech_plan *p)
{
    for (size_t i = 0; i < TD_SPEECH_ROOMS; i++) {
        const td_tensor input = td_graph_find_input(p->graph, names[i]);
        if (input.id == 0) continue;
        TD_CHECK(td_memory_alloc(s->base.memory, TD_MEMORY_DEVICE,
                                 sizeof(float) * td_shape_size(td_graph_shape(p->graph, input)),
                                 &p->rooms[i]));
        TD_CHECK(td_plan_bind(p->plan, 0, input, p->rooms[i]));
    }
    return TD_OK;
}

static td_status make_plan(td_acoustic_speaker *s, td_speech_plan *p)
{
    const td_plan_options options = {.forward_only = true, .averaged = true, .slots = 1};
    td_status status = TD_OK;
    TD_TRY(p->build(s->base.model, &p->shape, p->seed, &p->graph));
    TD_TRY(td_store_extend(s->base.store, p->graph));
    TD_TRY(td_plan_create(s->base.store, p->graph, &options, &p->plan));
    TD_TRY(bind_rooms(s, p));
fail:
    if (status != TD_OK) destroy_plan(s, p);
    return status;
}

td_status td_speech_find_plan(td_acoustic_speaker *s, td_speech_builder build, const td_batch_shape *shape,
                              uint64_t seed, td_speech_plan **out)
{
    td_speech_plan *oldest = NULL;
    td_speech_plan made = {.build = build, .shape = *shape, .seed = seed, .used = ++s->clock};
    for (size_t i = 0; i < s->n_plans; i++) {
        td_speech_plan *p = *out = &s->plans[i];
        if (p->build == build && p->seed == seed && td_batch_shape_equal(&p->shape, shape)) {
            p->used = s->clock;
            return TD_OK;
        }
        if (!oldest || p->used < oldest->used) oldest = p;
    }
    TD_CHECK(make_plan(s, &made));
    if (s->n_plans < TD_SPEECH_PLANS)
        oldest = &s->plans[s->n_plans++];
    else
        destroy_plan(s, oldest);
    *oldest = made;
    *out = oldest;
    return TD_OK;
}

td_status td_speech_fill(td_speech_plan *plan, const char *input, const void *values)
{
    const td_tensor t = td_graph_find_input(plan->graph, input);
    return t.id == 0 ? TD_OK : td_plan_fill(plan->plan, 0, t, values);
}

td_status td_speech_output(td_speech_plan *plan, const char *output, td_span *out)
{
    return td_plan_output(plan->plan, td_graph_find_output(plan->graph, output), out);
}

td_status td_speech_run(td_speech_plan *plan, uint32_t step)
{
    return td_plan_run(plan->plan, &(td_run){.step = step}, NULL);
}

/* ---------------------------------------------------------------- encoder */

td_status td_speech_copy_all(td_acoustic_speaker *s, const td_speech_copy *copies, size_t n)
{
    td_list *list = NULL;
    td_status status = TD_OK;
    TD_TRY(td_list_create(td_memory_device(s->base.memory), TD_QUEUE_COMPUTE, &list));
    for (size_t i = 0; i < n; i++)
        if (copies[i].to.buffer) TD_TRY(td_list_copy(list, copies[i].to, copies[i].from));
    TD_TRY(td_blocking_run(list, NULL));
fail:
    td_list_destroy(list);
    return status;
}

td_status td_speech_pass(td_acoustic_speaker *s, size_t number, td_speech_plan *plan)
{
    td_speech_copy copies[TD_ENCODED];
    for (size_t i = 0; i < TD_ENCODED; i++)
        copies[i] = (td_speech_copy){plan->rooms[i], s->encoded[number][i]};
    return td_speech_copy_all(s, copies, TD_ENCODED);
}

/* Room of their own for the outputs, which the next plan would overwrite. */
static td_status keep_outputs(td_acoustic_speaker *s, td_speech_plan *plan, td_span out[TD_ENCODED])
{
    td_speech_copy copies[TD_ENCODED] = {{{0}, {0}}};
    for (size_t i = 0; i < TD_ENCODED; i++) {
        if (td_graph_find_output(plan->graph, names[i]).id == 0) continue;
        TD_CHECK(td_speech_output(plan, names[i], &copies[i].from));
        TD_CHECK(td_memory_alloc(s->base.memory, TD_MEMORY_DEVICE, copies[i].from.bytes, &out[i]));
        copies[i].to = out[i];
    }
    return td_speech_copy_all(s, copies, TD_ENCODED);
}

static td_status fill_reference(td_acoustic_speaker *s, const td_speech_plan *plan, const td_utterance *u)
{
    const uint32_t items = s->base.speaking->items;
    const td_span room = plan->rooms[TD_ROOM_REFERENCE];
    const uint64_t bytes = room.bytes / items;
    td_speech_copy *copies = NULL;
    td_status status = TD_OK;
    if (!room.buffer) return TD_OK;
    TD_TRY(TD_NEW_ARRAY(&copies, items));
    for (uint32_t i = 0; i < items; i++)
        copies[i] = (td_speech_copy){td_span_part(room, i * bytes, bytes), u->references[i]};
    TD_TRY(td_speech_copy_all(s, copies, items));
fail:
    free(copies);
    return status;
}

/* The units in which the predictors speak: docs/model.md. */
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

static td_status change(td_acoustic_speaker *s, td_span span, float (*convert)(float, double), double by)
{
    const size_t n = (size_t)(span.bytes / sizeof(float));
    float *values = NULL;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&values, n));
    TD_TRY(td_blocking_read(s->base.memory, span, (td_point){0}, values));
    for (size_t i = 0; i < n; i++)
        values[i] = convert(values[i], by);
    TD_TRY(td_blocking_write(s->base.memory, span, values));
fail:
    free(values);
    return status;
}

static td_status run_encoder(td_acoustic_speaker *s, const td_utterance *u, td_speech_plan **out)
{
    const td_speaking *speaking = s->base.speaking;
    const td_batch_shape shape = {.items = speaking->items,
                                  .tokens = speaking->max_tokens,
                                  .reference_frames = speaking->reference_frames};
    TD_CHECK(td_speech_find_plan(s, s->voice->encoder, &shape, 0, out));
    TD_CHECK(td_speech_fill(*out, "token_ids", u->ids));
    TD_CHECK(td_speech_fill(*out, "token_counts", u->tokens));
    TD_CHECK(td_speech_fill(*out, "speakers", u->speakers));
    TD_CHECK(fill_reference(s, *out, u));
    TD_CHECK(td_speech_fill(*out, "reference_counts", u->reference_counts));
    return td_speech_run(*out, 0);
}

td_status td_speech_encode(td_acoustic_speaker *s, size_t number, float *log_durations)
{
    const td_speaking *speaking = s->base.speaking;
    td_span *encoded = s->encoded[number];
    td_speech_plan *plan;
    TD_CHECK(td_speaker_check_cancel(&s->base));
    TD_CHECK(run_encoder(s, &speaking->utterances[number], &plan));
    if (log_durations)
        TD_CHECK(td_plan_read(plan->plan, td_graph_find_output(plan->graph, "log_durations"), log_durations));
    TD_CHECK(keep_outputs(s, plan, encoded));
    if (encoded[TD_ROOM_PITCH].buffer && speaking->pitch_shift != 0)
        TD_CHECK(change(s, encoded[TD_ROOM_PITCH], shift_pitch, speaking->pitch_shift));
    if (encoded[TD_ROOM_ENERGY].buffer && speaking->energy != 1)
        TD_CHECK(change(s, encoded[TD_ROOM_ENERGY], scale_energy, speaking->energy));
    return TD_OK;
}

void td_speech_drop_encoded(td_acoustic_speaker *s, size_t number)
{
    for (size_t i = 0; i < TD_ENCODED; i++) {
        td_memory_free(s->base.memory, s->encoded[number][i]);
        s->encoded[number][i] = (td_span){0};
    }
}

/* ---------------------------------------------------------------- speaker */

td_status td_acoustic_speaker_start(td_acoustic_speaker *s, const td_acoustic_voice *voice)
{
    const td_speaking *speaking = s->base.speaking;
    s->voice = voice;
    s->c = td_acoustic_get(s->base.model);
    TD_CHECK(TD_NEW_ARRAY(&s->encoded, speaking->n_utterances));
    TD_CHECK(TD_NEW_ARRAY(&s->frames, speaking->n_utterances * speaking->items));
    TD_CHECK(TD_NEW_ARRAY(&s->n_cut, speaking->n_utterances));
    return voice->start(s);
}

td_status td_acoustic_speaker_say(td_speaker *speaker, size_t number, td_spoken *out)
{
    td_acoustic_speaker *s = (td_acoustic_speaker *)speaker;
    td_status status = TD_OK;
    if (!s->encoded[number][TD_ROOM_HIDDEN].buffer) TD_TRY(td_speech_encode(s, number, NULL));
    *out = (td_spoken){.frames = s->frames + number * speaker->speaking->items, .max_frames = s->max_frames};
    TD_TRY(s->voice->decode(s, number, out));
    out->n_cut = s->n_cut[number];
fail:
    td_speech_drop_encoded(s, number);
    return status;
}

void td_acoustic_speaker_end(td_speaker *speaker)
{
    td_acoustic_speaker *s = (td_acoustic_speaker *)speaker;
    for (size_t i = 0; s->encoded && i < speaker->speaking->n_utterances; i++)
        td_speech_drop_encoded(s, i);
    if (s->own) s->voice->end(s);
    free(s->own);
    free(s->encoded);
    free(s->frames);
    free(s->n_cut);
    s->own = s->encoded = NULL;
    s->frames = s->n_cut = NULL;
}

void td_acoustic_speaker_close(td_speaker *speaker)
{
    td_acoustic_speaker *s = (td_acoustic_speaker *)speaker;
    for (size_t i = 0; i < s->n_plans; i++)
        destroy_plan(s, &s->plans[i]);
}
