/* The graph as a container: tensors, nodes, mistakes, shapes. What each kind of node means is in op_*.c, what
 * users call in build.c. Covered by tests/graph/test_graph.c. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/internal.h"

#define MOST_TENSORS (UINT32_C(1) << 24)

/* ---------------------------------------------------------------- life */

td_status td_graph_create(uint64_t seed, td_graph **out)
{
    td_graph *graph = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(TD_NEW(&graph));
    TD_TRY(td_arena_create(0, &graph->arena));
    TD_TRY(td_alloc_grow(&graph->tensors, &graph->tensor_capacity, 64, sizeof *graph->tensors));
    graph->tensors[0].name = "nothing";
    graph->n_tensors = 1;
    graph->seed = seed;
    *out = graph;
    return TD_OK;
fail:
    td_graph_destroy(graph);
    return status;
}

void td_graph_destroy(td_graph *graph)
{
    if (!graph) return;
    td_arena_destroy(graph->arena);
    free(graph->tensors);
    free(graph->nodes);
    free(graph);
}

td_status td_graph_status(const td_graph *graph)
{
    return graph->mistake.status == TD_OK ? TD_OK : td_error_adopt(&graph->mistake);
}

bool td_graph_is_sound(const td_graph *graph)
{
    return graph->mistake.status == TD_OK;
}

/* This thread's record becomes the graph's mistake. */
static void keep_mistake(td_graph *graph)
{
    if (td_graph_is_sound(graph)) graph->mistake = *td_error_last();
}

void td_graph_mistake(td_graph *graph, const char *format, ...)
{
    char what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    (void)TD_FAIL(TD_ERR_ARGUMENT, "%s", what);
    keep_mistake(graph);
}

/* ---------------------------------------------------------------- shapes */

td_shape td_dims_of(const uint32_t dims[4])
{
    td_shape shape = {0};
    while (shape.n_dims < 4 && dims[shape.n_dims]) {
        shape.dims[shape.n_dims] = dims[shape.n_dims];
        shape.n_dims++;
    }
    return shape;
}

uint64_t td_shape_size(td_shape shape)
{
    uint64_t size = 1;
    for (size_t d = 0; d < shape.n_dims; d++)
        size *= shape.dims[d];
    return size;
}

uint32_t td_dtype_format(td_dtype dtype)
{
    return dtype == TD_BF16 ? TD_FORMAT_BF16 : dtype == TD_F16 ? TD_FORMAT_FP16 : TD_FORMAT_FP32;
}

bool td_shape_equal(td_shape a, td_shape b)
{
    return a.n_dims == b.n_dims && memcmp(a.dims, b.dims, a.n_dims * sizeof *a.dims) == 0;
}

td_shape td_shape_broadcast(td_shape a, td_shape b, bool *fits)
{
    td_shape shape = {.n_dims = a.n_dims > b.n_dims ? a.n_dims : b.n_dims};
    *fits = true;
    for (size_t d = 1; d <= shape.n_dims; d++) { /* from the last axis on */
        const uint32_t p = d <= a.n_dims ? a.dims[a.n_dims - d] : 1;
        const uint32_t q = d <= b.n_dims ? b.dims[b.n_dims - d] : 1;
        *fits = *fits && (p == q || p == 1 || q == 1);
        shape.dims[shape.n_dims - d] = p > q ? p : q;
    }
    return shape;
}

void td_shape_split(td_shape shape, uint32_t axis, uint32_t *outer, uint32_t *length, uint32_t *inner)
{
    *outer = *inner = 1;
    for (size_t d = 0; d < shape.n_dims; d++) {
        if (d < axis) *outer *= shape.dims[d];
        if (d > axis) *inner *= shape.dims[d];
    }
    *length = shape.dims[axis];
}

td_shape td_shape_without(td_shape shape, uint32_t axis)
{
    td_shape rest = {0};
    for (size_t d = 0; d < shape.n_dims; d++)
        if (d != axis) rest.dims[rest.n_dims++] = shape.dims[d];
    if (rest.n_dims == 0) rest = td_dims(1);
    return rest;
}

