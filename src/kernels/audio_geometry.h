/* The family "audio": what host and kernels agree on about frames and tables. Preprocessor lines only.
 *
 * A group of class CPU takes TD_FRAME_BLOCK_CPU neighbouring frames, as many at once as a vector has lanes;
 * one of class GPU takes one. Spectra between kernels lie in blocks of as many frames: element k of frame t
 * of an item is ((t / block) * bins + k) * block + t % block. */
#ifndef TD_KERNELS_AUDIO_GEOMETRY_H
#define TD_KERNELS_AUDIO_GEOMETRY_H

#define TD_FRAME_BLOCK_CPU 16u
#define TD_FRAME_BLOCK_GPU 1u

#define TD_MEL_MAX_BANDS 128u

/* Pitch: samples of a frame, points of its transform (so that correlations do not wrap), and the longest lag.
 */
#define TD_PITCH_WINDOW 1024u
#define TD_PITCH_LOG2 11
#define TD_PITCH_MAX_LAG 511u

#endif
