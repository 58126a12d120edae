/* Every kernel of the basic family on every real device, against references that are exact or in double.
 *
 * Each device runs both classes of kernels: its own, and that of a GPU, as which it is opened a second time.
 * For each case: outputs are filled with NaN before, guard words stand behind every buffer, inputs must stay
 * as they were, and a second run must give the same bits. Sizes are 1, around the vector, the work-group and
 * the block that a group walks, primes, and several groups. A kernel without a case fails the suite.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "kernels/geometry.h"
#include "support.h"

#define GUARD_WORDS 64u
#define GUARD 0x7fc0BEEFu /* a NaN too, so that reading it shows */
#define NAN_WORD 0x7fc00000u

typedef struct launch {
    td_kernel_id id;
    td_grid grid;
    uint8_t params[TD_KERNEL_MAX_PARAMS];
    uint32_t n_words[TD_KERNEL_MAX_BUFFERS]; /* of each buffer */
    uint32_t *in[TD_KERNEL_MAX_BUFFERS];     /* owned; of each buffer that is read; the reference uses it */
} launch;

/* ---------------------------------------------------------------- running one launch */

static td_span load_buffer(const bed *b, size_t i, const launch *l, uint32_t buffer, uint32_t *words)
{
    const uint32_t n = l->n_words[buffer];
    const td_span span = take(b->memory[i], TD_MEMORY_DEVICE, 4 * (uint64_t)(n + GUARD_WORDS));
    for (uint32_t w = 0; w < n; w++)
        words[w] = l->in[buffer] ? l->in[buffer][w] : NAN_WORD;
    for (uint32_t w = n; w < n + GUARD_WORDS; w++)
        words[w] = GUARD;
    write_span(b, i, span, words);
    return span;
}

/* Guards whole, inputs unchanged; leaves the buffer's words in `words`. */
static void unload_buffer(const bed *b, size_t i, const launch *l, uint32_t buffer, td_span span,
                          uint32_t *words)
{
    const uint32_t n = l->n_words[buffer];
    read_span(b, i, span, words);
    for (uint32_t w = n; w < n + GUARD_WORDS; w++) {
        if (words[w] != GUARD) fail_msg("guard word %u behind buffer %u was written", w - n, buffer);
    }
    if (l->in[buffer] && memcmp(words, l->in[buffer], 4 * (size_t)n) != 0)
        fail_msg("input %u was changed", buffer);
}

/* The words of the output, the last buffer of every kernel so far; owned by the caller. */
static uint32_t *run_launch(const bed *b, size_t i, const launch *l)
{
    const td_kernel *kernel = td_kernel_get(l->id);
    td_span whole[TD_KERNEL_MAX_BUFFERS];
    td_span spans[TD_KERNEL_MAX_BUFFERS];
    uint32_t most = 0;
    for (uint32_t k = 0; k < kernel->n_buffers; k++)
        if (l->n_words[k] > most) most = l->n_words[k];
    uint32_t *words = malloc(4 * (size_t)(most + GUARD_WORDS));
    assert_non_null(words);
    for (uint32_t k = 0; k < kernel->n_buffers; k++) {
        whole[k] = load_buffer(b, i, l, k, words);
        spans[k] = td_span_part(whole[k], 0, 4 * (uint64_t)(l->n_words[k] ? l->n_words[k] : 1));
    }
    td_list *list = new_list(b->device[i], TD_QUEUE_COMPUTE);
    check(td_list_dispatch(list, l->id, spans, l->params, l->grid, (td_cost){0}));
    run_once(b->device[i], TD_QUEUE_COMPUTE, list);
    td_list_destroy(list);
    for (uint32_t k = 0; k < kernel->n_buffers; k++) {
        unload_buffer(b, i, l, k, whole[k], words);
        td_memory_free(b->memory[i], whole[k]);
    }
    return words;
}

/* Runs twice and compares bit for bit; hands the result out. */
static uint32_t *run_twice(const bed *b, size_t i, const launch *l)
{
    const uint32_t n = l->n_words[td_kernel_get(l->id)->n_buffers - 1];
    uint32_t *first = run_launch(b, i, l);
    uint32_t *second = run_launch(b, i, l);
    if (memcmp(first, second, 4 * (size_t)n) != 0)
        fail_msg("%s gives other bits the second time", td_kernel_get(l->id)->name);
    free(second);
    return first;
}

