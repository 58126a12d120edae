/* Layers: each declares its parameters where it uses them, under the names that the builder is in.
 *
 *   td_nn_push(nn, "block.%u", i);
 *   x = td_nn_linear(nn, "qkv", x, 3 * width);     makes block.0.qkv.weight, block.0.qkv.bias and the product
 *   td_nn_pop(nn);
 *
 * One name used twice is one shared parameter where shape and group agree, and a mistake of the graph where
 * they do not. Mistakes stick to the graph, as those of its own builders do. B T C are items, frames (or
 * tokens) and channels. docs/model.md states what each layer computes. Covered by tests/nn.
 */
#ifndef TD_NN_NN_H
#define TD_NN_NN_H

#include "graph/graph.h"

#define TD_NN_NAME_BYTES 96
#define TD_NN_DEPTH 8

/* Which parameters a graph's learner updates. A zeroed one: all. */
typedef struct td_nn_trained {
    const char *const *prefixes; /* names of what is updated begin so; NULL: any name */
    size_t n_prefixes;
    const char *frozen; /* patterns with * and ?, separated by commas, of what is not; NULL: none */
} td_nn_trained;

/* A graph under construction. Starts as {.graph = g}. */
typedef struct td_nn {
    td_graph *graph; /* borrowed */
    td_nn_trained trained;
    float dropout; /* share of elements that td_nn_dropout() drops; 0: none, as in validation and synthesis */
    char prefix[TD_NN_NAME_BYTES];
    size_t lengths[TD_NN_DEPTH]; /* of the prefix at each level */
    size_t depth;
} td_nn;

/* Names from here to the matching pop begin with the present prefix, a dot and this. */
void td_nn_push(td_nn *nn, const char *format, ...) __attribute__((format(printf, 2, 3)));
void td_nn_pop(td_nn *nn);

/* ---------------------------------------------------------------- parameters */

td_tensor td_nn_param(td_nn *nn, const char *name, td_shape shape, td_param_group group, td_init init);

/* [rows, width]: sines and cosines of the row number times `rate`. A constant, called "constant.NAME"
 * whatever the prefix. */
td_tensor td_nn_positions(td_nn *nn, const char *name, uint32_t rows, uint32_t width, float rate);

/* Rows of a table NAME [rows, width] by index [..]: [.., width]. */
td_tensor td_nn_embedding(td_nn *nn, const char *name, uint32_t rows, uint32_t width, td_tensor index);

/* ---------------------------------------------------------------- layers */

/* x [.., C] times NAME.weight [C, width], plus NAME.bias. */
td_tensor td_nn_linear(td_nn *nn, const char *name, td_tensor x, uint32_t width);

/* The same, whose values begin as those of the layer `like` of the same shape, under the same prefix. */
td_tensor td_nn_linear_like(td_nn *nn, const char *name, td_tensor x, uint32_t width, const char *like);

/* Along the frames of x [B, T, C], which stay as many: NAME.weight [taps, C, width], NAME.bias. */
td_tensor td_nn_conv(td_nn *nn, const char *name, td_tensor x, uint32_t taps, uint32_t width);

/* Layer norm with NAME.gamma and NAME.beta; with the usual eps, or another. */
td_tensor td_nn_norm(td_nn *nn, const char *name, td_tensor x);
td_tensor td_nn_norm_eps(td_nn *nn, const char *name, td_tensor x, float eps);

td_tensor td_nn_dropout(td_nn *nn, td_tensor x);

/* 1 at the first lengths[b] of n: [B, n, 1]. */
td_tensor td_nn_mask(td_nn *nn, td_tensor lengths, uint32_t n);

/* ---------------------------------------------------------------- blocks */

/* x + attention(norm(x)), under "attention". lengths: valid keys, uint [B]; may be left out. */
td_tensor td_nn_self_attention(td_nn *nn, td_tensor x, uint32_t heads, td_tensor lengths, bool causal);

/* x + two convolutions of norm(x), under "ff": `inside` channels between them, the first over `taps` frames.
 */
td_tensor td_nn_feed_forward(td_nn *nn, td_tensor x, uint32_t inside, uint32_t taps, td_tensor mask);

typedef struct td_nn_stack_options {
    uint32_t layers, heads;  /* heads 0: no self-attention */
    uint32_t inside, taps;   /* of the feed-forward parts */
    td_tensor mask, lengths; /* [B, T, 1], uint [B] */
} td_nn_stack_options;

/* Blocks of self-attention and feed-forward, "block.0" ..., then "norm". */
td_tensor td_nn_stack(td_nn *nn, td_tensor x, const td_nn_stack_options *options);

#endif