void td_shape_rows(td_shape shape, uint32_t *rows, uint32_t *columns)
{
    *rows = 1;
    for (size_t d = 0; d + 1 < shape.n_dims; d++)
        *rows *= shape.dims[d];
    *columns = shape.dims[shape.n_dims - 1];
}

static size_t print_shape(char *text, size_t capacity, td_shape shape)
{
    size_t used = (size_t)snprintf(text, capacity, "[");
    for (size_t d = 0; d < shape.n_dims && used < capacity; d++)
        used += (size_t)snprintf(text + used, capacity - used, d ? ", %u" : "%u", shape.dims[d]);
    if (used < capacity) used += (size_t)snprintf(text + used, capacity - used, "]");
    return used < capacity ? used : capacity - 1;
}

/* ---------------------------------------------------------------- mistakes */

void td_graph_blame(td_graph *graph, const td_node *node, const char *format, ...)
{
    char what[256];
    char inputs[384] = "";
    size_t used = 0;
    va_list list;
    if (!td_graph_is_sound(graph)) return;
    va_start(list, format);
    vsnprintf(what, sizeof what, format, list);
    va_end(list);
    for (size_t i = 0; i < TD_NODE_INPUTS; i++) {
        const td_tensor_info *t = td_graph_at(graph, node->in[i]);
        if (!node->in[i] || used + 64 > sizeof inputs) continue;
        used += (size_t)snprintf(inputs + used, sizeof inputs - used, "%s%.40s ", used ? ", " : "", t->name);
        if (used < sizeof inputs) used += print_shape(inputs + used, sizeof inputs - used, t->shape);
    }
    (void)TD_FAIL(TD_ERR_ARGUMENT, "%s: %s; its inputs are %s", td_op_names[node->kind], what,
                  used ? inputs : "none");
    keep_mistake(graph);
}

/* ---------------------------------------------------------------- tensors */

td_tensor_info *td_graph_at(const td_graph *graph, uint32_t id)
{
    return &graph->tensors[id < graph->n_tensors ? id : 0];
}

td_shape td_graph_shape(const td_graph *graph, td_tensor t)
{
    return td_graph_at(graph, t.id)->shape;
}

const char *td_graph_name(const td_graph *graph, td_tensor t)
{
    return td_graph_at(graph, t.id)->name;
}

td_dtype td_graph_dtype(const td_graph *graph, td_tensor t)
{
    return td_graph_at(graph, t.id)->dtype;
}

td_param_group td_graph_group(const td_graph *graph, td_tensor parameter)
{
    return td_graph_at(graph, parameter.id)->group;
}

td_tensor td_graph_gradient(const td_graph *graph, td_tensor parameter)
{
    return (td_tensor){td_graph_at(graph, parameter.id)->gradient};
}

static td_status add_tensor(td_graph *graph, const td_tensor_info *info, const char *name, uint32_t *id)
{
    uint64_t size = 1;
    *id = 0;
    TD_REFUSE_IF(info->shape.n_dims == 0, TD_ERR_ARGUMENT, "tensor %s has no axes", name);
    for (size_t d = 0; d < info->shape.n_dims && size < UINT32_C(1) << 31; d++)
        size *= info->shape.dims[d];
    TD_REFUSE_IF(size == 0 || size >= UINT32_C(1) << 31, TD_ERR_LIMIT,
                 "tensor %s has %llu elements; 1 to 2^31 - 1 are possible", name, (unsigned long long)size);
    TD_REFUSE_IF(graph->n_tensors >= MOST_TENSORS, TD_ERR_LIMIT, "a graph has at most %u tensors",
                 MOST_TENSORS);
    TD_CHECK(td_alloc_grow(&graph->tensors, &graph->tensor_capacity, graph->n_tensors + 1,
                           sizeof *graph->tensors));
    td_tensor_info *t = &graph->tensors[graph->n_tensors];
    *t = *info;
    TD_CHECK(td_arena_strdup(graph->arena, name, &t->name));
    *id = (uint32_t)graph->n_tensors++;
    t->root = *id;
    return TD_OK;
}

