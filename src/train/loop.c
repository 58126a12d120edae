/* The loop of a run: steps submitted ahead, scalars read late, what is due between steps. Nothing in
 * here waits for the device but reading those scalars. See train.h. Covered by tests/train/test_train_run.c.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "train/train_internal.h"

/* A loss this many times the first one has left what can be learnt from. */
static const double DIVERGED = 1e4;

/* Steps in which plans are made and drivers compile. */
enum { FIRST_STEPS = 5 };

/* How often the folder is searched for wishes. */
static const uint64_t LOOK_NS = 500000000;

/* Steps after which a run's pace is known. */
enum { PACE_STEPS = 50 };

static double seconds_since(uint64_t ns)
{
    return 1e-9 * (double)(td_clock_ns() - ns);
}

/* ---------------------------------------------------------------- bad steps */

/* The parameter with the largest value. */
static td_status find_largest(td_trainer *t, size_t *out, double *largest)
{
    td_status status = TD_OK;
    float *values = NULL;
    *largest = -1;
    for (size_t i = 0; i < td_store_count(t->store); ++i) {
        const td_store_entry entry = td_store_get(t->store, i);
        const uint64_t n = td_shape_size(entry.shape);
        if (entry.role != TD_TENSOR_PARAMETER) continue;
        free(values);
        TD_TRY(TD_NEW_ARRAY(&values, n));
        TD_TRY(td_store_read(t->store, i, TD_BLOCK_WEIGHT, values));
        for (uint64_t k = 0; k < n; ++k) {
            if (!(fabs((double)values[k]) > *largest)) continue;
            *largest = fabs((double)values[k]);
            *out = i;
        }
    }
fail:
    free(values);
    return status;
}

/* Which tensor to look at: the first that is not finite, or the one that has grown most. */
static td_status name_broken(td_trainer *t, char *out, size_t capacity)
{
    size_t i;
    double largest;
    const size_t count = td_store_count(t->store);
    TD_CHECK(td_store_find_broken(t->store, TD_BLOCK_WEIGHT, &i));
    if (i < count) {
        snprintf(out, capacity, "; first broken: parameter %s", td_store_get(t->store, i).name);
        return TD_OK;
    }
    TD_CHECK(td_store_find_broken(t->store, TD_BLOCK_GRADIENT, &i));
    if (i < count) {
        snprintf(out, capacity, "; first broken: the gradient of %s", td_store_get(t->store, i).name);
        return TD_OK;
    }
    TD_CHECK(find_largest(t, &i, &largest));
    if (largest >= 0)
        snprintf(out, capacity, "; largest parameter: %s (%.3g)", td_store_get(t->store, i).name, largest);
    return TD_OK;
}

/* A step that was skipped, or whose loss has run away: told, counted, and after some in a row the end. */
static td_status handle_bad(td_trainer *t, td_train_event *event, bool was_skipped)
{
    char tensor[256] = "", reason[512];
    const char *term = "the gradient's norm";
    const uint32_t most = t->s.max_bad_steps > 0 ? t->s.max_bad_steps : 10;
    ++t->n_bad;
    for (size_t i = event->n_terms; i-- > 0;)
        if (!isfinite(event->values[i])) term = event->names[i];
    if (t->n_bad == 1 || t->n_bad >= most) TD_CHECK(name_broken(t, tensor, sizeof tensor));
    if (was_skipped)
        snprintf(reason, sizeof reason, "%s is not finite%s", term, tensor);
    else
        snprintf(reason, sizeof reason, "the loss is %.3g, it began at %.3g%s", event->values[0],
                 t->first_loss, tensor);
    td_train_event told = *event;
    told.kind = TD_TRAIN_SKIPPED;
    told.text = reason;
    told.is_tick = t->n_bad > 1 && t->n_bad < most;
    TD_CHECK(td_trainer_tell(t, &told));
    t->result->is_common = t->n_bad >= most; /* all ranks have the same gradients and losses */
    TD_REFUSE_IF(t->n_bad >= most, TD_ERR_FORMAT,
                 "training has diverged: at step %" PRIu64
                 ", after %u bad steps in a row, %s; lower training.lr (%g) or "
                 "raise training.warmup_steps, then go on from %s",
                 event->step, t->n_bad, reason, t->s.schedule.lr,
                 t->result->checkpoint[0] != '\0' ? t->result->checkpoint
                                                  : "the beginning, no checkpoint was due yet");
    return TD_OK;
}

