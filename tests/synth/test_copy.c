/* Copy-synthesis: as long as the recording, the same spectrogram, the same bits for a seed. */
#include "fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "synth/copy.h"

enum { COUNT = 22050 };

/* A buzz of changing pitch. */
static void make_voice(float *samples)
{
    double phase = 0;
    for (size_t i = 0; i < COUNT; i++) {
        phase += (120 + 30 * sin(4e-4 * (double)i)) / 22050;
        samples[i] = (float)(0.3 * (phase - floor(phase) - 0.5));
    }
}

static double level(const float *samples, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)samples[i] * (double)samples[i];
    return sqrt(sum / (double)count);
}

static void test_copy(void **state)
{
    const td_mel_config config = td_mel_config_default();
    float samples[COUNT], *copies[3];
    size_t counts[3];
    td_mel *mel;
    td_vocoder *vocoder;
    rig r;
    (void)state;
    rig_open_on(&r, "cpu", false, 0);
    make_voice(samples);
    check(td_mel_create(r.memory, &config, &mel));
    check(td_vocoder_open("griffin-lim", mel, r.memory, NULL, &vocoder));
    for (uint64_t i = 0; i < 3; i++)
        check(td_copy_run(vocoder, mel, r.memory, samples, COUNT, i / 2, &copies[i], &counts[i]));
    assert_int_equal(counts[0], COUNT / 256 * 256);
    assert_memory_equal(copies[0], copies[1], counts[0] * sizeof(float));
    assert_memory_not_equal(copies[0], copies[2], counts[0] * sizeof(float));
    const double ratio = level(copies[0], counts[0]) / level(samples, COUNT);
    assert_true(ratio > 0.8 && ratio < 1.2);
    for (int i = 0; i < 3; i++)
        free(copies[i]);
    float *none;
    check(td_copy_run(vocoder, mel, r.memory, samples, 1, 0, &none, &counts[0]));
    assert_int_equal(counts[0], 0);
    free(none);
    td_vocoder_destroy(vocoder);
    td_mel_destroy(mel);
    rig_close(&r);
}

/* Items one by one are what they are in one call; a name that is not in the table. */
static void test_parts_of_a_batch(void **state)
{
    enum { ITEMS = 3, MOST = 20 };
    const td_mel_config config = td_mel_config_default();
    const uint32_t frames[ITEMS] = {20, 1, 12};
    td_vocoder_batch batch = {
        .items = ITEMS, .max_frames = MOST, .frames = frames, .count = ITEMS, .seed = 3};
    float *mels = calloc((size_t)ITEMS * MOST * config.n_mels, sizeof *mels), *all, *one;
    size_t firsts[ITEMS + 1], parts[ITEMS + 1];
    td_mel *mel;
    td_vocoder *vocoder;
    rig r;
    (void)state;
    assert_non_null(mels);
    for (size_t i = 0; i < (size_t)ITEMS * MOST * config.n_mels; i++)
        mels[i] = (float)sin(0.01 * (double)i);
    rig_open_on(&r, "cpu", false, 0);
    check(td_mel_create(r.memory, &config, &mel));
    refuse(TD_ERR_CONFIG, "griffin-lim", td_vocoder_open("none", mel, r.memory, NULL, &vocoder));
    check(td_vocoder_open("griffin-lim", mel, r.memory, &(td_vocoder_options){.iterations = 4}, &vocoder));
    check(td_vocoder_run_host(vocoder, &batch, mels, &all, firsts));
    batch.count = 1;
    for (batch.first = 0; batch.first < ITEMS; batch.first++) {
        const uint32_t i = batch.first;
        check(td_vocoder_run_host(vocoder, &batch, mels, &one, parts));
        assert_int_equal(parts[i], 0);
        assert_int_equal(parts[ITEMS], firsts[i + 1] - firsts[i]);
        assert_memory_equal(one, all + firsts[i], parts[ITEMS] * sizeof *one);
        free(one);
    }
    free(all);
    free(mels);
    td_vocoder_destroy(vocoder);
    td_mel_destroy(mel);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_copy), cmocka_unit_test(test_parts_of_a_batch)};
    return cmocka_run_group_tests(tests, temp_dir_make, temp_dir_remove);
}
