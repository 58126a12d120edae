/* Sound of spectrograms by a model of the vocoder family; see vocoder.h and families/vocode.h.
 *
 * A spectrogram is gone through in pieces of PIECE frames, each run with as many frames around it as reach into
 * it, so that any length takes the same memory, and what a program gets while the rest is still being made is the
 * same to the bit as the whole. Beyond its ends a spectrogram goes on as silence. Pitch comes with the batch or from
 * the model's own net, the phase at the start of a piece from the pitch of all frames before it, noise from the seed and the
 * number of the sample. Covered by tests/families/test_vocoder.c.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "device/blocking.h"
#include "families/vocoder/vocoder.h"

enum { PIECE = 64, PITCH_PIECE = 128 };

#define NOISE_STREAM UINT64_C(0x6e6f697365)
#define LOWEST_HZ 50.0f
#define HIGHEST_HZ 1100.0f
#define MIDDLE_LN_HZ 5.0f

typedef struct graph_plan {
    td_graph *graph;
    td_plan *plan;
} graph_plan;

typedef struct neural {
    td_vocoder base; /* first */
    td_store *store;
    td_vocoder_values c;
    graph_plan pitch, wave;
    uint32_t around;       /* frames at each side of a piece */
    uint32_t pitch_around; /* and of a piece whose pitch is told */
} neural;

/* HiFi-GAN needs no pitch. */
static bool follows_pitch(const neural *v)
{
    return v->c.generator == TD_VOCODER_PULSE;
}

/* ---------------------------------------------------------------- opening */

static void free_plan(graph_plan *p)
{
    td_plan_destroy(p->plan);
    td_graph_destroy(p->graph);
}

static void destroy_neural(td_vocoder *vocoder)
{
    neural *v = (neural *)vocoder;
    free_plan(&v->pitch);
    free_plan(&v->wave);
    free(v);
}

static td_status make_plan(td_store *store, graph_plan *p)
{
    const td_plan_options options = {.forward_only = true, .averaged = true, .slots = 1};
    TD_CHECK(td_store_extend(store, p->graph));
    return td_plan_create(store, p->graph, &options, &p->plan);
}

static td_status open_neural(td_memory *memory, td_store *store, const td_model_config *model,
                             const td_mel *mel, td_vocoder **out);

const td_vocode_class td_vocoder_vocode = {.open = open_neural};

/* ---------------------------------------------------------------- an item */

typedef struct item_work {
    neural *v;
    const float *mel; /* [frames, n_mels] */
    uint32_t frames;
    float *pitch;  /* [frames] in Hz, 0 where unvoiced; owned */
    double *turns; /* [frames]: phase at each frame; owned */
    float *room;   /* of a piece's inputs and outputs; owned */
    uint64_t seed, stream;
} item_work;

/* Frames first .. first + count of the spectrogram, silence beyond its ends. */
static void cut_mel(const item_work *w, int64_t first, uint32_t count, float *to)
{
    const uint32_t n_mels = w->v->c.n_mels;
    const float silence = td_mel_pad_value(td_mel_get_config(w->v->base.mel));
    for (uint32_t i = 0; i < count; i++) {
        const int64_t at = first + i;
        for (uint32_t m = 0; m < n_mels; m++)
            to[(size_t)i * n_mels + m] =
                at < 0 || at >= w->frames ? silence : w->mel[(size_t)at * n_mels + m];
    }
}

static float pitch_at(const item_work *w, int64_t frame)
{
    return frame < 0 || frame >= w->frames ? 0 : w->pitch[frame];
}

/* As kernels/pulse.kh: from one frame to the next with their mean pitch, or that of the one that is voiced. */
static double turns_between(const item_work *w, int64_t frame)
{
    const float a = pitch_at(w, frame), b = pitch_at(w, frame + 1);
    const double sum = (double)(a > 0 ? a : b) + (double)(b > 0 ? b : a);
    return 0.5 * sum * w->v->c.hop / w->v->c.rate;
}

/* Phase at any frame; before the first one it goes backwards. */
static double turns_at(const item_work *w, int64_t frame)
{
    if (frame >= w->frames) frame = w->frames - 1;
    double turns = frame >= 0 ? w->turns[frame] : w->turns[0];
    for (int64_t at = frame; at < 0; at++)
        turns -= turns_between(w, at);
    return turns - floor(turns);
}

