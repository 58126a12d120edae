/* The ops that `tandem bench kernels` measures, each at the size it has in a training step. A row asks for
 * its buffers, says its shape and its traffic or work, and records one launch; see bench_kernels_internal.h.
 * Traffic is the least an op can do with where no cache holds a tensor: every input read once, every result
 * written once, and once more what must be known as a whole before the first result. Covered by
 * tests/cli/test_cli.py. */
#include "base/error.h"
#include "kernels/optim_geometry.h"
#include "linalg/gemm.h"
#include "ops/align.h"
#include "ops/attention.h"
#include "ops/chain.h"
#include "ops/conv.h"
#include "ops/loss.h"
#include "ops/move.h"
#include "ops/norm.h"
#include "ops/optim.h"
#include "ops/reduce.h"
#include "tools/bench_kernels_internal.h"

#define empty td_kernel_bench_empty
#define noise td_kernel_bench_noise
#define same td_kernel_bench_same
#define set_shape td_kernel_bench_shape

#define EPS 1e-5f

static uint32_t rows_of(const td_kernel_bench *b)
{
    return b->sizes.items * b->sizes.frames;
}

/* Activations [rows, columns], with so many tensors of that size read or written. */
static uint32_t use_rows(td_kernel_bench *b, uint32_t columns, double tensors)
{
    const uint32_t n = rows_of(b) * columns;
    set_shape(b, "%u x %u", rows_of(b), columns);
    b->bytes = 4.0 * tensors * n;
    return n;
}

static uint32_t use_items(td_kernel_bench *b, uint32_t columns, double tensors)
{
    const uint32_t n = use_rows(b, columns, tensors);
    set_shape(b, "%u x %u x %u", b->sizes.items, b->sizes.frames, columns);
    return n;
}

/* ---------------------------------------------------------------- moving */

static td_status record_fill(td_kernel_bench *b)
{
    const uint32_t n = use_rows(b, b->sizes.hidden, 1);
    const td_fill_params params = {.n = n, .word = 1};
    return td_list_dispatch(b->list, TD_K_fill, (td_span[]){empty(b, n)}, &params,
                            td_grid_elements(td_device_class(b->device), n), (td_cost){.bytes = b->bytes});
}

static td_status record_copy(td_kernel_bench *b)
{
    const uint32_t n = use_rows(b, b->sizes.hidden, 2);
    const td_copy_params params = {.n = n};
    const td_span x = noise(b, n), y = empty(b, n);
    return td_list_dispatch(b->list, TD_K_copy, (td_span[]){x, y}, &params,
                            td_grid_elements(td_device_class(b->device), n), (td_cost){.bytes = b->bytes});
}

static td_status record_permute(td_kernel_bench *b) /* frames to heads */
{
    const uint32_t n = use_items(b, b->sizes.channels, 2), heads = b->sizes.heads;
    const td_shape shape = {{b->sizes.items, b->sizes.frames, heads, b->sizes.channels / heads}, 4};
    const td_span x = noise(b, n), y = empty(b, n);
    return td_op_permute(b->list, x, shape, (const uint32_t[]){0, 2, 1, 3}, y);
}

static td_status record_transpose(td_kernel_bench *b) /* channels last to first */
{
    const uint32_t n = use_items(b, b->sizes.channels, 2);
    const td_shape shape = {{b->sizes.items, b->sizes.frames, b->sizes.channels}, 3};
    const td_span x = noise(b, n), y = empty(b, n);
    return td_op_permute(b->list, x, shape, (const uint32_t[]){0, 2, 1}, y);
}

static td_status record_slice(td_kernel_bench *b) /* one of three packed projections */
{
    const uint32_t n = use_rows(b, b->sizes.channels, 2), columns = b->sizes.channels;
    const td_shape shape = {{rows_of(b), 3 * columns}, 2};
    const td_span x = noise(b, 3ull * n), y = empty(b, n);
    return td_op_slice(b->list, x, shape, (const uint32_t[]){0, columns},
                       (const uint32_t[]){rows_of(b), columns}, y);
}

