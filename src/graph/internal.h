/* What the files of this folder share: the graph's own structures and the table of operations.
 *
 * A node is one launch (or a few that belong together) of src/ops or src/linalg. Everything that differs from
 * one kind of node to the next is in its row of the table (op_table.c): adding an operation is one line of
 * TD_GRAPH_OPS, one row and its functions. Gradient nodes are nodes like others.
 */
#ifndef TD_GRAPH_INTERNAL_H
#define TD_GRAPH_INTERNAL_H

#include "base/arena.h"
#include "base/error.h"
#include "graph/graph.h"
#include "linalg/gemm.h"
#include "ops/attention.h"
#include "ops/chain.h"
#include "ops/depthwise.h"
#include "ops/stft.h"

#define TD_NODE_INPUTS 7
#define TD_NODE_OUTPUTS 3
#define TD_STORAGE_ALIGN ((uint64_t)TD_OFFSET_ALIGN) /* bytes; where any device lets a binding start */

#define TD_LEAST_HALF 256u /* elements: fewer are not kept in 16 bits */

/* One line of the list for each kind. */
#define TD_GRAPH_OPS(X)                                                                                      \
    X(chain)                                                                                                 \
    X(dropout)                                                                                               \
    X(matmul)                                                                                                \
    X(conv)                                                                                                  \
    X(conv_back_data)                                                                                        \
    X(conv_back_weights)                                                                                     \
    X(norm)                                                                                                  \
    X(norm_back)                                                                                             \
    X(channel_norm)                                                                                          \
    X(channel_norm_back)                                                                                     \
    X(softmax)                                                                                               \
    X(softmax_back)                                                                                          \
    X(attention)                                                                                             \
    X(attention_back)                                                                                        \
    X(reduce)                                                                                                \
    X(reduce_back)                                                                                           \
    X(max)                                                                                                   \
    X(max_back)                                                                                              \
    X(view)                                                                                                  \
    X(permute)                                                                                               \
    X(slice)                                                                                                 \
    X(concat)                                                                                                \
    X(pad)                                                                                                   \
    X(gather)                                                                                                \
    X(scatter)                                                                                               \
    X(loss)                                                                                                  \
    X(cross_entropy)                                                                                         \
    X(ctc)                                                                                                   \
    X(stft)                                                                                                  \
    X(istft)                                                                                                 \
    X(depthwise)                                                                                             \
    X(depthwise_back_data)                                                                                   \
    X(depthwise_back_weights)                                                                                \
    X(noise)                                                                                                 \
    X(pulse)                                                                                                 \
    X(align)                                                                                                 \
    X(lengths)                                                                                               \
    X(put)                                                                                                   \
    X(sequence)                                                                                              \
    X(assign)                                                                                                \
    X(fill)                                                                                                  \
    X(to_half)                                                                                               \
    X(to_float)                                                                                              \
    X(loss_scale)                                                                                            \
    X(begin_update)                                                                                          \
    X(update)

typedef enum td_op_kind {
#define TD_OP_ENUM(name) TD_OP_##name,
    TD_GRAPH_OPS(TD_OP_ENUM)
#undef TD_OP_ENUM
        TD_OP_KINDS
} td_op_kind;

/* ---------------------------------------------------------------- what nodes know beyond their tensors */

/* One step of an element-wise program: an operation of chain_geometry.h, where its operand comes from
 * (TD_CHAIN_INPUT + i, TD_CHAIN_CONSTANT, TD_CHAIN_TEMPORARY + i, TD_CHAIN_ACCUMULATOR; of a store: which
 * output) and its constant. */
typedef struct td_instruction {
    uint8_t operation, operand;
    float c;
} td_instruction;

typedef struct td_program {
    uint8_t length;
    td_instruction code[TD_CHAIN_LENGTH];
} td_program;

typedef struct td_matmul_info {
    td_gemm_layout layout;
    uint32_t m, n, k, batch;
} td_matmul_info;

typedef struct td_norm_info {
    td_norm_kind kind;
    float eps;
} td_norm_info;

typedef struct td_channel_norm_info {
    td_channel_norm_kind kind;
    uint32_t groups;
    float eps, momentum;
} td_channel_norm_info;

typedef struct td_softmax_info {
    float scale;
    bool causal;
} td_softmax_info;

typedef struct td_attention_info {
    td_attention_shape shape;
    uint32_t at[3]; /* where q, k and v start in a row of their tensors */
} td_attention_info;

typedef struct td_reduce_info {
    td_reduce_kind kind;
    uint32_t outer, axis, inner;
} td_reduce_info;

typedef struct td_move_info { /* permute: first = order; slice: first = start; pad: first, last = pads */
    uint32_t first[4], last[4];
    float value;
} td_move_info;

typedef struct td_loss_info {
    td_loss_kind kind;
    float shape, weight;
    uint32_t ignore;
} td_loss_info;

typedef enum td_length_kind {
    TD_LENGTH_MASK,
    TD_LENGTH_COUNTS,
    TD_LENGTH_FEATURES,
    TD_LENGTH_TOKENS,
    TD_LENGTH_STEPS,
    TD_LENGTH_DIAGONAL
} td_length_kind;

