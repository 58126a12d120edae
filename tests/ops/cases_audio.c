/* Cases of src/audio/mel.h against transforms written out in double. Windows and filters are those the
 * kernels get (tests/audio compares them with an independent script); what is judged is what kernels do. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audio/mel_internal.h"
#include "audio/mel_tables.h"
#include "base/rng.h"
#include "kernels/audio_geometry.h"
#include "suite.h"

#define PI 3.14159265358979323846
#define MOST_ITEMS 8

typedef struct audio_case {
    uint32_t n_fft, hop, n_mels, items, max_frames;
    uint32_t lengths[MOST_ITEMS]; /* samples, or frames to synthesise */
    bool power;
} audio_case;

typedef struct audio_args {
    td_mel_config config;
    uint32_t items, max_frames, shares, block;
    double window_power, pitch_power;
} audio_args;

static void *allocate(size_t count, size_t size)
{
    void *block = calloc(count, size);
    if (!block) abort();
    return block;
}

static td_mel_config configure(const audio_case *n)
{
    td_mel_config config = td_mel_config_default();
    config.n_fft = n->n_fft;
    config.win_samples = n->n_fft - n->n_fft / 8;
    config.hop_samples = n->hop;
    config.n_mels = n->n_mels;
    config.power = n->power;
    return config;
}

static void make_tables(td_status status)
{
    if (status != TD_OK) abort();
}

static void add_tables(op_case *c, const td_mel_tables *tables)
{
    memcpy(op_input(c, "floats", tables->n_floats)->values, tables->floats, 4 * (size_t)tables->n_floats);
    memcpy(op_input(c, "words", tables->n_words)->values, tables->words, 4 * (size_t)tables->n_words);
}

static uint32_t *add_ranges(op_case *c, uint32_t items)
{
    return (uint32_t *)(void *)op_input(c, "ranges", 2 * (size_t)items)->values;
}

/* ---------------------------------------------------------------- transforms written out */

/* X[k] for k <= size / 2 of x[0 .. size). */
static void transform(const double *x, uint32_t size, double *re, double *im)
{
    double *cosines = allocate(size, sizeof *cosines);
    for (uint32_t i = 0; i < size; i++)
        cosines[i] = cos(2 * PI * i / size);
    for (uint32_t k = 0; k <= size / 2; k++) {
        re[k] = im[k] = 0;
        for (uint32_t n = 0; n < size; n++) {
            const uint32_t turn = (uint32_t)((uint64_t)k * n % size);
            re[k] += x[n] * cosines[turn];
            im[k] += x[n] * cosines[(turn + size / 4) % size];
        }
    }
    free(cosines);
}

static double mirrored(const float *x, int64_t n, int64_t i)
{
    while (n > 1 && (i < 0 || i >= n))
        i = i < 0 ? -i : 2 * (n - 1) - i;
    return n > 1 ? (double)x[i] : (double)x[0];
}

/* Frame t of the signal under the window; `lows`, unless NULL, is what rounding took from that. */
static void cut_frame(const float *x, uint32_t n, uint32_t hop, uint32_t t, const float *window,
                      const float *lows, uint32_t size, double *frame)
{
    for (uint32_t i = 0; i < size; i++) {
        const double weight = (double)window[i] + (lows ? (double)lows[i] : 0);
        frame[i] = mirrored(x, n, (int64_t)t * hop + i - size / 2) * weight;
    }
}

/* ---------------------------------------------------------------- mel, energy, pitch */

enum { PCM, RANGES, FLOATS, WORDS, PITCH_FLOATS, PITCH_WORDS, MEL, ENERGY, PITCH };

static td_status launch_mel(const op_case *c, td_list *list, const td_span *s)
{
    const audio_args *a = c->args;
    const td_mel mel = {
        .config = a->config,
        .mel = {.floats = s[FLOATS], .words = s[WORDS], .shares = a->shares, .window_power = a->window_power},
        .pitch = {.floats = s[PITCH_FLOATS], .words = s[PITCH_WORDS], .window_power = a->pitch_power}};
    return td_mel_record(&mel, list,
                         &(td_mel_args){.items = a->items,
                                        .max_frames = a->max_frames,
                                        .pcm = s[PCM],
                                        .ranges = s[RANGES],
                                        .mel = s[MEL],
                                        .energy = s[ENERGY],
                                        .pitch = s[PITCH]});
}

