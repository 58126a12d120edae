/* The autoregressive decoder of speak.h: a few frames at a time from the ones before, until every item has
 * said its last token. Attention may look a little around the token it was at, and only forwards in the long
 * run, so it can neither skip words nor fall back. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "device/once.h"
#include "model/speak_internal.h"

#define LOOK_BACK 1u
#define LOOK_AHEAD 3u
#define FORBIDDEN (-1e4f)
#define ROUND_STEPS 32u

/* Frames that there is room for: what slow speech of so many tokens takes, in steps that let texts of like
 * length share their caches. */
static uint32_t count_frames(const td_speaker *s)
{
    const uint32_t r = s->model->reduction, most = s->model->max_frames, asked = s->speaking->limit;
    const double rate = s->model->attention_rate > 0 ? (double)s->model->attention_rate : 0.2;
    const uint32_t limit = asked && asked < most ? asked : most;
    const uint32_t steps = (uint32_t)fmin(20 + 1.7 * s->speaking->max_tokens / rate, most);
    const uint32_t rounded = (steps + ROUND_STEPS - 1) / ROUND_STEPS * ROUND_STEPS;
    const uint32_t fitting = limit / r < rounded ? limit / r : rounded;
    return (fitting > 0 ? fitting : 1) * r;
}

td_status td_speaker_start_steps(td_speaker *s)
{
    const size_t b = s->speaking->items, l = s->speaking->max_tokens;
    td_speaker_walk *w = &s->walk;
    td_status status = TD_OK;
    s->max_frames = count_frames(s);
    TD_TRY(TD_NEW_ARRAY(&w->window, b * l));
    TD_TRY(TD_NEW_ARRAY(&w->position, b));
    TD_TRY(TD_NEW_ARRAY(&w->keys, b));
    TD_TRY(TD_NEW_ARRAY(&w->at, b));
    TD_TRY(TD_NEW_ARRAY(&w->is_done, b));
    TD_TRY(td_memory_alloc(s->memory, TD_MEMORY_DEVICE, sizeof(float) * b * s->max_frames * s->model->n_mels,
                           &w->mel));
    TD_TRY(td_memory_alloc(s->memory, TD_MEMORY_HOST, sizeof(float) * b * (l + 1), &w->decided));
fail:
    return status;
}

static void open_window(td_speaker *s)
{
    td_speaker_walk *w = &s->walk;
    const uint32_t most = s->speaking->max_tokens;
    for (uint32_t i = 0; i < s->speaking->items; i++) {
        const uint32_t first = w->at[i] > LOOK_BACK ? w->at[i] - LOOK_BACK : 0;
        for (uint32_t k = 0; k < most; k++)
            w->window[(size_t)i * most + k] = k >= first && k <= w->at[i] + LOOK_AHEAD ? 0 : FORBIDDEN;
    }
}

/* The new frames of items that go on to their places and into the next step; to the host what decides. */
static td_status record_taking(td_speaker *s, const td_utterance *u, const td_speaker_plan *plan,
                               uint32_t step, td_list *list)
{
    const td_speaker_walk *w = &s->walk;
    const uint64_t frame = sizeof(float) * s->model->n_mels, group = frame * s->model->reduction;
    td_span made, attention, stop;
    td_status status = TD_OK;
    TD_TRY(td_plan_output(plan->plan, plan->step.mel, &made));
    TD_TRY(td_plan_output(plan->plan, plan->step.attention, &attention));
    TD_TRY(td_plan_output(plan->plan, plan->step.stop, &stop));
    for (uint32_t i = 0; i < u->count; i++) {
        if (w->is_done[i]) continue;
        TD_TRY(td_list_copy(list, td_span_part(w->mel, i * s->max_frames * frame + step * group, group),
                            td_span_part(made, i * group, group)));
        TD_TRY(td_list_copy(list, td_span_part(plan->previous, i * frame, frame),
                            td_span_part(made, (i + 1) * group - frame, frame)));
    }
    TD_TRY(td_list_copy(list, td_span_part(w->decided, 0, attention.bytes), attention));
    TD_TRY(td_list_copy(list, td_span_part(w->decided, attention.bytes, stop.bytes), stop));
fail:
    return status;
}

static td_status take_frames(td_speaker *s, const td_utterance *u, const td_speaker_plan *plan, uint32_t step)
{
    td_list *list = NULL;
    td_status status = TD_OK;
    TD_TRY(td_list_create(td_memory_device(s->memory), TD_QUEUE_COMPUTE, &list));
    TD_TRY(record_taking(s, u, plan, step, list));
    TD_TRY(td_list_finish(list));
    TD_TRY(td_once_run(list, NULL));
fail:
    td_list_destroy(list);
    return status;
}

