/* Tuning a device; see tune.h. */
#include "tools/tune.h"

#include <stdlib.h>

#include "base/error.h"

/* What a step of a small text-to-speech transformer is made of: projections and feed-forward layers over a
 * batch of frames, their weight gradients (which tn makes of the same numbers), attention per head, and
 * single frames while decoding. A measurement reaches shapes within a factor of two or so (tuning.h). */
static const td_gemm_shape USUAL[] = {
    {1, 6400, 192, 192}, {1, 6400, 384, 384},   {1, 6400, 1536, 384}, {1, 6400, 384, 1536},
    {1, 3200, 768, 192}, {1, 3200, 192, 768},   {1, 384, 384, 6400},  {1, 1536, 384, 6400},
    {1, 512, 512, 512},  {1, 1024, 1024, 1024}, {1, 6400, 80, 384},   {1, 128, 384, 384},
    {1, 16, 384, 384},   {1, 1, 384, 384},      {1, 1, 1536, 384},    {64, 400, 400, 64},
    {64, 400, 64, 400},
};

/* lavapipe makes a billion operations in a second; it gets what it can do in a minute. */
static const td_gemm_shape SMALL[] = {{1, 64, 64, 64}, {1, 256, 128, 128}, {1, 1, 256, 256}, {4, 64, 64, 32}};

td_status td_tune_run(td_registry *registry, const td_device_info *info, const td_gemm_shape *shapes,
                      size_t n_shapes, td_tune_report report, void *context)
{
    const bool is_slow = info->type == TD_DEVICE_CPU && info->api == TD_API_VULKAN;
    td_device *device = NULL;
    td_tune_row *row = NULL;
    size_t done = 0;
    td_status status = TD_OK;
    if (!shapes) {
        shapes = is_slow ? SMALL : USUAL;
        n_shapes = is_slow ? sizeof SMALL / sizeof *SMALL : sizeof USUAL / sizeof *USUAL;
    }
    TD_TRY(TD_NEW(&row));
    TD_TRY(td_device_open(registry, info, &device));
    for (size_t i = 0; i < n_shapes; i++) {
        for (int layout = 0; layout < TD_GEMM_LAYOUT_COUNT; layout++) {
            *row = (td_tune_row){.shape = shapes[i], .layout = (td_gemm_layout)layout};
            const td_gemm_desc desc = td_gemm_shape_desc(&shapes[i], row->layout);
            TD_TRY(td_tuner_run(device, &desc, &(td_tuner_options){.keep = true}, &row->result));
            report(context, row, ++done, n_shapes * TD_GEMM_LAYOUT_COUNT);
        }
    }
fail:
    td_device_close(device);
    free(row);
    return status;
}
