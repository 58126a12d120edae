/* A recording in pieces (audio/stream.h) is what audio/decode.h makes of it at once, and can be read from anywhere. */
#include <math.h>
#include <sndfile.h>
#include <stdlib.h>

#include "audio/decode.h"
#include "audio/stream.h"
#include "support/expect.h"
#include "support/temp_dir.h"

enum { FRAMES = 150001, RATE = 44100, CHANNELS = 2 };

static const char *write_noise(void)
{
    static float samples[FRAMES * CHANNELS];
    const char *path = temp_path("noise.wav");
    SF_INFO info = {.samplerate = RATE, .channels = CHANNELS, .format = SF_FORMAT_WAV | SF_FORMAT_FLOAT};
    uint32_t state = 1;
    for (size_t i = 0; i < FRAMES * CHANNELS; i++) {
        state = state * 1664525 + 1013904223;
        samples[i] = (float)(state >> 8) / 16777216.0f - 0.5f;
    }
    SNDFILE *file = sf_open(path, SFM_WRITE, &info);
    assert_non_null(file);
    assert_int_equal(sf_writef_float(file, samples, FRAMES), FRAMES);
    assert_int_equal(sf_close(file), 0);
    return path;
}

/* Reads all of it in pieces of `piece`; owned. */
static float *read_pieces(const char *path, uint32_t rate, size_t piece, size_t *count)
{
    td_audio_stream *stream;
    float *samples = calloc(2 * FRAMES, sizeof *samples);
    size_t got;
    assert_non_null(samples);
    *count = 0;
    check(td_audio_stream_open(path, rate, &stream));
    assert_int_equal(td_audio_stream_source_rate(stream), RATE);
    assert_int_equal(td_audio_stream_source_frames(stream), FRAMES);
    do {
        assert_true(*count + piece < 2 * FRAMES);
        check(td_audio_stream_read(stream, samples + *count, piece, &got));
        *count += got;
    } while (got == piece);
    td_audio_stream_close(stream);
    return samples;
}

static void test_pieces_are_the_whole(void **state)
{
    static const uint32_t RATES[] = {RATE, 22050, 16000};
    (void)state;
    const char *path = write_noise();
    for (size_t i = 0; i < 3; i++) {
        td_audio whole;
        size_t count;
        check(td_audio_decode(path, &(td_decode_options){.rate = RATES[i]}, &whole));
        float *parts = read_pieces(path, RATES[i] == RATE ? 0 : RATES[i], 7001, &count);
        assert_int_equal(count, whole.count);
        for (size_t k = 0; k < count; k++)
            assert_true(fabsf(parts[k] - whole.samples[k]) < 1e-6f);
        td_audio_free(&whole);
        free(parts);
    }
}

static void test_it_goes_anywhere(void **state)
{
    enum { AT = 100003, COUNT = 5000 };
    static float part[COUNT];
    (void)state;
    const char *path = write_noise();
    td_audio_stream *stream;
    td_audio whole;
    size_t got;
    check(td_audio_decode(path, &(td_decode_options){0}, &whole));
    check(td_audio_stream_open(path, 0, &stream));
    for (size_t round = 0; round < 2; round++) { /* forth, and back again */
        const size_t at = round ? 17 : AT;
        check(td_audio_stream_seek(stream, at));
        check(td_audio_stream_read(stream, part, COUNT, &got));
        assert_int_equal(got, COUNT);
        assert_memory_equal(part, whole.samples + at, sizeof part);
    }
    check(td_audio_stream_seek(stream, FRAMES - 10));
    check(td_audio_stream_read(stream, part, COUNT, &got));
    assert_int_equal(got, 10);
    td_audio_stream_close(stream);
    check(td_audio_stream_open(path, 8000, &stream));
    refuse(TD_ERR_ARGUMENT, "cannot seek", td_audio_stream_seek(stream, 3));
    td_audio_stream_close(stream);
    td_audio_free(&whole);
}

static void test_what_is_no_recording_is_refused(void **state)
{
    (void)state;
    td_audio_stream *stream;
    refuse(TD_ERR_NOT_FOUND, "none.wav|no such", td_audio_stream_open(temp_path("none.wav"), 0, &stream));
    refuse(TD_ERR_IO, "is a folder", td_audio_stream_open(temp_path("."), 0, &stream));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_pieces_are_the_whole, temp_dir_make, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_it_goes_anywhere, temp_dir_make, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_what_is_no_recording_is_refused, temp_dir_make, temp_dir_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
