/* Fused attention: o = softmax(scale q k^T) v for every head, forward and backward, self and cross, without
 * the matrix of queries and keys ever in memory: what a launch needs grows linearly with time.
 *
 * Tensors are fp32: q, o [batch, queries, heads, head_size], k, v [batch, keys, heads, head_size], with a row
 * of `*_row` elements from one time step to the next, so that parts of one packed projection [batch, time, 3
 * heads head_size] are read and written in place. Gradients lie as their tensors do. A zero td_span is an
 * argument left out, where that is allowed. Spans start at multiples of 16 bytes, o, d_o and lse where the device lets
 * a binding start; they are borrowed until the list is destroyed. Functions record into the list and launch nothing. Kernels: src/kernels/attention*.kh.
 * Covered by tests/ops/cases_attention.c.
 */
#ifndef TD_OPS_ATTENTION_H
#define TD_OPS_ATTENTION_H

#include <stdbool.h>

#include "device/dispatch.h"

typedef struct td_attention_shape {
    uint32_t batch, heads;
    uint32_t head_size; /* 32, 64, 96 or 128 */
    uint32_t queries, keys;
    bool causal;                         /* query i sees the keys up to i + keys - queries; keys >= queries */
    float scale;                         /* 0: 1 / sqrt(head_size) */
    uint32_t q_row, k_row, v_row, o_row; /* multiples of 4; 0: heads * head_size */
} td_attention_shape;

typedef struct td_attention_args {
    td_attention_shape shape;
    td_span q, k, v;
    td_span lengths; /* [batch] uint32: valid keys of each item, or left out: all */
    td_span o;       /* zeros for a query that sees no key */
    td_span lse;     /* [batch, heads, queries]: log of the sum of each softmax, for the gradients */
} td_attention_args;

td_status td_op_attention(td_list *list, const td_attention_args *args);

/* The mean over the heads of the weights of a forward launch with the same arguments, for pictures: w [batch,
 * queries, keys]. v and o are not used. */
td_status td_op_attention_weights(td_list *list, const td_attention_args *args, td_span w);

typedef struct td_attention_back_args {
    td_attention_args forward; /* of the forward launch, o and lse filled */
    td_span d_o;               /* as o */
    td_span stats;             /* scratch of td_op_attention_stats words */
    td_span d_q, d_k,
        d_v; /* as q, k, v, which start as far behind a place where bindings may start; zeros for keys
                              that are not valid; may lie in one packed buffer */
} td_attention_back_args;

td_status td_op_attention_back(td_list *list, const td_attention_back_args *args);
uint64_t td_op_attention_stats(const td_attention_shape *shape);

#endif