typedef struct td_length_info {
    td_length_kind what;
    uint32_t kind;          /* of a mask or of a number per token; or what counts are divided by */
    uint32_t rows, columns; /* of the result */
} td_length_info;

typedef enum td_sequence_kind { TD_SEQUENCE_WRAP, TD_SEQUENCE_ROWS, TD_SEQUENCE_HIDE } td_sequence_kind;

typedef struct td_sequence_info {
    td_sequence_kind kind;
    uint32_t columns;
    uint32_t start, width; /* of what is hidden: the first item, and what ranges are divided by */
    bool joins;
    td_wrapping wrapping; /* of what is hidden: `rest` stands in its place */
} td_sequence_info;

typedef union td_node_info {
    td_program program;
    td_matmul_info matmul;
    td_conv conv;
    td_norm_info norm;
    td_channel_norm_info channel_norm;
    td_softmax_info softmax;
    td_attention_info attention;
    td_reduce_info reduce;
    td_move_info move;
    td_loss_info loss;
    td_length_info lengths;
    td_sequence_info sequence;
    struct {
        uint64_t offset; /* of a view: elements */
        bool stops;      /* no gradient passes */
    } view;
    struct {
        float p;
        uint64_t stream;
    } dropout;
    td_stft stft; /* items, samples and frames come from the shapes */
    td_depthwise depthwise;
    uint64_t stream; /* noise */
    struct {
        uint32_t hop;
        float rate;
    } pulse;
    uint32_t axis; /* concat */
    float value;   /* fill */
} td_node_info;

/* When outputs that are gradients of parameters (all such of a node), or C of a product, are added to. */
typedef enum td_add {
    TD_ADD_NEVER,
    TD_ADD_FIRST, /* the first contribution to a gradient: sets it */
    TD_ADD_ALWAYS
} td_add;

typedef struct td_node {
    td_op_kind kind;
    td_add add[TD_NODE_OUTPUTS];
    uint32_t in[TD_NODE_INPUTS], out[TD_NODE_OUTPUTS]; /* tensors; 0: none */
    uint32_t activation; /* TD_GEMM_LINEAR ...: of a product or convolution, once fused */
    uint16_t block;      /* that may be computed again; 0: none */
    bool backward;
    td_node_info info;
} td_node;

/* Roles of inputs and outputs by name, where a family has many. */
enum { MATMUL_A, MATMUL_B, MATMUL_BIAS, MATMUL_RESIDUAL }; /* of convolutions too */
enum { MATMUL_C, MATMUL_PRE };
enum { LOSS_VALUE, LOSS_SCALE, LOSS_DX };
enum { NORM_X, NORM_GAMMA, NORM_BETA, NORM_RESIDUAL };
enum { NORM_Y, NORM_STATS, NORM_SUM };
enum { UPDATE_GRADIENT, UPDATE_PARAMETER };
enum { NORM_BACK_DY, NORM_BACK_V, NORM_BACK_GAMMA, NORM_BACK_STATS, NORM_BACK_EXTRA };

typedef struct td_tensor_info {
    char *name;
    td_shape shape;
    td_dtype dtype;
    td_tensor_role role;
    td_param_group group;
    td_state_kind state_kind;
    td_init init;
    bool is_frozen;
    uint32_t root;        /* the tensor whose storage this is part of; itself if not a view */
    uint64_t root_offset; /* elements */
    uint32_t gradient;    /* of a parameter; 0: none */
    uint32_t parameter;   /* of a gradient: whose it is */
    bool needs_gradient;
    bool is_output;
} td_tensor_info;

struct td_graph {
    td_arena *arena;         /* names */
    td_tensor_info *tensors; /* [0] stands for none */
    size_t n_tensors, tensor_capacity;
    td_node *nodes;
    size_t n_nodes, node_capacity;
    uint64_t seed;
    uint64_t next_stream;
    uint16_t n_blocks, block; /* block: the open one, or 0 */
    bool has_backward, in_backward;
    uint32_t loss;    /* whose gradients there are; 0: none yet */
    td_error mistake; /* status TD_OK: none */
};

/* ---------------------------------------------------------------- the table */

typedef struct td_backprop td_backprop;
typedef struct td_recorder td_recorder;

typedef struct td_op_row {
    uint8_t required; /* inputs that may not be left out: the first so many */
    /* Checks the inputs of a node and makes its outputs. Mistakes go to td_graph_blame. */
    void (*shape)(td_graph *graph, td_node *node);
    /* Appends the nodes that turn gradients of the outputs into those of the inputs; NULL: has none. */
    void (*backward)(td_backprop *b, const td_node *node);
    /* Launches. */
    td_status (*record)(td_recorder *r, const td_node *node);
    /* Bytes of scratch, or NULL: none. */
    td_status (*workspace)(const td_recorder *r, const td_node *node, uint64_t *bytes);
    /* Flops of products; NULL: a few per element. Bytes follow from the tensors. */
    double (*flops)(const td_recorder *r, const td_node *node);
    uint8_t in_place; /* bit i: output 0 may lie over input i of the same size */
    uint8_t can_add;  /* bit o: output o has an add flag */
} td_op_row;

