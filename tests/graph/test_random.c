/* Graphs composed at random: loss and gradients against central differences of the interpreter in double, and
 * the same graphs planned in every way against each other. TANDEM_TEST_GRAPHS sets how many; the second class
 * and the second driver take their part of it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "differences.h"
#include "generate.h"

#define ALL_GRAPHS 500
#define STEPS 6
#define BF16 0.1
#define ROUNDING 1e-4 /* sharp softmaxes magnify it; most graphs stay below 3e-6 */

static uint32_t count_graphs(uint32_t standard)
{
    const char *given = getenv("TANDEM_TEST_GRAPHS");
    return given ? (uint32_t)atoi(given) * standard / ALL_GRAPHS + 1 : standard;
}

static uint32_t first_seed(void)
{
    const char *given = getenv("TANDEM_TEST_SEED");
    return given ? (uint32_t)atoi(given) : 1;
}

/* One graph against differences. */
static void judge(const rig *r, uint64_t seed, const td_plan_options *options)
{
    model m;
    bench b;
    generate(&m, seed, STEPS, 1);
    bench_open(&b, r, &m, options);
    bench_run(&b, 1);
    compare_loss(&m, &b);
    compare_gradients(&m, &b);
    bench_close(&b);
    bench_open(&b, r, &m, &(td_plan_options){.forward_only = true});
    bench_run(&b, 1);
    compare_loss(&m, &b);
    bench_close(&b);
    model_close(&m);
}

static float *gradients_of(const rig *r, uint64_t seed, const td_plan_options *options, uint32_t micro,
                           size_t *n)
{
    model m;
    bench b;
    generate(&m, seed, STEPS, micro);
    bench_open(&b, r, &m, options);
    bench_run(&b, micro);
    float *once = read_gradients(b.store, n);
    bench_run(&b, micro);
    float *twice = read_gradients(b.store, n);
    if (memcmp(once, twice, *n * sizeof *once) != 0) {
        print_error("graph %llu: another run gives other bits\n", (unsigned long long)seed);
        fail();
    }
    free(twice);
    bench_close(&b);
    model_close(&m);
    return once;
}

static const struct {
    const char *name;
    td_plan_options options;
    uint32_t micro;
    double most; /* relative L2 */
} ways[] = {
    {"reuse", {.no_fusion = true}, 1, 0},
    {"cheap made again", {.no_fusion = true, .remake_cheap = true}, 1, 0},
    {"fusion", {.no_reuse = true}, 1, ROUNDING},
    {"fusion and reuse", {0}, 1, ROUNDING},
    {"all of it", {.remake_cheap = true}, 1, ROUNDING},
    {"checkpoints", {.checkpoint = true}, 1, ROUNDING},
    {"checkpoints, plain", {.checkpoint = true, .no_fusion = true}, 1, 0},
    {"bf16", {.half = TD_BF16}, 1, BF16},
    {"bf16 and checkpoints", {.half = TD_BF16, .checkpoint = true}, 1, BF16},
    {"3 micro-batches", {0}, 3, ROUNDING},
    {"3 micro-batches, plain", {.no_fusion = true, .no_reuse = true}, 3, ROUNDING},
};
#define WAYS (sizeof ways / sizeof *ways)

/* For finding out, with TANDEM_TEST_VERBOSE. */
static void print_way(const char *name)
{
    if (getenv("TANDEM_TEST_VERBOSE")) print_message("    %s\n", name);
}

static void judge_ways(const rig *r, uint64_t seed, size_t first, size_t step)
{
    const td_plan_options plain = {.no_fusion = true, .no_reuse = true};
    size_t n = 0, n_other = 0;
    float *truth = gradients_of(r, seed, &plain, 1, &n);
    for (size_t w = first; w < WAYS; w += step) {
        print_way(ways[w].name);
        float *got = gradients_of(r, seed, &ways[w].options, ways[w].micro, &n_other);
        assert_int_equal(n, n_other);
        const double error = relative_error(got, truth, n);
        if (!(error <= ways[w].most)) {
            print_error("graph %llu, %s: gradients differ by %g, more than %g\n", (unsigned long long)seed,
                        ways[w].name, error, ways[w].most);
            fail();
        }
        free(got);
    }
    free(truth);
}

static void judge_device(rig_kind kind, uint32_t graphs, uint32_t ways_every)
{
    rig r;
    td_span held;
    if (!rig_open(&r, kind, 0)) return;
    for (int k = 0; k < TD_MEMORY_KIND_COUNT; k++) /* so that the first chunk stays between graphs */
        assert_int_equal(td_memory_alloc(r.memory, (td_memory_kind)k, 4, &held), TD_OK);
    for (uint32_t i = 0; i < graphs; i++) {
        judge(&r, first_seed() + i, &(td_plan_options){0});
        judge(&r, first_seed() + i, &(td_plan_options){.no_fusion = true, .no_reuse = true});
        if (i % ways_every == 0) judge_ways(&r, first_seed() + i, 0, 1);
    }
    rig_close(&r);
}

static void test_pocl(void **state)
{
    (void)state;
    judge_device(RIG_CL_CPU, count_graphs(ALL_GRAPHS), 2);
    for (size_t kind = 0; generate_name(kind); kind++)
        if (count_graphs(ALL_GRAPHS) >= 60 && generate_counts[kind] == 0)
            fail_msg("%s never came up", generate_name(kind));
}

static void test_pocl_as_gpu(void **state)
{
    (void)state;
    judge_device(RIG_CL_GPU, count_graphs(100), 3);
}

static void test_lavapipe(void **state)
{
    (void)state;
    judge_device(RIG_VK, count_graphs(60), 4);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pocl),
        cmocka_unit_test(test_pocl_as_gpu),
        cmocka_unit_test(test_lavapipe),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
