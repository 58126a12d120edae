/* What models call: each builder fills in a node and appends it; its row of the table checks the shapes. See
 * graph.h. Covered by tests/graph/test_graph.c. */
#include "graph/internal.h"

/* ---------------------------------------------------------------- element-wise */

#define BINARY(name, operation)                                                                              \
    td_tensor td_graph_##name(td_graph *graph, td_tensor a, td_tensor b)                                     \
    {                                                                                                        \
        return td_chain_apply(graph, operation, a.id, b.id, 0);                                              \
    }
BINARY(add, TD_CHAIN_ADD)
BINARY(sub, TD_CHAIN_SUB)
BINARY(mul, TD_CHAIN_MUL)
BINARY(div, TD_CHAIN_DIV)
BINARY(min, TD_CHAIN_MIN)
BINARY(max, TD_CHAIN_MAX)

#define UNARY(name, operation)                                                                               \
    td_tensor td_graph_##name(td_graph *graph, td_tensor a)                                                  \
    {                                                                                                        \
        return td_chain_apply(graph, operation, a.id, 0, 0);                                                 \
    }
UNARY(exp, TD_CHAIN_EXP)
UNARY(log, TD_CHAIN_LOG)
UNARY(sqrt, TD_CHAIN_SQRT)
UNARY(tanh, TD_CHAIN_TANH)
UNARY(sigmoid, TD_CHAIN_SIGMOID)
UNARY(softplus, TD_CHAIN_SOFTPLUS)
UNARY(erf, TD_CHAIN_ERF)
UNARY(sin, TD_CHAIN_SIN)
UNARY(cos, TD_CHAIN_COS)
UNARY(silu, TD_CHAIN_SILU)
UNARY(gelu, TD_CHAIN_GELU_TANH)
UNARY(gelu_erf, TD_CHAIN_GELU_ERF)
UNARY(relu, TD_CHAIN_LEAKY_RELU) /* of slope 0 */

td_tensor td_graph_leaky_relu(td_graph *graph, td_tensor a, float slope)
{
    return td_chain_apply(graph, TD_CHAIN_LEAKY_RELU, a.id, 0, slope);
}

td_tensor td_graph_add_scaled(td_graph *graph, td_tensor a, td_tensor b, float c)
{
    return td_chain_apply(graph, TD_CHAIN_ADD_SCALED, a.id, b.id, c);
}

td_tensor td_graph_scale(td_graph *graph, td_tensor a, float c)
{
    return td_chain_apply_constant(graph, TD_CHAIN_MUL, a.id, c);
}

td_tensor td_graph_shift(td_graph *graph, td_tensor a, float c)
{
    return td_chain_apply_constant(graph, TD_CHAIN_ADD, a.id, c);
}

td_tensor td_graph_clamp(td_graph *graph, td_tensor a, float low, float high)
{
    const td_tensor above = td_chain_apply_constant(graph, TD_CHAIN_MAX, a.id, low);
    return td_chain_apply_constant(graph, TD_CHAIN_MIN, above.id, high);
}

td_tensor td_graph_dropout(td_graph *graph, td_tensor a, float p)
{
    if (p == 0) return a;
    return td_graph_append(graph, (td_node){.kind = TD_OP_dropout,
                                            .in = {a.id},
                                            .info = {.dropout = {.p = p, .stream = ++graph->next_stream}}});
}

/* ---------------------------------------------------------------- views */

static td_tensor make_view(td_graph *graph, td_tensor x, td_shape shape, uint64_t offset, bool stops)
{
    td_node node = {.kind = TD_OP_view, .in = {x.id}, .info = {.view = {.offset = offset, .stops = stops}}};
    if (x.id) td_graph_make_output(graph, &node, 0, shape, TD_F32);
    return td_graph_append(graph, node);
}

td_tensor td_graph_stop_gradient(td_graph *graph, td_tensor a)
{
    return make_view(graph, a, td_graph_shape(graph, a), 0, true);
}

