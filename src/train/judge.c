/* Validation: losses with the true spectrogram given, dropout off; and how far what the model makes by itself
 * is from the recordings. See train.h. Covered by tests/train/test_train_run.c. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "device/blocking.h"
#include "train/train_internal.h"

enum { HEARD_ITEMS = 16 }; /* whose distance decides, or the next whole batch: speaking is slow */

/* ---------------------------------------------------------------- distance */

static double frame_distance(const float *a, const float *b, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; ++i)
        sum += fabs((double)a[i] - (double)b[i]);
    return sum / n;
}

/* Dynamic time warping with steps (1,1), (1,0), (0,1); row by row, the length of the best path beside its
 * sum. */
td_status td_mel_distance(const float *a, uint32_t n_a, const float *b, uint32_t n_b, uint32_t n_mels,
                          double *out)
{
    td_status status = TD_OK;
    double *sums = NULL, *lengths = NULL;
    *out = NAN;
    if (n_a == 0 || n_b == 0) return TD_OK;
    TD_TRY(TD_NEW_ARRAY(&sums, 2 * (size_t)n_b));
    TD_TRY(TD_NEW_ARRAY(&lengths, 2 * (size_t)n_b));
    for (uint32_t i = 0; i < n_a; ++i) {
        double *sum = sums + (i % 2) * (size_t)n_b, *length = lengths + (i % 2) * (size_t)n_b;
        const double *sum0 = sums + ((i + 1) % 2) * (size_t)n_b,
                     *length0 = lengths + ((i + 1) % 2) * (size_t)n_b;
        for (uint32_t j = 0; j < n_b; ++j) {
            double best = i == 0 && j == 0 ? 0 : INFINITY, steps = 0;
            if (i > 0 && j > 0) best = sum0[j - 1], steps = length0[j - 1];
            if (i > 0 && sum0[j] < best) best = sum0[j], steps = length0[j];
            if (j > 0 && sum[j - 1] < best) best = sum[j - 1], steps = length[j - 1];
            sum[j] = best + frame_distance(a + (size_t)i * n_mels, b + (size_t)j * n_mels, n_mels);
            length[j] = steps + 1;
        }
    }
    const size_t last = ((n_a - 1) % 2) * (size_t)n_b + n_b - 1;
    *out = sums[last] / lengths[last];
fail:
    free(sums);
    free(lengths);
    return status;
}

static td_status measure_distance(td_trainer *t, const td_free_run *run, const float *target,
                                  const uint32_t *counts, uint32_t frames, double *out)
{
    const uint32_t n_mels = t->info.mel.n_mels;
    double sum = 0;
    for (uint32_t i = 0; i < run->items; ++i) {
        double distance;
        TD_CHECK(td_mel_distance(run->mel + (size_t)i * run->frames * n_mels, run->counts[i],
                                 target + (size_t)i * frames * n_mels, counts[i], n_mels, &distance));
        sum += distance;
    }
    *out = run->items > 0 ? sum / run->items : NAN;
    return TD_OK;
}

/* What the model makes of a batch's texts alone, where it speaks; with `sample` how it looks and sounds. */
static td_status look(td_trainer *t, td_shaped_plan *shaped, const td_batch *batch, bool sample,
                      double *distance)
{
    td_status status = TD_OK;
    td_free_run run = {0};
    td_view *view = NULL;
    float *target = NULL;
    uint32_t *counts = NULL;
    if (td_batch_find(batch, "mel") == NULL || td_graph_find_output(shaped->graph, "predicted_mel").id == 0)
        return TD_OK;
    TD_TRY(td_trainer_fetch(t, batch, "mel", &target));
    TD_TRY(td_trainer_fetch(t, batch, "frame_counts", &counts));
    if (sample) TD_TRY(td_trainer_view(t, shaped, batch, &view));
    if (t->info.model.family->speaker != NULL) {
        TD_TRY(td_trainer_run_free(t, batch, &run));
        TD_TRY(measure_distance(t, &run, target, counts, batch->shape.frames, distance));
    }
    if (sample) TD_TRY(td_trainer_show(t, batch, view, target, &run));
fail:
    td_free_run_clear(&run);
    td_view_free(view);
    free(target);
    free(counts);
    return status;
}