static void expect_mel(const td_mel_config *config, const td_mel_tables *t, const double *frame, double *mel,
                       double *energy)
{
    const uint32_t size = config->n_fft;
    const uint32_t *bands = t->words + size / 2;
    double *re = allocate(size, sizeof *re), *im = allocate(size, sizeof *im);
    double squares = 0;
    transform(frame, size, re, im);
    for (uint32_t i = 0; i < size; i++)
        squares += frame[i] * frame[i];
    for (uint32_t m = 0; m < config->n_mels; m++) {
        double sum = 0;
        for (uint32_t i = 0; i < bands[3 * m + 1]; i++) {
            const uint32_t k = bands[3 * m] + i;
            const double power = re[k] * re[k] + im[k] * im[k];
            sum += (double)t->floats[bands[3 * m + 2] + i] * (config->power ? power : sqrt(power));
        }
        mel[m] = (log(fmax(sum, (double)config->floor)) - (double)config->mean) / (double)config->scale;
    }
    *energy = sqrt(squares / t->window_power);
    free(re);
    free(im);
}

/* Of the autocorrelation over that of the window the best peak, as pitch.kh says. */
static double expect_pitch(const td_mel_config *config, const td_mel_tables *t, const double *frame)
{
    const uint32_t size = 1u << TD_PITCH_LOG2;
    double *x = allocate(size, sizeof *x), *re = allocate(size, sizeof *re), *im = allocate(size, sizeof *im);
    double best = -1e30, hertz = 0, r[TD_PITCH_MAX_LAG + 1];
    const float *cost = t->floats + TD_PITCH_WINDOW + 2 * (size_t)size + TD_PITCH_MAX_LAG + 1;
    memcpy(x, frame, TD_PITCH_WINDOW * sizeof *x);
    transform(x, size, re, im);
    for (uint32_t k = 0; k < size; k++) {
        const uint32_t bin = k <= size / 2 ? k : size - k;
        x[k] = bin < 4 ? 0 : re[bin] * re[bin] + im[bin] * im[bin];
    }
    transform(x, size, re, im);
    for (uint32_t lag = 0; lag <= TD_PITCH_MAX_LAG; lag++) {
        double window = 0;
        for (uint32_t n = 0; n + lag < TD_PITCH_WINDOW; n++)
            window += (double)t->floats[n] * (double)t->floats[n + lag];
        r[lag] = re[lag] * t->window_power / window;
    }
    const uint32_t last = (uint32_t)((float)config->rate / config->pitch_min_hz) + 1;
    for (uint32_t lag = (uint32_t)((float)config->rate / config->pitch_max_hz); lag <= last; lag++) {
        const double score = r[lag] - r[0] * (double)cost[lag];
        if (r[lag] < r[lag - 1] || r[lag] <= r[lag + 1] || r[lag] < 0.45 * r[0] || score <= best) continue;
        const double bend = r[lag - 1] - 2 * r[lag] + r[lag + 1];
        best = score;
        hertz = config->rate / (lag + 0.5 * (r[lag - 1] - r[lag + 1]) / bend);
    }
    free(x);
    free(re);
    free(im);
    return r[0] >= 1e-8 * size * t->window_power ? hertz : 0;
}

/* A buzz that glides, whose frames have a clear pitch, and some noise; the third item is silent. */
static void fill_signal(float *x, uint32_t item, uint32_t n)
{
    double phase = 0;
    for (uint32_t i = 0; i < n && item != 2; i++) {
        phase += (90.0 + 45.0 * item + 0.004 * i) / 22050;
        double sum = 0;
        for (int h = 1; h < 12; h++)
            sum += sin(2 * PI * h * phase + 0.3 * h * h) / h;
        x[i] = (float)(0.25 * sum + 0.02 * ((double)td_rng_float(5, item, i) - 0.5));
    }
}

static void expect_item(const audio_args *a, const td_mel_tables *t, const td_mel_tables *pt, const float *x,
                        uint32_t n, double *mel, double *energy, double *pitch)
{
    const td_mel_config *config = &a->config;
    double *frame = allocate(2048, sizeof *frame);
    for (uint32_t f = 0; f < a->max_frames; f++) {
        if (f < td_mel_frames(config, n)) {
            cut_frame(x, n, config->hop_samples, f, t->floats, t->floats + 3 * (size_t)config->n_fft,
                      config->n_fft, frame);
            expect_mel(config, t, frame, mel + (size_t)f * config->n_mels, &energy[f]);
            cut_frame(x, n, config->hop_samples, f, pt->floats, NULL, TD_PITCH_WINDOW, frame);
            pitch[f] = expect_pitch(config, pt, frame);
        } else {
            for (uint32_t m = 0; m < config->n_mels; m++)
                mel[(size_t)f * config->n_mels + m] =
                    (log((double)config->floor) - (double)config->mean) / (double)config->scale;
        }
    }
    free(frame);
}

