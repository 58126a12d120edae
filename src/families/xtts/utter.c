/* See utter.h. */
#include "families/xtts/utter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "families/xtts/layers.h"

#define FADE_SAMPLES 1024u
#define LOOP_PERIOD 12u /* codes that a loop has at most */
#define LOOP_TIMES 4u   /* how often it is heard, */
#define LOOP_CODES 24u  /* and how long at least: more than a second */
#define REDRAWS 3u
#define CODES_AT_LEAST 60u /* that any text may take, and */
#define CODES_PER_TOKEN 12u

typedef struct utterance {
    td_xtts_engine *engine;
    const td_xtts *c;
    const td_xtts_timbre *timbre;
    const td_xtts_manner *manner;
    td_xtts_utterance *out;
    td_xtts_chooser chooser;
    size_t most;              /* codes that there is room for */
    size_t sounded;           /* samples of the last chunk's signal, those that are held back with them */
    size_t sounded_codes;     /* codes that it was made of */
    float tail[FADE_SAMPLES]; /* its end, to be faded from */
    size_t samples_capacity;
} utterance;

void td_xtts_utterance_free(td_xtts_utterance *spoken)
{
    free(spoken->codes);
    free(spoken->latents);
    free(spoken->samples);
    *spoken = (td_xtts_utterance){0};
}

/* ---------------------------------------------------------------- sound */

/* Samples at the end of a signal that further codes may change. */
static size_t count_changing(const utterance *u)
{
    const td_xtts *c = u->c;
    const double factors[] = {1 / fmax(u->manner->speed, 0.05),
                              (double)c->gpt_code_stride_len / c->output_hop_length,
                              (double)c->output_sample_rate / c->input_sample_rate};
    double rows = 0; /* that lie behind the last code's middle */
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        if (factors[i] != 1) rows = ceil((rows + 1) * factors[i]) + 1;
    return ((size_t)rows + td_xtts_vocoder_reach(c)) * c->output_hop_length;
}

/* Makes samples first .. end - 1 of all codes so far, behind those that are there. */
static td_status make_samples(utterance *u, size_t first, size_t end, float **made)
{
    td_xtts_utterance *out = u->out;
    const td_xtts_sounding s = {
        .latents = out->latents, .embedding = u->timbre->embedding, .n = out->n, .speed = u->manner->speed};
    td_status status = TD_OK;
    TD_TRY(
        td_alloc_grow(&out->samples, &u->samples_capacity, out->count + end - first, sizeof *out->samples));
    *made = out->samples + out->count;
    TD_TRY(td_xtts_sound(u->engine, &s, first, end - first, *made));
fail:
    return status;
}

static td_status hand_over(utterance *u, size_t count)
{
    const float *samples = u->out->samples + u->out->count;
    u->out->count += count;
    if (u->manner->sink && count > 0 && !u->manner->sink(u->manner->context, samples, count))
        return TD_FAIL(TD_ERR_CANCELLED, "speaking was ended by the receiver of the samples");
    return TD_OK;
}

static td_status sound_exactly(utterance *u, size_t all, bool is_last)
{
    const size_t changing = is_last ? 0 : count_changing(u), first = u->out->count;
    const size_t end = all > changing ? all - changing : 0;
    float *made;
    td_status status = TD_OK;
    if (end <= first) return TD_OK;
    TD_TRY(make_samples(u, first, end, &made));
    TD_TRY(hand_over(u, end - first));
fail:
    return status;
}

/* The last FADE_SAMPLES of a chunk are kept, and become the first of the next, in which they fade out. */
static td_status sound_fading(utterance *u, size_t all, bool is_last)
{
    const size_t first = u->sounded > FADE_SAMPLES ? u->sounded - FADE_SAMPLES : 0;
    const size_t count = all - first, kept = is_last ? 0 : FADE_SAMPLES;
    float *made, tail[FADE_SAMPLES];
    td_status status = TD_OK;
    if (count < (size_t)2 * FADE_SAMPLES && !is_last) return TD_OK; /* wait for more codes */
    TD_TRY(make_samples(u, first, all, &made));
    memcpy(tail, made + count - FADE_SAMPLES, sizeof tail);
    for (size_t i = 0; u->sounded && i < FADE_SAMPLES; i++) {
        const float share = (float)i / (FADE_SAMPLES - 1);
        made[i] = u->tail[i] * (1 - share) + made[i] * share;
    }
    memcpy(u->tail, tail, sizeof tail);
    u->sounded = all;
    TD_TRY(hand_over(u, count - kept));
fail:
    return status;
}

static td_status sound(utterance *u, bool is_last)
{
    const size_t all = td_xtts_samples(u->c, u->out->n, u->manner->speed);
    u->sounded_codes = u->out->n;
    return u->manner->flow == TD_XTTS_FADE ? sound_fading(u, all, is_last) : sound_exactly(u, all, is_last);
}

/* ---------------------------------------------------------------- the guard */

