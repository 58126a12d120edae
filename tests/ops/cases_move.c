/* Cases of src/ops/move.h. What moves whole words is compared bit by bit; references walk every element by
 * its coordinates. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "kernels/half_geometry.h"
#include "ops/move.h"
#include "suite.h"

/* ---------------------------------------------------------------- boxes */

typedef enum box_kind { BOX_PERMUTE, BOX_SLICE, BOX_SET_SLICE, BOX_PAD } box_kind;
static const char *const BOX_NAMES[] = {"permute", "slice", "set_slice", "pad"};

/* a: order, start, start or before; b: size or after. */
typedef struct box_args {
    box_kind kind;
    td_shape shape, y_shape;
    uint32_t a[TD_MOVE_AXES], b[TD_MOVE_AXES];
    float value;
} box_args;

static td_status launch_box(const op_case *c, td_list *list, const td_span *spans)
{
    const box_args *k = c->args;
    switch (k->kind) {
    case BOX_PERMUTE:
        return td_op_permute(list, spans[0], k->shape, k->a, spans[1]);
    case BOX_SLICE:
        return td_op_slice(list, spans[0], k->shape, k->a, k->b, spans[1]);
    case BOX_SET_SLICE:
        return td_op_set_slice(list, spans[0], k->shape, spans[1], k->y_shape, k->a);
    default:
        return td_op_pad(list, spans[0], k->shape, k->a, k->b, k->value, spans[1]);
    }
}

static size_t count_elements(td_shape shape)
{
    size_t n = 1;
    for (size_t d = 0; d < shape.n_dims; d++)
        n *= shape.dims[d];
    return n;
}

static void split_index(td_shape shape, size_t i, uint32_t *at)
{
    for (size_t d = shape.n_dims; d-- > 0; i /= shape.dims[d])
        at[d] = (uint32_t)(i % shape.dims[d]);
}

static size_t join_index(td_shape shape, const uint32_t *at)
{
    size_t i = 0;
    for (size_t d = 0; d < shape.n_dims; d++)
        i = i * shape.dims[d] + at[d];
    return i;
}

static td_shape shape_of_result(const box_args *k)
{
    td_shape y = k->shape;
    for (size_t d = 0; d < y.n_dims; d++) {
        if (k->kind == BOX_PERMUTE) y.dims[d] = k->shape.dims[k->a[d]];
        if (k->kind == BOX_SLICE) y.dims[d] = k->b[d];
        if (k->kind == BOX_SET_SLICE) y.dims[d] = k->y_shape.dims[d];
        if (k->kind == BOX_PAD) y.dims[d] = k->a[d] + k->shape.dims[d] + k->b[d];
    }
    return y;
}

/* Where element `at` of y comes from; false: from nowhere. */
static bool find_source(const box_args *k, const uint32_t *at, size_t *source)
{
    uint32_t from[TD_MOVE_AXES];
    for (size_t d = 0; d < k->shape.n_dims; d++) {
        if (k->kind == BOX_PERMUTE) {
            from[k->a[d]] = at[d];
            continue;
        }
        const int64_t from_at = k->kind == BOX_SLICE ? (int64_t)at[d] + k->a[d] : (int64_t)at[d] - k->a[d];
        if (from_at < 0 || from_at >= k->shape.dims[d]) return false;
        from[d] = (uint32_t)from_at;
    }
    *source = join_index(k->shape, from);
    return true;
}

