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
    check(td_vocoder_griffin_lim(mel, r.memory, 0, &vocoder));
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_copy)};
    return cmocka_run_group_tests(tests, temp_dir_make, temp_dir_remove);
}