static void set_params(launch *l, const void *params, size_t bytes)
{
    assert_int_equal(bytes, td_kernel_get(l->id)->params_bytes);
    memcpy(l->params, params, bytes);
}

static void free_inputs(launch *l)
{
    for (int k = 0; k < TD_KERNEL_MAX_BUFFERS; k++)
        free(l->in[k]);
}

/* n floats in [-1, 1). */
static float *make_floats(uint32_t n, uint64_t stream)
{
    float *values = malloc(4 * (size_t)(n ? n : 1));
    assert_non_null(values);
    for (uint32_t i = 0; i < n; i++)
        values[i] = 2.0f * td_rng_float(5, stream, i) - 1.0f;
    return values;
}

static float as_float(uint32_t word)
{
    float value;
    memcpy(&value, &word, 4);
    return value;
}

/* ---------------------------------------------------------------- element-wise */

static void try_fill(const bed *b, size_t i, uint32_t n)
{
    const td_fill_params params = {.n = n, .word = 0x89ABCDEFu};
    launch l = {.id = TD_K_fill, .grid = td_grid_elements(td_device_class(b->device[i]), n), .n_words = {n}};
    set_params(&l, &params, sizeof params);
    uint32_t *got = run_twice(b, i, &l);
    for (uint32_t e = 0; e < n; e++)
        if (got[e] != params.word) fail_msg("fill of %u: element %u is %08x", n, e, got[e]);
    free(got);
}

static void try_copy(const bed *b, size_t i, uint32_t n)
{
    const td_copy_params params = {.n = n};
    launch l = {
        .id = TD_K_copy, .grid = td_grid_elements(td_device_class(b->device[i]), n), .n_words = {n, n}};
    set_params(&l, &params, sizeof params);
    l.in[0] = malloc(4 * (size_t)(n ? n : 1));
    assert_non_null(l.in[0]);
    fill_words(l.in[0], n, n); /* among them NaNs of all kinds, which must come through */
    uint32_t *got = run_twice(b, i, &l);
    if (memcmp(got, l.in[0], 4 * (size_t)n) != 0) fail_msg("copy of %u words differs", n);
    free(got);
    free_inputs(&l);
}

static void try_add(const bed *b, size_t i, uint32_t n)
{
    const td_add_params params = {.n = n};
    launch l = {
        .id = TD_K_add, .grid = td_grid_elements(td_device_class(b->device[i]), n), .n_words = {n, n, n}};
    float *x = make_floats(n, 1);
    float *y = make_floats(n, 2);
    set_params(&l, &params, sizeof params);
    l.in[0] = (uint32_t *)(void *)x;
    l.in[1] = (uint32_t *)(void *)y;
    uint32_t *got = run_twice(b, i, &l);
    for (uint32_t e = 0; e < n; e++)
        if (!(as_float(got[e]) == x[e] + y[e]))
            fail_msg("add of %u: element %u is %g", n, e, as_float(got[e]));
    free(got);
    free_inputs(&l);
}

static void try_random(const bed *b, size_t i, uint32_t n)
{
    /* The low word of the first block overflows after three, so that the carry is tried. */
    const td_random_params params = {.n = n,
                                     .seed_lo = 0x12345678u,
                                     .seed_hi = 0x9ABCDEF0u,
                                     .stream_lo = 0xFEDCBA98u,
                                     .stream_hi = 7,
                                     .first_lo = 0xFFFFFFFDu,
                                     .first_hi = 2};
    const uint64_t seed = UINT64_C(0x9ABCDEF012345678);
    const uint64_t stream = UINT64_C(0x7FEDCBA98);
    const uint64_t first = UINT64_C(0x2FFFFFFFD);
    launch l = {.id = TD_K_random,
                .grid = td_grid_elements(td_device_class(b->device[i]), (n + 3) / 4),
                .n_words = {n}};
    set_params(&l, &params, sizeof params);
    uint32_t *got = run_twice(b, i, &l);
    for (uint32_t e = 0; e < n; e++) {
        uint32_t block[4];
        td_rng_block(seed, stream, first + e / 4, block);
        if (got[e] != block[e % 4]) fail_msg("random: word %u of %u is %08x", e, n, got[e]);
    }
    free(got);
}

