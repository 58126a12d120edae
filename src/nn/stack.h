/* A stack of GPT-2 blocks that decodes: one code in, logits of the next out, with keys and values kept; or a code of each
 * of several texts at once, each with a cache of its own, a slot. A text's logits are the same, to the bit, whatever others
 * are decoded beside it. Weights lie on the device in one of three formats, made from fp32 tensor by tensor; what comes before the first code is run by
 * plans of a graph, a block at a time, with weights that td_stack_widen() makes floats again. Launches: ops/decode.h.
 * One thread at a time; for several there is shared_stack.h. Covered by tests/xtts/test_xtts_speak.c.
 */
#ifndef TD_NN_STACK_H
#define TD_NN_STACK_H

#include "ops/decode.h"

typedef struct td_stack td_stack;

typedef struct td_stack_options {
    td_decode_shape shape;
    uint32_t layers, positions;
} td_stack_options; /* shape.capacity: rows of the caches at most; they and the slots grow as they are needed */

/* What there is to be filled: X(NAME, is_of_a_layer). Shapes as GPT-2's files have them: matrices [in, out], but the
 * head [codes, width]. */
#define TD_STACK_TENSORS(X)                                                                                  \
    X(NORM_1_GAMMA, 1)                                                                                       \
    X(NORM_1_BETA, 1)                                                                                        \
    X(QKV, 1) /* [width, 3 width] */                                                                         \
    X(QKV_BIAS, 1)                                                                                           \
    X(PROJ, 1) /* [width, width] */                                                                          \
    X(PROJ_BIAS, 1)                                                                                          \
    X(NORM_2_GAMMA, 1)                                                                                       \
    X(NORM_2_BETA, 1)                                                                                        \
    X(FC, 1) /* [width, inside] */                                                                           \
    X(FC_BIAS, 1)                                                                                            \
    X(MLP, 1) /* [inside, width] */                                                                          \
    X(MLP_BIAS, 1)                                                                                           \
    X(TABLE, 0)     /* [codes, width] */                                                                     \
    X(POSITIONS, 0) /* [positions, width] */                                                                 \
    X(NORM_3_GAMMA, 0)                                                                                       \
    X(NORM_3_BETA, 0)                                                                                        \
    X(NORM_4_GAMMA, 0)                                                                                       \
    X(NORM_4_BETA, 0)                                                                                        \
    X(HEAD, 0) /* [codes, width] */                                                                          \
    X(HEAD_BIAS, 0)

typedef enum td_stack_tensor {
#define TD_STACK_ENUM(name, is_of_a_layer) TD_STACK_##name,
    TD_STACK_TENSORS(TD_STACK_ENUM)
#undef TD_STACK_ENUM
        TD_STACK_TENSOR_COUNT,
    TD_STACK_LAYER_TENSORS = TD_STACK_TABLE
} td_stack_tensor;

/* Room; contents are undefined until every tensor was put. `memory` is borrowed until destroy. *out: owned. */
td_status td_stack_create(td_memory *memory, const td_stack_options *options, td_stack **out);

void td_stack_destroy(td_stack *stack);
const td_stack_options *td_stack_get(const td_stack *stack); /* borrowed */

/* Elements of a tensor. */
size_t td_stack_count(const td_stack *stack, td_stack_tensor tensor);

/* Converts a tensor to the stack's format and puts it there; waits. */
td_status td_stack_put(td_stack *stack, uint32_t layer, td_stack_tensor tensor, const float *values);

/* Puts a matrix of a layer into a stack of TD_FORMAT_INT8 as it is: bytes [in, out], scales [out] (nn/bytes.h). */
td_status td_stack_put_bytes(td_stack *stack, uint32_t layer, td_stack_tensor tensor, const int8_t *bytes,
                             const float *scales);

/* Records that the tensors of a layer are made floats: to[i] for those where it is given. The third matrix comes as
 * [inside, width]. */
td_status td_stack_widen(const td_stack *stack, uint32_t layer, td_list *list,
                         const td_span to[TD_STACK_LAYER_TENSORS]);

#define TD_STACK_MOST_SLOTS 256u

/* Makes room for so many slots of so many rows; what is in them stays. After a failure nothing is in any of them, and
 * another life of theirs begins. Waits. */
td_status td_stack_make_room(td_stack *stack, uint32_t slots, uint32_t rows);
uint32_t td_stack_life(const td_stack *stack);

/* Records that keys and values [2 heads, rows, head], as a block made them, become the first rows of a slot, which has
 * room for them. */
td_status td_stack_fill_cache(const td_stack *stack, uint32_t layer, uint32_t slot, td_list *list, td_span kv,
                              uint32_t rows);

/* Logits [codes] of the next code and what they were made of, [width]. Borrowed until the next call. */
typedef struct td_stack_thought {
    const float *logits, *latent;
} td_stack_thought;

/* From the last row of the last block [width]. There is room for a slot. */
td_status td_stack_begin(td_stack *stack, td_span row, td_stack_thought *out);

/* A code at a position, whose keys and values become row `row` of a slot, and the life in which the rows before it
 * were. */
typedef struct td_stack_code {
    uint32_t code, position, row, slot, life;
} td_stack_code;

/* One step of n texts, each in another slot: out[n]. Waits. */
td_status td_stack_next(td_stack *stack, const td_stack_code *codes, uint32_t n, td_stack_thought *out);

/* What a step is: launches, and bytes that it must read for n texts with `rows` rows in the cache of each. */
uint32_t td_stack_launches(const td_stack *stack);
uint64_t td_stack_bytes(const td_stack *stack, uint32_t n, uint32_t rows);

#endif
