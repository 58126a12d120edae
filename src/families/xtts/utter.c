/* See utter.h. */
#include "families/xtts/utter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "families/xtts/guard.h"
#include "families/xtts/layers.h"

#define FADE_SAMPLES 1024u
#define LOOP_LONGEST                                                                                         \
    ((size_t)TD_XTTS_LOOP_PERIOD * TD_XTTS_LOOP_TIMES) /* codes that are taken back at most */
#define REDRAWS 3u
#define LOOK_EVERY 64u /* codes, once there are doubts */

typedef struct utterance {
    td_xtts_engine *engine;
    const td_xtts *c;
    const td_xtts_timbre *timbre;
    const uint32_t *tokens;
    size_t n_tokens;
    const td_xtts_manner *manner;
    td_xtts_utterance *out;
    td_xtts_chooser chooser;
    size_t most;              /* codes that there is room for */
    size_t next_look;         /* codes at which to ask whether the text is over */
    size_t sounded;           /* samples of the last chunk's signal, those that are held back with them */
    size_t sounded_codes;     /* codes that it was made of */
    float tail[FADE_SAMPLES]; /* its end, to be faded from */
    size_t samples_capacity;
    size_t begun;  /* samples that the vocoder is making */
    size_t behind; /* codes that are not sounded before the end, since the guard may take them back */
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

/* All codes so far that may be sounded. */
static td_xtts_sounding describe_sound(const utterance *u)
{
    return (td_xtts_sounding){.latents = u->out->latents,
                              .embedding = u->timbre->embedding,
                              .n = u->sounded_codes,
                              .speed = u->manner->speed};
}

static td_status make_room_for(utterance *u, size_t count)
{
    return td_alloc_grow(&u->out->samples, &u->samples_capacity, u->out->count + count,
                         sizeof *u->out->samples);
}

static td_status hand_over(utterance *u, size_t count)
{
    const float *samples = u->out->samples + u->out->count;
    u->out->count += count;
    if (u->manner->sink && count > 0 && !u->manner->sink(u->manner->context, samples, count))
        return TD_FAIL(TD_ERR_CANCELLED, "speaking was ended by the receiver of the samples");
    return TD_OK;
}

/* Waits for what the vocoder is making and hands it over. */
static td_status collect(utterance *u)
{
    const size_t count = u->begun;
    td_times times;
    if (count == 0) return TD_OK;
    u->begun = 0;
    TD_CHECK(make_room_for(u, count));
    TD_CHECK(td_xtts_sound_end(u->engine, u->out->samples + u->out->count, &times));
    if (u->manner->trace && times.finished_ns)
        TD_CHECK(td_trace_add(u->manner->trace, TD_XTTS_TRACK_VOCODER, "samples", times.started_ns,
                              times.finished_ns));
    return hand_over(u, count);
}

/* Samples leave as soon as they are made, even if the next are not begun yet. */
static td_status collect_made(utterance *u)
{
    bool is_made;
    if (u->begun == 0) return TD_OK;
    TD_CHECK(td_xtts_sound_poll(u->engine, &is_made));
    return is_made ? collect(u) : TD_OK;
}

/* Where the vocoder has a device of its own, the last part is left to it while codes go on. */
static td_status sound_exactly(utterance *u, size_t all, bool is_last)
{
    const size_t changing = is_last ? 0 : count_changing(u), end = all > changing ? all - changing : 0;
    const td_xtts_sounding s = describe_sound(u);
    TD_CHECK(collect(u));
    while (u->out->count < end) {
        size_t count = end - u->out->count;
        TD_CHECK(td_xtts_sound_begin(u->engine, &s, u->out->count, &count));
        u->begun = count;
        if (!is_last && u->out->count + count == end && td_xtts_overlaps(u->engine)) break;
        TD_CHECK(collect(u));
    }
    return TD_OK;
}

/* The last FADE_SAMPLES of a chunk are kept, and become the first of the next, in which they fade out. */
static td_status sound_fading(utterance *u, size_t all, bool is_last)
{
    const size_t first = u->sounded > FADE_SAMPLES ? u->sounded - FADE_SAMPLES : 0;
    const size_t count = all - first, kept = is_last ? 0 : FADE_SAMPLES;
    const td_xtts_sounding s = describe_sound(u);
    float tail[FADE_SAMPLES];
    if (count < (size_t)2 * FADE_SAMPLES && !is_last) return TD_OK; /* wait for more codes */
    TD_CHECK(make_room_for(u, count));
    float *made = u->out->samples + u->out->count;
    TD_CHECK(td_xtts_sound(u->engine, &s, first, count, made));
    memcpy(tail, made + count - FADE_SAMPLES, sizeof tail);
    for (size_t i = 0; u->sounded && i < FADE_SAMPLES; i++) {
        const float share = (float)i / (FADE_SAMPLES - 1);
        made[i] = u->tail[i] * (1 - share) + made[i] * share;
    }
    memcpy(u->tail, tail, sizeof tail);
    u->sounded = all;
    return hand_over(u, count - kept);
}

static td_status sound(utterance *u, bool is_last)
{
    u->sounded_codes = is_last ? u->out->n : u->out->n - u->behind;
    const size_t all = td_xtts_samples(u->c, u->sounded_codes, u->manner->speed);
    return u->manner->flow == TD_XTTS_FADE ? sound_fading(u, all, is_last) : sound_exactly(u, all, is_last);
}

/* ---------------------------------------------------------------- thoughts */

static td_status note_thought(const utterance *u, const char *name, uint64_t start_ns)
{
    if (!u->manner->trace) return TD_OK;
    return td_trace_add(u->manner->trace, TD_XTTS_TRACK_GPT, name, start_ns, td_clock_ns());
}

static td_status begin(const utterance *u, const uint32_t *tokens, size_t n_tokens, td_xtts_thought *thought)
{
    const uint64_t start_ns = td_clock_ns();
    TD_CHECK(td_xtts_begin(u->engine, u->timbre, tokens, n_tokens, thought));
    return note_thought(u, "text", start_ns);
}

/* Of the next code, after the last. */
static td_status think(const utterance *u, td_xtts_thought *thought)
{
    const uint64_t start_ns = td_clock_ns();
    TD_CHECK(td_xtts_next(u->engine, u->out->codes[u->out->n - 1], thought));
    return note_thought(u, "code", start_ns);
}

/* ---------------------------------------------------------------- the guard */

/* Goes back to before a loop. *is_over: it is cut there instead, since drawing again does not help. */
static td_status leave_loop(utterance *u, size_t loop, td_xtts_thought *thought, bool *is_over)
{
    td_xtts_utterance *out = u->out;
    size_t n = out->n - loop;
    if (n < u->sounded_codes) n = u->sounded_codes; /* what has left cannot be taken back */
    *is_over = u->manner->sampling.greedy || out->n_redrawn == REDRAWS || n == 0;
    out->is_cut = *is_over;
    out->n = n;
    if (*is_over) return TD_OK;
    out->n_redrawn++;
    TD_CHECK(td_xtts_rewind(u->engine, (uint32_t)n - 1));
    return think(u, thought);
}

/* What nobody has heard yet is made again, from the codes that are left. */
static td_status forget_sound(utterance *u)
{
    TD_CHECK(collect(u));
    u->out->count = u->sounded = u->sounded_codes = 0;
    return TD_OK;
}

/* More codes than a text usually takes: what attention says is behind the text goes. *is_over: something went. */
static td_status leave_text(utterance *u, bool *is_over)
{
    td_xtts_utterance *out = u->out;
    size_t end;
    u->next_look = out->n + LOOK_EVERY;
    TD_CHECK(td_xtts_find_text_end(u->engine, u->timbre, u->tokens, u->n_tokens, out->codes, out->n, &end));
    if (end < u->sounded_codes && u->manner->sink) end = u->sounded_codes;
    if (end < u->sounded_codes) TD_CHECK(forget_sound(u));
    if (end == out->n) return TD_OK;
    *is_over = out->is_cut = out->is_past_text = true;
    out->is_stopped = false;
    out->n = end;
    return TD_OK;
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
    TD_REFUSE_IF(m->cancel && atomic_load(m->cancel), TD_ERR_CANCELLED, "speaking was cancelled");
    choose(u, thought);
    *is_over = out->is_stopped || out->n == u->most;
    const bool is_doubtful = m->is_guarded && out->n >= td_xtts_doubtful_codes(u->n_tokens);
    if (is_doubtful && (*is_over || out->n >= u->next_look)) TD_CHECK(leave_text(u, is_over));
    if (out->is_past_text) return TD_OK;
    if (*is_over) {
        out->is_cut = !out->is_stopped && u->most < td_xtts_most_codes(u->c);
        return TD_OK;
    }
    const size_t loop = m->is_guarded ? td_xtts_find_loop(out->codes, out->n) : 0;
    if (loop > 0) return leave_loop(u, loop, thought, is_over);
    if (m->chunk_codes && out->n == u->sounded_codes + u->behind + m->chunk_codes) TD_CHECK(sound(u, false));
    TD_CHECK(think(u, thought));
    return collect_made(u);
}

static td_status make_room(utterance *u)
{
    td_xtts_utterance *out = u->out;
    const size_t usual = td_xtts_most_usual_codes(u->n_tokens);
    u->most = td_xtts_most_codes(u->c);
    if (u->manner->is_guarded && usual < u->most) u->most = usual;
    if (u->manner->is_guarded && !u->manner->sink) u->behind = LOOP_LONGEST;
    TD_CHECK(td_xtts_chooser_open(u->c->gpt_num_audio_tokens, &u->chooser));
    TD_CHECK(TD_NEW_ARRAY(&out->codes, u->most));
    return TD_NEW_ARRAY(&out->latents, u->most * u->c->gpt_n_model_channels);
}

td_status td_xtts_utter(td_xtts_engine *engine, const td_xtts_timbre *timbre, const uint32_t *tokens,
                        size_t n_tokens, const td_xtts_manner *manner, td_xtts_utterance *out)
{
    utterance u = {.engine = engine,
                   .c = td_xtts_engine_config(engine),
                   .timbre = timbre,
                   .tokens = tokens,
                   .n_tokens = n_tokens,
                   .manner = manner,
                   .out = out};
    td_xtts_thought thought;
    bool is_over = false;
    td_status status = TD_OK;
    *out = (td_xtts_utterance){0};
    TD_TRY(make_room(&u));
    TD_TRY(begin(&u, tokens, n_tokens, &thought));
    while (!is_over)
        TD_TRY(go_on(&u, &thought, &is_over));
    TD_TRY(sound(&u, true));
fail:
    if (u.begun > 0) td_xtts_sound_drop(engine);
    td_xtts_chooser_close(&u.chooser);
    if (status != TD_OK) td_xtts_utterance_free(out);
    return status;
}