static const uint32_t ELEMENTS[] = {
    1,   2,   3,   4,   5,   7,    8,    9,    15,   16,   17,   31,   127,   128,
    129, 251, 511, 512, 513, 1021, 4095, 4096, 4097, 8191, 8192, 8193, 10007, 65537,
};

/* Does `test` for every device in both classes. */
static void on_every_device(void (*test)(const bed *b, size_t i))
{
    for (int kind = 0; kind < BED_KINDS; kind++) {
        bed b;
        bed_open_real(&b, (bed_kind)kind);
        for (size_t i = 0; i < b.count && announce(&b, i); i++) {
            take(b.memory[i], TD_MEMORY_DEVICE, 4); /* keeps the chunk from coming and going */
            test(&b, i);
        }
        bed_close(&b);
    }
}

static void try_sizes(const bed *b, size_t i, void (*try)(const bed *, size_t, uint32_t))
{
    for (size_t s = 0; s < sizeof ELEMENTS / sizeof *ELEMENTS; s++)
        try(b, i, ELEMENTS[s]);
}

static void fill_all_sizes(const bed *b, size_t i)
{
    try_sizes(b, i, try_fill);
}

static void test_fill(void **state)
{
    (void)state;
    on_every_device(fill_all_sizes);
}

static void copy_all_sizes(const bed *b, size_t i)
{
    try_sizes(b, i, try_copy);
}

static void test_copy(void **state)
{
    (void)state;
    on_every_device(copy_all_sizes);
}

static void add_all_sizes(const bed *b, size_t i)
{
    try_sizes(b, i, try_add);
}

static void test_add(void **state)
{
    (void)state;
    on_every_device(add_all_sizes);
}

static void random_all_sizes(const bed *b, size_t i)
{
    try_sizes(b, i, try_random);
}

static void test_random(void **state)
{
    (void)state;
    on_every_device(random_all_sizes);
}

/* z may be x or y, or both inputs the same. */
static void add_in_place(const bed *b, size_t i)
{
    enum { N = 5003 };
    static float got[N];
    float *x = make_floats(N, 1);
    float *y = make_floats(N, 2);
    const td_span left = take(b->memory[i], TD_MEMORY_DEVICE, sizeof got);
    const td_span right = take(b->memory[i], TD_MEMORY_DEVICE, sizeof got);
    const td_span all[][3] = {{left, right, left}, {left, right, right}, {left, left, left}};
    for (int c = 0; c < 3; c++) {
        const td_add_params params = {.n = N};
        write_span(b, i, left, x);
        write_span(b, i, right, y);
        td_list *list = new_list(b->device[i], TD_QUEUE_COMPUTE);
        check(td_list_dispatch(list, TD_K_add, all[c], &params,
                               td_grid_elements(td_device_class(b->device[i]), N), (td_cost){0}));
        run_once(b->device[i], TD_QUEUE_COMPUTE, list);
        td_list_destroy(list);
        read_span(b, i, all[c][2], got);
        for (int e = 0; e < N; e++)
            assert_true(got[e] == (c == 2 ? x[e] + x[e] : x[e] + y[e]));
    }
    free(x);
    free(y);
}

static void test_add_in_place(void **state)
{
    (void)state;
    on_every_device(add_in_place);
}

/* ---------------------------------------------------------------- reduce_sum */

/* One launch: `blocks` partial sums, each of at most `block` elements. Sums have an error of a rounding per
 * addition at worst; the tolerance is that for the tree or vector form, with room. */
static void try_partial_sums(const bed *b, size_t i, td_reduce_sum_params params)
{
    launch l = {
        .id = TD_K_reduce_sum, .grid = td_grid_reduce_sum(&params), .n_words = {params.n, params.blocks}};
    float *x = make_floats(params.n, params.n);
    set_params(&l, &params, sizeof params);
    l.in[0] = (uint32_t *)(void *)x;
    uint32_t *got = run_twice(b, i, &l);
    for (uint32_t k = 0; k < params.blocks; k++) {
        double sum = 0;
        double size = 0;
        for (uint32_t e = k * params.block; e < (k + 1) * params.block && e < params.n; e++) {
            sum += (double)x[e];
            size += fabs((double)x[e]);
        }
        if (!(fabs((double)as_float(got[k]) - sum) <= 1e-7 + 3e-7 * sqrt((double)params.block) * size))
            fail_msg("sum %u of %u elements is %g, not %g", k, params.n, as_float(got[k]), sum);
    }
    free(got);
    free_inputs(&l);
}

