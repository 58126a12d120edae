/* What mel.c and griffin_lim.c share: the tables on the device, and how frames are dealt out. */
#ifndef TD_AUDIO_MEL_INTERNAL_H
#define TD_AUDIO_MEL_INTERNAL_H

#include "audio/mel.h"

typedef struct td_mel_constants {
    td_span floats, words;
    uint32_t shares;
    double window_power;
} td_mel_constants;

struct td_mel {
    td_mel_config config;
    td_memory *memory; /* borrowed */
    td_mel_constants mel, pitch;
};

/* Frames that a group takes, and blocks of them in an item. */
uint32_t td_mel_block(td_kernel_class kernel_class);
uint32_t td_mel_blocks(td_kernel_class kernel_class, uint32_t max_frames);

/* One of three kernels by n_fft. */
td_kernel_id td_mel_kernel(const td_mel *mel, td_kernel_id of_512, td_kernel_id of_1024,
                           td_kernel_id of_2048);

/* Operations of one transform of `items` times `max_frames` frames. */
double td_mel_flops(const td_mel *mel, uint32_t items, uint32_t max_frames);

#endif
