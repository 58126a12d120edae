/* See stft.h. With W the window, P cutting frames, F the transform of a frame and E the division by the sum of
 * windows squared: the transform is F W P, its adjoint P^T W F^T. The inverse transform is E P^T W G with G the
 * inverse of F, its adjoint G^T W P E. F^T and G differ in the weights of bins alone, as do F and G^T:
 * 1 and 1 against 1 / n_fft at both ends and 2 / n_fft between. */
#include "ops/stft.h"

#include <math.h>
#include <string.h>

#include "kernels/audio_geometry.h"
#include "ops/rows.h"

#define PI 3.14159265358979323846
#define LEAST_POWER 1e-3f /* of windows, where a signal is divided by it */

/* ---------------------------------------------------------------- constants */

/* A value as float, and in *low (unless NULL) what is left of it. */
static void put(double value, float *high, float *low)
{
    *high = (float)value;
    if (low) *low = (float)(value - (double)*high);
}

double td_fft_window(float *out, float *lows, uint32_t size, uint32_t win)
{
    const uint32_t first = (size - win) / 2;
    double power = 0;
    for (uint32_t n = 0; n < win; n++) {
        const double w = 0.5 - 0.5 * cos(2 * PI * n / win);
        put(w, &out[first + n], lows ? &lows[first + n] : NULL);
        power += w * w;
    }
    return power;
}

/* Zeros are only zero to within the rounding of double, 1e-16, which is harmless. */
void td_fft_roots(float *out, float *lows, uint32_t size)
{
    for (uint32_t k = 0; k < size; k++) {
        put(cos(2 * PI * k / size), &out[k], lows ? &lows[k] : NULL);
        put(-sin(2 * PI * k / size), &out[size + k], lows ? &lows[size + k] : NULL);
    }
}

void td_fft_order(uint32_t *out, uint32_t count)
{
    for (uint32_t k = 0; k < count; k++) {
        uint32_t reversed = 0;
        for (uint32_t bit = 1; bit < count; bit *= 2)
            reversed = 2 * reversed + ((k & bit) != 0);
        out[k] = reversed;
    }
}

/* Window, roots, and the words of the order: each begins where a binding may. */
uint64_t td_stft_table_words(uint32_t n_fft)
{
    return (uint64_t)3 * n_fft + n_fft / 2;
}

void td_stft_table(uint32_t n_fft, uint32_t win, float *out)
{
    memset(out, 0, n_fft * sizeof *out);
    td_fft_window(out, NULL, n_fft, win);
    td_fft_roots(out + n_fft, NULL, n_fft);
    td_fft_order((uint32_t *)(void *)(out + (size_t)3 * n_fft), n_fft / 2);
}

/* ---------------------------------------------------------------- launches */

uint32_t td_stft_frames(const td_stft *stft, uint32_t samples)
{
    return samples < stft->n_fft ? 0 : 1 + (samples - stft->n_fft) / stft->hop;
}

td_status td_stft_check(const td_stft *s)
{
    TD_REFUSE_IF(s->n_fft != 512 && s->n_fft != 1024 && s->n_fft != 2048, TD_ERR_ARGUMENT,
                 "stft: transforms of %u samples; there are 512, 1024 and 2048", s->n_fft);
    TD_REFUSE_IF(s->hop == 0 || s->hop > s->n_fft, TD_ERR_ARGUMENT, "stft: a hop of %u; from 1 to %u", s->hop,
                 s->n_fft);
    TD_REFUSE_IF(s->win < 2 || s->win > s->n_fft, TD_ERR_ARGUMENT, "stft: a window of %u; from 2 to %u",
                 s->win, s->n_fft);
    TD_REFUSE_IF(s->frames == 0 || s->frames != td_stft_frames(s, s->samples), TD_ERR_ARGUMENT,
                 "stft: %u samples have %u frames, not %u", s->samples, td_stft_frames(s, s->samples),
                 s->frames);
    TD_CHECK(td_op_check_size(s->items, s->samples, 1, "stft"));
    return td_op_check_size(s->items, s->frames, s->n_fft + 2, "stft");
}

uint64_t td_stft_workspace(const td_stft *s, bool to_signal)
{
    if (to_signal) return (uint64_t)s->items * s->frames * s->n_fft;
    return s->inverse ? (uint64_t)s->items * s->samples : 0;
}

