/* Mel spectrograms against golden files that an independent script made (tests/oracle/make_mel_golden.py), in
 * one ragged batch too; pitch of known tones; lengths at the edges; ten minutes at once. */
#include "support.h"

#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

#define MOST_ERROR 1e-3 /* in ln units */

typedef struct golden {
    char *data; /* owned */
    td_mel_config config;
    uint32_t samples, frames, bands;
    float *pcm; /* owned */
    const float *mel;
} golden;

static void read_golden(const char *path, golden *out)
{
    static const char MAGIC[] = "TDMEL1\n";
    uint32_t head[3];
    size_t bytes;
    check(td_file_read(path, 1 << 20, &out->data, &bytes));
    assert_memory_equal(out->data, MAGIC, strlen(MAGIC));
    char *settings = out->data + strlen(MAGIC);
    char *end = strstr(settings, "\n\n");
    assert_non_null(end);
    end[1] = 0;
    check(td_mel_config_parse(settings, &out->config));
    const char *at = end + 2;
    memcpy(head, at, sizeof head);
    out->samples = head[0];
    out->frames = head[1];
    out->bands = head[2];
    at += sizeof head;
    assert_int_equal(bytes, (size_t)(at - out->data) + 2 * out->samples + 4 * out->frames * out->bands);
    out->pcm = calloc(out->samples + 1, sizeof(float));
    float *mel = calloc((size_t)out->frames * out->bands, sizeof(float));
    assert_true(out->pcm && mel);
    for (uint32_t i = 0; i < out->samples; i++) {
        int16_t value;
        memcpy(&value, at + 2 * i, 2);
        out->pcm[i] = (float)value / 32767.0f;
    }
    memcpy(mel, at + 2 * out->samples, 4 * (size_t)out->frames * out->bands);
    out->mel = mel;
}

static void free_golden(golden *g)
{
    free(g->data);
    free(g->pcm);
    free((void *)(uintptr_t)g->mel);
}

static size_t find_golden(glob_t *found)
{
    assert_int_equal(glob(GOLDEN_DIR "/mel_*.bin", 0, NULL, found), 0);
    assert_true(found->gl_pathc >= 10);
    return found->gl_pathc;
}

static double largest_error(const float *got, const float *expected, size_t count)
{
    double worst = 0;
    for (size_t i = 0; i < count; i++) {
        const double error = fabs((double)got[i] - (double)expected[i]);
        if (!(error <= worst)) worst = error;
    }
    return worst;
}

static void compare_golden(rig *b)
{
    glob_t found;
    for (size_t i = 0, n = find_golden(&found); i < n; i++) {
        golden g = {0};
        read_golden(found.gl_pathv[i], &g);
        batch one = {.items = 1, .pcm = g.pcm, .samples = &g.samples};
        run_mel(b, &g.config, &one);
        assert_int_equal(one.max_frames, g.frames);
        const double error = largest_error(one.mel, g.mel, (size_t)g.frames * g.bands);
        print_message("  %-18s %.1e\n", strrchr(found.gl_pathv[i], '/') + 1, error);
        if (!(error <= MOST_ERROR)) fail_msg("%s differs by %g", found.gl_pathv[i], error);
        free(one.mel);
        free(one.energy);
        free(one.pitch);
        free_golden(&g);
    }
    globfree(&found);
}

static void test_golden(void **state)
{
    (void)state;
    each_rig(compare_golden, true);
}

/* An item's numbers must not depend on its neighbours: all the golden signals of the usual settings at once.
 */