static void add_mel(op_suite *suite, const audio_case *n)
{
    if (!op_suite_wants(suite, "mel")) return;
    op_case c = {.op = "mel", .launch = launch_mel};
    td_mel_tables tables, pitch_tables;
    audio_args *a = op_args(&c, sizeof *a);
    size_t total = 0, at = 0;
    *a = (audio_args){.config = configure(n), .items = n->items, .max_frames = n->max_frames};
    make_tables(td_mel_tables_make(&a->config, &tables));
    make_tables(td_pitch_tables_make(&a->config, &pitch_tables));
    a->shares = tables.shares;
    a->window_power = tables.window_power;
    a->pitch_power = pitch_tables.window_power;
    for (uint32_t i = 0; i < n->items; i++)
        total += n->lengths[i % MOST_ITEMS];
    c.kernels = n->n_fft == 512 ? "mel_512 pitch" : n->n_fft == 1024 ? "mel_1024 pitch" : "mel_2048 pitch";
    snprintf(c.label, sizeof c.label, "n_fft %u, hop %u, %u bands, %u items, %u frames%s", n->n_fft, n->hop,
             n->n_mels, n->items, n->max_frames, n->power ? ", power" : "");
    const size_t frames = (size_t)n->items * n->max_frames;
    float *pcm = op_input(&c, "pcm", total ? total : 1)->values;
    uint32_t *ranges = add_ranges(&c, n->items);
    add_tables(&c, &tables);
    add_tables(&c, &pitch_tables);
    double *mel = op_output(&c, "mel", frames * n->n_mels, 1e-5, 0)->expected;
    double *energy = op_output(&c, "energy", frames, 1e-7, 1e-5)->expected;
    double *pitch = op_output(&c, "pitch", frames, 1e-3, 1e-3)->expected;
    for (uint32_t i = 0; i < n->items; i++) {
        const uint32_t length = n->lengths[i % MOST_ITEMS];
        ranges[2 * i] = (uint32_t)at;
        ranges[2 * i + 1] = length;
        fill_signal(pcm + at, i, length);
        expect_item(a, &tables, &pitch_tables, pcm + at, length, mel + (size_t)i * n->max_frames * n->n_mels,
                    energy + (size_t)i * n->max_frames, pitch + (size_t)i * n->max_frames);
        at += length;
    }
    td_mel_tables_free(&tables);
    td_mel_tables_free(&pitch_tables);
    op_suite_add(suite, &c);
}

/* ---------------------------------------------------------------- Griffin-Lim */

enum { GL_MEL, GL_RANGES, GL_FLOATS, GL_WORDS, GL_WORKSPACE, GL_SAMPLES };

static td_status launch_griffin(const op_case *c, td_list *list, const td_span *s)
{
    const audio_args *a = c->args;
    const td_mel mel = {.config = a->config,
                        .mel = {.floats = s[GL_FLOATS], .words = s[GL_WORDS], .shares = a->shares}};
    return td_griffin_lim_record(&mel, list,
                                 &(td_griffin_lim_args){.items = a->items,
                                                        .max_frames = a->max_frames,
                                                        .mel = s[GL_MEL],
                                                        .ranges = s[GL_RANGES],
                                                        .samples = s[GL_SAMPLES],
                                                        .workspace = s[GL_WORKSPACE],
                                                        .iterations = 2,
                                                        .seed = 7});
}

/* The multiplicative updates with the filterbank as a matrix. */
static void expect_magnitudes(const td_mel_config *config, const td_mel_tables *t, const float *mel,
                              double *s)
{
    const uint32_t bins = config->n_fft / 2 + 1;
    const uint32_t *bands = t->words + config->n_fft / 2;
    double *up = allocate(bins, sizeof *up), *sum = allocate(bins, sizeof *sum);
    for (uint32_t k = 0; k < bins; k++)
        s[k] = 1;
    for (int update = 0; update < 16; update++) {
        memset(up, 0, bins * sizeof *up);
        memset(sum, 0, bins * sizeof *sum);
        for (uint32_t m = 0; m < config->n_mels; m++) {
            const float *weights = t->floats + bands[3 * m + 2];
            const double wanted = exp((double)mel[m] * (double)config->scale + (double)config->mean);
            double had = 0;
            for (uint32_t i = 0; i < bands[3 * m + 1]; i++)
                had += (double)weights[i] * s[bands[3 * m] + i];
            for (uint32_t i = 0; i < bands[3 * m + 1]; i++) {
                up[bands[3 * m] + i] += (double)weights[i] * wanted / had;
                sum[bands[3 * m] + i] += (double)weights[i];
            }
        }
        for (uint32_t k = 0; k < bins; k++)
            s[k] = sum[k] > 0 ? s[k] * up[k] / sum[k] : 0;
    }
    for (uint32_t k = 0; config->power && k < bins; k++)
        s[k] = sqrt(s[k]);
    free(up);
    free(sum);
}

