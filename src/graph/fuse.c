/* Fusion: fewer launches and fewer passes over memory from the same nodes. Each rule looks at a node and at
 * the maker of one of its inputs, and puts one node in the place of the later; the earlier goes. Rules change
 * no result but by rounding.
 *
 *   product + bias, product or convolution + activation (the value before it kept where the backward pass
 * reads it), + residual; sum + norm; norm gradient + other gradient; scale + softmax; chain + chain; and
 * last, product + sum into the sum's own place.
 *
 * A node moves only to a later place, so what it reads is still there (nothing is overwritten until the last
 * rule), and nobody between may read or write what it makes. Covered by tests/graph/test_random.c. */
#include <stdlib.h>
#include <string.h>

#include "graph/draft.h"

typedef struct fusing {
    td_draft *draft;
    td_uses uses;
    bool *gone; /* by node */
} fusing;

static const td_tensor_info *info_of(const fusing *f, uint32_t id)
{
    return &f->draft->tensors[id];
}

static bool same_shape(const fusing *f, uint32_t a, uint32_t b)
{
    return a && b && td_shape_equal(info_of(f, a)->shape, info_of(f, b)->shape);
}

/* Read once, by the node at hand. */
static bool is_private(const fusing *f, uint32_t id)
{
    const td_tensor_info *t = info_of(f, id);
    return t->role == TD_TENSOR_ACTIVATION && !t->is_output && t->root == id && f->uses.count[id] == 1;
}

static bool touches(const td_node *node, uint32_t id)
{
    for (size_t i = 0; i < TD_NODE_INPUTS; i++)
        if (node->in[i] == id) return true;
    for (size_t o = 0; o < TD_NODE_OUTPUTS; o++)
        if (node->out[o] == id) return true;
    return false;
}

/* Nodes between m and n have nothing to do with what m makes. */
static bool may_move(const fusing *f, size_t m, size_t n)
{
    const td_node *node = &f->draft->nodes[m];
    for (size_t between = m + 1; between < n; between++) {
        if (f->gone[between]) continue;
        for (size_t o = 0; o < TD_NODE_OUTPUTS; o++)
            if (node->out[o] && touches(&f->draft->nodes[between], node->out[o])) return false;
    }
    return true;
}

static void replace(fusing *f, size_t m, size_t n, const td_node *by)
{
    f->draft->nodes[n] = *by;
    f->gone[m] = true;
    f->draft->fused++;
}

/* ---------------------------------------------------------------- what chains are */

/* load a; a + b; store */
static bool is_sum(const td_node *node)
{
    const td_program *p = &node->info.program;
    return node->kind == TD_OP_chain && p->length == 3 && p->code[1].operation == TD_CHAIN_ADD &&
           node->in[1] && p->code[1].operand == TD_CHAIN_INPUT + 1 && node->add[0] == TD_ADD_NEVER;
}

/* load a; f(a); store: *activation is what products call f. */
static bool is_activation(const td_node *node, uint32_t *activation)
{
    static const uint8_t names[TD_CHAIN_OPERATIONS] = {
        [TD_CHAIN_GELU_TANH] = TD_GEMM_GELU_TANH, [TD_CHAIN_GELU_ERF] = TD_GEMM_GELU_ERF,
        [TD_CHAIN_SILU] = TD_GEMM_SILU,           [TD_CHAIN_TANH] = TD_GEMM_TANH,
        [TD_CHAIN_SIGMOID] = TD_GEMM_SIGMOID,     [TD_CHAIN_LEAKY_RELU] = TD_GEMM_RELU,
    };
    const td_program *p = &node->info.program;
    if (node->kind != TD_OP_chain || p->length != 3 || node->in[1] || node->add[0] != TD_ADD_NEVER)
        return false;
    *activation = names[p->code[1].operation];
    return *activation && !(p->code[1].operation == TD_CHAIN_LEAKY_RELU && p->code[1].c != 0);
}

/* ---------------------------------------------------------------- products */

static bool is_product(const td_node *node)
{
    return node->kind == TD_OP_matmul || (node->kind == TD_OP_conv && !node->info.conv.transposed);
}

/* Can still take a residual: nothing follows it yet. */
static bool is_open(const td_node *node)
{
    return is_product(node) && node->add[0] == TD_ADD_NEVER && !node->in[MATMUL_RESIDUAL];
}

static bool fuse_bias(fusing *f, size_t m, size_t n, uint32_t id, uint32_t other)
{
    td_node node = f->draft->nodes[m];
    const td_tensor_info *bias = info_of(f, other);
    if (node.kind != TD_OP_matmul || !is_open(&node) || node.activation || node.in[MATMUL_BIAS]) return false;
    if (!is_private(f, id) || bias->shape.n_dims != 1 || td_shape_size(bias->shape) != node.info.matmul.n)
        return false;
    node.in[MATMUL_BIAS] = other;
    node.out[MATMUL_C] = f->draft->nodes[n].out[0];
    replace(f, m, n, &node);
    return true;
}

