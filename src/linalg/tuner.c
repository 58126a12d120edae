/* Tuner; see tuner.h. Candidates run interleaved, so that all of them meet the same machine, and the median
 * counts. */
#include "linalg/tuner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/stats.h"
#include "device/blocking.h"
#include "linalg/tuning.h"

#define ROUNDS_USUAL 7u
#define ROUNDS_MOST 100u
#define SAMPLE_NS 5e6 /* a run takes at least so long, by repeating the product */
#define HOPELESS 4.0  /* times slower than the best in its first run: measured no further */
#define CLEARLY 1.03
#define PLAIN_FLOPS 4e6 /* plain is a candidate only for small products */
#define PART_LEAST 128u /* terms of k worth a part */
#define GROUPS_FEW_PER_CORE 16u
#define PATIENCE_NS UINT64_C(120000000000)

/* One candidate while it is measured. */
typedef struct trial {
    td_gemm_choice choice;
    td_list *list; /* `repeats` products; NULL once set aside */
    uint32_t repeats;
    double *sample_ns; /* of one product, one entry per round */
} trial;

typedef struct tuner {
    td_device *device;
    td_memory *memory;
    td_gemm_problem problem; /* with a, b, c and workspace set */
    td_span host;            /* for up- and downloads: as large as the largest operand */
    size_t n_c;
    float *want;
    const td_tuner_options *options;
    trial trials[TD_TUNER_MAX_CANDIDATES];
    td_tuner_result *result;
} tuner;

/* ---------------------------------------------------------------- running lists */

/* Unlike elsewhere not forever: a candidate may hang a driver. */
static td_status run_list(const tuner *t, td_list *list, double *ns)
{
    td_point done;
    const uint64_t begin = td_clock_ns();
    TD_CHECK(
        td_queue_submit(td_device_queue(t->device, TD_QUEUE_COMPUTE), &(td_submission){.list = list}, &done));
    TD_CHECK(td_point_wait(done, PATIENCE_NS));
    *ns = (double)(td_clock_ns() - begin);
    return TD_OK;
}

static td_status record(const tuner *t, td_gemm_choice choice, uint32_t repeats, td_list **out)
{
    td_status status = TD_OK;
    TD_TRY(td_list_create(t->device, TD_QUEUE_COMPUTE, out));
    for (uint32_t i = 0; i < repeats; i++)
        TD_TRY(td_gemm_record(*out, &t->problem, choice));
    TD_TRY(td_list_finish(*out));
    return TD_OK;
fail:
    td_list_destroy(*out);
    *out = NULL;
    return status;
}

/* ---------------------------------------------------------------- operands */

static td_status fill_random(const tuner *t, td_span span, uint64_t elements, uint64_t stream)
{
    float *values = td_span_host(t->host);
    for (uint64_t i = 0; i < elements; i++)
        values[i] = td_rng_float(1, stream, i) - 0.5f;
    return td_blocking_copy(t->device, td_span_part(span, 0, 4 * elements),
                            td_span_part(t->host, 0, 4 * elements));
}

static td_status make_operands(tuner *t)
{
    td_gemm_desc *d = &t->problem.desc;
    const td_gemm_extent spans = td_gemm_extents(d);
    const uint64_t most_ab = spans.a > spans.b ? spans.a : spans.b;
    t->n_c = spans.c;
    TD_CHECK(td_memory_alloc(t->memory, TD_MEMORY_DEVICE, 4 * spans.a, &d->a));
    TD_CHECK(td_memory_alloc(t->memory, TD_MEMORY_DEVICE, 4 * spans.b, &d->b));
    TD_CHECK(td_memory_alloc(t->memory, TD_MEMORY_DEVICE, 4 * spans.c, &d->c));
    TD_CHECK(
        td_memory_alloc(t->memory, TD_MEMORY_HOST, 4 * (most_ab > spans.c ? most_ab : spans.c), &t->host));
    TD_CHECK(TD_NEW_ARRAY(&t->want, t->n_c));
    TD_CHECK(fill_random(t, d->a, spans.a, 0));
    return fill_random(t, d->b, spans.b, 1);
}

/* Runs one product by `choice` from a C full of NaN; its result is then in host memory. */
static td_status compute_once(const tuner *t, td_gemm_choice choice, double *ns)
{
    const td_span c = td_span_part(t->problem.desc.c, 0, 4 * t->n_c);
    td_list *list = NULL;
    td_status status = TD_OK;
    TD_TRY(td_list_create(t->device, TD_QUEUE_COMPUTE, &list));
    TD_TRY(td_list_fill(list, c, 0x7fc00000u));
    TD_TRY(td_gemm_record(list, &t->problem, choice));
    TD_TRY(td_list_finish(list));
    TD_TRY(run_list(t, list, ns)); /* the first run may build kernels */
    TD_TRY(run_list(t, list, ns));
    TD_TRY(td_blocking_copy(t->device, td_span_part(t->host, 0, 4 * t->n_c), c));
fail:
    td_list_destroy(list);
    return status;
}

