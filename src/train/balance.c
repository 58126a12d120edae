/* Which micro-batches of a step each rank takes: all as many, or by the time that a rank takes for one, measured
 * before the first step while all ranks are at work. Only who computes what changes, not what is computed: the
 * batches, their dropout and their weights are those of the step. See train_internal.h. Covered by
 * tests/cluster/test_unlike.py. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "train/train_internal.h"

enum { TRIAL = 3, TOLD_RANKS = 16 };

/* One run of each learner, without an update, waited for. */
static td_status run_once(td_trainer *t, const td_batch *batch)
{
    td_shaped_plan *shaped;
    td_scalars scalars;
    for (size_t i = 0; i < t->n_learners; ++i) {
        td_run run = {.waits = &batch->ready, .n_waits = 1};
        TD_CHECK(td_learner_plan(t->learners[i], TD_USE_TRAIN, &batch->shape, &shaped));
        TD_CHECK(td_learner_bind(t->learners[i], shaped, batch, t->state.step, &run.slot));
        TD_CHECK(td_plan_run(shaped->plan, &run, NULL));
        TD_CHECK(td_plan_scalars(shaped->plan, td_plan_runs(shaped->plan) - 1, &scalars));
    }
    return TD_OK;
}

/* All ranks take the same batches at the same time, since they may share a processor. The first run of each makes
 * plans and lets drivers compile. */
static td_status measure(td_trainer *t, double *seconds)
{
    td_status status = TD_OK;
    td_batches trial = {0};
    td_data_rows rows = t->train.rows;
    td_batch batch;
    *seconds = 0;
    rows.n_batches = TRIAL;
    TD_TRY(td_batches_open(&t->data, &rows, &trial));
    TD_TRY(td_trainer_start_batches(t, &trial, NULL));
    for (int i = 0; i < TRIAL; ++i) {
        TD_TRY(td_batches_next(&trial, &batch));
        TD_TRY(run_once(t, &batch));
        TD_TRY(td_cluster_barrier(t->s.cluster));
        const uint64_t start_ns = td_clock_ns();
        TD_TRY(run_once(t, &batch));
        *seconds += 1e-9 * (double)(td_clock_ns() - start_ns) / TRIAL;
        td_batches_release(&trial, &batch, (td_point){0});
    }
fail:
    td_batches_close(&trial);
    return status;
}

static void tell_shares(const td_trainer *t, const double *seconds, const uint32_t *counts)
{
    char text[TOLD_RANKS * 48] = "";
    size_t used = 0;
    for (uint32_t r = 0; r < t->n_ranks && r < TOLD_RANKS && used < sizeof text; ++r)
        used += (size_t)snprintf(text + used, sizeof text - used, "%srank %u: %u (%.1f ms each)",
                                 r > 0 ? ", " : "", r, counts[r], 1e3 * seconds[r]);
    td_log_info("shares of the %u batches of a step: %s%s", t->n_micro, text,
                t->n_ranks > TOLD_RANKS ? ", ..." : "");
}

static td_status share_by_speed(td_trainer *t)
{
    td_status status = TD_OK;
    double *seconds = NULL, mine;
    uint32_t *counts = NULL;
    TD_TRY(measure(t, &mine));
    TD_TRY(TD_NEW_ARRAY(&seconds, t->n_ranks));
    TD_TRY(TD_NEW_ARRAY(&counts, t->n_ranks));
    TD_TRY(td_cluster_all_gather(t->s.cluster, &mine, sizeof mine, seconds));
    td_cluster_share_out(seconds, t->n_ranks, t->n_micro, counts);
    t->part.first = 0;
    for (uint32_t r = 0; r < t->rank; ++r)
        t->part.first += counts[r];
    t->part.count = counts[t->rank];
    if (t->rank == 0) tell_shares(t, seconds, counts);
fail:
    free(seconds);
    free(counts);
    return status;
}

td_status td_trainer_balance(td_trainer *t)
{
    t->part =
        (td_sampler_part){.first = t->rank * t->s.grad_accum, .count = t->s.grad_accum, .of = t->n_micro};
    if (t->s.balances && t->n_ranks > 1) {
        if (t->s.grad_accum > 1)
            TD_CHECK(share_by_speed(t));
        else if (t->rank == 0)
            td_log_warn(
                "cluster.balance = measured has nothing to share out where each rank has one batch of a "
                "step; raise training.grad_accum, and lower training.batch_size in proportion");
    }
    return td_sampler_cut(t->train.sampler, t->part);
}
