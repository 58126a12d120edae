/* Products: matmul on linalg/gemm.h, convolutions on ops/conv.h.
 *
 * With C = A B the gradients are dA = dC B^T and dB = A^T dC; in each of the three layouts they are products
 * in one of the three layouts again, of the operands as they lie (gradient_of). A bias, an activation and a
 * residual enter a product only when a plan fuses them. Covered by tests/graph/test_random.c.
 */
#include "graph/internal.h"

/* ---------------------------------------------------------------- matmul */

static uint32_t axis_from_end(td_shape shape, size_t d)
{
    return shape.n_dims >= d ? shape.dims[shape.n_dims - d] : 1;
}

static bool share_leading_axes(td_shape a, td_shape b)
{
    if (a.n_dims != b.n_dims) return false;
    for (size_t d = 0; d + 2 < a.n_dims; d++)
        if (a.dims[d] != b.dims[d]) return false;
    return true;
}

static void shape_matmul(td_graph *graph, td_node *node)
{
    td_matmul_info *info = &node->info.matmul;
    const td_shape a = td_graph_at(graph, node->in[MATMUL_A])->shape;
    const td_shape b = td_graph_at(graph, node->in[MATMUL_B])->shape;
    const bool a_transposed = info->layout == TD_GEMM_TN;
    const bool b_transposed = info->layout == TD_GEMM_NT;
    const bool folds = b.n_dims == 2 && !a_transposed; /* one product over all rows of a */
    uint32_t rows = 1;
    if (a.n_dims < 2 || b.n_dims < 2) {
        td_graph_blame(graph, node, "both need two axes or more");
        return;
    }
    info->m = axis_from_end(a, a_transposed ? 1 : 2);
    info->k = axis_from_end(a, a_transposed ? 2 : 1);
    info->n = axis_from_end(b, b_transposed ? 2 : 1);
    if (info->k != axis_from_end(b, b_transposed ? 1 : 2))
        td_graph_blame(graph, node, "%s: %u terms on the left, %u on the right",
                       td_gemm_layout_name(info->layout), info->k, axis_from_end(b, b_transposed ? 1 : 2));
    if (!folds && !share_leading_axes(a, b)) td_graph_blame(graph, node, "the leading axes differ");
    for (size_t d = 0; d + 2 < a.n_dims; d++)
        rows *= a.dims[d];
    td_shape c = a;
    c.dims[c.n_dims - 2] = info->m;
    c.dims[c.n_dims - 1] = info->n;
    info->batch = folds ? 1 : rows;
    if (folds) info->m *= rows;
    td_graph_make_output(graph, node, MATMUL_C, c, TD_F32);
}

/* A product for a gradient: the shapes follow from those of the forward product. */
static td_node gradient_product(uint32_t a, uint32_t b, td_gemm_layout layout, const td_matmul_info *f,
                                uint32_t m, uint32_t n, uint32_t k)
{
    return (td_node){.kind = TD_OP_matmul,
                     .in = {a, b},
                     .info = {.matmul = {.layout = layout, .m = m, .n = n, .k = k, .batch = f->batch}}};
}

