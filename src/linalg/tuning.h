/* Which variant makes a matrix product on a device: what was measured there, else defaults by class of
 * device.
 *
 * Measurements are kept per class of shape: layout, whether there is a batch, and m, n, k as powers of two.
 * They are read from the cache (kind "tuning") at the first product of a device, hold for one driver version,
 * and are written by tuner.h. A shape without a near enough measurement gets the default. Nothing here can
 * fail: no cache, or a stored variant that does not suit a shape, means the default. Covered by
 * tests/unit/test_tuning.c.
 */
#ifndef TD_LINALG_TUNING_H
#define TD_LINALG_TUNING_H

#include "linalg/gemm_internal.h"

/* A class of shapes; round(log2) of the sizes. */
typedef struct td_tuning_class {
    uint8_t layout;
    uint8_t batched;
    uint8_t m, n, k;
} td_tuning_class;

typedef struct td_tuning_entry {
    td_tuning_class shape;
    uint8_t variant; /* td_gemm_variant */
    uint16_t splits;
} td_tuning_entry;

td_tuning_class td_tuning_class_of(const td_gemm_problem *problem);

/* The choice without any measurement. */
td_gemm_choice td_tuning_default(const td_gemm_problem *problem);

/* Puts entries over those the device has, for this process and in the cache. TD_ERR_HOST_MEMORY only. */
td_status td_tuning_put(td_device *device, const td_tuning_entry *entries, size_t count);

/* Measured classes of shapes the device has. */
size_t td_tuning_count(td_device *device);

#endif
