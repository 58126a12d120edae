/* How the autoregressive family speaks: a few frames at a time from the ones before, until every item has
 * said its last token. Attention may look a little around the token it was at, and only forwards in the long
 * run, so it can neither skip words nor fall back. See families/speak.h. Covered by tests/synth/test_voice.c.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "device/blocking.h"
#include "families/autoregressive/autoregressive.h"

#define LOOK_BACK 1u
#define LOOK_AHEAD 3u
#define FORBIDDEN (-1e4f)
#define ROUND_STEPS 32u

/* The state of an utterance. Host memory is owned. */
typedef struct progress {
    float *window;             /* [B, L] */
    uint32_t *position, *keys; /* [B] */
    uint32_t *at;              /* [B]: token that is being said */
    bool *is_done;             /* [B] */
    td_span mel;               /* [B, max_frames, n_mels] on the device */
    td_span decided;           /* pinned: attention [B, L], stop logits [B] */
} progress;

/* Frames that there is room for: what slow speech of so many tokens takes, in steps that let texts of like
 * length share their caches. */
static uint32_t count_frames(const td_acoustic_speaker *s)
{
    const uint32_t r = s->c.reduction, most = s->c.max_frames, asked = s->base.speaking->limit;
    const double rate = s->c.attention_rate > 0 ? (double)s->c.attention_rate : 0.2;
    const uint32_t limit = asked && asked < most ? asked : most;
    const uint32_t steps = (uint32_t)fmin(20 + 1.7 * s->base.speaking->max_tokens / rate, most);
    const uint32_t rounded = (steps + ROUND_STEPS - 1) / ROUND_STEPS * ROUND_STEPS;
    const uint32_t fitting = limit / r < rounded ? limit / r : rounded;
    return (fitting > 0 ? fitting : 1) * r;
}

static td_status start(td_acoustic_speaker *s)
{
    const size_t b = s->base.speaking->items, l = s->base.speaking->max_tokens;
    progress *w = NULL;
    s->max_frames = count_frames(s);
    TD_CHECK(TD_NEW(&w));
    s->own = w;
    TD_CHECK(TD_NEW_ARRAY(&w->window, b * l));
    TD_CHECK(TD_NEW_ARRAY(&w->position, b));
    TD_CHECK(TD_NEW_ARRAY(&w->keys, b));
    TD_CHECK(TD_NEW_ARRAY(&w->at, b));
    TD_CHECK(TD_NEW_ARRAY(&w->is_done, b));
    TD_CHECK(td_memory_alloc(s->base.memory, TD_MEMORY_DEVICE,
                             sizeof(float) * b * s->max_frames * s->c.n_mels, &w->mel));
    return td_memory_alloc(s->base.memory, TD_MEMORY_HOST, sizeof(float) * b * (l + 1), &w->decided);
}

static void open_window(td_acoustic_speaker *s)
{
    progress *w = s->own;
    const uint32_t most = s->base.speaking->max_tokens;
    for (uint32_t i = 0; i < s->base.speaking->items; i++) {
        const uint32_t first = w->at[i] > LOOK_BACK ? w->at[i] - LOOK_BACK : 0;
        for (uint32_t k = 0; k < most; k++)
            w->window[(size_t)i * most + k] = k >= first && k <= w->at[i] + LOOK_AHEAD ? 0 : FORBIDDEN;
    }
}

/* The new frames of items that go on to their places and into the next step; to the host what decides. */
static td_status record_taking(td_acoustic_speaker *s, const td_utterance *u, td_speech_plan *plan,
                               uint32_t step, td_list *list)
{
    const progress *w = s->own;
    const uint64_t frame = sizeof(float) * s->c.n_mels, group = frame * s->c.reduction;
    td_span made, attention, stop;
    TD_CHECK(td_speech_output(plan, "predicted_mel", &made));
    TD_CHECK(td_speech_output(plan, "attention", &attention));
    TD_CHECK(td_speech_output(plan, "stop", &stop));
    for (uint32_t i = 0; i < u->count; i++) {
        if (w->is_done[i]) continue;
        TD_CHECK(td_list_copy(list,
                              td_span_part(w->mel, (uint64_t)i * s->max_frames * frame + step * group, group),
                              td_span_part(made, i * group, group)));
        TD_CHECK(td_list_copy(list, td_span_part(plan->rooms[TD_ROOM_PREVIOUS], i * frame, frame),
                              td_span_part(made, (i + 1) * group - frame, frame)));
    }
    TD_CHECK(td_list_copy(list, td_span_part(w->decided, 0, attention.bytes), attention));
    return td_list_copy(list, td_span_part(w->decided, attention.bytes, stop.bytes), stop);
}

static td_status take_frames(td_acoustic_speaker *s, const td_utterance *u, td_speech_plan *plan,
                             uint32_t step)
{
    td_list *list = NULL;
    td_status status = TD_OK;
    TD_TRY(td_list_create(td_memory_device(s->base.memory), TD_QUEUE_COMPUTE, &list));
    TD_TRY(record_taking(s, u, plan, step, list));
    TD_TRY(td_blocking_run(list, NULL));
fail:
    td_list_destroy(list);
    return status;
}

/* Who is where, and who is done with this step. */
static bool decide(td_acoustic_speaker *s, const td_utterance *u, uint32_t *frames, uint32_t step)
{
    progress *w = s->own;
    const float *attention = td_span_host(w->decided);
    const float *stop = attention + (size_t)s->base.speaking->items * s->base.speaking->max_tokens;
    bool are_done = true;
    for (uint32_t i = 0; i < u->count; i++, attention += s->base.speaking->max_tokens) {
        if (w->is_done[i]) continue;
        frames[i] = (step + 1) * s->c.reduction;
        uint32_t best = w->at[i];
        for (uint32_t k = w->at[i]; k < u->tokens[i] && k <= w->at[i] + LOOK_AHEAD; k++)
            if (attention[k] > attention[best]) best = k;
        w->at[i] = best;
        w->is_done[i] = stop[i] > 0 && best + 2 >= u->tokens[i];
        are_done &= w->is_done[i];
    }
    return are_done;
}

