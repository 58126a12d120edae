/* The numbers behind a simulated device: how fast it is, how much it holds, and which of its calls fail.
 * Written as "key=value,..." (TANDEM_SIM), strict. Covered by tests/device/test_sim.c.
 */
#ifndef TD_DEVICE_SIM_MODEL_H
#define TD_DEVICE_SIM_MODEL_H

#include <stdint.h>

#include "tandem/status.h"

/* X(type, key, default, least, most): every key of the model string, in the order messages list them.
 * The faults count calls over all devices of one open call, from 1; 0 never fails. */
#define SIM_MODEL_KEYS(X)                                                                                    \
    X(double, gflops, 2000, 1e-3, 1e9)          /* arithmetic of a dispatch, GFLOP/s */                      \
    X(double, gbps, 200, 1e-3, 1e9)             /* device memory, GB/s */                                    \
    X(double, copy_gbps, 64, 1e-3, 1e9)         /* link to the host and to other devices, GB/s */            \
    X(double, latency_us, 5, 0, 1e7)            /* overhead of each driver submission and each command */    \
    X(double, jitter, 0, 0, 1)                  /* a submission takes 1 +- this fraction of its time */      \
    X(uint64_t, seed, 0, 0, UINT64_MAX)         /* of the jitter */                                          \
    X(uint64_t, memory_mb, 8192, 1, 1 << 24)    /* device memory, MiB */                                     \
    X(uint64_t, max_alloc_mb, 1024, 1, 1 << 24) /* largest buffer, at most memory_mb */                      \
    X(uint64_t, binding_mb, 0, 0, 1 << 24)      /* largest kernel argument; 0: as max_alloc_mb */            \
    X(uint64_t, offset_align, 256, 4, 1 << 20)  /* bytes; where a range inside a buffer may start */         \
    X(uint64_t, group_size, 1024, 1, 1 << 20)   /* most work-items of a group */                             \
    X(uint64_t, copy_queue, 1, 0, 1)            /* has a COPY queue of its own */                            \
    X(uint64_t, host_import, 0, 0, 1)           /* can use host memory in place */                           \
    X(uint64_t, fail_alloc, 0, 0, UINT64_MAX)   /* this buffer is refused: TD_ERR_DEVICE_MEMORY */           \
    X(uint64_t, lose_submit, 0, 0, UINT64_MAX)  /* this submission loses its device for good */              \
    X(uint64_t, fail_wait, 0, 0, UINT64_MAX)    /* this wait, and its queue, fail: TD_ERR_DRIVER */          \
    X(uint64_t, fail_compile, 0, 0, UINT64_MAX) /* this list is refused: TD_ERR_BUILD */

typedef struct sim_model {
#define SIM_MODEL_FIELD(type, key, value, least, most) type key;
    SIM_MODEL_KEYS(SIM_MODEL_FIELD)
#undef SIM_MODEL_FIELD
} sim_model;

/* Defaults, changed by `text` (NULL or "": not at all). TD_ERR_CONFIG names the key, the nearest right one
 * and all keys. */
td_status td_sim_model_parse(const char *text, sim_model *out);

#endif
