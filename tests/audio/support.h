/* What the tests of src/audio share: every real device in both classes of kernels, and one call that takes a
 * batch from host memory through the front end and back. */
#ifndef TD_TESTS_AUDIO_SUPPORT_H
#define TD_TESTS_AUDIO_SUPPORT_H

#include "audio/mel.h"
#include "support/rig.h"

typedef void (*rig_test)(rig *r);

/* Runs the test on each usable device and class; `slow_too` also on lavapipe. At least one must be there. */
void each_rig(rig_test test, bool slow_too);

/* The signals of a batch, one behind the other; results owned by the caller's free(). */
typedef struct batch {
    uint32_t items, max_frames;
    const float *pcm;
    const uint32_t *samples; /* of each item */
    float *mel, *energy, *pitch;
} batch;

/* max_frames 0: as many as the longest item has. */
void run_mel(rig *b, const td_mel_config *config, batch *batch);

/* Signals of mel spectrograms [items, max_frames, bands]; returns `total` samples, owned. */
float *run_griffin_lim(rig *b, const td_mel_config *config, const batch *batch, const uint32_t *frames,
                       uint32_t iterations, uint64_t seed, size_t *total);

#endif
