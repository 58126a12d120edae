/* Mel spectrograms, energy and pitch of a batch on a device, and signals back from mel spectrograms. Records
 * launches only; who submits them decides when. Covered by tests/ops/cases_audio.c, tests/audio/test_mel.c
 * and tests/audio/test_griffin_lim.c.
 */
#ifndef TD_AUDIO_MEL_H
#define TD_AUDIO_MEL_H

#include "audio/mel_config.h"
#include "device/dispatch.h"

/* A front end on a device: the settings and their tables in device memory. */
typedef struct td_mel td_mel;

/* Uploads the tables and waits for it. `memory` is borrowed until destroy. *out is owned. */
td_status td_mel_create(td_memory *memory, const td_mel_config *config, td_mel **out);

/* No list that uses it may be under way. */
void td_mel_destroy(td_mel *mel);

const td_mel_config *td_mel_get_config(const td_mel *mel); /* borrowed */

/* A ragged batch. Words of the spans in brackets. */
typedef struct td_mel_args {
    uint32_t items, max_frames; /* items with more frames lose those behind */
    td_span pcm;                /* samples of all items, one behind the other or anyhow */
    td_span ranges;             /* uint [items, 2]: first sample and number of samples, within pcm */
    td_span mel;                /* [items, max_frames, n_mels]; td_mel_pad_value() behind an item's frames */
    td_span energy;             /* [items, max_frames]: RMS under the window, 0 behind; or a zero span */
    td_span pitch;              /* [items, max_frames] in Hz, 0 where unvoiced and behind; or a zero span */
} td_mel_args;

/* Frames of item i: td_mel_frames(its samples). The same bits each time on one device. */
td_status td_mel_record(const td_mel *mel, td_list *list, const td_mel_args *args);

/* Signals by the fast Griffin-Lim algorithm. Zero means the usual value. */
typedef struct td_griffin_lim_args {
    uint32_t items, max_frames;
    td_span mel;       /* [items, max_frames, n_mels] */
    td_span ranges;    /* uint [items, 2]: first sample in `samples`, frames (at most max_frames) */
    td_span samples;   /* item i: (frames - 1) * hop samples of its range; nothing for fewer than 2 frames */
    td_span workspace; /* td_griffin_lim_workspace() */
    uint32_t iterations; /* 60 */
    uint64_t seed;       /* of the phases to begin with; each seed gives its own bits, the same each time */
} td_griffin_lim_args;

/* Words that a batch needs on the list's device. */
uint64_t td_griffin_lim_workspace(const td_mel *mel, td_kernel_class kernel_class, uint32_t items,
                                  uint32_t max_frames);
td_status td_griffin_lim_record(const td_mel *mel, td_list *list, const td_griffin_lim_args *args);

#endif
