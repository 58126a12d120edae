/* What the device layer knows of a kernel: its name, its buffers, and its text
 * in both dialects.
 *
 * The table is made by the build from ops.def; kernels are data, so a new
 * kernel touches no backend file. Covered by tests/device/test_kernel_text.c,
 * tests/device/test_kernels.c and tests/lint.
 */
#ifndef TD_KERNELS_KERNEL_H
#define TD_KERNELS_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/params.h"

#define TD_KERNEL_MAX_BUFFERS 8
#define TD_KERNEL_MAX_LOCAL 16384u /* bytes of local memory that a kernel of class GPU may take */

/* A kernel is built for one of two classes of device; see docs/kernels.md. */
typedef enum td_kernel_class {
    TD_CLASS_CPU, /* work-group of one (OpenCL) or one SIMD vector (Vulkan), wide
                     vectors, no barriers */
    TD_CLASS_GPU, /* work-groups of 64-256, local memory */
    TD_CLASS_COUNT
} td_kernel_class;

/* The language a kernel reaches its driver in. */
typedef enum td_dialect {
    TD_DIALECT_CL,   /* OpenCL C source */
    TD_DIALECT_GLSL, /* GLSL compiled to SPIR-V */
    TD_DIALECT_COUNT
} td_dialect;

typedef enum td_access {
    TD_ACCESS_READ = 1,
    TD_ACCESS_WRITE = 2,
    TD_ACCESS_READ_WRITE = 3,
} td_access;

typedef enum td_kernel_id {
#define TD_KERNEL(name, ...) TD_K_##name,
#include "kernels/ops.def"
#undef TD_KERNEL
    TD_KERNEL_COUNT
} td_kernel_id;

typedef struct td_kernel {
    const char *name;
    const char *entry;                     /* the body's name, entry point in OpenCL; "main" in SPIR-V */
    const char *options;                   /* of its row in ops.def, for the OpenCL compiler; SPIR-V
                                              was built with them */
    const char *cl_source;                 /* OpenCL C with its includes inlined, for both classes */
    const uint32_t *spirv[TD_CLASS_COUNT]; /* one module per class */
    size_t spirv_bytes[TD_CLASS_COUNT];    /* size of each */
    uint32_t group_size[TD_DIALECT_COUNT][TD_CLASS_COUNT]; /* work-items per group, all along x */
    uint32_t params_bytes;                                 /* size of its struct in params.h */
    uint32_t n_buffers;                                    /* bindings 0 .. n_buffers-1 */
    uint8_t access[TD_KERNEL_MAX_BUFFERS];                 /* td_access of each binding */
} td_kernel;

/* Borrowed forever. Cannot fail for a valid id. */
const td_kernel *td_kernel_get(td_kernel_id id);

#endif
