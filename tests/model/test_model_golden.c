/* Loss, gradients and one update against tests/oracle/make_model_golden.py, make_vocoder_golden.py,
 * make_xtts_vocoder_golden.py and make_dvae_golden.py, in all families, with and without speakers, on every device: loss within 1e-5, each gradient within 1e-4, parameters
 * after an update within 1e-5; and what a flow decoder makes within 1e-5. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/safetensors.h"
#include "rig.h"

static const char *const cases[] = {
    "nar",         "nar_speaker",           "nar_flow",        "ar",   "ar_speaker", "vocoder",
    "vocoder_gan", "vocoder_discriminator", "vocoder_hifigan", "dvae", "dvae_one",   "xtts_vocoder"};

#define RATE 1e-3
static const td_optimizer_options adam = {
    .beta1 = 0.9f, .beta2 = 0.98f, .eps = 1e-4f, .decay = 0.01f, .max_norm = 1};

/* ---------------------------------------------------------------- the file */

static td_safetensors *open_case(const char *name)
{
    char path[512];
    td_safetensors *file = NULL;
    snprintf(path, sizeof path, GOLDEN_DIR "/model_%s.safetensors", name);
    check(td_safetensors_open(path, &file));
    return file;
}

static const td_safetensors_tensor *find(const td_safetensors *file, const char *prefix, const char *name)
{
    char whole[128];
    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    const td_safetensors_tensor *t = td_safetensors_find(file, whole);
    if (!t) {
        print_error("the golden file has no %s\n", whole);
        fail();
    }
    return t;
}

/* The files hold keys of both families; each takes its own. */
static td_model_config read_config(const td_safetensors *file)
{
    td_model_config c;
    const char *family = td_safetensors_metadata_find(file, "family");
    if (!family) family = td_safetensors_metadata_find(file, "decoder_strategy");
    check(td_model_preset(td_family_find(family), "pico", &c));
    for (size_t i = 0; i < c.family->n_keys; i++) {
        const char *value = td_safetensors_metadata_find(file, c.family->keys[i].name);
        if (strcmp(c.family->keys[i].name, "loss_supervision") == 0 ||
            strcmp(c.family->keys[i].name, "loss_guided") == 0)
            value = "1"; /* weights of the script */
        if (value) check(td_model_config_put(&c, c.family->keys[i].name, value));
    }
    if (td_safetensors_metadata_find(file, "mel_kind")) check(td_model_config_put(&c, "mel_loss", "huber"));
    return c;
}

/* Fills every input that the graph has from the tensor of its name. */
static void fill_inputs(const td_safetensors *file, td_plan *plan, const td_graph *g)
{
    const float supervision = 0.3f, guided = 2;
    for (size_t i = 0; i < td_graph_input_count(g); i++) {
        const td_tensor input = td_graph_input_at(g, i);
        const char *name = td_graph_name(g, input);
        const void *values = strcmp(name, "supervision_weight") == 0 ? &supervision
                             : strcmp(name, "guided_weight") == 0    ? &guided
                                                                     : NULL;
        if (!values) {
            const td_safetensors_tensor *t = find(file, "batch.", name);
            assert_int_equal(t->bytes, 4 * td_shape_size(td_graph_shape(g, input)));
            values = t->data;
        }
        check(td_plan_fill(plan, 0, input, values));
    }
}

