/* The table of kernels: ops.def joined with the texts that embed.c wrote at
 * build time. Covered by tests/device/test_kernel_text.c.
 */
#include "kernels/kernel.h"

#include "kernels/geometry.h"

/* Generated: cl_BODY (source text), and spirv_cpu_NAME and spirv_gpu_NAME
 * (words) of each kernel. */
#include "kernel_text.inc"

static const td_kernel kernels[TD_KERNEL_COUNT] = {
#define TD_KERNEL(kernel, body, group, text, ...)                                                            \
    [TD_K_##kernel] = {                                                                                      \
        .name = #kernel,                                                                                     \
        .entry = #body,                                                                                      \
        .options = "-DTD_GPU_WG=" #group "u " text,                                                          \
        .cl_source = cl_##body,                                                                              \
        .spirv = {[TD_CLASS_CPU] = spirv_cpu_##kernel, [TD_CLASS_GPU] = spirv_gpu_##kernel},                 \
        .spirv_bytes =                                                                                       \
            {[TD_CLASS_CPU] = sizeof spirv_cpu_##kernel, [TD_CLASS_GPU] = sizeof spirv_gpu_##kernel},        \
        .group_size = {[TD_DIALECT_CL] = {TD_GROUP_SIZE_CL_CPU, (group)},                                    \
                       [TD_DIALECT_GLSL] = {TD_GROUP_SIZE_GLSL_CPU, (group)}},                               \
        .params_bytes = sizeof(td_##body##_params),                                                          \
        .n_buffers = sizeof((uint8_t[]){__VA_ARGS__}),                                                       \
        .access = {__VA_ARGS__},                                                                             \
    },
#include "kernels/ops.def"
#undef TD_KERNEL
};

const td_kernel *td_kernel_get(td_kernel_id id)
{
    return &kernels[id];
}
