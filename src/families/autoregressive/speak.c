/* The autoregressive decoder of speak.h: a few frames at a time from the ones before, until every item has
 * said its last token. Attention may look a little around the token it was at, and only forwards in the long
 * run, so it can neither skip words nor fall back. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "families/autoregressive/autoregressive.h"

#define LOOK_BACK 1u
#define LOOK_AHEAD 3u
#define FORBIDDEN (-1e4f)
#define ROUND_STEPS 32u

/* The state of one utterance. */
typedef struct walk {
    float *window, *attention; /* [B, L] */
    float *previous;           /* [B, n_mels] */
    float *made;               /* [B, r, n_mels] */
    float *stop;               /* [B] */
    uint32_t *position, *keys; /* [B] */
    uint32_t *at;              /* [B]: token that is being said */
    bool *is_done;             /* [B] */
} walk;

static td_status make_walk(const td_speaking *s, walk *w)
{
    const size_t b = s->items, l = s->max_tokens, m = td_acoustic_get(s->model).n_mels;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&w->window, b * l));
    TD_TRY(TD_NEW_ARRAY(&w->attention, b * l));
    TD_TRY(TD_NEW_ARRAY(&w->previous, b * m));
    TD_TRY(TD_NEW_ARRAY(&w->made, b * m * td_acoustic_get(s->model).reduction));
    TD_TRY(TD_NEW_ARRAY(&w->stop, b));
    TD_TRY(TD_NEW_ARRAY(&w->position, b));
    TD_TRY(TD_NEW_ARRAY(&w->keys, b));
    TD_TRY(TD_NEW_ARRAY(&w->at, b));
    TD_TRY(TD_NEW_ARRAY(&w->is_done, b));
fail:
    return status;
}

static void free_walk(walk *w)
{
    free(w->window);
    free(w->attention);
    free(w->previous);
    free(w->made);
    free(w->stop);
    free(w->position);
    free(w->keys);
    free(w->at);
    free(w->is_done);
}

static void open_window(const td_speaking *s, walk *w)
{
    for (uint32_t i = 0; i < s->items; i++) {
        const uint32_t first = w->at[i] > LOOK_BACK ? w->at[i] - LOOK_BACK : 0;
        for (uint32_t k = 0; k < s->max_tokens; k++)
            w->window[(size_t)i * s->max_tokens + k] =
                k >= first && k <= w->at[i] + LOOK_AHEAD ? 0 : FORBIDDEN;
    }
}

/* Keeps the new frames and finds out who is done. */
static bool take_frames(const td_speaking *s, td_utterance *u, walk *w, uint32_t step)
{
    const size_t m = td_acoustic_get(s->model).n_mels, r = td_acoustic_get(s->model).reduction;
    bool are_done = true;
    for (uint32_t i = 0; i < u->count; i++) {
        const float *attention = w->attention + (size_t)i * s->max_tokens;
        const float *made = w->made + i * r * m;
        if (w->is_done[i]) continue;
        memcpy(u->mel + ((size_t)i * s->max_frames + step * r) * m, made, r * m * sizeof *made);
        u->frames[i] = (step + 1) * (uint32_t)r;
        uint32_t best = w->at[i];
        for (uint32_t k = w->at[i]; k < u->tokens[i] && k <= w->at[i] + LOOK_AHEAD; k++)
            if (attention[k] > attention[best]) best = k;
        w->at[i] = best;
        w->is_done[i] = w->stop[i] > 0 && best + 2 >= u->tokens[i];
        are_done &= w->is_done[i];
        memcpy(w->previous + i * m, made + (r - 1) * m, m * sizeof *made);
    }
    return are_done;
}

static td_status run_step(const td_ar_step *d, td_plan *plan, const td_utterance *u, const td_spoken *spoken,
                          walk *w, uint32_t step)
{
    td_status status = TD_OK;
    TD_TRY(td_speaking_fill(plan, d->hidden, spoken->hidden));
    TD_TRY(td_speaking_fill(plan, d->speaker, spoken->speaker));
    TD_TRY(td_speaking_fill(plan, d->token_counts, u->tokens));
    TD_TRY(td_speaking_fill(plan, d->previous, w->previous));
    TD_TRY(td_speaking_fill(plan, d->position, w->position));
    TD_TRY(td_speaking_fill(plan, d->key_counts, w->keys));
    TD_TRY(td_speaking_fill(plan, d->window, w->window));
    TD_TRY(td_speaking_run(plan, step));
    TD_TRY(td_plan_read(plan, d->mel, w->made));
    TD_TRY(td_plan_read(plan, d->stop, w->stop));
    TD_TRY(td_plan_read(plan, d->attention, w->attention));
fail:
    return status;
}