/* A step that was skipped because the loss scale is too high, which then has been halved: nothing is wrong.
 */
static td_status handle_rescaled(td_trainer *t, const td_train_event *event)
{
    char reason[128];
    td_train_event told = *event;
    snprintf(reason, sizeof reason, "the loss scale was too high; it is %g now", event->loss_scale);
    told.kind = TD_TRAIN_SKIPPED;
    told.text = reason;
    return td_trainer_tell(t, &told);
}

/* ---------------------------------------------------------------- scalars */

/* What the learners' runs of a micro-batch left, waiting for them. */
static td_status read_scalars(td_trainer *t, const td_pending *pending)
{
    td_train_event *event = &t->sums.event;
    td_scalars scalars;
    if (t->sums.count == 0) *event = (td_train_event){.kind = TD_TRAIN_STEP, .distance = NAN};
    for (size_t i = 0; i < t->n_learners; ++i) {
        TD_CHECK(td_plan_scalars(pending->of[i].shaped->plan, pending->of[i].run, &scalars));
        td_trainer_add(t, i, &scalars, 1, event);
    }
    event->step = pending->step;
    event->epoch = pending->epoch;
    event->lr = pending->lr;
    ++t->sums.count;
    return TD_OK;
}

/* What the learners' updates left. *n_skipped: of all learners. */
static td_status read_updates(td_trainer *t, const td_pending *pending, uint64_t *n_skipped)
{
    td_update update;
    *n_skipped = 0;
    for (size_t i = 0; i < t->n_learners; ++i) {
        TD_CHECK(td_optimizer_result(td_learner_optimizer(t->learners[i]), pending->of[i].update, &update));
        *n_skipped += update.skipped;
        TD_REFUSE_IF(
            update.is_broken, TD_ERR_FORMAT,
            "the gradients of step %" PRIu64
            " are not finite, and parameters have been updated by them; lower training.lr (%g) or set "
            "training.grad_clip = 1, which looks at gradients first, then go on from %s",
            pending->step, t->s.schedule.lr,
            t->result->checkpoint[0] != '\0' ? t->result->checkpoint
                                             : "the beginning, no checkpoint was due yet");
        if (i != t->info.model.family->judge) continue;
        t->sums.event.norm = (double)update.norm;
        t->sums.event.loss_scale = (double)update.loss_scale;
    }
    return TD_OK;
}

static void put_speed(td_trainer *t, td_train_event *event)
{
    const double seconds = seconds_since(t->window_ns) - 1e-9 * (double)t->paused_ns;
    const double steps = (double)(event->step - t->window_step);
    if (!(seconds > 0) || !(steps > 0)) return;
    event->ms_per_step = 1e3 * seconds / steps;
    event->samples_per_s = (double)t->window_items / seconds;
    event->audio_s_per_s = t->window_audio_s / seconds;
    event->eta_s = NAN;
    if (t->max_step > 0) event->eta_s = 1e-3 * event->ms_per_step * (double)(t->max_step - event->step);
    if (t->s.max_minutes > 0) {
        const double left_s = 60 * t->s.max_minutes - seconds_since(t->start_ns);
        if (!(event->eta_s < left_s)) event->eta_s = left_s > 0 ? left_s : 0;
    }
}

/* A family that needs long to be understood is told of while there is time to let the run end later: at once where
 * steps end it, as soon as the pace is known where time does. */
