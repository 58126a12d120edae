/* Samples to audio files: WAV, FLAC, OGG or MP3 by the name's ending, one channel, written by atomic rename. Does
 * not resample. Covered by tests/synth/test_audio_out.c
 * and tests/train/test_train_events.c.
 */
#ifndef TD_AUDIO_ENCODE_H
#define TD_AUDIO_ENCODE_H

#include <stddef.h>
#include <stdint.h>

#include "tandem/status.h"

/* TD_ERR_CONFIG if the path does not end in .wav, .flac, .ogg or .mp3; for use before any work is done. */
td_status td_audio_check_path(const char *path);

/* 16 bits a sample (OGG: Vorbis); beyond full scale is cut to it. The same samples give the same bytes.
 * TD_ERR_IO names the path and the reason; then an old file is untouched. */
td_status td_audio_encode(const char *path, const float *samples, size_t count, uint32_t rate);

/* The same file in memory; of `name` only the ending counts. *data: owned, free(); NULL on failure. */
td_status td_audio_encode_memory(const char *name, const float *samples, size_t count, uint32_t rate,
                                 char **data, size_t *bytes);

/* One sample as 16 bits, as above. */
int16_t td_audio_quantize(float sample);

/* The same of many, as two bytes each in the order of a WAV file. */
void td_audio_to_bytes(const float *samples, size_t count, unsigned char *out);

enum { TD_WAV_HEADER_BYTES = 44 };

/* The beginning of a WAV file whose length is not known yet, for samples that are written as they come. */
void td_audio_wav_header(uint32_t rate, unsigned char out[TD_WAV_HEADER_BYTES]);

#endif
