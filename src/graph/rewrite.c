/* Passes that trade memory for work: blocks computed again in the backward pass, cheap activations made again
 * from others that are kept, activations kept in 16 bits, weights read in 16 bits. Each reads the old list of
 * nodes and writes a new one, in which backward nodes read the new tensors in place of the old. Covered by
 * tests/graph/test_random.c. */
#include <stdlib.h>
#include <string.h>

#include "graph/draft.h"

#define CAST_REACH 24u /* nodes from one use to the next that share a cast back */

/* ---------------------------------------------------------------- rewriting */

static td_status push(td_draft *to, const td_node *node)
{
    TD_CHECK(td_alloc_grow(&to->nodes, &to->node_capacity, to->n_nodes + 1, sizeof *to->nodes));
    to->nodes[to->n_nodes++] = *node;
    return TD_OK;
}

/* A pass writes a new list of nodes while it reads the old one. `now` is what to read in place of a tensor.
 */
typedef struct rewriting {
    td_draft *draft;
    td_node *old;
    size_t n_old;
    uint32_t *now; /* by tensor of the old list; 0: itself */
    size_t n_now;
} rewriting;

static td_status begin_rewriting(td_draft *draft, rewriting *out)
{
    *out =
        (rewriting){.draft = draft, .old = draft->nodes, .n_old = draft->n_nodes, .n_now = draft->n_tensors};
    draft->nodes = NULL;
    draft->n_nodes = draft->node_capacity = 0;
    TD_CHECK(TD_NEW_ARRAY(&out->now, out->n_now));
    return td_alloc_grow(&draft->nodes, &draft->node_capacity, 2 * out->n_old + 1, sizeof *draft->nodes);
}

static void end_rewriting(rewriting *w)
{
    free(w->old);
    free(w->now);
}

static void use_present(const rewriting *w, td_node *node)
{
    for (size_t i = 0; i < TD_NODE_INPUTS; i++)
        if (node->in[i] < w->n_now && w->now[node->in[i]]) node->in[i] = w->now[node->in[i]];
}

/* ---------------------------------------------------------------- computing again */

/* Tensors of blocks that stay anyway: read by forward nodes outside their block, outputs, or made with an
 * effect that must not happen twice. */
static td_status find_kept(const rewriting *w, const uint16_t *block_of, bool **out)
{
    const td_draft *draft = w->draft;
    TD_CHECK(TD_NEW_ARRAY(out, w->n_now));
    for (size_t n = 0; n < w->n_old; n++) {
        const td_node *node = &w->old[n];
        for (size_t i = 0; !node->backward && i < TD_NODE_INPUTS; i++)
            if (block_of[node->in[i]] != node->block) (*out)[node->in[i]] = true;
        for (size_t o = 0; o < TD_NODE_OUTPUTS; o++)
            (*out)[node->out[o]] |=
                td_node_has_effect(node) || td_node_is_loss(node) || draft->tensors[node->out[o]].is_output;
    }
    /* a view keeps what it looks at */
    for (size_t n = w->n_old; n-- > 0;) {
        const td_node *node = &w->old[n];
        if (node->kind == TD_OP_view && (*out)[node->out[0]]) (*out)[node->in[0]] = true;
    }
    return TD_OK;
}

/* Repeats the nodes of a block, with new tensors for all that is not kept. */
static td_status repeat_block(rewriting *w, uint16_t block, const bool *kept)
{
    td_draft *draft = w->draft;
    for (size_t n = 0; n < w->n_old; n++) {
        td_node node = w->old[n];
        bool makes = false;
        if (node.block != block || node.backward) continue;
        for (size_t o = 0; o < TD_NODE_OUTPUTS; o++)
            makes |= node.out[o] && !kept[node.out[o]];
        if (!makes) continue;
        use_present(w, &node);
        for (size_t o = 0; o < TD_NODE_OUTPUTS; o++) {
            const uint32_t old = node.out[o];
            if (!old) continue;
            TD_CHECK(td_draft_tensor(draft, old, draft->tensors[old].dtype, &node.out[o]));
            if (!kept[old]) w->now[old] = node.out[o];
        }
        if (node.kind == TD_OP_view) {
            td_tensor_info *view = &draft->tensors[node.out[0]];
            view->root = draft->tensors[node.in[0]].root;
            view->root_offset = draft->tensors[node.in[0]].root_offset + node.info.view.offset;
        }
        node.backward = true;
        TD_CHECK(push(draft, &node));
    }
    return TD_OK;
}

