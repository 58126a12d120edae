/* The builder of src/nn: names, parameters that are shared, mistakes, what is not trained, and the values
 * that parameters begin with. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/plan.h"
#include "nn/nn.h"
#include "support/rig.h"

static td_nn open_nn(void)
{
    td_nn nn = {0};
    check(td_graph_create(1, &nn.graph));
    return nn;
}

static td_tensor make_input(td_nn *nn, uint32_t width)
{
    return td_graph_input(nn->graph, "x", td_dims(2, 5, width), TD_F32);
}

static void expect_shape(const td_nn *nn, const char *name, td_shape expected)
{
    const td_shape shape = td_graph_shape(nn->graph, td_graph_find(nn->graph, name));
    if (td_graph_find(nn->graph, name).id == 0) fail_msg("there is no %s", name);
    assert_int_equal(shape.n_dims, expected.n_dims);
    assert_memory_equal(shape.dims, expected.dims, expected.n_dims * sizeof *expected.dims);
}

/* The graph's mistake has each of `words`. */
static void expect_mistake(td_nn *nn, const char *words)
{
    refuse(TD_ERR_ARGUMENT, words, td_graph_status(nn->graph));
    td_graph_destroy(nn->graph);
    *nn = open_nn();
}

/* ---------------------------------------------------------------- names */

static void test_names_carry_their_prefixes(void **state)
{
    (void)state;
    td_nn nn = open_nn();
    const td_tensor x = make_input(&nn, 6);
    td_nn_push(&nn, "text");
    td_nn_push(&nn, "block.%u", 3);
    (void)td_nn_linear(&nn, "qkv", x, 9);
    (void)td_nn_norm(&nn, "norm", x);
    (void)td_nn_positions(&nn, "places", 7, 4, 1);
    td_nn_pop(&nn);
    (void)td_nn_conv(&nn, "conv", x, 3, 8);
    td_nn_pop(&nn);
    (void)td_nn_embedding(&nn, "table", 11, 5, td_graph_input(nn.graph, "ids", td_dims(2, 5), TD_U32));
    td_nn_pop(&nn); /* one more than there are does no harm */
    (void)td_nn_linear(&nn, "out", x, 2);
    check(td_graph_status(nn.graph));
    expect_shape(&nn, "text.block.3.qkv.weight", td_dims(6, 9));
    expect_shape(&nn, "text.block.3.qkv.bias", td_dims(9));
    expect_shape(&nn, "text.block.3.norm.gamma", td_dims(6));
    expect_shape(&nn, "text.block.3.norm.beta", td_dims(6));
    expect_shape(&nn, "constant.places", td_dims(7, 4));
    expect_shape(&nn, "text.conv.weight", td_dims(3, 6, 8));
    expect_shape(&nn, "table", td_dims(11, 5));
    expect_shape(&nn, "out.weight", td_dims(6, 2));
    td_graph_destroy(nn.graph);
}

static void test_names_have_an_end(void **state)
{
    (void)state;
    td_nn nn = open_nn();
    char name[2 * TD_NN_NAME_BYTES];
    memset(name, 'n', sizeof name);
    name[TD_NN_NAME_BYTES - 1 - strlen(".weight")] = '\0';
    (void)td_nn_linear(&nn, name, make_input(&nn, 2), 2); /* just fits */
    check(td_graph_status(nn.graph));
    td_nn_push(&nn, "a");
    (void)td_nn_linear(&nn, name, make_input(&nn, 2), 2);
    expect_mistake(&nn, "a.nnnn|is longer than 95 bytes");
    name[strlen(name)] = 'n';
    name[TD_NN_NAME_BYTES] = '\0';
    td_nn_push(&nn, "%s", name);
    expect_mistake(&nn, "nnnn|is longer than 95 bytes");
    (void)td_nn_positions(&nn, name, 2, 2, 1);
    expect_mistake(&nn, "constant.nnnn|is longer than 95 bytes");
    td_graph_destroy(nn.graph);
}

static void test_stacks_have_an_end(void **state)
{
    (void)state;
    td_nn nn = open_nn();
    for (int i = 0; i < TD_NN_DEPTH; i++)
        td_nn_push(&nn, "%d", i);
    check(td_graph_status(nn.graph));
    assert_string_equal(nn.prefix, "0.1.2.3.4.5.6.7");
    td_nn_push(&nn, "one more");
    expect_mistake(&nn, "more than 8 levels|0.1.2.3.4.5.6.7.one more");
    td_graph_destroy(nn.graph);
}

/* ---------------------------------------------------------------- sharing */