static td_status record_pad(td_kernel_bench *b)
{
    const uint32_t n = use_items(b, b->sizes.channels, 2);
    const td_shape shape = {{b->sizes.items, b->sizes.frames, b->sizes.channels}, 3};
    const td_span x = noise(b, n), y = empty(b, n + 4 * b->sizes.items * b->sizes.channels);
    return td_op_pad(b->list, x, shape, (const uint32_t[]){0, 2, 0}, (const uint32_t[]){0, 2, 0}, 0, y);
}

static td_status record_cast_half(td_kernel_bench *b)
{
    const uint32_t n = use_rows(b, b->sizes.hidden, 1.5);
    const td_span x = noise(b, n), y = empty(b, n / 2);
    return td_op_cast_half(b->list, TD_FORMAT_BF16, n, x, y);
}

static td_status record_cast_float(td_kernel_bench *b)
{
    const uint32_t n = use_rows(b, b->sizes.hidden, 1.5);
    const td_span x = same(b, n / 2, 0x3f80bf80u), y = empty(b, n);
    return td_op_cast_float(b->list, TD_FORMAT_BF16, n, x, y);
}

static td_gather_args length_regulation(td_kernel_bench *b)
{
    const td_kernel_sizes *s = &b->sizes;
    set_shape(b, "%u x %u to %u x %u", s->items, s->tokens, s->frames, s->channels);
    b->bytes = 4.0 * s->items * ((double)s->tokens + s->frames) * s->channels;
    return (td_gather_args){
        .items = s->items, .in_rows = s->tokens, .out_rows = s->frames, .columns = s->channels};
}

static td_status record_gather(td_kernel_bench *b)
{
    td_gather_args args = length_regulation(b);
    args.x = noise(b, (uint64_t)args.items * args.in_rows * args.columns);
    args.index = td_kernel_bench_climb(b, (uint64_t)args.items * args.out_rows, args.out_rows, args.in_rows);
    args.y = empty(b, (uint64_t)args.items * args.out_rows * args.columns);
    return td_op_gather_rows(b->list, &args);
}

static td_status record_scatter(td_kernel_bench *b)
{
    const td_gather_args g = length_regulation(b);
    const uint64_t n = (uint64_t)g.items * g.out_rows;
    td_scatter_args args = {
        .items = g.items, .in_rows = g.in_rows, .out_rows = g.out_rows, .columns = g.columns};
    args.dy = noise(b, n * g.columns);
    args.index = td_kernel_bench_climb(b, n, g.out_rows, g.in_rows);
    args.order = empty(b, n);
    args.dx = empty(b, (uint64_t)g.items * g.in_rows * g.columns);
    return td_op_scatter_rows(b->list, &args);
}

static td_status record_embedding_back(td_kernel_bench *b)
{
    const td_kernel_sizes *s = &b->sizes;
    const uint32_t rows = s->items * s->tokens;
    td_scatter_args args = {
        .items = 1, .in_rows = s->vocabulary, .out_rows = rows, .columns = s->channels, .add = true};
    set_shape(b, "%u of %u x %u", rows, s->vocabulary, s->channels);
    b->bytes = 12.0 * rows * s->channels;
    args.dy = noise(b, (uint64_t)rows * s->channels);
    args.index = td_kernel_bench_index(b, rows, s->vocabulary);
    args.order = empty(b, rows);
    args.dx = noise(b, (uint64_t)s->vocabulary * s->channels);
    return td_op_scatter_rows(b->list, &args);
}

/* ---------------------------------------------------------------- chains and dropout */

static td_status record_add(td_kernel_bench *b)
{
    const uint32_t n = use_rows(b, b->sizes.channels, 3);
    td_chain c;
    td_chain_begin(&c, &n, 1);
    td_chain_add(&c, TD_CHAIN_LOAD, td_chain_input(&c, noise(b, n)));
    td_chain_add(&c, TD_CHAIN_ADD, td_chain_input(&c, noise(b, n)));
    td_chain_store(&c, empty(b, n));
    return td_chain_launch(&c, b->list);
}

