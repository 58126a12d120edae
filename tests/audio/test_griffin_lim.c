/* Signals from mel spectrograms: the mel spectrogram of the result is near the one asked for and nearer with
 * more steps, the same seed gives the same bits, items do not depend on each other. */
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PI 3.14159265358979323846

enum { LONG = 22050, SHORT = 9000 };

/* A voiced glide through two resonances, with pauses: what speech asks of phases. */
static void make_voice(float *x, size_t n, double base_hz)
{
    double phase = 0, state[2][2] = {{0}};
    static const double RESONANCES_HZ[] = {700, 1900};
    for (size_t i = 0; i < n; i++) {
        const double before = phase;
        phase += base_hz * (1 + 0.2 * sin(2 * PI * 2 * (double)i / 22050)) / 22050;
        double y = floor(phase) > floor(before) && i % 8000 < 6500 ? 1 : 0;
        for (int r = 0; r < 2; r++) {
            const double radius = 0.97;
            const double next = y + 2 * radius * cos(2 * PI * RESONANCES_HZ[r] / 22050) * state[r][0] -
                                radius * radius * state[r][1];
            state[r][1] = state[r][0];
            state[r][0] = next;
            y = next;
        }
        x[i] = (float)(0.01 * y);
    }
}

static void free_batch(batch *n)
{
    free(n->mel);
    free(n->energy);
    free(n->pitch);
}

/* Mean distance in ln units of two mel spectrograms over the bands that are well above the floor. */
static double distance(const td_mel_config *config, const float *a, const float *b, size_t count)
{
    const double least = (log(1e-3) - (double)config->mean) / (double)config->scale;
    double sum = 0;
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if ((double)a[i] < least) continue;
        sum += fabs((double)a[i] - (double)b[i]) * (double)config->scale;
        used++;
    }
    assert_true(used > count / 20);
    return sum / (double)used;
}

static double resynthesise(rig *b, const td_mel_config *config, const batch *n, uint32_t iterations)
{
    const uint32_t frames[] = {td_mel_frames(config, LONG), td_mel_frames(config, SHORT)};
    size_t total;
    float *signal = run_griffin_lim(b, config, n, frames, iterations, 3, &total);
    const uint32_t samples[] = {(frames[0] - 1) * config->hop_samples, (frames[1] - 1) * config->hop_samples};
    assert_int_equal(total, samples[0] + samples[1]);
    for (size_t i = 0; i < total; i++)
        assert_true(fabsf(signal[i]) < 2);
    batch again = {.items = 2, .max_frames = n->max_frames, .pcm = signal, .samples = samples};
    run_mel(b, config, &again);
    assert_int_equal(again.max_frames, n->max_frames);
    const double off = distance(config, n->mel, again.mel, (size_t)frames[0] * config->n_mels);
    free(signal);
    free_batch(&again);
    return off;
}

static void check_copy(rig *b)
{
    const td_mel_config config = td_mel_config_default();
    const uint32_t samples[] = {LONG, SHORT};
    float *pcm = calloc(LONG + SHORT, sizeof *pcm);
    assert_non_null(pcm);
    make_voice(pcm, LONG, 120);
    make_voice(pcm + LONG, SHORT, 210);
    batch n = {.items = 2, .pcm = pcm, .samples = samples};
    run_mel(b, &config, &n);
    const double one = resynthesise(b, &config, &n, 1), sixty = resynthesise(b, &config, &n, 60);
    print_message("  off by %.3f after 1 step, %.3f after 60\n", one, sixty);
    assert_true(sixty < 0.25);
    assert_true(sixty < 0.6 * one);
    free(pcm);
    free_batch(&n);
}

static void test_copy(void **state)
{
    (void)state;
    each_rig(check_copy, false);
}

/* The second item alone gives other bits only because its phases are drawn by its row; so the first is
 * compared. */
static void check_bits(rig *b)
{
    const td_mel_config config = td_mel_config_default();
    const uint32_t samples[] = {SHORT, 5000}, frames[] = {td_mel_frames(&config, SHORT), 1};
    float *pcm = calloc(SHORT + 5000, sizeof *pcm);
    size_t total, alone;
    assert_non_null(pcm);
    make_voice(pcm, SHORT, 150);
    make_voice(pcm + SHORT, 5000, 90);
    batch n = {.items = 2, .pcm = pcm, .samples = samples};
    run_mel(b, &config, &n);
    float *first = run_griffin_lim(b, &config, &n, frames, 8, 1, &total);
    float *second = run_griffin_lim(b, &config, &n, frames, 8, 1, &total);
    float *other = run_griffin_lim(b, &config, &n, frames, 8, 2, &total);
    assert_memory_equal(first, second, total * sizeof *first);
    assert_memory_not_equal(first, other, total * sizeof *first);
    n.items = 1;
    float *single = run_griffin_lim(b, &config, &n, frames, 8, 1, &alone);
    assert_int_equal(alone, total); /* one frame has no samples */
    assert_memory_equal(first, single, total * sizeof *first);
    free(first);
    free(second);
    free(other);
    free(single);
    free(pcm);
    free_batch(&n);
}

static void test_bits(void **state)
{
    (void)state;
    each_rig(check_bits, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_copy), cmocka_unit_test(test_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