static void back_matmul(td_backprop *back, const td_node *node)
{
    /* left and right operand of each gradient, as layouts have them: 0 is A, 1 is B, 2 is dC */
    static const struct {
        uint8_t da[2], db[2];
        td_gemm_layout da_layout, db_layout;
    } gradient_of[TD_GEMM_LAYOUT_COUNT] = {
        [TD_GEMM_NN] = {{2, 1}, {0, 2}, TD_GEMM_NT, TD_GEMM_TN},
        [TD_GEMM_NT] = {{2, 1}, {2, 0}, TD_GEMM_NN, TD_GEMM_TN},
        [TD_GEMM_TN] = {{1, 2}, {0, 2}, TD_GEMM_NT, TD_GEMM_NN},
    };
    const td_matmul_info *f = &node->info.matmul;
    const uint32_t x[3] = {node->in[MATMUL_A], node->in[MATMUL_B],
                           td_backprop_get(back, node->out[MATMUL_C])};
    const td_gemm_layout l = f->layout;
    const bool a_transposed = l == TD_GEMM_TN;
    const bool b_transposed = l == TD_GEMM_NT;
    /* dB first: A may die there and leave its place to dA. */
    if (td_backprop_wants(back, x[1]))
        td_backprop_append(back,
                           gradient_product(x[gradient_of[l].db[0]], x[gradient_of[l].db[1]],
                                            gradient_of[l].db_layout, f, b_transposed ? f->n : f->k,
                                            b_transposed ? f->k : f->n, f->m),
                           x[1], 0, 0);
    if (td_backprop_wants(back, x[0]))
        td_backprop_append(back,
                           gradient_product(x[gradient_of[l].da[0]], x[gradient_of[l].da[1]],
                                            gradient_of[l].da_layout, f, a_transposed ? f->k : f->m,
                                            a_transposed ? f->m : f->k, f->n),
                           x[0], 0, 0);
}

static td_gemm_desc describe(const td_recorder *r, const td_node *node)
{
    const td_matmul_info *info = &node->info.matmul;
    return (td_gemm_desc){.layout = info->layout,
                          .m = info->m,
                          .n = info->n,
                          .k = info->k,
                          .batch = info->batch,
                          .stride_a = info->batch > 1 ? info->m * info->k : 0,
                          .stride_b = info->batch > 1 ? info->k * info->n : 0,
                          .stride_c = info->batch > 1 ? info->m * info->n : 0,
                          .b_format = td_recorder_format(r, node->in[MATMUL_B]),
                          .accumulate = td_recorder_adds(node, MATMUL_C),
                          .activation = node->activation,
                          .a = td_recorder_span(r, node->in[MATMUL_A]),
                          .b = td_recorder_span(r, node->in[MATMUL_B]),
                          .c = td_recorder_span(r, node->out[MATMUL_C]),
                          .bias = td_recorder_span(r, node->in[MATMUL_BIAS]),
                          .pre = td_recorder_span(r, node->out[MATMUL_PRE]),
                          .residual = td_recorder_span(r, node->in[MATMUL_RESIDUAL]),
                          .workspace = r->workspace};
}

static td_status record_matmul(td_recorder *r, const td_node *node)
{
    const td_gemm_desc desc = describe(r, node);
    return td_gemm(r->list, &desc);
}

static td_status measure_matmul(const td_recorder *r, const td_node *node, uint64_t *bytes)
{
    const td_gemm_desc desc = describe(r, node);
    return td_gemm_workspace(&desc, r->device, bytes);
}

static double flops_of_matmul(const td_recorder *r, const td_node *node)
{
    const td_matmul_info *info = &node->info.matmul;
    (void)r;
    return 2.0 * info->batch * info->m * info->n * info->k;
}

/* A gradient's product has its shapes already; a forward one finds them. */
static void shape_product(td_graph *graph, td_node *node)
{
    if (!node->info.matmul.m) shape_matmul(graph, node);
}

const td_op_row td_op_row_matmul = {.required = 2,
                                    .shape = shape_product,
                                    .backward = back_matmul,
                                    .record = record_matmul,
                                    .workspace = measure_matmul,
                                    .flops = flops_of_matmul,
                                    .can_add = 1};

/* ---------------------------------------------------------------- convolution */

enum { CONV_X = MATMUL_A, CONV_W = MATMUL_B, CONV_BIAS = MATMUL_BIAS };
enum { CONV_Y = MATMUL_C };

/* Fills in what the shapes say: x [B, T, C] or [B, H, W, C]; w [taps, in, out], [w, h, in, out] or with
 * groups [groups, taps, in, out]. */