td_tensor td_graph_reshape(td_graph *graph, td_tensor x, td_shape shape)
{
    const td_node blamed = {.kind = TD_OP_view, .in = {x.id}};
    if (x.id && td_shape_size(shape) != td_shape_size(td_graph_shape(graph, x)))
        td_graph_blame(graph, &blamed, "a reshape to %llu elements",
                       (unsigned long long)td_shape_size(shape));
    return make_view(graph, x, shape, 0, false);
}

td_tensor td_graph_slice(td_graph *graph, td_tensor x, uint32_t axis, uint32_t start, uint32_t length)
{
    td_node node = {.kind = TD_OP_slice, .in = {x.id}};
    td_shape shape = td_graph_shape(graph, x);
    if (axis >= shape.n_dims || start >= shape.dims[axis] || length == 0 ||
        length > shape.dims[axis] - start) {
        td_graph_blame(graph, &node, "axis %u from %u on, %u long, is not there", axis, start, length);
        return TD_NO_TENSOR;
    }
    const uint64_t offset = td_shape_size(shape) / shape.dims[0] * start;
    node.info.move.first[axis] = start;
    node.info.move.last[axis] = shape.dims[axis] - start - length;
    if (axis > 0 || offset * 4 % TD_STORAGE_ALIGN) return td_graph_append(graph, node);
    shape.dims[0] = length;
    return make_view(graph, x, shape, offset, false);
}

/* ---------------------------------------------------------------- products */

static td_tensor multiply(td_graph *graph, td_tensor a, td_tensor b, td_gemm_layout layout)
{
    return td_graph_append(
        graph, (td_node){.kind = TD_OP_matmul, .in = {a.id, b.id}, .info = {.matmul = {.layout = layout}}});
}

td_tensor td_graph_matmul(td_graph *graph, td_tensor a, td_tensor b)
{
    return multiply(graph, a, b, TD_GEMM_NN);
}

td_tensor td_graph_matmul_nt(td_graph *graph, td_tensor a, td_tensor b)
{
    return multiply(graph, a, b, TD_GEMM_NT);
}

td_tensor td_graph_matmul_tn(td_graph *graph, td_tensor a, td_tensor b)
{
    return multiply(graph, a, b, TD_GEMM_TN);
}

/* ---------------------------------------------------------------- norms, softmax, attention */

td_tensor td_graph_layer_norm(td_graph *graph, td_tensor x, td_tensor gamma, td_tensor beta, float eps)
{
    return td_graph_append(graph, (td_node){.kind = TD_OP_norm,
                                            .in = {x.id, gamma.id, beta.id},
                                            .info = {.norm = {.kind = TD_NORM_LAYER, .eps = eps}}});
}

td_tensor td_graph_rms_norm(td_graph *graph, td_tensor x, td_tensor gamma, float eps)
{
    return td_graph_append(graph, (td_node){.kind = TD_OP_norm,
                                            .in = {x.id, gamma.id},
                                            .info = {.norm = {.kind = TD_NORM_RMS, .eps = eps}}});
}

td_tensor td_graph_group_norm(td_graph *graph, td_tensor x, td_tensor gamma, td_tensor beta, uint32_t groups,
                              float eps)
{
    const td_channel_norm_info info = {.kind = TD_NORM_GROUP, .groups = groups, .eps = eps};
    return td_graph_append(graph, (td_node){.kind = TD_OP_channel_norm,
                                            .in = {x.id, gamma.id, beta.id},
                                            .info = {.channel_norm = info}});
}

td_tensor td_graph_batch_norm(td_graph *graph, td_tensor x, td_tensor gamma, td_tensor beta,
                              td_tensor running_mean, td_tensor running_var, bool training, float momentum,
                              float eps)
{
    const td_channel_norm_info info = {
        .kind = training ? TD_NORM_BATCH_TRAIN : TD_NORM_BATCH_EVAL, .eps = eps, .momentum = momentum};
    return td_graph_append(graph, (td_node){.kind = TD_OP_channel_norm,
                                            .in = {x.id, gamma.id, beta.id, running_mean.id, running_var.id},
                                            .info = {.channel_norm = info}});
}