static void judge_budget(td_trainer *t, const td_train_event *event)
{
    const td_family *family = t->info.model.family;
    const bool is_few = t->max_step > 0 && t->max_step < family->least_steps;
    if (t->judged_budget || family->least_steps == 0 || t->s.init_from != NULL || t->s.is_trial) return;
    if (!is_few && t->session_steps < PACE_STEPS) return;
    t->judged_budget = true;
    const double left_s = 60 * t->s.max_minutes - seconds_since(t->start_ns);
    const double in_time = (double)event->step + 1e3 * left_s / event->ms_per_step;
    if (is_few)
        td_log_warn("%" PRIu64
                    " updates are few for a voice of the family %s, which from nothing took about %" PRIu64
                    " to be "
                    "understood; raise training.max_steps",
                    t->max_step, family->name, family->least_steps);
    else if (t->s.max_minutes > 0 && in_time < (double)family->least_steps)
        td_log_warn("training.max_minutes will end this run after about %.0f updates, few for a voice of the "
                    "family %s, which from nothing took about %" PRIu64 " to be understood; raise it",
                    in_time, family->name, family->least_steps);
}

static void begin_window(td_trainer *t, uint64_t step)
{
    t->window_ns = td_clock_ns();
    t->window_step = step;
    t->paused_ns = t->window_items = 0;
    t->window_audio_s = 0;
}

static uint64_t count_used(const td_memory *memory)
{
    td_memory_stats stats;
    td_memory_get_stats(memory, &stats);
    return stats.used_bytes;
}

static void put_watch(td_trainer *t, td_train_event *event)
{
    if (t->watch.monitor == NULL) return;
    td_watch_step(&t->watch, count_used(t->data_memory), count_used(t->model_memory));
    if (!t->watch.is_known) return;
    event->data_utilisation = t->watch.figures.data_utilisation;
    event->model_utilisation = t->watch.figures.model_utilisation;
    event->waits_for = td_watch_waits_for(&t->watch);
}

static td_status finish_step(td_trainer *t, uint64_t n_skipped)
{
    td_train_event event;
    const bool was_skipped = n_skipped > t->state.n_skipped;
    const uint64_t every = t->s.log_every > 0 ? t->s.log_every : 10;
    TD_CHECK(td_trainer_agree(t));
    event = t->sums.event;
    for (size_t i = 0; i < event.n_terms; ++i)
        event.values[i] /= t->sums.count;
    t->sums.count = 0;
    t->state.n_skipped = event.n_skipped = n_skipped;
    if (!isfinite(t->first_loss)) t->first_loss = event.values[0] > 1 ? event.values[0] : 1;
    if (t->s.plan.half != TD_F16) event.loss_scale = 0;
    if (was_skipped && isfinite(event.values[0]) && event.loss_scale > (double)TD_LOSS_SCALE_LEAST)
        return handle_rescaled(t, &event);
    if (was_skipped || !(event.values[0] < DIVERGED * t->first_loss)) {
        TD_CHECK(handle_bad(t, &event, was_skipped || !isfinite(event.values[0])));
        return TD_OK;
    }
    t->n_bad = 0;
    t->state.loss = t->result->loss = event.values[0];
    td_overfit_learn(&t->overfit, event.values[0]);
    put_speed(t, &event);
    put_watch(t, &event);
    judge_budget(t, &event);
    event.is_tick = event.step % every != 0 && event.step != 1;
    TD_CHECK(td_trainer_account(t, &event));
    TD_CHECK(td_trainer_tell(t, &event));
    if (!event.is_tick) begin_window(t, event.step);
    return TD_OK;
}

/* Reads what the oldest runs left, waiting for them, until `n_left` are ahead. */
static td_status collect(td_trainer *t, size_t n_left)
{
    uint64_t n_skipped = 0;
    while (t->n_pending > n_left) {
        const td_pending pending = t->pending[0];
        --t->n_pending;
        memmove(t->pending, t->pending + 1, t->n_pending * sizeof *t->pending);
        if (read_scalars(t, &pending) != TD_OK ||
            (pending.is_last && read_updates(t, &pending, &n_skipped) != TD_OK))
            TD_CHECK(td_error_context("step %" PRIu64 " on the model device", pending.step));
        td_monitor_collect(t->s.monitor);
        if (pending.is_last) TD_CHECK(finish_step(t, n_skipped));
    }
    return TD_OK;
}

