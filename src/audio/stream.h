/* A recording of any length, a piece at a time: one channel of floats, at a wanted rate from the start on, or at its own
 * rate from anywhere. Memory does not grow with the recording. Covered by tests/audio/test_stream.c.
 */
#ifndef TD_AUDIO_STREAM_H
#define TD_AUDIO_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "tandem/status.h"

typedef struct td_audio_stream td_audio_stream;

/* rate 0: the file's own. Errors as of td_audio_decode(). *out: owned. */
td_status td_audio_stream_open(const char *path, uint32_t rate, td_audio_stream **out);
void td_audio_stream_close(td_audio_stream *stream);

uint32_t td_audio_stream_source_rate(const td_audio_stream *stream);
uint64_t td_audio_stream_source_frames(const td_audio_stream *stream); /* as its header tells */

/* Up to `room` samples; *got is less only at the end. NaN and infinities become 0. */
td_status td_audio_stream_read(td_audio_stream *stream, float *to, size_t room, size_t *got);

/* The next sample to be read; only of a stream at the file's own rate. */
td_status td_audio_stream_seek(td_audio_stream *stream, uint64_t frame);

#endif