static td_status fill(const graph_plan *p, const char *input, const float *values)
{
    return td_plan_fill(p->plan, 0, td_graph_find_input(p->graph, input), values);
}

static td_status run(const graph_plan *p, const char *output, float *values)
{
    TD_CHECK(td_plan_run(p->plan, &(td_run){0}, NULL));
    return td_plan_read(p->plan, td_graph_find_output(p->graph, output), values);
}

/* Within what pulses can follow; not a number, and what is not above 0, is unvoiced. */
static float limit_pitch(float hertz)
{
    return !(hertz > 0) ? 0 : hertz < LOWEST_HZ ? LOWEST_HZ : hertz > HIGHEST_HZ ? HIGHEST_HZ : hertz;
}

/* Pitch of all frames, from the spectrogram. */
static td_status tell_pitch(item_work *w)
{
    neural *v = w->v;
    const uint32_t around = v->pitch_around, count = PITCH_PIECE + 2 * around;
    for (uint32_t first = 0; first < w->frames; first += PITCH_PIECE) {
        cut_mel(w, (int64_t)first - around, count, w->room);
        TD_CHECK(fill(&v->pitch, "mel", w->room));
        TD_CHECK(run(&v->pitch, "told", w->room));
        for (uint32_t i = 0; i < PITCH_PIECE && first + i < w->frames; i++) {
            const float *told = w->room + (size_t)2 * (around + i);
            w->pitch[first + i] = told[1] > 0 ? limit_pitch(expf(told[0] + MIDDLE_LN_HZ)) : 0;
        }
    }
    return TD_OK;
}

/* Pitch of all frames, as it was given or else told, and the phase at each. */
static td_status find_pitch(item_work *w, const td_vocoder_batch *batch, uint32_t item)
{
    if (batch->pitch.buffer) {
        const uint64_t bytes = UINT64_C(4) * batch->max_frames;
        TD_CHECK(td_blocking_read(w->v->base.memory, td_span_part(batch->pitch, item * bytes, bytes),
                                  (td_point){0}, w->pitch));
        for (uint32_t i = 0; i < w->frames; i++)
            w->pitch[i] = limit_pitch(w->pitch[i]);
    } else {
        TD_CHECK(tell_pitch(w));
    }
    w->turns[0] = 0;
    for (uint32_t i = 1; i < w->frames; i++)
        w->turns[i] = w->turns[i - 1] + turns_between(w, (int64_t)i - 1);
    return TD_OK;
}

/* What excites the frames from `start` on, of which there are `count`. */
static td_status excite(item_work *w, uint32_t first, int64_t start, uint32_t count)
{
    neural *v = w->v;
    const float phase = (float)turns_at(w, start);
    for (uint32_t i = 0; i < count; i++)
        w->room[i] = pitch_at(w, start + i);
    TD_CHECK(fill(&v->wave, "pitch", w->room));
    TD_CHECK(fill(&v->wave, "phase", &phase));
    for (uint64_t i = 0; i < (uint64_t)(count - 1) * v->c.hop; i++)
        w->room[i] = td_rng_normal(w->seed, w->stream, (uint64_t)first * v->c.hop + i);
    return fill(&v->wave, "noise", w->room);
}

/* Samples of the frames first .. first + PIECE, to w->room; *samples is where they begin. */
static td_status make_piece(item_work *w, uint32_t first, const float **samples)
{
    neural *v = w->v;
    const uint32_t around = v->around, count = PIECE + 2 * around + 1;
    const int64_t start = (int64_t)first - around;
    cut_mel(w, start, count, w->room);
    TD_CHECK(fill(&v->wave, "mel", w->room));
    if (follows_pitch(v)) TD_CHECK(excite(w, first, start, count));
    TD_CHECK(run(&v->wave, "wave", w->room));
    *samples = w->room + (size_t)around * v->c.hop;
    return TD_OK;
}

