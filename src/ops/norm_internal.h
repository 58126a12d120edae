/* What norm.c and channel_norm.c share. */
#ifndef TD_OPS_NORM_INTERNAL_H
#define TD_OPS_NORM_INTERNAL_H

#include "ops/norm.h"

/* dgamma[c] (and dbeta[c] where sets = 2) = sum over blocks of partial [blocks, sets, columns]; `accumulate`
 * adds it to what is there. Arguments are the caller's to check. */
td_status td_op_norm_finish(td_list *list, uint32_t blocks, uint32_t sets, uint32_t columns, bool accumulate,
                            td_span partial, td_span dgamma, td_span dbeta);

#endif
