/* See conv.h. A convolution is a product of windows [rows, taps * channels] and weights; what differs is how
 * the windows come to be.
 *
 *   walked    x, padded, lies so that the windows of neighbouring columns overlap: rows of the product are
 *             stride_width columns apart, and nothing is copied per tap but the taps of other lines
 *   unfolded  every window is written out (dilated columns, groups)
 *
 * or, where that pays, it is Winograd's with fewer products (ops/winograd.h).
 *
 * Gradients: dw = windows^T dy; dx = fold(dy w^T), each position gathering its windows, or the convolution of
 * dy with transposed weights. A transposed convolution is the data gradient of its mirror, and the reverse.
 * Each pass is one walk over its steps, which measures the workspace without a list and records with one. Covered
 * by tests/ops/cases_conv.c.
 */
#include "ops/conv.h"

#include "linalg/gemm.h"
#include "ops/reduce.h"
#include "ops/rows.h"
#include "ops/winograd.h"

#define BLOCK_CPU 4096u /* elements, about, that a group of unfold or fold writes */
#define BLOCK_GPU 1024u

/* ---------------------------------------------------------------- shapes */

static uint32_t reach(uint32_t kernel, uint32_t dilation)
{
    return dilation * (kernel - 1) + 1;
}

static uint32_t or_one(uint32_t n)
{
    return n ? n : 1;
}

static td_conv fill_defaults(const td_conv *given)
{
    td_conv c = *given;
    c.in_height = or_one(c.in_height);
    c.kernel_height = or_one(c.kernel_height);
    c.stride_height = or_one(c.stride_height);
    c.stride_width = or_one(c.stride_width);
    c.dilation_height = or_one(c.dilation_height);
    c.dilation_width = or_one(c.dilation_width);
    c.groups = or_one(c.groups);
    return c;
}

static void pad_axis(uint32_t in, uint32_t kernel, uint32_t stride, uint32_t dilation, uint32_t *before,
                     uint32_t *after)
{
    const uint32_t needed = (td_divide_up(in, stride) - 1) * stride + reach(kernel, dilation);
    const uint32_t pads = needed > in ? needed - in : 0;
    *before = pads / 2;
    *after = pads - pads / 2;
}

void td_conv_pad_same(td_conv *conv)
{
    const td_conv c = fill_defaults(conv);
    pad_axis(c.in_height, c.kernel_height, c.stride_height, c.dilation_height, &conv->pad_top,
             &conv->pad_bottom);
    pad_axis(c.in_width, c.kernel_width, c.stride_width, c.dilation_width, &conv->pad_left, &conv->pad_right);
}

void td_conv_pad_causal(td_conv *conv)
{
    const td_conv c = fill_defaults(conv);
    conv->pad_left = reach(c.kernel_width, c.dilation_width) - 1;
    conv->pad_right = 0;
}

/* The length of y along an axis. */
static td_status measure_axis(const td_conv *c, uint32_t in, uint32_t kernel, uint32_t stride,
                              uint32_t dilation, uint64_t pads, uint32_t extra, uint32_t *out)
{
    const uint64_t span = (uint64_t)dilation * (kernel - 1) + 1;
    uint64_t length = 0;
    TD_REFUSE_IF(
        extra && (!c->transposed || extra >= stride), TD_ERR_ARGUMENT,
        "conv: %u more at the end; only a transposed convolution can have it, less than its stride %u", extra,
        stride);
    if (c->transposed) {
        length = (uint64_t)(in - 1) * stride + span + extra;
        length = length > pads ? length - pads : 0;
    } else if (in + pads >= span) {
        length = (in + pads - span) / stride + 1;
    }
    TD_REFUSE_IF(
        length == 0, TD_ERR_ARGUMENT,
        "conv: nothing is left of %u elements by %u taps (dilation %u) and pads of %llu; change the pads", in,
        kernel, dilation, (unsigned long long)pads);
    TD_CHECK(td_op_check_size(length, 1, 1, "conv"));
    *out = (uint32_t)length;
    return TD_OK;
}

