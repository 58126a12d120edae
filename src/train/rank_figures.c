/* What each rank of a cluster did since the last log line, told to all: who waits for whom. See train_internal.h.
 * Covered by tests/cluster/test_watch.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "train/train_internal.h"

/* What a rank tells of a window. */
typedef struct account {
    double step_ms, wait_ms, reduce_ms;
    uint64_t items;
} account;

td_status td_trainer_introduce(td_trainer *t, td_train_event *event)
{
    td_rank_figures mine = {.host = "?"};
    if (t->n_ranks == 1) return TD_OK;
    (void)gethostname(mine.host, sizeof mine.host - 1);
    (void)snprintf(mine.device, sizeof mine.device, "%s", td_device_get_info(t->device)->selector);
    TD_CHECK(TD_NEW_ARRAY(&t->rank_figures, t->n_ranks));
    TD_CHECK(td_cluster_all_gather(t->s.cluster, &mine, sizeof mine, t->rank_figures));
    event->per_rank = t->rank_figures;
    return TD_OK;
}

static account take_account(td_trainer *t, const td_train_event *event)
{
    const double steps = (double)(event->step - t->window_step);
    account mine = {.step_ms = event->ms_per_step, .items = t->rank_items};
    td_travel now = td_reducers_count(t->reducers, t->n_learners);
    const td_travel parameters = td_shards_count(t->shards, t->n_learners);
    td_travel_add(&now, &parameters);
    if (steps > 0) {
        mine.wait_ms = 1e-6 * (double)(now.wait_ns - t->told.wait_ns) / steps;
        mine.reduce_ms = 1e-6 * (double)(now.way_ns - t->told.way_ns) / steps;
    }
    t->told = now;
    t->rank_items = 0;
    return mine;
}

td_status td_trainer_account(td_trainer *t, td_train_event *event)
{
    td_status status = TD_OK;
    account *all = NULL;
    double items = 0, step_ms = 0, wait_ms = 0;
    event->ranks_wait = t->ranks_wait;
    if (t->n_ranks == 1 || event->is_tick) return TD_OK;
    const account mine = take_account(t, event);
    TD_TRY(TD_NEW_ARRAY(&all, t->n_ranks));
    TD_TRY(td_cluster_all_gather(t->s.cluster, &mine, sizeof mine, all));
    for (uint32_t r = 0; r < t->n_ranks; ++r)
        items += (double)all[r].items;
    for (uint32_t r = 0; r < t->n_ranks; ++r) {
        td_rank_figures *f = &t->rank_figures[r];
        f->step_ms = all[r].step_ms;
        f->wait_ms = all[r].wait_ms;
        f->reduce_ms = all[r].reduce_ms;
        step_ms += f->step_ms;
        wait_ms += f->wait_ms;
        f->share = items > 0 ? (double)all[r].items / items : 0;
    }
    event->ranks_wait = t->ranks_wait = step_ms > 0 ? wait_ms / step_ms : 0;
    event->per_rank = t->rank_figures;
fail:
    free(all);
    return status;
}

void td_trainer_note_sums(td_trainer *t, uint64_t batch)
{
    if (t->n_ranks == 1) return;
    const td_travel all = td_reducers_count(t->reducers, t->n_learners);
    td_monitor_note_reduce(t->s.monitor, batch,
                           (td_interval){.start_ns = all.last_start_ns, .end_ns = all.last_end_ns});
    const td_travel parameters = td_shards_count(t->shards, t->n_learners);
    if (parameters.n_steps > 0)
        td_monitor_note_gather(
            t->s.monitor, batch,
            (td_interval){.start_ns = parameters.last_start_ns, .end_ns = parameters.last_end_ns});
}
