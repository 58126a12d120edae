/* Audio files to samples: any format libsndfile reads, any rate and channel count, to one channel of floats
 * at the wanted rate. Reads in pieces, so that memory is the result's and a constant. Covered by
 * tests/audio/test_decode.c.
 */
#ifndef TD_AUDIO_DECODE_H
#define TD_AUDIO_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tandem/status.h"

enum { TD_DECODE_RATE_MIN = 1000, TD_DECODE_RATE_MAX = 384000 };

/* All zero but the rate: the file as it is. */
typedef struct td_decode_options {
    uint32_t rate;   /* wanted, TD_DECODE_RATE_MIN to TD_DECODE_RATE_MAX; 0: the file's own */
    double trim_db;  /* > 0: cut both ends where 10 ms are this far below the loudest 10 ms */
    double margin_s; /* but keep so much before and after the rest */
    double max_s;    /* > 0: a longer file is TD_ERR_LIMIT */
    float *into;     /* not NULL: the samples go here, and those of the result stay NULL */
    size_t room;     /* of `into`; more samples are TD_ERR_LIMIT */
    bool finite;     /* samples that are NaN or infinite are TD_ERR_FORMAT */
} td_decode_options;

/* What was found on the way. Counts are of the file's own samples, all channels. */
typedef struct td_audio_report {
    uint32_t source_rate, channels;
    uint64_t source_frames;
    uint64_t bad_samples;                /* NaN or infinite; taken as 0 */
    uint64_t clipped_samples;            /* at full scale or beyond */
    double dc;                           /* mean of the mono signal; not removed */
    double peak, rms;                    /* of the result before trimming */
    uint64_t trimmed_start, trimmed_end; /* samples of the result's rate */
} td_audio_report;

typedef struct td_audio {
    float *samples; /* owned: td_audio_free; NULL with `into` */
    size_t count;   /* > 0 */
    uint32_t rate;
    td_audio_report report;
} td_audio;

/* Errors name the file and the reason: TD_ERR_NOT_FOUND missing; TD_ERR_IO not readable; TD_ERR_FORMAT not
 * audio, empty, or without samples; TD_ERR_LIMIT too long. Thread-safe. On failure *out is zero. */
td_status td_audio_decode(const char *path, const td_decode_options *options, td_audio *out);
void td_audio_free(td_audio *audio);

#endif
