/* The builder: names, parameters and the plain layers. See nn.h. Covered by tests/nn/test_nn.c and
 * tests/model/test_model_golden.c. */
#include "nn/nn.h"

#include <fnmatch.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define NORM_EPS 1e-5f
#define TABLE_DEVIATION 0.5f

/* ---------------------------------------------------------------- names */

static void join(td_nn *nn, const char *name, char out[TD_NN_NAME_BYTES])
{
    const int used =
        snprintf(out, TD_NN_NAME_BYTES, "%s%s%s", nn->prefix, nn->prefix[0] && name[0] ? "." : "", name);
    if (used >= TD_NN_NAME_BYTES)
        td_graph_mistake(nn->graph, "the name %s.%s is longer than %d bytes", nn->prefix, name,
                         TD_NN_NAME_BYTES - 1);
}

void td_nn_push(td_nn *nn, const char *format, ...)
{
    char name[2 * TD_NN_NAME_BYTES], whole[TD_NN_NAME_BYTES]; /* join() sees what is too long */
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    if (nn->depth == TD_NN_DEPTH) {
        td_graph_mistake(nn->graph, "more than %d levels of names at %s.%s", TD_NN_DEPTH, nn->prefix, name);
        return;
    }
    nn->lengths[nn->depth++] = strlen(nn->prefix);
    join(nn, name, whole);
    memcpy(nn->prefix, whole, sizeof whole);
}

void td_nn_pop(td_nn *nn)
{
    if (nn->depth > 0) nn->prefix[nn->lengths[--nn->depth]] = '\0';
}

/* ---------------------------------------------------------------- parameters */

static bool matches_any(const char *patterns, const char *name)
{
    char pattern[TD_NN_NAME_BYTES];
    while (patterns && *patterns) {
        const size_t bytes = strcspn(patterns, ",");
        snprintf(pattern, sizeof pattern, "%.*s", (int)bytes, patterns);
        if (fnmatch(pattern, name, 0) == 0) return true;
        patterns += bytes + (patterns[bytes] == ',');
    }
    return false;
}

static bool is_trained(const td_nn_trained *trained, const char *name)
{
    bool owns = !trained->prefixes;
    for (size_t i = 0; i < trained->n_prefixes && !owns; i++)
        owns = strncmp(name, trained->prefixes[i], strlen(trained->prefixes[i])) == 0;
    return owns && !matches_any(trained->frozen, name);
}

static bool is_same(td_shape a, td_shape b)
{
    return a.n_dims == b.n_dims && memcmp(a.dims, b.dims, a.n_dims * sizeof *a.dims) == 0;
}

/* "[8, 16] with decay" */
static void describe(td_shape shape, td_param_group group, char *out, size_t capacity)
{
    size_t used = (size_t)snprintf(out, capacity, "[");
    for (size_t i = 0; i < shape.n_dims; i++)
        used += (size_t)snprintf(out + used, capacity - used, "%s%u", i ? ", " : "", shape.dims[i]);
    snprintf(out + used, capacity - used, "] %s decay", group == TD_PARAM_DECAY ? "with" : "without");
}

static void blame_reuse(td_nn *nn, const char *name, td_tensor known, td_shape shape, td_param_group group)
{
    char first[96], second[96];
    describe(td_graph_shape(nn->graph, known), td_graph_group(nn->graph, known), first, sizeof first);
    describe(shape, group, second, sizeof second);
    td_graph_mistake(nn->graph,
                     "parameter %s is used as %s and as %s; give each its own name, or both the same shape",
                     name, first, second);
}

td_tensor td_nn_param(td_nn *nn, const char *name, td_shape shape, td_param_group group, td_init init)
{
    char whole[TD_NN_NAME_BYTES];
    join(nn, name, whole);
    const td_tensor known = td_graph_find(nn->graph, whole);
    if (known.id && is_same(td_graph_shape(nn->graph, known), shape) &&
        td_graph_group(nn->graph, known) == group)
        return known;
    if (known.id) blame_reuse(nn, whole, known, shape, group);
    const td_tensor made = td_graph_param(nn->graph, whole, shape, group);
    td_graph_set_init(nn->graph, made, init);
    if (!is_trained(&nn->trained, whole)) td_graph_freeze(nn->graph, made);
    return made;
}

td_tensor td_nn_positions(td_nn *nn, const char *name, uint32_t rows, uint32_t width, float rate)
{
    char whole[TD_NN_NAME_BYTES];
    if (snprintf(whole, sizeof whole, "constant.%s", name) >= TD_NN_NAME_BYTES)
        td_graph_mistake(nn->graph, "the name constant.%s is longer than %d bytes", name,
                         TD_NN_NAME_BYTES - 1);
    const td_tensor known = td_graph_find(nn->graph, whole);
    if (known.id && is_same(td_graph_shape(nn->graph, known), td_dims(rows, width))) return known;
    const td_tensor table = td_graph_state(nn->graph, whole, td_dims(rows, width), TD_STATE_CONSTANT);
    td_graph_set_init(nn->graph, table, (td_init){.rule = TD_INIT_POSITIONS, .scale = rate});
    return table;
}

