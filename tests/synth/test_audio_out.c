/* Audio files: what is written is read back, in every kind; the same samples give the same bytes; names and
 * places that cannot be are refused. */
#include "fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "audio/decode.h"
#include "audio/encode.h"
#include "base/file.h"

enum { COUNT = 30000, RATE = 22050 };

static void make_tone(float *samples)
{
    for (size_t i = 0; i < COUNT; i++)
        samples[i] = 0.5f * sinf(0.05f * (float)i);
}

static void test_round_trip(void **state)
{
    static const struct {
        const char *name;
        float tolerance;
    } KINDS[] = {{"a.wav", 4e-5f}, {"a.flac", 4e-5f}, {"a.OGG", 0.05f}, {"a.mp3", 0.05f}};
    const td_decode_options options = {.rate = RATE};
    float samples[COUNT];
    rig r;
    (void)state;
    rig_open_on(&r, "cpu", false, 0);
    make_tone(samples);
    for (size_t k = 0; k < sizeof KINDS / sizeof *KINDS; k++) {
        const char *path = temp_path(KINDS[k].name);
        char *bytes[2];
        size_t sizes[2];
        td_audio audio;
        for (size_t i = 0; i < 2; i++) {
            check(td_audio_encode(path, samples, COUNT, RATE));
            check(td_file_read(path, 1 << 24, &bytes[i], &sizes[i]));
        }
        assert_int_equal(sizes[0], sizes[1]);
        assert_memory_equal(bytes[0], bytes[1], sizes[0]);
        check(td_audio_decode(path, &options, &audio));
        assert_int_equal(audio.count, COUNT);
        for (size_t i = 0; i < COUNT; i++)
            assert_true(fabsf(audio.samples[i] - samples[i]) <= KINDS[k].tolerance);
        td_audio_free(&audio);
        free(bytes[0]);
        free(bytes[1]);
    }
    rig_close(&r);
}

static void test_limits(void **state)
{
    const float loud[] = {2, -2, 0};
    rig r;
    (void)state;
    rig_open_on(&r, "cpu", false, 0);
    assert_int_equal(td_audio_quantize(2), 32767);
    assert_int_equal(td_audio_quantize(-2), -32767);
    assert_int_equal(td_audio_quantize(0), 0);
    check(td_audio_encode(temp_path("loud.wav"), loud, 3, RATE));
    refuse(TD_ERR_CONFIG, ".wav, .flac, .ogg or .mp3", td_audio_encode(temp_path("a.aac"), loud, 3, RATE));
    refuse(TD_ERR_CONFIG, ".wav, .flac, .ogg or .mp3", td_audio_encode(temp_path("none"), loud, 3, RATE));
    refuse(TD_ERR_NOT_FOUND, "no/a.wav", td_audio_encode(temp_path("no/a.wav"), loud, 3, RATE));
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip), cmocka_unit_test(test_limits)};
    return cmocka_run_group_tests(tests, temp_dir_make, temp_dir_remove);
}
