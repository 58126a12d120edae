/* Winograd's convolutions: the numbers that ops/winograd.c and the kernels must agree on. Preprocessor lines only,
 * because C, OpenCL C and GLSL all read this file. */
#ifndef TD_KERNELS_WINOGRAD_GEOMETRY_H
#define TD_KERNELS_WINOGRAD_GEOMETRY_H

/* A tile is so many outputs, of so many taps at a time; it takes so many products. As many outputs as taps, so that
 * the next taps of a tile are those of the next tile. */
#define TD_WINOGRAD_STEP 4u
#define TD_WINOGRAD_POINTS 7u

/* Where vectors are wide a work-item keeps so many floats of transformed inputs for itself, of at most so many tiles
 * with outputs: what the second cache holds beside the weights. */
#define TD_WINOGRAD_ROOM 98304u
#define TD_WINOGRAD_ROWS 48u

#endif