/* ---------------------------------------------------------------- candidates */

static void add_candidate(tuner *t, td_gemm_variant variant, uint32_t splits)
{
    td_tuner_result *result = t->result;
    if (result->n_candidates == TD_TUNER_MAX_CANDIDATES) return;
    t->trials[result->n_candidates].choice = (td_gemm_choice){variant, splits};
    result->candidates[result->n_candidates++] =
        (td_tuner_candidate){.name = td_gemm_variant_get(variant)->name, .splits = splits};
}

/* Splitting k pays only where there is otherwise too little to do at once. */
static bool is_narrow(const td_gemm_problem *problem)
{
    const td_gemm_desc *d = &problem->desc;
    const uint64_t tiles = (uint64_t)d->batch * td_divide_up(d->m, 64) * td_divide_up(d->n, 64);
    return tiles < (uint64_t)GROUPS_FEW_PER_CORE * (problem->info->caps.compute_units + 1);
}

static bool can_split(const td_gemm_problem *problem, td_gemm_variant variant)
{
    td_gemm_problem split = *problem;
    split.splits = 2;
    return td_gemm_variant_get(variant)->splits && !td_gemm_variant_get(variant)->refuse(&split);
}

static void list_candidates(tuner *t)
{
    const td_gemm_problem *problem = &t->problem;
    const td_gemm_choice preferred = td_tuning_default(problem);
    add_candidate(t, preferred.variant, preferred.splits);
    for (int v = 0; v < TD_GEMM_V_COUNT; v++) {
        const td_gemm_variant variant = (td_gemm_variant)v;
        if (td_gemm_variant_get(variant)->refuse(problem)) continue;
        if (variant == TD_GEMM_V_PLAIN && td_gemm_cost(problem).flops > PLAIN_FLOPS) continue;
        /* On CPU drivers CLBlast has a tenth of the speed and builds for seconds. */
        if (variant == TD_GEMM_V_CLBLAST && problem->info->type == TD_DEVICE_CPU) continue;
        for (uint32_t splits = 1; splits <= 16; splits *= 2) {
            const bool sensible = splits == 1 || (is_narrow(problem) && can_split(problem, variant) &&
                                                  problem->desc.k / splits >= PART_LEAST);
            if (sensible && !(variant == preferred.variant && splits == preferred.splits))
                add_candidate(t, variant, splits);
        }
    }
}

static td_status reserve_workspace(tuner *t)
{
    uint64_t most = 0;
    for (size_t i = 0; i < t->result->n_candidates; i++) {
        const uint64_t bytes = td_gemm_workspace_of(&t->problem, t->trials[i].choice);
        if (bytes > most) most = bytes;
    }
    return most ? td_memory_alloc(t->memory, TD_MEMORY_DEVICE, most, &t->problem.desc.workspace) : TD_OK;
}

/* ---------------------------------------------------------------- judging and measuring */

static void reject(tuner *t, size_t i, const char *reason)
{
    td_tuner_candidate *candidate = &t->result->candidates[i];
    snprintf(candidate->reason, sizeof candidate->reason, "%s", reason);
    td_log_warn("tuning: %s (%u parts of k) is set aside for %u x %u x %u %s on %s: %s", candidate->name,
                candidate->splits, t->problem.desc.m, t->problem.desc.n, t->problem.desc.k,
                td_gemm_layout_name(t->problem.desc.layout), t->problem.info->name, candidate->reason);
}

/* Both results are sums of k products of at most 1/4 in fp32, each off by no more than this. */
static bool is_right(const tuner *t, const float *got)
{
    const double tolerance = 1e-5 + 1e-7 * (double)t->problem.desc.k;
    for (size_t i = 0; i < t->n_c; i++)
        if (!(fabs((double)got[i] - (double)t->want[i]) <= tolerance)) return false;
    return true;
}

/* Checks a candidate and gets it ready to be measured. A lost device ends the tuning; other faults only the
 * candidate. */
