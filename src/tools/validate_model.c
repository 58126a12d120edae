/* Group 3 of `tandem validate`: the model "pico", forward and backward on the model device, against PyTorch
 * in double precision. Parameters and batch come from their names alone, so only results are stored: the
 * loss, and of each gradient its norm and its product with numbers made from its name
 * (tests/oracle/make_validate_golden.py). Covered by tests/device/test_validate.c. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "families/family.h"
#include "tools/validate_golden.inc"
#include "tools/validate_internal.h"

enum { ITEMS = 2, TOKENS = 12, FRAMES = 40 };

/* Of the loss, and of gradients relative to their norms. */
static const double LOSS_ERROR = 1e-4, GRADIENT_ERROR = 1e-3;

typedef struct golden {
    const char *name;
    double norm, product;
} golden;

static const golden GRADIENTS[] = {
#define GOLDEN_ROW(name_, norm_, product_) {name_, norm_, product_},
    TD_VALIDATE_GRADIENTS(GOLDEN_ROW)
#undef GOLDEN_ROW
};
enum { N_GRADIENTS = sizeof GRADIENTS / sizeof GRADIENTS[0] };

/* ---------------------------------------------------------------- values from names */

/* Element i of `name`, uniform in [-1, 1): splitmix64, seeded by the FNV-1a hash of the name. */
static float draw(const char *name, size_t i)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char *c = name; *c; ++c)
        hash = (hash ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
    uint64_t x = hash + (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (float)((x ^ (x >> 31)) >> 40) * 0x1p-23F - 1;
}

static bool ends_with(const char *name, const char *word)
{
    const size_t n = strlen(name), w = strlen(word);
    return n >= w && strcmp(name + n - w, word) == 0;
}

/* As first_values() of tests/oracle/make_model_golden.py. */
static void make_values(const char *name, td_shape shape, float *values)
{
    const size_t n = (size_t)td_shape_size(shape);
    const double rows = (double)n / shape.dims[shape.n_dims - 1];
    const bool is_gamma = ends_with(name, ".gamma");
    const float scale = is_gamma || ends_with(name, ".beta") || ends_with(name, ".bias") ? 0.1F
                        : ends_with(name, ".embedding") || ends_with(name, ".table")
                            ? 0.5F
                            : (float)(1 / sqrt(rows));
    for (size_t i = 0; i < n; ++i)
        values[i] = (is_gamma ? 1 : 0) + scale * draw(name, i);
}

/* ---------------------------------------------------------------- the step */

typedef struct step {
    td_memory *memory;
    td_graph *graph;
    td_store *store;
    td_plan *plan;
} step;

static void close_step(step *s)
{
    td_plan_destroy(s->plan);
    td_store_destroy(s->store);
    td_graph_destroy(s->graph);
    td_memory_destroy(s->memory);
}

static td_status build(td_device *device, step *s)
{
    const td_batch_shape shape = {.items = ITEMS, .tokens = TOKENS, .frames = FRAMES};
    td_model_config config;
    TD_CHECK(td_model_preset(td_family_at(0), "pico", &config));
    TD_CHECK(td_memory_create(device, "model", 0, &s->memory));
    TD_CHECK(td_family_build(&(td_build){.config = &config, .shape = shape, .backward = true}, &s->graph));
    TD_CHECK(td_store_create(s->memory, s->graph, &(td_store_options){.training = true}, &s->store));
    TD_CHECK(td_plan_create(s->store, s->graph, &(td_plan_options){.slots = 1}, &s->plan));
    return td_store_init_constants(s->store);
}

static td_status fill_parameters(step *s)
{
    float *values = NULL;
    td_status status = TD_OK;
    for (size_t i = 0; i < td_store_count(s->store); ++i) {
        const td_store_entry entry = td_store_get(s->store, i);
        if (entry.role != TD_TENSOR_PARAMETER) continue;
        free(values);
        TD_TRY(TD_NEW_ARRAY(&values, td_shape_size(entry.shape)));
        make_values(entry.name, entry.shape, values);
        TD_TRY(td_store_write(s->store, i, TD_BLOCK_WEIGHT, values));
    }
fail:
    free(values);
    return status;
}

static td_status fill_batch(step *s)
{
    static const uint32_t TOKEN_COUNTS[ITEMS] = {12, 9}, FRAME_COUNTS[ITEMS] = {40, 31};
    uint32_t ids[ITEMS * TOKENS];
    float *mel = NULL;
    td_status status = TD_OK;
    const td_tensor input = td_graph_find_input(s->graph, "mel");
    const td_shape shape = td_graph_shape(s->graph, input);
    const size_t n = (size_t)td_shape_size(shape);
    for (uint32_t i = 0; i < ITEMS * TOKENS; ++i)
        ids[i] = i * 7 % 60 + 4;
    TD_TRY(TD_NEW_ARRAY(&mel, n));
    make_values("batch.mel", shape, mel);
    for (size_t i = 0; i < n; ++i)
        mel[i] *= 20;
    TD_TRY(td_plan_fill(s->plan, 0, td_graph_find_input(s->graph, "token_ids"), ids));
    TD_TRY(td_plan_fill(s->plan, 0, td_graph_find_input(s->graph, "token_counts"), TOKEN_COUNTS));
    TD_TRY(td_plan_fill(s->plan, 0, td_graph_find_input(s->graph, "frame_counts"), FRAME_COUNTS));
    TD_TRY(td_plan_fill(s->plan, 0, input, mel));
fail:
    free(mel);
    return status;
}

/* ---------------------------------------------------------------- comparing */

static td_status compare_loss(step *s, double *loss, double *error)
{
    td_scalars scalars;
    *loss = NAN;
    TD_CHECK(td_plan_scalars(s->plan, td_plan_runs(s->plan) - 1, &scalars));
    for (size_t i = 0; i < scalars.count; ++i)
        if (strcmp(scalars.names[i], "loss") == 0) *loss = (double)scalars.values[i];
    *error = fabs(*loss - TD_VALIDATE_LOSS) / TD_VALIDATE_LOSS;
    TD_REFUSE_IF(!(*error <= LOSS_ERROR), TD_ERR_INTEGRITY,
                 "the loss is %.7g, but should be %.7g: the device computes the forward pass wrong; see its "
                 "driver's version, or choose another device",
                 *loss, TD_VALIDATE_LOSS);
    return TD_OK;
}

/* How far a gradient is from the reference, in norms. `probe` has room for as many values. */
static double compare_gradient(const golden *expected, td_shape shape, const float *values, float *probe)
{
    char name[128];
    double squares = 0, product = 0, probes = 0;
    const size_t n = (size_t)td_shape_size(shape);
    (void)snprintf(name, sizeof name, "probe.%s", expected->name);
    make_values(name, shape, probe);
    for (size_t i = 0; i < n; ++i) {
        squares += (double)values[i] * (double)values[i];
        product += (double)values[i] * (double)probe[i];
        probes += (double)probe[i] * (double)probe[i];
    }
    const double norm_error = fabs(sqrt(squares) - expected->norm) / expected->norm;
    const double product_error = fabs(product - expected->product) / (expected->norm * sqrt(probes));
    return !(norm_error <= product_error) ? norm_error : product_error;
}

static const golden *find_golden(const char *name)
{
    for (size_t i = 0; i < N_GRADIENTS; ++i)
        if (strcmp(GRADIENTS[i].name, name) == 0) return &GRADIENTS[i];
    return NULL;
}

static td_status compare_gradients(step *s, size_t *compared, double *worst)
{
    float *values = NULL;
    td_status status = TD_OK;
    *compared = 0;
    *worst = 0;
    for (size_t i = 0; i < td_store_count(s->store); ++i) {
        const td_store_entry entry = td_store_get(s->store, i);
        const size_t n = (size_t)td_shape_size(entry.shape);
        const golden *expected = find_golden(entry.name);
        if (entry.role != TD_TENSOR_PARAMETER || !expected) continue;
        free(values);
        TD_TRY(TD_NEW_ARRAY(&values, 2 * n)); /* the gradient, then room for the probe */
        TD_TRY(td_store_read(s->store, i, TD_BLOCK_GRADIENT, values));
        const double error = compare_gradient(expected, entry.shape, values, values + n);
        ++*compared;
        if (!(error <= *worst)) *worst = error;
        TD_FAIL_IF(!(error <= GRADIENT_ERROR), TD_ERR_INTEGRITY,
                   "the gradient of %s is off by %.2g of its norm: the device computes the backward pass "
                   "wrong; see its driver's version, or choose another device",
                   entry.name, error);
    }
    TD_FAIL_IF(*compared != N_GRADIENTS, TD_ERR_INTEGRITY,
               "the model has %zu of the reference's %d gradients; make the table again", *compared,
               (int)N_GRADIENTS);
fail:
    free(values);
    return status;
}

static td_status run_step(step *s)
{
    td_point reached;
    TD_CHECK(fill_parameters(s));
    TD_CHECK(fill_batch(s));
    TD_CHECK(td_plan_run(s->plan, &(td_run){0}, &reached));
    return td_point_wait(reached, TD_VALIDATE_PATIENCE_NS);
}

static td_status check_step(td_validate_run_state *run, step *s)
{
    char detail[160] = "";
    double loss = 0, error = 0, worst = 0;
    size_t compared = 0;
    td_status outcome = run_step(s);
    if (outcome == TD_OK) outcome = compare_loss(s, &loss, &error);
    (void)snprintf(detail, sizeof detail, "loss %.6g, %.1g away from the reference", loss, error);
    TD_CHECK(td_validate_note_call(run, TD_VALIDATE_MODEL, outcome, "forward", detail));
    if (outcome != TD_OK) return TD_OK;
    outcome = compare_gradients(s, &compared, &worst);
    (void)snprintf(detail, sizeof detail, "%zu gradients, at most %.1g of their norm away from the reference",
                   compared, worst);
    return td_validate_note_call(run, TD_VALIDATE_MODEL, outcome, "backward", detail);
}

td_status td_validate_model(td_validate_run_state *run)
{
    step s = {0};
    char detail[96];
    td_plan_stats stats = {0};
    td_status status = TD_OK;
    const td_status built = build(run->devices[1], &s);
    if (built == TD_OK) td_plan_get_stats(s.plan, &stats);
    (void)snprintf(detail, sizeof detail, "pico: %zu nodes in %zu launches", stats.nodes, stats.launches);
    TD_TRY(td_validate_note_call(run, TD_VALIDATE_MODEL, built, "build", detail));
    if (built == TD_OK && run->infos[1]->type == TD_DEVICE_SIM)
        TD_TRY(td_validate_note(run, TD_VALIDATE_MODEL, TD_CHECK_SKIP, "forward and backward",
                                "a simulated device computes nothing to compare"));
    else if (built == TD_OK)
        TD_TRY(check_step(run, &s));
fail:
    close_step(&s);
    return status;
}
