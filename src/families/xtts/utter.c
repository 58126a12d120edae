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
    td_xtts_sampling sampling; /* with a seed of its own */
    td_xtts_utterance *out;
    uint32_t slot;
    bool is_over; /* all codes are there */
    td_xtts_chooser chooser;
    size_t most;              /* codes that there is room for */
    size_t next_look;         /* codes at which to ask whether the text is over */
    size_t sounded;           /* samples of the last chunk's signal, those that are held back with them */
    size_t sounded_codes;     /* codes that it was made of */
    size_t chunk;             /* codes after which the next one is made */
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

static td_status begin(const utterance *u, td_xtts_thought *thought)
{
    const uint64_t start_ns = td_clock_ns();
    TD_CHECK(td_xtts_begin(u->engine, u->slot, u->timbre, u->tokens, u->n_tokens, thought));
    return note_thought(u, "text", start_ns);
}

/* Of the next code of each, after its last. */
static td_status think(utterance *const *texts, uint32_t n, td_xtts_thought *thoughts)
{
    const uint64_t start_ns = td_clock_ns();
    td_xtts_chosen chosen[TD_XTTS_MOST_TEXTS];
    for (uint32_t i = 0; i < n; i++)
        chosen[i] =
            (td_xtts_chosen){.slot = texts[i]->slot, .code = texts[i]->out->codes[texts[i]->out->n - 1]};
    TD_CHECK(td_xtts_next(texts[0]->engine, chosen, n, thoughts));
    return note_thought(texts[0], n == 1 ? "code" : "codes", start_ns);
}

/* ---------------------------------------------------------------- the guard */

/* Goes back to before a loop, or is cut there, where drawing again does not help. */
static td_status leave_loop(utterance *u, size_t loop)
{
    td_xtts_utterance *out = u->out;
    size_t n = out->n - loop;
    if (n < u->sounded_codes) n = u->sounded_codes; /* what has left cannot be taken back */
    u->is_over = out->is_cut = u->sampling.greedy || out->n_redrawn == REDRAWS || n == 0;
    out->n = n;
    if (u->is_over) return TD_OK;
    out->n_redrawn++;
    return td_xtts_rewind(u->engine, u->slot, (uint32_t)n - 1);
}

/* What nobody has heard yet is made again, from the codes that are left. */
static td_status forget_sound(utterance *u)
{
    TD_CHECK(collect(u));
    u->out->count = u->sounded = u->sounded_codes = 0;
    return TD_OK;
}

/* More codes than a text usually takes: what attention says is behind the text goes. */
static td_status leave_text(utterance *u)
{
    td_xtts_utterance *out = u->out;
    size_t end;
    u->next_look = out->n + LOOK_EVERY;
    TD_CHECK(td_xtts_find_text_end(u->engine, u->timbre, u->tokens, u->n_tokens, out->codes, out->n, &end));
    if (end < u->sounded_codes && u->manner->sink) end = u->sounded_codes;
    if (end < u->sounded_codes) TD_CHECK(forget_sound(u));
    if (end == out->n) return TD_OK;
    u->is_over = out->is_cut = out->is_past_text = true;
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
    const uint32_t code = td_xtts_choose(&u->chooser, &u->sampling, thought->logits, out->n_redrawn, out->n);
    memcpy(out->latents + out->n * u->c->gpt_n_model_channels, thought->latent,
           u->c->gpt_n_model_channels * sizeof *out->latents);
    out->codes[out->n++] = code;
    out->is_stopped = code == u->c->gpt_stop_audio_token;
}

/* The vocoder runs over what lies around each chunk, too: few long ones cost less than many short ones. */
static td_status sound_chunk(utterance *u)
{
    const size_t longer = u->chunk + u->chunk / 2, most = u->manner->most_codes;
    if (u->out->n != u->sounded_codes + u->behind + u->chunk) return TD_OK;
    if (most > u->chunk) u->chunk = longer < most ? longer : most;
    return sound(u, false);
}

/* Chooses a code and looks whether it was the last. */
static td_status go_on(utterance *u, const td_xtts_thought *thought)
{
    const td_xtts_manner *m = u->manner;
    td_xtts_utterance *out = u->out;
    TD_REFUSE_IF(m->cancel && atomic_load(m->cancel), TD_ERR_CANCELLED, "speaking was cancelled");
    choose(u, thought);
    u->is_over = out->is_stopped || out->n == u->most;
    const bool is_doubtful = m->is_guarded && out->n >= td_xtts_doubtful_codes(u->n_tokens);
    if (is_doubtful && (u->is_over || out->n >= u->next_look)) TD_CHECK(leave_text(u));
    if (out->is_past_text) return TD_OK;
    if (u->is_over) {
        out->is_cut = !out->is_stopped && u->most < td_xtts_most_codes(u->c);
        return TD_OK;
    }
    const size_t loop = m->is_guarded ? td_xtts_find_loop(out->codes, out->n) : 0;
    if (loop > 0) return leave_loop(u, loop);
    return m->chunk_codes ? sound_chunk(u) : TD_OK;
}