static bool fuse_residual(fusing *f, size_t m, size_t n, uint32_t id, uint32_t other)
{
    td_node node = f->draft->nodes[m];
    if (!is_open(&node) || !is_private(f, id) || !same_shape(f, id, other) || !may_move(f, m, n))
        return false;
    node.in[MATMUL_RESIDUAL] = other;
    node.out[MATMUL_C] = f->draft->nodes[n].out[0];
    replace(f, m, n, &node);
    return true;
}

static bool fuse_activation(fusing *f, size_t m, size_t n, uint32_t id)
{
    td_node node = f->draft->nodes[m];
    uint32_t activation = 0;
    if (!is_activation(&f->draft->nodes[n], &activation) || !is_open(&node) || node.activation) return false;
    if (!may_move(f, m, n)) return false;
    if (!is_private(f, id)) node.out[MATMUL_PRE] = id;
    node.activation = activation;
    node.out[MATMUL_C] = f->draft->nodes[n].out[0];
    replace(f, m, n, &node);
    return true;
}

/* ---------------------------------------------------------------- norms and softmax */

/* norm(a + b), the sum being an output of the norm. */
static bool fuse_norm(fusing *f, size_t m, size_t n, uint32_t id)
{
    const td_node *sum = &f->draft->nodes[m];
    td_node node = f->draft->nodes[n];
    if (node.kind != TD_OP_norm || node.in[NORM_X] != id || node.in[NORM_RESIDUAL] || !is_sum(sum))
        return false;
    if (!same_shape(f, sum->in[0], id) || !same_shape(f, sum->in[1], id) || sum->out[1] || !may_move(f, m, n))
        return false;
    node.in[NORM_X] = sum->in[0];
    node.in[NORM_RESIDUAL] = sum->in[1];
    node.out[NORM_SUM] = id;
    replace(f, m, n, &node);
    return true;
}

static bool fuse_norm_back(fusing *f, size_t m, size_t n, uint32_t id, uint32_t other)
{
    td_node node = f->draft->nodes[m];
    if (node.kind != TD_OP_norm_back || node.out[0] != id || node.in[NORM_BACK_EXTRA] || !is_private(f, id))
        return false;
    if (!same_shape(f, id, other) || !may_move(f, m, n)) return false;
    node.in[NORM_BACK_EXTRA] = other;
    node.out[0] = f->draft->nodes[n].out[0];
    replace(f, m, n, &node);
    return true;
}

static bool fuse_softmax(fusing *f, size_t m, size_t n, uint32_t id)
{
    const td_node *scale = &f->draft->nodes[m];
    const td_program *p = &scale->info.program;
    td_node node = f->draft->nodes[n];
    if (node.kind != TD_OP_softmax || node.in[0] != id || !is_private(f, id) || scale->kind != TD_OP_chain)
        return false;
    if (p->length != 3 || p->code[1].operation != TD_CHAIN_MUL || p->code[1].operand != TD_CHAIN_CONSTANT ||
        !(p->code[1].c > 0))
        return false;
    node.info.softmax.scale *= p->code[1].c;
    node.in[0] = scale->in[0];
    replace(f, m, n, &node);
    return true;
}

/* ---------------------------------------------------------------- chains */

static bool fuse_chains(fusing *f, size_t m, size_t n, uint32_t id)
{
    const td_node *from = &f->draft->nodes[m];
    td_node into = f->draft->nodes[n];
    const bool keep = !is_private(f, id);
    if (from->kind != TD_OP_chain || into.kind != TD_OP_chain || from->out[1] || from->add[0] != TD_ADD_NEVER)
        return false;
    if (!same_shape(f, id, into.out[0]) || !may_move(f, m, n)) return false;
    if (keep && info_of(f, id)->root != id) return false;
    if (!td_chain_merge(from, &into, id, keep)) return false;
    replace(f, m, n, &into);
    return true;
}

/* ---------------------------------------------------------------- the walk */

/* Node n with the maker of its input i; true if they became one. */
static bool fuse_pair(fusing *f, size_t n, size_t i)
{
    const td_node *node = &f->draft->nodes[n];
    const uint32_t id = node->in[i];
    if (!id || !f->uses.maker[id]) return false;
    const size_t m = f->uses.maker[id] - 1;
    if (m >= n || f->gone[m] || f->draft->nodes[m].backward != node->backward) return false;
    if (is_sum(node) && i < 2 && node->in[0] != node->in[1]) {
        const uint32_t other = node->in[1 - i];
        if (fuse_bias(f, m, n, id, other) || fuse_residual(f, m, n, id, other) ||
            fuse_norm_back(f, m, n, id, other))
            return true;
    }
    return fuse_activation(f, m, n, id) || fuse_norm(f, m, n, id) || fuse_softmax(f, m, n, id) ||
           fuse_chains(f, m, n, id);
}

