/* Moments of optimizers in fewer bits than 32: how many bytes they take, and from and to floats on the host, the same as
 * the kernel has it (src/kernels/adamw_packed.kh). Covered by tests/graph/test_packed.c.
 *
 *   TD_STATE_BF16   bfloat16
 *   TD_STATE_INT8   blocks of TD_STATE_BLOCK elements: a float, the largest magnitude, and for each element its share of
 *                   that as a byte: with a sign (first moment), or of its square root (second moment)
 *
 * What was unpacked is packed to the same bytes again, so that checkpoints can hold either.
 */
#ifndef TD_GRAPH_PACKED_H
#define TD_GRAPH_PACKED_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/optim_geometry.h"

typedef enum td_state_format { TD_STATE_FP32, TD_STATE_BF16, TD_STATE_INT8 } td_state_format;

/* Of a block of so many elements; with 8 bits a multiple of TD_STATE_BLOCK, the floats behind the bytes. */
uint64_t td_packed_bytes(td_state_format format, uint64_t elements);

/* n elements in 8 bits: `bytes` [n], `largest` [n / TD_STATE_BLOCK rounded up]. */
void td_packed_encode(const float *values, uint64_t n, bool is_second, uint8_t *bytes, float *largest);
void td_packed_decode(const uint8_t *bytes, const float *largest, uint64_t n, bool is_second, float *values);

#endif
