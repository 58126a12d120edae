/* A graph: tensors and the operations between them, described once and without a device. Model code reads as
 * mathematics:
 *
 *   h = td_graph_gelu(g, td_graph_add(g, td_graph_matmul(g, x, w), b));
 *
 * Builders do not return a status: the first mistake sticks, every later builder returns the empty
 * tensor, and td_graph_status() (asked by everything that uses the graph) reports it with the operation, the
 * names and the shapes. td_graph_backward() appends the gradients. Planning and running are plan.h's.
 *
 * Tensors have up to four axes, channels last: B T C are items, frames and channels. Values are fp32 unless
 * said. Covered by tests/graph.
 */
#ifndef TD_GRAPH_GRAPH_H
#define TD_GRAPH_GRAPH_H

#include "ops/align.h"
#include "ops/conv.h"
#include "ops/ctc.h"
#include "ops/loss.h"
#include "ops/move.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/sequence.h"

typedef struct td_graph td_graph;

/* Names a tensor of one graph; a value. id 0 means none: "left out" where an argument may be. */
typedef struct td_tensor {
    uint32_t id;
} td_tensor;

#define TD_NO_TENSOR ((td_tensor){0})

/* The last two hold 16 bits for each element, two to a word: for what a plan keeps, not for builders. */
typedef enum td_dtype { TD_F32, TD_U32, TD_BF16, TD_F16 } td_dtype;

typedef enum td_tensor_role {
    TD_TENSOR_ACTIVATION, /* lives from its making to its last use */
    TD_TENSOR_PARAMETER,
    TD_TENSOR_GRADIENT, /* of a parameter */
    TD_TENSOR_INPUT,    /* filled before each step */
    TD_TENSOR_STATE,    /* kept from step to step, but no parameter: running statistics */
} td_tensor_role;

/* *out is owned. `seed` is that of the dropout masks. */
td_status td_graph_create(uint64_t seed, td_graph **out);
void td_graph_destroy(td_graph *graph);

/* TD_OK, or the first mistake, which is then also this thread's error record. */
td_status td_graph_status(const td_graph *graph);