uint32_t td_graph_new_tensor(td_graph *graph, td_tensor_role role, td_dtype dtype, td_shape shape,
                             const char *name)
{
    const td_tensor_info info = {.role = role, .dtype = dtype, .shape = shape};
    uint32_t id = 0;
    if (!td_graph_is_sound(graph)) return 0;
    if (add_tensor(graph, &info, name, &id) != TD_OK) keep_mistake(graph);
    return id;
}

/* A parameter or state, whose name is its key in checkpoints. */
static td_tensor add_leaf(td_graph *graph, td_tensor_role role, td_dtype dtype, td_shape shape,
                          const char *name)
{
    const bool keeps = role == TD_TENSOR_PARAMETER || role == TD_TENSOR_STATE;
    if (keeps && td_graph_is_sound(graph) && td_graph_find(graph, name).id) {
        (void)TD_FAIL(TD_ERR_ARGUMENT, "two parameters or states are called %s; give each its own name",
                      name);
        keep_mistake(graph);
    }
    return (td_tensor){td_graph_new_tensor(graph, role, dtype, shape, name)};
}

td_tensor td_graph_param(td_graph *graph, const char *name, td_shape shape, td_param_group group)
{
    const td_tensor t = add_leaf(graph, TD_TENSOR_PARAMETER, TD_F32, shape, name);
    td_graph_at(graph, t.id)->group = group;
    td_graph_at(graph, t.id)->needs_gradient = t.id != 0;
    return t;
}

void td_graph_set_init(td_graph *graph, td_tensor t, td_init init)
{
    char *like = NULL;
    if (!td_graph_is_sound(graph) || !t.id) return;
    if (init.like && td_arena_strdup(graph->arena, init.like, &like) != TD_OK) keep_mistake(graph);
    init.like = like;
    td_graph_at(graph, t.id)->init = init;
}

void td_graph_freeze(td_graph *graph, td_tensor parameter)
{
    if (!parameter.id) return;
    td_graph_at(graph, parameter.id)->is_frozen = true;
    td_graph_at(graph, parameter.id)->needs_gradient = false;
}

td_tensor td_graph_find(const td_graph *graph, const char *name)
{
    for (uint32_t i = 1; i < graph->n_tensors; i++) {
        const td_tensor_info *t = &graph->tensors[i];
        if ((t->role == TD_TENSOR_PARAMETER || t->role == TD_TENSOR_STATE) && strcmp(t->name, name) == 0)
            return (td_tensor){i};
    }
    return TD_NO_TENSOR;
}

td_tensor td_graph_next_param(const td_graph *graph, td_tensor after)
{
    for (uint32_t i = after.id + 1; i < graph->n_tensors; i++)
        if (graph->tensors[i].role == TD_TENSOR_PARAMETER) return (td_tensor){i};
    return TD_NO_TENSOR;
}

uint64_t td_graph_parameters(const td_graph *graph)
{
    uint64_t n = 0;
    for (size_t i = 1; i < graph->n_tensors; i++) {
        const td_tensor_info *t = &graph->tensors[i];
        if (t->role == TD_TENSOR_PARAMETER && !t->is_frozen) n += td_shape_size(t->shape);
    }
    return n;
}

td_tensor td_graph_input(td_graph *graph, const char *name, td_shape shape, td_dtype dtype)
{
    return add_leaf(graph, TD_TENSOR_INPUT, dtype, shape, name);
}

size_t td_graph_input_count(const td_graph *graph)
{
    size_t n = 0;
    for (size_t i = 1; i < graph->n_tensors; i++)
        n += graph->tensors[i].role == TD_TENSOR_INPUT;
    return n;
}

td_tensor td_graph_input_at(const td_graph *graph, size_t at)
{
    for (uint32_t i = 1; i < graph->n_tensors; i++)
        if (graph->tensors[i].role == TD_TENSOR_INPUT && at-- == 0) return (td_tensor){i};
    return TD_NO_TENSOR;
}

