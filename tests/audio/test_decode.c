/* Audio files of every kind that came to mind, good and bad, written here with libsndfile. */
#include "support.h"

#include <math.h>
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "audio/decode.h"
#include "support/temp_dir.h"

#define PI 3.14159265358979323846

/* frames x channels floats to a file of that format. */
static const char *write_file(const char *name, int format, int rate, int channels, const float *x,
                              size_t frames)
{
    const char *path = temp_path(name);
    SF_INFO info = {.samplerate = rate, .channels = channels, .format = format};
    SNDFILE *file = sf_open(path, SFM_WRITE, &info);
    assert_non_null(file);
    assert_int_equal(sf_writef_float(file, x, (sf_count_t)frames), (sf_count_t)frames);
    assert_int_equal(sf_close(file), 0);
    return path;
}

static const char *write_bytes(const char *name, const void *bytes, size_t count)
{
    const char *path = temp_path(name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    fclose(file);
    return path;
}

/* A tone in every channel, owned. */
static float *make_tone(int rate, int channels, size_t frames, double hz, double size)
{
    float *x = calloc(frames * (size_t)channels, sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < frames; i++)
        for (int c = 0; c < channels; c++)
            x[i * (size_t)channels + (size_t)c] = (float)(size * sin(2 * PI * hz * (double)i / rate));
    return x;
}

static td_audio decode(const char *path, td_decode_options options)
{
    td_audio audio;
    if (options.rate == 0) options.rate = 22050;
    check(td_audio_decode(path, &options, &audio));
    return audio;
}

static void refuse_file(const char *path, td_status status, const char *word)
{
    td_audio audio = {.count = 1};
    const td_decode_options options = {.rate = 22050, .max_s = 100};
    refuse(status, word, td_audio_decode(path, &options, &audio));
    assert_non_null(strstr(td_error_last()->message, path));
    assert_null(audio.samples);
}

static void test_exact(void **state)
{
    float *x = make_tone(22050, 1, 5000, 440, 0.5);
    td_audio audio = decode(write_file("exact.wav", SF_FORMAT_WAV | SF_FORMAT_FLOAT, 22050, 1, x, 5000),
                            (td_decode_options){0});
    (void)state;
    assert_int_equal(audio.count, 5000);
    assert_memory_equal(audio.samples, x, 5000 * sizeof *x);
    assert_int_equal(audio.report.bad_samples + audio.report.clipped_samples, 0);
    assert_true(fabs(audio.report.peak - 0.5) < 1e-3 && fabs(audio.report.rms - 0.3535) < 1e-3);
    td_audio_free(&audio);
    free(x);
}

/* Whatever the format, rate and channels: the same tone comes out. */
static void test_formats(void **state)
{
    static const struct {
        const char *name;
        int format, rate, channels;
    } FILES[] = {{"a.wav", SF_FORMAT_WAV | SF_FORMAT_PCM_16, 44100, 2},
                 {"b.flac", SF_FORMAT_FLAC | SF_FORMAT_PCM_24, 48000, 1},
                 {"c.ogg", SF_FORMAT_OGG | SF_FORMAT_VORBIS, 22050, 2},
                 {"d.aiff", SF_FORMAT_AIFF | SF_FORMAT_PCM_16, 16000, 1},
                 {"e.wav", SF_FORMAT_WAV | SF_FORMAT_ULAW, 8000, 1},
                 {"f.w64", SF_FORMAT_W64 | SF_FORMAT_DOUBLE, 192000, 8},
                 {"g.au", SF_FORMAT_AU | SF_FORMAT_PCM_32, 11025, 3}};
    (void)state;
    for (size_t f = 0; f < sizeof FILES / sizeof *FILES; f++) {
        const size_t frames = (size_t)FILES[f].rate; /* a second */
        float *x = make_tone(FILES[f].rate, FILES[f].channels, frames, 500, 0.5);
        td_audio audio =
            decode(write_file(FILES[f].name, FILES[f].format, FILES[f].rate, FILES[f].channels, x, frames),
                   (td_decode_options){0});
        double worst = 0;
        assert_true(audio.count >= 22049 && audio.count <= 22051);
        assert_int_equal(audio.report.channels, FILES[f].channels);
        assert_int_equal(audio.report.source_rate, FILES[f].rate);
        assert_int_equal(audio.report.source_frames, frames);
        for (size_t i = 2000; i < 20000; i++)
            worst = fmax(worst, fabs((double)audio.samples[i] - 0.5 * sin(2 * PI * 500 * (double)i / 22050)));
        if (!(worst < 0.03)) fail_msg("%s differs by %g", FILES[f].name, worst);
        if (f < 2) assert_true(worst < 1e-3);
        td_audio_free(&audio);
        free(x);
    }
}

static void test_checks(void **state)
{
    float x[2000];
    (void)state;
    for (size_t i = 0; i < 2000; i++)
        x[i] = 0.1f;
    x[10] = NAN;
    x[11] = INFINITY;
    x[12] = -INFINITY;
    x[20] = 1;
    x[21] = -1.5f;
    td_audio audio = decode(write_file("bad.wav", SF_FORMAT_WAV | SF_FORMAT_FLOAT, 22050, 1, x, 2000),
                            (td_decode_options){0});
    assert_int_equal(audio.report.bad_samples, 3);
    assert_int_equal(audio.report.clipped_samples, 2);
    assert_true(audio.samples[10] == 0 && audio.samples[12] == 0);
    assert_true(fabs(audio.report.dc - 0.1) < 1e-2);
    td_audio_free(&audio);
}

/* 0.5 s of silence, 1 s of tone, 0.25 s of silence. */
static void test_trim(void **state)
{
    float *x = make_tone(22050, 1, 22050 * 7 / 4, 300, 0.2);
    (void)state;
    memset(x, 0, 11025 * sizeof *x);
    memset(x + 33075, 0, (size_t)(22050 * 7 / 4 - 33075) * sizeof *x);
    const char *path = write_file("trim.wav", SF_FORMAT_WAV | SF_FORMAT_FLOAT, 22050, 1, x, 22050 * 7 / 4);
    td_audio audio = decode(path, (td_decode_options){.trim_db = 40, .margin_s = 0.05});
    assert_true(fabs((double)audio.report.trimmed_start - 0.45 * 22050) < 300);
    assert_true(fabs((double)audio.report.trimmed_end - 0.20 * 22050) < 300);
    assert_int_equal(audio.count + audio.report.trimmed_start + audio.report.trimmed_end, 22050 * 7 / 4);
    assert_memory_equal(audio.samples, x + audio.report.trimmed_start, audio.count * sizeof *x);
    td_audio_free(&audio);
    memset(x, 0, 5000 * sizeof *x);
    path = write_file("silent.wav", SF_FORMAT_WAV | SF_FORMAT_FLOAT, 22050, 1, x, 5000);
    audio = decode(path, (td_decode_options){.trim_db = 40});
    assert_int_equal(audio.count, 5000);
    td_audio_free(&audio);
    free(x);
}

static void test_short(void **state)
{
    const float x[] = {0.5f, 0.25f};
    (void)state;
    td_audio audio = decode(write_file("one.wav", SF_FORMAT_WAV | SF_FORMAT_PCM_16, 22050, 1, x, 1),
                            (td_decode_options){0});
    assert_int_equal(audio.count, 1);
    td_audio_free(&audio);
    audio = decode(write_file("two.wav", SF_FORMAT_WAV | SF_FORMAT_PCM_16, 8000, 1, x, 2),
                   (td_decode_options){0});
    assert_true(audio.count > 0 && audio.count < 10);
    td_audio_free(&audio);
}

static void test_bad_files(void **state)
{
    static const char TEXT[] = "LJ001|this is a text and not a recording|\n";
    const float none[1] = {0};
    float *x = make_tone(22050, 1, 22050, 300, 0.2);
    char head[44];
    (void)state;
    refuse_file(temp_path("missing.wav"), TD_ERR_NOT_FOUND, "no such");
    refuse_file(temp_dir, TD_ERR_IO, "folder");
    refuse_file(write_bytes("empty.wav", "", 0), TD_ERR_FORMAT, "0 bytes");
    refuse_file(write_bytes("text.wav", TEXT, sizeof TEXT), TD_ERR_FORMAT, "not audio");
    refuse_file(write_file("none.wav", SF_FORMAT_WAV | SF_FORMAT_PCM_16, 22050, 1, none, 0), TD_ERR_FORMAT,
                "no samples");
    /* Only the head of a good file. */
    FILE *file = fopen(write_file("whole.wav", SF_FORMAT_WAV | SF_FORMAT_PCM_16, 22050, 1, x, 22050), "rb");
    assert_non_null(file);
    assert_int_equal(fread(head, 1, sizeof head, file), sizeof head);
    fclose(file);
    refuse_file(write_bytes("head.wav", head, sizeof head), TD_ERR_FORMAT, "head.wav");
    refuse_file(write_bytes("half_head.wav", head, 20), TD_ERR_FORMAT, "not audio");
    const char *closed = write_file("closed.wav", SF_FORMAT_WAV | SF_FORMAT_PCM_16, 22050, 1, x, 100);
    assert_int_equal(chmod(closed, 0), 0);
    if (geteuid() != 0) refuse_file(closed, TD_ERR_IO, "denied");
    free(x);
}

/* The first `bytes` of a file, in another. */
static const char *cut_file(const char *path, const char *name, size_t bytes)
{
    char *content = malloc(bytes);
    FILE *file = fopen(path, "rb");
    assert_true(content != NULL && file != NULL);
    assert_int_equal(fread(content, 1, bytes, file), bytes);
    fclose(file);
    path = write_bytes(name, content, bytes);
    free(content);
    return path;
}

static void test_finding_04_cut_files(void **state)
{
    static const struct {
        const char *name;
        int format;
    } FILES[] = {
        {"wav", SF_FORMAT_WAV | SF_FORMAT_PCM_16},          {"adpcm.wav", SF_FORMAT_WAV | SF_FORMAT_MS_ADPCM},
        {"aiff", SF_FORMAT_AIFF | SF_FORMAT_PCM_16},        {"au", SF_FORMAT_AU | SF_FORMAT_PCM_16},
        {"flac", SF_FORMAT_FLAC | SF_FORMAT_PCM_16},        {"ogg", SF_FORMAT_OGG | SF_FORMAT_VORBIS},
        {"mp3", SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III},
    };
    enum { FRAMES = 60000 };
    float *x = make_tone(22050, 1, FRAMES, 300, 0.2);
    (void)state;
    for (size_t i = 0; i < FRAMES; ++i) /* so that it does not shrink to nothing */
        x[i] += 0.1f * (float)(i * i % 101) / 101;
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; ++i) {
        struct stat about;
        char whole[512], name[32];
        snprintf(name, sizeof name, "whole.%s", FILES[i].name);
        snprintf(whole, sizeof whole, "%s", write_file(name, FILES[i].format, 22050, 1, x, FRAMES));
        td_audio audio = decode(whole, (td_decode_options){0});
        assert_in_range(audio.count, FRAMES, FRAMES + 1000);
        td_audio_free(&audio);
        assert_int_equal(stat(whole, &about), 0);
        for (int part = 4; part <= 8; part += 2) { /* tenths */
            snprintf(name, sizeof name, "cut.%s", FILES[i].name);
            refuse_file(cut_file(whole, name, (size_t)about.st_size / 10 * (size_t)part), TD_ERR_FORMAT,
                        "cut short");
        }
    }
    free(x);
}