static td_status record_bias_gelu(td_kernel_bench *b)
{
    const uint32_t n = use_rows(b, b->sizes.hidden, 2), dims[] = {rows_of(b), b->sizes.hidden};
    td_chain c;
    td_chain_begin(&c, dims, 2);
    td_chain_add(&c, TD_CHAIN_LOAD, td_chain_input(&c, noise(b, n)));
    td_chain_add(&c, TD_CHAIN_ADD,
                 td_chain_broadcast(&c, noise(b, b->sizes.hidden), (const bool[]){false, true}));
    td_chain_add(&c, TD_CHAIN_GELU_TANH, 0);
    td_chain_store(&c, empty(b, n));
    return td_chain_launch(&c, b->list);
}

/* From x without its bias, as the forward chain had it; the gradient of the bias is bias_grad's. */
static td_status record_bias_gelu_back(td_kernel_bench *b)
{
    const uint32_t n = use_rows(b, b->sizes.hidden, 3), dims[] = {rows_of(b), b->sizes.hidden};
    td_chain c;
    td_chain_begin(&c, dims, 2);
    td_chain_add(&c, TD_CHAIN_LOAD, td_chain_input(&c, noise(b, n)));
    td_chain_add(&c, TD_CHAIN_ADD,
                 td_chain_broadcast(&c, noise(b, b->sizes.hidden), (const bool[]){false, true}));
    td_chain_add(&c, TD_CHAIN_SAVE, td_chain_temporary(0));
    td_chain_add(&c, TD_CHAIN_LOAD, td_chain_input(&c, noise(b, n)));
    td_chain_add(&c, TD_CHAIN_GELU_TANH_BACK, td_chain_temporary(0));
    td_chain_store(&c, empty(b, n));
    return td_chain_launch(&c, b->list);
}

static td_status record_dropout(td_kernel_bench *b)
{
    const uint32_t n = use_rows(b, b->sizes.channels, 2);
    td_dropout_args args = {.n = n, .p = 0.1f, .seed = 1};
    args.x = noise(b, n);
    args.step = same(b, 1, 0);
    args.y = empty(b, n);
    return td_op_dropout(b->list, &args);
}

/* ---------------------------------------------------------------- reductions */

static td_status record_reduction(td_kernel_bench *b, uint32_t outer, uint32_t axis, uint32_t inner)
{
    const uint64_t words = td_op_reduce_workspace(td_device_class(b->device), outer, axis, inner);
    td_reduce_args args = {.kind = TD_REDUCE_SUM, .outer = outer, .axis = axis, .inner = inner};
    args.x = noise(b, (uint64_t)outer * axis * inner);
    args.y = empty(b, (uint64_t)outer * inner);
    if (words) args.workspace = empty(b, words);
    return td_op_reduce(b->list, &args);
}

static td_status record_row_sum(td_kernel_bench *b)
{
    use_rows(b, b->sizes.hidden, 1);
    return record_reduction(b, rows_of(b), b->sizes.hidden, 1);
}

static td_status record_bias_grad(td_kernel_bench *b)
{
    use_rows(b, b->sizes.hidden, 1);
    return record_reduction(b, 1, rows_of(b), b->sizes.hidden);
}

static td_status record_max(td_kernel_bench *b)
{
    const uint32_t n = use_rows(b, b->sizes.hidden, 1);
    td_max_args args = {.outer = rows_of(b), .axis = b->sizes.hidden, .inner = 1};
    args.x = noise(b, n);
    args.y = empty(b, args.outer);
    args.arg = empty(b, args.outer);
    return td_op_max(b->list, &args);
}

/* ---------------------------------------------------------------- norms */

static td_status record_norm(td_kernel_bench *b, td_norm_kind kind)
{
    const uint32_t columns = b->sizes.channels, n = use_rows(b, columns, 2);
    td_norm_args args = {.kind = kind, .rows = rows_of(b), .columns = columns, .eps = EPS};
    args.x = noise(b, n);
    args.gamma = noise(b, columns);
    if (kind == TD_NORM_LAYER) args.beta = noise(b, columns);
    args.y = empty(b, n);
    args.stats = empty(b, 2 * (uint64_t)args.rows);
    return td_op_norm(b->list, &args);
}