static td_status check_args(const td_stft_args *a, bool to_signal)
{
    const td_stft *s = &a->stft;
    TD_CHECK(td_stft_check(s));
    TD_CHECK(td_op_check_span(a->signal, (uint64_t)s->items * s->samples, "stft", "the signal"));
    TD_CHECK(td_op_check_span(a->spectrum, (uint64_t)s->items * s->frames * (s->n_fft + 2), "stft",
                              "the spectrum"));
    TD_CHECK(td_op_check_span(a->table, td_stft_table_words(s->n_fft), "stft", "the table"));
    if (td_stft_workspace(s, to_signal))
        TD_CHECK(td_op_check_span(a->workspace, td_stft_workspace(s, to_signal), "stft", "the workspace"));
    return TD_OK;
}

static td_span words_of(const td_stft_args *a)
{
    const uint64_t n = a->stft.n_fft;
    return td_span_part(a->table, 12 * n, 2 * n);
}

static td_span floats_of(const td_stft_args *a)
{
    return td_span_part(a->table, 0, UINT64_C(4) * 3 * a->stft.n_fft);
}

static td_grid frame_grid(const td_list *list, const td_stft *s)
{
    const uint32_t block = td_list_class(list) == TD_CLASS_GPU ? TD_FRAME_BLOCK_GPU : TD_FRAME_BLOCK_CPU;
    return td_grid_groups((uint64_t)s->items * td_divide_up(s->frames, block));
}

static td_cost frame_cost(const td_stft *s)
{
    const double frames = (double)s->items * s->frames;
    return (td_cost){.flops = frames * 2.5 * s->n_fft * log2(s->n_fft), .bytes = frames * 8.0 * s->n_fft};
}

static float inner_of(const td_stft *s)
{
    return s->inverse ? 2.0f / (float)s->n_fft : 1;
}

static float edge_of(const td_stft *s)
{
    return s->inverse ? 1.0f / (float)s->n_fft : 1;
}

/* Frames to signals; with is_signal, signals over the sum of their windows squared. */
static td_status overlap(td_list *list, const td_stft_args *a, td_span from, td_span to, bool is_signal)
{
    const td_stft *s = &a->stft;
    const td_overlap_add_params params = {.items = s->items,
                                          .max_frames = s->frames,
                                          .hop = s->hop,
                                          .size = s->n_fft,
                                          .segments = td_divide_up(s->samples, s->hop),
                                          .samples = s->samples,
                                          .is_signal = is_signal,
                                          .divides = s->inverse,
                                          .least = LEAST_POWER};
    const td_span spans[] = {from, words_of(a), td_span_part(a->table, 0, UINT64_C(4) * s->n_fft), to};
    const td_cost cost = {.bytes = 4.0 * s->items * ((double)s->frames * s->n_fft + s->samples)};
    return td_list_dispatch(list, TD_K_overlap_add, spans, &params,
                            td_grid_groups((uint64_t)params.items * params.segments), cost);
}

td_status td_op_stft(td_list *list, const td_stft_args *a)
{
    const td_stft *s = &a->stft;
    TD_CHECK(check_args(a, false));
    const td_kernel_id kernel = s->n_fft == 512    ? TD_K_stft_512
                                : s->n_fft == 1024 ? TD_K_stft_1024
                                                   : TD_K_stft_2048;
    td_span signal = a->signal;
    if (s->inverse) {
        signal = td_span_part(a->workspace, 0, UINT64_C(4) * s->items * s->samples);
        TD_CHECK(overlap(list, a, a->signal, signal, true));
    }
    const td_stft_params params = {.items = s->items,
                                   .max_frames = s->frames,
                                   .hop = s->hop,
                                   .samples = s->samples,
                                   .inner = inner_of(s),
                                   .edge = edge_of(s)};
    return td_list_dispatch(list, kernel, (td_span[]){signal, floats_of(a), words_of(a), a->spectrum},
                            &params, frame_grid(list, s), frame_cost(s));
}

td_status td_op_istft(td_list *list, const td_stft_args *a)
{
    const td_stft *s = &a->stft;
    TD_CHECK(check_args(a, true));
    const td_kernel_id kernel = s->n_fft == 512    ? TD_K_istft_512
                                : s->n_fft == 1024 ? TD_K_istft_1024
                                                   : TD_K_istft_2048;
    const td_span frames = td_span_part(a->workspace, 0, UINT64_C(4) * s->items * s->frames * s->n_fft);
    const td_istft_params params = {
        .items = s->items, .max_frames = s->frames, .inner = inner_of(s), .edge = edge_of(s)};
    TD_CHECK(td_list_dispatch(list, kernel, (td_span[]){a->spectrum, floats_of(a), words_of(a), frames},
                              &params, frame_grid(list, s), frame_cost(s)));
    return overlap(list, a, frames, a->signal, false);
}
