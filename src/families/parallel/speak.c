/* How the parallel family speaks: frames of each token by the predicted durations, then all frames at once.
 * The longest item of a speaking decides the shape of all its spectrograms, so every utterance is encoded
 * before the first is decoded. See families/speak.h. Covered by tests/synth/test_voice.c. */
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "families/parallel/parallel.h"

#define ROUND_FRAMES 16u
#define KEPT_UTTERANCES 32u /* encoded ones that wait on the device; later ones are encoded a second time */

/* Of a speaking. */
typedef struct spreading {
    uint32_t *spread; /* [utterances, B, L]: frames of each token */
    uint32_t *index;  /* [B, max_frames]: token of each frame */
} spreading;

/* Frames of each token of an item, `limit` at most; their sum as it would be without. */
static double spread_item(const td_acoustic_speaker *s, const float *durations, double speed, uint32_t tokens,
                          uint32_t limit, uint32_t *spread, uint32_t *frames)
{
    double sum = 0;
    for (uint32_t k = 0; k < tokens; k++) {
        /* NaN becomes 1 here, and is told from the spectrogram. */
        const double wanted =
            durations ? fmin(fmax(rint(exp((double)durations[k]) / speed), 1), s->c.max_frames) : 1;
        spread[k] = (uint32_t)fmin(wanted, limit - *frames);
        *frames += spread[k];
        sum += wanted;
    }
    return sum;
}

/* Of all items; padding has one frame in its one token. *longest: raised to the frames that are wanted. */
static void spread_frames(td_acoustic_speaker *s, size_t number, const float *durations, double *longest)
{
    const td_speaking *speaking = s->base.speaking;
    const td_utterance *u = &speaking->utterances[number];
    const uint32_t most = s->c.max_frames;
    const uint32_t limit = speaking->limit && speaking->limit < most ? speaking->limit : most;
    uint32_t *frames = s->frames + number * speaking->items;
    uint32_t *spread = ((spreading *)s->own)->spread + number * speaking->items * speaking->max_tokens;
    for (uint32_t i = 0; i < speaking->items; i++) {
        const size_t first = (size_t)i * speaking->max_tokens;
        const double speed = speaking->speed * (u->speeds ? u->speeds[i] : 1);
        const double sum = spread_item(s, i < u->count ? durations + first : NULL, speed, u->tokens[i], limit,
                                       spread + first, &frames[i]);
        if (sum > most && speaking->too_long) speaking->too_long[number * speaking->items + i] = true;
        *longest = fmax(*longest, sum);
        if (sum > limit) s->n_cut[number]++;
        if (frames[i] > s->max_frames) s->max_frames = frames[i];
    }
}

static td_status start(td_acoustic_speaker *s)
{
    const td_speaking *speaking = s->base.speaking;
    const size_t n = (size_t)speaking->items * speaking->max_tokens;
    spreading *own = NULL;
    float *durations = NULL;
    double longest = 0;
    td_status status = TD_OK;
    s->max_frames = 0;
    TD_TRY(TD_NEW_ARRAY(&durations, n));
    TD_TRY(TD_NEW(&own));
    s->own = own;
    TD_TRY(TD_NEW_ARRAY(&own->spread, speaking->n_utterances * n));
    for (size_t i = 0; i < speaking->n_utterances; i++) {
        TD_TRY(td_speech_encode(s, i, durations));
        spread_frames(s, i, durations, &longest);
        if (i >= KEPT_UTTERANCES) td_speech_drop_encoded(s, i);
    }
    TD_FAIL_IF(!speaking->limit && longest > s->c.max_frames, TD_ERR_LIMIT,
               "a piece of the text takes %.0f frames, and the voice makes %u; shorten its sentences, "
               "speak faster, or train longer",
               longest, s->c.max_frames);
    s->max_frames = (s->max_frames + ROUND_FRAMES - 1) / ROUND_FRAMES * ROUND_FRAMES;
    if (s->max_frames > s->c.max_frames) s->max_frames = s->c.max_frames;
    TD_TRY(TD_NEW_ARRAY(&own->index, (size_t)speaking->items * s->max_frames));
fail:
    free(durations);
    return status;
}

/* The token of each frame. */
static void make_index(td_acoustic_speaker *s, const td_utterance *u, const uint32_t *spread)
{
    for (uint32_t i = 0; i < s->base.speaking->items; i++) {
        uint32_t *to = ((spreading *)s->own)->index + (size_t)i * s->max_frames;
        uint32_t at = 0;
        for (uint32_t k = 0; k < u->tokens[i]; k++)
            for (uint32_t f = 0; f < spread[(size_t)i * s->base.speaking->max_tokens + k]; f++)
                to[at++] = k;
        while (at < s->max_frames)
            to[at++] = 0;
    }
}

static td_status decode(td_acoustic_speaker *s, size_t number, td_spoken *out)
{
    const td_speaking *speaking = s->base.speaking;
    const spreading *own = s->own;
    const uint32_t *spread = own->spread + number * speaking->items * speaking->max_tokens;
    const td_batch_shape shape = {
        .items = speaking->items, .tokens = speaking->max_tokens, .frames = s->max_frames};
    td_speech_plan *plan;
    make_index(s, &speaking->utterances[number], spread);
    const uint64_t seed = s->c.decoder == TD_DECODER_FLOW ? speaking->seed : 0; /* 0: plans are kept */
    TD_CHECK(td_speech_find_plan(s, td_parallel_decoder_graph, &shape, seed, &plan));
    TD_CHECK(td_speech_pass(s, number, plan));
    TD_CHECK(td_speech_fill(plan, "durations", spread));
    TD_CHECK(td_speech_fill(plan, "index", own->index));
    TD_CHECK(td_speech_fill(plan, "frame_counts", s->frames + number * speaking->items));
    TD_CHECK(td_speech_run(plan, (uint32_t)number));
    if (s->c.frame_pitch) TD_CHECK(td_speech_output(plan, "frame_pitch", &out->pitch));
    return td_speech_output(plan, "predicted_mel", &out->mel);
}

static void end(td_acoustic_speaker *s)
{
    const spreading *own = s->own;
    free(own->spread);
    free(own->index);
}

/* ---------------------------------------------------------------- the table */

static const td_acoustic_voice voice = {
    .encoder = td_parallel_encoder_graph, .start = start, .decode = decode, .end = end};

static td_status start_speaker(td_speaker *speaker)
{
    return td_acoustic_speaker_start((td_acoustic_speaker *)speaker, &voice);
}

const td_speaker_class td_parallel_speaker = {.bytes = sizeof(td_acoustic_speaker),
                                              .close = td_acoustic_speaker_close,
                                              .start = start_speaker,
                                              .say = td_acoustic_speaker_say,
                                              .end = td_acoustic_speaker_end};
