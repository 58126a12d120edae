/* A recording open for libsndfile, which takes a read that fails for the end of the file and may then parse
 * half a header to a wrong format: reads go through here, so that an error of the disk is known and nothing
 * that was made of it is used. Covered by tests/audio/test_decode.c and tests/faults/test_files.py.
 */
#ifndef TD_AUDIO_SOUND_FILE_H
#define TD_AUDIO_SOUND_FILE_H

#include <sndfile.h>
#include <soxr.h>
#include <stdbool.h>
#include <stdint.h>

#include "tandem/status.h"

enum { TD_SOUND_CHANNELS_MAX = 65536 };

typedef struct td_sound_file {
    SNDFILE *file; /* NULL: not open */
    SF_INFO info;
    int fd;
    int error;            /* errno of the first call that failed; 0: none has */
    sf_count_t announced; /* frames that a whole file has at least, by its header; SF_COUNT_MAX: more than are
                           * there; 0: it does not tell */
} td_sound_file;

/* False if the file cannot be opened or read (`error` tells why), or is not a recording (`error` is 0 and
 * sf_strerror(NULL) tells why). *out must stay where it is until td_sound_file_close(), which is allowed
 * after a failure too. */
bool td_sound_file_open(const char *path, td_sound_file *out);

/* The same, and what is no recording that can be used is refused with the path, the reason and what to do:
 * TD_ERR_NOT_FOUND, TD_ERR_IO, TD_ERR_FORMAT. */
td_status td_sound_file_require(const char *path, td_sound_file *out);

/* The failure of a read, told: `error` is set. */
td_status td_sound_file_fail(const td_sound_file *sound, const char *path);

/* One channel of floats from one rate to another, as recordings are resampled everywhere. `path` is for messages. *out:
 * owned, soxr_delete(). */
td_status td_sound_resampler(uint32_t from, uint32_t to, const char *path, soxr_t *out);

/* Whether the file ends before the last frame that it announces. Moves the place that is read from. */
bool td_sound_file_is_cut(td_sound_file *sound);
void td_sound_file_close(td_sound_file *sound);

#endif
