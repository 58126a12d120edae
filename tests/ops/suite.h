/* The op suite: one description of a launch serves the forward test and the gradient test, on every
 * device present. A family's file (cases_FAMILY.c) makes cases; suite.c runs them: outputs pre-filled
 * with NaN, guard words behind every buffer, inputs checked unchanged, two runs compared bit by bit,
 * `!(err <= tol)` so that NaN fails. References are in double and know nothing of the kernels.
 */
#ifndef TD_TESTS_OPS_SUITE_H
#define TD_TESTS_OPS_SUITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/dispatch.h"
#include "tandem/queue.h"

#define OP_MAX_IO 16

typedef enum op_io_kind { OP_IN, OP_OUT, OP_IN_OUT, OP_SCRATCH } op_io_kind;

/* One buffer of a case. Values are 32-bit words: floats, or anything else where `exact` is set. */
typedef struct op_io {
    const char *name;
    op_io_kind kind;
    size_t count;      /* words */
    float *values;     /* owned by the case: input, or start of an IN_OUT; uint32_t bits where `words` */
    double *expected;  /* owned: reference of an OUT or IN_OUT; NULL with `words` */
    uint32_t *words;   /* owned: expected bits, compared exactly; NULL otherwise */
    double atol, rtol; /* !(|got - expected| <= atol + rtol * |expected|) fails */
} op_io;

typedef struct op_case op_case;
struct op_case {
    const char *op;      /* as `test_ops list` shows it */
    const char *kernels; /* kernels of ops.def that this case launches, separated by spaces: coverage */
    char label[96];      /* "rows 7, columns 300" */
    bool is_gradient;    /* a backward launch, judged against numeric gradients */
    op_io io[OP_MAX_IO];
    size_t n_io;
    void *args; /* owned (free): what launch needs */
    /* Records the launch; spans[i] belongs to io[i]. */
    td_status (*launch)(const op_case *c, td_list *list, const td_span *spans);
};

typedef struct op_suite op_suite;

/* The families; each is listed in suite.c. `device` tells the class and limits a case may depend on. */
typedef void (*op_make_cases)(op_suite *suite, td_device *device);

/* Whether any case of this op is asked for; worth a question before a costly reference is computed. */
bool op_suite_wants(const op_suite *suite, const char *op);

/* Takes over a filled case, everything it owns included. Drops it where it is not asked for. */
void op_suite_add(op_suite *suite, const op_case *c);

/* Lavapipe: about 1 GF. Cases there should be few and small. */
bool op_device_is_slow(td_device *device);

/* Makers of buffers; all memory is owned by the case afterwards. `seed` picks the numbers. */
op_io *op_input(op_case *c, const char *name, size_t count); /* zeros, to be filled by hand */
op_io *op_random(op_case *c, const char *name, size_t count, float low, float high, uint64_t seed);
op_io *op_output(op_case *c, const char *name, size_t count, double atol, double rtol); /* expected: zeros */
op_io *op_output_words(op_case *c, const char *name, size_t count);
op_io *op_scratch(op_case *c, const char *name, size_t count);

/* A float as 16 bits (format TD_FORMAT_BF16 ...), the nearest or of two as near the one whose last bit is 0;
 * and back. Of whole inputs: op_round() makes each value one that fits, op_pack() puts such values two to a
 * word. */
uint32_t op_to_half(float value, uint32_t format);
float op_from_half(uint32_t half, uint32_t format);
void op_round(op_io *io, uint32_t format);
void op_pack(op_io *io, uint32_t format);

/* Allocates args of a case; ends the program for want of memory. */
void *op_args(op_case *c, size_t bytes);

/* d/dx of sum(cotangent * y(x)) by central differences in double. `forward` fills y from x; n_x inputs, n_y
 * outputs; result in dx. The step is scaled to |x|. */
typedef void (*op_forward)(const double *x, double *y, const void *context);
void op_numeric_gradient(op_forward forward, const void *context, const double *x, size_t n_x,
                         const double *cotangent, size_t n_y, double *dx);

#endif
