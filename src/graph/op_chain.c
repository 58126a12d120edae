/* Element-wise nodes: small programs in the instructions of kernels/chain_geometry.h, so that fusing two is
 * joining their programs. As built, a node is one operation: load a, operate with b, store. Also dropout.
 *
 * Derivatives are a table of programs: for y = f(a, b), da and db in terms of dy, a, b and y. Covered by
 * tests/graph/test_random.c.
 */
#include <math.h>

#include "graph/internal.h"

/* ---------------------------------------------------------------- programs */

td_node td_chain_node(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    return (td_node){.kind = TD_OP_chain, .in = {a, b, c, d}};
}

void td_chain_node_add(td_node *node, uint32_t operation, uint32_t operand, float c)
{
    td_program *p = &node->info.program;
    p->code[p->length++] = (td_instruction){(uint8_t)operation, (uint8_t)operand, c};
}

static td_tensor apply(td_graph *graph, uint32_t operation, uint32_t a, uint32_t b, uint32_t operand, float c)
{
    td_node node = td_chain_node(a, b, 0, 0);
    td_chain_node_add(&node, TD_CHAIN_LOAD, TD_CHAIN_INPUT, 0);
    td_chain_node_add(&node, operation, operand, c);
    td_chain_node_add(&node, TD_CHAIN_STORE, 0, 0);
    if (operand == TD_CHAIN_INPUT + 1 && operation >= TD_CHAIN_LOAD && !b)
        td_graph_blame(graph, &node, "input 1 is missing");
    return td_graph_append(graph, node);
}

td_tensor td_chain_apply(td_graph *graph, uint32_t operation, uint32_t a, uint32_t b, float c)
{
    return apply(graph, operation, a, b, TD_CHAIN_INPUT + (operation >= TD_CHAIN_LOAD ? 1 : 0), c);
}

td_tensor td_chain_apply_constant(td_graph *graph, uint32_t operation, uint32_t a, float c)
{
    return apply(graph, operation, a, 0, TD_CHAIN_CONSTANT, c);
}

/* ---------------------------------------------------------------- shape and launch */

static void shape_chain(td_graph *graph, td_node *node)
{
    td_shape shape = td_graph_at(graph, node->in[0])->shape;
    bool fits = true;
    for (size_t i = 0; i < TD_CHAIN_INPUTS; i++) {
        const td_tensor_info *t = td_graph_at(graph, node->in[i]);
        if (!node->in[i]) continue;
        if (t->dtype != TD_F32) td_graph_blame(graph, node, "%s does not hold floats", t->name);
        if (fits) shape = td_shape_broadcast(shape, t->shape, &fits);
    }
    if (!fits)
        td_graph_blame(graph, node, "the shapes do not fit: from the last axis on, each must be equal or 1");
    td_graph_make_output(graph, node, 0, shape, TD_F32);
}

/* An input with the steps it takes along the axes of the result. */
static uint32_t add_input(td_chain *chain, const td_recorder *r, uint32_t id, td_shape domain)
{
    const td_shape shape = td_recorder_shape(r, id);
    uint32_t steps[4] = {0};
    uint32_t step = 1;
    for (size_t d = 1; d <= domain.n_dims && d <= shape.n_dims; d++) {
        const uint32_t length = shape.dims[shape.n_dims - d];
        steps[domain.n_dims - d] = length == 1 ? 0 : step;
        step *= length;
    }
    return td_chain_strided(chain, td_recorder_span(r, id), steps);
}

static bool has_own_constant(uint32_t operation)
{
    return operation == TD_CHAIN_LEAKY_RELU || operation == TD_CHAIN_ADD_SCALED ||
           operation == TD_CHAIN_PASS_ABOVE || operation == TD_CHAIN_PASS_BELOW ||
           operation == TD_CHAIN_LEAKY_RELU_BACK;
}

static void add_instruction(td_chain *chain, td_instruction step, const uint32_t *inputs)
{
    uint32_t operand = step.operand;
    if (operand < TD_CHAIN_CONSTANT) operand = inputs[operand];
    if (operand == TD_CHAIN_CONSTANT && !has_own_constant(step.operation))
        operand = td_chain_constant(chain, step.c);
    if (has_own_constant(step.operation))
        td_chain_add_with(chain, step.operation, operand, step.c);
    else
        td_chain_add(chain, step.operation, operand);
}

static td_status record_chain(td_recorder *r, const td_node *node)
{
    const td_program *p = &node->info.program;
    const td_shape domain = td_recorder_shape(r, node->out[0]);
    uint32_t inputs[TD_CHAIN_INPUTS + 1] = {0};
    td_chain chain;
    td_chain_begin(&chain, domain.dims, domain.n_dims);
    for (size_t i = 0; i < TD_CHAIN_INPUTS; i++)
        if (node->in[i]) inputs[i] = add_input(&chain, r, node->in[i], domain);
    for (size_t s = 0; s < p->length; s++) {
        const td_instruction step = p->code[s];
        if (step.operation != TD_CHAIN_STORE) {
            add_instruction(&chain, step, inputs);
            continue;
        }
        const td_span out = td_recorder_span(r, node->out[step.operand]);
        if (td_recorder_adds(node, step.operand))
            td_chain_add(&chain, TD_CHAIN_ADD, td_chain_input(&chain, out));
        td_chain_store(&chain, out);
    }
    return td_chain_launch(&chain, r->list);
}

