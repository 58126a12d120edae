/* The spectrogram of one recording and its pitch, made at once: of references, of what is copied. Covered by
 * tests/synth/test_copy.c.
 */
#ifndef TD_AUDIO_MEL_CLIP_H
#define TD_AUDIO_MEL_CLIP_H

#include "audio/mel.h"

/* A spectrogram on the device. */
typedef struct td_mel_clip {
    td_span mel;   /* [1, frames, n_mels] */
    td_span pitch; /* [1, frames] in Hz, 0 where unvoiced */
    td_span room;  /* where both lie; owned: td_mel_clip_free() */
    uint32_t frames;
} td_mel_clip;

/* Waits for the result. `count` > 0. */
td_status td_mel_clip_make(const td_mel *mel, td_memory *memory, const float *samples, size_t count,
                           td_mel_clip *out);
void td_mel_clip_free(td_memory *memory, td_mel_clip *clip);

#endif