extern const td_op_row *const td_op_table[TD_OP_KINDS];
extern const char *const td_op_names[TD_OP_KINDS];

#define TD_OP_DECLARE(name) extern const td_op_row td_op_row_##name;
TD_GRAPH_OPS(TD_OP_DECLARE)
#undef TD_OP_DECLARE

/* The shape rule of nodes that only td_backprop_append and passes of a plan append, with their outputs. */
void td_op_shape_given(td_graph *graph, td_node *node);

/* Turns the gradient of a loss, a number known when gradients are made, into that of x: the forward node writes it. */
void td_op_back_loss(td_backprop *b, const td_node *node);

/* ---------------------------------------------------------------- building (graph.c) */

/* Notes the first mistake: "matmul: ...", with the shapes of the node's inputs behind it. */
void td_graph_blame(td_graph *graph, const td_node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool td_graph_is_sound(const td_graph *graph);

/* Borrowed until the next tensor is made. */
td_tensor_info *td_graph_at(const td_graph *graph, uint32_t id);

uint32_t td_graph_new_tensor(td_graph *graph, td_tensor_role role, td_dtype dtype, td_shape shape,
                             const char *name);

/* Makes output o of a node under construction, unless it has been given a tensor already. */
void td_graph_make_output(td_graph *graph, td_node *node, size_t o, td_shape shape, td_dtype dtype);

/* Runs the shape rule and appends; returns output 0, or nothing after a mistake. */
td_tensor td_graph_append(td_graph *graph, td_node node);

/* TD_FORMAT_FP32 ... */
uint32_t td_dtype_format(td_dtype dtype);

bool td_shape_equal(td_shape a, td_shape b);
td_shape td_shape_broadcast(td_shape a, td_shape b, bool *fits);

/* [outer, axis, inner] of a reduction. */
void td_shape_split(td_shape shape, uint32_t axis, uint32_t *outer, uint32_t *length, uint32_t *inner);
td_shape td_shape_without(td_shape shape, uint32_t axis);
void td_shape_rows(td_shape shape, uint32_t *rows, uint32_t *columns); /* all but the last axis; the last */

/* ---------------------------------------------------------------- element-wise programs (op_chain.c) */

td_node td_chain_node(uint32_t a, uint32_t b, uint32_t c, uint32_t d);
void td_chain_node_add(td_node *node, uint32_t operation, uint32_t operand, float c);
/* operation(a, b) as a node of its own, stored; b may be 0 for functions of a. */
td_tensor td_chain_apply(td_graph *graph, uint32_t operation, uint32_t a, uint32_t b, float c);
/* a operation constant */
td_tensor td_chain_apply_constant(td_graph *graph, uint32_t operation, uint32_t a, float c);

/* ---------------------------------------------------------------- gradients (backward.c) */

struct td_backprop {
    td_graph *graph;
    struct td_slot {
        uint32_t id;      /* the sum so far; 0: none */
        bool is_constant; /* the same number everywhere, not made yet */
        double value;
    } * of; /* by tensor */
    size_t capacity;
};

/* The gradient of a tensor as a tensor (made if it is a constant); 0: none. */
uint32_t td_backprop_get(td_backprop *b, uint32_t id);
bool td_backprop_get_constant(const td_backprop *b, uint32_t id, double *value);
bool td_backprop_wants(const td_backprop *b, uint32_t id);

/* Adds a contribution: a tensor of the shape of `id`, or one that repeats it and is summed over what repeats.
 */
void td_backprop_add(td_backprop *b, uint32_t id, uint32_t gradient);
void td_backprop_add_constant(td_backprop *b, uint32_t id, double value);

/* Appends a node whose outputs are contributions to the gradients of these tensors (0, or a tensor that wants
 * none: an output that is not asked for). Where they are parameters and the operation can add, they go
 * straight to where the parameter's gradient lies. */
void td_backprop_append(td_backprop *b, td_node node, uint32_t target0, uint32_t target1, uint32_t target2);

/* ---------------------------------------------------------------- launching */

/* What record functions see: the list, and where each tensor of the plan lies. */
struct td_recorder {
    td_list *list;
    td_device *device;
    td_kernel_class kernel_class;
    const td_tensor_info *tensors;
    const td_span *spans;               /* by tensor */
    td_span workspace;                  /* of the node at hand */
    td_span step;                       /* one word: what changes dropout masks */
    td_span control;                    /* of the optimizer */
    const struct td_optimizer *updates; /* by which gradients are used up; NULL: not here */
    uint64_t seed;
};

td_shape td_recorder_shape(const td_recorder *r, uint32_t id);
td_span td_recorder_span(const td_recorder *r, uint32_t id); /* zero span for 0, and before there are any */
bool td_recorder_adds(const td_node *node, size_t o);
uint32_t td_recorder_format(const td_recorder *r, uint32_t id); /* TD_FORMAT_FP32 ... */

#endif
