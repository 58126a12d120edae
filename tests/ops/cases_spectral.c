/* Cases of src/ops/stft.h, depthwise.h and source.h. Transforms and their adjoints are written out as matrices in
 * double, with windows and turns of their own; gradients are those matrices transposed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "ops/depthwise.h"
#include "ops/source.h"
#include "ops/stft.h"
#include "suite.h"

#define PI 3.14159265358979323846

static double *allocate(size_t count)
{
    double *block = calloc(count ? count : 1, sizeof *block);
    if (!block) abort();
    return block;
}

/* ---------------------------------------------------------------- transforms */

static double window_at(const td_stft *s, uint32_t n)
{
    const uint32_t first = (s->n_fft - s->win) / 2;
    return n < first || n >= first + s->win ? 0 : pow(sin(PI * (n - first) / s->win), 2);
}

/* The sum of windows squared over each sample, at least 1e-3; ones without division. */
static double *powers(const td_stft *s)
{
    double *power = allocate(s->samples);
    for (uint32_t t = 0; t < s->frames; t++)
        for (uint32_t n = 0; n < s->n_fft; n++)
            power[t * s->hop + n] += pow(window_at(s, n), 2);
    for (uint32_t i = 0; i < s->samples; i++)
        power[i] = s->inverse ? fmax(power[i], 1e-3) : 1;
    return power;
}

/* What bin k and sample n of a frame share: the factor of the real part, and of the imaginary one. */
static void share(const td_stft *s, uint32_t k, uint32_t n, double *re, double *im)
{
    const double angle = 2 * PI * (double)((uint64_t)k * n % s->n_fft) / s->n_fft;
    const bool is_edge = k == 0 || k == s->n_fft / 2;
    const double weight = window_at(s, n) * (s->inverse ? (is_edge ? 1.0 : 2.0) / s->n_fft : 1);
    *re = weight * cos(angle);
    *im = is_edge ? 0 : -weight * sin(angle);
}

/* One matrix both ways: spectrum from signal, or signal from spectrum. */
static void expect_transform(const td_stft *s, const float *from, double *to, bool to_signal)
{
    const uint32_t bins = s->n_fft / 2 + 1;
    double *power = powers(s);
    double *table = allocate(2 * (size_t)bins * s->n_fft);
    for (uint32_t k = 0; k < bins; k++)
        for (uint32_t n = 0; n < s->n_fft; n++)
            share(s, k, n, &table[((size_t)k * s->n_fft + n) * 2],
                  &table[((size_t)k * s->n_fft + n) * 2 + 1]);
    for (size_t frame = 0; frame < (size_t)s->items * s->frames; frame++) {
        const size_t first = frame % s->frames * s->hop, item = frame / s->frames;
        for (uint32_t k = 0; k < bins; k++) {
            const size_t re = (frame * 2) * bins + k, im = re + bins;
            for (uint32_t n = 0; n < s->n_fft; n++) {
                const double *w = &table[((size_t)k * s->n_fft + n) * 2];
                const size_t at = item * s->samples + first + n;
                if (to_signal) {
                    to[at] += (w[0] * (double)from[re] + w[1] * (double)from[im]) / power[first + n];
                } else {
                    to[re] += w[0] * (double)from[at] / power[first + n];
                    to[im] += w[1] * (double)from[at] / power[first + n];
                }
            }
        }
    }
    free(power);
    free(table);
}

enum { FROM, TABLE, TO, SCRATCH };

static td_status launch_stft(const op_case *c, td_list *list, const td_span *s)
{
    td_stft_args a = *(const td_stft_args *)c->args;
    const bool to_signal = strcmp(c->io[TO].name, "signal") == 0;
    a.signal = s[to_signal ? TO : FROM];
    a.spectrum = s[to_signal ? FROM : TO];
    a.table = s[TABLE];
    if (c->n_io > SCRATCH) a.workspace = s[SCRATCH];
    return to_signal ? td_op_istft(list, &a) : td_op_stft(list, &a);
}