static void try_whole_sum(const bed *b, size_t i, uint32_t n)
{
    const td_reduce_sum_params first = td_reduce_sum_first(td_device_class(b->device[i]), n);
    try_partial_sums(b, i, first);
    try_partial_sums(b, i, td_reduce_sum_last(&first));
}

static void sum_all_sizes(const bed *b, size_t i)
{
    try_sizes(b, i, try_whole_sum);
    try_partial_sums(b, i, (td_reduce_sum_params){.n = 1000, .block = 1, .blocks = 1000});
    try_partial_sums(b, i, (td_reduce_sum_params){.n = 999, .block = 7, .blocks = 143});
    try_partial_sums(b, i, (td_reduce_sum_params){.n = 5, .block = 5, .blocks = 3}); /* two of nothing */
    try_whole_sum(b, i, TD_REDUCE_MAX_BLOCKS * TD_BLOCK_GPU + 1);                    /* blocks grow */
}

static void test_reduce_sum(void **state)
{
    (void)state;
    on_every_device(sum_all_sizes);
}

/* The sum of nothing is 0. */
static void sum_of_nothing(const bed *b, size_t i)
{
    const td_reduce_sum_params params = td_reduce_sum_first(td_device_class(b->device[i]), 0);
    launch l = {.id = TD_K_reduce_sum, .grid = td_grid_reduce_sum(&params), .n_words = {0, 1}};
    set_params(&l, &params, sizeof params);
    uint32_t *got = run_twice(b, i, &l);
    assert_int_equal(got[0], 0);
    free(got);
}

static void test_the_empty_sum(void **state)
{
    (void)state;
    on_every_device(sum_of_nothing);
}

/* ---------------------------------------------------------------- matmul */

static const td_matmul_params PRODUCTS[] = {
    {.m = 1, .n = 1, .k = 1, .lda = 1, .ldb = 1, .ldc = 1},
    {.m = 1, .n = 1, .k = 300, .lda = 300, .ldb = 1, .ldc = 1},
    {.m = 3, .n = 5, .k = 0, .lda = 1, .ldb = 5, .ldc = 5}, /* zeros */
    {.m = 7, .n = 63, .k = 17, .lda = 17, .ldb = 63, .ldc = 63},
    {.m = 8, .n = 64, .k = 16, .lda = 16, .ldb = 64, .ldc = 64},
    {.m = 9, .n = 65, .k = 15, .lda = 15, .ldb = 65, .ldc = 65},
    {.m = 15, .n = 17, .k = 31, .lda = 31, .ldb = 17, .ldc = 17},
    {.m = 16, .n = 16, .k = 16, .lda = 16, .ldb = 16, .ldc = 16},
    {.m = 37, .n = 29, .k = 41, .lda = 43, .ldb = 31, .ldc = 33}, /* rows with gaps */
    {.m = 1, .n = 257, .k = 64, .lda = 64, .ldb = 257, .ldc = 300},
    {.m = 257, .n = 1, .k = 64, .lda = 65, .ldb = 1, .ldc = 1},
    {.m = 67, .n = 131, .k = 97, .lda = 97, .ldb = 131, .ldc = 131},
};

/* Elements of C in the gaps between rows keep their NaN. */
static void check_product(const td_matmul_params *p, const float *a, const float *b, const uint32_t *c)
{
    for (uint32_t row = 0; row < p->m; row++) {
        for (uint32_t column = 0; column < p->ldc && row * p->ldc + column < (p->m - 1) * p->ldc + p->n;
             column++) {
            const uint32_t got = c[row * p->ldc + column];
            if (column >= p->n) {
                if (got != NAN_WORD) fail_msg("a gap between rows of C was written");
                continue;
            }
            double sum = 0;
            double size = 0;
            for (uint32_t q = 0; q < p->k; q++) {
                const double term = (double)a[row * p->lda + q] * (double)b[q * p->ldb + column];
                sum += term;
                size += fabs(term);
            }
            if (!(fabs((double)as_float(got) - sum) <= 6e-8 * ((double)p->k + 1) * (size + 1e-30)))
                fail_msg("C[%u,%u] of %u x %u x %u is %g, not %g", row, column, p->m, p->n, p->k,
                         as_float(got), sum);
        }
    }
}