/* As first_values() of the script. */
static void first_values(const char *name, td_shape shape, float *values)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    const char *kind = strrchr(name, '.') + 1;
    const size_t n = (size_t)td_shape_size(shape);
    for (const char *c = name; *c; c++)
        hash = (hash ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
    const float bound = (float)(1 / sqrt((double)n / shape.dims[shape.n_dims - 1]));
    for (size_t i = 0; i < n; i++) {
        uint64_t x = hash + (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
        x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
        x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
        const float v = (float)((x ^ (x >> 31)) >> 40) * 0x1p-23f - 1;
        if (strcmp(kind, "gamma") == 0 || strcmp(kind, "weight_g") == 0 || strcmp(kind, "original0") == 0)
            values[i] = 1 + 0.1f * v;
        else if (strcmp(kind, "beta") == 0 || strcmp(kind, "bias") == 0)
            values[i] = 0.1f * v;
        else if (strcmp(kind, "embedding") == 0 || strcmp(kind, "table") == 0)
            values[i] = 0.5f * v;
        else
            values[i] = bound * v;
    }
}

/* ---------------------------------------------------------------- comparing */

/* Every loss of the file is one of the graph, and the other way round. */
static void compare_losses(const td_safetensors *file, const trainer *t)
{
    td_scalars scalars;
    size_t expected_count = 0;
    check(td_plan_scalars(t->plan, td_plan_runs(t->plan) - 1, &scalars));
    for (size_t i = 0; i < td_safetensors_count(file); i++)
        expected_count += strncmp(td_safetensors_at(file, i)->name, "loss", 4) == 0;
    assert_int_equal(scalars.count, expected_count);
    for (size_t i = 0; i < scalars.count; i++) {
        const double expected = *(const double *)find(file, "", scalars.names[i])->data;
        const double got = (double)scalars.values[i];
        if (!(fabs(got - expected) <= 1e-5 * fabs(expected))) {
            print_error("%s is %.9g instead of %.9g\n", scalars.names[i], got, expected);
            fail();
        }
    }
}

/* The gradient of an entry, then the entry after the update, against p - rate (g' / (|g'| + eps) + decay p)
 * with the golden, clipped gradient g', and against the sums that AdamW of PyTorch gave. */
static double compare_entry(const td_safetensors *file, const trainer *t, size_t i, double norm)
{
    const td_store_entry entry = td_store_get(t->store, i);
    const size_t n = (size_t)td_shape_size(entry.shape);
    const td_safetensors_tensor *golden = find(file, "grad.", entry.name);
    const float *g = golden->data;
    const double *sums = find(file, "updated.", entry.name)->data;
    float *got = calloc(n, sizeof *got), *expected = calloc(n, sizeof *expected);
    double sum = 0, squares = 0, size = 0;
    assert_int_equal(golden->bytes, n * sizeof *got);
    check(td_store_read(t->store, i, TD_BLOCK_GRADIENT, got));
    for (size_t e = 0; e < n; e++)
        size += (double)g[e] * (double)g[e];
    /* Some gradients are zero but for rounding: keys have no use of a bias. */
    double error = relative_error(got, g, n);
    if (sqrt(size) < 1e-6 * norm) error *= sqrt(size) / (1e-6 * norm);
    first_values(entry.name, entry.shape, expected);
    for (size_t e = 0; e < n; e++) {
        const double clipped = (double)g[e] * (norm > 1 ? 1 / norm : 1);
        const double p = (double)expected[e] * (entry.group == TD_PARAM_DECAY ? 1 - RATE * 0.01 : 1);
        expected[e] = (float)(p - RATE * clipped / (fabs(clipped) + 1e-4));
    }
    check(td_store_read(t->store, i, TD_BLOCK_WEIGHT, got));
    for (size_t e = 0; e < n; e++) {
        sum += (double)got[e];
        squares += (double)got[e] * (double)got[e];
    }
    const double updated = relative_error(got, expected, n);
    if (!(error <= 1e-4) || !(updated <= 1e-5) || !(fabs(squares - sums[1]) <= 2e-5 * sums[1]) ||
        !(fabs(sum - sums[0]) <= 1e-5 * sqrt((double)n * sums[1]))) {
        print_error("%s: gradient off by %g, updated by %g, sums %.9g %.9g instead of %.9g %.9g\n",
                    entry.name, error, updated, sum, squares, sums[0], sums[1]);
        fail();
    }
    free(got);
    free(expected);
    return error;
}

static td_batch_shape read_shape(const td_safetensors *file)
{
    const td_safetensors_tensor *latents = td_safetensors_find(file, "batch.latents");
    const td_safetensors_tensor *mel = latents ? latents : find(file, "batch.", "mel");
    const td_safetensors_tensor *ids = td_safetensors_find(file, "batch.token_ids");
    const td_safetensors_tensor *reference = td_safetensors_find(file, "batch.reference_mel");
    return (td_batch_shape){.items = (uint32_t)mel->dims[0],
                            .tokens = ids ? (uint32_t)ids->dims[1] : 1,
                            .frames = (uint32_t)mel->dims[1],
                            .reference_frames = reference ? (uint32_t)reference->dims[1] : 0};
}

static const td_safetensors_tensor *find_given(const td_safetensors *file, const char *prefix,
                                               const td_store_entry *entry)
{
    char name[128];
    snprintf(name, sizeof name, "%s%s", prefix, entry->name);
    const td_safetensors_tensor *given = td_safetensors_find(file, name);
    if (given) assert_int_equal(given->bytes, 4 * td_shape_size(entry->shape));
    return given;
}

/* What the file has in place of a constant, of a state, or of a parameter that is not trained; false: nothing. */
static bool fill_given(const td_safetensors *file, const trainer *t, size_t i)
{
    const td_store_entry entry = td_store_get(t->store, i);
    const td_safetensors_tensor *given =
        find_given(file, entry.role == TD_TENSOR_PARAMETER ? "param." : "state.", &entry);
    if (given) check(td_store_write(t->store, i, TD_BLOCK_WEIGHT, given->data));
    return given;
}

/* States that a step has moved. */
static void compare_states(const td_safetensors *file, const trainer *t)
{
    for (size_t i = 0; i < td_store_count(t->store); i++) {
        const td_store_entry entry = td_store_get(t->store, i);
        const td_safetensors_tensor *after = find_given(file, "after.", &entry);
        if (!after) continue;
        const size_t n = (size_t)td_shape_size(entry.shape);
        float *got = calloc(n, sizeof *got);
        check(td_store_read(t->store, i, TD_BLOCK_WEIGHT, got));
        const double error = relative_error(got, after->data, n);
        if (!(error <= 1e-5)) fail_msg("%s is off by %g behind a step", entry.name, error);
        free(got);
    }
}

static void put_first_values(const td_safetensors *file, const trainer *t)
{
    for (size_t i = 0; i < td_store_count(t->store); i++) {
        const td_store_entry entry = td_store_get(t->store, i);
        if (fill_given(file, t, i) || entry.role != TD_TENSOR_PARAMETER) continue;
        float *values = calloc((size_t)td_shape_size(entry.shape), sizeof *values);
        first_values(entry.name, entry.shape, values);
        check(td_store_write(t->store, i, TD_BLOCK_WEIGHT, values));
        free(values);
    }
}

static void compare(const rig *r, const char *name)
{
    td_safetensors *file = open_case(name);
    const td_model_config config = read_config(file);
    const td_batch_shape shape = read_shape(file);
    td_optimizer *optimizer = NULL;
    trainer t;
    size_t parameters = 0;
    double worst = 0;
    const char *learner = td_safetensors_metadata_find(file, "learner");
    trainer_open_config(
        &t, r, &config, shape,
        &(td_build){.backward = true, .learner = learner && strcmp(learner, "1") == 0 ? 1 : 0});
    put_first_values(file, &t);
    check(td_optimizer_create(t.store, 0, &adam, &optimizer));
    fill_inputs(file, t.plan, t.graph);
    run_plan(t.plan, 0, optimizer, (float)RATE);
    compare_losses(file, &t);
    compare_states(file, &t);
    const double norm = *(const double *)find(file, "", "norm")->data;
    for (size_t i = 0; i < td_store_count(t.store); i++) {
        const td_store_entry entry = td_store_get(t.store, i);
        if (entry.role != TD_TENSOR_PARAMETER || entry.learner == TD_MAX_LEARNERS) continue;
        parameters++;
        const double error = compare_entry(file, &t, i, norm);
        if (error > worst) worst = error;
    }
    size_t expected = 0;
    for (size_t i = 0; i < td_safetensors_count(file); i++)
        expected += strncmp(td_safetensors_at(file, i)->name, "grad.", 5) == 0;
    assert_int_equal(parameters, expected);
    print_message("    %s: %zu parameters, worst gradient off by %.1e\n", name, parameters, worst);
    td_optimizer_destroy(optimizer);
    trainer_close(&t);
    td_safetensors_close(file);
}

/* ---------------------------------------------------------------- synthesis of the flow decoder */

#define MADE_SEED 9 /* as MADE of the script */
#define MADE_STEP 5

static float *run_encoder(const td_safetensors *file, const trainer *t, const td_batch_shape *shape)
{
    td_graph *g = NULL;
    td_plan *plan = NULL;
    const td_acoustic c = td_acoustic_get(&t->config);
    check(td_parallel_encoder_graph(&t->config, shape, 0, &g));
    check(td_plan_create(t->store, g, &(td_plan_options){.forward_only = true}, &plan));
    fill_inputs(file, plan, g);
    run_plan(plan, 0, NULL, 0);
    float *hidden = read_output(plan, td_graph_find_output(g, "hidden"),
                                (size_t)shape->items * shape->tokens * c.text_width);
    td_plan_destroy(plan);
    td_graph_destroy(g);
    return hidden;
}

/* Of each item as many frames as it has. */
static void compare_output(const td_safetensors *file, td_plan *plan, const td_graph *g, const char *output,
                           const char *name)
{
    const td_safetensors_tensor *golden = find(file, "made.", name);
    const uint32_t *counts = find(file, "batch.", "frame_counts")->data;
    const size_t items = (size_t)golden->dims[0], channels = (size_t)golden->dims[2];
    const size_t row = (size_t)golden->dims[1] * channels;
    float *made = read_output(plan, td_graph_find_output(g, output), items * row);
    for (size_t i = 0; i < items; i++) {
        const double error =
            relative_error(made + i * row, (const float *)golden->data + i * row, counts[i] * channels);
        if (!(error <= 1e-5)) {
            print_error("%s of item %zu is made with an error of %g\n", name, i, error);
            fail();
        }
    }
    free(made);
}

static void compare_made(const rig *r, const char *name)
{
    td_safetensors *file = open_case(name);
    const td_model_config config = read_config(file);
    const td_acoustic c = td_acoustic_get(&config);
    const td_safetensors_tensor *index = find(file, "made.", "index");
    const td_safetensors_tensor *durations = find(file, "made.", "durations");
    const uint32_t *counts = find(file, "batch.", "frame_counts")->data;
    const td_batch_shape shape = {(uint32_t)index->dims[0], (uint32_t)durations->dims[1],
                                  (uint32_t)index->dims[1], 0};
    td_graph *g = NULL;
    td_plan *plan = NULL;
    trainer t;
    trainer_open(&t, r, config.family, &c, shape, &(td_build){.backward = true});
    put_first_values(file, &t);
    float *hidden = run_encoder(file, &t, &shape);
    check(td_parallel_decoder_graph(&t.config, &shape, MADE_SEED, &g));
    check(td_plan_create(t.store, g, &(td_plan_options){.forward_only = true}, &plan));
    check(td_plan_fill(plan, 0, td_graph_find_input(g, "hidden"), hidden));
    check(td_plan_fill(plan, 0, td_graph_find_input(g, "pitch"), find(file, "made.", "pitch")->data));
    check(td_plan_fill(plan, 0, td_graph_find_input(g, "durations"), durations->data));
    check(td_plan_fill(plan, 0, td_graph_find_input(g, "index"), index->data));
    check(td_plan_fill(plan, 0, td_graph_find_input(g, "frame_counts"), counts));
    run_plan(plan, MADE_STEP, NULL, 0);
    compare_output(file, plan, g, "predicted_mel", "mel");
    compare_output(file, plan, g, "frame_pitch", "frame_pitch");
    free(hidden);
    td_plan_destroy(plan);
    td_graph_destroy(g);
    trainer_close(&t);
    td_safetensors_close(file);
}

static void test_golden(rig_kind kind)
{
    rig r;
    if (!rig_open(&r, kind, 0)) return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        compare(&r, cases[i]);
    compare_made(&r, "nar_flow");
    rig_close(&r);
}

static void test_cl_cpu(void **state)
{
    (void)state;
    test_golden(RIG_CL_CPU);
}

static void test_cl_gpu(void **state)
{
    (void)state;
    test_golden(RIG_CL_GPU);
}

static void test_vk(void **state)
{
    (void)state;
    test_golden(RIG_VK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cl_cpu),
        cmocka_unit_test(test_vk),
        cmocka_unit_test(test_cl_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
