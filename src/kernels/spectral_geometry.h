/* The family "spectral": what host and kernels agree on beyond audio_geometry.h. Preprocessor lines only. */
#ifndef TD_KERNELS_SPECTRAL_GEOMETRY_H
#define TD_KERNELS_SPECTRAL_GEOMETRY_H

/* Channels of one group of `depthwise_weights`. */
#define TD_DEPTHWISE_TILE_CPU 64u
#define TD_DEPTHWISE_TILE_GPU 128u

/* Elements of one group of `noise`. */
#define TD_NOISE_BLOCK_CPU 4096u
#define TD_NOISE_BLOCK_GPU 512u

/* `pulse`: no pitch is taken for lower than this. */
#define TD_PULSE_LEAST_HZ 20.0f

#endif
