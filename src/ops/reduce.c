/* See reduce.h. Where a result has too few elements to give every work-item one, the axis is cut into chunks,
 * and a second launch adds the sums of the chunks in order. Covered by tests/ops/cases_reduce.c. */
#include "ops/reduce.h"

#include "kernels/reduce_geometry.h"
#include "ops/chain.h"
#include "ops/rows.h"

#define LEAST_CHUNK_ROWS 32u      /* along an axis that has others inside it */
#define LEAST_CHUNK_COLUMNS 4096u /* along the innermost axis */
#define MOST_CHUNK 65536u         /* a longer sum in one go would lose digits */
#define ENOUGH_GROUPS_CPU 64u
#define ENOUGH_GROUPS_GPU 512u
#define ENOUGH_GROUPS_MAX_CPU 8u
#define LEAST_TILE_CPU 512u

static uint32_t tile_of(td_kernel_class kernel_class)
{
    return kernel_class == TD_CLASS_GPU ? TD_COLUMN_TILE_GPU : TD_COLUMN_TILE_CPU;
}

static uint32_t count_tiles(td_kernel_class kernel_class, uint32_t inner)
{
    return td_divide_up(inner, tile_of(kernel_class));
}

/* How many chunks: enough work for all, no chunk too short, none too long. */
static uint32_t count_chunks(td_kernel_class kernel_class, uint32_t outer, uint32_t axis, uint32_t inner)
{
    const uint64_t enough = kernel_class == TD_CLASS_GPU ? ENOUGH_GROUPS_GPU : ENOUGH_GROUPS_CPU;
    const uint64_t groups = (uint64_t)outer * count_tiles(kernel_class, inner);
    const uint32_t most = td_divide_up(axis, inner == 1 ? LEAST_CHUNK_COLUMNS : LEAST_CHUNK_ROWS);
    const uint32_t least = td_divide_up(axis, MOST_CHUNK);
    uint64_t chunks = groups ? (enough + groups - 1) / groups : 1;
    if (chunks > most) chunks = most;
    if (chunks < least) chunks = least;
    return chunks > 0 ? (uint32_t)chunks : 1;
}

uint64_t td_op_reduce_workspace(td_kernel_class kernel_class, uint32_t outer, uint32_t axis, uint32_t inner)
{
    const uint32_t chunks = count_chunks(kernel_class, outer, axis, inner);
    return chunks > 1 ? (uint64_t)outer * chunks * inner : 0;
}

/* ---------------------------------------------------------------- sums */

/* One launch: x [outer, axis, inner] to y [outer, chunks, inner]. */
typedef struct pass {
    uint32_t outer, axis, inner, chunks;
    float scale;
    bool square, add;
} pass;

static td_status record_pass(td_list *list, const pass *s, td_span x, td_span y)
{
    const td_kernel_class kernel_class = td_list_class(list);
    const uint32_t chunk = td_divide_up(s->axis, s->chunks);
    const td_cost cost = {.bytes = 4.0 * s->outer * s->axis * s->inner};
    const td_span spans[] = {x, y};
    if (s->inner > 1) {
        const td_column_sum_params params = {.outer = s->outer,
                                             .axis = s->axis,
                                             .inner = s->inner,
                                             .chunk = chunk,
                                             .chunks = s->chunks,
                                             .scale = s->scale,
                                             .square = s->square,
                                             .add = s->add};
        const uint64_t groups = (uint64_t)s->outer * s->chunks * count_tiles(kernel_class, s->inner);
        return td_list_dispatch(list, TD_K_column_sum, spans, &params, td_grid_groups(groups), cost);
    }
    const td_rows rows = td_rows_make(kernel_class, s->outer * s->chunks, chunk);
    const td_row_sum_params params = {.rows = s->outer * s->chunks,
                                      .columns = s->axis,
                                      .chunk = chunk,
                                      .chunks = s->chunks,
                                      .block = rows.block,
                                      .lanes = rows.lanes,
                                      .scale = s->scale,
                                      .square = s->square,
                                      .add = s->add};
    return td_list_dispatch(list, TD_K_row_sum, spans, &params, rows.grid, cost);
}

td_status td_op_reduce(td_list *list, const td_reduce_args *a)
{
    const float scale = a->kind == TD_REDUCE_MEAN ? (float)(1.0 / a->axis) : 1;
    TD_CHECK(td_op_check_size(a->outer, a->axis, a->inner, "reduce"));
    TD_CHECK(td_op_check_span(a->x, (uint64_t)a->outer * a->axis * a->inner, "reduce", "x"));
    TD_CHECK(td_op_check_span(a->y, (uint64_t)a->outer * a->inner, "reduce", "y"));
    pass first = {.outer = a->outer,
                  .axis = a->axis,
                  .inner = a->inner,
                  .chunks = count_chunks(td_list_class(list), a->outer, a->axis, a->inner),
                  .scale = scale,
                  .square = a->kind == TD_REDUCE_SQUARES,
                  .add = a->add};
    /* No chunk may be empty: each is rounded up, so fewer may do. */
    first.chunks = td_divide_up(a->axis, td_divide_up(a->axis, first.chunks));
    if (first.chunks == 1) {
        TD_CHECK(record_pass(list, &first, a->x, a->y));
        return TD_OK;
    }
    TD_CHECK(
        td_op_check_span(a->workspace, (uint64_t)a->outer * first.chunks * a->inner, "reduce", "workspace"));
    const pass second = {.outer = a->outer,
                         .axis = first.chunks,
                         .inner = a->inner,
                         .chunks = 1,
                         .scale = scale,
                         .add = a->add};
    first.scale = 1;
    first.add = false;
    TD_CHECK(record_pass(list, &first, a->x, a->workspace));
    return record_pass(list, &second, a->workspace, a->y);
}