/* Rows of `columns` random elements, `ld` apart; a gap between them is NaN, which no product may use. */
static float *make_matrix(uint32_t words, uint32_t columns, uint32_t ld, uint64_t stream)
{
    float *values = make_floats(words, stream);
    for (uint32_t w = 0; w < words; w++)
        if (w % ld >= columns) values[w] = NAN;
    return values;
}

static void try_product(const bed *b, size_t i, const td_matmul_params *p)
{
    const uint32_t a_words = (p->m - 1) * p->lda + (p->k ? p->k : 1);
    const uint32_t b_words = (p->k ? p->k - 1 : 0) * p->ldb + p->n;
    launch l = {.id = TD_K_matmul,
                .grid = td_grid_matmul(td_device_class(b->device[i]), p->m, p->n),
                .n_words = {a_words, b_words, (p->m - 1) * p->ldc + p->n}};
    float *left = make_matrix(a_words, p->k, p->lda, 1);
    float *right = make_matrix(b_words, p->n, p->ldb, 2);
    set_params(&l, p, sizeof *p);
    l.in[0] = (uint32_t *)(void *)left;
    l.in[1] = (uint32_t *)(void *)right;
    uint32_t *got = run_twice(b, i, &l);
    check_product(p, left, right, got);
    free(got);
    free_inputs(&l);
}

static void all_products(const bed *b, size_t i)
{
    for (size_t p = 0; p < sizeof PRODUCTS / sizeof *PRODUCTS; p++)
        try_product(b, i, &PRODUCTS[p]);
}

static void test_matmul(void **state)
{
    (void)state;
    on_every_device(all_products);
}

/* ---------------------------------------------------------------- the self-test's */

static void trial_product(const bed *b, size_t i, uint32_t columns, uint32_t depth)
{
    const td_trial_params params = {.kind = TD_TRIAL_PRODUCT, .rows = 5, .columns = columns, .depth = depth};
    launch l = {.id = TD_K_trial, .grid = {6, 1, 1}, .n_words = {5 * depth, depth * columns, 5 * columns}};
    float *x = make_floats(5 * depth, 1);
    float *y = make_floats(depth * columns, 2);
    set_params(&l, &params, sizeof params);
    l.in[0] = (uint32_t *)(void *)x;
    l.in[1] = (uint32_t *)(void *)y;
    uint32_t *got = run_twice(b, i, &l);
    for (uint32_t e = 0; e < 5 * columns; e++) {
        double sum = 0;
        for (uint32_t q = 0; q < depth; q++)
            sum += (double)x[e / columns * depth + q] * (double)y[q * columns + e % columns];
        if (!(fabs((double)as_float(got[e]) - sum) <= 1e-6 * depth)) fail_msg("product: element %u", e);
    }
    free(got);
    free_inputs(&l);
}

static void trial_sum(const bed *b, size_t i, uint32_t n, uint32_t columns)
{
    const uint32_t rows = (n + columns - 1) / columns;
    const td_trial_params params = {.kind = TD_TRIAL_SUM, .n = n, .rows = rows, .columns = columns};
    launch l = {.id = TD_K_trial, .grid = {rows + 1, 1, 1}, .n_words = {n, 1, rows}};
    float *x = make_floats(n, 3);
    set_params(&l, &params, sizeof params);
    l.in[0] = (uint32_t *)(void *)x;
    uint32_t *got = run_twice(b, i, &l);
    for (uint32_t r = 0; r < rows; r++) {
        double sum = 0;
        for (uint32_t e = r * columns; e < n && e < (r + 1) * columns; e++)
            sum += (double)x[e];
        if (!(fabs((double)as_float(got[r]) - sum) <= 1e-6 * columns)) fail_msg("sum: row %u", r);
    }
    free(got);
    free_inputs(&l);
}

