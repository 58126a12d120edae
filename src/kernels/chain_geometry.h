/* The instructions of an element-wise chain: the numbers that host (src/ops/chain.c) and kernel must agree
 * on.
 *
 * A chain works on one value, the accumulator `a`; `b` is the operand that the instruction names, `c` its
 * constant. Preprocessor lines only, because C, OpenCL C and GLSL all read this file.
 */
#ifndef TD_KERNELS_CHAIN_GEOMETRY_H
#define TD_KERNELS_CHAIN_GEOMETRY_H

#define TD_CHAIN_INPUTS 4u
#define TD_CHAIN_OUTPUTS 2u
#define TD_CHAIN_TEMPORARIES 2u
#define TD_CHAIN_DIMS 4u /* after axes that lie together have been joined */
#define TD_CHAIN_LENGTH 10u
#define TD_CHAIN_CONSTANTS 6u

/* Vectors a work-item handles at a time: on a CPU enough to hide the cost of choosing an instruction, and
 * few, so that memory fetches ahead while one is at work. */
#define TD_CHAIN_VECTORS_CPU 32u
#define TD_CHAIN_VECTORS_GPU 2u

/* Elements of one group of `dropout`. */
#define TD_DROPOUT_BLOCK_CPU 4096u
#define TD_DROPOUT_BLOCK_GPU 1024u

/* Operands. */
#define TD_CHAIN_INPUT 0u /* and the three after it */
#define TD_CHAIN_CONSTANT 4u
#define TD_CHAIN_TEMPORARY 5u /* and the one after it */
#define TD_CHAIN_ACCUMULATOR 7u

/* An instruction is half a word: operation, operand, constant. */
#define TD_CHAIN_OPERAND_SHIFT 6u
#define TD_CHAIN_CONSTANT_SHIFT 9u

/* Operations that move. */
#define TD_CHAIN_SAVE 0u  /* temporary = a; the operand names it */
#define TD_CHAIN_STORE 1u /* output = a; the operand is its number */

/* Functions of a. */
#define TD_CHAIN_EXP 2u
#define TD_CHAIN_LOG 3u
#define TD_CHAIN_SQRT 4u
#define TD_CHAIN_TANH 5u
#define TD_CHAIN_SIGMOID 6u
#define TD_CHAIN_SOFTPLUS 7u
#define TD_CHAIN_ERF 8u
#define TD_CHAIN_SILU 9u
#define TD_CHAIN_GELU_TANH 10u
#define TD_CHAIN_GELU_ERF 11u
#define TD_CHAIN_LEAKY_RELU 12u /* a > 0 ? a : c a */
#define TD_CHAIN_SIN 13u
#define TD_CHAIN_COS 14u

/* From here on b is used. */
#define TD_CHAIN_LOAD 15u /* a = b */
#define TD_CHAIN_ADD 16u
#define TD_CHAIN_SUB 17u
#define TD_CHAIN_SUB_FROM 18u /* b - a */
#define TD_CHAIN_MUL 19u
#define TD_CHAIN_DIV 20u
#define TD_CHAIN_DIV_INTO 21u   /* b / a */
#define TD_CHAIN_ADD_SCALED 22u /* a + c b, rounded once */
#define TD_CHAIN_MIN 23u
#define TD_CHAIN_MAX 24u

/* For backward passes: a is the cotangent of the result. */
#define TD_CHAIN_PASS_ABOVE 25u      /* b > c ? a : 0 */
#define TD_CHAIN_PASS_BELOW 26u      /* b < c ? a : 0 */
#define TD_CHAIN_LEAKY_RELU_BACK 27u /* b > 0 ? a : c a */
#define TD_CHAIN_TANH_BACK 28u       /* a (1 - b^2), b = tanh(x) */
#define TD_CHAIN_SIGMOID_BACK 29u    /* a b (1 - b), b = sigmoid(x) */
#define TD_CHAIN_SOFTPLUS_BACK 30u   /* b = x from here on */
#define TD_CHAIN_SILU_BACK 31u
#define TD_CHAIN_GELU_TANH_BACK 32u
#define TD_CHAIN_GELU_ERF_BACK 33u

#define TD_CHAIN_OPERATIONS 34u

#endif
