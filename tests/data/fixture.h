/* Small datasets for the tests: tables and recordings in the temporary folder, and what the log said. */
#ifndef TD_TESTS_DATA_FIXTURE_H
#define TD_TESTS_DATA_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "support/listen.h"
#include "support/temp_dir.h"

static char logged[1 << 16];

static inline void keep_log(void *context, td_log_level level, const char *message)
{
    (void)context;
    const size_t used = strlen(logged);
    snprintf(logged + used, sizeof logged - used, "%s: %s\n", td_log_level_name(level), message);
}

static inline void write_bytes(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static inline void write_text(const char *path, const char *text)
{
    write_bytes(path, text, strlen(text));
}

/* A quiet tone of `frames` samples. */
static inline void write_wav(const char *path, int rate_hz, int channels, sf_count_t frames)
{
    SF_INFO info = {.samplerate = rate_hz, .channels = channels, .format = SF_FORMAT_WAV | SF_FORMAT_PCM_16};
    short *samples = calloc((size_t)(frames * channels) + 1, sizeof *samples);
    assert_non_null(samples);
    for (sf_count_t i = 0; i < frames * channels; ++i)
        samples[i] = (short)(i % 50 * 100);
    SNDFILE *file = sf_open(path, SFM_WRITE, &info);
    assert_non_null(file);
    assert_int_equal(sf_writef_short(file, samples, frames), frames);
    sf_close(file);
    free(samples);
}

static inline void make_folder(const char *name)
{
    assert_int_equal(mkdir(temp_path(name), 0777), 0);
}

#endif
