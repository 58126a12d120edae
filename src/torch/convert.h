/* Elements of one type as another: floating-point ones as fp32, fp16 or bf16, others as they are. Covered by
 * tests/torch/test_convert.c. */
#ifndef TD_TORCH_CONVERT_H
#define TD_TORCH_CONVERT_H

#include <stdbool.h>

#include "base/safetensors.h"

/* Whether elements are floating-point numbers that can be converted. */
bool td_convert_is_float(td_safetensors_dtype dtype);
bool td_convert_can(td_safetensors_dtype from, td_safetensors_dtype to);

/* n elements; neither side need be aligned. */
void td_convert(const void *from, td_safetensors_dtype from_dtype, td_safetensors_dtype to_dtype, uint64_t n,
                void *to);

#endif