static td_status record_norm_back(td_kernel_bench *b, td_norm_kind kind)
{
    const uint32_t columns = b->sizes.channels, n = use_rows(b, columns, 3);
    const td_kernel_class kernel_class = td_device_class(b->device);
    td_norm_back_args args = {.kind = kind, .rows = rows_of(b), .columns = columns};
    args.dy = noise(b, n);
    args.v = noise(b, n);
    args.gamma = noise(b, columns);
    args.stats = noise(b, 2 * (uint64_t)args.rows);
    args.dx = empty(b, n);
    args.dgamma = empty(b, columns);
    if (kind == TD_NORM_LAYER) args.dbeta = empty(b, columns);
    args.partial = empty(b, td_op_norm_back_partial(kernel_class, kind, args.rows, columns));
    return td_op_norm_back(b->list, &args);
}

static td_status record_channel_norm(td_kernel_bench *b, td_channel_norm_kind kind)
{
    const td_kernel_sizes *s = &b->sizes;
    const uint32_t n = use_items(b, s->channels, 3); /* the first result needs the statistics of all of x */
    td_channel_norm_args args = {.kind = kind,
                                 .items = s->items,
                                 .frames = s->frames,
                                 .channels = s->channels,
                                 .groups = kind == TD_NORM_GROUP ? 8 : 0,
                                 .eps = EPS,
                                 .momentum = 0.1f};
    args.x = noise(b, n);
    args.gamma = noise(b, s->channels);
    args.beta = noise(b, s->channels);
    if (kind != TD_NORM_GROUP) {
        args.running_mean = empty(b, s->channels);
        args.running_var = empty(b, s->channels);
    }
    args.y = empty(b, n);
    args.table = empty(b, 2 * (uint64_t)s->items * s->channels);
    args.partial = empty(
        b, td_op_channel_norm_partial(td_device_class(b->device), kind, s->items, s->frames, s->channels));
    return td_op_channel_norm(b->list, &args);
}

static td_status record_channel_norm_back(td_kernel_bench *b, td_channel_norm_kind kind)
{
    const td_kernel_sizes *s = &b->sizes;
    const uint32_t n = use_items(b, s->channels, 5); /* and the first gradient the sums of all of x and dy */
    td_channel_norm_back_args args = {.kind = kind,
                                      .items = s->items,
                                      .frames = s->frames,
                                      .channels = s->channels,
                                      .groups = kind == TD_NORM_GROUP ? 8 : 0};
    args.dy = noise(b, n);
    args.x = noise(b, n);
    args.gamma = noise(b, s->channels);
    args.table = noise(b, 2 * (uint64_t)s->items * s->channels);
    args.dx = empty(b, n);
    args.dgamma = empty(b, s->channels);
    args.dbeta = empty(b, s->channels);
    args.partial = empty(
        b, td_op_channel_norm_partial(td_device_class(b->device), kind, s->items, s->frames, s->channels));
    args.means = empty(b, 2 * (uint64_t)s->items * s->channels);
    return td_op_channel_norm_back(b->list, &args);
}

#define OF_KIND(name, function, kind)                                                                        \
    static td_status name(td_kernel_bench *b)                                                                \
    {                                                                                                        \
        return function(b, kind);                                                                            \
    }
OF_KIND(record_layer_norm, record_norm, TD_NORM_LAYER)
OF_KIND(record_layer_norm_back, record_norm_back, TD_NORM_LAYER)
OF_KIND(record_rms_norm, record_norm, TD_NORM_RMS)
OF_KIND(record_rms_norm_back, record_norm_back, TD_NORM_RMS)
OF_KIND(record_group_norm, record_channel_norm, TD_NORM_GROUP)
OF_KIND(record_group_norm_back, record_channel_norm_back, TD_NORM_GROUP)
OF_KIND(record_batch_norm, record_channel_norm, TD_NORM_BATCH_TRAIN)
OF_KIND(record_batch_norm_back, record_channel_norm_back, TD_NORM_BATCH_TRAIN)

static td_status record_softmax(td_kernel_bench *b)
{
    const uint32_t n = use_rows(b, b->sizes.frames, 2);
    td_softmax_args args = {.rows = rows_of(b), .columns = b->sizes.frames, .scale = 0.125f};
    args.x = noise(b, n);
    args.y = empty(b, n);
    return td_op_softmax(b->list, &args);
}