/* Who writes WAV to a pipe does not know its length. */
static void test_finding_04_untold_length(void **state)
{
    unsigned char wav[44 + 2000];
    float *x = make_tone(22050, 1, 1000, 300, 0.2);
    (void)state;
    FILE *file = fopen(write_file("piped.wav", SF_FORMAT_WAV | SF_FORMAT_PCM_16, 22050, 1, x, 1000), "rb");
    assert_non_null(file);
    assert_int_equal(fread(wav, 1, sizeof wav, file), sizeof wav);
    fclose(file);
    assert_memory_equal(wav + 36, "data", 4);
    memset(wav + 4, 0xff, 4);
    memset(wav + 40, 0xff, 4);
    td_audio audio = decode(write_bytes("piped.wav", wav, sizeof wav), (td_decode_options){0});
    assert_int_equal(audio.count, 1000);
    td_audio_free(&audio);
    free(x);
}

/* Eight channels at 192 kHz: memory stays that of the result and a constant; what is too long is refused. */
static void test_long(void **state)
{
    enum { RATE = 192000, CHANNELS = 8, SECONDS = 30 };
    float *x = make_tone(RATE, CHANNELS, RATE, 500, 0.5);
    const char *path = temp_path("long.wav");
    SF_INFO info = {.samplerate = RATE, .channels = CHANNELS, .format = SF_FORMAT_WAV | SF_FORMAT_PCM_U8};
    SNDFILE *file = sf_open(path, SFM_WRITE, &info);
    struct rusage before, after;
    td_audio none;
    (void)state;
    assert_non_null(file);
    for (int i = 0; i < SECONDS; i++)
        assert_int_equal(sf_writef_float(file, x, RATE), RATE);
    sf_close(file);
    free(x);
    getrusage(RUSAGE_SELF, &before);
    td_audio audio = decode(path, (td_decode_options){0});
    getrusage(RUSAGE_SELF, &after);
    assert_true(llabs((long long)audio.count - SECONDS * 22050) < 10);
    const long result_kb = (long)(audio.count * sizeof(float) / 1024);
    assert_true(after.ru_maxrss - before.ru_maxrss < 3 * result_kb + 8192);
    td_audio_free(&audio);
    assert_int_equal(td_audio_decode(path, &(td_decode_options){.rate = 22050, .max_s = 10}, &none),
                     TD_ERR_LIMIT);
    assert_int_equal(td_audio_decode(path, &(td_decode_options){.rate = 10}, &none), TD_ERR_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_exact),
                                       cmocka_unit_test(test_formats),
                                       cmocka_unit_test(test_checks),
                                       cmocka_unit_test(test_trim),
                                       cmocka_unit_test(test_short),
                                       cmocka_unit_test(test_bad_files),
                                       cmocka_unit_test(test_long),
                                       cmocka_unit_test(test_finding_04_cut_files),
                                       cmocka_unit_test(test_finding_04_untold_length)};
    return cmocka_run_group_tests(tests, temp_dir_make, temp_dir_remove);
}
