/* First values: from seed and name alone, within their bounds; what is frozen stays; dropout follows the
 * step.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

static const td_model_shape shape = {.items = 2, .tokens = 6, .frames = 20};

static td_model_config make_config(td_strategy strategy)
{
    td_model_config c;
    check(td_model_preset("pico", strategy, &c));
    c.n_mels = 8;
    return c;
}

static size_t find_entry(const td_store *store, const char *name)
{
    size_t i = 0;
    while (i < td_store_count(store) && strcmp(td_store_get(store, i).name, name) != 0)
        i++;
    assert_true(i < td_store_count(store));
    return i;
}

/* Owned by the caller. */
static float *read_entry(td_store *store, const char *name, size_t *n)
{
    const size_t i = find_entry(store, name);
    *n = (size_t)td_shape_size(td_store_get(store, i).shape);
    float *values = calloc(*n, sizeof *values);
    check(td_store_read(store, i, TD_BLOCK_WEIGHT, values));
    return values;
}

static void test_values(void **state)
{
    (void)state;
    rig r;
    trainer a, b;
    size_t n = 0;
    const td_model_losses losses = td_model_losses_default();
    const td_model_config plain = make_config(TD_AUTOREGRESSIVE);
    td_model_config spoken = plain;
    spoken.n_speakers = 3;
    if (!rig_open(&r, RIG_CL_CPU, 0)) return;
    trainer_open(&a, &r, &plain, &losses, shape, &(td_model_options){0});
    trainer_open(&b, &r, &spoken, &losses, shape, &(td_model_options){0});
    float *ours = read_entry(a.store, "text.block.1.ff.conv1.weight", &n);
    float *theirs = read_entry(b.store, "text.block.1.ff.conv1.weight", &n);
    assert_memory_equal(ours, theirs, n * sizeof *ours); /* whatever else there is */
    float most = 0, sum = 0;
    for (size_t i = 0; i < n; i++) {
        if (fabsf(ours[i]) > most) most = fabsf(ours[i]);
        sum += ours[i];
    }
    assert_true(most <= 1 / sqrtf(96) && most > 0.95f / sqrtf(96));
    assert_true(fabsf(sum) < 0.05f * (float)n * most);
    free(theirs);
    check(td_model_init(b.store, &spoken, 8));
    theirs = read_entry(b.store, "text.block.1.ff.conv1.weight", &n);
    assert_true(memcmp(ours, theirs, n * sizeof *ours) != 0); /* of another seed */
    free(ours);
    free(theirs);
    ours = read_entry(a.store, "decoder.block.0.cross.key.weight", &n);
    theirs = read_entry(a.store, "decoder.block.0.cross.query.weight", &n);
    assert_memory_equal(ours, theirs, n * sizeof *ours);
    free(ours);
    free(theirs);
    ours = read_entry(a.store, "constant.text_positions", &n);
    assert_float_equal(ours[1], 1, 0); /* cos 0 */
    assert_float_equal(ours[plain.text_width], sin(1), 1e-7);
    free(ours);
    ours = read_entry(a.store, "constant.query_positions", &n);
    assert_float_equal(ours[plain.decoder_width], sin((double)plain.attention_rate), 1e-7);
    free(ours);
    ours = read_entry(b.store, "speaker.table", &n);
    theirs = calloc((size_t)5 * spoken.speaker_width, sizeof *theirs);
    check(td_model_init_values(&spoken, "speaker.table", td_dims(5, spoken.speaker_width), 8, theirs));
    assert_memory_equal(ours, theirs, n * sizeof *ours); /* more rows leave those before alone */
    free(ours);
    free(theirs);
    assert_int_equal(td_model_init(a.store, &spoken, 1), TD_OK); /* has all that the store needs */
    assert_int_equal(td_model_init(b.store, &plain, 1), TD_ERR_ARGUMENT);
    trainer_close(&a);
    trainer_close(&b);
    rig_close(&r);
}

static void test_freeze(void **state)
{
    (void)state;
    rig r;
    trainer t;
    td_optimizer *optimizer = NULL;
    size_t n = 0;
    static const char *const frozen[] = {"text.", "prior"};
    const td_model_losses losses = td_model_losses_default();
    const td_model_config c = make_config(TD_NON_AUTOREGRESSIVE);
    if (!rig_open(&r, RIG_CL_CPU, 0)) return;
    batch b = batch_make(&c, shape, 31);
    trainer_open(&t, &r, &c, &losses, shape,
                 &(td_model_options){.backward = true, .freeze = frozen, .n_freeze = 2});
    check(td_optimizer_create(t.store, &(td_optimizer_options){.beta1 = 0.9f, .beta2 = 0.98f, .eps = 1e-9f},
                              &optimizer));
    batch_fill(&b, t.plan, &t.g.in);
    float *embedding = read_entry(t.store, "text.embedding", &n);
    float *out = read_entry(t.store, "decoder.out.weight", &n);
    run_plan(t.plan, 0, optimizer, 1e-2f);
    float *embedding_after = read_entry(t.store, "text.embedding", &n);
    assert_memory_equal(embedding, embedding_after, n * sizeof *embedding);
    float *out_after = read_entry(t.store, "decoder.out.weight", &n);
    assert_true(memcmp(out, out_after, n * sizeof *out) != 0);
    free(embedding);
    free(embedding_after);
    free(out);
    free(out_after);
    td_optimizer_destroy(optimizer);
    trainer_close(&t);
    batch_free(&b);
    rig_close(&r);
}

static float loss_at(const trainer *t, uint32_t step)
{
    run_plan(t->plan, step, NULL, 0);
    return scalar_of(t->plan, "loss.mel");
}

static void test_dropout(void **state)
{
    (void)state;
    rig r;
    trainer t;
    const td_model_losses losses = td_model_losses_default();
    if (!rig_open(&r, RIG_CL_CPU, 0)) return;
    for (int strategy = 0; strategy < TD_STRATEGIES; strategy++) {
        td_model_config c = make_config((td_strategy)strategy);
        c.dropout = 0.2f;
        batch b = batch_make(&c, shape, 32);
        trainer_open(&t, &r, &c, &losses, shape, &(td_model_options){.dropout = true, .backward = true});
        batch_fill(&b, t.plan, &t.g.in);
        const float first = loss_at(&t, 1);
        assert_true(loss_at(&t, 2) != first);
        assert_true(loss_at(&t, 1) == first);
        trainer_close(&t);
        trainer_open(&t, &r, &c, &losses, shape, &(td_model_options){.backward = true});
        batch_fill(&b, t.plan, &t.g.in);
        assert_true(loss_at(&t, 1) == loss_at(&t, 2));
        trainer_close(&t);
        batch_free(&b);
    }
    rig_close(&r);
}

static void test_refusals(void **state)
{
    (void)state;
    td_model_graph g;
    td_model_step step;
    const td_model_losses losses = td_model_losses_default();
    const td_model_config c = make_config(TD_NON_AUTOREGRESSIVE);
    const td_model_shape long_text = {.items = 1, .tokens = c.max_tokens + 1, .frames = 10};
    assert_int_equal(td_model_train_graph(&c, &losses, &long_text, &(td_model_options){0}, &g), TD_ERR_LIMIT);
    assert_non_null(strstr(td_error_last()->message, "max_tokens"));
    assert_null(g.graph);
    assert_int_equal(td_model_step_graph(&c, &shape, NULL, &step), TD_ERR_ARGUMENT);
    assert_null(step.graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_freeze),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
