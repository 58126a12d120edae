/* See wave_loss.h. */
#include "families/wave_loss.h"

#include <string.h>

#include "audio/mel_tables.h"

#define LEAST_POWER 1e-7f /* of a bin whose size is taken */

/* ---------------------------------------------------------------- constants of the front end */

/* The config in words, for td_init. */
static void pack_mel(const td_mel_config *m, uint32_t words[TD_INIT_WORDS])
{
    const float floats[] = {m->fmin_hz, m->fmax_hz};
    words[0] = m->rate;
    words[1] = m->n_fft;
    words[2] = m->n_mels;
    words[3] = m->mel_scale;
    words[4] = m->area_norm;
    memcpy(words + 5, floats, sizeof floats);
}

static td_mel_config unpack_mel(const uint32_t words[TD_INIT_WORDS])
{
    td_mel_config m = td_mel_config_default();
    float floats[2];
    memcpy(floats, words + 5, sizeof floats);
    m.rate = words[0];
    m.n_fft = words[1];
    m.n_mels = words[2];
    m.mel_scale = (td_mel_scale)words[3];
    m.area_norm = words[4];
    m.fmin_hz = floats[0];
    m.fmax_hz = floats[1];
    return m;
}

static td_status make_bands(const uint32_t words[TD_INIT_WORDS], td_shape shape, float *values)
{
    const td_mel_config m = unpack_mel(words);
    (void)shape;
    return td_mel_filterbank(&m, false, values);
}

static td_status make_inverse(const uint32_t words[TD_INIT_WORDS], td_shape shape, float *values)
{
    const td_mel_config m = unpack_mel(words);
    (void)shape;
    return td_mel_filterbank(&m, true, values);
}

td_tensor td_wave_bands(td_graph *g, const td_mel_config *mel, bool inverse)
{
    const char *name = inverse ? "constant.mel_inverse" : "constant.mel_bands";
    const uint32_t bins = mel->n_fft / 2 + 1;
    td_init init = {.rule = TD_INIT_MADE, .make = inverse ? make_inverse : make_bands};
    const td_tensor known = td_graph_find(g, name);
    if (known.id) return known;
    pack_mel(mel, init.words);
    const td_tensor made = td_graph_state(
        g, name, inverse ? td_dims(mel->n_mels, bins) : td_dims(bins, mel->n_mels), TD_STATE_CONSTANT);
    td_graph_set_init(g, made, init);
    return made;
}

/* ---------------------------------------------------------------- spectra */

td_tensor td_wave_abs(td_graph *g, td_tensor x)
{
    return td_graph_max(g, x, td_graph_scale(g, x, -1));
}

td_tensor td_wave_mean(td_graph *g, td_tensor x)
{
    return td_graph_mean(g, td_graph_reshape(g, x, td_dims((uint32_t)td_shape_size(td_graph_shape(g, x)))),
                         0);
}

td_tensor td_wave_sizes_of(td_graph *g, td_tensor spectrum, float eps)
{
    return td_graph_sqrt(g, td_graph_shift(g, td_graph_sum_squares(g, spectrum, 2), eps));
}

td_tensor td_wave_sizes(td_graph *g, td_tensor wave, const td_stft_options *way)
{
    return td_wave_sizes_of(g, td_graph_stft(g, wave, way), LEAST_POWER);
}

td_tensor td_wave_mel(td_graph *g, const td_mel_config *mel, td_tensor wave)
{
    const td_stft_options way = {.n_fft = mel->n_fft, .hop = mel->hop_samples, .win = mel->win_samples};
    const td_tensor spectrum = td_wave_sizes(g, wave, &way);
    const td_tensor power = mel->power ? td_graph_mul(g, spectrum, spectrum) : spectrum;
    const td_tensor bands = td_graph_matmul(g, power, td_wave_bands(g, mel, false));
    return td_graph_log(g, td_graph_clamp(g, bands, mel->floor, 1e30f));
}

/* ---------------------------------------------------------------- losses */

/* The norm of each item of x [B, ..]. */
static td_tensor norm_of_items(td_graph *g, td_tensor x)
{
    const td_shape shape = td_graph_shape(g, x);
    const uint32_t items = shape.dims[0];
    const td_shape flat = td_dims(items, items ? (uint32_t)(td_shape_size(shape) / items) : 0);
    return td_graph_sqrt(g,
                         td_graph_shift(g, td_graph_sum_squares(g, td_graph_reshape(g, x, flat), 1), 1e-8f));
}

td_tensor td_wave_spectral_loss(td_graph *g, td_tensor made, td_tensor recorded)
{
    static const td_stft_options WAYS[] = {
        {.n_fft = 512, .hop = 128}, {.n_fft = 1024, .hop = 256}, {.n_fft = 2048, .hop = 512}};
    td_tensor terms[6];
    for (size_t i = 0; i < 3; i++) {
        const td_tensor a = td_wave_sizes(g, made, &WAYS[i]);
        const td_tensor b = td_wave_sizes(g, recorded, &WAYS[i]);
        const td_tensor apart = td_graph_sub(g, td_graph_log(g, td_graph_shift(g, a, 1e-3f)),
                                             td_graph_log(g, td_graph_shift(g, b, 1e-3f)));
        const td_tensor share = td_graph_div(g, norm_of_items(g, td_graph_sub(g, a, b)),
                                             td_graph_shift(g, norm_of_items(g, b), 0.01f));
        terms[2 * i] = td_wave_mean(g, share);
        terms[2 * i + 1] = td_wave_mean(g, td_wave_abs(g, apart));
    }
    const float third = 1.0f / 3;
    return td_graph_total(g, terms, (const float[]){third, third, third, third, third, third}, 6);
}
