/* OpenBLAS as a yardstick of `tandem bench gemm --against openblas`: opened at run time in child processes,
 * one per core type it knows for this CPU (it reads OPENBLAS_CORETYPE when it is loaded), so that its best
 * can be taken. A peer sleeps stopped between its turns: its threads would otherwise spin into ours. Covered
 * by tests/cli/test_cli.py. */
#ifndef TD_TOOLS_OPENBLAS_PEER_H
#define TD_TOOLS_OPENBLAS_PEER_H

#include "tools/gemm_shapes.h"

#define TD_OPENBLAS_MAX_PEERS 4

typedef struct td_openblas_peers td_openblas_peers;

/* Starts a peer per core type with `threads` threads each. TD_ERR_NOT_FOUND with what to install if OpenBLAS
 * cannot be opened. *out is owned. Call it before a device is opened: it forks. */
td_status td_openblas_start(uint32_t threads, td_openblas_peers **out);
void td_openblas_stop(td_openblas_peers *peers);

size_t td_openblas_count(const td_openblas_peers *peers);
const char *td_openblas_core(const td_openblas_peers *peers, size_t peer); /* "Haswell", or "default" */

/* Lets a peer make `repeats` products (a batch is a loop of calls) and tells the time of one. Operands are
 * made again when the shape or layout changes, outside the time, and one product goes before it. */
td_status td_openblas_run(td_openblas_peers *peers, size_t peer, const td_gemm_shape *shape,
                          td_gemm_layout layout, uint32_t repeats, double *seconds);

#endif