static void add_box(op_suite *suite, const box_args *args, bool is_gradient)
{
    op_case c = {.op = BOX_NAMES[args->kind], .kernels = "move transpose", .launch = launch_box};
    box_args *k = op_args(&c, sizeof *k);
    *k = *args;
    const td_shape shape = shape_of_result(k);
    const size_t n_x = count_elements(k->shape), n = count_elements(shape);
    int at_label = snprintf(c.label, sizeof c.label, "shape");
    for (size_t d = 0; d < shape.n_dims; d++)
        at_label += snprintf(c.label + at_label, sizeof c.label - (size_t)at_label, " %u", k->shape.dims[d]);
    for (size_t d = 0; d < shape.n_dims; d++)
        at_label +=
            snprintf(c.label + at_label, sizeof c.label - (size_t)at_label, "%s%u", d ? "," : ": ", k->a[d]);
    c.is_gradient = is_gradient;
    const op_io *x = op_random(&c, "x", n_x, -4, 4, 1);
    op_io *y = op_output_words(&c, "y", n);
    if (k->kind == BOX_SET_SLICE) {
        y->kind = OP_IN_OUT;
        y->values = calloc(n, sizeof *y->values);
        for (size_t i = 0; i < n; i++)
            y->values[i] = (float)i;
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t at[TD_MOVE_AXES];
        size_t source = 0;
        split_index(shape, i, at);
        if (find_source(k, at, &source))
            memcpy(&y->words[i], &x->values[source], 4);
        else
            memcpy(&y->words[i], k->kind == BOX_SET_SLICE ? &y->values[i] : &k->value, 4);
    }
    op_suite_add(suite, &c);
}

static void add_permutes(op_suite *suite)
{
    static const uint32_t SHAPES[][4] = {{3, 5, 7, 11}, {2, 1, 33, 65}, {1, 16, 2, 17}};
    for (size_t s = 0; s < 3; s++) {
        for (uint32_t code = 0; code < 256; code++) {
            box_args k = {.kind = BOX_PERMUTE, .shape = {.n_dims = 4}};
            uint32_t seen = 0;
            for (uint32_t d = 0; d < 4; d++) {
                k.a[d] = code >> (2 * d) & 3;
                seen |= 1u << k.a[d];
            }
            memcpy(k.shape.dims, SHAPES[s], sizeof k.shape.dims);
            if (seen == 15) add_box(suite, &k, s == 1); /* backward is the inverse, another of these */
        }
    }
    static const uint32_t PLANES[][2] = {{1, 1}, {1, 300}, {300, 1}, {15, 16}, {16, 17}, {31, 33}, {127, 70}};
    for (size_t s = 0; s < sizeof PLANES / sizeof *PLANES; s++)
        add_box(suite,
                &(box_args){.kind = BOX_PERMUTE, .shape = {{PLANES[s][0], PLANES[s][1]}, 2}, .a = {1, 0}},
                false);
}

static void add_boxes(op_suite *suite)
{
    static const box_args BOXES[] = {
        {.kind = BOX_SLICE, .shape = {{3, 5, 7, 11}, 4}, .a = {1, 0, 2, 3}, .b = {2, 5, 4, 8}},
        {.kind = BOX_SLICE, .shape = {{3, 5, 7, 11}, 4}, .a = {0, 4, 0, 0}, .b = {3, 1, 7, 11}},
        {.kind = BOX_SLICE, .shape = {{10000}, 1}, .a = {1234}, .b = {5000}},
        {.kind = BOX_SLICE, .shape = {{40, 300}, 2}, .a = {0, 299}, .b = {40, 1}},
        {.kind = BOX_SET_SLICE, .shape = {{3, 5, 7}, 3}, .y_shape = {{3, 5, 19}, 3}, .a = {0, 0, 12}},
        {.kind = BOX_SET_SLICE, .shape = {{3, 5, 70}, 3}, .y_shape = {{3, 9, 70}, 3}, .a = {0, 4, 0}},
        {.kind = BOX_SET_SLICE, .shape = {{2, 3, 4, 5}, 4}, .y_shape = {{4, 5, 6, 7}, 4}, .a = {1, 1, 2, 2}},
        {.kind = BOX_PAD, .shape = {{3, 5, 7, 11}, 4}, .a = {1, 0, 2, 3}, .b = {0, 2, 1, 4}, .value = 2.5f},
        {.kind = BOX_PAD, .shape = {{7, 77}, 2}, .a = {0, 3}, .b = {0, 0}, .value = -1},
        {.kind = BOX_PAD, .shape = {{7, 5000}, 2}, .a = {2, 9}, .b = {3, 4100}, .value = 0},
        {.kind = BOX_PAD, .shape = {{2, 30, 80}, 3}, .a = {0, 0, 0}, .b = {0, 70, 0}, .value = 0},
        {.kind = BOX_PAD, .shape = {{1}, 1}, .a = {600}, .b = {0}, .value = 7},
    };
    for (size_t i = 0; i < sizeof BOXES / sizeof *BOXES; i++)
        add_box(suite, &BOXES[i], false);
    /* The backward pass of a slice is a pad with zeros, of a pad or a join a slice. */
    add_box(suite, &(box_args){.kind = BOX_PAD, .shape = {{2, 4, 8}, 3}, .a = {1, 2, 3}, .b = {0, 1, 5}},
            true);
    add_box(suite, &(box_args){.kind = BOX_SLICE, .shape = {{4, 9, 20}, 3}, .a = {1, 2, 3}, .b = {2, 4, 8}},
            true);
}

