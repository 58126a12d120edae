/* What a recording is like, from its samples alone: level, noise, clipping, bandwidth, silence, a fingerprint that
 * survives a change of gain, and cepstra of its frames. Says nothing about what is usual (row_checks.h). Covered by
 * tests/data/test_row_checks.c.
 */
#ifndef TD_TOOLS_ROW_SOUND_H
#define TD_TOOLS_ROW_SOUND_H

#include <stddef.h>
#include <stdint.h>

#include "tandem/status.h"

enum {
    TD_SOUND_BANDS = 24,
    TD_SOUND_CEPSTRA = 12,
    TD_SOUND_PRINT_WORDS = 8,
    TD_SOUND_PRINT_BITS = 64 * TD_SOUND_PRINT_WORDS,
};

typedef struct td_row_sound {
    double seconds;
    double speech_s;       /* of frames that are not quiet: at most 40 dB below the loudest */
    double start_s, end_s; /* quiet frames before the first and behind the last of them */
    double peak_db;        /* of full scale; -120 for silence */
    double offset;         /* mean, as a share of full scale */
    double flat_share;     /* of the samples: in flat tops of the wave, at full scale or below */
    double level_db;       /* of what is not quiet */
    double over_noise_db;  /* how far that is above what is always there; at most 80 */
    double bandwidth_hz;   /* where the spectrum ends abruptly, else half the rate */
    uint64_t print[TD_SOUND_PRINT_WORDS]; /* few bits differ between copies, about half between others */
} td_row_sound;

/* Cepstra of the frames that are not quiet, one each 10 ms. */
typedef struct td_sound_frames {
    float (*cepstra)[TD_SOUND_CEPSTRA]; /* owned, free() */
    size_t count;
} td_sound_frames;

/* `frames` may be NULL. Thread-safe. `count` > 0. */
td_status td_row_sound_look(const float *samples, size_t count, uint32_t rate_hz, td_row_sound *out,
                            td_sound_frames *frames);

#endif