/* Notes a mistake of whoever builds with the graph, if it is the first. */
void td_graph_mistake(td_graph *graph, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A shape from its axes: td_dims(8, 100, 64). Up to four; trailing zeros do not count. */
#define td_dims(...) td_dims_of((const uint32_t[4]){__VA_ARGS__})
td_shape td_dims_of(const uint32_t dims[4]);

td_shape td_graph_shape(const td_graph *graph, td_tensor t);
const char *td_graph_name(const td_graph *graph, td_tensor t); /* borrowed from the graph */
td_dtype td_graph_dtype(const td_graph *graph, td_tensor t);
uint64_t td_shape_size(td_shape shape);

/* The gradient of a parameter after td_graph_backward, or no tensor: the loss does not depend on it. */
td_tensor td_graph_gradient(const td_graph *graph, td_tensor parameter);

/* ---------------------------------------------------------------- leaves */

typedef enum td_param_group {
    TD_PARAM_DECAY,    /* weights: AdamW's decay pulls on them */
    TD_PARAM_NO_DECAY, /* biases, norms, embeddings */
    TD_PARAM_GROUPS
} td_param_group;

typedef enum td_state_kind {
    TD_STATE_KEPT,     /* running statistics: checkpoints hold them */
    TD_STATE_CONSTANT, /* made from its init whenever a store is filled */
    TD_STATE_CACHE     /* of one use of a graph: starts with zeros */
} td_state_kind;

/* Names are copied and must differ within the graph for parameters and states. */
td_tensor td_graph_param(td_graph *graph, const char *name, td_shape shape, td_param_group group);
td_tensor td_graph_input(td_graph *graph, const char *name, td_shape shape, td_dtype dtype);
td_tensor td_graph_state(td_graph *graph, const char *name, td_shape shape, td_state_kind kind);

/* How the values of a parameter or constant begin; zeros if nothing is said. Random numbers depend on the
 * seed, on `like` (its own name if NULL) and on the element alone, so that what else is there does not
 * matter. */
typedef enum td_init_rule {
    TD_INIT_ZERO,
    TD_INIT_ONE,
    TD_INIT_UNIFORM,   /* from -scale to scale */
    TD_INIT_NORMAL,    /* of deviation `scale` */
    TD_INIT_POSITIONS, /* [rows, width]: sine and cosine of row * scale * 10000^(-2i / width), side by side */
    TD_INIT_MADE       /* `make` fills them */
} td_init_rule;

enum { TD_INIT_WORDS = 16 };

typedef struct td_init {
    td_init_rule rule;
    float scale;
    const char *like; /* whose random numbers it takes; NULL: its own name's */
    td_status (*make)(const uint32_t words[TD_INIT_WORDS], td_shape shape, float *values);
    uint32_t words[TD_INIT_WORDS]; /* what `make` is told */
} td_init;

void td_graph_set_init(td_graph *graph, td_tensor t, td_init init);

/* The parameter gets no gradient from this graph, and no update by its learner. Before it is used. */
void td_graph_freeze(td_graph *graph, td_tensor parameter);

/* A parameter or state by its name, or no tensor; and a parameter's group. */
td_tensor td_graph_find(const td_graph *graph, const char *name);
td_param_group td_graph_group(const td_graph *graph, td_tensor parameter);

/* The first parameter that was made after `after`, or no tensor; TD_NO_TENSOR asks for the first of all. */
td_tensor td_graph_next_param(const td_graph *graph, td_tensor after);

/* Inputs in the order of their making, and by their names, or no tensor. */
size_t td_graph_input_count(const td_graph *graph);
td_tensor td_graph_input_at(const td_graph *graph, size_t i);
td_tensor td_graph_find_input(const td_graph *graph, const char *name);

/* Elements of all parameters that are not frozen. */
uint64_t td_graph_parameters(const td_graph *graph);

/* Keeps a tensor until the end of the step, for reading; a loss among them becomes a scalar of the plan. */
void td_graph_output(td_graph *graph, td_tensor t, const char *name);

/* What was marked so, or no tensor. */
td_tensor td_graph_find_output(const td_graph *graph, const char *name);

/* ---------------------------------------------------------------- element-wise, with broadcast */

/* The shapes are aligned at their last axes; an axis that is absent or 1 is repeated. */
td_tensor td_graph_add(td_graph *graph, td_tensor a, td_tensor b);
td_tensor td_graph_sub(td_graph *graph, td_tensor a, td_tensor b);
td_tensor td_graph_mul(td_graph *graph, td_tensor a, td_tensor b);
td_tensor td_graph_div(td_graph *graph, td_tensor a, td_tensor b);
td_tensor td_graph_min(td_graph *graph, td_tensor a, td_tensor b); /* of equals, b gets the gradient */
td_tensor td_graph_max(td_graph *graph, td_tensor a, td_tensor b);
td_tensor td_graph_add_scaled(td_graph *graph, td_tensor a, td_tensor b, float c); /* a + c b */

td_tensor td_graph_scale(td_graph *graph, td_tensor a, float c);
td_tensor td_graph_shift(td_graph *graph, td_tensor a, float c); /* a + c */
td_tensor td_graph_clamp(td_graph *graph, td_tensor a, float low, float high);

td_tensor td_graph_exp(td_graph *graph, td_tensor a);
td_tensor td_graph_log(td_graph *graph, td_tensor a);
td_tensor td_graph_sqrt(td_graph *graph, td_tensor a);
td_tensor td_graph_tanh(td_graph *graph, td_tensor a);
td_tensor td_graph_sigmoid(td_graph *graph, td_tensor a);
td_tensor td_graph_softplus(td_graph *graph, td_tensor a);
td_tensor td_graph_erf(td_graph *graph, td_tensor a);
td_tensor td_graph_sin(td_graph *graph, td_tensor a); /* both for |a| <= 1000 */
td_tensor td_graph_cos(td_graph *graph, td_tensor a);
td_tensor td_graph_silu(td_graph *graph, td_tensor a);
td_tensor td_graph_gelu(td_graph *graph, td_tensor a);     /* by tanh */
td_tensor td_graph_gelu_erf(td_graph *graph, td_tensor a); /* exact */
td_tensor td_graph_relu(td_graph *graph, td_tensor a);
td_tensor td_graph_leaky_relu(td_graph *graph, td_tensor a, float slope);

/* Zeroes elements with probability p and scales the others by 1 / (1 - p); every call has a mask of its own,
 * which changes with the step and is the same in the backward pass and when a block is computed again. */
td_tensor td_graph_dropout(td_graph *graph, td_tensor a, float p);

/* The value, through which no gradient flows. */
td_tensor td_graph_stop_gradient(td_graph *graph, td_tensor a);

/* ---------------------------------------------------------------- products */

/* a [.., m, k] b [k, n], or b [.., k, n] with the leading axes of a; _nt: b [.., n, k]; _tn: a [.., k, m] and
 * both with the same leading axes. */
td_tensor td_graph_matmul(td_graph *graph, td_tensor a, td_tensor b);
td_tensor td_graph_matmul_nt(td_graph *graph, td_tensor a, td_tensor b);
td_tensor td_graph_matmul_tn(td_graph *graph, td_tensor a, td_tensor b);

/* x [B, T, C] or [B, H, W, C], w and bias (may be left out) as ops/conv.h lays them out. Of `conv` the
 * strides, dilations, pads, groups, transposed and extra are read; the rest comes from the shapes. w has
 * axes [taps, in, out], [taps_width, taps_height, in, out], or with groups [groups, taps, in, out]. */
td_tensor td_graph_conv(td_graph *graph, td_tensor x, td_tensor w, td_tensor bias, const td_conv *conv);

typedef enum td_conv_pads { TD_PADS_GIVEN, TD_PADS_SAME, TD_PADS_CAUSAL } td_conv_pads;
td_tensor td_graph_conv_padded(td_graph *graph, td_tensor x, td_tensor w, td_tensor bias, const td_conv *conv,
                               td_conv_pads pads);

/* x [B, T, C], w [taps, C]: each channel with its own taps, as many frames as before; the middle tap (of an even
 * number the later one) at its own frame. */
td_tensor td_graph_depthwise(td_graph *graph, td_tensor x, td_tensor w);

/* ---------------------------------------------------------------- spectra and what excites them */

/* As ops/stft.h: the spectrum [B, T, 2, n_fft / 2 + 1] of a signal [B, S], and the signal of `samples` samples
 * that a spectrum makes. win 0: n_fft. */
typedef struct td_stft_options {
    uint32_t n_fft, hop, win;
} td_stft_options;
td_tensor td_graph_stft(td_graph *graph, td_tensor signal, const td_stft_options *options);
td_tensor td_graph_istft(td_graph *graph, td_tensor spectrum, const td_stft_options *options);

/* Standard normal numbers, others in each step, as dropout masks are. No gradients. */
td_tensor td_graph_noise(td_graph *graph, td_shape shape);

/* Band-limited pulses at the pitch [B, T], from `phase` [B] turns on: [B, (T - 1) hop]. No gradients. */
td_tensor td_graph_pulse(td_graph *graph, td_tensor pitch, td_tensor phase, uint32_t hop, float rate);

/* ---------------------------------------------------------------- norms, softmax, attention */

td_tensor td_graph_layer_norm(td_graph *graph, td_tensor x, td_tensor gamma, td_tensor beta, float eps);
td_tensor td_graph_rms_norm(td_graph *graph, td_tensor x, td_tensor gamma, float eps);
td_tensor td_graph_group_norm(td_graph *graph, td_tensor x, td_tensor gamma, td_tensor beta, uint32_t groups,
                              float eps);
/* Running statistics are states; `training` takes the batch's own and moves them. */
td_tensor td_graph_batch_norm(td_graph *graph, td_tensor x, td_tensor gamma, td_tensor beta,
                              td_tensor running_mean, td_tensor running_var, bool training, float momentum,
                              float eps);

/* Along the last axis, as td_op_softmax. mask: added, same for all leading axes that it lacks;
 * lengths: uint [B]. Neither gets a gradient, both may be left out. */
typedef struct td_softmax_options {
    float scale; /* 0: 1 */
    td_tensor mask, lengths;
    bool causal; /* over the last two axes */
} td_softmax_options;
td_tensor td_graph_softmax(td_graph *graph, td_tensor x, const td_softmax_options *options);

/* Fused attention over [B, T, C] with C = heads * head size (32, 64, 96, 128). Packed: qkv [B, T, 3C], or
 * q [B, Tq, C] with kv [B, Tk, 2C]. */
typedef struct td_attention_options {
    uint32_t heads;
    bool causal;
    float scale;       /* 0: 1 / sqrt(head size) */
    td_tensor lengths; /* uint [B]: valid keys; or left out */
} td_attention_options;
td_tensor td_graph_attention(td_graph *graph, td_tensor q, td_tensor k, td_tensor v,
                             const td_attention_options *options);
td_tensor td_graph_attention_qkv(td_graph *graph, td_tensor qkv, const td_attention_options *options);
td_tensor td_graph_attention_kv(td_graph *graph, td_tensor q, td_tensor kv,
                                const td_attention_options *options);

/* ---------------------------------------------------------------- reductions and moves */

/* The axis disappears; of a tensor with one axis [1] is left. */
td_tensor td_graph_sum(td_graph *graph, td_tensor x, uint32_t axis);
td_tensor td_graph_mean(td_graph *graph, td_tensor x, uint32_t axis);
td_tensor td_graph_sum_squares(td_graph *graph, td_tensor x, uint32_t axis);
td_tensor td_graph_largest(td_graph *graph, td_tensor x, uint32_t axis);
td_tensor td_graph_largest_index(td_graph *graph, td_tensor x, uint32_t axis); /* uint; the first of equals */

td_tensor td_graph_reshape(td_graph *graph, td_tensor x, td_shape shape); /* a view */
td_tensor td_graph_permute(td_graph *graph, td_tensor x, const uint32_t *order);
/* A view where the slice is along the first axis and starts at a multiple of 64 elements. */
td_tensor td_graph_slice(td_graph *graph, td_tensor x, uint32_t axis, uint32_t start, uint32_t length);
td_tensor td_graph_concat(td_graph *graph, const td_tensor *parts, size_t n_parts, uint32_t axis);
td_tensor td_graph_pad(td_graph *graph, td_tensor x, uint32_t axis, uint32_t before, uint32_t after,
                       float value);

/* Rows of table [V, C] by index [..] (uint): [.., C]. Rows of each item of x [B, T, C] by index [B, U]:
 * [B, U, C]. An index out of range gives zeros. */
td_tensor td_graph_embedding(td_graph *graph, td_tensor table, td_tensor index);
td_tensor td_graph_gather(td_graph *graph, td_tensor x, td_tensor index);

/* ---------------------------------------------------------------- losses */

/* Means over what counts, [1]; gradients flow into x alone. x, y [B, T, C], lengths uint [B]; logits [.., K],
 * target uint [..]. */
td_tensor td_graph_loss(td_graph *graph, td_loss_kind kind, td_tensor x, td_tensor y, td_tensor lengths,
                        float shape);
td_tensor td_graph_cross_entropy(td_graph *graph, td_tensor logits, td_tensor target, uint32_t ignore,
                                 float smoothing);

/* As ops/ctc.h: logits [B, T, K] and texts token_ids uint [B, S]; counts uint [B]. */
td_tensor td_graph_ctc(td_graph *graph, td_tensor logits, td_tensor token_ids, td_tensor token_counts,
                       td_tensor frame_counts, uint32_t edge);

/* weights[0] losses[0] + ... */
td_tensor td_graph_total(td_graph *graph, const td_tensor *losses, const float *weights, size_t n);

/* ---------------------------------------------------------------- lengths and alignments (no gradients) */

/* durations uint [B, L]: frames of each token; index uint [B, T]: token of each frame. As ops/align.h. */
typedef struct td_alignment {
    td_tensor durations, index;
} td_alignment;

/* The best monotonic path through log-likelihoods x [B, L, T]; counts uint [B]. */
td_alignment td_graph_align(td_graph *graph, td_tensor x, td_tensor token_counts, td_tensor frame_counts);

/* [B, frames], kind TD_MASK_ONE ...; uint [B] = lengths / divisor rounded up. */
td_tensor td_graph_mask(td_graph *graph, td_tensor lengths, uint32_t frames, uint32_t kind);
td_tensor td_graph_counts(td_graph *graph, td_tensor lengths, uint32_t divisor);

/* [B, T, 3]: place of each frame in its token, a half wave over the token, ln(duration). */
td_tensor td_graph_align_features(td_graph *graph, td_alignment a, td_tensor frame_counts);

/* [B, L]: ln(duration); mean of x [B, T] over each token's frames, or those of them where x > 0. */
td_tensor td_graph_align_log(td_graph *graph, td_alignment a);
td_tensor td_graph_align_mean(td_graph *graph, td_alignment a, td_tensor frame_counts, td_tensor x,
                              bool positive);

/* [B, T / reduction rounded up, L]: the alignment as weights. */
td_tensor td_graph_align_steps(td_graph *graph, td_alignment a, td_tensor frame_counts, uint32_t reduction);

/* [B, rows, columns]: squared distance from the diagonal of each item. */
td_tensor td_graph_diagonal(td_graph *graph, td_tensor row_counts, uint32_t rows, td_tensor column_counts,
                            uint32_t columns);

/* Row at[b] (uint [B]) of state [B, rows, C] becomes x [B, C]; the state as it is then. */
td_tensor td_graph_put(td_graph *graph, td_tensor state, td_tensor x, td_tensor at);

/* A state becomes x, of the same shape, once all that was appended before has read it. No gradient; x may be made from
 * the state itself. The plan runs it whether or not anybody reads the result. */
void td_graph_assign(td_graph *graph, td_tensor state, td_tensor x);

/* ---------------------------------------------------------------- sequences (uint, no gradients) */

/* [B, columns]: the first counts[b] of ids [B, n] with what is wrapped around them, as ops/sequence.h. */
td_tensor td_graph_wrap(td_graph *graph, td_tensor ids, td_tensor counts, uint32_t columns,
                        const td_wrapping *wrapping);

/* Of items with start + width rows of a first part, start + counts[b] of which count, and a second part behind: which rows
 * to gather so that the second part follows the first, and where its rows are then. [B, columns] */
td_tensor td_graph_join_rows(td_graph *graph, td_tensor counts, uint32_t start, uint32_t width,
                             uint32_t columns);
td_tensor td_graph_joined_rows(td_graph *graph, td_tensor counts, uint32_t start, uint32_t width,
                               uint32_t columns);

/* x [B, n] with `value` in the ranges [B, 2] (first, one past the last; divided by `divisor`) of the items from `item` on. */
td_tensor td_graph_hide(td_graph *graph, td_tensor x, td_tensor ranges, uint32_t item, uint32_t divisor,
                        uint32_t value);

/* ---------------------------------------------------------------- gradients */

/* Nodes between begin and end may be computed again in the backward pass (a plan's option). Blocks do not
 * nest. */
void td_graph_block_begin(td_graph *graph);
void td_graph_block_end(td_graph *graph);

/* Appends d(scale * loss)/d(parameter) for all parameters that are not frozen; loss is [1]. Once per graph.
 * `scale` is 1 / micro-batches of a step. */
td_status td_graph_backward(td_graph *graph, td_tensor loss, float scale);

/* The same, and gradients are larger by the loss scale of the store that the graph runs on (plan.h), which
 * the update takes out again: for gradients that would get lost in formats with few exponents. */
td_status td_graph_backward_scaled(td_graph *graph, td_tensor loss, float scale);

#endif
