/* Two learners that share a batch (gan/gan.c): what each is told and moves, accumulation, going on, averages;
 * against the same steps made by hand. */
#include "run.h"
#include "table.h"

#include "graph/optimizer.h"
#include "pipeline/batches.h"

enum { DISCRIMINATOR, GENERATOR, N_LEARNERS };
static const char *const PREFIXES[] = {"discriminator.", "generator."};

static void test_its_table_holds(void **state)
{
    (void)state;
    check_table(td_family_find("gan"));
}

/* ---------------------------------------------------------------- the same by hand */

/* Both learners on batches of one shape. */
typedef struct hand {
    td_data data;
    td_batches batches;
    td_store *store;
    td_graph *graphs[N_LEARNERS];
    td_plan *plans[N_LEARNERS];
    td_optimizer *optimizers[N_LEARNERS];
    float *values; /* of all parameters, one after the other */
    size_t n_values;
    uint64_t step; /* counted from 0 */
} hand;

static void open_batches(hand *h, const td_train_settings *s)
{
    td_data_settings settings = s->data;
    settings.dataset.seed = s->seed;
    settings.n_features = 0;
    check(td_data_want(&settings, "mel"));
    check(td_data_want(&settings, "frame_counts"));
    check(td_data_open(run_rig.memory, &settings, &h->data));
    const td_data_rows rows = {
        .rows = h->data.dataset->train, .n_rows = h->data.dataset->n_train, .last = TD_LAST_FILL};
    check(td_batches_open(&h->data, &rows, &h->batches));
    check(td_batches_start(&h->batches, &(td_batches_way){0}));
}

static void open_plans(hand *h, const td_train_settings *s, const td_batch_shape *shape)
{
    check(td_family_store(run_rig.memory, &s->model, NULL, &(td_store_options){.training = true}, &h->store));
    check(td_store_init(h->store, s->seed));
    for (uint32_t i = 0; i < N_LEARNERS; ++i) {
        const td_build build = {.config = &s->model,
                                .shape = *shape,
                                .learner = i,
                                .seed = s->seed,
                                .backward = true,
                                .backward_scale = 1.0F / (float)(s->grad_accum > 0 ? s->grad_accum : 1)};
        check(td_family_build(&build, &h->graphs[i]));
        check(td_plan_create(h->store, h->graphs[i], &(td_plan_options){.learner = i}, &h->plans[i]));
        td_optimizer_options optimizer = s->optimizer;
        if (i == DISCRIMINATOR) optimizer.beta1 = 0.5f;
        check(td_optimizer_create(h->store, i, &optimizer, &h->optimizers[i]));
    }
    for (size_t i = 0; i < td_store_count(h->store); ++i)
        h->n_values += td_shape_size(td_store_get(h->store, i).shape);
    h->values = calloc(h->n_values, sizeof *h->values);
    assert_non_null(h->values);
}

static void close_hand(hand *h)
{
    td_batches_close(&h->batches);
    for (size_t i = 0; i < N_LEARNERS; ++i) {
        td_plan_destroy(h->plans[i]);
        td_graph_destroy(h->graphs[i]);
        td_optimizer_destroy(h->optimizers[i]);
    }
    td_store_destroy(h->store);
    td_data_close(&h->data);
    free(h->values);
}

/* Since the last look, parameters of this learner have moved and no others. */
static void expect_moved(hand *h, size_t learner)
{
    float *at = h->values;
    size_t n_moved = 0;
    for (size_t i = 0; i < td_store_count(h->store); ++i) {
        const td_store_entry entry = td_store_get(h->store, i);
        const size_t n = td_shape_size(entry.shape);
        float *now = calloc(n, sizeof *now);
        assert_non_null(now);
        check(td_store_read(h->store, i, TD_BLOCK_WEIGHT, now));
        const bool moved = memcmp(now, at, n * sizeof *now) != 0;
        if (learner < N_LEARNERS && moved &&
            strncmp(entry.name, PREFIXES[learner], strlen(PREFIXES[learner])))
            fail_msg("%s was moved by the update of %s", entry.name, PREFIXES[learner]);
        n_moved += moved;
        memcpy(at, now, n * sizeof *now);
        at += n;
        free(now);
    }
    assert_true(n_moved >= 3); /* weights and biases; the last bias may stand still */
}

