/* Element-wise chains: a whole sequence of operations in one launch and one pass over memory, and dropout.
 *
 *   td_chain c;
 *   td_chain_begin(&c, (uint32_t[]){rows, columns}, 2);
 *   td_chain_add(&c, TD_CHAIN_LOAD, td_chain_input(&c, x));
 *   td_chain_add(&c, TD_CHAIN_ADD, td_chain_broadcast(&c, bias, (bool[]){false, true}));
 *   td_chain_add(&c, TD_CHAIN_GELU_TANH, 0);
 *   td_chain_store(&c, y);
 *   status = td_chain_launch(&c, list);
 *
 * The operations are those of kernels/chain_geometry.h. A backward pass is another chain, from the operations
 * for it. Calls before the launch return nothing: the first mistake sticks and td_chain_launch reports it.
 * Covered by tests/ops/cases_chain.c.
 */
#ifndef TD_OPS_CHAIN_H
#define TD_OPS_CHAIN_H

#include "device/dispatch.h"
#include "kernels/chain_geometry.h"

#define TD_CHAIN_MAX_AXES 6

/* A value of its user; owns nothing. */
typedef struct td_chain {
    uint32_t dims[TD_CHAIN_MAX_AXES]; /* shape of the result */
    size_t n_dims;
    td_span inputs[TD_CHAIN_INPUTS];
    uint32_t steps[TD_CHAIN_INPUTS][TD_CHAIN_MAX_AXES]; /* in elements; 0: broadcast */
    td_span outputs[TD_CHAIN_OUTPUTS];
    size_t stored_at[TD_CHAIN_OUTPUTS]; /* the instruction that stores it */
    size_t last_use[TD_CHAIN_INPUTS];   /* the last instruction that reads it */
    uint16_t code[TD_CHAIN_LENGTH];
    float constants[TD_CHAIN_CONSTANTS];
    size_t n_inputs, n_outputs, n_code, n_constants;
    const char *mistake; /* NULL: none so far */
} td_chain;

/* Starts a chain over a result of this shape, outermost axis first. */
void td_chain_begin(td_chain *chain, const uint32_t *dims, size_t n_dims);

/* Operands: an input with the shape of the result; one that has only the axes marked true (dense, in order)
 * and is the same along the others; one with a step in elements for each axis (along the innermost 0 or 1); a
 * constant; temporary 0 or 1. The accumulator itself is TD_CHAIN_ACCUMULATOR. */
uint32_t td_chain_input(td_chain *chain, td_span span);
uint32_t td_chain_broadcast(td_chain *chain, td_span span, const bool *has_axis);
uint32_t td_chain_strided(td_chain *chain, td_span span, const uint32_t *steps);
uint32_t td_chain_constant(td_chain *chain, float value);
uint32_t td_chain_temporary(uint32_t number);

/* Appends an operation. Operations without an operand ignore it; `c` is for those that have a constant of
 * their own (TD_CHAIN_LEAKY_RELU, TD_CHAIN_ADD_SCALED, TD_CHAIN_PASS_ABOVE ...). */
void td_chain_add(td_chain *chain, uint32_t operation, uint32_t operand);
void td_chain_add_with(td_chain *chain, uint32_t operation, uint32_t operand, float c);

/* Stores the accumulator, dense. The span may be a dense input that is not read afterwards. */
void td_chain_store(td_chain *chain, td_span span);

/* Checks and records. */
td_status td_chain_launch(const td_chain *chain, td_list *list);

/* y[i] = x[i] / (1 - p) for elements that are kept, else 0, each dropped with probability p (in steps of
 * 2^-16). The mask is a function of seed, stream (give each layer its own), *step (one word on the device
 * that the user counts up at each replay) and i, so the backward pass is the same call on the cotangent. y
 * may be x. */
typedef struct td_dropout_args {
    uint32_t n;
    float p; /* 0 <= p < 1 */
    uint64_t seed, stream;
    td_span x, step, y;
} td_dropout_args;

td_status td_op_dropout(td_list *list, const td_dropout_args *args);

#endif