td_status td_draft_checkpoint(td_draft *draft)
{
    rewriting w = {0};
    uint16_t *block_of = NULL; /* by tensor */
    bool *kept = NULL;
    bool *done = NULL;
    td_status status = TD_OK;
    TD_TRY(begin_rewriting(draft, &w));
    TD_TRY(TD_NEW_ARRAY(&block_of, w.n_now));
    TD_TRY(TD_NEW_ARRAY(&done, (size_t)draft->graph->n_blocks + 1));
    for (size_t n = 0; n < w.n_old; n++)
        for (size_t o = 0; o < TD_NODE_OUTPUTS; o++)
            block_of[w.old[n].out[o]] = w.old[n].backward ? 0 : w.old[n].block;
    block_of[0] = 0;
    TD_TRY(find_kept(&w, block_of, &kept));
    for (size_t n = 0; n < w.n_old; n++) {
        td_node node = w.old[n];
        for (size_t i = 0; node.backward && i < TD_NODE_INPUTS; i++) {
            const uint16_t block = block_of[node.in[i]];
            if (!block || kept[node.in[i]] || done[block]) continue;
            done[block] = true;
            TD_TRY(repeat_block(&w, block, kept));
        }
        if (node.backward) use_present(&w, &node);
        TD_TRY(push(draft, &node));
    }
    TD_TRY(td_draft_drop_dead(draft, false));
fail:
    end_rewriting(&w);
    free(block_of);
    free(kept);
    free(done);
    return status;
}

/* ---------------------------------------------------------------- making cheap things again */

/* One pass over memory, from what is there anyway. */
static bool is_cheap(const td_node *node)
{
    return node->kind == TD_OP_chain || node->kind == TD_OP_norm;
}

/* Marks tensors that backward nodes read, by tensor. */
static void mark_read_back(const rewriting *w, bool *read)
{
    for (size_t n = 0; n < w->n_old; n++)
        for (size_t i = 0; w->old[n].backward && i < TD_NODE_INPUTS; i++)
            read[w->old[n].in[i]] = true;
}

/* Its inputs live until the backward pass: leaves, or activations that it reads and that are kept. */
static bool has_lasting_inputs(const rewriting *w, const td_node *node, const bool *read,
                               const uint32_t *cheap)
{
    for (size_t i = 0; i < TD_NODE_INPUTS; i++) {
        const uint32_t id = node->in[i];
        const td_tensor_info *t = &w->draft->tensors[id];
        if (id && (t->role == TD_TENSOR_ACTIVATION ? !read[id] || cheap[id] : t->role == TD_TENSOR_INPUT))
            return false;
    }
    return true;
}

/* *cheap: by tensor, node + 1 of its maker where it is to be made again. */
static td_status find_cheap(const rewriting *w, uint32_t **cheap)
{
    bool *read = NULL;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(cheap, w->n_now));
    TD_TRY(TD_NEW_ARRAY(&read, w->n_now));
    mark_read_back(w, read);
    for (size_t n = 0; n < w->n_old; n++) {
        const td_node *node = &w->old[n];
        const uint32_t id = node->out[0];
        if (node->backward || !is_cheap(node) || !read[id] || w->draft->tensors[id].is_output) continue;
        if (has_lasting_inputs(w, node, read, *cheap)) (*cheap)[id] = (uint32_t)n + 1;
    }
fail:
    free(read);
    return status;
}

/* The maker of a tensor once more, with outputs of its own. */
static td_status make_again(rewriting *w, const td_node *maker)
{
    td_node node = *maker;
    node.backward = true;
    for (size_t o = 0; o < TD_NODE_OUTPUTS; o++)
        if (node.out[o]) TD_CHECK(td_draft_tensor(w->draft, maker->out[o], TD_F32, &node.out[o]));
    w->now[maker->out[0]] = node.out[0];
    return push(w->draft, &node);
}

/* What making them again reads and writes. */
static double count_moved(const rewriting *w, const uint32_t *cheap)
{
    double bytes = 0;
    for (size_t id = 1; id < w->n_now; id++) {
        const td_node *maker = cheap[id] ? &w->old[cheap[id] - 1] : NULL;
        for (size_t i = 0; maker && i < TD_NODE_INPUTS; i++)
            bytes += maker->in[i] ? (double)td_tensor_bytes(&w->draft->tensors[maker->in[i]]) : 0;
        for (size_t o = 0; maker && o < TD_NODE_OUTPUTS; o++)
            bytes += maker->out[o] ? (double)td_tensor_bytes(&w->draft->tensors[maker->out[o]]) : 0;
    }
    return bytes;
}

td_status td_draft_remake_cheap(td_draft *draft, double most_bytes)
{
    rewriting w = {0};
    uint32_t *cheap = NULL;
    td_status status = TD_OK;
    TD_TRY(begin_rewriting(draft, &w));
    TD_TRY(find_cheap(&w, &cheap));
    if (count_moved(&w, cheap) > most_bytes) memset(cheap, 0, w.n_now * sizeof *cheap);
    for (size_t n = 0; n < w.n_old; n++) {
        td_node node = w.old[n];
        for (size_t i = 0; node.backward && i < TD_NODE_INPUTS; i++) {
            const uint32_t id = node.in[i];
            if (cheap[id] && !w.now[id]) TD_TRY(make_again(&w, &w.old[cheap[id] - 1]));
        }
        if (node.backward) use_present(&w, &node);
        TD_TRY(push(draft, &node));
    }
fail:
    end_rewriting(&w);
    free(cheap);
    return status;
}

/* ---------------------------------------------------------------- 16 bits */

