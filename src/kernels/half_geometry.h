/* How numbers of 16 bits are kept: two to a 32-bit word, the element with the even index in the low half.
 * Preprocessor lines only, because C, OpenCL C and GLSL all read this file. */
#ifndef TD_KERNELS_HALF_GEOMETRY_H
#define TD_KERNELS_HALF_GEOMETRY_H

#define TD_FORMAT_FP32 0u /* not 16-bit: floats */
#define TD_FORMAT_BF16 1u /* the upper half of a float */
#define TD_FORMAT_FP16 2u /* IEEE half */

#define TD_HALF_WORDS(n) ((n) / 2 + (n) % 2)

#endif
