/* See engine.h: from latents to samples. A latent stands for a few frames of the vocoder, between which it is
 * interpolated; a frame's samples depend on the frames near it alone, so any part of a signal can be made by itself. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "families/xtts/engine_internal.h"
#include "families/xtts/layers.h"

#define ROUND_FRAMES 32u
#define MOST_FRAMES 256u /* of one run: what a longer signal takes is bounded by it */
#define LEAST_SPEED 0.05

/* ---------------------------------------------------------------- interpolation */

static td_stretch make_stretch(const td_xtts *c, size_t n, double speed)
{
    double factors[TD_STRETCH_STAGES];
    td_xtts_stretch(c, speed, factors);
    return td_stretch_make(n, c->gpt_n_model_channels, factors);
}

void td_xtts_stretch(const td_xtts *c, double speed, double factors[TD_STRETCH_STAGES])
{
    factors[0] = 1 / fmax(speed, LEAST_SPEED);
    factors[1] = (double)c->gpt_code_stride_len / c->output_hop_length;
    factors[2] = (double)c->output_sample_rate / c->input_sample_rate;
}

size_t td_xtts_samples(const td_xtts *c, size_t n, double speed)
{
    return make_stretch(c, n, speed).counts[TD_STRETCH_STAGES] * c->output_hop_length;
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

/* Begins to run the vocoder over frames first .. end - 1. */
static td_status begin_window(td_xtts_engine *e, const td_stretch *s, const td_xtts_sounding *sounding,
                              size_t first, size_t end)
{
    const size_t n = end - first;
    td_xtts_plan *plan;
    TD_CHECK(td_alloc_grow(&e->frames, &e->frames_capacity, n * s->width, sizeof *e->frames));
    for (size_t i = 0; i < n; i++)
        td_stretch_row(s, sounding->latents, first + i, e->frames + i * s->width);
    TD_CHECK(td_xtts_plans_find(&e->decoder_plans, td_xtts_vocoder_graph, (uint32_t)n, &plan));
    TD_CHECK(td_xtts_plan_fill(plan, "frames", e->frames));
    TD_CHECK(td_xtts_plan_fill(plan, "speaker_embedding", sounding->embedding));
    TD_CHECK(td_plan_run(plan->plan, &(td_run){0}, &e->sounding.made));
    e->sounding.plan = plan;
    return TD_OK;
}

bool td_xtts_overlaps(const td_xtts_engine *engine)
{
    return td_memory_device(engine->gpt_memory) != td_memory_device(engine->decoder_memory);
}

td_status td_xtts_sound_begin(td_xtts_engine *engine, const td_xtts_sounding *sounding, size_t first,
                              size_t *count)
{
    const size_t hop = engine->c.output_hop_length, last = first + *count;
    const size_t core = MOST_FRAMES - 2 * td_xtts_vocoder_reach(&engine->c);
    const size_t from = first / hop, to = (last + hop - 1) / hop;
    const td_stretch s = make_stretch(&engine->c, sounding->n, sounding->speed);
    size_t begin = from, end = to < from + core ? to : from + core;
    TD_REFUSE_IF(engine->sounding.plan, TD_ERR_ARGUMENT, "the vocoder has not ended yet what it began");
    TD_REFUSE_IF(last > s.counts[TD_STRETCH_STAGES] * hop, TD_ERR_ARGUMENT, "samples up to %zu of %zu", last,
                 s.counts[TD_STRETCH_STAGES] * hop);
    const size_t stop = end * hop < last ? end * hop : last;
    widen(&engine->c, s.counts[TD_STRETCH_STAGES], &begin, &end);
    TD_CHECK(begin_window(engine, &s, sounding, begin, end));
    engine->sounding.skipped = first - begin * hop;
    *count = engine->sounding.count = stop - first;
    return TD_OK;
}

td_status td_xtts_sound_poll(const td_xtts_engine *engine, bool *is_made)
{
    *is_made = true;
    return engine->sounding.plan ? td_point_poll(engine->sounding.made, is_made) : TD_OK;
}

/* When the device worked at the run: from its first point to its last. */
static td_times find_times(const td_xtts_plan *plan, td_point made)
{
    td_times begun, ended;
    if (td_point_times(td_plan_points(plan->plan)[0], &begun) != TD_OK ||
        td_point_times(made, &ended) != TD_OK)
        return (td_times){0};
    begun.finished_ns = ended.finished_ns;
    return begun;
}

td_status td_xtts_sound_end(td_xtts_engine *engine, float *out, td_times *times)
{
    td_xtts_plan *plan = engine->sounding.plan;
    *times = (td_times){0};
    TD_REFUSE_IF(!plan, TD_ERR_ARGUMENT, "the vocoder has begun nothing");
    engine->sounding.plan = NULL;
    TD_CHECK(td_alloc_grow(&engine->wave, &engine->wave_capacity,
                           (size_t)plan->size * engine->c.output_hop_length, sizeof *engine->wave));
    TD_CHECK(td_xtts_plan_read(plan, "wave", engine->wave));
    *times = find_times(plan, engine->sounding.made);
    memcpy(out, engine->wave + engine->sounding.skipped, engine->sounding.count * sizeof *out);
    return TD_OK;
}

void td_xtts_sound_drop(td_xtts_engine *engine)
{
    if (engine->sounding.plan) (void)td_point_wait(engine->sounding.made, TD_WAIT_FOREVER);
    engine->sounding.plan = NULL;
}

td_status td_xtts_sound(td_xtts_engine *engine, const td_xtts_sounding *sounding, size_t first, size_t count,
                        float *out)
{
    td_times times;
    while (count > 0) {
        size_t made = count;
        TD_CHECK(td_xtts_sound_begin(engine, sounding, first, &made));
        TD_CHECK(td_xtts_sound_end(engine, out, &times));
        out += made;
        first += made;
        count -= made;
    }
    return TD_OK;
}