static td_status measure(const td_conv *c, uint32_t *height, uint32_t *width)
{
    TD_CHECK(td_op_check_size(c->batch, c->in_channels, c->out_channels, "conv"));
    TD_CHECK(td_op_check_size(c->in_height, c->in_width, 1, "conv"));
    TD_CHECK(td_op_check_size(c->kernel_height, c->kernel_width, 1, "conv"));
    TD_REFUSE_IF(c->in_channels % c->groups || c->out_channels % c->groups, TD_ERR_ARGUMENT,
                 "conv: %u and %u channels cannot be split into %u groups", c->in_channels, c->out_channels,
                 c->groups);
    TD_CHECK(measure_axis(c, c->in_height, c->kernel_height, c->stride_height, c->dilation_height,
                          (uint64_t)c->pad_top + c->pad_bottom, c->extra_height, height));
    return measure_axis(c, c->in_width, c->kernel_width, c->stride_width, c->dilation_width,
                        (uint64_t)c->pad_left + c->pad_right, c->extra_width, width);
}

td_status td_conv_output(const td_conv *conv, uint32_t *height, uint32_t *width)
{
    const td_conv c = fill_defaults(conv);
    return measure(&c, height, width);
}

/* ---------------------------------------------------------------- plans */

/* A plain convolution, ready to be recorded. */
typedef struct plan {
    td_conv c;
    uint32_t out_height, out_width;
    uint32_t lines;   /* of y, over the batch */
    uint32_t rows;    /* positions of y */
    uint32_t depth;   /* terms of a window, per group */
    uint32_t columns; /* of a line of windows, as they lie in memory */
    uint32_t step;    /* elements between the windows of neighbouring columns of y */
    bool walks;       /* the windows overlap */
    bool in_place;    /* x is its own windows */
} plan;

static bool is_walkable(const td_conv *c)
{
    return c->groups == 1 && (c->dilation_width == 1 || c->kernel_width == 1);
}

static td_status make_plan(const td_conv *c, plan *out)
{
    plan p = {.c = *c};
    TD_CHECK(measure(c, &p.out_height, &p.out_width));
    TD_CHECK(td_op_check_size(c->batch, p.out_height, p.out_width, "conv"));
    p.lines = c->batch * p.out_height;
    p.rows = p.lines * p.out_width;
    const uint32_t channels = c->in_channels / c->groups;
    TD_CHECK(
        td_op_check_size((uint64_t)c->kernel_height * c->kernel_width, channels, c->out_channels, "conv"));
    p.depth = c->kernel_height * c->kernel_width * channels;
    p.walks = is_walkable(c);
    p.columns = p.out_width;
    p.step = p.depth;
    if (p.walks) {
        /* Whole strides, so that windows go on evenly from line to line. */
        const uint64_t used = (uint64_t)(p.out_width - 1) * c->stride_width + c->kernel_width;
        const uint64_t columns = (used + c->stride_width - 1) / c->stride_width * c->stride_width;
        TD_CHECK(td_op_check_size(columns, (uint64_t)c->kernel_height * c->stride_width, channels, "conv"));
        p.columns = (uint32_t)columns;
        p.step = c->stride_width * c->kernel_height * channels;
        p.in_place = c->pad_left + c->pad_right + c->pad_top + c->pad_bottom == 0 && c->kernel_height == 1 &&
                     c->stride_height == 1 && c->in_width % c->stride_width == 0;
        if (p.in_place) p.columns = c->in_width;
    }
    TD_CHECK(td_op_check_size((uint64_t)c->batch * c->in_height, c->in_width, c->in_channels, "conv"));
    TD_CHECK(td_op_check_size(p.rows, 1, c->out_channels, "conv"));
    TD_CHECK(td_op_check_size(p.walks ? p.columns / c->stride_width : p.columns,
                              (uint64_t)p.lines * c->groups, p.step, "conv, unfolded"));
    *out = p;
    return TD_OK;
}