/* y += window * inverse transform of s a / |a|, and the windows' squares to weight. */
static void add_frame(const double *s, double *ar, double *ai, const float *window, uint32_t size, double *y,
                      double *weight)
{
    const uint32_t half = size / 2;
    for (uint32_t k = 0; k <= half; k++) {
        const double gain = s[k] / fmax(hypot(ar[k], ai[k]), 1e-12);
        ar[k] *= gain;
        ai[k] *= gain;
    }
    ai[0] = ai[half] = 0;
    for (uint32_t n = 0; n < size; n++) {
        double sum = 0;
        for (uint32_t k = 0; k <= half; k++) {
            const double angle = 2 * PI * (double)((uint64_t)k * n % size) / size;
            sum += (k == 0 || k == half ? 1 : 2) * (ar[k] * cos(angle) - ai[k] * sin(angle));
        }
        y[n] += (double)window[n] * sum / size;
        weight[n] += (double)window[n] * (double)window[n];
    }
}

/* The first signal from drawn phases, the next one from its own, and the last with the momentum of both. */
static void expect_signal(const audio_args *a, const td_mel_tables *t, const float *mel, uint32_t item,
                          uint32_t frames, double *out)
{
    const uint32_t size = a->config.n_fft, bins = size / 2 + 1, hop = a->config.hop_samples;
    const uint32_t n = (frames - 1) * hop;
    double *s = allocate((size_t)frames * bins, sizeof *s);
    double *ar = allocate(bins, sizeof *ar), *ai = allocate(bins, sizeof *ai);
    double *cut = allocate(size, sizeof *cut);
    double *before = allocate(2 * (size_t)frames * bins, sizeof *before);
    double *y = allocate(n + size, sizeof *y), *weight = allocate(n + size, sizeof *weight);
    float *x = allocate(n, sizeof *x);
    for (uint32_t f = 0; f < frames; f++)
        expect_magnitudes(&a->config, t, mel + (size_t)f * a->config.n_mels, s + (size_t)f * bins);
    for (int step = 0; step < 3; step++) {
        memset(y, 0, (n + size) * sizeof *y);
        memset(weight, 0, (n + size) * sizeof *weight);
        for (uint32_t f = 0; f < frames; f++) {
            for (uint32_t k = 0; step == 0 && k < bins; k++) {
                const uint32_t block = a->block, blocks = (a->max_frames + block - 1) / block;
                const uint32_t drawn =
                    td_rng_u32(7, 0, ((item * blocks + f / block) * bins + k) * block + f % block);
                ar[k] = (drawn >> 16) * 0x1p-15 - 1;
                ai[k] = (drawn & 0xffff) * 0x1p-15 - 0.99998;
            }
            if (step > 0) {
                double *last = before + 2 * (size_t)f * bins;
                cut_frame(x, n, hop, f, t->floats, NULL, size, cut);
                transform(cut, size, ar, ai);
                for (uint32_t k = 0; k < bins; k++) {
                    const double re = ar[k], im = ai[k];
                    ar[k] -= 0.99 / 1.99 * last[2 * k];
                    ai[k] -= 0.99 / 1.99 * last[2 * k + 1];
                    last[2 * k] = re;
                    last[2 * k + 1] = im;
                }
            }
            add_frame(s + (size_t)f * bins, ar, ai, t->floats, size, y + (size_t)f * hop,
                      weight + (size_t)f * hop);
        }
        for (uint32_t i = 0; i < n; i++) {
            out[i] = y[size / 2 + i] / fmax(weight[size / 2 + i], 1e-8);
            x[i] = (float)out[i];
        }
    }
    free(s);
    free(ar);
    free(ai);
    free(cut);
    free(before);
    free(y);
    free(weight);
    free(x);
}