/* d(sum)/dx = 1, d(mean)/dx = 1 / axis, d(x^2)/dx = 2 x, each times dy. */
td_status td_op_reduce_back(td_list *list, const td_reduce_back_args *a)
{
    const bool has_axis[] = {true, false, true};
    td_chain chain;
    td_chain_begin(&chain, (uint32_t[]){a->outer, a->axis, a->inner}, 3);
    td_chain_add(&chain, TD_CHAIN_LOAD, td_chain_broadcast(&chain, a->dy, has_axis));
    if (a->kind == TD_REDUCE_MEAN)
        td_chain_add(&chain, TD_CHAIN_MUL, td_chain_constant(&chain, (float)(1.0 / a->axis)));
    if (a->kind == TD_REDUCE_SQUARES) {
        td_chain_add(&chain, TD_CHAIN_MUL, td_chain_input(&chain, a->x));
        td_chain_add(&chain, TD_CHAIN_MUL, td_chain_constant(&chain, 2));
    }
    td_chain_store(&chain, a->dx);
    return td_chain_launch(&chain, list);
}

/* ---------------------------------------------------------------- largest */

/* The axis stays whole here, so it is the columns that must be enough for all. */
static uint32_t choose_max_tile(td_kernel_class kernel_class, uint32_t outer, uint32_t inner)
{
    const uint32_t most = tile_of(kernel_class);
    const uint32_t fair = td_divide_up(inner, td_divide_up(ENOUGH_GROUPS_MAX_CPU, outer));
    if (kernel_class == TD_CLASS_GPU || fair > most) return most;
    return td_divide_up(fair, LEAST_TILE_CPU) * LEAST_TILE_CPU;
}

td_status td_op_max(td_list *list, const td_max_args *a)
{
    const td_kernel_class kernel_class = td_list_class(list);
    const td_cost cost = {.bytes = 4.0 * a->outer * a->axis * a->inner};
    const td_span spans[] = {a->x, a->y, a->arg};
    TD_CHECK(td_op_check_size(a->outer, a->axis, a->inner, "max"));
    TD_CHECK(td_op_check_span(a->x, (uint64_t)a->outer * a->axis * a->inner, "max", "x"));
    TD_CHECK(td_op_check_span(a->y, (uint64_t)a->outer * a->inner, "max", "y"));
    TD_CHECK(td_op_check_span(a->arg, (uint64_t)a->outer * a->inner, "max", "arg"));
    TD_REFUSE_IF(a->axis >= 1u << 24, TD_ERR_LIMIT, "max: an axis of %u elements, at most 2^24 - 1", a->axis);
    if (a->inner > 1) {
        const uint32_t tile = choose_max_tile(kernel_class, a->outer, a->inner);
        const td_column_max_params params = {
            .outer = a->outer, .axis = a->axis, .inner = a->inner, .tile = tile};
        const uint64_t groups = (uint64_t)a->outer * td_divide_up(a->inner, tile);
        TD_CHECK(td_list_dispatch(list, TD_K_column_max, spans, &params, td_grid_groups(groups), cost));
    } else {
        const td_rows rows = td_rows_make(kernel_class, a->outer, a->axis);
        const td_row_max_params params = {
            .rows = a->outer, .columns = a->axis, .block = rows.block, .lanes = rows.lanes};
        TD_CHECK(td_list_dispatch(list, TD_K_row_max, spans, &params, rows.grid, cost));
    }
    return TD_OK;
}

td_status td_op_max_back(td_list *list, const td_max_back_args *a)
{
    const uint64_t n = (uint64_t)a->outer * a->inner;
    const td_max_back_params params = {.outer = a->outer, .axis = a->axis, .inner = a->inner};
    TD_CHECK(td_op_check_size(a->outer, a->axis, a->inner, "max_back"));
    TD_CHECK(td_op_check_span(a->dy, n, "max_back", "dy"));
    TD_CHECK(td_op_check_span(a->arg, n, "max_back", "arg"));
    TD_CHECK(td_op_check_span(a->dx, n * a->axis, "max_back", "dx"));
    TD_CHECK(td_list_fill(list, td_span_part(a->dx, 0, 4 * n * a->axis), 0));
    return td_list_dispatch(list, TD_K_max_back, (td_span[]){a->dy, a->arg, a->dx}, &params,
                            td_grid_elements(td_list_class(list), (uint32_t)n),
                            (td_cost){.bytes = 12.0 * (double)n});
}
