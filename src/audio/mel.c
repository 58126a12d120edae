/* See mel.h. */
#include "audio/mel.h"

#include <math.h>
#include <stdlib.h>

#include "audio/mel_internal.h"
#include "audio/mel_tables.h"
#include "base/error.h"
#include "device/blocking.h"
#include "kernels/audio_geometry.h"
#include "ops/rows.h"

#define VOICED 0.45f           /* of a frame's power that its best lag must hold */
#define LEAST_MEAN_SQUARE 1e-8 /* of what counts as more than silence: -80 dB */

/* ---------------------------------------------------------------- tables */

static td_status place_tables(td_memory *memory, const td_mel_tables *tables, td_mel_constants *out)
{
    const uint64_t float_bytes = 4 * (uint64_t)tables->n_floats;
    const uint64_t word_bytes = 4 * (uint64_t)tables->n_words;
    TD_CHECK(td_memory_alloc(memory, TD_MEMORY_DEVICE, float_bytes, &out->floats));
    TD_CHECK(td_memory_alloc(memory, TD_MEMORY_DEVICE, word_bytes, &out->words));
    TD_CHECK(td_blocking_write(memory, td_span_part(out->floats, 0, float_bytes), tables->floats));
    TD_CHECK(td_blocking_write(memory, td_span_part(out->words, 0, word_bytes), tables->words));
    out->shares = tables->shares;
    out->window_power = tables->window_power;
    return TD_OK;
}

td_status td_mel_create(td_memory *memory, const td_mel_config *config, td_mel **out)
{
    td_mel_tables tables = {0};
    td_mel *mel = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(td_mel_config_check(config));
    TD_TRY(TD_NEW(&mel));
    mel->config = *config;
    mel->memory = memory;
    TD_TRY(td_mel_tables_make(config, &tables));
    TD_TRY(place_tables(memory, &tables, &mel->mel));
    td_mel_tables_free(&tables);
    TD_TRY(td_pitch_tables_make(config, &tables));
    TD_TRY(place_tables(memory, &tables, &mel->pitch));
    *out = mel;
    mel = NULL;
fail:
    td_mel_tables_free(&tables);
    td_mel_destroy(mel);
    return status;
}

void td_mel_destroy(td_mel *mel)
{
    if (!mel) return;
    td_memory_free(mel->memory, mel->mel.floats);
    td_memory_free(mel->memory, mel->mel.words);
    td_memory_free(mel->memory, mel->pitch.floats);
    td_memory_free(mel->memory, mel->pitch.words);
    free(mel);
}

const td_mel_config *td_mel_get_config(const td_mel *mel)
{
    return &mel->config;
}

/* ---------------------------------------------------------------- frames */

uint32_t td_mel_block(td_kernel_class kernel_class)
{
    return kernel_class == TD_CLASS_GPU ? TD_FRAME_BLOCK_GPU : TD_FRAME_BLOCK_CPU;
}

uint32_t td_mel_blocks(td_kernel_class kernel_class, uint32_t max_frames)
{
    return td_divide_up(max_frames, td_mel_block(kernel_class));
}

td_kernel_id td_mel_kernel(const td_mel *mel, td_kernel_id of_512, td_kernel_id of_1024, td_kernel_id of_2048)
{
    return mel->config.n_fft == 512 ? of_512 : mel->config.n_fft == 1024 ? of_1024 : of_2048;
}

double td_mel_flops(const td_mel *mel, uint32_t items, uint32_t max_frames)
{
    return 2.5 * mel->config.n_fft * log2(mel->config.n_fft) * items * max_frames;
}

/* ---------------------------------------------------------------- launches */

static td_status record_mel(const td_mel *mel, td_list *list, const td_mel_args *a, td_grid grid)
{
    const td_mel_config *c = &mel->config;
    const uint64_t frames = (uint64_t)a->items * a->max_frames;
    const bool has_energy = td_op_given(a->energy);
    if (has_energy) TD_CHECK(td_op_check_span(a->energy, frames, "mel", "energy"));
    const td_mel_params params = {.items = a->items,
                                  .max_frames = a->max_frames,
                                  .hop = c->hop_samples,
                                  .bands = c->n_mels,
                                  .power = c->power,
                                  .has_energy = has_energy,
                                  .least = c->floor,
                                  .mean = c->mean,
                                  .one_over_scale = 1 / c->scale,
                                  .pad = td_mel_pad_value(c),
                                  .energy_scale = (float)(1 / mel->mel.window_power)};
    const td_span spans[] = {a->pcm,         a->ranges, mel->mel.floats,
                             mel->mel.words, a->mel,    td_op_or(a->energy, a->mel)};
    const td_cost cost = {.flops = td_mel_flops(mel, a->items, a->max_frames),
                          .bytes = 4.0 * (double)frames * (c->hop_samples + c->n_mels)};
    return td_list_dispatch(list, td_mel_kernel(mel, TD_K_mel_512, TD_K_mel_1024, TD_K_mel_2048), spans,
                            &params, grid, cost);
}

static td_status record_pitch(const td_mel *mel, td_list *list, const td_mel_args *a, td_grid grid)
{
    const td_mel_config *c = &mel->config;
    const double size = 1u << TD_PITCH_LOG2;
    TD_CHECK(td_op_check_span(a->pitch, (uint64_t)a->items * a->max_frames, "mel", "pitch"));
    const td_pitch_params params = {.items = a->items,
                                    .max_frames = a->max_frames,
                                    .hop = c->hop_samples,
                                    .first_lag = (uint32_t)((float)c->rate / c->pitch_max_hz),
                                    .last_lag = (uint32_t)((float)c->rate / c->pitch_min_hz) + 1,
                                    .rate = (float)c->rate,
                                    .voiced = VOICED,
                                    .least = (float)(LEAST_MEAN_SQUARE * size * mel->pitch.window_power)};
    const td_span spans[] = {a->pcm, a->ranges, mel->pitch.floats, mel->pitch.words, a->pitch};
    const td_cost cost = {.flops = 5 * size * TD_PITCH_LOG2 * a->items * a->max_frames};
    return td_list_dispatch(list, TD_K_pitch, spans, &params, grid, cost);
}

td_status td_mel_record(const td_mel *mel, td_list *list, const td_mel_args *a)
{
    const uint32_t blocks = td_mel_blocks(td_list_class(list), a->max_frames);
    const td_grid grid = td_grid_groups((uint64_t)a->items * blocks);
    TD_CHECK(td_op_check_size(a->items, a->max_frames, mel->config.n_mels, "mel"));
    TD_CHECK(td_op_check_size(a->max_frames, mel->config.hop_samples, 1, "mel"));
    TD_CHECK(td_op_check_span(a->pcm, 1, "mel", "pcm"));
    TD_CHECK(td_op_check_span(a->ranges, 2 * (uint64_t)a->items, "mel", "ranges"));
    TD_CHECK(td_op_check_span(a->mel, (uint64_t)a->items * a->max_frames * mel->config.n_mels, "mel", "mel"));
    TD_CHECK(record_mel(mel, list, a, grid));
    if (td_op_given(a->pitch)) TD_CHECK(record_pitch(mel, list, a, grid));
    return TD_OK;
}