size_t td_xtts_find_loop(const uint32_t *codes, size_t n)
{
    for (size_t period = 1; period <= LOOP_PERIOD; period++) {
        size_t length = 0;
        while (length + period < n && codes[n - 1 - length] == codes[n - 1 - length - period])
            length++;
        if (length + period >= LOOP_CODES && length >= (LOOP_TIMES - 1) * period) return length;
    }
    return 0;
}

/* Goes back to before a loop. *is_over: it is cut there instead, since drawing again does not help. */
static td_status leave_loop(utterance *u, size_t loop, td_xtts_thought *thought, bool *is_over)
{
    td_xtts_utterance *out = u->out;
    size_t n = out->n - loop;
    td_status status = TD_OK;
    if (n < u->sounded_codes) n = u->sounded_codes; /* what has left cannot be taken back */
    *is_over = u->manner->sampling.greedy || out->n_redrawn == REDRAWS || n == 0;
    out->is_cut = *is_over;
    out->n = n;
    if (*is_over) return TD_OK;
    out->n_redrawn++;
    TD_TRY(td_xtts_rewind(u->engine, (uint32_t)n - 1));
    TD_TRY(td_xtts_next(u->engine, out->codes[n - 1], thought));
fail:
    return status;
}

/* ---------------------------------------------------------------- codes */

static void mark_spoken(utterance *u)
{
    bool *spoken = u->chooser.spoken;
    memset(spoken, 0, u->chooser.n * sizeof *spoken);
    /* Coqui's list of what was said begins with a one for each row of the prefix, then the start. */
    spoken[1] = spoken[u->c->gpt_start_audio_token] = true;
    for (size_t i = 0; i < u->out->n; i++)
        spoken[u->out->codes[i]] = true;
}

static void choose(utterance *u, const td_xtts_thought *thought)
{
    td_xtts_utterance *out = u->out;
    mark_spoken(u);
    const uint32_t code =
        td_xtts_choose(&u->chooser, &u->manner->sampling, thought->logits, out->n_redrawn, out->n);
    memcpy(out->latents + out->n * u->c->gpt_n_model_channels, thought->latent,
           u->c->gpt_n_model_channels * sizeof *out->latents);
    out->codes[out->n++] = code;
    out->is_stopped = code == u->c->gpt_stop_audio_token;
}

static td_status go_on(utterance *u, td_xtts_thought *thought, bool *is_over)
{
    const td_xtts_manner *m = u->manner;
    td_xtts_utterance *out = u->out;
    td_status status = TD_OK;
    TD_FAIL_IF(m->cancel && atomic_load(m->cancel), TD_ERR_CANCELLED, "speaking was cancelled");
    choose(u, thought);
    *is_over = out->is_stopped || out->n == u->most;
    if (*is_over) {
        out->is_cut = !out->is_stopped && u->most < td_xtts_most_codes(u->c);
        return TD_OK;
    }
    const size_t loop = m->is_guarded ? td_xtts_find_loop(out->codes, out->n) : 0;
    if (loop > 0) return leave_loop(u, loop, thought, is_over);
    if (m->chunk_codes && out->n - u->sounded_codes == m->chunk_codes) TD_TRY(sound(u, false));
    TD_TRY(td_xtts_next(u->engine, out->codes[out->n - 1], thought));
fail:
    return status;
}

static td_status make_room(utterance *u, size_t n_tokens)
{
    td_xtts_utterance *out = u->out;
    const size_t usual = CODES_AT_LEAST + CODES_PER_TOKEN * n_tokens;
    td_status status = TD_OK;
    u->most = td_xtts_most_codes(u->c);
    if (u->manner->is_guarded && usual < u->most) u->most = usual;
    TD_TRY(td_xtts_chooser_open(u->c->gpt_num_audio_tokens, &u->chooser));
    TD_TRY(TD_NEW_ARRAY(&out->codes, u->most));
    TD_TRY(TD_NEW_ARRAY(&out->latents, u->most * u->c->gpt_n_model_channels));
fail:
    return status;
}

td_status td_xtts_utter(td_xtts_engine *engine, const td_xtts_timbre *timbre, const uint32_t *tokens,
                        size_t n_tokens, const td_xtts_manner *manner, td_xtts_utterance *out)
{
    utterance u = {
        .engine = engine, .c = td_xtts_engine_config(engine), .timbre = timbre, .manner = manner, .out = out};
    td_xtts_thought thought;
    bool is_over = false;
    td_status status = TD_OK;
    *out = (td_xtts_utterance){0};
    TD_TRY(make_room(&u, n_tokens));
    TD_TRY(td_xtts_begin(engine, timbre, tokens, n_tokens, &thought));
    while (!is_over)
        TD_TRY(go_on(&u, &thought, &is_over));
    TD_TRY(sound(&u, true));
fail:
    td_xtts_chooser_close(&u.chooser);
    if (status != TD_OK) td_xtts_utterance_free(out);
    return status;
}
