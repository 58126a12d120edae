/* What is known of a recording: the file's stamp (size and time), what its header tells and, if it was
 * listened to, its loudness and flaws. The stamp decides whether the rest must be found out again. Covered by
 * tests/data/test_dataset.c.
 */
#ifndef TD_DATA_CLIP_H
#define TD_DATA_CLIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum td_clip_state {
    TD_CLIP_UNKNOWN, /* never looked at */
    TD_CLIP_GOOD,
    TD_CLIP_MISSING,
    TD_CLIP_UNREADABLE, /* `detail` is the errno */
    TD_CLIP_EMPTY,      /* no byte, or no sample */
    TD_CLIP_NOT_AUDIO,  /* `detail` is libsndfile's error */
    TD_CLIP_BROKEN,     /* opens, but cannot be decoded; found by listening */
    TD_CLIP_NOT_FINITE, /* `n_bad` samples are not finite; found by listening */
    TD_CLIP_TWICE,      /* two files have the id */
    TD_CLIP_CUT,        /* ends before what its header announces */
    TD_CLIP_RATE,       /* `rate_hz` is not one that can be resampled */
    TD_CLIP_STATES,
} td_clip_state;

/* Part of a cache file: no pointers, no padding. */
typedef struct td_clip {
    int64_t file_bytes;
    int64_t mtime_ns;
    uint64_t frames; /* samples of one channel */
    uint32_t rate_hz;
    uint16_t channels;
    uint16_t state;
    int32_t detail;
    uint32_t is_listened;      /* 0 or 1; what follows is 0 before */
    uint32_t n_bad, n_clipped; /* samples, of all channels */
    float peak, rms;           /* of the mono mix, 1 = full scale */
    float offset;              /* its mean */
    float silence_s;           /* at both ends together */
} td_clip;

/* The stamp alone; the state is MISSING, UNREADABLE, EMPTY, or UNKNOWN for a file that is to be opened.
 * Thread-safe, cannot fail. */
td_clip td_clip_stamp(const char *path);

/* Opens a file that was stamped, and fills in the rest. Thread-safe, cannot fail. */
void td_clip_read(const char *path, td_clip *clip);

/* Decodes a good clip, from start to end. Thread-safe, cannot fail. */
void td_clip_listen(const char *path, td_clip *clip);

/* Whether `now`, a fresh stamp, tells that what `known` holds is still so. */
bool td_clip_is_current(const td_clip *known, const td_clip *now);

/* 0 for a clip that is not good. */
double td_clip_seconds(const td_clip *clip);

/* "cannot be opened: Permission denied"; only for a clip that is not good. */
void td_clip_describe(const td_clip *clip, char *out, size_t capacity);

#endif