/* ---------------------------------------------------------------- derivatives */

/* Operands of a derivative's program beyond those of a chain. */
enum { DY = 16, A, B, Y };
#define K TD_CHAIN_CONSTANT
#define ACC TD_CHAIN_ACCUMULATOR
#define T0 TD_CHAIN_TEMPORARY
#define OWN NAN /* the constant of the forward operation */
#define MOST_STEPS 7

typedef struct derivative {
    td_instruction da[MOST_STEPS],
        db[MOST_STEPS]; /* all zero: none; ends with a zero operation but the first */
} derivative;

#define LOAD(x)                                                                                              \
    {                                                                                                        \
        TD_CHAIN_LOAD, x, 0                                                                                  \
    }
#define STEP(operation, x, c)                                                                                \
    {                                                                                                        \
        TD_CHAIN_##operation, x, c                                                                           \
    }
#define BY_X(back)                                                                                           \
    {                                                                                                        \
        .da = { LOAD(DY), STEP(back, A, 0) }                                                                 \
    }
#define BY_Y(back)                                                                                           \
    {                                                                                                        \
        .da = { LOAD(DY), STEP(back, Y, 0) }                                                                 \
    }

static const derivative derivatives[TD_CHAIN_OPERATIONS] = {
    [TD_CHAIN_EXP] = BY_Y(MUL),
    [TD_CHAIN_LOG] = BY_X(DIV),
    [TD_CHAIN_SQRT] = {.da = {LOAD(DY), STEP(DIV, Y, 0), STEP(MUL, K, 0.5f)}},
    [TD_CHAIN_TANH] = BY_Y(TANH_BACK),
    [TD_CHAIN_SIGMOID] = BY_Y(SIGMOID_BACK),
    [TD_CHAIN_SOFTPLUS] = BY_X(SOFTPLUS_BACK),
    [TD_CHAIN_ERF] = {.da = {LOAD(A), STEP(MUL, ACC, 0), STEP(MUL, K, -1), STEP(EXP, 0, 0),
                             STEP(MUL, K, 1.12837917f), STEP(MUL, DY, 0)}},
    [TD_CHAIN_SILU] = BY_X(SILU_BACK),
    [TD_CHAIN_GELU_TANH] = BY_X(GELU_TANH_BACK),
    [TD_CHAIN_GELU_ERF] = BY_X(GELU_ERF_BACK),
    [TD_CHAIN_SIN] = {.da = {LOAD(A), STEP(COS, 0, 0), STEP(MUL, DY, 0)}},
    [TD_CHAIN_COS] = {.da = {LOAD(A), STEP(SIN, 0, 0), STEP(MUL, K, -1), STEP(MUL, DY, 0)}},
    [TD_CHAIN_LEAKY_RELU] = {.da = {LOAD(DY), STEP(LEAKY_RELU_BACK, A, OWN)}},
    [TD_CHAIN_ADD] = {.da = {LOAD(DY)}, .db = {LOAD(DY)}},
    [TD_CHAIN_SUB] = {.da = {LOAD(DY)}, .db = {LOAD(DY), STEP(MUL, K, -1)}},
    [TD_CHAIN_MUL] = {.da = {LOAD(DY), STEP(MUL, B, 0)}, .db = {LOAD(DY), STEP(MUL, A, 0)}},
    [TD_CHAIN_DIV] = {.da = {LOAD(DY), STEP(DIV, B, 0)},
                      .db = {LOAD(DY), STEP(MUL, Y, 0), STEP(DIV, B, 0), STEP(MUL, K, -1)}},
    [TD_CHAIN_ADD_SCALED] = {.da = {LOAD(DY)}, .db = {LOAD(DY), STEP(MUL, K, OWN)}},
    [TD_CHAIN_MIN] = {.da = {LOAD(B), STEP(SUB, A, 0), STEP(SAVE, T0, 0), LOAD(DY), STEP(PASS_ABOVE, T0, 0)},
                      .db = {LOAD(B), STEP(SUB, A, 0), STEP(SAVE, T0, 0), LOAD(DY), STEP(PASS_ABOVE, T0, 0),
                             STEP(SUB_FROM, DY, 0)}},
    [TD_CHAIN_MAX] = {.da = {LOAD(A), STEP(SUB, B, 0), STEP(SAVE, T0, 0), LOAD(DY), STEP(PASS_ABOVE, T0, 0)},
                      .db = {LOAD(A), STEP(SUB, B, 0), STEP(SAVE, T0, 0), LOAD(DY), STEP(PASS_ABOVE, T0, 0),
                             STEP(SUB_FROM, DY, 0)}},
};

static bool ends(const td_instruction *steps, size_t s)
{
    return s == MOST_STEPS || (steps[s].operation == 0 && steps[s].operand == 0);
}