static void read_shapes(td_graph *graph, td_node *node, td_conv *c)
{
    const td_shape x = td_graph_at(graph, node->in[CONV_X])->shape;
    const td_shape w = td_graph_at(graph, node->in[CONV_W])->shape;
    const bool flat = x.n_dims == 3;
    const bool grouped = c->groups > 1;
    if ((x.n_dims != 3 && x.n_dims != 4) || w.n_dims != (flat && !grouped ? 3u : 4u) || (grouped && !flat)) {
        td_graph_blame(graph, node,
                       "x has three or four axes, w as many, or four with groups in one dimension");
        return;
    }
    const uint32_t groups = grouped ? c->groups : 1;
    c->batch = x.dims[0];
    c->in_height = flat ? 1 : x.dims[1];
    c->in_width = x.dims[x.n_dims - 2];
    c->in_channels = x.dims[x.n_dims - 1];
    c->kernel_width = w.dims[grouped ? 1 : 0];
    c->kernel_height = flat ? 1 : w.dims[1];
    const uint32_t last = w.dims[w.n_dims - 1];
    const uint32_t before = w.dims[w.n_dims - 2];
    c->out_channels = groups * (c->transposed ? before : last);
    if (groups * (c->transposed ? last : before) != c->in_channels || (grouped && w.dims[0] != groups))
        td_graph_blame(graph, node, "w does not fit the %u channels of x in %u groups", c->in_channels,
                       groups);
}

static void shape_conv(td_graph *graph, td_node *node)
{
    td_conv *c = &node->info.conv;
    const bool is_flat = td_graph_at(graph, node->in[CONV_X])->shape.n_dims == 3;
    uint32_t height = 0, width = 0;
    if (!td_graph_is_sound(graph)) return;
    if (td_conv_output(c, &height, &width) != TD_OK) {
        td_graph_blame(graph, node, "%.200s", td_error_last()->message);
        return;
    }
    if (node->in[CONV_BIAS] &&
        td_shape_size(td_graph_at(graph, node->in[CONV_BIAS])->shape) != c->out_channels)
        td_graph_blame(graph, node, "the bias does not have %u elements", c->out_channels);
    td_graph_make_output(graph, node, CONV_Y,
                         is_flat ? td_dims(c->batch, width, c->out_channels)
                                 : td_dims(c->batch, height, width, c->out_channels),
                         TD_F32);
}

td_tensor td_graph_conv_padded(td_graph *graph, td_tensor x, td_tensor w, td_tensor bias, const td_conv *conv,
                               td_conv_pads pads)
{
    td_node node = {.kind = TD_OP_conv, .in = {x.id, w.id, bias.id}, .info = {.conv = *conv}};
    if (!x.id || !w.id || !td_graph_is_sound(graph)) return td_graph_append(graph, node);
    read_shapes(graph, &node, &node.info.conv);
    if (pads == TD_PADS_SAME) td_conv_pad_same(&node.info.conv);
    if (pads == TD_PADS_CAUSAL) td_conv_pad_causal(&node.info.conv);
    return td_graph_append(graph, node);
}

td_tensor td_graph_conv(td_graph *graph, td_tensor x, td_tensor w, td_tensor bias, const td_conv *conv)
{
    return td_graph_conv_padded(graph, x, w, bias, conv, TD_PADS_GIVEN);
}

static void back_conv(td_backprop *b, const td_node *node)
{
    const uint32_t dy = td_backprop_get(b, node->out[CONV_Y]);
    const td_node data = {.kind = TD_OP_conv_back_data, .in = {dy, node->in[CONV_W]}, .info = node->info};
    const td_node weights = {
        .kind = TD_OP_conv_back_weights, .in = {node->in[CONV_X], dy}, .info = node->info};
    if (td_backprop_wants(b, node->in[CONV_W]))
        td_backprop_append(b, weights, node->in[CONV_W], node->in[CONV_BIAS], 0);
    else if (td_backprop_wants(b, node->in[CONV_BIAS]))
        td_backprop_add(b, node->in[CONV_BIAS], dy);
    if (td_backprop_wants(b, node->in[CONV_X])) td_backprop_append(b, data, node->in[CONV_X], 0, 0);
}