/* The same for all steps before this one: ranks with unlike numbers of micro-batches talk of a step's scalars at
 * the same place in the order of their calls, before the next step's gradients leave. */
static td_status collect_before(td_trainer *t, uint64_t step)
{
    while (t->n_pending > 0 && t->pending[0].step < step)
        TD_CHECK(collect(t, t->n_pending - 1));
    return TD_OK;
}

/* ---------------------------------------------------------------- steps */

/* Points of all learners' runs and updates, for the monitor. */
typedef struct point_list {
    td_point all[TD_MAX_LEARNERS * (TD_RUN_POINTS + 1)];
    size_t count;
} point_list;

/* One learner's update, from gradients of all micro-batches and all ranks. */
static td_status update_learner(td_trainer *t, size_t number, td_pending *pending, point_list *points)
{
    td_learner *learner = t->learners[number];
    td_optimizer *optimizer = td_learner_optimizer(learner);
    if (t->reducers[number] != NULL) TD_CHECK(td_reducer_finish(t->reducers[number]));
    TD_CHECK(td_optimizer_step(optimizer, (float)td_learner_rate(learner, t->state.step),
                               &points->all[points->count]));
    pending->of[number].update = td_optimizer_steps(optimizer) - 1;
    ++points->count;
    return TD_OK;
}

/* One learner's share of a micro-batch: its plan runs on the batch. *taken: when the batch may go. */
static td_status run_learner(td_trainer *t, size_t number, const td_batch *batch, td_pending *pending,
                             point_list *points, td_point *taken)
{
    td_learner *learner = t->learners[number];
    td_shaped_plan *shaped = pending->of[number].shaped;
    /* as one rank would count all ranks' micro-batches */
    const uint64_t run_number = t->state.step * t->n_micro + t->part.first + pending->micro;
    uint32_t slot;
    TD_CHECK(td_learner_bind(learner, shaped, batch, t->state.step, &slot));
    const td_run run = {.slot = slot,
                        .step = (uint32_t)run_number,
                        .adds = pending->micro > 0,
                        .waits = &batch->ready,
                        .n_waits = 1};
    TD_CHECK(
        td_optimizer_begin(td_learner_optimizer(learner), (float)td_learner_rate(learner, t->state.step)));
    TD_CHECK(td_plan_run(shaped->plan, &run, NULL));
    pending->of[number].run = td_plan_runs(shaped->plan) - 1;
    memcpy(points->all + points->count, td_plan_points(shaped->plan), TD_RUN_POINTS * sizeof *points->all);
    points->count += TD_RUN_POINTS;
    if (pending->is_last && t->reducers[number] != NULL) {
        TD_CHECK(collect_before(t, pending->step));
        TD_CHECK(td_reducer_begin(t->reducers[number], td_plan_ready(shaped->plan)));
    }
    *taken = td_plan_taken(shaped->plan, slot);
    return TD_OK;
}

/* The next batch, and each learner's plan for it. Nothing of the model changes here. */
static td_status take_batch(td_trainer *t, td_batch *batch, td_pending *pending)
{
    TD_CHECK(td_batches_next(&t->train, batch));
    for (size_t i = 0; i < t->n_learners; ++i)
        TD_CHECK(td_learner_plan(t->learners[i], TD_USE_TRAIN, &batch->shape, &pending->of[i].shaped));
    return TD_OK;
}

