/* What the launches of this folder share: how rows and columns are divided among work-items (the host's
 * half of kernels/rows.kh and kernels/columns.kh), and checks of arguments. Covered by the op suite,
 * tests/ops.
 */
#ifndef TD_OPS_ROWS_H
#define TD_OPS_ROWS_H

#include "base/error.h"
#include "device/dispatch.h"

/* Rows for teams of work-items: `block` neighbouring rows to a team, `lanes` work-items to a team in class
 * GPU. */
typedef struct td_rows {
    uint32_t block, lanes;
    td_grid grid;
} td_rows;

/* For kernels of group TD_ROW_WG_GPU that keep nothing from one row to the next. */
td_rows td_rows_make(td_kernel_class kernel_class, uint32_t rows, uint32_t columns);

/* The same in few and longer blocks, for kernels that leave partial sums per block. */
td_rows td_rows_make_blocks(td_kernel_class kernel_class, uint32_t rows, uint32_t columns);

/* For kernels of kernels/columns.kh: `blocks` blocks of rows, each with all columns. */
td_grid td_grid_columns(td_kernel_class kernel_class, uint32_t blocks, uint32_t columns);

/* Fails unless the span holds `words` 4-byte words; op and name are for the message. */
td_status td_op_check_span(td_span span, uint64_t words, const char *op, const char *name);

/* Fails unless 0 < a * b * c < 2^31, the most elements a kernel can number. */
td_status td_op_check_size(uint64_t a, uint64_t b, uint64_t c, const char *op);

/* Fails where the device's driver would end the loops of a work-item before so many iterations together:
 * lavapipe does after 65,535, without an error. */
td_status td_op_check_iterations(const td_list *list, uint64_t iterations, const char *op);

/* Makes the span start where the device lets a binding start, at most some hundred bytes earlier, and returns by how
 * many words: for kernels that take the number of their first element. */
uint32_t td_op_align_span(const td_list *list, td_span *span);

/* An optional buffer, or where it is absent (a zero span) another one that is bound instead, unused. */
td_span td_op_or(td_span optional, td_span stand_in);
bool td_op_given(td_span optional);

#endif
