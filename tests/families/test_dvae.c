/* Whole runs of the dvae family: its codebook, which no gradient moves, comes from nothing, is used, is validated with but
 * not changed by it, and goes on to the same bits. */
#include "run.h"
#include "table.h"

static void test_its_table_holds(void **state)
{
    (void)state;
    check_table(td_family_find("dvae"));
}

static td_train_settings make_settings(const char *run, uint64_t steps)
{
    td_train_settings s = run_settings("dvae", run, steps);
    check(td_model_config_put(&s.model, "hidden", "8"));
    check(td_model_config_put(&s.model, "codebook_dim", "6"));
    check(td_model_config_put(&s.model, "codes", "16"));
    return s;
}

static const float *find_state(const td_checkpoint *c, const char *name, size_t *count)
{
    const td_safetensors_tensor *t;
    check(td_checkpoint_tensor(c, "state.", name, &t));
    *count = (size_t)t->bytes / 4;
    return t->data;
}

static void test_it_learns_and_goes_on(void **state)
{
    (void)state;
    run_losses losses = {0};
    td_train_settings s = make_settings("whole", 12);
    s.val_every = 4;
    s.tell = run_keep_loss;
    s.context = &losses;
    const td_train_result whole = run_train(&s);
    assert_true(losses.values[11] < 0.9 * losses.values[0]);
    assert_true(losses.validation > 0 && losses.validation < losses.values[0]);
    s.run_dir = temp_path("parts");
    s.max_steps = 6;
    const td_train_result first = run_train(&s);
    s.max_steps = 12;
    const td_train_result second = run_train(&s);
    assert_true(run_is_same(whole.checkpoint, second.checkpoint));
    assert_int_equal(run_count_changed(first.checkpoint, second.checkpoint, "state.dvae.codebook."), 3);
    assert_int_equal(run_count_changed(first.checkpoint, second.checkpoint, "param.mel_stats"), 0);
    s.run_dir = temp_path("unjudged"); /* validation leaves the codebook as it is */
    s.val_every = 0;
    const td_train_result unjudged = run_train(&s);
    assert_int_equal(run_count_changed(whole.checkpoint, unjudged.checkpoint, "state.dvae.codebook."), 0);
}

/* All vectors begin as zeros; a step later each is one that was heard. */
static void test_codes_begin_among_what_is_heard(void **state)
{
    (void)state;
    td_checkpoint *c;
    size_t n, n_sizes, n_others = 0;
    const td_train_settings s = make_settings("run", 1);
    const td_train_result result = run_train(&s);
    check(td_checkpoint_open(result.checkpoint, &c));
    const float *vectors = find_state(c, "dvae.codebook.embed", &n);
    const float *sizes = find_state(c, "dvae.codebook.cluster_size", &n_sizes);
    assert_int_equal(n, 6 * 16);
    assert_int_equal(n_sizes, 16);
    for (size_t i = 0; i < n_sizes; ++i)
        assert_true(sizes[i] > 0);
    for (size_t code = 1; code < 16; ++code) {
        double size = 0;
        for (size_t d = 0; d < 6; ++d)
            size += fabs((double)vectors[d * 16 + code]);
        assert_true(size > 1e-3);
        n_others += fabsf(vectors[code] - vectors[0]) > 1e-6f;
    }
    assert_true(n_others > 7);
    td_checkpoint_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_its_table_holds),
        cmocka_unit_test_setup_teardown(test_it_learns_and_goes_on, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_codes_begin_among_what_is_heard, run_set_up, temp_dir_remove),
    };
    return cmocka_run_group_tests(tests, run_open, run_close);
}
