/* Building graphs: shapes, views, mistakes that stick and say what was wrong; gradients where there are none.
 * No device is needed. */
#include <string.h>

#include "rig.h"

static td_graph *open_graph(void)
{
    td_graph *g = NULL;
    check(td_graph_create(1, &g));
    return g;
}

static void expect_shape(const td_graph *g, td_tensor t, td_shape shape)
{
    check(td_graph_status(g));
    assert_true(td_shape_equal(td_graph_shape(g, t), shape));
}

static void test_shapes(void **state)
{
    (void)state;
    td_graph *g = open_graph();
    const td_tensor x = td_graph_input(g, "x", td_dims(2, 6, 8), TD_F32);
    const td_tensor w = td_graph_param(g, "w", td_dims(8, 5), TD_PARAM_DECAY);
    const td_tensor c = td_graph_param(g, "c", td_dims(3, 8, 4), TD_PARAM_DECAY);
    const td_tensor ids = td_graph_input(g, "ids", td_dims(2, 7), TD_U32);
    expect_shape(g, td_graph_matmul(g, x, w), td_dims(2, 6, 5));
    expect_shape(g, td_graph_matmul_nt(g, x, x), td_dims(2, 6, 6));
    expect_shape(g, td_graph_matmul_tn(g, x, x), td_dims(2, 8, 8));
    expect_shape(g, td_graph_conv_padded(g, x, c, TD_NO_TENSOR, &(td_conv){.stride_width = 2}, TD_PADS_SAME),
                 td_dims(2, 3, 4));
    expect_shape(g, td_graph_gather(g, x, ids), td_dims(2, 7, 8));
    expect_shape(g, td_graph_embedding(g, w, ids), td_dims(2, 7, 5));
    expect_shape(g, td_graph_sum(g, x, 1), td_dims(2, 8));
    expect_shape(g, td_graph_permute(g, x, (uint32_t[]){2, 0, 1}), td_dims(8, 2, 6));
    expect_shape(g, td_graph_concat(g, (td_tensor[]){x, x}, 2, 1), td_dims(2, 12, 8));
    expect_shape(g, td_graph_pad(g, x, 1, 2, 1, 0), td_dims(2, 9, 8));
    expect_shape(g, td_graph_add(g, x, td_graph_input(g, "row", td_dims(6, 1), TD_F32)), td_dims(2, 6, 8));
    td_graph_destroy(g);
}

static void test_views(void **state)
{
    (void)state;
    td_graph *g = open_graph();
    const td_tensor x = td_graph_input(g, "x", td_dims(4, 64), TD_F32);
    const td_tensor part = td_graph_slice(g, x, 0, 2, 2), odd = td_graph_slice(g, x, 1, 1, 3);
    const td_tensor again = td_graph_reshape(g, part, td_dims(2, 8, 8));
    check(td_graph_status(g));
    assert_int_equal(td_graph_at(g, part.id)->root, x.id);
    assert_int_equal(td_graph_at(g, again.id)->root, x.id);
    assert_int_equal(td_graph_at(g, again.id)->root_offset, 128);
    assert_int_equal(td_graph_at(g, odd.id)->root, odd.id);
    td_graph_destroy(g);
}

/* The first mistake stays, later builders do nothing, and the message names operation, tensors and shapes. */
static void test_mistakes(void **state)
{
    (void)state;
    td_graph *g = open_graph();
    const td_tensor x = td_graph_input(g, "speech", td_dims(2, 6, 8), TD_F32);
    const td_tensor w = td_graph_param(g, "weights", td_dims(7, 5), TD_PARAM_DECAY);
    const td_tensor y = td_graph_matmul(g, x, w);
    assert_int_equal(y.id, 0);
    const size_t nodes = g->n_nodes;
    assert_int_equal(td_graph_gelu(g, td_graph_add(g, y, x)).id, 0);
    assert_int_equal(g->n_nodes, nodes);
    refuse(TD_ERR_ARGUMENT, "matmul", td_graph_status(g));
    refuse(TD_ERR_ARGUMENT, "speech [2, 6, 8], weights [7, 5]", td_graph_status(g));
    refuse(TD_ERR_ARGUMENT, "matmul", td_graph_backward(g, y, 1));
    td_graph_destroy(g);
}

typedef td_tensor (*builder)(td_graph *g, td_tensor x, td_tensor ids);

static td_tensor bad_axis(td_graph *g, td_tensor x, td_tensor ids)
{
    (void)ids;
    return td_graph_sum(g, x, 3);
}

static td_tensor bad_broadcast(td_graph *g, td_tensor x, td_tensor ids)
{
    (void)ids;
    return td_graph_add(g, x, td_graph_input(g, "b", td_dims(7), TD_F32));
}

static td_tensor bad_type(td_graph *g, td_tensor x, td_tensor ids)
{
    return td_graph_mul(g, x, ids);
}