/* The plan of a convolution, or of the one that a transposed convolution is the data gradient of. */
static td_status plan_mirrored(const td_conv *given, plan *out)
{
    td_conv c = fill_defaults(given);
    uint32_t height = 0, width = 0;
    TD_CHECK(measure(&c, &height, &width));
    if (c.transposed) {
        c.in_height = height;
        c.in_width = width;
        c.in_channels = given->out_channels;
        c.out_channels = given->in_channels;
        c.transposed = false;
        c.extra_height = c.extra_width = 0;
    }
    return make_plan(&c, out);
}

/* ---------------------------------------------------------------- steps */

/* One pass over the steps. Without a list only `used` grows. */
typedef struct walk {
    td_list *list;
    td_device *device;
    td_span workspace;
    uint64_t used; /* bytes */
} walk;

/* Words of the workspace, from here to the end of the pass. */
static td_span take(walk *w, uint64_t words)
{
    const uint64_t least = td_device_get_info(w->device)->caps.offset_align;
    const uint64_t align = least > 256 ? least : 256;
    const uint64_t at = w->used;
    w->used += td_round_up(4 * words, align);
    return w->list && words ? td_span_part(w->workspace, at, 4 * words) : (td_span){0};
}

static td_status multiply(walk *w, const td_gemm_desc *given)
{
    td_gemm_desc d = *given;
    uint64_t bytes = 0;
    TD_CHECK(td_gemm_workspace(&d, w->device, &bytes));
    d.workspace = take(w, bytes / 4);
    if (w->list) TD_CHECK(td_gemm(w->list, &d));
    return TD_OK;
}

static uint32_t choose_block(const walk *w, uint32_t elements)
{
    const uint32_t block = td_device_class(w->device) == TD_CLASS_GPU ? BLOCK_GPU : BLOCK_CPU;
    return elements < block ? block / elements : 1;
}

static td_status unfold(walk *w, td_unfold_params params, td_span x, td_span *y)
{
    const uint32_t elements = params.groups * params.taps_w * params.taps_h * params.run;
    const double bytes = 8.0 * params.rows * elements;
    if (!y->buffer) *y = take(w, (uint64_t)params.rows * elements);
    params.block = choose_block(w, elements);
    if (!w->list) return TD_OK;
    return td_list_dispatch(w->list, TD_K_unfold, (td_span[]){x, *y}, &params,
                            td_grid_groups(td_divide_up(params.rows, params.block)),
                            (td_cost){.bytes = bytes});
}

/* The windows of x. */
static td_status gather_windows(walk *w, const plan *p, td_span x, td_span *windows)
{
    const td_conv *c = &p->c;
    *windows = p->in_place ? x : (td_span){0};
    if (p->in_place) return TD_OK;
    return unfold(w,
                  (td_unfold_params){.rows = p->lines * p->columns,
                                     .columns = p->columns,
                                     .lines = p->out_height,
                                     .groups = c->groups,
                                     .run = c->in_channels / c->groups,
                                     .taps_w = p->walks ? 1 : c->kernel_width,
                                     .taps_h = c->kernel_height,
                                     .step_w = p->walks ? 1 : c->stride_width,
                                     .step_h = c->stride_height,
                                     .dilation_w = c->dilation_width,
                                     .dilation_h = c->dilation_height,
                                     .pad_left = c->pad_left,
                                     .pad_top = c->pad_top,
                                     .width = c->in_width,
                                     .height = c->in_height},
                  x, windows);
}

/* y [rows, columns] = x [columns] in every row. */
static td_status repeat_row(walk *w, uint32_t rows, uint32_t columns, td_span x, td_span y)
{
    return unfold(w,
                  (td_unfold_params){.rows = rows,
                                     .columns = rows,
                                     .lines = 1,
                                     .groups = 1,
                                     .run = columns,
                                     .taps_w = 1,
                                     .taps_h = 1,
                                     .width = 1,
                                     .height = 1},
                  x, &y);
}

