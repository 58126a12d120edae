/* First values: from seed and name alone, within their bounds; what is frozen stays; dropout follows the
 * step.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

static const td_batch_shape shape = {.items = 2, .tokens = 6, .frames = 20};

static td_acoustic make_config(bool sequential)
{
    td_acoustic c;
    td_acoustic_preset(0, sequential, &c);
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
    const td_acoustic plain = make_config(true);
    td_acoustic spoken = plain, crowded;
    spoken.n_speakers = 3;
    if (!rig_open(&r, RIG_CL_CPU, 0)) return;
    trainer_open(&a, &r, &td_family_autoregressive, &plain, shape, &(td_build){0});
    trainer_open(&b, &r, &td_family_autoregressive, &spoken, shape, &(td_build){0});
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
    check(td_store_init(b.store, 8));
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
    crowded = spoken;
    crowded.n_speakers = 5;
    trainer_close(&a);
    trainer_open(&a, &r, &td_family_autoregressive, &crowded, shape, &(td_build){0});
    check(td_store_init(a.store, 8));
    size_t more = 0;
    theirs = read_entry(a.store, "speaker.table", &more);
    assert_int_equal(more, 5 * n / 3);
    assert_memory_equal(ours, theirs, n * sizeof *ours); /* more rows leave those before alone */
    free(ours);
    free(theirs);
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
    const td_acoustic c = make_config(false);
    if (!rig_open(&r, RIG_CL_CPU, 0)) return;
    batch b = batch_make(&c, shape, 31);
    trainer_open(&t, &r, &td_family_parallel, &c, shape,
                 &(td_build){.backward = true, .freeze = "text.*,prior*"});
    check(td_optimizer_create(
        t.store, 0, &(td_optimizer_options){.beta1 = 0.9f, .beta2 = 0.98f, .eps = 1e-9f}, &optimizer));
    batch_fill(&b, t.plan, t.graph);
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
    if (!rig_open(&r, RIG_CL_CPU, 0)) return;
    for (int sequential = 0; sequential < 2; sequential++) {
        const td_family *family = sequential ? &td_family_autoregressive : &td_family_parallel;
        td_acoustic c = make_config(sequential);
        c.dropout = 0.2f;
        batch b = batch_make(&c, shape, 32);
        trainer_open(&t, &r, family, &c, shape, &(td_build){.dropout = true, .backward = true});
        batch_fill(&b, t.plan, t.graph);
        const float first = loss_at(&t, 1);
        assert_true(loss_at(&t, 2) != first);
        assert_true(loss_at(&t, 1) == first);
        trainer_close(&t);
        trainer_open(&t, &r, family, &c, shape, &(td_build){.backward = true});
        batch_fill(&b, t.plan, t.graph);
        assert_true(loss_at(&t, 1) == loss_at(&t, 2));
        trainer_close(&t);
        batch_free(&b);
    }
    rig_close(&r);
}

static void test_refusals(void **state)
{
    (void)state;
    td_graph *graph;
    td_model_config config;
    check(td_model_preset(&td_family_parallel, "pico", &config));
    const uint32_t most = td_acoustic_get(&config).max_tokens;
    const td_build build = {.config = &config, .shape = {.items = 1, .tokens = most + 1, .frames = 10}};
    assert_int_equal(td_family_build(&build, &graph), TD_ERR_LIMIT);
    assert_non_null(strstr(td_error_last()->message, "max_tokens"));
    assert_null(graph);
    const td_build other = {.config = &config, .shape = shape, .learner = 1};
    assert_int_equal(td_family_build(&other, &graph), TD_ERR_ARGUMENT);
    assert_null(graph);
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