td_tensor td_graph_find_input(const td_graph *graph, const char *name)
{
    for (uint32_t i = 1; i < graph->n_tensors; i++) {
        const td_tensor_info *t = &graph->tensors[i];
        if (t->role == TD_TENSOR_INPUT && strcmp(t->name, name) == 0) return (td_tensor){i};
    }
    return TD_NO_TENSOR;
}

td_tensor td_graph_state(td_graph *graph, const char *name, td_shape shape, td_state_kind kind)
{
    const td_tensor t = add_leaf(graph, TD_TENSOR_STATE, TD_F32, shape, name);
    td_graph_at(graph, t.id)->state_kind = kind;
    return t;
}

void td_graph_output(td_graph *graph, td_tensor t, const char *name)
{
    td_tensor_info *info = td_graph_at(graph, t.id);
    if (!td_graph_is_sound(graph) || !t.id) return;
    info->is_output = true;
    if (td_arena_strdup(graph->arena, name, &info->name) != TD_OK) keep_mistake(graph);
}

td_tensor td_graph_find_output(const td_graph *graph, const char *name)
{
    for (uint32_t i = 1; i < graph->n_tensors; i++)
        if (graph->tensors[i].is_output && strcmp(graph->tensors[i].name, name) == 0) return (td_tensor){i};
    return TD_NO_TENSOR;
}

/* ---------------------------------------------------------------- nodes */

void td_graph_make_output(td_graph *graph, td_node *node, size_t o, td_shape shape, td_dtype dtype)
{
    char name[64];
    if (!td_graph_is_sound(graph)) return;
    if (node->out[o]) {
        if (td_shape_size(td_graph_at(graph, node->out[o])->shape) != td_shape_size(shape))
            td_graph_blame(graph, node, "output %zu does not fit the tensor it was given", o);
        return;
    }
    snprintf(name, sizeof name, o ? "%s.%zu.%zu" : "%s.%zu", td_op_names[node->kind], graph->n_nodes, o);
    node->out[o] = td_graph_new_tensor(graph, TD_TENSOR_ACTIVATION, dtype, shape, name);
}

static bool inputs_need_gradient(const td_graph *graph, const td_node *node)
{
    for (size_t i = 0; i < TD_NODE_INPUTS; i++)
        if (node->in[i] && td_graph_at(graph, node->in[i])->needs_gradient) return true;
    return false;
}

static void check_inputs(td_graph *graph, const td_node *node)
{
    for (size_t i = 0; i < td_op_table[node->kind]->required; i++)
        if (!node->in[i]) td_graph_blame(graph, node, "input %zu is missing", i);
}

static bool stops_gradient(const td_node *node)
{
    return !td_op_table[node->kind]->backward || (node->kind == TD_OP_view && node->info.view.stops);
}

td_tensor td_graph_append(td_graph *graph, td_node node)
{
    if (!td_graph_is_sound(graph)) return TD_NO_TENSOR;
    check_inputs(graph, &node);
    if (td_graph_is_sound(graph)) td_op_table[node.kind]->shape(graph, &node);
    if (!td_graph_is_sound(graph)) return TD_NO_TENSOR;
    node.block = graph->block;
    node.backward = graph->in_backward;
    const bool needs = !graph->in_backward && !stops_gradient(&node) && inputs_need_gradient(graph, &node);
    for (size_t o = 0; o < TD_NODE_OUTPUTS; o++)
        if (node.out[o] && td_graph_at(graph, node.out[o])->role == TD_TENSOR_ACTIVATION)
            td_graph_at(graph, node.out[o])->needs_gradient = needs;
    if (td_alloc_grow(&graph->nodes, &graph->node_capacity, graph->n_nodes + 1, sizeof *graph->nodes) !=
        TD_OK) {
        keep_mistake(graph);
        return TD_NO_TENSOR;
    }
    graph->nodes[graph->n_nodes++] = node;
    return (td_tensor){node.out[0]};
}

void td_graph_block_begin(td_graph *graph)
{
    graph->block = ++graph->n_blocks;
}

void td_graph_block_end(td_graph *graph)
{
    graph->block = 0;
}