/* Activations that the forward pass leaves to the backward pass, and large enough. */
static bool *find_left(const rewriting *w)
{
    const td_draft *draft = w->draft;
    bool *left = NULL;
    if (TD_NEW_ARRAY(&left, w->n_now) != TD_OK) return NULL;
    for (size_t n = 0; n < w->n_old; n++) {
        const td_node *node = &w->old[n];
        for (size_t i = 0; i < TD_NODE_INPUTS; i++) {
            const td_tensor_info *t = &draft->tensors[node->in[i]];
            if (node->backward && t->role == TD_TENSOR_ACTIVATION && t->dtype == TD_F32 && !t->is_output &&
                t->root_offset == 0 && td_shape_size(t->shape) >= TD_LEAST_HALF)
                left[node->in[i]] = true;
        }
    }
    for (size_t n = 0; n < w->n_old; n++) { /* made by the backward pass itself: not left to it */
        for (size_t o = 0; o < TD_NODE_OUTPUTS; o++)
            if (w->old[n].backward || td_node_is_loss(&w->old[n])) left[w->old[n].out[o]] = false;
        if (w->old[n].kind == TD_OP_norm) left[w->old[n].out[NORM_STATS]] = false;
        if (w->old[n].kind == TD_OP_channel_norm || w->old[n].kind == TD_OP_attention)
            left[w->old[n].out[1]] = false;
    }
    left[0] = false;
    return left;
}

static td_status cast(rewriting *w, td_op_kind kind, uint32_t from, td_dtype dtype, uint32_t *to)
{
    td_node node = {.kind = kind, .in = {from}, .backward = kind == TD_OP_to_float};
    TD_CHECK(td_draft_tensor(w->draft, from, dtype, to));
    node.out[0] = *to;
    return push(w->draft, &node);
}

/* Casts each such activation where it is made, and back where the backward pass comes to it. */
td_status td_draft_keep_half(td_draft *draft, td_dtype dtype)
{
    rewriting w = {0};
    bool *left = NULL;
    uint32_t *half = NULL; /* by tensor: its copy in 16 bits */
    size_t *used_at = NULL;
    td_status status = TD_OK;
    TD_TRY(begin_rewriting(draft, &w));
    TD_TRY(TD_NEW_ARRAY(&half, w.n_now));
    TD_TRY(TD_NEW_ARRAY(&used_at, w.n_now));
    left = find_left(&w);
    TD_FAIL_IF(!left, TD_ERR_HOST_MEMORY, "no memory for a plan in 16 bits");
    for (size_t n = 0; n < w.n_old; n++) {
        td_node node = w.old[n];
        for (size_t i = 0; node.backward && i < TD_NODE_INPUTS; i++) {
            const uint32_t id = node.in[i];
            if (!half[id]) continue;
            if (!w.now[id] || n - used_at[id] > CAST_REACH)
                TD_TRY(cast(&w, TD_OP_to_float, half[id], TD_F32, &w.now[id]));
            used_at[id] = n;
        }
        if (node.backward) use_present(&w, &node);
        TD_TRY(push(draft, &node));
        for (size_t o = 0; !node.backward && o < TD_NODE_OUTPUTS; o++)
            if (left[node.out[o]]) TD_TRY(cast(&w, TD_OP_to_half, node.out[o], dtype, &half[node.out[o]]));
    }
fail:
    end_rewriting(&w);
    free(left);
    free(half);
    free(used_at);
    return status;
}

/* The input that is the weights of a product, if it may have 16 bits alone: a whole parameter of a group that has a
 * copy in 16 bits, or 0. A convolution may have to move its weights word by word. */
static uint32_t find_weights(const td_draft *draft, const td_node *node)
{
    const uint32_t id = node->in[MATMUL_B];
    const td_tensor_info *t = &draft->tensors[id];
    const td_tensor_info *root = &draft->tensors[t->root];
    const bool is_conv = node->kind == TD_OP_conv || node->kind == TD_OP_conv_back_data;
    if (!is_conv && (node->kind != TD_OP_matmul || node->info.matmul.layout == TD_GEMM_TN)) return 0;
    if (root->role != TD_TENSOR_PARAMETER || root->group == TD_PARAM_NO_DECAY || t->dtype != TD_F32 ||
        t->root_offset || td_shape_size(t->shape) < TD_LEAST_HALF)
        return 0;
    return is_conv && t->shape.dims[t->shape.n_dims - 1] % 2 ? 0 : id;
}

/* Products read the copies of their weights that the store keeps. */
td_status td_draft_half_weights(td_draft *draft, td_dtype dtype)
{
    const size_t n_old = draft->n_tensors;
    uint32_t *half = NULL; /* by tensor: its copy */
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&half, n_old));
    for (size_t n = 0; n < draft->n_nodes; n++) {
        const uint32_t id = find_weights(draft, &draft->nodes[n]);
        if (!id) continue;
        if (!half[id]) {
            TD_TRY(td_draft_tensor(draft, id, dtype, &half[id]));
            draft->tensors[half[id]].role = TD_TENSOR_PARAMETER;
            draft->tensors[half[id]].root = draft->tensors[id].root;
        }
        draft->nodes[n].in[MATMUL_B] = half[id];
    }
fail:
    free(half);
    return status;
}