td_tensor td_nn_embedding(td_nn *nn, const char *name, uint32_t rows, uint32_t width, td_tensor index)
{
    const td_tensor table = td_nn_param(nn, name, td_dims(rows, width), TD_PARAM_NO_DECAY,
                                        (td_init){.rule = TD_INIT_NORMAL, .scale = TABLE_DEVIATION});
    return td_graph_embedding(nn->graph, table, index);
}

/* ---------------------------------------------------------------- layers */

static uint32_t count_channels(const td_nn *nn, td_tensor x)
{
    const td_shape shape = td_graph_shape(nn->graph, x);
    return shape.n_dims ? shape.dims[shape.n_dims - 1] : 0;
}

/* Weights and bias of what sums fan_in products; values begin within 1 / sqrt(fan_in). */
typedef struct affine {
    td_tensor weight, bias;
} affine;

/* `width` is the last axis of the shape; in a graph with a mistake both may be empty. */
static affine make_affine(td_nn *nn, const char *name, td_shape shape, uint32_t width, const char *like)
{
    const uint64_t fan_in = width ? td_shape_size(shape) / width : 0;
    const char *parts[] = {"weight", "bias"};
    td_tensor made[2];
    for (int i = 0; i < 2; i++) {
        char part[2 * TD_NN_NAME_BYTES], source[TD_NN_NAME_BYTES];
        td_init init = {.rule = TD_INIT_UNIFORM, .scale = 1.0f / sqrtf(fan_in ? (float)fan_in : 1)};
        snprintf(part, sizeof part, "%s.%s", name, parts[i]);
        if (like) {
            char other[2 * TD_NN_NAME_BYTES];
            snprintf(other, sizeof other, "%s.%s", like, parts[i]);
            join(nn, other, source);
            init.like = source;
        }
        made[i] =
            td_nn_param(nn, part, i ? td_dims(width) : shape, i ? TD_PARAM_NO_DECAY : TD_PARAM_DECAY, init);
    }
    return (affine){made[0], made[1]};
}

td_tensor td_nn_linear_like(td_nn *nn, const char *name, td_tensor x, uint32_t width, const char *like)
{
    const uint32_t in = count_channels(nn, x);
    const affine a = make_affine(nn, name, td_dims(in, width), width, like);
    return td_graph_add(nn->graph, td_graph_matmul(nn->graph, x, a.weight), a.bias);
}

td_tensor td_nn_linear(td_nn *nn, const char *name, td_tensor x, uint32_t width)
{
    return td_nn_linear_like(nn, name, x, width, NULL);
}

td_tensor td_nn_conv(td_nn *nn, const char *name, td_tensor x, uint32_t taps, uint32_t width)
{
    const uint32_t in = count_channels(nn, x);
    const affine a = make_affine(nn, name, td_dims(taps, in, width), width, NULL);
    return td_graph_conv_padded(nn->graph, x, a.weight, a.bias, &(td_conv){0}, TD_PADS_SAME);
}

td_tensor td_nn_norm(td_nn *nn, const char *name, td_tensor x)
{
    return td_nn_norm_eps(nn, name, x, NORM_EPS);
}

td_tensor td_nn_norm_eps(td_nn *nn, const char *name, td_tensor x, float eps)
{
    const td_shape shape = td_dims(count_channels(nn, x));
    td_nn_push(nn, "%s", name);
    const td_tensor gamma =
        td_nn_param(nn, "gamma", shape, TD_PARAM_NO_DECAY, (td_init){.rule = TD_INIT_ONE});
    const td_tensor beta = td_nn_param(nn, "beta", shape, TD_PARAM_NO_DECAY, (td_init){.rule = TD_INIT_ZERO});
    td_nn_pop(nn);
    return td_graph_layer_norm(nn->graph, x, gamma, beta, eps);
}

td_tensor td_nn_dropout(td_nn *nn, td_tensor x)
{
    return td_graph_dropout(nn->graph, x, nn->dropout);
}

td_tensor td_nn_mask(td_nn *nn, td_tensor lengths, uint32_t n)
{
    const td_tensor mask = td_graph_mask(nn->graph, lengths, n, TD_MASK_ONE);
    return td_graph_reshape(nn->graph, mask, td_dims(td_graph_shape(nn->graph, lengths).dims[0], n, 1));
}
