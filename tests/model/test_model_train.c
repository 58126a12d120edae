/* Training: one batch is learnt by heart, by both strategies. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nar), cmocka_unit_test(test_ar)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