static td_status make_room(utterance *u)
{
    td_xtts_utterance *out = u->out;
    const size_t usual = td_xtts_most_usual_codes(u->n_tokens);
    u->chunk = u->manner->chunk_codes;
    u->most = td_xtts_most_codes(u->c);
    if (u->manner->is_guarded && usual < u->most) u->most = usual;
    if (u->manner->is_guarded && !u->manner->sink) u->behind = LOOP_LONGEST;
    TD_CHECK(td_xtts_chooser_open(u->c->gpt_num_audio_tokens, &u->chooser));
    TD_CHECK(TD_NEW_ARRAY(&out->codes, u->most));
    return TD_NEW_ARRAY(&out->latents, u->most * u->c->gpt_n_model_channels);
}

/* ---------------------------------------------------------------- texts */

static bool is_taken(uint32_t slot, utterance *const *texts, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (texts[i]->slot == slot) return true;
    return false;
}

/* The first code, in a slot that none of the others has. */
static td_status start(utterance *u, utterance *const *others, uint32_t n)
{
    td_xtts_thought thought;
    while (is_taken(u->slot, others, n))
        u->slot++;
    TD_CHECK(make_room(u));
    TD_CHECK(begin(u, &thought));
    return go_on(u, &thought);
}

/* Texts that are over sound, and leave; *n becomes how many are left. */
static td_status leave(utterance **texts, uint32_t *n)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < *n; i++) {
        if (texts[i]->is_over)
            TD_CHECK(sound(texts[i], true));
        else
            texts[left++] = texts[i];
    }
    *n = left;
    return TD_OK;
}

/* `at_once` of them side by side; where one ends, the next begins. */
static td_status speak(utterance *all, size_t n, uint32_t at_once)
{
    utterance *texts[TD_XTTS_MOST_TEXTS];
    td_xtts_thought thoughts[TD_XTTS_MOST_TEXTS];
    uint32_t speaking = 0;
    size_t begun = 0;
    while (speaking > 0 || begun < n) {
        if (speaking > 0) TD_CHECK(think(texts, speaking, thoughts));
        for (uint32_t i = 0; i < speaking; i++) {
            TD_CHECK(collect_made(texts[i]));
            TD_CHECK(go_on(texts[i], &thoughts[i]));
        }
        TD_CHECK(leave(texts, &speaking));
        while (speaking < at_once && begun < n) {
            TD_CHECK(start(&all[begun], texts, speaking));
            texts[speaking++] = &all[begun++];
            TD_CHECK(leave(texts, &speaking));
        }
    }
    return TD_OK;
}

td_status td_xtts_utter_all(td_xtts_engine *engine, const td_xtts_timbre *timbre, const td_xtts_text *texts,
                            size_t n, uint32_t at_once, const td_xtts_manner *manner, td_xtts_utterance *out)
{
    utterance *all = NULL;
    td_status status = TD_OK;
    memset(out, 0, n * sizeof *out);
    TD_FAIL_IF(at_once == 0 || at_once > TD_XTTS_MOST_TEXTS, TD_ERR_ARGUMENT,
               "%u texts at once; there can be 1 to %u", at_once, TD_XTTS_MOST_TEXTS);
    TD_FAIL_IF(at_once > 1 && manner->chunk_codes, TD_ERR_ARGUMENT,
               "samples leave early where one text is spoken at a time");
    TD_TRY(TD_NEW_ARRAY(&all, n));
    td_xtts_expect(engine, n < at_once ? (uint32_t)n : at_once);
    for (size_t i = 0; i < n; i++) {
        all[i] = (utterance){.engine = engine,
                             .c = td_xtts_engine_config(engine),
                             .timbre = timbre,
                             .tokens = texts[i].tokens,
                             .n_tokens = texts[i].n_tokens,
                             .manner = manner,
                             .sampling = manner->sampling,
                             .out = &out[i]};
        all[i].sampling.seed += i;
    }
    TD_TRY(speak(all, n, at_once));
fail:
    for (size_t i = 0; all && i < n; i++) {
        if (all[i].begun > 0) td_xtts_sound_drop(engine);
        td_xtts_chooser_close(&all[i].chooser);
    }
    for (size_t i = 0; i < n && status != TD_OK; i++)
        td_xtts_utterance_free(&out[i]);
    free(all);
    return status;
}

td_status td_xtts_utter(td_xtts_engine *engine, const td_xtts_timbre *timbre, const uint32_t *tokens,
                        size_t n_tokens, const td_xtts_manner *manner, td_xtts_utterance *out)
{
    const td_xtts_text text = {.tokens = tokens, .n_tokens = n_tokens};
    return td_xtts_utter_all(engine, timbre, &text, 1, 1, manner, out);
}