/* The convolution, with its weights as they lie. */
static td_conv conv_of(const td_recorder *r, const td_node *node)
{
    td_conv conv = node->info.conv;
    conv.w_format = td_recorder_format(r, node->in[CONV_W]);
    return conv;
}

static td_status record_conv(td_recorder *r, const td_node *node)
{
    const td_conv_args args = {.conv = conv_of(r, node),
                               .x = td_recorder_span(r, node->in[CONV_X]),
                               .w = td_recorder_span(r, node->in[CONV_W]),
                               .bias = td_recorder_span(r, node->in[CONV_BIAS]),
                               .residual = td_recorder_span(r, node->in[MATMUL_RESIDUAL]),
                               .activation = node->activation,
                               .y = td_recorder_span(r, node->out[CONV_Y]),
                               .pre = td_recorder_span(r, node->out[MATMUL_PRE]),
                               .workspace = r->workspace};
    return td_op_conv(r->list, &args);
}

static td_status measure_conv(const td_recorder *r, const td_node *node, uint64_t *bytes)
{
    const td_conv conv = conv_of(r, node);
    return td_conv_workspace(&conv, TD_CONV_FORWARD, r->device, bytes);
}

static double flops_of_conv(const td_recorder *r, const td_node *node)
{
    const td_conv *c = &node->info.conv;
    uint32_t height = 0, width = 0;
    (void)r;
    if (td_conv_output(c, &height, &width) != TD_OK) return 0;
    const double positions =
        c->transposed ? (double)c->in_width * (c->in_height ? c->in_height : 1) : (double)height * width;
    return 2.0 * c->batch * positions * c->kernel_width * (c->kernel_height ? c->kernel_height : 1) *
           c->in_channels * c->out_channels / (c->groups ? c->groups : 1);
}

const td_op_row td_op_row_conv = {.required = 2,
                                  .shape = shape_conv,
                                  .backward = back_conv,
                                  .record = record_conv,
                                  .workspace = measure_conv,
                                  .flops = flops_of_conv};

static td_status record_conv_back_data(td_recorder *r, const td_node *node)
{
    const td_conv_back_data_args args = {.conv = conv_of(r, node),
                                         .dy = td_recorder_span(r, node->in[0]),
                                         .w = td_recorder_span(r, node->in[1]),
                                         .dx = td_recorder_span(r, node->out[0]),
                                         .add = td_recorder_adds(node, 0),
                                         .workspace = r->workspace};
    return td_op_conv_back_data(r->list, &args);
}

static td_status measure_conv_back_data(const td_recorder *r, const td_node *node, uint64_t *bytes)
{
    const td_conv conv = conv_of(r, node);
    return td_conv_workspace(&conv, TD_CONV_BACK_DATA, r->device, bytes);
}

const td_op_row td_op_row_conv_back_data = {.required = 2,
                                            .shape = td_op_shape_given,
                                            .record = record_conv_back_data,
                                            .workspace = measure_conv_back_data,
                                            .flops = flops_of_conv,
                                            .can_add = 1};

static td_status record_conv_back_weights(td_recorder *r, const td_node *node)
{
    const td_conv_back_weights_args args = {.conv = node->info.conv,
                                            .x = td_recorder_span(r, node->in[0]),
                                            .dy = td_recorder_span(r, node->in[1]),
                                            .dw = td_recorder_span(r, node->out[0]),
                                            .dbias = td_recorder_span(r, node->out[1]),
                                            .add = td_recorder_adds(node, 0),
                                            .workspace = r->workspace};
    return td_op_conv_back_weights(r->list, &args);
}

static td_status measure_conv_back_weights(const td_recorder *r, const td_node *node, uint64_t *bytes)
{
    return td_conv_workspace(&node->info.conv, TD_CONV_BACK_WEIGHTS, r->device, bytes);
}

const td_op_row td_op_row_conv_back_weights = {.required = 2,
                                               .shape = td_op_shape_given,
                                               .record = record_conv_back_weights,
                                               .workspace = measure_conv_back_weights,
                                               .flops = flops_of_conv,
                                               .can_add = 3};