/* y [in, taps, out] = w [taps, in, out] with the taps in reverse: what dy is convolved with to give dx. */
static td_status transpose_weights(walk *w, const td_conv *c, td_span weights, td_span *transposed)
{
    const uint32_t taps = c->kernel_width * c->kernel_height;
    *transposed = weights;
    if (taps == 1) return TD_OK;
    if (c->w_format && c->out_channels % 2)
        return TD_FAIL(TD_ERR_UNSUPPORTED,
                       "conv: 16-bit weights with %u output channels; their number must be even",
                       c->out_channels);
    *transposed = (td_span){0};
    return unfold(
        w,
        (td_unfold_params){.rows = c->in_channels,
                           .columns = c->in_channels,
                           .lines = 1,
                           .groups = 1,
                           .run = c->w_format ? c->out_channels / 2 : c->out_channels, /* in words */
                           .taps_w = taps,
                           .taps_h = 1,
                           .step_w = 1,
                           .dilation_w = 0u - c->in_channels,
                           .pad_left = 0u - (taps - 1) * c->in_channels,
                           .width = taps * c->in_channels,
                           .height = 1},
        weights, transposed);
}

/* y [lines, columns of windows, channels] = dy [lines, out_width, channels] and zeros. */
static td_status pad_lines(walk *w, const plan *p, uint32_t columns, td_span dy, td_span *padded)
{
    *padded = columns == p->out_width ? dy : (td_span){0};
    if (columns == p->out_width) return TD_OK;
    return unfold(w,
                  (td_unfold_params){.rows = p->lines * columns,
                                     .columns = columns,
                                     .lines = 1,
                                     .groups = 1,
                                     .run = p->c.out_channels,
                                     .taps_w = 1,
                                     .taps_h = 1,
                                     .step_w = 1,
                                     .width = p->out_width,
                                     .height = 1},
                  dy, padded);
}

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
    return b ? common_divisor(b, a % b) : a;
}

static td_status fold(walk *w, const plan *p, td_span windows, td_span bias, bool add, td_span x)
{
    const td_conv *c = &p->c;
    const uint32_t block = choose_block(w, c->in_channels);
    const uint32_t shared_w = common_divisor(c->stride_width, c->dilation_width);
    const uint32_t shared_h = common_divisor(c->stride_height, c->dilation_height);
    const td_fold_params params = {.positions = c->batch * c->in_height * c->in_width,
                                   .rows = p->rows,
                                   .block = block,
                                   .columns = p->out_width,
                                   .lines = p->out_height,
                                   .groups = c->groups,
                                   .run = c->in_channels / c->groups,
                                   .taps_w = c->kernel_width,
                                   .taps_h = c->kernel_height,
                                   .stride_w = c->stride_width,
                                   .stride_h = c->stride_height,
                                   .dilation_w = c->dilation_width,
                                   .dilation_h = c->dilation_height,
                                   .pad_left = c->pad_left,
                                   .pad_top = c->pad_top,
                                   .width = c->in_width,
                                   .height = c->in_height,
                                   .next_w = c->stride_width / shared_w,
                                   .next_h = c->stride_height / shared_h,
                                   .back_w = c->dilation_width / shared_w,
                                   .back_h = c->dilation_height / shared_h,
                                   .add = add,
                                   .has_bias = td_op_given(bias)};
    const double bytes =
        4.0 * ((double)p->rows * p->depth * c->groups + (double)params.positions * c->in_channels);
    if (!w->list) return TD_OK;
    return td_list_dispatch(w->list, TD_K_fold, (td_span[]){windows, td_op_or(bias, windows), x}, &params,
                            td_grid_groups(td_divide_up(params.positions, block)), (td_cost){.bytes = bytes});
}

/* ---------------------------------------------------------------- the three passes of a plain convolution */

/* What a convolution reads and writes, with the epilogue of its product. */
typedef struct operands {
    td_span x, w, y, bias, pre, residual;
    uint32_t activation;
    bool add;
    bool w_transposed; /* w is [out, depth] */
} operands;

static bool is_winograd(const walk *w, const plan *p, const operands *o)
{
    if (o->add || o->w_transposed) return false;
    return p->c.way == TD_CONV_WINOGRAD ? td_winograd_can(&p->c, w->device)
                                        : td_winograd_pays(&p->c, w->device);
}