static void add_transform(op_suite *suite, td_stft s, bool to_signal)
{
    const char *op = s.inverse ? "istft" : "stft";
    if (!op_suite_wants(suite, op)) return;
    op_case c = {.op = op, .launch = launch_stft, .is_gradient = s.inverse != to_signal};
    const char *own[] = {to_signal   ? "istft_512 overlap_add"
                         : s.inverse ? "stft_512 overlap_add"
                                     : "stft_512",
                         to_signal   ? "istft_1024 overlap_add"
                         : s.inverse ? "stft_1024 overlap_add"
                                     : "stft_1024",
                         to_signal   ? "istft_2048 overlap_add"
                         : s.inverse ? "stft_2048 overlap_add"
                                     : "stft_2048"};
    s.frames = td_stft_frames(&s, s.samples);
    c.kernels = own[s.n_fft == 512 ? 0 : s.n_fft == 1024 ? 1 : 2];
    *(td_stft_args *)op_args(&c, sizeof(td_stft_args)) = (td_stft_args){.stft = s};
    snprintf(c.label, sizeof c.label, "n_fft %u, hop %u, window %u, %u items, %u samples", s.n_fft, s.hop,
             s.win, s.items, s.samples);
    const size_t signal = (size_t)s.items * s.samples, spectrum = (size_t)s.items * s.frames * (s.n_fft + 2);
    const op_io *from =
        op_random(&c, to_signal ? "spectrum" : "signal", to_signal ? spectrum : signal, -1, 1, 5);
    td_stft_table(s.n_fft, s.win, op_input(&c, "table", td_stft_table_words(s.n_fft))->values);
    /* a spectrum of n_fft terms of size 1; a signal divided by as little as 1e-3 */
    const double atol = (s.inverse && !to_signal   ? 2e-3
                         : to_signal && !s.inverse ? 1e-3
                                                   : 3e-5) *
                        s.n_fft / 512;
    op_io *to = op_output(&c, to_signal ? "signal" : "spectrum", to_signal ? signal : spectrum, atol, 2e-5);
    expect_transform(&s, from->values, to->expected, to_signal);
    if (td_stft_workspace(&s, to_signal)) op_scratch(&c, "workspace", td_stft_workspace(&s, to_signal));
    op_suite_add(suite, &c);
}

static void add_transforms(op_suite *suite, td_device *device)
{
    static const td_stft SHAPES[] = {
        {.n_fft = 512, .hop = 128, .win = 512, .items = 1, .samples = 512},
        {.n_fft = 512, .hop = 100, .win = 400, .items = 2, .samples = 2048},
        {.n_fft = 1024, .hop = 256, .win = 1024, .items = 2, .samples = 1024 + 5 * 256},
        {.n_fft = 1024, .hop = 1, .win = 1024, .items = 1, .samples = 1024 + 16},
        {.n_fft = 2048, .hop = 512, .win = 2048, .items = 1, .samples = 2048 + 3 * 512 + 77},
        {.n_fft = 512, .hop = 128, .win = 512, .items = 3, .samples = 512 + 36 * 128},
    };
    const size_t n = sizeof SHAPES / sizeof *SHAPES - (op_device_is_slow(device) ? 1 : 0);
    for (size_t i = 0; i < n; i++) {
        td_stft s = SHAPES[i];
        for (int way = 0; way < 4; way++) {
            s.inverse = way >= 2;
            add_transform(suite, s, way % 2);
        }
    }
}

/* ---------------------------------------------------------------- depthwise convolution */

typedef struct depthwise_args {
    td_depthwise d;
    int way; /* 0: y, 1: dx, 2: dw */
} depthwise_args;

static td_status launch_depthwise(const op_case *c, td_list *list, const td_span *s)
{
    const depthwise_args *a = c->args;
    if (a->way == 0) return td_op_depthwise(list, &a->d, s[0], s[1], s[2]);
    if (a->way == 1) return td_op_depthwise_back_data(list, &a->d, s[0], s[1], s[2]);
    return td_op_depthwise_back_weights(list, &a->d, s[0], s[1], s[2]);
}