static void add_griffin(op_suite *suite, td_device *device, const audio_case *n)
{
    if (!op_suite_wants(suite, "griffin_lim")) return;
    op_case c = {.op = "griffin_lim", .launch = launch_griffin};
    td_mel_tables tables;
    audio_args *a = op_args(&c, sizeof *a);
    size_t total = 0, at = 0;
    *a = (audio_args){.config = configure(n), .items = n->items, .max_frames = n->max_frames};
    make_tables(td_mel_tables_make(&a->config, &tables));
    a->shares = tables.shares;
    a->block = td_mel_block(td_device_class(device));
    for (uint32_t i = 0; i < n->items; i++)
        total += n->lengths[i] > 1 ? (n->lengths[i] - 1) * n->hop : 0;
    c.kernels = n->n_fft == 512    ? "random unmel_512 griffin_512 overlap_add"
                : n->n_fft == 1024 ? "random unmel_1024 griffin_1024 overlap_add"
                                   : "random unmel_2048 griffin_2048 overlap_add";
    snprintf(c.label, sizeof c.label, "n_fft %u, hop %u, %u bands, %u items, %u frames%s", n->n_fft, n->hop,
             n->n_mels, n->items, n->max_frames, n->power ? ", power" : "");
    const float *mel =
        op_random(&c, "mel", (size_t)n->items * n->max_frames * n->n_mels, -1.5f, 1.5f, 31)->values;
    uint32_t *ranges = add_ranges(&c, n->items);
    add_tables(&c, &tables);
    const td_mel front = {.config = a->config};
    op_scratch(&c, "workspace",
               td_griffin_lim_workspace(&front, td_device_class(device), n->items, n->max_frames));
    double *out = op_output(&c, "samples", total ? total : 1, 2e-4, 2e-3)->expected;
    if (total == 0) out[0] = NAN;
    for (uint32_t i = 0; i < n->items; i++) {
        ranges[2 * i] = (uint32_t)at;
        ranges[2 * i + 1] = n->lengths[i];
        if (n->lengths[i] < 2) continue;
        expect_signal(a, &tables, mel + (size_t)i * n->max_frames * n->n_mels, i, n->lengths[i], out + at);
        at += (size_t)(n->lengths[i] - 1) * n->hop;
    }
    td_mel_tables_free(&tables);
    op_suite_add(suite, &c);
}

/* ---------------------------------------------------------------- the list */

void cases_audio(op_suite *suite, td_device *device);
void cases_audio(op_suite *suite, td_device *device)
{
    static const audio_case TINY_MEL[] = {
        {512, 256, 80, 2, 4, {700, 0}, false},
        {1024, 256, 80, 3, 4, {1, 513, 600}, false},
        {2048, 300, 40, 1, 4, {900}, true},
    };
    static const audio_case MEL_CASES[] = {
        {1024, 256, 80, 1, 1, {1}, false},
        {1024, 256, 80, 2, 3, {0, 0}, false},
        {1024, 256, 80, 6, 40, {9000, 0, 2000, 1, 255, 8191}, false},
        {1024, 256, 81, 3, 17, {9000, 1024, 4300}, true}, /* more frames than asked for */
        {1024, 200, 128, 2, 33, {6400, 6399}, false},
        {512, 128, 80, 3, 25, {3000, 3, 2000}, false},
        {2048, 300, 13, 2, 20, {5000, 2047}, false},
    };
    static const audio_case TINY_GRIFFIN[] = {{512, 256, 20, 2, 3, {3, 1}, false},
                                              {1024, 256, 80, 1, 2, {2}, false},
                                              {2048, 500, 80, 1, 2, {2}, false}};
    static const audio_case GRIFFIN_CASES[] = {
        {1024, 256, 80, 1, 1, {1}, false},  {1024, 256, 80, 3, 19, {19, 0, 2}, false},
        {512, 100, 40, 2, 9, {8, 9}, true}, {512, 128, 80, 1, 20, {20}, false},
        {2048, 300, 80, 1, 5, {5}, false},
    };
    const bool is_slow = op_device_is_slow(device);
    for (size_t i = 0; i < sizeof TINY_MEL / sizeof *TINY_MEL; i++)
        add_mel(suite, &TINY_MEL[i]);
    for (size_t i = 0; i < sizeof TINY_GRIFFIN / sizeof *TINY_GRIFFIN; i++)
        add_griffin(suite, device, &TINY_GRIFFIN[i]);
    for (size_t i = 0; i < sizeof MEL_CASES / sizeof *MEL_CASES && !is_slow; i++)
        add_mel(suite, &MEL_CASES[i]);
    for (size_t i = 0; i < sizeof GRIFFIN_CASES / sizeof *GRIFFIN_CASES && !is_slow; i++)
        add_griffin(suite, device, &GRIFFIN_CASES[i]);
}