static td_status record_softmax_back(td_kernel_bench *b)
{
    const uint32_t n = use_rows(b, b->sizes.frames, 3);
    td_softmax_back_args args = {.rows = rows_of(b), .columns = b->sizes.frames, .scale = 0.125f};
    args.y = noise(b, n);
    args.dy = noise(b, n);
    args.dx = empty(b, n);
    return td_op_softmax_back(b->list, &args);
}

/* ---------------------------------------------------------------- attention */

/* Causal self-attention; half of the matrix of queries and keys counts as work, in `products` products. */
static td_attention_args attend(td_kernel_bench *b, double products)
{
    const td_kernel_sizes *s = &b->sizes;
    const uint64_t n = (uint64_t)rows_of(b) * s->heads * s->head_size;
    td_attention_args args = {.shape = {.batch = s->items,
                                        .heads = s->heads,
                                        .head_size = s->head_size,
                                        .queries = s->frames,
                                        .keys = s->frames,
                                        .causal = true}};
    set_shape(b, "%u x %u heads of %u x %u, causal", s->items, s->heads, s->head_size, s->frames);
    b->flops = products * (double)n * (s->frames + 1);
    args.q = noise(b, n);
    args.k = noise(b, n);
    args.v = noise(b, n);
    args.o = noise(b, n);
    args.lse = same(b, (uint64_t)rows_of(b) * s->heads, 0x40c00000u); /* 6.0, about log(frames) */
    return args;
}

static td_status record_attention(td_kernel_bench *b)
{
    const td_attention_args args = attend(b, 2);
    return td_op_attention(b->list, &args);
}

static td_status record_attention_back(td_kernel_bench *b)
{
    td_attention_back_args args = {.forward = attend(b, 5)};
    const uint64_t n = (uint64_t)rows_of(b) * b->sizes.heads * b->sizes.head_size;
    args.d_o = noise(b, n);
    args.stats = empty(b, td_op_attention_stats(&args.forward.shape));
    args.d_q = empty(b, n);
    args.d_k = empty(b, n);
    args.d_v = empty(b, n);
    return td_op_attention_back(b->list, &args);
}

/* ---------------------------------------------------------------- losses and alignment */

static td_status record_cross_entropy(td_kernel_bench *b)
{
    const uint32_t n = use_rows(b, b->sizes.classes, 2);
    td_cross_entropy_args args = {
        .rows = rows_of(b), .classes = b->sizes.classes, .ignore = UINT32_MAX, .weight = 1};
    args.x = noise(b, n);
    args.target = td_kernel_bench_index(b, args.rows, args.classes);
    args.per_row = empty(b, args.rows);
    args.scale = empty(b, 1);
    args.loss = empty(b, 1);
    args.dx = empty(b, n);
    return td_op_cross_entropy(b->list, &args);
}

static td_status record_masked(td_kernel_bench *b, td_loss_kind kind)
{
    const td_kernel_sizes *s = &b->sizes;
    const uint32_t n = use_items(b, s->channels, 3);
    td_masked_loss_args args = {.kind = kind,
                                .items = s->items,
                                .frames = s->frames,
                                .channels = s->channels,
                                .shape = 1,
                                .weight = 1};
    args.x = noise(b, n);
    args.y = noise(b, n);
    args.lengths = same(b, s->items, s->frames);
    args.partial =
        empty(b, td_op_masked_loss_partial(td_device_class(b->device), s->items, s->frames, s->channels));
    args.scale = empty(b, 1);
    args.loss = empty(b, 1);
    args.dx = empty(b, n);
    return td_op_masked_loss(b->list, &args);
}

OF_KIND(record_l1, record_masked, TD_LOSS_L1)
OF_KIND(record_mse, record_masked, TD_LOSS_MSE)
OF_KIND(record_huber, record_masked, TD_LOSS_HUBER)
OF_KIND(record_bce, record_masked, TD_LOSS_BCE)