static td_status make_item(item_work *w, const td_vocoder_batch *batch, uint32_t item, float *to)
{
    const uint32_t hop = w->v->c.hop;
    if (follows_pitch(w->v)) TD_CHECK(find_pitch(w, batch, item));
    for (uint32_t first = 0; first + 1 < w->frames; first += PIECE) {
        const uint32_t left = w->frames - 1 - first, count = (left < PIECE ? left : PIECE) * hop;
        const float *samples;
        TD_CHECK(make_piece(w, first, &samples));
        memcpy(to + (size_t)first * hop, samples, count * sizeof *to);
        if (batch->emit) TD_CHECK(batch->emit(batch->context, item, to + (size_t)first * hop, count));
    }
    return TD_OK;
}

/* ---------------------------------------------------------------- a batch */

static td_status open_item(neural *v, const td_vocoder_batch *batch, item_work *w)
{
    const uint32_t frames = PIECE + 2 * v->around + 1, pitch_frames = PITCH_PIECE + 2 * v->pitch_around;
    const size_t hop_or_bands = v->c.hop > v->c.n_mels ? v->c.hop : v->c.n_mels;
    *w = (item_work){.v = v, .seed = batch->seed};
    TD_CHECK(TD_NEW_ARRAY(&w->pitch, batch->max_frames + 1));
    TD_CHECK(TD_NEW_ARRAY(&w->turns, batch->max_frames + 1));
    return TD_NEW_ARRAY(&w->room, hop_or_bands * (frames > pitch_frames ? frames : pitch_frames));
}

static td_status run_neural(td_vocoder *vocoder, const td_vocoder_batch *batch, float **samples,
                            size_t *firsts)
{
    neural *v = (neural *)vocoder;
    const size_t row = (size_t)batch->max_frames * v->c.n_mels;
    float *mel = NULL;
    item_work w = {0};
    td_status status = TD_OK;
    *samples = NULL;
    firsts[0] = 0;
    for (uint32_t i = 0; i < batch->items; i++) {
        const bool is_made = i >= batch->first && i - batch->first < batch->count && batch->frames[i] > 1;
        firsts[i + 1] = firsts[i] + (is_made ? (size_t)(batch->frames[i] - 1) * v->c.hop : 0);
    }
    TD_TRY(TD_NEW_ARRAY(samples, firsts[batch->items] + 1));
    TD_TRY(TD_NEW_ARRAY(&mel, row + 1));
    TD_TRY(open_item(v, batch, &w));
    for (uint32_t i = batch->first; i < batch->first + batch->count; i++) {
        if (batch->frames[i] < 2) continue;
        TD_TRY(td_blocking_read(v->base.memory,
                                td_span_part(batch->mel, UINT64_C(4) * i * row, UINT64_C(4) * row),
                                (td_point){0}, mel));
        w.mel = mel;
        w.frames = batch->frames[i];
        w.stream = NOISE_STREAM + i;
        TD_TRY(make_item(&w, batch, i, *samples + firsts[i]));
    }
fail:
    free(mel);
    free(w.pitch);
    free(w.turns);
    free(w.room);
    if (status != TD_OK) {
        free(*samples);
        *samples = NULL;
    }
    return status;
}

static uint32_t count_around(const td_vocoder_values *c)
{
    return 2 * td_vocoder_margin(c) + td_vocoder_reach(c);
}

uint32_t td_vocoder_piece_frames(const td_vocoder_values *c)
{
    return PIECE + 2 * count_around(c) + 1;
}

static td_status open_neural(td_memory *memory, td_store *store, const td_model_config *model,
                             const td_mel *mel, td_vocoder **out)
{
    neural *v = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(TD_NEW(&v));
    *v = (neural){.base = {.run = run_neural, .destroy = destroy_neural, .mel = mel, .memory = memory},
                  .store = store,
                  .c = td_vocoder_get(model)};
    v->around = count_around(&v->c);
    if (follows_pitch(v)) {
        v->pitch_around = td_vocoder_pitch_reach(&v->c);
        TD_TRY(td_vocoder_pitch_graph(model, PITCH_PIECE + 2 * v->pitch_around, &v->pitch.graph));
        TD_TRY(make_plan(store, &v->pitch));
    }
    TD_TRY(td_vocoder_wave_graph(model, td_vocoder_piece_frames(&v->c), &v->wave.graph));
    TD_TRY(make_plan(store, &v->wave));
    *out = &v->base;
    return TD_OK;
fail:
    if (v) destroy_neural(&v->base);
    return status;
}