static td_status try_candidate(tuner *t, size_t i, double *best_ns)
{
    trial *x = &t->trials[i];
    double ns = 0;
    td_status status = compute_once(t, x->choice, &ns);
    if (status == TD_OK) {
        float *got = td_span_host(t->host);
        if (t->options->spoil) t->options->spoil(t->result->candidates[i].name, got, t->n_c);
        if (!is_right(t, got)) {
            reject(t, i, "its result differs from the plain kernel's");
            return TD_OK;
        }
        if (*best_ns > 0 && ns > HOPELESS * *best_ns && i > 0) return TD_OK;
        if (*best_ns == 0 || ns < *best_ns) *best_ns = ns;
        x->repeats = ns < SAMPLE_NS ? (uint32_t)(SAMPLE_NS / (ns + 1)) + 1 : 1;
        if (x->repeats > 1000) x->repeats = 1000;
        status = record(t, x->choice, x->repeats, &x->list);
    }
    if (status == TD_OK || td_device_is_lost(t->device)) return status;
    reject(t, i, td_error_last()->message);
    return TD_OK;
}

static td_status measure(tuner *t, uint32_t rounds)
{
    for (uint32_t round = 0; round < rounds; round++) {
        for (size_t i = 0; i < t->result->n_candidates; i++) {
            trial *x = &t->trials[i];
            double ns = 0;
            if (!x->list) continue;
            TD_CHECK(run_list(t, x->list, &ns));
            x->sample_ns[round] = ns / x->repeats;
        }
    }
    const double flops = td_gemm_cost(&t->problem).flops;
    for (size_t i = 0; i < t->result->n_candidates; i++)
        if (t->trials[i].list)
            t->result->candidates[i].gflops = flops / td_stats_of(t->trials[i].sample_ns, rounds).median;
    return TD_OK;
}

static td_status pick(tuner *t)
{
    td_tuner_result *result = t->result;
    double most =
        result->candidates[0].gflops * CLEARLY; /* the default stays where others are hardly better */
    for (size_t i = 1; i < result->n_candidates; i++) {
        if (result->candidates[i].gflops <= most) continue;
        most = result->candidates[i].gflops;
        result->best = i;
    }
    if (!(result->candidates[result->best].gflops > 0))
        return TD_FAIL(TD_ERR_UNSUPPORTED,
                       "no variant of a %u x %u x %u product works on %s; update its driver",
                       t->problem.desc.m, t->problem.desc.n, t->problem.desc.k, t->problem.info->name);
    if (!t->options->keep) return TD_OK;
    const td_gemm_choice best = t->trials[result->best].choice;
    const td_tuning_entry entry = {
        .shape = td_tuning_class_of(&t->problem),
        .variant = (uint8_t)best.variant,
        .splits = (uint16_t)best.splits,
    };
    return td_tuning_put(t->device, &entry, 1);
}

/* ---------------------------------------------------------------- all of it */

static td_status prepare(tuner *t, const td_gemm_desc *desc)
{
    td_gemm_desc shape = {
        .layout = desc->layout, .m = desc->m, .n = desc->n, .k = desc->k, .batch = desc->batch};
    double ns = 0;
    TD_REFUSE_IF(td_device_get_info(t->device)->type == TD_DEVICE_SIM, TD_ERR_UNSUPPORTED,
                 "the simulated device computes nothing, so there is nothing to tune");
    if (shape.batch > 1) {
        shape.stride_a = shape.m * shape.k;
        shape.stride_b = shape.k * shape.n;
        shape.stride_c = shape.m * shape.n;
    }
    TD_CHECK(td_gemm_problem_make(&shape, t->device, &t->problem));
    TD_CHECK(td_memory_create(t->device, "tuning", 0, &t->memory));
    TD_CHECK(make_operands(t));
    list_candidates(t);
    TD_CHECK(reserve_workspace(t));
    TD_CHECK(compute_once(t, (td_gemm_choice){TD_GEMM_V_PLAIN, 1}, &ns));
    memcpy(t->want, td_span_host(t->host), 4 * t->n_c);
    return TD_OK;
}

td_status td_tuner_run(td_device *device, const td_gemm_desc *desc, const td_tuner_options *options,
                       td_tuner_result *out)
{
    const uint32_t asked = options->rounds ? options->rounds : ROUNDS_USUAL;
    const uint32_t rounds = asked < ROUNDS_MOST ? asked : ROUNDS_MOST;
    tuner t = {.device = device, .options = options, .result = out};
    double best_ns = 0;
    double *samples = NULL;
    td_status status = TD_OK;
    *out = (td_tuner_result){0};
    TD_TRY(TD_NEW_ARRAY(&samples, (size_t)rounds * TD_TUNER_MAX_CANDIDATES));
    TD_TRY(prepare(&t, desc));
    for (size_t i = 0; i < out->n_candidates; i++) {
        t.trials[i].sample_ns = samples + i * rounds;
        TD_TRY(try_candidate(&t, i, &best_ns));
    }
    TD_TRY(measure(&t, rounds));
    TD_TRY(pick(&t));
fail:
    for (size_t i = 0; i < out->n_candidates; i++)
        td_list_destroy(t.trials[i].list);
    td_memory_destroy(t.memory);
    free(t.want);
    free(samples);
    return status;
}