td_tensor td_graph_softmax(td_graph *graph, td_tensor x, const td_softmax_options *options)
{
    const td_softmax_options o = options ? *options : (td_softmax_options){0};
    const td_softmax_info info = {.scale = o.scale != 0 ? o.scale : 1, .causal = o.causal};
    return td_graph_append(
        graph,
        (td_node){.kind = TD_OP_softmax, .in = {x.id, o.mask.id, o.lengths.id}, .info = {.softmax = info}});
}

/* q, k and v start at these columns of their tensors. */
static td_tensor attend(td_graph *graph, const td_tensor x[3], const uint32_t at[3], uint32_t width,
                        const td_attention_options *o)
{
    const td_shape q = td_graph_shape(graph, x[0]);
    const td_attention_shape shape = {.batch = q.dims[0],
                                      .heads = o->heads,
                                      .head_size = o->heads ? width / o->heads : 0,
                                      .queries = q.dims[1],
                                      .keys = td_graph_shape(graph, x[1]).dims[1],
                                      .causal = o->causal,
                                      .scale = o->scale};
    return td_graph_append(graph,
                           (td_node){.kind = TD_OP_attention,
                                     .in = {x[0].id, x[1].id, x[2].id, o->lengths.id},
                                     .info = {.attention = {.shape = shape, .at = {at[0], at[1], at[2]}}}});
}

td_tensor td_graph_attention(td_graph *graph, td_tensor q, td_tensor k, td_tensor v,
                             const td_attention_options *options)
{
    return attend(graph, (td_tensor[]){q, k, v}, (uint32_t[]){0, 0, 0}, td_graph_shape(graph, q).dims[2],
                  options);
}

td_tensor td_graph_attention_qkv(td_graph *graph, td_tensor qkv, const td_attention_options *options)
{
    const uint32_t width = td_graph_shape(graph, qkv).dims[2] / 3;
    return attend(graph, (td_tensor[]){qkv, qkv, qkv}, (uint32_t[]){0, width, 2 * width}, width, options);
}

td_tensor td_graph_attention_kv(td_graph *graph, td_tensor q, td_tensor kv,
                                const td_attention_options *options)
{
    const uint32_t width = td_graph_shape(graph, kv).dims[2] / 2;
    return attend(graph, (td_tensor[]){q, kv, kv}, (uint32_t[]){0, 0, width}, width, options);
}

/* ---------------------------------------------------------------- reductions and moves */

static td_tensor reduce(td_graph *graph, td_op_kind op, td_reduce_kind kind, td_tensor x, uint32_t axis)
{
    td_node node = {.kind = op, .in = {x.id}, .info = {.reduce = {.kind = kind}}};
    td_reduce_info *info = &node.info.reduce;
    const td_shape shape = td_graph_shape(graph, x);
    if (!x.id || axis >= shape.n_dims) {
        td_graph_blame(graph, &node, "there is no axis %u", axis);
        return TD_NO_TENSOR;
    }
    td_shape_split(shape, axis, &info->outer, &info->axis, &info->inner);
    td_graph_make_output(graph, &node, 0, td_shape_without(shape, axis), TD_F32);
    return td_graph_append(graph, node);
}

td_tensor td_graph_sum(td_graph *graph, td_tensor x, uint32_t axis)
{
    return reduce(graph, TD_OP_reduce, TD_REDUCE_SUM, x, axis);
}

td_tensor td_graph_mean(td_graph *graph, td_tensor x, uint32_t axis)
{
    return reduce(graph, TD_OP_reduce, TD_REDUCE_MEAN, x, axis);
}

