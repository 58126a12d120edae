/* The host's view of params.def: struct td_BODY_params for each kernel body,
 * filled by whoever launches it.
 *
 * The asserts hold what both dialects rely on: no padding, and no more bytes
 * than every Vulkan device takes as push constants. Covered by
 * tests/device/test_kernel_text.c.
 */
#ifndef TD_KERNELS_PARAMS_H
#define TD_KERNELS_PARAMS_H

#include <assert.h>
#include <stdint.h>

#include "kernels/params.def"

#define TD_KERNEL_MAX_PARAMS 128 /* bytes: the least push-constant space Vulkan promises */

#define TD_HOST_uint uint32_t
#define TD_HOST_int int32_t
#define TD_HOST_float float
#define TD_HOST_FIELD(type, name) TD_HOST_##type name;
#define TD_FOUR_BYTES(type, name) +4

#define TD_PARAMS_STRUCT(kernel)                                                                             \
    typedef struct td_##kernel##_params {                                                                    \
        TD_PARAMS_##kernel(TD_HOST_FIELD)                                                                    \
    } td_##kernel##_params;                                                                                  \
    static_assert(sizeof(td_##kernel##_params) == 0 TD_PARAMS_##kernel(TD_FOUR_BYTES), "padding");           \
    static_assert(sizeof(td_##kernel##_params) <= TD_KERNEL_MAX_PARAMS, "too many parameters");

TD_BODIES_basic(TD_PARAMS_STRUCT) TD_BODIES_move(TD_PARAMS_STRUCT) TD_BODIES_chain(TD_PARAMS_STRUCT)
    TD_BODIES_reduce(TD_PARAMS_STRUCT) TD_BODIES_norm(TD_PARAMS_STRUCT) TD_BODIES_loss(TD_PARAMS_STRUCT)
        TD_BODIES_attention(TD_PARAMS_STRUCT) TD_BODIES_gemm(TD_PARAMS_STRUCT)
            TD_BODIES_decode(TD_PARAMS_STRUCT) TD_BODIES_conv(TD_PARAMS_STRUCT)
                TD_BODIES_align(TD_PARAMS_STRUCT) TD_BODIES_sequence(TD_PARAMS_STRUCT)
                    TD_BODIES_optim(TD_PARAMS_STRUCT) TD_BODIES_audio(TD_PARAMS_STRUCT)
                        TD_BODIES_spectral(TD_PARAMS_STRUCT)

#endif