/* The input of `node` that holds tensor id, which becomes one if it is not yet. */
static uint8_t operand_of(td_node *node, uint32_t id)
{
    size_t i = 0;
    while (node->in[i] && node->in[i] != id)
        i++;
    node->in[i] = id;
    return (uint8_t)(TD_CHAIN_INPUT + i);
}

/* The program of a derivative, with the forward node's tensors (and constant) in place of names. */
static td_node derive(const td_node *forward, td_instruction own, uint32_t dy, const td_instruction *steps)
{
    const uint32_t tensors[] = {dy, forward->in[0], forward->in[1], forward->out[0]};
    td_node node = td_chain_node(0, 0, 0, 0);
    for (size_t s = 0; !ends(steps, s); s++) {
        td_instruction step = steps[s];
        if (isnan(step.c)) step.c = own.c;
        if (step.operand == B && own.operand == TD_CHAIN_CONSTANT) {
            step.operand = TD_CHAIN_CONSTANT;
            step.c = own.c;
        } else if (step.operand >= DY) {
            step.operand = operand_of(&node, tensors[step.operand - DY]);
        }
        td_chain_node_add(&node, step.operation, step.operand, step.c);
    }
    td_chain_node_add(&node, TD_CHAIN_STORE, 0, 0);
    return node;
}

static void contribute(td_backprop *b, const td_node *forward, size_t i, const td_instruction *steps)
{
    const uint32_t target = forward->in[i];
    if (!target || !td_backprop_wants(b, target) || ends(steps, 0)) return;
    const uint32_t dy = td_backprop_get(b, forward->out[0]);
    if (ends(steps, 1)) {
        td_backprop_add(b, target, dy);
        return;
    }
    const td_node node = derive(forward, forward->info.program.code[1], dy, steps);
    const td_shape whole = td_graph_at(b->graph, forward->out[0])->shape;
    if (td_shape_equal(whole, td_graph_at(b->graph, target)->shape))
        td_backprop_append(b, node, target, 0, 0);
    else
        td_backprop_add(b, target, td_graph_append(b->graph, node).id);
}

/* Where dy is a number and the operation linear, so are da and db: what sums of losses need. */
static bool contribute_constants(td_backprop *b, const td_node *node)
{
    const td_instruction own = node->info.program.code[1];
    double dy = 0;
    if (!td_backprop_get_constant(b, node->out[0], &dy)) return false;
    const bool by_constant = own.operand == TD_CHAIN_CONSTANT;
    double slopes[2] = {1, 1};
    switch (own.operation) {
    case TD_CHAIN_ADD:
        break;
    case TD_CHAIN_SUB:
        slopes[1] = -1;
        break;
    case TD_CHAIN_ADD_SCALED:
        slopes[1] = (double)own.c;
        break;
    case TD_CHAIN_MUL:
        if (!by_constant) return false;
        slopes[0] = (double)own.c;
        break;
    default:
        return false;
    }
    const double size = (double)td_shape_size(td_graph_at(b->graph, node->out[0])->shape);
    for (size_t i = 0; i < 2; i++) {
        if (!node->in[i] || !td_backprop_wants(b, node->in[i])) continue;
        const double repeats = size / (double)td_shape_size(td_graph_at(b->graph, node->in[i])->shape);
        td_backprop_add_constant(b, node->in[i], dy * slopes[i] * repeats);
    }
    return true;
}

static void back_chain(td_backprop *b, const td_node *node)
{
    const derivative *d = &derivatives[node->info.program.code[1].operation];
    if (contribute_constants(b, node)) return;
    contribute(b, node, 0, d->da);
    contribute(b, node, 1, d->db);
}

const td_op_row td_op_row_chain = {.required = 1,
                                   .shape = shape_chain,
                                   .backward = back_chain,
                                   .record = record_chain,
                                   .in_place = 0xf,
                                   .can_add = 1};

/* ---------------------------------------------------------------- dropout */

static void shape_dropout(td_graph *graph, td_node *node)
{
    const float p = node->info.dropout.p;
    if (!(p >= 0 && p < 1)) td_graph_blame(graph, node, "a probability of %g; 0 <= p < 1", (double)p);
    td_graph_make_output(graph, node, 0, td_graph_at(graph, node->in[0])->shape, TD_F32);
}

/* The same mask on the cotangent. */
static void back_dropout(td_backprop *b, const td_node *node)
{
    td_node back = {.kind = TD_OP_dropout, .in = {td_backprop_get(b, node->out[0])}, .info = node->info};
    td_backprop_append(b, back, node->in[0], 0, 0);
}

static td_status record_dropout(td_recorder *r, const td_node *node)
{
    return td_op_dropout(r->list,
                         &(td_dropout_args){.n = (uint32_t)td_shape_size(td_recorder_shape(r, node->in[0])),
                                            .p = node->info.dropout.p,
                                            .seed = r->seed,
                                            .stream = node->info.dropout.stream,
                                            .x = td_recorder_span(r, node->in[0]),
                                            .step = r->step,
                                            .y = td_recorder_span(r, node->out[0])});
}

const td_op_row td_op_row_dropout = {
    .required = 1, .shape = shape_dropout, .backward = back_dropout, .record = record_dropout, .in_place = 1};