static td_status convolve_winograd(walk *w, const plan *p, const operands *o)
{
    const td_conv_args args = {.conv = p->c,
                               .x = o->x,
                               .w = o->w,
                               .y = o->y,
                               .bias = o->bias,
                               .pre = o->pre,
                               .residual = o->residual,
                               .activation = o->activation,
                               .workspace = take(w, td_winograd_words(&p->c, w->device))};
    return w->list ? td_winograd_record(w->list, &args) : TD_OK;
}

static td_status convolve(walk *w, const plan *p, const operands *o)
{
    const td_conv *c = &p->c;
    if (is_winograd(w, p, o)) return convolve_winograd(w, p, o);
    const uint32_t columns = c->out_channels / c->groups;
    td_gemm_desc d = {.layout = o->w_transposed ? TD_GEMM_NT : TD_GEMM_NN,
                      .m = p->walks ? p->out_width : p->rows,
                      .n = columns,
                      .k = p->depth,
                      .lda = p->step,
                      .ldc = c->out_channels,
                      .b_format = c->w_format,
                      .accumulate = o->add,
                      .activation = o->activation,
                      .b = o->w,
                      .c = o->y,
                      .bias = o->bias,
                      .pre = o->pre,
                      .residual = o->residual};
    TD_CHECK(gather_windows(w, p, o->x, &d.a));
    if (p->walks) {
        d.batch = p->lines;
        d.stride_a = p->columns / c->stride_width * p->step;
        d.stride_c = p->out_width * c->out_channels;
    } else if (c->groups > 1) {
        d.batch = c->groups;
        d.stride_a = p->rows * p->depth;
        d.stride_b = p->depth * columns;
        d.stride_c = columns;
        /* A product knows one bias for all of its batch. */
        if (td_op_given(o->bias)) {
            if (w->list) TD_CHECK(repeat_row(w, p->rows, c->out_channels, o->bias, o->y));
            d.accumulate = true;
            d.bias = (td_span){0};
        }
    }
    return multiply(w, &d);
}

/* The convolution that takes dy to dx, where there is one and it is the shorter way. On PoCL, 2 x 2000 steps
 * of 128 channels, 7 taps 3 apart, dx took 0.9 of the time of the forward pass by it and 1.5 by folding, each
 * compared within one run. */
static bool find_data_conv(const plan *p, td_conv *out)
{
    const td_conv *c = &p->c;
    const uint32_t more_h = reach(c->kernel_height, c->dilation_height) - 1;
    const uint32_t more_w = reach(c->kernel_width, c->dilation_width) - 1;
    if (c->stride_height > 1 || c->stride_width > 1 || c->groups > 1) return false;
    if (c->pad_top > more_h || c->pad_bottom > more_h || c->pad_left > more_w || c->pad_right > more_w)
        return false;
    if (c->in_channels * c->kernel_width < c->out_channels) return false;
    *out = *c;
    out->in_height = p->out_height;
    out->in_width = p->out_width;
    out->in_channels = c->out_channels;
    out->out_channels = c->in_channels;
    out->pad_top = more_h - c->pad_top;
    out->pad_bottom = more_h - c->pad_bottom;
    out->pad_left = more_w - c->pad_left;
    out->pad_right = more_w - c->pad_right;
    return true;
}