/* Every product of the sum, put where each of the three ways wants it: a, b are its inputs. */
static void expect_depthwise(const td_depthwise *d, int way, const float *a, const float *b, double *out)
{
    for (uint32_t item = 0; item < d->items; item++)
        for (uint32_t t = 0; t < d->frames; t++)
            for (uint32_t j = 0; j < d->taps; j++)
                for (uint32_t c = 0; c < d->channels; c++) {
                    const int64_t other = (int64_t)t + j - d->before;
                    if (other < 0 || other >= d->frames) continue;
                    const size_t y = ((size_t)item * d->frames + t) * d->channels + c;
                    const size_t x = ((size_t)item * d->frames + (size_t)other) * d->channels + c;
                    const size_t w = (size_t)j * d->channels + c;
                    const size_t dw = (size_t)item * d->taps * d->channels + w;
                    if (way == 0) out[y] += (double)b[w] * (double)a[x];
                    if (way == 1) out[x] += (double)b[w] * (double)a[y];
                    if (way == 2) out[dw] += (double)a[x] * (double)b[y];
                }
}

static void add_depthwise(op_suite *suite, td_depthwise d, int way)
{
    const size_t n = (size_t)d.items * d.frames * d.channels, w = (size_t)d.taps * d.channels;
    op_case c = {.op = "depthwise",
                 .kernels = way == 2 ? "depthwise_weights" : "depthwise",
                 .launch = launch_depthwise,
                 .is_gradient = way > 0};
    *(depthwise_args *)op_args(&c, sizeof(depthwise_args)) = (depthwise_args){d, way};
    snprintf(c.label, sizeof c.label, "%u items, %u frames, %u channels, %u taps, way %d", d.items, d.frames,
             d.channels, d.taps, way);
    const float *a = op_random(&c, way == 1 ? "dy" : "x", n, -1, 1, 7)->values;
    const float *b = op_random(&c, way == 2 ? "dy" : "w", way == 2 ? n : w, -1, 1, 8)->values;
    op_io *out = op_output(&c, "out", way == 2 ? d.items * w : n, way == 2 ? 2e-5 : 2e-6, 1e-6);
    expect_depthwise(&d, way, a, b, out->expected);
    op_suite_add(suite, &c);
}

static void add_depthwises(op_suite *suite)
{
    static const td_depthwise SHAPES[] = {
        {1, 1, 1, 1, 0},   {1, 1, 1, 7, 3},    {2, 3, 5, 7, 3},     {3, 17, 127, 7, 3}, {2, 31, 128, 3, 1},
        {1, 9, 129, 4, 2}, {2, 40, 193, 7, 6}, {16, 32, 192, 7, 3}, {1, 2, 64, 7, 0},
    };
    for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++)
        for (int way = 0; way < 3; way++)
            add_depthwise(suite, SHAPES[i], way);
}

/* ---------------------------------------------------------------- noise */

static td_status launch_noise(const op_case *c, td_list *list, const td_span *s)
{
    td_noise_args a = *(const td_noise_args *)c->args;
    a.step = s[0];
    a.y = s[1];
    return td_op_noise(list, &a);
}

static double normal_at(const td_noise_args *a, uint32_t step, uint32_t i)
{
    uint32_t words[4];
    td_rng_block(a->seed, a->stream, (uint64_t)step << 32 | (i / 64 * 16 + i % 16), words);
    const uint32_t place = i / 16 % 4;
    const double u = ((words[place / 2 * 2] >> 8) + 1) * 0x1p-24;
    const double turn = (words[place / 2 * 2 + 1] >> 8) * 0x1p-24;
    return sqrt(-2 * log(u)) * (place % 2 ? sin(2 * PI * turn) : cos(2 * PI * turn));
}

static void add_noise(op_suite *suite, uint32_t n)
{
    op_case c = {.op = "noise", .kernels = "noise", .launch = launch_noise};
    td_noise_args *a = op_args(&c, sizeof *a);
    *a = (td_noise_args){.n = n, .seed = 0x123456789abcdef0u, .stream = 0x900000007u};
    snprintf(c.label, sizeof c.label, "%u elements", n);
    const uint32_t step = 41;
    memcpy(op_input(&c, "step", 1)->values, &step, 4);
    op_io *y = op_output(&c, "y", n, 3e-6, 1e-6);
    for (uint32_t i = 0; i < n; i++)
        y->expected[i] = normal_at(a, step, i);
    op_suite_add(suite, &c);
}