/* ---------------------------------------------------------------- losses */

/* One learner's losses, with all that only starts in the course of training. */
static td_status judge_learner(td_trainer *t, size_t number, const td_batch *batch, td_train_event *event,
                               td_shaped_plan **shaped, td_point *taken)
{
    td_scalars scalars;
    uint32_t slot;
    TD_CHECK(td_learner_plan(t->learners[number], TD_USE_VALIDATE, &batch->shape, shaped));
    TD_CHECK(td_learner_bind(t->learners[number], *shaped, batch, UINT64_MAX, &slot));
    TD_CHECK(
        td_plan_run((*shaped)->plan, &(td_run){.slot = slot, .waits = &batch->ready, .n_waits = 1}, NULL));
    TD_CHECK(td_plan_scalars((*shaped)->plan, td_plan_runs((*shaped)->plan) - 1, &scalars));
    td_trainer_add(t, number, &scalars, batch->count, event);
    *taken = td_plan_taken((*shaped)->plan, slot);
    return TD_OK;
}

/* What is looked at is of the learner that judges, read before another plan uses the memory: the first batch,
 * or some where their distance decides. */
static td_status judge_batch(td_trainer *t, bool is_first, bool sample, td_train_event *event, double *weight,
                             double *looked)
{
    td_batch batch;
    td_shaped_plan *shaped;
    td_point taken = {0};
    const bool decides = t->state.best_by_distance;
    TD_CHECK(td_batches_next(&t->val, &batch));
    for (size_t i = 0; i < t->n_learners; ++i) {
        TD_CHECK(judge_learner(t, i, &batch, event, &shaped, &taken));
        double distance = NAN;
        if (i != t->info.model.family->judge || !(is_first || (decides && *looked < HEARD_ITEMS))) continue;
        TD_CHECK(look(t, shaped, &batch, sample && is_first, &distance));
        *looked += batch.count;
        if (is_first) event->distance = distance;
        event->distance += (distance - event->distance) * batch.count / *looked;
    }
    td_batches_release(&t->val, &batch, taken);
    *weight += batch.count;
    return TD_OK;
}

/* What to do about it. */
static void warn_by_heart(const td_trainer *t, double figure)
{
    td_log_warn("the model learns its rows by heart: the %s of rows kept back rose from %.4g to %.4g while "
                "the loss of "
                "training fell from %.4g to %.4g; best.safetensors keeps step %" PRIu64
                ": end the run, or let training.early_stopping_patience end it; more recordings, fewer "
                "parameters that "
                "train or a training.lr below %g help",
                t->state.best_by_distance ? "distance" : "loss", t->overfit.least, figure,
                t->overfit.mean_at_least, t->overfit.mean, t->state.best_step, t->s.schedule.lr);
}

td_status td_trainer_judge(td_trainer *t, bool sample, bool *better)
{
    const uint64_t start_ns = td_clock_ns();
    const size_t n_batches = td_sampler_batches_per_epoch(t->val.sampler);
    double weight = 0, looked = 0;
    td_train_event event = {
        .kind = TD_TRAIN_VALIDATION, .step = t->state.step, .epoch = t->state.sampler.epoch, .distance = NAN};
    for (size_t i = 0; i < n_batches; ++i)
        TD_CHECK(judge_batch(t, i == 0, sample, &event, &weight, &looked));
    for (size_t i = 0; i < event.n_terms; ++i)
        event.values[i] /= weight;
    const double figure = t->state.best_by_distance ? event.distance : event.values[0];
    t->state.val_loss = event.values[0];
    t->state.val_step = t->state.step;
    event.is_best = *better = !(figure >= t->state.best_loss) && isfinite(figure);
    t->state.n_stale = *better ? 0 : t->state.n_stale + 1;
    if (*better) {
        t->state.best_loss = figure;
        t->state.best_step = t->state.step;
    }
    if (td_overfit_judge(&t->overfit, figure)) warn_by_heart(t, figure);
    event.took_s = 1e-9 * (double)(td_clock_ns() - start_ns);
    return td_trainer_tell(t, &event);
}