/* o->y is the gradient at x, o->x that of y. */
static td_status spread(walk *w, const plan *p, const operands *o)
{
    const td_conv *c = &p->c;
    const uint32_t columns = c->out_channels / c->groups;
    td_conv data_conv;
    td_span windows;
    if (find_data_conv(p, &data_conv)) {
        operands back = *o;
        plan back_plan;
        back.w_transposed = true;
        TD_CHECK(make_plan(&data_conv, &back_plan));
        TD_CHECK(transpose_weights(w, c, o->w, &back.w));
        TD_CHECK(convolve(w, &back_plan, &back));
    } else {
        TD_CHECK(td_op_check_size(p->rows, (uint64_t)p->depth, c->groups, "conv, unfolded"));
        windows = take(w, (uint64_t)p->rows * p->depth * c->groups);
        const td_gemm_desc d = {.layout = TD_GEMM_NT,
                                .m = p->rows,
                                .n = p->depth,
                                .k = columns,
                                .lda = c->out_channels,
                                .batch = c->groups,
                                .stride_a = c->groups > 1 ? columns : 0,
                                .stride_b = c->groups > 1 ? p->depth * columns : 0,
                                .stride_c = c->groups > 1 ? p->rows * p->depth : 0,
                                .b_format = c->w_format,
                                .a = o->x,
                                .b = o->w,
                                .c = windows};
        TD_CHECK(multiply(w, &d));
        TD_CHECK(fold(w, p, windows, o->bias, o->add, o->y));
    }
    return TD_OK;
}

/* y [columns] = sums of x [rows, columns] over the rows; without a y nothing but scratch for it. */
static td_status sum_rows(walk *w, uint32_t rows, uint32_t columns, td_span x, td_span y, bool add)
{
    const uint64_t words = td_op_reduce_workspace(td_device_class(w->device), 1, rows, columns);
    const td_span scratch = take(w, words);
    const td_reduce_args args = {.kind = TD_REDUCE_SUM,
                                 .outer = 1,
                                 .axis = rows,
                                 .inner = columns,
                                 .x = x,
                                 .y = y,
                                 .workspace = scratch,
                                 .add = add};
    return w->list && td_op_given(y) ? td_op_reduce(w->list, &args) : TD_OK;
}

/* o->w is the gradient of the weights, o->y that of y. */
static td_status correlate(walk *w, const plan *p, const operands *o)
{
    const td_conv *c = &p->c;
    const uint32_t columns = c->out_channels / c->groups;
    const uint32_t per_line = p->walks ? p->columns / c->stride_width : p->out_width;
    td_gemm_desc d = {.layout = TD_GEMM_TN,
                      .m = p->depth,
                      .n = columns,
                      .k = (p->lines - 1) * per_line + p->out_width,
                      .lda = p->step,
                      .ldb = c->out_channels,
                      .accumulate = o->add,
                      .b = o->y,
                      .c = o->w};
    TD_CHECK(td_op_check_size(p->lines, per_line, c->out_channels, "conv"));
    TD_CHECK(gather_windows(w, p, o->x, &d.a));
    /* Between lines of overlapping windows are some that belong to no position: they meet zeros of dy. */
    TD_CHECK(pad_lines(w, p, per_line, o->y, &d.b));
    if (c->groups > 1) {
        d.batch = c->groups;
        d.stride_a = p->rows * p->depth;
        d.stride_b = columns;
        d.stride_c = p->depth * columns;
    }
    return multiply(w, &d);
}

/* ---------------------------------------------------------------- passes of any convolution */

typedef struct pass {
    td_conv conv;
    td_conv_pass kind;
    operands o; /* of the convolution as it was given: x, y and their gradients where they belong */
    td_span dbias;
} pass;

static td_status take_steps(walk *w, const pass *a)
{
    const bool is_transposed = a->conv.transposed;
    operands o = a->o;
    plan p;
    td_status status = TD_OK;
    TD_TRY(plan_mirrored(&a->conv, &p));
    const uint32_t positions = p.c.batch * p.c.in_height * p.c.in_width;
    if (a->kind == TD_CONV_BACK_WEIGHTS) {
        TD_TRY(sum_rows(w, is_transposed ? positions : p.rows, a->conv.out_channels, o.y, a->dbias, o.add));
        if (is_transposed) {
            o.x = a->o.y;
            o.y = a->o.x;
        }
        TD_TRY(correlate(w, &p, &o));
        goto fail;
    }
    if (a->kind == TD_CONV_BACK_DATA) {
        o.x = a->o.y;
        o.y = a->o.x;
    }
    if ((a->kind == TD_CONV_FORWARD) == is_transposed)
        TD_TRY(spread(w, &p, &o));
    else
        TD_TRY(convolve(w, &p, &o));
fail:
    return status;
}

