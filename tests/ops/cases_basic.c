/* Cases of the kernels every device is checked with before use; tests/device/test_kernels.c tries them
 * closer. Here they stand for completeness. */
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "kernels/geometry.h"
#include "suite.h"

typedef struct basic_args {
    td_kernel_id id;
    td_grid grid;
    uint8_t params[TD_KERNEL_MAX_PARAMS];
} basic_args;

static td_status launch(const op_case *c, td_list *list, const td_span *spans)
{
    const basic_args *a = c->args;
    return td_list_dispatch(list, a->id, spans, a->params, a->grid, (td_cost){0});
}

static op_case start(const char *name, uint32_t n, td_kernel_id id, td_grid grid, const void *params)
{
    op_case c = {.op = name, .kernels = name, .launch = launch};
    basic_args *a = op_args(&c, sizeof *a);
    a->id = id;
    a->grid = grid;
    memcpy(a->params, params, td_kernel_get(id)->params_bytes);
    snprintf(c.label, sizeof c.label, "%u elements", n);
    return c;
}

static void add_fill(op_suite *suite, td_kernel_class class, uint32_t n)
{
    const td_fill_params params = {.n = n, .word = 0x12345678u};
    op_case c = start("fill", n, TD_K_fill, td_grid_elements(class, n), &params);
    op_io *z = op_output_words(&c, "z", n);
    for (uint32_t i = 0; i < n; i++)
        z->words[i] = params.word;
    op_suite_add(suite, &c);
}

static void add_copy(op_suite *suite, td_kernel_class class, uint32_t n)
{
    const td_copy_params params = {.n = n};
    op_case c = start("copy", n, TD_K_copy, td_grid_elements(class, n), &params);
    op_io *x = op_random(&c, "x", n, -9, 9, 1);
    memcpy(op_output_words(&c, "y", n)->words, x->values, 4 * (size_t)n);
    op_suite_add(suite, &c);
}

static void add_add(op_suite *suite, td_kernel_class class, uint32_t n)
{
    const td_add_params params = {.n = n};
    op_case c = start("add", n, TD_K_add, td_grid_elements(class, n), &params);
    const op_io *x = op_random(&c, "x", n, -9, 9, 1);
    const op_io *y = op_random(&c, "y", n, -9, 9, 2);
    op_io *z = op_output(&c, "z", n, 0, 1e-7);
    for (uint32_t i = 0; i < n; i++)
        z->expected[i] = (double)x->values[i] + (double)y->values[i];
    op_suite_add(suite, &c);
}

static void add_random(op_suite *suite, td_kernel_class class, uint32_t n)
{
    const td_random_params params = {.n = n, .seed_lo = 5, .seed_hi = 6, .stream_lo = 7, .stream_hi = 8};
    op_case c = start("random", n, TD_K_random, td_grid_elements(class, (n + 3) / 4), &params);
    op_io *z = op_output_words(&c, "z", n);
    for (uint32_t i = 0; i < n; i++)
        z->words[i] = td_rng_u32(6ull << 32 | 5, 8ull << 32 | 7, i);
    op_suite_add(suite, &c);
}

static void add_sum(op_suite *suite, td_kernel_class class, uint32_t n)
{
    const td_reduce_sum_params params = td_reduce_sum_first(class, n);
    op_case c = start("reduce_sum", n, TD_K_reduce_sum, td_grid_reduce_sum(&params), &params);
    const op_io *x = op_random(&c, "x", n, -1, 1, 1);
    op_io *y = op_output(&c, "y", params.blocks, 1e-4, 0);
    for (uint32_t i = 0; i < n; i++)
        y->expected[i / params.block] += (double)x->values[i];
    op_suite_add(suite, &c);
}

/* Inputs [m, k] and [k, n], and their product as it should be. */
static void add_product(op_suite *suite, op_case *c, uint32_t m, uint32_t n, uint32_t k)
{
    const op_io *a = op_random(c, "a", (size_t)m * k, -1, 1, 1);
    const op_io *b = op_random(c, "b", (size_t)k * n, -1, 1, 2);
    op_io *product = op_output(c, "c", (size_t)m * n, 1e-6 * k, 0);
    for (uint32_t i = 0; i < m; i++)
        for (uint32_t q = 0; q < k; q++)
            for (uint32_t j = 0; j < n; j++)
                product->expected[i * n + j] += (double)a->values[i * k + q] * (double)b->values[q * n + j];
    op_suite_add(suite, c);
}

static void add_matmul(op_suite *suite, td_kernel_class class, uint32_t m, uint32_t n, uint32_t k)
{
    const td_matmul_params params = {.m = m, .n = n, .k = k, .lda = k, .ldb = n, .ldc = n};
    op_case c = start("matmul", m * n, TD_K_matmul, td_grid_matmul(class, m, n), &params);
    add_product(suite, &c, m, n, k);
}

static void add_trial(op_suite *suite, uint32_t m, uint32_t n, uint32_t k)
{
    const td_trial_params params = {.kind = TD_TRIAL_PRODUCT, .rows = m, .columns = n, .depth = k};
    op_case c = start("trial", m * n, TD_K_trial, (td_grid){m, 1, 1}, &params);
    add_product(suite, &c, m, n, k);
}

void cases_basic(op_suite *suite, td_device *device);
void cases_basic(op_suite *suite, td_device *device)
{
    static void (*const MAKERS[])(op_suite *, td_kernel_class, uint32_t) = {add_fill, add_copy, add_add,
                                                                            add_random, add_sum};
    const td_kernel_class class = td_device_class(device);
    for (size_t m = 0; m < sizeof MAKERS / sizeof *MAKERS; m++)
        for (const uint32_t *n = (const uint32_t[]){1, 127, 4097, 0}; *n; n++)
            MAKERS[m](suite, class, *n);
    add_matmul(suite, class, 37, 65, 29);
    add_matmul(suite, class, 17, 5, 3);
    add_trial(suite, 37, 65, 29);
}
