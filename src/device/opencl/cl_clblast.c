/* CLBlast behind a recorded command; see cl_clblast.h. Its temporary memory comes from the caller, so that a
 * replay allocates nothing, and a batch is a loop of products, since its batched routine has no such form. */
#include "device/opencl/cl_clblast.h"

#include <clblast_c.h>
#include <dlfcn.h>
#include <stdlib.h>

#include "device/opencl/opencl.h"

#define LIBRARY "libclblast.so.1"

struct td_cl_clblast {
    bool usable;
    __typeof__(CLBlastSgemmWithTempBuffer) *gemm;
    __typeof__(CLBlastSGemmTempBufferSize) *temp_bytes;
    __typeof__(CLBlastClearCache) *clear_cache;
};

static void load(td_cl_clblast *clblast)
{
    /* It has destructors of its own that call the driver: never unloaded. */
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) return;
    clblast->gemm = (__typeof__(clblast->gemm))dlsym(library, "CLBlastSgemmWithTempBuffer");
    clblast->temp_bytes = (__typeof__(clblast->temp_bytes))dlsym(library, "CLBlastSGemmTempBufferSize");
    clblast->clear_cache = (__typeof__(clblast->clear_cache))dlsym(library, "CLBlastClearCache");
    clblast->usable = clblast->gemm && clblast->temp_bytes && clblast->clear_cache;
}

const char *td_cl_clblast_refuse(td_device *base)
{
    if (base->info.api != TD_API_OPENCL) return "CLBlast works on OpenCL devices only";
    td_cl_device *device = td_cl_device_of(base);
    pthread_mutex_lock(&device->mutex);
    if (!device->clblast) {
        device->clblast = calloc(1, sizeof *device->clblast);
        if (device->clblast) load(device->clblast);
    }
    const bool usable = device->clblast && device->clblast->usable;
    pthread_mutex_unlock(&device->mutex);
    return usable ? NULL : LIBRARY " cannot be opened or is too old; install libclblast1";
}

void td_cl_clblast_close(td_cl_device *device)
{
    /* Its cache holds kernels of a context that is about to go. */
    if (device->clblast && device->clblast->usable) (void)device->clblast->clear_cache();
    free(device->clblast);
}

static CLBlastTranspose transpose_of(uint32_t is_transposed)
{
    return is_transposed ? CLBlastTransposeYes : CLBlastTransposeNo;
}

/* Whether it needs to copy an operand depends on its offset, hence the second question for a batch. */
uint64_t td_cl_clblast_workspace(td_device *base, const td_cl_clblast_gemm *g)
{
    const td_cl_device *device = td_cl_device_of(base);
    cl_command_queue queue = device->service;
    size_t most = 0;
    for (size_t i = 0; i < (g->batch > 1 ? 2 : 1); i++) {
        size_t bytes = 0;
        const CLBlastStatusCode code = device->clblast->temp_bytes(
            CLBlastLayoutRowMajor, transpose_of(g->a_transposed), transpose_of(g->b_transposed), g->m, g->n,
            g->k, i * g->stride_a, g->lda, i * g->stride_b, g->ldb, i * g->stride_c, g->ldc, &queue, &bytes);
        if (code == CLBlastSuccess && bytes > most) most = bytes;
    }
    return most;
}

static cl_int enqueue_gemm(const td_cl_device *device, cl_command_queue queue, const cl_mem *mems,
                           const void *params)
{
    const td_cl_clblast_gemm *g = params;
    CLBlastStatusCode code = CLBlastSuccess;
    for (size_t i = 0; i < g->batch && code == CLBlastSuccess; i++) {
        code = device->clblast->gemm(
            CLBlastLayoutRowMajor, transpose_of(g->a_transposed), transpose_of(g->b_transposed), g->m, g->n,
            g->k, 1.0f, mems[0], i * g->stride_a, g->lda, mems[1], i * g->stride_b, g->ldb,
            g->accumulate ? 1.0f : 0.0f, mems[2], i * g->stride_c, g->ldc, &queue, NULL, mems[3]);
    }
    return (cl_int)code;
}

td_status td_cl_clblast_record(td_list *list, const td_cl_clblast_gemm *gemm, td_span a, td_span b, td_span c,
                               td_span workspace, td_cost cost)
{
    static const td_cl_native GEMM = {.name = "CLBlastSgemm", .enqueue = enqueue_gemm};
    static const td_access ACCESS[] = {TD_ACCESS_READ, TD_ACCESS_READ, TD_ACCESS_READ_WRITE,
                                       TD_ACCESS_READ_WRITE};
    const td_span spans[] = {a, b, c, workspace};
    const td_native_command command = {
        .api = TD_API_OPENCL,
        .native = &GEMM,
        .name = GEMM.name,
        .spans = spans,
        .access = ACCESS,
        .n_spans = workspace.buffer ? 4 : 3,
        .params = gemm,
        .params_bytes = sizeof *gemm,
        .cost = cost,
    };
    return td_list_native(list, &command);
}