static void run_by_hand(hand *h, size_t learner, const td_batch *batch, uint32_t micro)
{
    td_point done;
    for (size_t i = 0; i < td_graph_input_count(h->graphs[learner]); ++i) {
        const td_tensor input = td_graph_input_at(h->graphs[learner], i);
        const char *name = td_graph_name(h->graphs[learner], input);
        const td_feature *feature = td_batch_find(batch, name);
        const float weight = h->step < 2 ? 0.25f : 0.5f;
        if (feature == NULL) assert_string_equal(name, "adversarial_weight");
        check(feature != NULL ? td_plan_bind(h->plans[learner], 0, input, feature->span)
                              : td_plan_fill(h->plans[learner], 0, input, &weight));
    }
    const td_run run = {.adds = micro > 0, .waits = &batch->ready, .n_waits = 1};
    check(td_plan_run(h->plans[learner], &run, &done));
    check(td_point_wait(done, TD_WAIT_FOREVER));
}

static void update_by_hand(hand *h, const td_train_settings *s, size_t learner)
{
    td_point done;
    const double lr = s->schedule.lr * (learner == DISCRIMINATOR ? 0.5 : 1);
    check(td_optimizer_step(h->optimizers[learner], (float)lr, &done));
    check(td_point_wait(done, TD_WAIT_FOREVER));
    expect_moved(h, learner);
}

/* The learners take turns; where a step has several micro-batches, they update after the last of all, so that
 * every run of the step sees the same parameters. */
static void step_by_hand(hand *h, const td_train_settings *s)
{
    td_batch batch;
    const uint32_t n_micro = s->grad_accum > 0 ? s->grad_accum : 1;
    for (uint32_t micro = 0; micro < n_micro; ++micro) {
        check(td_batches_next(&h->batches, &batch));
        if (h->store == NULL) {
            open_plans(h, s, &batch.shape);
            expect_moved(h, N_LEARNERS); /* only looks */
        }
        for (size_t i = 0; i < N_LEARNERS; ++i) {
            run_by_hand(h, i, &batch, micro);
            if (n_micro == 1) update_by_hand(h, s, i);
        }
        td_batches_release(&h->batches, &batch, (td_point){0});
    }
    for (size_t i = 0; n_micro > 1 && i < N_LEARNERS; ++i)
        update_by_hand(h, s, i);
}

/* What the run wrote is what came out by hand. */
static void expect_same_parameters(hand *h, const char *path)
{
    td_checkpoint *c;
    const td_safetensors_tensor *tensor;
    const float *at = h->values;
    check(td_checkpoint_open(path, &c));
    for (size_t i = 0; i < td_store_count(h->store); ++i) {
        const td_store_entry entry = td_store_get(h->store, i);
        check(td_checkpoint_tensor(c, "param.", entry.name, &tensor));
        if (memcmp(tensor->data, at, tensor->bytes) != 0)
            fail_msg("%s is not what was made by hand", entry.name);
        at += td_shape_size(entry.shape);
    }
    td_checkpoint_close(c);
}

static void compare_with_hand(const char *run, uint32_t grad_accum)
{
    hand h = {0};
    td_train_settings s = run_settings("gan", run, 4);
    s.data.n_buckets = 1;
    s.grad_accum = grad_accum;
    const td_train_result result = run_train(&s);
    open_batches(&h, &s);
    for (; h.step < 4; ++h.step)
        step_by_hand(&h, &s);
    expect_same_parameters(&h, result.checkpoint);
    close_hand(&h);
}

static void test_learners_take_turns(void **state)
{
    (void)state;
    compare_with_hand("plain", 1);
}

static void test_gradients_accumulate(void **state)
{
    (void)state;
    compare_with_hand("accumulated", 2);
}

/* ---------------------------------------------------------------- runs */

static void test_each_is_told_under_its_name(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"\"loss\"",
                                        "\"generator.loss.mel\"",
                                        "\"generator.loss.adversarial\"",
                                        "\"discriminator.loss\"",
                                        "\"discriminator.loss.recorded\"",
                                        "\"discriminator.loss.made\""};
    run_losses losses = {0};
    td_train_settings s = run_settings("gan", "told", 12);
    s.val_every = 12;
    s.sample_every = 12;
    s.tell = run_keep_loss;
    s.context = &losses;
    const td_train_result result = run_train(&s);
    assert_true(losses.values[11] < 0.9 * losses.values[0]);
    assert_true(losses.validation > 0 && losses.validation == result.best_loss);
    char metrics[1 << 14];
    run_read("told/metrics.jsonl", metrics, sizeof metrics);
    char *line = strstr(metrics, "\"step\": 5,");
    assert_non_null(line);
    line[strcspn(line, "\n")] = '\0';
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; ++i)
        if (strstr(line, NAMES[i]) == NULL) fail_msg("there is no %s in %s", NAMES[i], line);
    assert_null(strstr(line, "\"generator.loss\""));
    const double total = strtod(strstr(line, "\"loss\":") + 7, NULL);
    const double mel = strtod(strstr(line, NAMES[1]) + strlen(NAMES[1]) + 1, NULL);
    const double adversarial = strtod(strstr(line, NAMES[2]) + strlen(NAMES[2]) + 1, NULL);
    assert_true(fabs(total - (mel + 0.5 * adversarial)) < 1e-4 * total); /* that of the generator judges */
}