/* ---------------------------------------------------------------- pulses */

static td_status launch_pulse(const op_case *c, td_list *list, const td_span *s)
{
    td_pulse_args a = *(const td_pulse_args *)c->args;
    a.pitch = s[0];
    a.phase = s[1];
    a.y = s[2];
    return td_op_pulse(list, &a);
}

static double limited(double hz, double rate)
{
    return hz > 0 ? fmin(fmax(hz, 20), rate / 2) : 0;
}

/* The sum of cosines itself, sample by sample. */
static void expect_pulse(const td_pulse_args *a, const float *pitch, double turns, double *y)
{
    for (uint32_t way = 0; way + 1 < a->frames; way++) {
        const double f0 = limited((double)pitch[way], (double)a->rate),
                     f1 = limited((double)pitch[way + 1], (double)a->rate);
        const double low = f0 > 0 ? f0 : f1, high = f1 > 0 ? f1 : f0;
        for (uint32_t n = 0; n < a->hop; n++) {
            const double part = (double)n / a->hop, hz = low + (high - low) * part;
            const double at = turns + n * (low + hz) / 2 / (double)a->rate;
            const double loud = (f0 > 0) + ((f1 > 0) - (f0 > 0)) * part;
            const uint32_t harmonics = hz > 0 ? (uint32_t)floor((double)a->rate / 2 / hz) : 0;
            double sum = 0;
            for (uint32_t k = 1; k <= harmonics; k++)
                sum += cos(2 * PI * fmod(k * at, 1));
            y[(size_t)way * a->hop + n] = loud * sum;
        }
        turns += a->hop * (low + high) / 2 / (double)a->rate;
    }
}

static void add_pulse(op_suite *suite, uint32_t items, uint32_t frames, uint32_t hop, const float *hertz)
{
    op_case c = {.op = "pulse", .kernels = "pulse", .launch = launch_pulse};
    td_pulse_args *a = op_args(&c, sizeof *a);
    *a = (td_pulse_args){.items = items, .frames = frames, .hop = hop, .rate = 22050};
    snprintf(c.label, sizeof c.label, "%u items, %u frames, hop %u, from %g Hz", items, frames, hop,
             (double)hertz[0]);
    float *pitch = op_input(&c, "pitch", (size_t)items * frames)->values;
    float *phase = op_input(&c, "phase", items)->values;
    for (uint32_t i = 0; i < items * frames; i++)
        pitch[i] = hertz[i % 6];
    for (uint32_t i = 0; i < items; i++)
        phase[i] = 0.37f * (float)i + 0.013f;
    /* turns are good to 1e-6 after some frames, and the slope of the steepest pulse is 2 pi K^2 / 2 */
    op_io *y = op_output(&c, "y", (size_t)items * (frames - 1) * hop, 2e-2, 1e-3);
    for (uint32_t i = 0; i < items; i++)
        expect_pulse(a, pitch + (size_t)i * frames, (double)phase[i],
                     y->expected + (size_t)i * (frames - 1) * hop);
    op_suite_add(suite, &c);
}

void cases_spectral(op_suite *suite, td_device *device);

void cases_spectral(op_suite *suite, td_device *device)
{
    static const float VOICED[] = {201.3f, 222.7f, 0, 0, 187.1f, 190.9f}, SILENT[] = {0, 0, -1, 0, 0, 0};
    static const float HIGH[] = {1003.7f, 998.1f, 1017.3f, 0, 20000, 15.3f};
    static const uint32_t SIZES[] = {1, 15, 16, 17, 63, 64, 65, 127, 128, 511, 513, 4096, 4097, 10007};
    add_transforms(suite, device);
    add_depthwises(suite);
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++)
        add_noise(suite, SIZES[i]);
    add_pulse(suite, 1, 2, 1, VOICED);
    add_pulse(suite, 2, 5, 127, VOICED);
    add_pulse(suite, 3, 13, 256, VOICED);
    add_pulse(suite, 2, 6, 129, SILENT);
    add_pulse(suite, 2, 5, 256, HIGH);
}
