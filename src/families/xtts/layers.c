/* See layers.h. */
#include "families/xtts/layers.h"

#include <math.h>
#include <stdio.h>

#define NORM_EPS 1e-5f

static uint32_t count_channels(const td_nn *nn, td_tensor x)
{
    const td_shape shape = td_graph_shape(nn->graph, x);
    return shape.n_dims ? shape.dims[shape.n_dims - 1] : 0;
}

static td_tensor make_weight(td_nn *nn, const char *name, td_shape shape, uint32_t fan_in)
{
    char part[2 * TD_NN_NAME_BYTES];
    snprintf(part, sizeof part, "%s.weight", name);
    return td_nn_param(nn, part, shape, TD_PARAM_DECAY,
                       (td_init){.rule = TD_INIT_UNIFORM, .scale = 1.0f / sqrtf(fan_in ? (float)fan_in : 1)});
}

td_tensor td_xtts_scale(td_nn *nn, const char *name, uint32_t width)
{
    char part[2 * TD_NN_NAME_BYTES];
    snprintf(part, sizeof part, "%s.weight", name);
    return td_nn_param(nn, part, td_dims(width), TD_PARAM_NO_DECAY, (td_init){.rule = TD_INIT_ONE});
}

td_tensor td_xtts_offset(td_nn *nn, const char *name, uint32_t width)
{
    char part[2 * TD_NN_NAME_BYTES];
    snprintf(part, sizeof part, "%s.bias", name);
    return td_nn_param(nn, part, td_dims(width), TD_PARAM_NO_DECAY, (td_init){.rule = TD_INIT_ZERO});
}

td_tensor td_xtts_project(td_nn *nn, const char *name, td_tensor x, uint32_t width)
{
    const uint32_t in = count_channels(nn, x);
    return td_graph_matmul_nt(nn->graph, x, make_weight(nn, name, td_dims(width, in), in));
}

td_tensor td_xtts_linear(td_nn *nn, const char *name, td_tensor x, uint32_t width)
{
    const td_tensor y = td_xtts_project(nn, name, x, width);
    return td_graph_add(nn->graph, y, td_xtts_offset(nn, name, width));
}

td_tensor td_xtts_pointwise(td_nn *nn, const char *name, td_tensor x, uint32_t width)
{
    const uint32_t in = count_channels(nn, x);
    const td_tensor w = make_weight(nn, name, td_dims(width, in, 1), in);
    const td_tensor y = td_graph_matmul_nt(nn->graph, x, td_graph_reshape(nn->graph, w, td_dims(width, in)));
    return td_graph_add(nn->graph, y, td_xtts_offset(nn, name, width));
}

td_tensor td_xtts_norm(td_nn *nn, const char *name, td_tensor x)
{
    const uint32_t width = count_channels(nn, x);
    const td_tensor scale = td_xtts_scale(nn, name, width), offset = td_xtts_offset(nn, name, width);
    return td_graph_layer_norm(nn->graph, x, scale, offset, NORM_EPS);
}