static td_status record_align(td_kernel_bench *b)
{
    const td_kernel_sizes *s = &b->sizes;
    const uint64_t n = (uint64_t)s->items * s->tokens * s->frames;
    uint32_t lengths[64];
    td_align_args args = {.items = s->items, .tokens = s->tokens, .frames = s->frames};
    set_shape(b, "%u x %u tokens x %u", s->items, s->tokens, s->frames);
    b->bytes = 4.0 * (double)n;
    for (uint32_t i = 0; i < s->items; i++) {
        lengths[i] = s->tokens;
        lengths[s->items + i] = s->frames;
    }
    args.x = noise(b, n);
    args.lengths = td_kernel_bench_words(b, 2 * (uint64_t)s->items, lengths);
    args.edge = empty(b, (uint64_t)s->items * s->frames);
    args.bits = empty(b, td_op_align_bits(s->items, s->tokens, s->frames));
    args.durations = empty(b, (uint64_t)s->items * s->tokens);
    args.index = empty(b, (uint64_t)s->items * s->frames);
    return td_op_align(b->list, &args);
}

/* ---------------------------------------------------------------- optimiser */

static uint32_t use_parameters(td_kernel_bench *b, double bytes_each)
{
    set_shape(b, "%u parameters", b->sizes.parameters);
    b->bytes = bytes_each * b->sizes.parameters;
    return b->sizes.parameters;
}

static td_span control(td_kernel_bench *b)
{
    static const uint32_t ONE = 0x3f800000u, RATE = 0x38d1b717u; /* 1.0, 1e-4 */
    uint32_t words[TD_CONTROL_WORDS] = {0};
    words[TD_CONTROL_LR] = RATE;
    words[TD_CONTROL_NORM] = words[TD_CONTROL_FACTOR] = ONE;
    words[TD_CONTROL_BIAS1] = words[TD_CONTROL_BIAS2] = ONE;
    return td_kernel_bench_words(b, TD_CONTROL_WORDS, words);
}

static td_status record_global_norm(td_kernel_bench *b)
{
    const uint32_t n = use_parameters(b, 4);
    const uint32_t parts = td_op_square_sum_parts(td_device_class(b->device), n);
    td_clip_args args = {.parts = parts, .max_norm = 1, .beta1 = 0.9f, .beta2 = 0.99f};
    const td_span g = noise(b, n);
    args.partial = empty(b, parts);
    args.control = control(b);
    TD_CHECK(td_op_square_sum(b->list, n, g, args.partial, 0));
    return td_op_clip(b->list, &args);
}

static td_status record_adamw(td_kernel_bench *b)
{
    const uint32_t n = use_parameters(b, 28);
    const td_decay_range range = {0, n, 0.01f};
    td_adamw_args args = {.beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f, .ranges = &range, .n_ranges = 1};
    args.g = noise(b, n);
    args.control = control(b);
    args.w = noise(b, n);
    args.m = empty(b, n);
    args.v = empty(b, n);
    return td_op_adamw(b->list, &args);
}

static td_status record_ema(td_kernel_bench *b)
{
    const uint32_t n = use_parameters(b, 12);
    td_ema_args args = {.n = n, .decay = 0.999f};
    args.w = noise(b, n);
    args.average = empty(b, n);
    return td_op_ema(b->list, &args);
}

/* ---------------------------------------------------------------- convolutions and products */

static td_status convolve(td_kernel_bench *b, td_conv_pass pass, td_conv *conv, td_span *workspace)
{
    const td_kernel_sizes *s = &b->sizes;
    uint64_t bytes = 0;
    *conv = (td_conv){.batch = s->items,
                      .in_width = s->frames,
                      .in_channels = s->conv_channels,
                      .out_channels = s->conv_channels,
                      .kernel_width = 3};
    td_conv_pad_same(conv);
    set_shape(b, "%u x %u, %u to %u, k 3", s->items, s->frames, s->conv_channels, s->conv_channels);
    b->flops += 6.0 * rows_of(b) * s->conv_channels * s->conv_channels;
    TD_CHECK(td_conv_workspace(conv, pass, b->device, &bytes));
    if (bytes) *workspace = empty(b, (bytes + 3) / 4);
    return TD_OK;
}

static td_status record_conv1d(td_kernel_bench *b)
{
    const uint32_t channels = b->sizes.conv_channels;
    const uint64_t n = (uint64_t)rows_of(b) * channels;
    td_conv_args args = {.activation = TD_GEMM_LINEAR};
    b->flops = 0;
    TD_CHECK(convolve(b, TD_CONV_FORWARD, &args.conv, &args.workspace));
    args.x = noise(b, n);
    args.w = noise(b, 3ull * channels * channels);
    args.bias = noise(b, channels);
    args.y = empty(b, n);
    return td_op_conv(b->list, &args);
}