/* Who is where, and who is done with this step. */
static bool decide(td_speaker *s, const td_utterance *u, uint32_t *frames, uint32_t step)
{
    td_speaker_walk *w = &s->walk;
    const float *attention = td_span_host(w->decided);
    const float *stop = attention + (size_t)s->speaking->items * s->speaking->max_tokens;
    bool are_done = true;
    for (uint32_t i = 0; i < u->count; i++, attention += s->speaking->max_tokens) {
        if (w->is_done[i]) continue;
        frames[i] = (step + 1) * s->model->reduction;
        uint32_t best = w->at[i];
        for (uint32_t k = w->at[i]; k < u->tokens[i] && k <= w->at[i] + LOOK_AHEAD; k++)
            if (attention[k] > attention[best]) best = k;
        w->at[i] = best;
        w->is_done[i] = stop[i] > 0 && best + 2 >= u->tokens[i];
        are_done &= w->is_done[i];
    }
    return are_done;
}

static td_status run_step(td_speaker *s, const td_utterance *u, td_speaker_plan *plan, uint32_t step)
{
    td_speaker_walk *w = &s->walk;
    const td_model_step *d = &plan->step;
    td_status status = TD_OK;
    TD_TRY(td_speaker_check_cancel(s));
    for (size_t i = 0; i < s->speaking->items; i++) {
        w->position[i] = step;
        w->keys[i] = step + 1;
    }
    open_window(s);
    TD_TRY(td_speaker_fill(plan, d->token_counts, u->tokens));
    TD_TRY(td_speaker_fill(plan, d->position, w->position));
    TD_TRY(td_speaker_fill(plan, d->key_counts, w->keys));
    TD_TRY(td_speaker_fill(plan, d->window, w->window));
    TD_TRY(td_speaker_run(plan, step));
    TD_TRY(take_frames(s, u, plan, step));
fail:
    return status;
}

/* Back to the first token and to silence. */
static td_status begin(td_speaker *s, const td_speaker_plan *plan, uint32_t *frames)
{
    td_speaker_walk *w = &s->walk;
    const size_t b = s->speaking->items;
    td_list *list = NULL;
    td_status status = TD_OK;
    memset(w->at, 0, b * sizeof *w->at);
    memset(w->is_done, 0, b * sizeof *w->is_done);
    for (size_t i = 0; i < b; i++)
        frames[i] = 1;
    TD_TRY(td_list_create(td_memory_device(s->memory), TD_QUEUE_COMPUTE, &list));
    TD_TRY(td_list_fill(list, w->mel, 0));
    TD_TRY(td_list_fill(list, plan->previous, 0));
    TD_TRY(td_list_finish(list));
    TD_TRY(td_once_run(list, NULL));
fail:
    td_list_destroy(list);
    return status;
}

/* The post-net, over all frames. */
static td_status finish(td_speaker *s, const uint32_t *frames, td_span *mel)
{
    const td_model_shape shape = {
        .items = s->speaking->items, .tokens = s->speaking->max_tokens, .frames = s->max_frames};
    td_speaker_plan *plan;
    td_status status = TD_OK;
    *mel = s->walk.mel;
    if (!s->model->postnet) return TD_OK;
    TD_TRY(td_speaker_find_plan(s, TD_SPEAKER_FINISH, &shape, &plan));
    TD_TRY(td_speaker_copy_all(s, &(td_speaker_copy){plan->coarse, s->walk.mel}, 1));
    TD_TRY(td_speaker_fill(plan, plan->finish.frame_counts, frames));
    TD_TRY(td_speaker_run(plan, 0));
    TD_TRY(td_plan_output(plan->plan, plan->finish.mel, mel));
fail:
    return status;
}

td_status td_speaker_decode_steps(td_speaker *s, size_t number, td_span *mel)
{
    const td_utterance *u = &s->speaking->utterances[number];
    const td_model_shape shape = {.items = s->speaking->items,
                                  .tokens = s->speaking->max_tokens,
                                  .frames = s->max_frames,
                                  .reference_frames = s->speaking->reference_frames};
    uint32_t *frames = s->frames + number * s->speaking->items;
    td_speaker_plan *plan;
    bool are_done = false;
    td_status status = TD_OK;
    TD_TRY(td_speaker_find_plan(s, TD_SPEAKER_STEP, &shape, &plan));
    TD_TRY(td_speaker_pass(s, number, plan));
    TD_TRY(begin(s, plan, frames));
    for (uint32_t step = 0; step < plan->step.capacity && !are_done; step++) {
        TD_TRY(run_step(s, u, plan, step));
        are_done = decide(s, u, frames, step);
    }
    for (uint32_t i = 0; i < u->count; i++)
        s->n_cut[number] += !s->walk.is_done[i];
    TD_TRY(finish(s, frames, mel));
fail:
    return status;
}