static void test_one_name_is_one_parameter(void **state)
{
    (void)state;
    td_nn nn = open_nn();
    const td_init init = {.rule = TD_INIT_UNIFORM, .scale = 1};
    const td_tensor first = td_nn_param(&nn, "shared", td_dims(3, 4), TD_PARAM_DECAY, init);
    const td_tensor second = td_nn_param(&nn, "shared", td_dims(3, 4), TD_PARAM_DECAY, init);
    const td_tensor other = td_nn_param(&nn, "other", td_dims(3, 4), TD_PARAM_DECAY, init);
    assert_int_equal(first.id, second.id);
    assert_int_not_equal(first.id, other.id);
    const td_tensor table = td_nn_positions(&nn, "places", 7, 4, 1);
    td_nn_push(&nn, "elsewhere");
    assert_int_equal(td_nn_positions(&nn, "places", 7, 4, 1).id, table.id); /* whatever the prefix */
    assert_int_not_equal(td_nn_param(&nn, "shared", td_dims(3, 4), TD_PARAM_DECAY, init).id, first.id);
    check(td_graph_status(nn.graph));
    assert_int_equal(td_graph_parameters(nn.graph), 3 * 12);
    td_graph_destroy(nn.graph);
}

static void test_another_use_of_a_name_is_a_mistake(void **state)
{
    (void)state;
    td_nn nn = open_nn();
    const td_init init = {.rule = TD_INIT_ZERO};
    td_nn_push(&nn, "part");
    (void)td_nn_param(&nn, "w", td_dims(3, 4), TD_PARAM_DECAY, init);
    (void)td_nn_param(&nn, "w", td_dims(4, 3), TD_PARAM_DECAY, init);
    expect_mistake(&nn, "part.w|[3, 4] with decay|[4, 3] with decay");
    (void)td_nn_param(&nn, "w", td_dims(3), TD_PARAM_DECAY, init);
    (void)td_nn_param(&nn, "w", td_dims(3), TD_PARAM_NO_DECAY, init);
    expect_mistake(&nn, "parameter w |[3] with decay|[3] without decay");
    (void)td_nn_positions(&nn, "places", 7, 4, 1);
    (void)td_nn_positions(&nn, "places", 8, 4, 1);
    expect_mistake(&nn, "constant.places");
    td_graph_destroy(nn.graph);
}

/* ---------------------------------------------------------------- what is trained */

/* Parameters a.w, a.v, b.w; the loss depends on all. */
static td_nn build_three(const td_nn_trained *trained)
{
    static const char *const PARTS[] = {"a", "a", "b"}, *const NAMES[] = {"w", "v", "w"};
    const td_init init = {.rule = TD_INIT_ONE};
    td_nn nn = open_nn();
    td_tensor sum = make_input(&nn, 4);
    nn.trained = *trained;
    for (int i = 0; i < 3; i++) {
        td_nn_push(&nn, "%s", PARTS[i]);
        sum = td_graph_mul(nn.graph, sum, td_nn_param(&nn, NAMES[i], td_dims(4), TD_PARAM_DECAY, init));
        td_nn_pop(&nn);
    }
    for (int axis = 0; axis < 3; axis++)
        sum = td_graph_sum(nn.graph, sum, 0);
    check(td_graph_backward(nn.graph, sum, 1));
    return nn;
}

/* `expected`: which of a.w, a.v, b.w get a gradient, such as "ax-". */
static void expect_trained(const td_nn_trained *trained, const char *expected)
{
    static const char *const NAMES[] = {"a.w", "a.v", "b.w"};
    td_nn nn = build_three(trained);
    for (int i = 0; i < 3; i++) {
        const td_tensor parameter = td_graph_find(nn.graph, NAMES[i]);
        if ((td_graph_gradient(nn.graph, parameter).id != 0) != (expected[i] == 'x'))
            fail_msg("%s is %strained", NAMES[i], expected[i] == 'x' ? "not " : "");
    }
    td_graph_destroy(nn.graph);
}

static void test_what_is_not_trained_gets_no_gradient(void **state)
{
    (void)state;
    static const char *const A[] = {"a."}, *const BOTH[] = {"a.v", "b."};
    expect_trained(&(td_nn_trained){0}, "xxx");
    expect_trained(&(td_nn_trained){.frozen = ""}, "xxx");
    expect_trained(&(td_nn_trained){.frozen = "a.*"}, "--x");
    expect_trained(&(td_nn_trained){.frozen = "?.w"}, "-x-");
    expect_trained(&(td_nn_trained){.frozen = "a.v,b.w"}, "x--");
    expect_trained(&(td_nn_trained){.frozen = "w"}, "xxx"); /* a pattern is of the whole name */
    expect_trained(&(td_nn_trained){.prefixes = A, .n_prefixes = 1}, "xx-");
    expect_trained(&(td_nn_trained){.prefixes = BOTH, .n_prefixes = 2}, "-xx");
    expect_trained(&(td_nn_trained){.prefixes = A, .n_prefixes = 1, .frozen = "*.w"}, "-x-");
}

