/* The non-autoregressive decoder: frames of each token by the predicted durations, pitch and energy as
 * wished, then all frames at once (internal.h). */
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "synth/internal.h"

#define ROUND_FRAMES 16u

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

/* Frames of each token; their sums. Padding has one frame in its one token. */
static td_status spread_frames(td_speaking *s, td_utterance *u)
{
    const uint32_t n = s->max_tokens;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&u->spread, (size_t)s->items * n));
    TD_TRY(TD_NEW_ARRAY(&u->frames, s->items));
    for (uint32_t i = 0; i < s->items; i++) {
        double sum = 0;
        for (uint32_t k = 0; k < u->tokens[i]; k++) {
            const double frames =
                i < u->count ? rint(exp((double)u->durations[(size_t)i * n + k]) / s->options->speed) : 1;
            /* NaN becomes 1 here, and is told from the spectrogram. */
            u->spread[(size_t)i * n + k] = (uint32_t)fmin(fmax(frames, 1), s->model->max_frames);
            sum += u->spread[(size_t)i * n + k];
        }
        TD_FAIL_IF(
            sum > s->model->max_frames, TD_ERR_LIMIT,
            "a piece of the text takes %.0f frames, and the voice makes %u; shorten its sentences, raise "
            "--speed, or train longer",
            sum, s->model->max_frames);
        u->frames[i] = (uint32_t)sum;
        if (u->frames[i] > s->max_frames) s->max_frames = u->frames[i];
    }
fail:
    return status;
}

static void change_prosody(const td_speaking *s, td_utterance *u)
{
    const size_t n = (size_t)s->items * s->max_tokens;
    for (size_t i = 0; u->pitch && s->options->pitch_shift != 0 && i < n; i++)
        u->pitch[i] = shift_pitch(u->pitch[i], s->options->pitch_shift);
    for (size_t i = 0; u->energy && s->options->energy != 1 && i < n; i++)
        u->energy[i] = scale_energy(u->energy[i], s->options->energy);
}

/* The token of each frame. */
static void make_index(const td_speaking *s, const td_utterance *u, uint32_t *index)
{
    for (uint32_t i = 0; i < s->items; i++) {
        uint32_t *to = index + (size_t)i * s->max_frames;
        uint32_t at = 0;
        for (uint32_t k = 0; k < u->tokens[i]; k++)
            for (uint32_t f = 0; f < u->spread[(size_t)i * s->max_tokens + k]; f++)
                to[at++] = k;
        while (at < s->max_frames)
            to[at++] = 0;
    }
}

static td_status decode_one(const td_speaking *s, const td_model_decode *d, td_plan *plan, td_utterance *u,
                            uint32_t *index)
{
    td_status status = TD_OK;
    make_index(s, u, index);
    TD_TRY(td_speaking_fill(plan, d->hidden, u->hidden));
    TD_TRY(td_speaking_fill(plan, d->speaker, u->speaker));
    TD_TRY(td_speaking_fill(plan, d->pitch, u->pitch));
    TD_TRY(td_speaking_fill(plan, d->energy, u->energy));
    TD_TRY(td_speaking_fill(plan, d->durations, u->spread));
    TD_TRY(td_speaking_fill(plan, d->index, index));
    TD_TRY(td_speaking_fill(plan, d->frame_counts, u->frames));
    TD_TRY(td_speaking_run(plan, 0));
    TD_TRY(TD_NEW_ARRAY(&u->mel, (size_t)s->items * s->max_frames * s->model->n_mels));
    TD_TRY(td_plan_read(plan, d->mel, u->mel));
fail:
    return status;
}

td_status td_speaking_parallel(td_speaking *s)
{
    td_model_decode d = {0};
    td_plan *plan = NULL;
    uint32_t *index = NULL;
    td_status status = TD_OK;
    for (size_t i = 0; i < s->n_utterances; i++) {
        TD_TRY(spread_frames(s, &s->utterances[i]));
        change_prosody(s, &s->utterances[i]);
    }
    s->max_frames = (s->max_frames + ROUND_FRAMES - 1) / ROUND_FRAMES * ROUND_FRAMES;
    const td_model_shape shape = {.items = s->items, .tokens = s->max_tokens, .frames = s->max_frames};
    TD_TRY(TD_NEW_ARRAY(&index, (size_t)s->items * s->max_frames));
    TD_TRY(td_model_decode_graph(s->model, &shape, NULL, &d));
    TD_TRY(td_plan_create(s->store, d.graph, &(td_plan_options){.forward_only = true, .slots = 1}, &plan));
    for (size_t i = 0; i < s->n_utterances; i++)
        TD_TRY(decode_one(s, &d, plan, &s->utterances[i], index));
fail:
    td_plan_destroy(plan);
    td_graph_destroy(d.graph);
    free(index);
    return status;
}
