/* What excites a vocoder: Gaussian noise, and pulse trains that follow a pitch track. Neither has gradients.
 * Covered by tests/ops/cases_spectral.c. */
#ifndef TD_OPS_SOURCE_H
#define TD_OPS_SOURCE_H

#include "device/dispatch.h"

/* y [n]: standard normal numbers of seed, stream, step [1] and element alone (kernels/noise.kh). */
typedef struct td_noise_args {
    uint32_t n;
    uint64_t seed, stream;
    td_span step, y;
} td_noise_args;
td_status td_op_noise(td_list *list, const td_noise_args *args);

/* Band-limited pulses at the pitch [items, frames] (Hz, 0 where unvoiced), from `phase` [items] turns on:
 * y [items, (frames - 1) hop], from the middle of the first frame to that of the last (kernels/pulse.kh). */
typedef struct td_pulse_args {
    uint32_t items, frames, hop;
    float rate; /* samples per second */
    td_span pitch, phase, y;
} td_pulse_args;
td_status td_op_pulse(td_list *list, const td_pulse_args *args);

#endif