static td_tensor bad_reshape(td_graph *g, td_tensor x, td_tensor ids)
{
    (void)ids;
    return td_graph_reshape(g, x, td_dims(5, 5));
}

static td_tensor bad_heads(td_graph *g, td_tensor x, td_tensor ids)
{
    (void)ids;
    return td_graph_attention(g, x, x, x, &(td_attention_options){.heads = 3});
}

static td_tensor bad_missing(td_graph *g, td_tensor x, td_tensor ids)
{
    (void)ids;
    return td_graph_mul(g, x, TD_NO_TENSOR);
}

static td_tensor bad_twin(td_graph *g, td_tensor x, td_tensor ids)
{
    (void)ids;
    td_graph_param(g, "p", td_dims(3), TD_PARAM_DECAY);
    td_graph_param(g, "p", td_dims(3), TD_PARAM_DECAY);
    return x;
}

static td_tensor bad_conv(td_graph *g, td_tensor x, td_tensor ids)
{
    (void)ids;
    return td_graph_conv(g, x, td_graph_param(g, "p", td_dims(9, 8, 4), TD_PARAM_DECAY), TD_NO_TENSOR,
                         &(td_conv){0});
}

static td_tensor bad_huge(td_graph *g, td_tensor x, td_tensor ids)
{
    (void)ids;
    (void)x;
    return td_graph_input(g, "huge", td_dims(65536, 65536), TD_F32);
}

static void test_each_mistake(void **state)
{
    (void)state;
    static const struct {
        builder make;
        td_status status;
        const char *word;
    } rows[] = {
        {bad_axis, TD_ERR_ARGUMENT, "no axis 3"},
        {bad_broadcast, TD_ERR_ARGUMENT, "do not fit"},
        {bad_type, TD_ERR_ARGUMENT, "does not hold floats"},
        {bad_reshape, TD_ERR_ARGUMENT, "25 elements"},
        {bad_heads, TD_ERR_ARGUMENT, "32, 64, 96"},
        {bad_missing, TD_ERR_ARGUMENT, "missing"},
        {bad_twin, TD_ERR_ARGUMENT, "called p"},
        {bad_conv, TD_ERR_ARGUMENT, "nothing is left"},
        {bad_huge, TD_ERR_LIMIT, "huge"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        td_graph *g = open_graph();
        const td_tensor x = td_graph_input(g, "x", td_dims(2, 6, 8), TD_F32);
        const td_tensor ids = td_graph_input(g, "ids", td_dims(2, 6, 8), TD_U32);
        rows[i].make(g, x, ids);
        refuse(rows[i].status, rows[i].word, td_graph_status(g));
        td_graph_destroy(g);
    }
}

/* Frozen parameters and what is stopped get no gradient; a shared parameter gets one, in two contributions.
 */
static void test_gradients(void **state)
{
    (void)state;
    td_graph *g = open_graph();
    const td_tensor x = td_graph_input(g, "x", td_dims(1, 4, 8), TD_F32);
    const td_tensor lengths = td_graph_input(g, "lengths", td_dims(1), TD_U32);
    const td_tensor w = td_graph_param(g, "w", td_dims(8, 8), TD_PARAM_DECAY);
    const td_tensor frozen = td_graph_param(g, "frozen", td_dims(8), TD_PARAM_DECAY);
    td_graph_freeze(g, frozen);
    const td_tensor stopped = td_graph_param(g, "stopped", td_dims(8), TD_PARAM_NO_DECAY);
    td_tensor y = td_graph_add(g, td_graph_matmul(g, td_graph_matmul(g, x, w), w), frozen);
    y = td_graph_add(g, y, td_graph_stop_gradient(g, stopped));
    const td_tensor loss = td_graph_loss(g, TD_LOSS_MSE, y, x, lengths, 1);
    check(td_graph_backward(g, loss, 1));
    assert_int_not_equal(td_graph_gradient(g, w).id, 0);
    assert_int_equal(td_graph_gradient(g, frozen).id, 0);
    assert_int_equal(td_graph_gradient(g, stopped).id, 0);
    size_t first = 0, always = 0;
    for (size_t n = 0; n < g->n_nodes; n++) {
        if (g->nodes[n].out[0] != td_graph_gradient(g, w).id) continue;
        first += g->nodes[n].add[0] == TD_ADD_FIRST;
        always += g->nodes[n].add[0] == TD_ADD_ALWAYS;
    }
    assert_int_equal(first, 1);
    assert_int_equal(always, 1);
    refuse(TD_ERR_ARGUMENT, "twice", td_graph_backward(g, loss, 1));
    td_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),    cmocka_unit_test(test_views),
        cmocka_unit_test(test_mistakes),  cmocka_unit_test(test_each_mistake),
        cmocka_unit_test(test_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