/* ---------------------------------------------------------------- casts */

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

typedef struct cast_args {
    uint32_t n, format;
} cast_args;

static td_status launch_cast(const op_case *c, td_list *list, const td_span *spans)
{
    const cast_args *a = c->args;
    return strcmp(c->kernels, "cast_half") == 0 ? td_op_cast_half(list, a->format, a->n, spans[0], spans[1])
                                                : td_op_cast_float(list, a->format, a->n, spans[0], spans[1]);
}

/* Random bits: every size of number, NaNs and infinities too, and ties and limits of both formats. */
static void fill_bits(float *values, uint32_t n, bool is_half)
{
    static const uint32_t SPECIALS[] = {0x3f808000u, 0x3f818000u, 0xbf808000u, 0x7f7fffffu, 0x7f800000u,
                                        0xff800000u, 0x7f800001u, 0xffc12345u, 0x00000000u, 0x80000000u,
                                        0x00000001u, 0x477fefffu, 0x477ff000u, 0xc77fffffu, 0x38800000u,
                                        0x387fffffu, 0x33000000u, 0x33000001u, 0x33c00000u, 0x3f801000u};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits = td_rng_u32(3, 4, i);
        if (i < sizeof SPECIALS / sizeof *SPECIALS)
            bits = SPECIALS[i];
        else if (is_half)
            bits = (bits & 0x807fffffu) | (100u + (bits >> 23) % 45u) << 23; /* 2^-27 .. 2^17 */
        memcpy(&values[i], &bits, 4);
    }
}

static void add_cast(op_suite *suite, uint32_t n, uint32_t format, bool to_half)
{
    const char *kernel = to_half ? "cast_half" : "cast_float";
    const size_t words = (n + 1) / 2;
    op_case c = {.op = kernel, .kernels = kernel, .launch = launch_cast};
    *(cast_args *)op_args(&c, sizeof(cast_args)) = (cast_args){n, format};
    snprintf(c.label, sizeof c.label, "%u elements, %s", n, format == TD_FORMAT_BF16 ? "bf16" : "fp16");
    op_io *x = op_input(&c, "x", to_half ? n : words);
    op_io *y = op_output_words(&c, "y", to_half ? words : n);
    fill_bits(x->values, (uint32_t)x->count, to_half && format == TD_FORMAT_FP16);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t shift = i % 2 * 16;
        if (to_half)
            y->words[i / 2] |= op_to_half(x->values[i], format) << shift;
        else
            y->words[i] = bits_of(op_from_half(bits_of(x->values[i / 2]) >> shift & 0xffffu, format));
    }
    op_suite_add(suite, &c);
}

/* ---------------------------------------------------------------- rows by index */

typedef struct row_args {
    uint32_t items, in_rows, out_rows, columns;
    bool add;
} row_args;

static td_status launch_gather(const op_case *c, td_list *list, const td_span *spans)
{
    const row_args *r = c->args;
    const td_gather_args a = {r->items, r->in_rows, r->out_rows, r->columns, spans[0], spans[1], spans[2]};
    return td_op_gather_rows(list, &a);
}

static td_status launch_scatter(const op_case *c, td_list *list, const td_span *spans)
{
    const row_args *r = c->args;
    const td_scatter_args a = {r->items, r->in_rows, r->out_rows, r->columns, spans[0],
                               spans[1], spans[2],   spans[3],    r->add};
    return td_op_scatter_rows(list, &a);
}

