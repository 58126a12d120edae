/* A step of training the GPT against the public package on shrunk models (tests/oracle/make_xtts_train_golden.py): both
 * losses, every gradient and every parameter after an update, for one item and for three of different lengths, with
 * prompts masked as the package does, as it was meant, and not; and of adapters beside frozen matrices. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "graph/optimizer.h"
#include "graph/plan.h"

enum { SIGNS = 8, WORDS = 1 + SIGNS };

/* ---------------------------------------------------------------- a model and a batch */

typedef struct bench {
    rig r;
    golden g;
    td_model_config config;
    td_batch_shape shape;
    td_graph *graph;
    td_store *store;
    td_plan *plan;
} bench;

static void put(td_model_config *config, const char *key, const char *value)
{
    check(td_model_config_put(config, key, value));
}

static void choose_way(bench *b, const char *way)
{
    const bool is_lora = strcmp(way, "lora") == 0;
    put(&b->config, "prompt_masking", is_lora ? "coqui" : way);
    if (!is_lora) return;
    put(&b->config, "tune", "lora");
    put(&b->config, "lora_rank", golden_text(&b->g, "lora_rank"));
    put(&b->config, "lora_alpha", golden_text(&b->g, "lora_alpha"));
    put(&b->config, "lora_targets", golden_text(&b->g, "lora_targets"));
}

static void fill_store(td_store *store)
{
    for (size_t i = 0; i < td_store_count(store); i++) {
        const td_store_entry entry = td_store_get(store, i);
        td_checkpoint_tensor_data t = {.rank = entry.shape.n_dims, .bytes = 4 * td_shape_size(entry.shape)};
        float *values = malloc((size_t)t.bytes);
        assert_non_null(values);
        for (size_t d = 0; d < t.rank; d++)
            t.dims[d] = entry.shape.dims[d];
        golden_fill(entry.name, &t, values);
        check(td_store_write(store, i, TD_BLOCK_WEIGHT, values));
        free(values);
    }
}

static void fill_inputs(const bench *b)
{
    for (size_t i = 0; i < td_graph_input_count(b->graph); i++) {
        const td_tensor input = td_graph_input_at(b->graph, i);
        const size_t n = (size_t)td_shape_size(td_graph_shape(b->graph, input));
        check(td_plan_fill(b->plan, 0, input, golden_values(&b->g, td_graph_name(b->graph, input), n)));
    }
}

static bool open_step(bench *b, rig_kind kind, const char *name, const char *way,
                      const td_plan_options *options)
{
    *b = (bench){0};
    if (!rig_open(&b->r, kind, 0)) return false;
    golden_open_numbers(&b->g, name, &b->config);
    choose_way(b, way);
    const size_t items = golden_count(&b->g, "text_counts");
    const size_t bands = td_xtts_get(&b->config).n_mels;
    b->shape =
        (td_batch_shape){.items = (uint32_t)items,
                         .tokens = (uint32_t)(golden_count(&b->g, "text_ids") / items),
                         .frames = (uint32_t)(golden_count(&b->g, "codes") / items * TD_XTTS_FRAMES_PER_CODE),
                         .reference_frames = (uint32_t)(golden_count(&b->g, "cond_mel") / items / bands)};
    check(td_family_build(&(td_build){.config = &b->config, .shape = b->shape, .backward = true}, &b->graph));
    check(td_store_create(b->r.memory, b->graph, &(td_store_options){.training = true, .half = options->half},
                          &b->store));
    check(td_plan_create(b->store, b->graph, options, &b->plan));
    fill_store(b->store);
    fill_inputs(b);
    return true;
}

static void close_step(bench *b)
{
    td_plan_destroy(b->plan);
    td_store_destroy(b->store);
    td_graph_destroy(b->graph);
    golden_close(&b->g);
    rig_close(&b->r);
}

/* ---------------------------------------------------------------- comparing */

/* Norm of the difference of two tensors, relative to that of the second, by products with vectors of signs. */
static double compare_digest(const char *name, const float *values, size_t n, const float *expected)
{
    double sums[SIGNS] = {0}, square = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t bits = golden_hash(name, i);
        for (int k = 0; k < SIGNS; k++)
            sums[k] += bits >> k & 1 ? (double)values[i] : -(double)values[i];
    }
    for (int k = 0; k < SIGNS; k++)
        square += pow(sums[k] - (double)expected[1 + k], 2) / SIGNS;
    return sqrt(square) / (double)expected[0];
}

static const float *find_digest(const bench *b, const char *way, const char *what, const char *name)
{
    char key[64];
    snprintf(key, sizeof key, "%s.names", way);
    const td_safetensors_tensor *list = td_safetensors_find(b->g.file, key);
    snprintf(key, sizeof key, "%s.%s", way, what);
    const float *digests = golden_values(&b->g, key, 0);
    const char *at = list->data, *end = at + list->bytes;
    for (; at < end; digests += WORDS, at = (const char *)memchr(at, ';', (size_t)(end - at)) + 1)
        if (strncmp(at, name, strlen(name)) == 0 && at[strlen(name)] == ';') return digests;
    return NULL;
}

/* Every tensor that learns must be in the file, and the other way round. */
static void compare_block(bench *b, const char *way, td_block block, const char *what, double tolerance)
{
    char key[64];
    size_t n_learnt = 0;
    for (size_t i = 0; i < td_store_count(b->store); i++) {
        const td_store_entry entry = td_store_get(b->store, i);
        const size_t n = (size_t)td_shape_size(entry.shape);
        const float *expected = find_digest(b, way, what, entry.name);
        if (entry.learner == TD_MAX_LEARNERS) continue;
        if (!expected) fail_msg("the package does not train %s", entry.name);
        float *values = calloc(n, sizeof *values);
        check(td_store_read(b->store, i, block, values));
        const double error = compare_digest(entry.name, values, n, expected);
        if (!(error <= tolerance)) fail_msg("%s, %s of %s: wrong by %g", way, what, entry.name, error);
        free(values);
        n_learnt++;
    }
    snprintf(key, sizeof key, "%s.%s", way, what);
    assert_int_equal(n_learnt, golden_count(&b->g, key) / WORDS);
}

