/* Caches of a stack grow while they are filled, and what they hold stays: the same codes have the same logits, to the
 * bit, as with room for all from the beginning. What steps compute is compared in tests/xtts. */
#include <string.h>

#include "base/rng.h"
#include "nn/stack.h"
#include "support/rig.h"

enum { WIDTH = 64, CODES = 20, LAYERS = 2, ROWS = 210 };

static td_stack *open_stack(const rig *r, uint32_t format, uint32_t rows)
{
    const td_stack_options options = {.shape = {.width = WIDTH,
                                                .heads = 2,
                                                .inside = 2 * WIDTH,
                                                .capacity = ROWS,
                                                .codes = CODES,
                                                .format = format,
                                                .eps = 1e-5f},
                                      .layers = LAYERS,
                                      .positions = ROWS};
    static float values[4 * WIDTH * WIDTH + ROWS * WIDTH];
    td_stack *stack;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        values[i] = td_rng_float(1, 0, i) - 0.5f;
    check(td_stack_create(r->memory, &options, &stack));
    if (rows > 0) check(td_stack_make_room(stack, 1, rows));
    for (int t = 0; t < TD_STACK_TENSOR_COUNT; t++)
        for (uint32_t layer = 0; layer < (t < TD_STACK_LAYER_TENSORS ? LAYERS : 1); layer++)
            check(td_stack_put(stack, layer, (td_stack_tensor)t, values + layer));
    return stack;
}

static void grow(const rig *r, uint32_t format)
{
    td_stack *whole = open_stack(r, format, ROWS), *growing = open_stack(r, format, 0);
    for (uint32_t i = 0; i < ROWS; i++) {
        td_stack_thought a, b;
        const td_stack_code code = {.code = i % CODES, .position = i, .row = i};
        check(td_stack_next(whole, &code, 1, &a));
        check(td_stack_next(growing, &code, 1, &b));
        if (memcmp(a.logits, b.logits, CODES * sizeof *a.logits) != 0) fail_msg("logits of row %u differ", i);
    }
    assert_int_equal(td_stack_get(growing)->shape.capacity, ROWS);
    refuse(TD_ERR_LIMIT, "210", td_stack_make_room(growing, 1, ROWS + 1));
    td_stack_destroy(growing);
    td_stack_destroy(whole);
}

static void test_caches_grow(void **state)
{
    rig r;
    (void)state;
    if (!rig_open(&r, RIG_CL_CPU, 0)) skip();
    grow(&r, TD_FORMAT_FP32);
    grow(&r, TD_FORMAT_INT8); /* whose caches are narrower */
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_caches_grow)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