/* Some rows often, some never, and now and then one that does not exist. */
static op_io *make_index(op_case *c, const row_args *r)
{
    op_io *io = op_input(c, "index", (size_t)r->items * r->out_rows);
    for (size_t i = 0; i < io->count; i++) {
        const uint32_t word = td_rng_u32(9, 1, i);
        uint32_t row = word % 3 == 0 ? word / 3 % r->in_rows : word / 3 % (r->in_rows / 3 + 1);
        if (word % 29 == 0) row = word % 2 ? r->in_rows : 0xffffffffu;
        memcpy(&io->values[i], &row, 4);
    }
    return io;
}

static op_case start_rows(const char *op, const char *kernels, const row_args *args)
{
    op_case c = {.op = op, .kernels = kernels};
    *(row_args *)op_args(&c, sizeof *args) = *args;
    snprintf(c.label, sizeof c.label, "%u items, %u of %u rows of %u%s", args->items, args->out_rows,
             args->in_rows, args->columns, args->add ? ", added" : "");
    return c;
}

static void add_gather(op_suite *suite, const row_args *r)
{
    op_case c = start_rows("gather_rows", "gather_rows", r);
    c.launch = launch_gather;
    const op_io *x = op_random(&c, "x", (size_t)r->items * r->in_rows * r->columns, -3, 3, 5);
    const op_io *index = make_index(&c, r);
    op_io *y = op_output_words(&c, "y", index->count * r->columns);
    for (size_t i = 0; i < index->count; i++) {
        const uint32_t row = bits_of(index->values[i]);
        if (row >= r->in_rows) continue;
        memcpy(&y->words[i * r->columns], &x->values[(i / r->out_rows * r->in_rows + row) * r->columns],
               4 * (size_t)r->columns);
    }
    op_suite_add(suite, &c);
}

/* d/dx of sum(dy * y) is the sum of the rows of dy: the gather is linear, so this is exact. */
static void add_scatter(op_suite *suite, const row_args *r)
{
    const size_t n_dx = (size_t)r->items * r->in_rows * r->columns;
    op_case c = start_rows("scatter_rows", "rank_rows scatter_rows", r);
    c.launch = launch_scatter;
    c.is_gradient = true;
    const op_io *dy = op_random(&c, "dy", (size_t)r->items * r->out_rows * r->columns, -1, 1, 6);
    const op_io *index = make_index(&c, r);
    (void)op_scratch(&c, "order", index->count);
    op_io *dx = op_output(&c, "dx", n_dx, 1e-5, 1e-6);
    if (r->add) {
        dx->kind = OP_IN_OUT;
        dx->values = calloc(n_dx, sizeof *dx->values);
        for (size_t i = 0; i < n_dx; i++)
            dx->expected[i] = (double)(dx->values[i] = (float)(i % 17) - 8);
    }
    for (size_t i = 0; i < index->count; i++) {
        const uint32_t row = bits_of(index->values[i]);
        for (size_t j = 0; row < r->in_rows && j < r->columns; j++)
            dx->expected[(i / r->out_rows * r->in_rows + row) * r->columns + j] +=
                (double)dy->values[i * r->columns + j];
    }
    op_suite_add(suite, &c);
}

/* ---------------------------------------------------------------- all */

void cases_move(op_suite *suite, td_device *device);
void cases_move(op_suite *suite, td_device *device)
{
    static const uint32_t SIZES[] = {1, 2, 3, 127, 128, 1021, 8191, 8192, 8193};
    static const row_args ROWS[] = {{1, 1, 1, 1, false},     {1, 7, 30, 5, false},    {3, 11, 50, 64, false},
                                    {2, 40, 129, 77, true},  {1, 500, 300, 16, true}, {5, 3, 4, 300, false},
                                    {1, 20, 1500, 8, false}, {1, 2, 3, 4097, false}};
    (void)device;
    add_permutes(suite);
    add_boxes(suite);
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        for (uint32_t format = TD_FORMAT_BF16; format <= TD_FORMAT_FP16; format++) {
            add_cast(suite, SIZES[i], format, true);
            add_cast(suite, SIZES[i], format, false);
        }
    }
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        add_gather(suite, &ROWS[i]);
        add_scatter(suite, &ROWS[i]);
    }
}