static td_status walk_through(td_speaking *s, const td_ar_step *d, td_plan *plan, td_utterance *u,
                              const td_spoken *spoken, walk *w)
{
    const size_t b = s->items;
    bool are_done = false;
    td_status status = TD_OK;
    memset(w->previous, 0, b * td_acoustic_get(s->model).n_mels * sizeof *w->previous);
    memset(w->at, 0, b * sizeof *w->at);
    memset(w->is_done, 0, b * sizeof *w->is_done);
    for (uint32_t step = 0; step < d->capacity && !are_done; step++) {
        for (size_t i = 0; i < b; i++) {
            w->position[i] = step;
            w->keys[i] = step + 1;
        }
        open_window(s, w);
        TD_TRY(run_step(d, plan, u, spoken, w, step));
        are_done = take_frames(s, u, w, step);
    }
    for (uint32_t i = 0; i < u->count; i++)
        s->n_cut += !w->is_done[i];
fail:
    return status;
}

/* The post-net, over all frames. */
static td_status finish(const td_speaking *s)
{
    const td_batch_shape shape = {.items = s->items, .tokens = s->max_tokens, .frames = s->max_frames};
    td_ar_postnet f = {0};
    td_plan *plan = NULL;
    td_status status = TD_OK;
    if (!td_acoustic_get(s->model).postnet) return TD_OK;
    TD_TRY(td_ar_postnet_graph(s->model, &shape, &f));
    TD_TRY(td_speaking_plan(s, f.graph, &plan));
    for (size_t i = 0; i < s->n_utterances; i++) {
        td_utterance *u = &s->utterances[i];
        TD_TRY(td_speaking_fill(plan, f.coarse, u->mel));
        TD_TRY(td_speaking_fill(plan, f.frame_counts, u->frames));
        TD_TRY(td_speaking_run(plan, 0));
        TD_TRY(td_plan_read(plan, f.mel, u->mel));
    }
fail:
    td_plan_destroy(plan);
    td_graph_destroy(f.graph);
    return status;
}

/* Frames that there is room for: what slow speech of so many tokens takes, in steps that let texts of like
 * length share their caches. */
static uint32_t count_frames(const td_speaking *s)
{
    const uint32_t r = td_acoustic_get(s->model).reduction, most = td_acoustic_get(s->model).max_frames;
    const double rate =
        td_acoustic_get(s->model).attention_rate > 0 ? (double)td_acoustic_get(s->model).attention_rate : 0.2;
    const uint32_t limit = s->limit && s->limit < most ? s->limit : most;
    const uint32_t steps = (uint32_t)fmin(20 + 1.7 * s->max_tokens / rate, most);
    const uint32_t rounded = (steps + ROUND_STEPS - 1) / ROUND_STEPS * ROUND_STEPS;
    const uint32_t fitting = limit / r < rounded ? limit / r : rounded;
    return (fitting > 0 ? fitting : 1) * r;
}

td_status td_ar_speak(td_speaking *s)
{
    td_spoken *spoken = NULL;
    td_ar_step step = {0};
    td_plan *plan = NULL;
    walk w = {0};
    td_status status = TD_OK;
    TD_TRY(td_speaking_encode(s, false, &spoken));
    s->max_frames = count_frames(s);
    const td_batch_shape shape = {.items = s->items,
                                  .tokens = s->max_tokens,
                                  .frames = s->max_frames,
                                  .reference_frames = s->reference_frames};
    TD_TRY(make_walk(s, &w));
    TD_TRY(td_ar_step_graph(s->model, &shape, s->seed, &step));
    TD_TRY(td_store_extend(s->store, step.graph));
    TD_TRY(td_speaking_plan(s, step.graph, &plan));
    for (size_t i = 0; i < s->n_utterances; i++) {
        td_utterance *u = &s->utterances[i];
        TD_TRY(TD_NEW_ARRAY(&u->frames, s->items));
        TD_TRY(TD_NEW_ARRAY(&u->mel, (size_t)s->items * s->max_frames * td_acoustic_get(s->model).n_mels));
        for (uint32_t k = 0; k < s->items; k++)
            u->frames[k] = 1;
        TD_TRY(walk_through(s, &step, plan, u, &spoken[i], &w));
    }
    TD_TRY(finish(s));
fail:
    td_plan_destroy(plan);
    td_graph_destroy(step.graph);
    td_spoken_free(s, spoken);
    free_walk(&w);
    return status;
}