static void trial_elements(const bed *b, size_t i, uint32_t n, uint32_t kind)
{
    const td_trial_params params = {.kind = kind, .n = n};
    launch l = {
        .id = TD_K_trial, .grid = td_grid_elements(td_device_class(b->device[i]), n), .n_words = {n, n, n}};
    float *x = make_floats(n, 4);
    float *y = make_floats(n, 5);
    set_params(&l, &params, sizeof params);
    l.in[0] = (uint32_t *)(void *)x;
    l.in[1] = (uint32_t *)(void *)y;
    uint32_t *got = run_twice(b, i, &l);
    for (uint32_t e = 0; e < n; e++) {
        const bool right = kind == TD_TRIAL_ADD ? as_float(got[e]) == x[e] + y[e]
                                                : got[e] == td_rng_u32((UINT64_C(1) << 32) + 7, 3, e);
        if (!right) fail_msg("kind %u of %u: element %u is %08x", kind, n, e, got[e]);
    }
    free(got);
    free_inputs(&l);
}

static void trial_all(const bed *b, size_t i)
{
    trial_product(b, i, 1, 1);
    trial_product(b, i, 7, 300);
    trial_product(b, i, 29, 41);
    trial_sum(b, i, 1, 1);
    trial_sum(b, i, 4099, 67);
    for (uint32_t kind = TD_TRIAL_ADD; kind <= TD_TRIAL_RANDOM; kind++) {
        trial_elements(b, i, 1, kind);
        trial_elements(b, i, 4099, kind);
    }
}

static void test_trial(void **state)
{
    (void)state;
    on_every_device(trial_all);
}

/* ---------------------------------------------------------------- completeness */

/* A grid larger than needed does nothing more: groups beyond the data are harmless. */
static void fill_with_too_many_groups(const bed *b, size_t i)
{
    const td_fill_params params = {.n = 777, .word = 5};
    launch l = {.id = TD_K_fill, .grid = {3, 2, 1}, .n_words = {777}};
    set_params(&l, &params, sizeof params);
    uint32_t *got = run_twice(b, i, &l);
    for (uint32_t e = 0; e < params.n; e++)
        assert_int_equal(got[e], 5);
    free(got);
}

static void sum_with_too_many_groups(const bed *b, size_t i)
{
    const td_reduce_sum_params params = {.n = 999, .block = 333, .blocks = 3};
    launch l = {.id = TD_K_reduce_sum, .grid = {4, 3, 1}, .n_words = {999, 3}};
    float *x = make_floats(params.n, 3);
    set_params(&l, &params, sizeof params);
    l.in[0] = (uint32_t *)(void *)x;
    uint32_t *got = run_twice(b, i, &l);
    for (uint32_t k = 0; k < params.blocks; k++)
        assert_true(isfinite(as_float(got[k])));
    free(got);
    free_inputs(&l);
}

static void test_too_many_groups(void **state)
{
    (void)state;
    on_every_device(fill_with_too_many_groups);
    on_every_device(sum_with_too_many_groups);
}

/* A row added to ops/basic.def must be added here, with its test above. */
static void test_every_kernel_has_a_case(void **state)
{
    (void)state;
    static const char *const TESTED[] = {"fill", "copy", "add", "matmul", "reduce_sum", "random", "trial"};
    static const char *const LISTED[] = {
#define TD_KERNEL(name, ...) #name,
#include "kernels/ops/basic.def"
#undef TD_KERNEL
    };
    for (size_t k = 0; k < sizeof LISTED / sizeof *LISTED; k++) {
        bool tested = false;
        for (size_t t = 0; t < sizeof TESTED / sizeof *TESTED; t++)
            tested |= strcmp(TESTED[t], LISTED[k]) == 0;
        if (!tested) fail_msg("kernel %s has no case", LISTED[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fill),
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_add),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_add_in_place),
        cmocka_unit_test(test_reduce_sum),
        cmocka_unit_test(test_the_empty_sum),
        cmocka_unit_test(test_matmul),
        cmocka_unit_test(test_trial),
        cmocka_unit_test(test_too_many_groups),
        cmocka_unit_test(test_every_kernel_has_a_case),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