static void compare_ragged(rig *b)
{
    enum { MOST = 32 };
    golden all[MOST] = {{0}};
    uint32_t samples[MOST] = {0};
    td_mel_config config = {0};
    glob_t found;
    uint32_t items = 0;
    size_t total = 0;
    for (size_t i = 0, n = find_golden(&found); i < n && items < MOST - 1; i++) {
        read_golden(found.gl_pathv[i], &all[items]);
        if (all[items].config.n_fft != 1024) {
            free_golden(&all[items]);
            continue;
        }
        config = all[items].config;
        samples[items] = all[items].samples;
        total += samples[items++];
    }
    float *pcm = calloc(total, sizeof *pcm);
    assert_non_null(pcm);
    for (uint32_t i = 0, at = 0; i < items; at += samples[i++])
        memcpy(pcm + at, all[i].pcm, samples[i] * sizeof *pcm);
    batch n = {.items = items + 1, .pcm = pcm, .samples = samples}; /* the last one is empty */
    run_mel(b, &config, &n);
    const float pad = td_mel_pad_value(&config);
    for (uint32_t i = 0; i <= items; i++) {
        const float *mel = n.mel + (size_t)i * n.max_frames * config.n_mels;
        const uint32_t frames = td_mel_frames(&config, samples[i]);
        if (frames) assert_true(largest_error(mel, all[i].mel, (size_t)frames * config.n_mels) <= MOST_ERROR);
        for (size_t k = (size_t)frames * config.n_mels; k < (size_t)n.max_frames * config.n_mels; k++)
            assert_true(mel[k] == pad);
        for (uint32_t t = frames; t < n.max_frames; t++)
            assert_true(n.energy[i * n.max_frames + t] == 0 && n.pitch[i * n.max_frames + t] == 0);
    }
    for (uint32_t i = 0; i < items; i++)
        free_golden(&all[i]);
    free(pcm);
    free(n.mel);
    free(n.energy);
    free(n.pitch);
    globfree(&found);
}

static void test_ragged(void **state)
{
    (void)state;
    each_rig(compare_ragged, false);
}

/* Tones with overtones, the fundamental weak; noise and silence have no pitch. */
static void track_pitch(rig *b)
{
    static const double TONES[] = {70, 98.7, 123.4, 180, 220.5, 301, 440, 0};
    enum { N = 11025, ITEMS = sizeof TONES / sizeof *TONES };
    const td_mel_config config = td_mel_config_default();
    uint32_t samples[ITEMS];
    float *pcm = calloc((size_t)ITEMS * N, sizeof *pcm);
    assert_non_null(pcm);
    for (size_t i = 0; i < ITEMS; i++) {
        samples[i] = N;
        for (size_t k = 0; k < N && TONES[i] > 0; k++)
            for (int h = 1; h < 9; h++)
                pcm[i * N + k] += (float)((h == 1 ? 0.02 : 0.1) *
                                          sin(2 * 3.14159265358979 * TONES[i] * h * (double)k / 22050 + h));
    }
    uint32_t state = 1;
    for (size_t k = 0; k < N; k++) { /* the last item is noise */
        state = state * 1664525u + 1013904223u;
        pcm[(ITEMS - 1) * N + k] = (float)(state >> 8) * 0x1p-24f - 0.5f;
    }
    batch n = {.items = ITEMS, .pcm = pcm, .samples = samples};
    run_mel(b, &config, &n);
    for (uint32_t i = 0; i < ITEMS; i++) {
        uint32_t wrong = 0;
        for (uint32_t t = 3; t + 3 < n.max_frames; t++)
            wrong += !(fabs((double)n.pitch[i * n.max_frames + t] - TONES[i]) <= 0.01 * TONES[i]);
        if (wrong > (TONES[i] > 0 ? 0 : n.max_frames / 10)) fail_msg("%g Hz: %u wrong", TONES[i], wrong);
    }
    free(pcm);
    free(n.mel);
    free(n.energy);
    free(n.pitch);
}

static void test_pitch(void **state)
{
    (void)state;
    each_rig(track_pitch, false);
}

static void take_ten_minutes(rig *b)
{
    const uint32_t samples = 600 * 22050;
    const td_mel_config config = td_mel_config_default();
    float *pcm = calloc(samples, sizeof *pcm);
    assert_non_null(pcm);
    for (uint32_t i = 0; i < samples; i++)
        pcm[i] = 0.5f * sinf(0.05f * (float)(i % 4096));
    batch n = {.items = 1, .pcm = pcm, .samples = &samples};
    run_mel(b, &config, &n);
    assert_int_equal(n.max_frames, 51680);
    const float *early = n.mel + 1600 * (size_t)config.n_mels, *late = n.mel + 49600 * (size_t)config.n_mels;
    assert_memory_equal(early, late, config.n_mels * sizeof(float)); /* 3000 periods apart */
    assert_true(n.energy[51600] > 0.3f && n.energy[51600] < 0.4f);
    free(pcm);
    free(n.mel);
    free(n.energy);
    free(n.pitch);
}

static void test_ten_minutes(void **state)
{
    (void)state;
    each_rig(take_ten_minutes, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_golden), cmocka_unit_test(test_ragged),
                                       cmocka_unit_test(test_pitch), cmocka_unit_test(test_ten_minutes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