static td_status check_operands(const pass *a)
{
    const operands *o = &a->o;
    plan p;
    TD_CHECK(plan_mirrored(&a->conv, &p));
    const uint64_t inner = (uint64_t)p.c.batch * p.c.in_height * p.c.in_width * p.c.in_channels;
    const uint64_t outer = (uint64_t)p.rows * p.c.out_channels;
    const bool is_transposed = a->conv.transposed;
    TD_CHECK(td_op_check_span(o->x, is_transposed ? outer : inner, "conv", "x"));
    TD_CHECK(td_op_check_span(o->y, is_transposed ? inner : outer, "conv", "y"));
    const uint64_t weights = (uint64_t)p.depth * p.c.out_channels;
    const bool is_narrow = p.c.w_format && a->kind != TD_CONV_BACK_WEIGHTS;
    TD_CHECK(td_op_check_span(o->w, is_narrow ? TD_HALF_WORDS(weights) : weights, "conv", "w"));
    if (td_op_given(o->bias)) TD_CHECK(td_op_check_span(o->bias, a->conv.out_channels, "conv", "bias"));
    if (td_op_given(o->pre)) TD_CHECK(td_op_check_span(o->pre, outer, "conv", "pre"));
    if (td_op_given(o->residual)) TD_CHECK(td_op_check_span(o->residual, outer, "conv", "residual"));
    if (td_op_given(a->dbias)) TD_CHECK(td_op_check_span(a->dbias, a->conv.out_channels, "conv", "dbias"));
    TD_REFUSE_IF(is_transposed &&
                     (o->activation != TD_GEMM_LINEAR || td_op_given(o->pre) || td_op_given(o->residual)),
                 TD_ERR_UNSUPPORTED,
                 "conv: a transposed convolution has no activation, pre and residual; add them by a chain");
    return TD_OK;
}

td_status td_conv_workspace(const td_conv *conv, td_conv_pass kind, td_device *device, uint64_t *bytes)
{
    const pass a = {.conv = *conv, .kind = kind};
    walk w = {.device = device};
    const td_status status = take_steps(&w, &a);
    *bytes = w.used;
    return status;
}

static td_status record(td_list *list, const pass *a, td_span workspace)
{
    walk w = {.list = list, .device = td_list_device(list), .workspace = workspace};
    uint64_t bytes = 0;
    TD_CHECK(check_operands(a));
    TD_CHECK(td_conv_workspace(&a->conv, a->kind, w.device, &bytes));
    TD_REFUSE_IF(bytes > 0 && (!workspace.buffer || workspace.bytes < bytes), TD_ERR_ARGUMENT,
                 "conv: the workspace needs %llu bytes and has %llu; ask td_conv_workspace()",
                 (unsigned long long)bytes, (unsigned long long)(workspace.buffer ? workspace.bytes : 0));
    return take_steps(&w, a);
}

td_status td_op_conv(td_list *list, const td_conv_args *args)
{
    const pass a = {.conv = args->conv,
                    .kind = TD_CONV_FORWARD,
                    .o = {.x = args->x,
                          .w = args->w,
                          .y = args->y,
                          .bias = args->bias,
                          .pre = args->pre,
                          .residual = args->residual,
                          .activation = args->activation}};
    return record(list, &a, args->workspace);
}

td_status td_op_conv_back_data(td_list *list, const td_conv_back_data_args *args)
{
    const pass a = {.conv = args->conv,
                    .kind = TD_CONV_BACK_DATA,
                    .o = {.x = args->dx, .w = args->w, .y = args->dy, .add = args->add}};
    return record(list, &a, args->workspace);
}

td_status td_op_conv_back_weights(td_list *list, const td_conv_back_weights_args *args)
{
    const pass a = {.conv = args->conv,
                    .kind = TD_CONV_BACK_WEIGHTS,
                    .o = {.x = args->x, .w = args->dw, .y = args->dy, .add = args->add},
                    .dbias = args->dbias};
    return record(list, &a, args->workspace);
}
