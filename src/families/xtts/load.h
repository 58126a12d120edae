/* Weights from a file with Coqui's names into a store. Tensors lie as they do in the file, except those of three axes
 * and more under "hifigan_decoder.", whose axes are reversed: [out, in, taps] becomes [taps, in, out], which is how
 * this program convolves (ops/conv.h). Weight norm, as two tensors in the file, is folded. Covered by
 * tests/xtts/test_xtts_parts.c.
 */
#ifndef TD_FAMILIES_XTTS_LOAD_H
#define TD_FAMILIES_XTTS_LOAD_H

#include "families/checkpoint.h"

/* Fills all parameters and running statistics of a store. fp32, fp16 and bf16 are taken. TD_ERR_FORMAT names what is
 * missing or has another shape. */
td_status td_xtts_load(const td_checkpoint *checkpoint, td_store *store);

/* A tensor of the file as fp32, in its own layout, with what an adapter has learnt beside it. *out: owned, free(); *count: its elements. */
td_status td_xtts_read_tensor(const td_checkpoint *checkpoint, const char *name, float **out, size_t *count);

#endif