/* ---------------------------------------------------------------- first values */

/* Owned by the caller. */
static float *read_values(td_store *store, const char *name, size_t *n)
{
    size_t i = 0;
    while (i < td_store_count(store) && strcmp(td_store_get(store, i).name, name) != 0)
        i++;
    if (i == td_store_count(store)) fail_msg("the store has no %s", name);
    *n = (size_t)td_shape_size(td_store_get(store, i).shape);
    float *values = calloc(*n, sizeof *values);
    assert_non_null(values);
    check(td_store_read(store, i, TD_BLOCK_WEIGHT, values));
    return values;
}

static void expect_uniform(td_store *store, const char *name, float bound)
{
    size_t n = 0;
    float *values = read_values(store, name, &n), most = 0, sum = 0;
    for (size_t i = 0; i < n; i++) {
        most = fmaxf(most, fabsf(values[i]));
        sum += values[i];
    }
    if (!(most <= bound && most > 0.9f * bound)) fail_msg("%s goes to %g, not %g", name, most, bound);
    assert_true(fabsf(sum) < 0.2f * bound * (float)n);
    free(values);
}

static void expect_all(td_store *store, const char *name, float expected)
{
    size_t n = 0;
    float *values = read_values(store, name, &n);
    for (size_t i = 0; i < n; i++)
        assert_true(values[i] == expected);
    free(values);
}

static bool are_equal(td_store *store, const char *a, const char *b)
{
    size_t n_a = 0, n_b = 0;
    float *x = read_values(store, a, &n_a), *y = read_values(store, b, &n_b);
    const bool equal = n_a == n_b && memcmp(x, y, n_a * sizeof *x) == 0;
    free(x);
    free(y);
    return equal;
}

static void expect_positions(td_store *store, const char *name, size_t width, double rate)
{
    size_t n = 0;
    float *values = read_values(store, name, &n);
    for (size_t row = 0; row < n / width; row++) {
        for (size_t i = 0; i < width; i++) {
            const double angle = (double)row * rate * pow(10000, -2 * (double)(i / 2) / (double)width);
            const double expected = i % 2 ? cos(angle) : sin(angle);
            assert_true(fabs((double)values[row * width + i] - expected) < 2e-6);
        }
    }
    free(values);
}

static void test_values_begin_as_layers_say(void **state)
{
    (void)state;
    rig r;
    td_store *store;
    size_t n = 0;
    if (!rig_open(&r, RIG_CL_CPU, 0)) return;
    td_nn nn = open_nn();
    const td_tensor x = make_input(&nn, 25);
    td_nn_push(&nn, "part");
    (void)td_nn_linear(&nn, "query", x, 40);
    (void)td_nn_linear_like(&nn, "key", x, 40, "query");
    (void)td_nn_linear(&nn, "value", x, 40);
    (void)td_nn_conv(&nn, "conv", x, 3, 40);
    (void)td_nn_norm(&nn, "norm", x);
    (void)td_nn_positions(&nn, "slow", 6, 8, 0.25f);
    check(td_graph_status(nn.graph));
    check(td_store_create(r.memory, nn.graph, &(td_store_options){0}, &store));
    check(td_store_init(store, 7));
    expect_uniform(store, "part.query.weight", 1 / sqrtf(25));
    expect_uniform(store, "part.query.bias", 1 / sqrtf(25));
    expect_uniform(store, "part.conv.weight", 1 / sqrtf(75));
    expect_uniform(store, "part.conv.bias", 1 / sqrtf(75));
    assert_true(are_equal(store, "part.query.weight", "part.key.weight"));
    assert_true(are_equal(store, "part.query.bias", "part.key.bias"));
    assert_false(are_equal(store, "part.query.weight", "part.value.weight"));
    expect_all(store, "part.norm.gamma", 1);
    expect_all(store, "part.norm.beta", 0);
    expect_positions(store, "constant.slow", 8, 0.25);
    float *before = read_values(store, "part.query.weight", &n);
    check(td_store_init(store, 8));
    float *after = read_values(store, "part.query.weight", &n);
    assert_memory_not_equal(before, after, n * sizeof *before); /* of another seed */
    free(before);
    free(after);
    td_store_destroy(store);
    td_graph_destroy(nn.graph);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_carry_their_prefixes),
        cmocka_unit_test(test_names_have_an_end),
        cmocka_unit_test(test_stacks_have_an_end),
        cmocka_unit_test(test_one_name_is_one_parameter),
        cmocka_unit_test(test_another_use_of_a_name_is_a_mistake),
        cmocka_unit_test(test_what_is_not_trained_gets_no_gradient),
        cmocka_unit_test(test_values_begin_as_layers_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
