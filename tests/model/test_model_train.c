/* Training: one batch is learnt by heart, by both strategies. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "rig.h"

static const td_optimizer_options adam = {
    .beta1 = 0.9f, .beta2 = 0.98f, .eps = 1e-9f, .decay = 0.01f, .max_norm = 1};

/* Losses of the first and the last of some steps on one batch. */
static void overfit(const rig *r, const td_family *family, const td_acoustic *c, uint32_t steps,
                    float first[2], float last[2])
{
    const td_batch_shape shape = {
        .items = 3, .tokens = 9, .frames = 40, .reference_frames = c->speaker_encoder ? 12 : 0};
    td_optimizer *optimizer = NULL;
    trainer t;
    batch b = batch_make(c, shape, 11);
    trainer_open(&t, r, family, c, shape, &(td_build){.seed = 3, .backward = true});
    check(td_optimizer_create(t.store, 0, &adam, &optimizer));
    batch_fill(&b, t.plan, t.graph);
    for (uint32_t i = 0; i < steps; i++) {
        run_plan(t.plan, i, optimizer, 3e-3f);
        float *to = i == 0 ? first : last;
        to[0] = scalar_of(t.plan, "loss.mel");
        to[1] = scalar_of(t.plan, "loss.prior");
        if (i % 50 == 0)
            print_message("    %u: loss %g mel %g prior %g\n", i, (double)scalar_of(t.plan, "loss"),
                          (double)to[0], (double)to[1]);
    }
    td_optimizer_destroy(optimizer);
    trainer_close(&t);
    batch_free(&b);
}

static void test_nar(void **state)
{
    (void)state;
    rig r;
    td_acoustic c;
    float first[2], last[2];
    td_acoustic_preset(0, false, &c);
    c.n_mels = 20;
    c.pitch_predictor = c.energy_predictor = true;
    if (!rig_open(&r, RIG_CL_CPU, 0)) return;
    overfit(&r, &td_family_parallel, &c, 200, first, last);
    assert_true(last[0] < 0.2f * first[0]);
    assert_true(last[1] < 0.2f * first[1]);
    rig_close(&r);
}

static void test_ar(void **state)
{
    (void)state;
    rig r;
    td_acoustic c;
    float first[2], last[2];
    td_acoustic_preset(0, true, &c);
    c.n_mels = 20;
    if (!rig_open(&r, RIG_CL_CPU, 0)) return;
    overfit(&r, &td_family_autoregressive, &c, 300, first, last);
    assert_true(last[0] < 0.3f * first[0]);
    assert_true(last[1] < 0.2f * first[1]);
    rig_close(&r);
}

/* How far the path of a first step leaves the diagonal: the largest |token / tokens - frame / frames|. */
static double leave_diagonal(const rig *r, const td_acoustic *c, float weight)
{
    const td_batch_shape shape = {.items = 3, .tokens = 9, .frames = 40};
    double largest = 0;
    trainer t;
    batch b = batch_make(c, shape, 11);
    trainer_open(&t, r, &td_family_parallel, c, shape, &(td_build){.seed = 3, .backward = true});
    batch_fill(&b, t.plan, t.graph);
    const td_tensor input = td_graph_find_input(t.graph, "diagonal_weight");
    if (input.id) check(td_plan_fill(t.plan, 0, input, &weight));
    run_plan(t.plan, 0, NULL, 0);
    uint32_t *index = (uint32_t *)read_output(t.plan, td_graph_find_output(t.graph, "index"),
                                              (size_t)shape.items * shape.frames);
    for (uint32_t i = 0; i < shape.items; i++) {
        for (uint32_t j = 0; j < b.frame_counts[i]; j++) {
            const double token = (double)index[i * shape.frames + j] / b.token_counts[i];
            largest = fmax(largest, fabs(token - (double)j / b.frame_counts[i]));
        }
    }
    free(index);
    trainer_close(&t);
    batch_free(&b);
    return largest;
}

/* The weight of the diagonal falls to 0, and then the path is the one without it. */
static void test_the_diagonal_holds_first_alignments(void **state)
{
    (void)state;
    rig r;
    td_acoustic c;
    td_acoustic_preset(0, false, &c);
    if (!rig_open(&r, RIG_CL_CPU, 0)) return;
    const double without = leave_diagonal(&r, &c, 0);
    c.diagonal_steps = 100;
    const double held = leave_diagonal(&r, &c, 1), released = leave_diagonal(&r, &c, 0);
    print_message("    %g without, %g held\n", without, held);
    assert_true(held < 0.2 && held < 0.5 * without);
    assert_true(released == without);
    const float expected[][2] = {{0, 1}, {50, 0.5f}, {100, 0}, {5000, 0}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_true(td_family_parallel.scalar(&c, "diagonal_weight", (uint64_t)expected[i][0]) ==
                    expected[i][1]);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nar), cmocka_unit_test(test_ar),
                                       cmocka_unit_test(test_the_diagonal_holds_first_alignments)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