static void count_batch(td_trainer *t, const td_batch *batch)
{
    t->state.sampler = batch->after;
    t->next_number = batch->number + 1;
    t->own_items += batch->count;
    t->own_audio_s += batch->audio_s;
    t->rank_items += batch->count;
    if (t->n_ranks > 1) return; /* counted with those of the others */
    t->window_items += batch->count;
    t->window_audio_s += batch->audio_s;
    t->result->n_items += batch->count;
    t->result->audio_s += batch->audio_s;
}

/* Where a step has several micro-batches, all of them see the same parameters of all learners, so that it does
 * not matter which rank takes which; where it has one, learners take turns: each sees what the one before has
 * learnt. */
static td_status run_learners(td_trainer *t, const td_batch *batch, td_pending *pending, point_list *points,
                              td_point *taken)
{
    const bool take_turns = t->n_micro == 1;
    for (size_t i = 0; i < t->n_learners; ++i) {
        TD_CHECK(run_learner(t, i, batch, pending, points, taken));
        if (take_turns) TD_CHECK(update_learner(t, i, pending, points));
    }
    for (size_t i = 0; pending->is_last && !take_turns && i < t->n_learners; ++i)
        TD_CHECK(update_learner(t, i, pending, points));
    return TD_OK;
}

/* One micro-batch, through all learners in turn; the last of a step updates. */
static td_status run_micro(td_trainer *t, uint32_t micro)
{
    td_batch batch;
    td_point taken = {0};
    point_list points = {.count = 0};
    td_pending next = {.step = t->state.step + 1,
                       .micro = micro,
                       .is_last = micro + 1 == t->part.count,
                       .lr = td_learner_rate(t->learners[t->info.model.family->judge], t->state.step)};
    t->is_whole = micro == 0;
    TD_CHECK(take_batch(t, &batch, &next));
    t->is_whole = false;
    next.epoch = batch.epoch;
    if (run_learners(t, &batch, &next, &points, &taken) != TD_OK)
        TD_CHECK(td_error_context("step %" PRIu64 " on the model device", t->state.step + 1));
    td_monitor_note(t->s.monitor, TD_STAGE_TRAIN, batch.number, points.all, points.count);
    if (next.is_last) td_trainer_note_sums(t, batch.number);
    if (t->s.is_serial) TD_CHECK(td_point_wait(points.all[points.count - 1], TD_WAIT_FOREVER));
    td_batches_release(&t->train, &batch, taken);
    count_batch(t, &batch);
    TD_CHECK(collect(t, t->s.depth - 1 > 0 ? t->s.depth - 2 : 0));
    t->pending[t->n_pending++] = next;
    if (t->s.depth == 1) TD_CHECK(collect(t, 0));
    return TD_OK;
}

td_status td_trainer_save(td_trainer *t, bool is_best)
{
    if (t->s.is_trial) return TD_OK;
    TD_CHECK(td_trainer_gather_moments(t));
    if (t->rank > 0) {
        t->last_saved_step = t->state.step;
        return td_run_dir_checkpoint(t->run, t->state.step, t->result->checkpoint);
    }
    const uint64_t start_ns = td_clock_ns();
    const td_snapshot_order order = {
        .state = t->state, .info = &t->info, .run = t->run, .keep = t->s.keep, .is_best = is_best};
    TD_CHECK(td_snapshot_save(t->snapshot, t->side, &order));
    TD_CHECK(td_run_dir_checkpoint(t->run, t->state.step, t->result->checkpoint));
    t->last_saved_step = t->state.step;
    t->save_ns += td_clock_ns() - start_ns;
    ++t->result->n_saved;
    td_train_event event = {.kind = TD_TRAIN_SAVED,
                            .step = t->state.step,
                            .epoch = t->state.sampler.epoch,
                            .distance = NAN,
                            .is_best = is_best,
                            .took_s = seconds_since(start_ns),
                            .text = t->result->checkpoint};
    return td_trainer_tell(t, &event);
}

/* ---------------------------------------------------------------- wishes */

