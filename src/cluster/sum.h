/* Numbers as they travel between ranks, and their sums in the order of the ranks; for cluster.c alone. */
#ifndef TD_CLUSTER_SUM_H
#define TD_CLUSTER_SUM_H

#include "cluster/cluster.h"

/* n floats to n numbers of 16 bits, rounded to nearest, ties to even; NaN stays NaN. */
void td_wire_pack(const float *values, uint64_t n, void *out);
void td_wire_unpack(const void *packed, uint64_t n, float *out);

/* out[i] = ((part 0)[i] + (part 1)[i]) + ...: `parts` holds n numbers of each rank, one behind the other. */
void td_wire_sum(const void *parts, td_wire_format format, uint32_t n_parts, uint64_t n, float *out);

#endif
