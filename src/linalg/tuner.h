/* Measures the variants of a matrix product on a device and remembers the fastest (tuning.h). Every variant
 * is first checked against the plain kernel; one that gives a wrong result, or that the driver cannot build
 * or run, is set aside and named. Takes seconds per shape on a CPU driver. Covered by
 * tests/unit/test_tuning.c.
 */
#ifndef TD_LINALG_TUNER_H
#define TD_LINALG_TUNER_H

#include "linalg/gemm.h"

#define TD_TUNER_MAX_CANDIDATES 32

typedef struct td_tuner_candidate {
    const char *name; /* of the variant; borrowed forever */
    uint32_t splits;
    double gflops;    /* median; 0 where rejected */
    char reason[160]; /* why it was rejected; else "" */
} td_tuner_candidate;

typedef struct td_tuner_result {
    td_tuner_candidate candidates[TD_TUNER_MAX_CANDIDATES]; /* the first: the choice without a measurement */
    size_t n_candidates;
    size_t best; /* index of the winner */
} td_tuner_result;

typedef struct td_tuner_options {
    uint32_t rounds; /* runs of each candidate, interleaved; 0: 7 */
    bool keep;       /* put the winner into the device's table and the cache */
    /* For tests: may change what a variant computed before it is checked. NULL: none. */
    void (*spoil)(const char *name, float *result, size_t count);
} td_tuner_options;

/* Measures products of the shape of `desc` (layout, m, n, k, batch; rows and matrices tight, nothing else
 * looked at) on a device that has nothing else to do. Fails if no candidate is left, or when memory runs out.
 */
td_status td_tuner_run(td_device *device, const td_gemm_desc *desc, const td_tuner_options *options,
                       td_tuner_result *out);

#endif