static td_status record_conv1d_back(td_kernel_bench *b)
{
    const uint32_t channels = b->sizes.conv_channels;
    const uint64_t n = (uint64_t)rows_of(b) * channels, n_w = 3ull * channels * channels;
    td_conv_back_data_args data = {0};
    td_conv_back_weights_args weights = {0};
    b->flops = 0;
    TD_CHECK(convolve(b, TD_CONV_BACK_DATA, &data.conv, &data.workspace));
    TD_CHECK(convolve(b, TD_CONV_BACK_WEIGHTS, &weights.conv, &weights.workspace));
    weights.x = noise(b, n);
    data.dy = weights.dy = noise(b, n);
    data.w = noise(b, n_w);
    data.dx = empty(b, n);
    weights.dw = empty(b, n_w);
    weights.dbias = empty(b, channels);
    TD_CHECK(td_op_conv_back_data(b->list, &data));
    return td_op_conv_back_weights(b->list, &weights);
}

static td_status multiply(td_kernel_bench *b, uint32_t m, uint32_t n, uint32_t k)
{
    td_gemm_desc desc = {.m = m, .n = n, .k = k, .batch = 1};
    uint64_t bytes = 0;
    set_shape(b, "%u x %u x %u", m, n, k);
    TD_CHECK(td_gemm_workspace(&desc, b->device, &bytes));
    desc.a = noise(b, (uint64_t)m * k);
    desc.b = noise(b, (uint64_t)k * n);
    desc.c = empty(b, (uint64_t)m * n);
    if (bytes) desc.workspace = empty(b, (bytes + 3) / 4);
    return td_gemm(b->list, &desc);
}

static td_status record_gemm(td_kernel_bench *b)
{
    const td_kernel_sizes *s = &b->sizes;
    b->flops = 2.0 * rows_of(b) * s->hidden * s->channels;
    return multiply(b, rows_of(b), s->hidden, s->channels);
}

static td_status record_gemv(td_kernel_bench *b)
{
    const td_kernel_sizes *s = &b->sizes;
    b->bytes = 4.0 * s->decode_n * s->decode_k;
    return multiply(b, 1, s->decode_n, s->decode_k);
}

/* ---------------------------------------------------------------- the table */

const td_kernel_row td_kernel_rows[] = {
    {"fill", record_fill},
    {"copy", record_copy},
    {"permute", record_permute},
    {"transpose", record_transpose},
    {"slice", record_slice},
    {"pad", record_pad},
    {"cast_half", record_cast_half},
    {"cast_float", record_cast_float},
    {"gather_rows", record_gather},
    {"scatter_rows", record_scatter},
    {"embedding_back", record_embedding_back},
    {"add", record_add},
    {"bias_gelu", record_bias_gelu},
    {"bias_gelu_back", record_bias_gelu_back},
    {"dropout", record_dropout},
    {"row_sum", record_row_sum},
    {"bias_grad", record_bias_grad},
    {"max", record_max},
    {"layer_norm", record_layer_norm},
    {"layer_norm_back", record_layer_norm_back},
    {"rms_norm", record_rms_norm},
    {"rms_norm_back", record_rms_norm_back},
    {"group_norm", record_group_norm},
    {"group_norm_back", record_group_norm_back},
    {"batch_norm", record_batch_norm},
    {"batch_norm_back", record_batch_norm_back},
    {"softmax", record_softmax},
    {"softmax_back", record_softmax_back},
    {"attention", record_attention},
    {"attention_back", record_attention_back},
    {"cross_entropy", record_cross_entropy},
    {"l1_loss", record_l1},
    {"mse_loss", record_mse},
    {"huber_loss", record_huber},
    {"bce_loss", record_bce},
    {"align", record_align},
    {"global_norm", record_global_norm},
    {"adamw", record_adamw},
    {"ema", record_ema},
    {"conv1d", record_conv1d},
    {"conv1d_back", record_conv1d_back},
    {"gemm", record_gemm},
    {"gemv", record_gemv},
};
const size_t td_kernel_row_count = sizeof td_kernel_rows / sizeof *td_kernel_rows;
