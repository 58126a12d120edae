/* `tandem tune`: measures matrix products of the shapes that training has, or of given ones, in every layout,
 * and stores the winners for later runs. Prints nothing (src/cli/cmd_tune.c does). Covered by
 * tests/unit/test_tuning.c. */
#ifndef TD_TOOLS_TUNE_H
#define TD_TOOLS_TUNE_H

#include "linalg/tuner.h"
#include "tools/gemm_shapes.h"

typedef struct td_tune_row {
    td_gemm_shape shape;
    td_gemm_layout layout;
    td_tuner_result result;
} td_tune_row;

/* Called after each row, which is borrowed until it returns; `done` of `total` are made. */
typedef void (*td_tune_report)(void *context, const td_tune_row *row, size_t done, size_t total);

/* `shapes` NULL: the usual ones. */
td_status td_tune_run(td_registry *registry, const td_device_info *info, const td_gemm_shape *shapes,
                      size_t n_shapes, td_tune_report report, void *context);

#endif
