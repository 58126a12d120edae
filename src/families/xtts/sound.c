/* See engine.h: from latents to samples. A latent stands for a few frames of the vocoder, between which it is
 * interpolated; a frame's samples depend on the frames near it alone, so any part of a signal can be made by itself. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "families/xtts/engine_internal.h"
#include "families/xtts/layers.h"

#define ROUND_FRAMES 32u
#define MOST_FRAMES 320u /* of one run: what a longer signal takes is bounded by it */
#define LEAST_SPEED 0.05

/* ---------------------------------------------------------------- interpolation */

enum { STAGES = 3 };

/* Each stage stretches rows in time. */
typedef struct stretch {
    const float *rows; /* [counts[0], width] */
    size_t width;
    double factors[STAGES];
    size_t counts[STAGES + 1]; /* rows before each stage, and behind the last */
    float *scratch;            /* [STAGES, 2, width] */
} stretch;

static stretch make_stretch(const td_xtts *c, size_t n, double speed)
{
    stretch s = {.width = c->gpt_n_model_channels, .counts = {n}};
    s.factors[0] = 1 / fmax(speed, LEAST_SPEED);
    s.factors[1] = (double)c->gpt_code_stride_len / c->output_hop_length;
    s.factors[2] = (double)c->output_sample_rate / c->input_sample_rate;
    for (size_t i = 0; i < STAGES; i++)
        s.counts[i + 1] = (size_t)floor((double)s.counts[i] * s.factors[i]);
    return s;
}

/* Row `at` behind `stages` stages. */
static void make_row(const stretch *s, size_t stages, size_t at, float *out)
{
    if (stages == 0) {
        memcpy(out, s->rows + at * s->width, s->width * sizeof *out);
        return;
    }
    const double factor = s->factors[stages - 1];
    if (factor == 1) {
        make_row(s, stages - 1, at, out);
        return;
    }
    const double from = fmax(0, ((double)at + 0.5) / factor - 0.5);
    const size_t low = (size_t)from, last = s->counts[stages - 1] - 1, high = low < last ? low + 1 : last;
    const float share = (float)(from - (double)low);
    float *a = s->scratch + (stages - 1) * 2 * s->width, *b = a + s->width;
    make_row(s, stages - 1, low, a);
    make_row(s, stages - 1, high, b);
    for (size_t i = 0; i < s->width; i++)
        out[i] = (1 - share) * a[i] + share * b[i];
}

size_t td_xtts_samples(const td_xtts *c, size_t n, double speed)
{
    return make_stretch(c, n, speed).counts[STAGES] * c->output_hop_length;
}

/* ---------------------------------------------------------------- windows */

/* Frames to run so that frames first .. end - 1 come out as if all were run: what they depend on, then as many more as
 * make the sizes of plans few. */
static void widen(const td_xtts *c, size_t all, size_t *first, size_t *end)
{
    const size_t reach = td_xtts_vocoder_reach(c);
    *first = *first > reach ? *first - reach : 0;
    *end = *end + reach < all ? *end + reach : all;
    const size_t size = td_round_up(*end - *first, ROUND_FRAMES);
    if (size >= all) {
        *first = 0;
        *end = all;
    } else if (*end >= size) {
        *first = *end - size;
    } else {
        *first = 0;
        *end = size;
    }
}

/* Runs the vocoder over frames first .. end - 1, into engine->wave. */
static td_status run_window(td_xtts_engine *e, const stretch *s, const float *embedding, size_t first,
                            size_t end)
{
    const size_t n = end - first, hop = e->c.output_hop_length;
    td_xtts_plan *plan;
    td_status status = TD_OK;
    TD_TRY(td_alloc_grow(&e->frames, &e->frames_capacity, n * s->width, sizeof *e->frames));
    TD_TRY(td_alloc_grow(&e->wave, &e->wave_capacity, n * hop, sizeof *e->wave));
    for (size_t i = 0; i < n; i++)
        make_row(s, STAGES, first + i, e->frames + i * s->width);
    TD_TRY(td_xtts_plans_find(&e->decoder_plans, td_xtts_vocoder_graph, (uint32_t)n, &plan));
    TD_TRY(td_xtts_plan_fill(plan, "frames", e->frames));
    TD_TRY(td_xtts_plan_fill(plan, "speaker_embedding", embedding));
    TD_TRY(td_xtts_plan_run(plan));
    TD_TRY(td_xtts_plan_read(plan, "wave", e->wave));
fail:
    return status;
}

td_status td_xtts_sound(td_xtts_engine *engine, const td_xtts_sounding *sounding, size_t first, size_t count,
                        float *out)
{
    const size_t hop = engine->c.output_hop_length, last = first + count;
    const size_t core = MOST_FRAMES - 2 * td_xtts_vocoder_reach(&engine->c);
    stretch s = make_stretch(&engine->c, sounding->n, sounding->speed);
    td_status status = TD_OK;
    s.rows = sounding->latents;
    TD_FAIL_IF(last > s.counts[STAGES] * hop, TD_ERR_ARGUMENT, "samples up to %zu of %zu", last,
               s.counts[STAGES] * hop);
    TD_TRY(TD_NEW_ARRAY(&s.scratch, (size_t)2 * STAGES * s.width));
    while (first < last) {
        const size_t from = first / hop, to = (last + hop - 1) / hop;
        size_t begin = from, end = to < from + core ? to : from + core;
        const size_t stop = end * hop < last ? end * hop : last;
        widen(&engine->c, s.counts[STAGES], &begin, &end);
        TD_TRY(run_window(engine, &s, sounding->embedding, begin, end));
        memcpy(out, engine->wave + (first - begin * hop), (stop - first) * sizeof *out);
        out += stop - first;
        first = stop;
    }
fail:
    free(s.scratch);
    return status;
}