/* Files that somebody has put into the folder. Looking costs microseconds, but a step may not take many more. */
static void look_for_wishes(td_trainer *t)
{
    const uint64_t now_ns = td_clock_ns();
    if (t->rank > 0 || t->s.is_trial || now_ns - t->looked_ns < LOOK_NS) return;
    t->looked_ns = now_ns;
    t->wished_stop |= td_run_dir_take_wish(t->run, "stop");
    if (!td_run_dir_take_wish(t->run, "sample")) return;
    t->wished_sample = t->n_ranks == 1 && (t->s.val_every > 0 || t->s.sample_every > 0);
    if (!t->wished_sample)
        td_log_warn("the file 'sample' asks for samples, but %s",
                    t->n_ranks > 1
                        ? "a cluster makes them only as training.sample_every says"
                        : "the run keeps no rows back; set training.val_every or training.sample_every");
}

/* What was left from before is not meant for this run. */
static void forget_wishes(td_trainer *t)
{
    if (t->rank > 0 || t->s.is_trial) return;
    (void)td_run_dir_take_wish(t->run, "stop");
    (void)td_run_dir_take_wish(t->run, "sample");
}

static bool is_due(uint64_t step, uint64_t every)
{
    return every > 0 && step % every == 0;
}

/* Rank 0 does, the others wait for what it found. */
static td_status judge(td_trainer *t, bool sample, bool *better)
{
    if (t->rank == 0) TD_CHECK(td_trainer_judge(t, sample, better));
    return td_trainer_share_verdict(t, better);
}

static td_status speak(td_trainer *t)
{
    const uint64_t start_ns = td_clock_ns();
    TD_CHECK(td_trainer_speak(t));
    t->paused_ns += td_clock_ns() - start_ns;
    return TD_OK;
}

/* What is due after a step. A checkpoint is taken only of steps known to be good. */
static td_status do_due(td_trainer *t, bool *ends)
{
    const uint64_t step = t->state.step, n_stale = t->state.n_stale;
    const bool is_planned = is_due(step, t->s.val_every) || is_due(step, t->s.sample_every);
    const bool samples = is_due(step, t->s.sample_every) || t->wished_sample, judges = is_planned || samples;
    const bool speaks = samples && t->info.model.family->talker != NULL;
    const bool saves = is_due(step, t->s.save_every) || speaks; /* what speaks is the checkpoint */
    bool better = false;
    t->wished_sample = false;
    if (!judges && !saves) return TD_OK;
    TD_CHECK(collect(t, 0));
    const uint64_t start_ns = td_clock_ns();
    if (judges) TD_CHECK(judge(t, samples, &better));
    if (!is_planned && !better) t->state.n_stale = n_stale; /* looking more often must not shorten a run */
    t->paused_ns += td_clock_ns() - start_ns;
    if ((saves || better) && t->n_bad == 0) {
        TD_CHECK(td_trainer_save(t, better));
        if (speaks) TD_CHECK(speak(t));
    }
    td_watch_pause(&t->watch, t->next_number);
    if (t->s.patience > 0 && t->state.n_stale >= t->s.patience) {
        t->result->reason = TD_END_PATIENCE;
        *ends = true;
    }
    return TD_OK;
}

static bool is_over(td_trainer *t)
{
    t->result->reason = TD_END_DONE;
    if (t->max_step > 0 && t->state.step >= t->max_step) return true;
    if (t->n_ranks > 1) {
        if (t->agreed > 0) t->result->reason = (td_train_reason)(t->agreed - 1);
        return t->agreed > 0;
    }
    if (t->s.wants_end != NULL && t->s.wants_end(t->s.context)) {
        t->result->reason = TD_END_ASKED;
        return true;
    }
    if (t->wished_stop) {
        t->result->reason = TD_END_WISHED;
        return true;
    }
    if (t->s.max_minutes > 0 && seconds_since(t->start_ns) >= 60 * t->s.max_minutes) {
        t->result->reason = TD_END_TIME;
        return true;
    }
    return false;
}