static td_status run_step(td_acoustic_speaker *s, const td_utterance *u, td_speech_plan *plan, uint32_t step)
{
    progress *w = s->own;
    TD_CHECK(td_speaker_check_cancel(&s->base));
    for (size_t i = 0; i < s->base.speaking->items; i++) {
        w->position[i] = step;
        w->keys[i] = step + 1;
    }
    open_window(s);
    TD_CHECK(td_speech_fill(plan, "token_counts", u->tokens));
    TD_CHECK(td_speech_fill(plan, "position", w->position));
    TD_CHECK(td_speech_fill(plan, "key_counts", w->keys));
    TD_CHECK(td_speech_fill(plan, "window", w->window));
    TD_CHECK(td_speech_run(plan, step));
    return take_frames(s, u, plan, step);
}

/* Back to the first token and to silence. */
static td_status begin(td_acoustic_speaker *s, const td_speech_plan *plan, uint32_t *frames)
{
    progress *w = s->own;
    const size_t b = s->base.speaking->items;
    td_list *list = NULL;
    td_status status = TD_OK;
    memset(w->at, 0, b * sizeof *w->at);
    memset(w->is_done, 0, b * sizeof *w->is_done);
    for (size_t i = 0; i < b; i++)
        frames[i] = 1;
    TD_TRY(td_list_create(td_memory_device(s->base.memory), TD_QUEUE_COMPUTE, &list));
    TD_TRY(td_list_fill(list, w->mel, 0));
    TD_TRY(td_list_fill(list, plan->rooms[TD_ROOM_PREVIOUS], 0));
    TD_TRY(td_blocking_run(list, NULL));
fail:
    td_list_destroy(list);
    return status;
}

/* The post-net, over all frames. */
static td_status finish(td_acoustic_speaker *s, const uint32_t *frames, td_span *mel)
{
    const td_batch_shape shape = {
        .items = s->base.speaking->items, .tokens = s->base.speaking->max_tokens, .frames = s->max_frames};
    const progress *w = s->own;
    td_speech_plan *plan;
    *mel = w->mel;
    if (!s->c.postnet) return TD_OK;
    TD_CHECK(td_speech_find_plan(s, td_ar_postnet_graph, &shape, 0, &plan));
    TD_CHECK(td_speech_copy_all(s, &(td_speech_copy){plan->rooms[TD_ROOM_COARSE], w->mel}, 1));
    TD_CHECK(td_speech_fill(plan, "frame_counts", frames));
    TD_CHECK(td_speech_run(plan, 0));
    return td_speech_output(plan, "predicted_mel", mel);
}

/* Items without an end; those that had all the frames there are, and still some text to say, are too long. */
static void note_cuts(td_acoustic_speaker *s, const td_utterance *u, size_t number)
{
    const td_speaking *speaking = s->base.speaking;
    const progress *w = s->own;
    const bool had_all = s->max_frames / s->c.reduction == s->c.max_frames / s->c.reduction;
    for (uint32_t i = 0; i < u->count; i++) {
        if (w->is_done[i]) continue;
        s->n_cut[number]++;
        if (had_all && speaking->too_long && w->at[i] + 2 < u->tokens[i])
            speaking->too_long[number * speaking->items + i] = true;
    }
}

static td_status decode(td_acoustic_speaker *s, size_t number, td_spoken *out)
{
    const td_utterance *u = &s->base.speaking->utterances[number];
    const td_batch_shape shape = {.items = s->base.speaking->items,
                                  .tokens = s->base.speaking->max_tokens,
                                  .frames = s->max_frames,
                                  .reference_frames = s->base.speaking->reference_frames};
    const uint32_t capacity = s->max_frames / s->c.reduction;
    uint32_t *frames = s->frames + number * s->base.speaking->items;
    td_speech_plan *plan;
    bool are_done = false;
    TD_CHECK(td_speech_find_plan(s, td_ar_step_graph, &shape, s->base.speaking->seed, &plan));
    TD_CHECK(td_speech_pass(s, number, plan));
    TD_CHECK(begin(s, plan, frames));
    for (uint32_t step = 0; step < capacity && !are_done; step++) {
        TD_CHECK(run_step(s, u, plan, step));
        are_done = decide(s, u, frames, step);
    }
    note_cuts(s, u, number);
    return finish(s, frames, &out->mel);
}

static void end(td_acoustic_speaker *s)
{
    const progress *w = s->own;
    td_memory_free(s->base.memory, w->mel);
    td_memory_free(s->base.memory, w->decided);
    free(w->window);
    free(w->position);
    free(w->keys);
    free(w->at);
    free(w->is_done);
}

/* ---------------------------------------------------------------- the table */

static const td_acoustic_voice voice = {
    .encoder = td_ar_encoder_graph, .start = start, .decode = decode, .end = end};

static td_status start_speaker(td_speaker *speaker)
{
    return td_acoustic_speaker_start((td_acoustic_speaker *)speaker, &voice);
}

const td_speaker_class td_ar_speaker = {.bytes = sizeof(td_acoustic_speaker),
                                        .close = td_acoustic_speaker_close,
                                        .start = start_speaker,
                                        .say = td_acoustic_speaker_say,
                                        .end = td_acoustic_speaker_end};
