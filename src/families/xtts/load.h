/* Weights from a file with Coqui's names into a store. Tensors lie as they do in the file, except those of three axes
 * and more under "hifigan_decoder.", whose axes are reversed: [out, in, taps] becomes [taps, in, out], which is how
 * this program convolves (ops/conv.h). Weight norm, as two tensors in the file, is folded. Covered by
 * tests/xtts/test_xtts_parts.c.
 */
#ifndef TD_FAMILIES_XTTS_LOAD_H
#define TD_FAMILIES_XTTS_LOAD_H

#include "families/checkpoint.h"

/* Looks whether each parameter of a graph, its name behind a prefix, is in the file with as many numbers: before room is
 * made for it, so that a small file cannot ask for a large model. TD_ERR_FORMAT names the first that is not. */
td_status td_xtts_check_parameters(const td_checkpoint *checkpoint, const char *prefix,
                                   const td_graph *graph);

/* Fills all parameters and running statistics of a store. fp32, fp16 and bf16 are taken. TD_ERR_FORMAT names what is
 * missing or has another shape. */
td_status td_xtts_load(const td_checkpoint *checkpoint, td_store *store);

/* A tensor of the file as fp32, in its own layout; bytes times their scales, with what an adapter has learnt beside it.
 * *out: owned, free(); *count: its elements. */
td_status td_xtts_read_tensor(const td_checkpoint *checkpoint, const char *name, float **out, size_t *count);

/* How the matrices of the GPT's blocks lie in the file: TD_FORMAT_INT8, _BF16, or _FP32 for all that become floats. */
uint32_t td_xtts_stored_format(const td_checkpoint *checkpoint);

/* A matrix that lies there as bytes, [in, out], and the scales of its outputs. Borrowed until the checkpoint's close. */
typedef struct td_xtts_bytes {
    const int8_t *bytes;
    const float *scales;
    size_t in, out;
    const td_safetensors_tensor *tensor; /* td_safetensors_forget() when it was used */
} td_xtts_bytes;
td_status td_xtts_find_bytes(const td_checkpoint *checkpoint, const char *name, td_xtts_bytes *out);

#endif
