/* Griffin-Lim of mel.h: magnitudes from the mel spectrogram once, then by turns frames with the phases of the
 * signal so far and the signal of those frames. Covered by tests/audio/test_griffin_lim.c. */
#include "audio/mel_internal.h"
#include "base/error.h"
#include "kernels/audio_geometry.h"
#include "ops/rows.h"

#define USUAL_ITERATIONS 60u
#define MEL_UPDATES 16u                   /* of the magnitudes */
#define MOMENTUM (0.99f / 1.99f)          /* 0.99 of the paper, for a step relative to the last projection */
#define ALIGN_WORDS (TD_OFFSET_ALIGN / 4) /* of a part of the workspace */

typedef struct parts {
    uint64_t magnitudes, before, frames, total; /* where each begins, in words */
} parts;

static parts cut_workspace(const td_mel *mel, td_kernel_class kernel_class, uint32_t items,
                           uint32_t max_frames)
{
    const uint64_t rows =
        (uint64_t)items * td_mel_blocks(kernel_class, max_frames) * td_mel_block(kernel_class);
    const uint64_t spectrum = rows * (mel->config.n_fft / 2 + 1);
    parts p = {.magnitudes = 0};
    p.before = td_round_up(spectrum, ALIGN_WORDS);
    p.frames = p.before + td_round_up(2 * spectrum, ALIGN_WORDS);
    p.total = p.frames + (uint64_t)items * max_frames * mel->config.n_fft;
    return p;
}

uint64_t td_griffin_lim_workspace(const td_mel *mel, td_kernel_class kernel_class, uint32_t items,
                                  uint32_t max_frames)
{
    return cut_workspace(mel, kernel_class, items, max_frames).total;
}

typedef struct run {
    const td_mel *mel;
    td_list *list;
    const td_griffin_lim_args *args;
    td_grid grid;
    td_span magnitudes, before, frames;
} run;

static td_status record_magnitudes(const run *r)
{
    const td_mel_config *c = &r->mel->config;
    const td_griffin_lim_args *a = r->args;
    const td_unmel_params params = {.items = a->items,
                                    .max_frames = a->max_frames,
                                    .bands = c->n_mels,
                                    .shares = r->mel->mel.shares,
                                    .updates = MEL_UPDATES,
                                    .power = c->power,
                                    .mean = c->mean,
                                    .scale = c->scale};
    const td_span spans[] = {a->mel, a->ranges, r->mel->mel.floats, r->mel->mel.words, r->magnitudes};
    const td_cost cost = {.flops = 4.0 * MEL_UPDATES * c->n_fft * a->items * a->max_frames};
    return td_list_dispatch(r->list, td_mel_kernel(r->mel, TD_K_unmel_512, TD_K_unmel_1024, TD_K_unmel_2048),
                            spans, &params, r->grid, cost);
}

/* The phases to begin with: words into the first half of `before`. */
static td_status record_draw(const run *r)
{
    const uint64_t seed = r->args->seed;
    const uint32_t n = (uint32_t)(r->before.bytes / 8);
    const td_random_params params = {.n = n, .seed_lo = (uint32_t)seed, .seed_hi = (uint32_t)(seed >> 32)};
    return td_list_dispatch(r->list, TD_K_random, &r->before, &params,
                            td_grid_elements(td_list_class(r->list), (n + 3) / 4),
                            (td_cost){.bytes = 4.0 * n});
}

static td_status record_frames(const run *r, bool is_first)
{
    const td_mel_config *c = &r->mel->config;
    const td_griffin_lim_args *a = r->args;
    const td_griffin_params params = {.items = a->items,
                                      .max_frames = a->max_frames,
                                      .hop = c->hop_samples,
                                      .is_first = is_first,
                                      .momentum = MOMENTUM};
    const td_span spans[] = {a->samples,    a->ranges, r->mel->mel.floats, r->mel->mel.words,
                             r->magnitudes, r->before, r->frames};
    const td_cost cost = {.flops = 2 * td_mel_flops(r->mel, a->items, a->max_frames),
                          .bytes = 18.0 * c->n_fft * a->items * a->max_frames};
    return td_list_dispatch(r->list,
                            td_mel_kernel(r->mel, TD_K_griffin_512, TD_K_griffin_1024, TD_K_griffin_2048),
                            spans, &params, r->grid, cost);
}

static td_status record_signal(const run *r)
{
    const td_mel_config *c = &r->mel->config;
    const td_griffin_lim_args *a = r->args;
    const td_overlap_add_params params = {.items = a->items,
                                          .max_frames = a->max_frames,
                                          .hop = c->hop_samples,
                                          .size = c->n_fft,
                                          .segments = a->max_frames + c->n_fft / 2 / c->hop_samples,
                                          .before = c->n_fft / 2,
                                          .divides = 1,
                                          .least = 1e-8f};
    const td_span spans[] = {r->frames, a->ranges, r->mel->mel.floats, a->samples};
    const td_cost cost = {.bytes = 4.0 * (c->n_fft + c->hop_samples) * a->items * a->max_frames};
    return td_list_dispatch(r->list, TD_K_overlap_add, spans, &params,
                            td_grid_groups((uint64_t)params.items * params.segments), cost);
}

td_status td_griffin_lim_record(const td_mel *mel, td_list *list, const td_griffin_lim_args *a)
{
    const td_kernel_class kernel_class = td_list_class(list);
    const parts p = cut_workspace(mel, kernel_class, a->items, a->max_frames);
    const uint32_t iterations = a->iterations ? a->iterations : USUAL_ITERATIONS;
    TD_CHECK(td_op_check_size(p.total, 1, 1, "griffin_lim"));
    TD_CHECK(td_op_check_size(a->items, a->max_frames, mel->config.n_fft, "griffin_lim"));
    TD_CHECK(td_op_check_span(a->mel, (uint64_t)a->items * a->max_frames * mel->config.n_mels, "griffin_lim",
                              "mel"));
    TD_CHECK(td_op_check_span(a->ranges, 2 * (uint64_t)a->items, "griffin_lim", "ranges"));
    TD_CHECK(td_op_check_span(a->samples, 1, "griffin_lim", "samples"));
    TD_CHECK(td_op_check_span(a->workspace, p.total, "griffin_lim", "workspace"));
    const run r = {
        .mel = mel,
        .list = list,
        .args = a,
        .grid = td_grid_groups((uint64_t)a->items * td_mel_blocks(kernel_class, a->max_frames)),
        .magnitudes = td_span_part(a->workspace, 4 * p.magnitudes, 4 * p.before),
        .before = td_span_part(a->workspace, 4 * p.before, 4 * (p.frames - p.before)),
        .frames = td_span_part(a->workspace, 4 * p.frames, 4 * (p.total - p.frames)),
    };
    TD_CHECK(record_magnitudes(&r));
    TD_CHECK(record_draw(&r));
    for (uint32_t i = 0; i <= iterations; i++) {
        TD_CHECK(record_frames(&r, i == 0));
        TD_CHECK(record_signal(&r));
    }
    return TD_OK;
}