static void test_going_on_gives_the_same_bits(void **state)
{
    (void)state;
    td_train_settings s = run_settings("gan", "whole", 6);
    s.average = true;
    s.optimizer.average_decay = 0.9F;
    const td_train_result whole = run_train(&s);
    s.run_dir = temp_path("parts");
    s.max_steps = 3;
    const td_train_result first = run_train(&s);
    s.max_steps = 6;
    const td_train_result second = run_train(&s);
    assert_true(run_is_same(whole.checkpoint, second.checkpoint));
    assert_int_equal(run_count_changed(first.checkpoint, second.checkpoint, "optimizer.control"), 1);
    assert_int_equal(run_count_changed(first.checkpoint, second.checkpoint, "optimizer.generator.control"),
                     1);
    assert_int_equal(run_count_changed(first.checkpoint, second.checkpoint, "average."), 8);
    assert_int_equal(run_count_changed(first.checkpoint, second.checkpoint, "param."), 8);
}

/* The loss of what a file holds as its parameters: after a step that is too small to move them. */
static double validate_file(const char *path, const char *run)
{
    run_losses losses = {0};
    td_train_settings s = run_settings("gan", run, 1);
    s.init_from = path;
    s.schedule.lr = 2e-12;
    s.val_every = 1;
    s.tell = run_keep_loss;
    s.context = &losses;
    (void)run_train(&s);
    return losses.validation;
}

static void test_averages_validate(void **state)
{
    (void)state;
    td_checkpoint *c;
    run_losses losses = {0};
    td_train_settings s = run_settings("gan", "averaged", 5);
    s.average = true;
    s.optimizer.average_decay = 0.8F;
    s.val_every = 5;
    s.tell = run_keep_loss;
    s.context = &losses;
    const td_train_result result = run_train(&s);
    char slim[512];
    snprintf(slim, sizeof slim, "%s", temp_path("slim.safetensors"));
    check(td_checkpoint_open(result.checkpoint, &c));
    check(td_checkpoint_write_slim(c, slim));
    td_checkpoint_close(c);
    assert_true(losses.validation > 0);
    const double averages = validate_file(slim, "averages");
    const double parameters = validate_file(result.checkpoint, "parameters");
    assert_true(fabs(averages - losses.validation) < 1e-6 * losses.validation);
    assert_true(fabs(parameters - losses.validation) > 1e-3 * losses.validation);
}

/* Both learners' numbers are in one file. */
static void test_a_step_is_dumped(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"batch.mel",
                                        "batch.adversarial_weight",
                                        "grad.generator.inside.weight",
                                        "grad.discriminator.inside.weight",
                                        "updated.generator.out.weight",
                                        "loss.generator.total",
                                        "loss.generator.mel",
                                        "loss.discriminator.total"};
    td_safetensors *file;
    char path[512];
    td_train_settings s = run_settings("gan", "run", 5);
    snprintf(path, sizeof path, "%s", temp_path("step.safetensors"));
    s.dump_step = path;
    (void)run_train(&s);
    check(td_safetensors_open(path, &file));
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; ++i)
        if (td_safetensors_find(file, NAMES[i]) == NULL) fail_msg("there is no %s", NAMES[i]);
    assert_non_null(td_safetensors_metadata_find(file, "train.generator.lr"));
    assert_non_null(td_safetensors_metadata_find(file, "train.discriminator.updates"));
    assert_null(td_safetensors_metadata_find(file, "train.lr")); /* each learner tells its own */
    td_safetensors_close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_its_table_holds),
        cmocka_unit_test_setup_teardown(test_learners_take_turns, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_gradients_accumulate, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_each_is_told_under_its_name, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_going_on_gives_the_same_bits, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_averages_validate, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_a_step_is_dumped, run_set_up, temp_dir_remove),
    };
    return cmocka_run_group_tests(tests, run_open, run_close);
}