td_tensor td_graph_sum_squares(td_graph *graph, td_tensor x, uint32_t axis)
{
    return reduce(graph, TD_OP_reduce, TD_REDUCE_SQUARES, x, axis);
}

td_tensor td_graph_largest(td_graph *graph, td_tensor x, uint32_t axis)
{
    return reduce(graph, TD_OP_max, TD_REDUCE_SUM, x, axis);
}

td_tensor td_graph_largest_index(td_graph *graph, td_tensor x, uint32_t axis)
{
    const td_tensor largest = td_graph_largest(graph, x, axis);
    if (!largest.id) return TD_NO_TENSOR;
    const td_tensor index = {graph->nodes[graph->n_nodes - 1].out[1]};
    return td_graph_reshape(graph, index, td_graph_shape(graph, largest));
}

td_tensor td_graph_permute(td_graph *graph, td_tensor x, const uint32_t *order)
{
    td_node node = {.kind = TD_OP_permute, .in = {x.id}};
    for (size_t d = 0; d < td_graph_shape(graph, x).n_dims; d++)
        node.info.move.first[d] = order[d];
    return td_graph_append(graph, node);
}

td_tensor td_graph_concat(td_graph *graph, const td_tensor *parts, size_t n_parts, uint32_t axis)
{
    td_node node = {.kind = TD_OP_concat, .info = {.axis = axis}};
    for (size_t i = 0; i < n_parts && i < TD_NODE_INPUTS; i++)
        node.in[i] = parts[i].id;
    if (n_parts > TD_NODE_INPUTS)
        td_graph_blame(graph, &node, "%zu parts; at most %d", n_parts, TD_NODE_INPUTS);
    return td_graph_append(graph, node);
}

td_tensor td_graph_pad(td_graph *graph, td_tensor x, uint32_t axis, uint32_t before, uint32_t after,
                       float value)
{
    td_node node = {.kind = TD_OP_pad, .in = {x.id}, .info = {.move = {.value = value}}};
    if (axis >= td_graph_shape(graph, x).n_dims) {
        td_graph_blame(graph, &node, "there is no axis %u", axis);
        return TD_NO_TENSOR;
    }
    node.info.move.first[axis] = before;
    node.info.move.last[axis] = after;
    return td_graph_append(graph, node);
}

td_tensor td_graph_embedding(td_graph *graph, td_tensor table, td_tensor index)
{
    return td_graph_append(graph, (td_node){.kind = TD_OP_gather, .in = {table.id, index.id}});
}

td_tensor td_graph_gather(td_graph *graph, td_tensor x, td_tensor index)
{
    return td_graph_append(graph, (td_node){.kind = TD_OP_gather, .in = {x.id, index.id}});
}

/* ---------------------------------------------------------------- losses */

td_tensor td_graph_loss(td_graph *graph, td_loss_kind kind, td_tensor x, td_tensor y, td_tensor lengths,
                        float shape)
{
    return td_graph_append(graph, (td_node){.kind = TD_OP_loss,
                                            .in = {x.id, y.id, lengths.id},
                                            .info = {.loss = {.kind = kind, .shape = shape, .weight = 1}}});
}

td_tensor td_graph_cross_entropy(td_graph *graph, td_tensor logits, td_tensor target, uint32_t ignore,
                                 float smoothing)
{
    return td_graph_append(graph,
                           (td_node){.kind = TD_OP_cross_entropy,
                                     .in = {logits.id, target.id},
                                     .info = {.loss = {.shape = smoothing, .weight = 1, .ignore = ignore}}});
}

td_tensor td_graph_total(td_graph *graph, const td_tensor *losses, const float *weights, size_t n)
{
    td_tensor total = td_graph_scale(graph, n ? losses[0] : TD_NO_TENSOR, n ? weights[0] : 0);
    for (size_t i = 1; i < n; i++)
        total = td_graph_add_scaled(graph, total, losses[i], weights[i]);
    return total;
}
