/* See bench_step.h. */
#include "tools/bench_step.h"

#include <stdlib.h>
#include <time.h>

#include "audio/mel_config.h"
#include "base/clock.h"
#include "base/error.h"
#include "tools/step_dump.h"

#define WARM_UP 2u
#define MEASURED_RUNS 3u /* of each node, for an explanation */

/* What one measurement holds. */
typedef struct bench {
    const td_bench_step_options *options;
    td_device *device;
    td_memory *memory;
    td_step_work work;
    td_store *store;
    td_plan *plan;
    td_optimizer *optimizer;
} bench;

static void close_bench(bench *b)
{
    td_plan_destroy(b->plan);
    td_optimizer_destroy(b->optimizer);
    td_store_destroy(b->store);
    td_step_work_clear(&b->work);
    td_memory_destroy(b->memory);
    td_device_close(b->device);
}

static const td_optimizer_options adamw = {
    .beta1 = 0.9f, .beta2 = 0.98f, .eps = 1e-8f, .decay = 0.01f, .max_norm = 1};

/* Kernels are built by the first plan, so the second tells what planning costs. */
static td_status open_bench(bench *b, td_registry *registry, const td_device_info *info, double *plan_ms)
{
    const td_bench_step_options *o = b->options;
    td_plan_options plan = {.half = o->half, .checkpoint = o->checkpoint};
    const bool is_scaled = o->half == TD_F16;
    td_optimizer_options update = adamw;
    TD_CHECK(td_device_open(registry, info, &b->device));
    TD_CHECK(td_memory_create(b->device, "model", 0, &b->memory));
    TD_CHECK(o->preset
                 ? td_step_work_model(o->family, o->preset, o->keys, &o->size, o->ragged, is_scaled, &b->work)
                 : td_step_work_sketch(&o->size, o->ragged, is_scaled, &b->work));
    update.in_backward = !b->work.is_cut && !is_scaled && !o->dump; /* as training has it */
    if (!b->work.is_cut) update.max_norm = 0;
    if (is_scaled) update.scale_growth_steps = TD_SCALE_GROWTH_STEPS;
    const td_store_options store = {.training = true,
                                    .no_gradients = update.in_backward,
                                    .host_moments = o->host_moments,
                                    .half = o->half,
                                    .state = o->state,
                                    .half_frozen = o->preset && o->family->carries};
    TD_CHECK(td_store_create(b->memory, b->work.graph, &store, &b->store));
    TD_CHECK(td_store_init(b->store, TD_STEP_WORK_SEED));
    TD_CHECK(td_optimizer_create(b->store, 0, &update, &b->optimizer));
    if (update.in_backward) plan.updates = b->optimizer;
    TD_CHECK(td_plan_create(b->store, b->work.graph, &plan, &b->plan));
    td_plan_destroy(b->plan);
    b->plan = NULL;
    const uint64_t start = td_clock_ns();
    TD_CHECK(td_plan_create(b->store, b->work.graph, &plan, &b->plan));
    *plan_ms = (double)(td_clock_ns() - start) * 1e-6;
    return TD_OK;
}

/* The batch into both slots. */
static td_status fill(const bench *b)
{
    for (size_t i = 0; i < b->work.n_inputs; i++)
        for (uint32_t slot = 0; slot < 2; slot++)
            TD_CHECK(td_plan_fill(b->plan, slot, b->work.inputs[i].tensor, b->work.inputs[i].words));
    return TD_OK;
}

/* ---------------------------------------------------------------- steps */

static double thread_cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static td_status submit_step(const bench *b, uint32_t step, td_point *reached)
{
    TD_CHECK(td_optimizer_begin(b->optimizer, 1e-3f));
    TD_CHECK(td_plan_run(b->plan, &(td_run){.slot = step % 2, .step = step}, NULL));
    return td_optimizer_step(b->optimizer, 1e-3f, reached);
}

/* As training does: a step is submitted before the one ahead of it has ended; but the first one that is measured is
 * not, or what it costs would be spent before the clocks are read. */
static td_status run_steps(const bench *b, td_bench_step_result *out)
{
    const uint32_t steps = b->options->steps + WARM_UP;
    const uint64_t earlier = td_plan_runs(b->plan);
    double *ms = NULL;
    double cpu_ms = 0;
    uint64_t all_cpu_ns = 0;
    td_scalars scalars = {0};
    td_point points[2] = {{0}};
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&ms, steps));
    TD_TRY(submit_step(b, 0, &points[0]));
    uint64_t before = td_clock_ns(), begin = before;
    for (uint32_t i = 0; i < steps; i++) {
        if (i == WARM_UP) {
            cpu_ms = thread_cpu_ms();
            all_cpu_ns = td_clock_cpu_ns();
            before = begin = td_clock_ns();
            TD_TRY(submit_step(b, i, &points[i % 2]));
        }
        if (i + 1 < steps && i + 1 != WARM_UP) TD_TRY(submit_step(b, i + 1, &points[(i + 1) % 2]));
        TD_TRY(td_point_wait(points[i % 2], TD_WAIT_FOREVER));
        const uint64_t now = td_clock_ns();
        ms[i] = (double)(now - before) * 1e-6;
        before = now;
        TD_TRY(td_plan_scalars(b->plan, earlier + i, &scalars));
        if (i == 0) out->first_loss = scalars.values[0];
    }
    out->host_share = (thread_cpu_ms() - cpu_ms) / ((double)(before - begin) * 1e-6);
    out->cpu_ms = (double)(td_clock_cpu_ns() - all_cpu_ns) * 1e-6 / b->options->steps;
    out->last_loss = scalars.values[0];
    out->ms = td_stats_of(ms + WARM_UP, steps - WARM_UP);
fail:
    free(ms);
    return status;
}

static td_status explain(const bench *b)
{
    const td_bench_step_options *o = b->options;
    if (o->explain) {
        TD_CHECK(td_plan_measure(b->plan, MEASURED_RUNS));
        TD_CHECK(td_plan_explain(b->plan, o->explain));
    }
    if (o->explain_dot) TD_CHECK(td_plan_explain_dot(b->plan, o->explain_dot));
    return TD_OK;
}

static void summarise(const bench *b, td_bench_step_result *out)
{
    const td_sketch_size *s = &b->options->size;
    const td_mel_config mel = td_mel_config_default();
    td_memory_stats memory;
    for (size_t i = 0; i < td_store_count(b->store); i++) {
        const td_store_entry e = td_store_get(b->store, i);
        if (e.role == TD_TENSOR_PARAMETER) out->parameters += td_shape_size(e.shape);
    }
    td_plan_get_stats(b->plan, &out->plan);
    td_memory_get_stats(b->memory, &memory);
    out->peak_bytes = memory.peak_used_bytes;
    out->gflops = out->plan.flops * 1e-6 / out->ms.median;
    out->audio_s_per_s = (double)s->items * s->frames * mel.hop_samples / mel.rate * 1e3 / out->ms.median;
}

td_status td_bench_step_run(td_registry *registry, const td_device_info *info,
                            const td_bench_step_options *options, td_bench_step_result *out)
{
    bench b = {.options = options};
    td_status status = TD_OK;
    *out = (td_bench_step_result){0};
    TD_TRY(open_bench(&b, registry, info, &out->plan_ms));
    TD_TRY(fill(&b));
    if (options->dump) TD_TRY(td_step_dump(options->dump, &b.work, b.store, b.plan, b.optimizer));
    TD_TRY(run_steps(&b, out));
    summarise(&b, out);
    TD_TRY(explain(&b));
fail:
    close_bench(&b);
    return status;
}