static td_status make_steps(td_trainer *t)
{
    bool ends = false;
    while (!ends && !is_over(t)) {
        const uint64_t start_ns = td_clock_ns(), start_host_ns = td_clock_thread_ns();
        for (uint32_t micro = 0; micro < t->part.count; ++micro)
            TD_CHECK(run_micro(t, micro));
        ++t->state.step;
        if (++t->session_steps > FIRST_STEPS) t->host_ns += td_clock_thread_ns() - start_host_ns;
        TD_CHECK(td_side_check(t->side));
        TD_CHECK(td_side_check(t->painter));
        look_for_wishes(t);
        TD_CHECK(do_due(t, &ends));
        TD_CHECK(td_trainer_tell_warnings(t));
        t->session_ns += td_clock_ns() - start_ns;
    }
    return collect(t, 0);
}

static void tell_speed(td_trainer *t)
{
    const td_loader_stats loader = td_loader_count(t->train.loader);
    if (t->session_steps > 0)
        t->result->ms_per_step = 1e-6 * (double)t->session_ns / (double)t->session_steps;
    if (t->session_steps <= FIRST_STEPS) return;
    double host_ns = (double)t->host_ns / (double)(t->session_steps - FIRST_STEPS);
    if (loader.n_host > 0) host_ns += t->part.count * (double)loader.host_ns / (double)loader.n_host;
    if (t->train.transfer != NULL) {
        const td_transfer_stats transfer = td_transfer_count(t->train.transfer);
        host_ns += t->part.count * (double)transfer.host_ns / (double)transfer.n_batches;
    }
    t->result->host_ms_per_step = 1e-6 * host_ns;
}

/* A run that validates does so at its last step too, so that the best one is known whatever ended it. Patience
 * counts only the validations that were due: how often a run was stopped must not shorten it. */
static td_status judge_end(td_trainer *t)
{
    const uint64_t n_stale = t->state.n_stale;
    bool better = false;
    if (t->s.val_every == 0 || t->s.is_trial || t->n_bad > 0) return TD_OK;
    if (t->state.step == t->state.val_step) return TD_OK; /* 0: there was no step */
    TD_CHECK(judge(t, false, &better));
    if (!better) t->state.n_stale = n_stale;
    return td_trainer_save(t, better);
}

/* Writes what is not in a checkpoint yet. */
static td_status save_rest(td_trainer *t)
{
    if (t->state.step > t->last_saved_step && t->n_bad == 0) TD_CHECK(td_trainer_save(t, false));
    return td_side_wait(t->side);
}

/* No batch came: the data failed, or there was no memory for its shape. The steps before are whole, so that
 * none of them need be lost. What failed stays this thread's error. */
static void rescue(td_trainer *t)
{
    const td_error cause = *td_error_last();
    if (collect(t, 0) != TD_OK || save_rest(t) != TD_OK)
        td_log_warn("no checkpoint of step %" PRIu64 " could be written: %s", t->state.step,
                    td_error_last()->message);
    (void)td_error_adopt(&cause);
}

td_status td_trainer_loop(td_trainer *t)
{
    td_status status = TD_OK;
    if (!t->s.is_serial) td_batches_prefill(&t->train, t->s.start_delay_s);
    t->start_ns = td_clock_ns();
    t->last_saved_step = t->state.step;
    t->result->loss = t->state.loss; /* of a run that was finished before */
    forget_wishes(t);
    begin_window(t, t->state.step);
    status = make_steps(t);
    if (status != TD_OK && t->is_whole && t->n_ranks == 1) rescue(t);
    TD_TRY(status);
    t->result->step = t->state.step;
    tell_speed(t);
    td_trainer_tell_reduction(t);
    TD_TRY(judge_end(t));
    TD_TRY(save_rest(t));
    TD_TRY(td_side_wait(t->painter));
    if (t->result->n_saved > 0) t->result->save_ms = 1e-6 * (double)t->save_ns / (double)t->result->n_saved;
fail:
    return status;
}
