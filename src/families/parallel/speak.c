/* The non-autoregressive decoder of speak.h: frames of each token by the predicted durations, pitch and
 * energy as wished, then all frames at once. */
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "families/parallel/parallel.h"

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

static void change_prosody(const td_speaking *s, td_spoken *spoken)
{
    const size_t n = (size_t)s->items * s->max_tokens;
    for (size_t i = 0; spoken->pitch && s->pitch_shift != 0 && i < n; i++)
        spoken->pitch[i] = shift_pitch(spoken->pitch[i], s->pitch_shift);
    for (size_t i = 0; spoken->energy && s->energy != 1 && i < n; i++)
        spoken->energy[i] = scale_energy(spoken->energy[i], s->energy);
}

/* Frames of each token of an item, `limit` at most; their sum as it would be without. */
static double spread_item(const td_speaking *s, const float *durations, uint32_t tokens, uint32_t limit,
                          uint32_t *spread, uint32_t *frames)
{
    double sum = 0;
    for (uint32_t k = 0; k < tokens; k++) {
        /* NaN becomes 1 here, and is told from the spectrogram. */
        const double wanted = durations ? fmin(fmax(rint(exp((double)durations[k]) / s->speed), 1),
                                               td_acoustic_get(s->model).max_frames)
                                        : 1;
        spread[k] = (uint32_t)fmin(wanted, limit - *frames);
        *frames += spread[k];
        sum += wanted;
    }
    return sum;
}

/* Of all items; padding has one frame in its one token. */
static td_status spread_frames(td_speaking *s, td_utterance *u, const td_spoken *spoken, uint32_t *spread)
{
    const uint32_t most = td_acoustic_get(s->model).max_frames,
                   limit = s->limit && s->limit < most ? s->limit : most;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&u->frames, s->items));
    for (uint32_t i = 0; i < s->items; i++) {
        const size_t first = (size_t)i * s->max_tokens;
        const double sum = spread_item(s, i < u->count ? spoken->durations + first : NULL, u->tokens[i],
                                       limit, spread + first, &u->frames[i]);
        TD_FAIL_IF(
            !s->limit && sum > most, TD_ERR_LIMIT,
            "a piece of the text takes %.0f frames, and the voice makes %u; shorten its sentences, raise "
            "--speed, or train longer",
            sum, most);
        if (sum > limit) s->n_cut++;
        if (u->frames[i] > s->max_frames) s->max_frames = u->frames[i];
    }
fail:
    return status;
}

/* The token of each frame. */
static void make_index(const td_speaking *s, const td_utterance *u, const uint32_t *spread, uint32_t *index)
{
    for (uint32_t i = 0; i < s->items; i++) {
        uint32_t *to = index + (size_t)i * s->max_frames;
        uint32_t at = 0;
        for (uint32_t k = 0; k < u->tokens[i]; k++)
            for (uint32_t f = 0; f < spread[(size_t)i * s->max_tokens + k]; f++)
                to[at++] = k;
        while (at < s->max_frames)
            to[at++] = 0;
    }
}

static td_status decode_one(const td_speaking *s, const td_parallel_decoder *d, td_plan *plan,
                            td_utterance *u, const td_spoken *spoken, const uint32_t *spread, uint32_t *index)
{
    td_status status = TD_OK;
    make_index(s, u, spread, index);
    TD_TRY(td_speaking_fill(plan, d->hidden, spoken->hidden));
    TD_TRY(td_speaking_fill(plan, d->speaker, spoken->speaker));
    TD_TRY(td_speaking_fill(plan, d->pitch, spoken->pitch));
    TD_TRY(td_speaking_fill(plan, d->energy, spoken->energy));
    TD_TRY(td_speaking_fill(plan, d->durations, spread));
    TD_TRY(td_speaking_fill(plan, d->index, index));
    TD_TRY(td_speaking_fill(plan, d->frame_counts, u->frames));
    TD_TRY(td_speaking_run(plan, 0));
    TD_TRY(TD_NEW_ARRAY(&u->mel, (size_t)s->items * s->max_frames * td_acoustic_get(s->model).n_mels));
    TD_TRY(td_plan_read(plan, d->mel, u->mel));
fail:
    return status;
}

td_status td_parallel_speak(td_speaking *s)
{
    const size_t n = (size_t)s->items * s->max_tokens;
    td_parallel_decoder d = {0};
    td_spoken *spoken = NULL;
    td_plan *plan = NULL;
    uint32_t *spread = NULL, *index = NULL;
    td_status status = TD_OK;
    TD_TRY(td_speaking_encode(s, true, &spoken));
    TD_TRY(TD_NEW_ARRAY(&spread, s->n_utterances * n));
    for (size_t i = 0; i < s->n_utterances; i++) {
        TD_TRY(spread_frames(s, &s->utterances[i], &spoken[i], spread + i * n));
        change_prosody(s, &spoken[i]);
    }
    s->max_frames = (s->max_frames + ROUND_FRAMES - 1) / ROUND_FRAMES * ROUND_FRAMES;
    const td_batch_shape shape = {.items = s->items, .tokens = s->max_tokens, .frames = s->max_frames};
    TD_TRY(TD_NEW_ARRAY(&index, (size_t)s->items * s->max_frames));
    TD_TRY(td_parallel_decoder_graph(s->model, &shape, &d));
    TD_TRY(td_speaking_plan(s, d.graph, &plan));
    for (size_t i = 0; i < s->n_utterances; i++)
        TD_TRY(decode_one(s, &d, plan, &s->utterances[i], &spoken[i], spread + i * n, index));
fail:
    td_plan_destroy(plan);
    td_graph_destroy(d.graph);
    free(spread);
    free(index);
    td_spoken_free(s, spoken);
    return status;
}