static void run_step(bench *b, const char *way, double tolerance)
{
    char key[64];
    td_scalars scalars;
    check(td_plan_run(b->plan, &(td_run){.slot = 0}, NULL));
    check(td_plan_scalars(b->plan, 0, &scalars));
    snprintf(key, sizeof key, "%s.losses", way);
    const float *losses = golden_values(&b->g, key, 2);
    for (size_t i = 0; i < scalars.count; i++) {
        const bool is_text = strcmp(scalars.names[i], "loss.text") == 0;
        if (!is_text && strcmp(scalars.names[i], "loss.mel") != 0) continue;
        const double expected = (double)losses[is_text ? 0 : 1];
        if (!(fabs((double)scalars.values[i] - expected) <= tolerance * expected))
            fail_msg("%s, %s is %.8g, not %.8g", way, scalars.names[i], (double)scalars.values[i], expected);
    }
    assert_int_equal(scalars.count, 3);
}

static void update(bench *b)
{
    td_optimizer *optimizer;
    check(td_optimizer_create(b->store, 0,
                              &(td_optimizer_options){.beta1 = 0.9F,
                                                      .beta2 = 0.96F,
                                                      .eps = (float)golden_number(&b->g, "eps"),
                                                      .decay = (float)golden_number(&b->g, "decay")},
                              &optimizer));
    check(td_optimizer_step(optimizer, (float)golden_number(&b->g, "lr"), NULL));
    td_update result;
    check(td_optimizer_result(optimizer, 0, &result));
    td_optimizer_destroy(optimizer);
}

static void check_way(const char *name, const char *way, const td_plan_options *options)
{
    bench b;
    if (!open_step(&b, RIG_CL_CPU, name, way, options)) skip();
    run_step(&b, way, 1e-5);
    compare_block(&b, way, TD_BLOCK_GRADIENT, "gradients", 1e-4);
    update(&b);
    compare_block(&b, way, TD_BLOCK_WEIGHT, "updated", 1e-5);
    close_step(&b);
}

/* ---------------------------------------------------------------- tests */

static const char *const ways[] = {"coqui", "none", "all", "lora"};
enum { WAYS = sizeof ways / sizeof *ways };

static void test_one_item_is_learnt_as_by_the_package(void **state)
{
    (void)state;
    for (size_t i = 0; i < WAYS; i++)
        check_way("train_a", ways[i], &(td_plan_options){0});
}

static void test_a_ragged_batch_is_learnt_as_by_the_package(void **state)
{
    (void)state;
    for (size_t i = 0; i < WAYS; i++)
        check_way("train_b", ways[i], &(td_plan_options){0});
}

static void test_blocks_computed_again_give_the_same(void **state)
{
    (void)state;
    check_way("train_b", "coqui", &(td_plan_options){.checkpoint = true});
    check_way("train_b", "lora", &(td_plan_options){.checkpoint = true});
}

/* Losses alone: lavapipe is slow. And the kernels of graphics cards. */
static void test_losses_are_the_same_on_other_drivers(void **state)
{
    bench b;
    (void)state;
    if (!open_step(&b, RIG_VK, "train_a", "coqui", &(td_plan_options){.forward_only = true})) skip();
    run_step(&b, "coqui", 1e-5);
    close_step(&b);
    if (!open_step(&b, RIG_CL_GPU, "train_b", "coqui", &(td_plan_options){0})) skip();
    run_step(&b, "coqui", 1e-5);
    compare_block(&b, "coqui", TD_BLOCK_GRADIENT, "gradients", 1e-4);
    close_step(&b);
}

/* Masks differ, and so do losses: else the cases above would say nothing. */
static void test_masking_prompts_matters(void **state)
{
    td_model_config config;
    golden g;
    (void)state;
    golden_open_numbers(&g, "train_b", &config);
    const float *coqui = golden_values(&g, "coqui.losses", 2), *none = golden_values(&g, "none.losses", 2);
    const float *all = golden_values(&g, "all.losses", 2);
    assert_true(fabsf(coqui[1] - none[1]) > 1e-3f && fabsf(all[1] - none[1]) > 1e-3f &&
                fabsf(all[1] - coqui[1]) > 1e-3f);
    golden_close(&g);
}

static void test_what_is_too_long_is_refused(void **state)
{
    const td_family *family = td_family_find("xtts");
    td_model_config config;
    (void)state;
    check(td_model_preset(family, "base", &config));
    const td_batch_shape longest = {.items = 1, .tokens = 403, .frames = 604 * 4, .reference_frames = 1};
    td_batch_shape shape = longest;
    check(family->check_shape(&config.values, &shape));
    shape.tokens++;
    refuse(TD_ERR_LIMIT, "max_text_length", family->check_shape(&config.values, &shape));
    shape = longest;
    shape.frames++;
    refuse(TD_ERR_LIMIT, "max_mel_frames = 2416", family->check_shape(&config.values, &shape));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_item_is_learnt_as_by_the_package),
        cmocka_unit_test(test_a_ragged_batch_is_learnt_as_by_the_package),
        cmocka_unit_test(test_blocks_computed_again_give_the_same),
        cmocka_unit_test(test_losses_are_the_same_on_other_drivers),
        cmocka_unit_test(test_masking_prompts_matters),
        cmocka_unit_test(test_what_is_too_long_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