static void compact(fusing *f)
{
    td_draft *draft = f->draft;
    size_t kept = 0;
    for (size_t n = 0; n < draft->n_nodes; n++)
        if (!f->gone[n]) draft->nodes[kept++] = draft->nodes[n];
    draft->n_nodes = kept;
}

/* What changed is the uses of a few tensors, but counting again is simple and quick enough. */
static td_status recount(fusing *f)
{
    td_uses_clear(&f->uses);
    compact(f);
    memset(f->gone, 0, f->draft->n_nodes);
    return td_uses_find(f->draft, &f->uses);
}

static td_status fuse_nodes(fusing *f)
{
    for (size_t n = 0; n < f->draft->n_nodes; n++) {
        size_t i = 0;
        while (i < TD_NODE_INPUTS && !fuse_pair(f, n, i))
            i++;
        if (i == TD_NODE_INPUTS) continue;
        TD_CHECK(recount(f)); /* node n is now n - 1, and is looked at again */
        n -= 2;
    }
    return TD_OK;
}

/* ---------------------------------------------------------------- sums in their own place */

/* Tensor `id` may be overwritten by node n: whole, ours, and its storage used by nobody from then on. */
static bool is_last_use(const fusing *f, uint32_t id, size_t n)
{
    const td_draft *draft = f->draft;
    const td_tensor_info *t = info_of(f, id);
    if (t->role != TD_TENSOR_ACTIVATION || t->root != id || t->is_output || t->dtype != TD_F32) return false;
    for (size_t later = 0; later < draft->n_nodes; later++) {
        const td_node *node = &draft->nodes[later];
        for (size_t i = 0; i < TD_NODE_INPUTS; i++)
            if (later > n && node->in[i] && draft->tensors[node->in[i]].root == id) return false;
        for (size_t o = 0; o < TD_NODE_OUTPUTS; o++)
            if (node->out[o] && draft->tensors[node->out[o]].root == id &&
                (later > n || draft->tensors[node->out[o]].is_output))
                return false;
    }
    return true;
}

static size_t count_inputs_in(const fusing *f, const td_node *node, uint32_t root)
{
    size_t n = 0;
    for (size_t i = 0; i < TD_NODE_INPUTS; i++)
        n += node->in[i] && info_of(f, node->in[i])->root == root;
    return n;
}

/* The tensor that is summed into lends its place to the result and to views of it. */
static void take_over(fusing *f, td_node *node, uint32_t lent)
{
    node->add[0] = TD_ADD_ALWAYS;
    for (size_t t = 1; t < f->draft->n_tensors; t++)
        if (f->draft->tensors[t].root == node->out[0]) f->draft->tensors[t].root = lent;
}

/* A product with a residual that dies here adds to it instead. */
static void sum_product(fusing *f, size_t n)
{
    td_node *node = &f->draft->nodes[n];
    const uint32_t lent = node->in[MATMUL_RESIDUAL];
    if (node->kind != TD_OP_matmul || !lent || node->activation || node->out[MATMUL_PRE]) return;
    if (info_of(f, node->out[0])->root != node->out[0] || info_of(f, node->out[0])->is_output) return;
    if (!is_last_use(f, lent, n) || count_inputs_in(f, node, lent) != 1) return;
    node->in[MATMUL_RESIDUAL] = 0;
    take_over(f, node, lent);
}

/* A sum with the data gradient of a convolution. */
static void sum_conv(fusing *f, size_t n)
{
    const td_node sum = f->draft->nodes[n];
    if (!is_sum(&sum) || sum.out[1] || sum.in[0] == sum.in[1]) return;
    for (size_t i = 0; i < 2; i++) {
        const uint32_t id = sum.in[i], lent = sum.in[1 - i];
        const size_t m = f->uses.maker[id];
        if (!m || f->gone[m - 1] || f->draft->nodes[m - 1].kind != TD_OP_conv_back_data) continue;
        td_node node = f->draft->nodes[m - 1];
        if (node.add[0] != TD_ADD_NEVER || !is_private(f, id) || !same_shape(f, id, lent)) continue;
        if (!is_last_use(f, lent, n) || count_inputs_in(f, &node, lent)) continue;
        node.out[0] = sum.out[0];
        take_over(f, &node, lent);
        replace(f, m - 1, n, &node);
        return;
    }
}

td_status td_draft_fuse(td_draft *draft)
{
    fusing f = {.draft = draft};
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&f.gone, draft->n_nodes + 1));
    TD_TRY(td_uses_find(draft, &f.uses));
    TD_TRY(fuse_nodes(&f));
    for (size_t n = 0; n < draft->n_nodes; n++) {
        sum_product(&f, n);
        sum_conv(&f, n);
    }
    compact(&f);
fail:
    td_uses_clear(&f.uses);
    free(f.gone);
    return status;
}
