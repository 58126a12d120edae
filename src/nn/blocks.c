/* Blocks of pre-norm transformers with convolutions in their feed-forward parts. Positions behind an item's
 * end hold anything finite: whatever looks beyond its own position (convolutions, attention, sums) is given
 * masked values or lengths, so nothing of them reaches a valid position, and no gradient reaches them. See
 * nn.h. Covered by tests/model/test_model_golden.c. */
#include "nn/nn.h"

td_tensor td_nn_self_attention(td_nn *nn, td_tensor x, uint32_t heads, td_tensor lengths, bool causal)
{
    const td_shape shape = td_graph_shape(nn->graph, x);
    const uint32_t width = shape.n_dims ? shape.dims[shape.n_dims - 1] : 0;
    td_nn_push(nn, "attention");
    const td_tensor qkv = td_nn_linear(nn, "qkv", td_nn_norm(nn, "norm", x), 3 * width);
    const td_tensor a = td_graph_attention_qkv(
        nn->graph, qkv, &(td_attention_options){.heads = heads, .causal = causal, .lengths = lengths});
    const td_tensor y = td_nn_dropout(nn, td_nn_linear(nn, "out", a, width));
    td_nn_pop(nn);
    return td_graph_add(nn->graph, x, y);
}

td_tensor td_nn_feed_forward(td_nn *nn, td_tensor x, uint32_t inside, uint32_t taps, td_tensor mask)
{
    const td_shape shape = td_graph_shape(nn->graph, x);
    const uint32_t width = shape.n_dims ? shape.dims[shape.n_dims - 1] : 0;
    td_nn_push(nn, "ff");
    td_tensor y = td_nn_norm(nn, "norm", x);
    if (mask.id) y = td_graph_mul(nn->graph, y, mask);
    y = td_nn_dropout(nn, td_graph_relu(nn->graph, td_nn_conv(nn, "conv1", y, taps, inside)));
    y = td_nn_dropout(nn, td_nn_conv(nn, "conv2", y, 1, width));
    td_nn_pop(nn);
    return td_graph_add(nn->graph, x, y);
}

td_tensor td_nn_stack(td_nn *nn, td_tensor x, const td_nn_stack_options *o)
{
    for (uint32_t i = 0; i < o->layers; i++) {
        td_nn_push(nn, "block.%u", i);
        td_graph_block_begin(nn->graph);
        if (o->heads) x = td_nn_self_attention(nn, x, o->heads, o->lengths, false);
        x = td_nn_feed_forward(nn, x, o->inside, o->taps, o->mask);
        td_graph_block_end(nn->graph);
        td_nn_pop(nn);
    }
    return td_nn_norm(nn, "norm", x);
}
