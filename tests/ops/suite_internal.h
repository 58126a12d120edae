/* What the files of the runner share: the suite, and one case run on one device. */
#ifndef TD_TESTS_OPS_SUITE_INTERNAL_H
#define TD_TESTS_OPS_SUITE_INTERNAL_H

#include "suite.h"

typedef struct op_family {
    const char *name;
    op_make_cases make;
} op_family;

extern const op_family OP_FAMILIES[];
extern const size_t OP_FAMILY_COUNT;

struct op_suite {
    const char *op; /* part of the ops' names that are wanted, or '=' and a whole name; NULL: all */
    bool gradients_only;
    size_t most_words; /* in all buffers of a case; 0: any number */
    op_case *cases;    /* owned */
    size_t count, capacity;
};

void op_suite_clear(op_suite *suite);
void op_case_free(op_case *c);
size_t op_case_words(const op_case *c); /* in all buffers */

typedef enum op_verdict { OP_PASS, OP_FAIL, OP_SKIP } op_verdict;

typedef struct op_result {
    op_verdict verdict;
    char message[256];              /* of a failure or a skip: one line */
    double error;                   /* largest |got - expected| as a share of what is allowed */
    bool launched[TD_KERNEL_COUNT]; /* what the list held */
} op_result;

/* A device with memory for one case at a time. */
typedef struct op_bench {
    td_device *device;
    td_memory *memory;
    bool is_checked; /* by a checker of memory: every buffer is by itself and ends with its last word */
} op_bench;

/* Uploads, runs twice, downloads and judges. */
void op_run_case(const op_bench *bench, const op_case *c, op_result *result);

#endif
