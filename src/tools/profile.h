/* Where the time of training steps goes across both devices: figures of a watched pipeline, what they mean,
 * and the run as a trace for Perfetto and as a page for a browser. Prints nothing (src/cli/cmd_profile.c
 * does). Covered by tests/tools/test_profile.c and tests/cli/test_profile.py.
 */
#ifndef TD_TOOLS_PROFILE_H
#define TD_TOOLS_PROFILE_H

#include "base/json.h"
#include "pipeline/roles.h"
#include "pipeline/simulate.h"
#include "tools/planner.h"

/* Something to change. */
typedef struct td_verdict {
    const char *code; /* "model_starved" */
    char message[192];
    char advice[256];
} td_verdict;

enum {
    TD_PROFILE_MAX_VERDICTS = 8,
    TD_PROFILE_WARM_UP = 5 /* steps; drivers compile in the first, plans settle in the second */
};

typedef struct td_profile {
    bool is_simulated;
    bool is_single;
    double stretch; /* `times` are this much longer than what was run; 0: as it was */
    char data_device[128], model_device[128];
    td_batch_times *times; /* owned; every batch, oldest first */
    size_t n_times;
    size_t n_warm_up; /* the first of `times` that `figures` leaves out */
    td_pipeline_figures figures;
    td_forecast forecast;                      /* where stage times come from a plan; no items: they do not */
    double samples_per_step, audio_s_per_step; /* 0: not known */
    double host_ms; /* CPU time of a step for leading batches through the stages; 0: not known */
    uint64_t data_peak_bytes, model_peak_bytes;
    td_verdict verdicts[TD_PROFILE_MAX_VERDICTS];
    size_t n_verdicts;
    uint32_t n_ranks;           /* that trained together; 0: one */
    td_batch_times *rank_times; /* [n_ranks x n_times], owned; times of all ranks on the clock of rank 0 */
} td_profile;

void td_profile_free(td_profile *profile);

/* Runs simulated stages. *out: td_profile_free(), also after a failure. */
td_status td_profile_simulate(const td_simulation *simulation, td_profile *out);

/* Everything is borrowed during the call. */
typedef struct td_profile_forecast_request {
    const char *data, *model; /* models of devices, as td_forecast_stages() */
    const td_train_settings *settings;
    td_lengths longest;
} td_profile_forecast_request;

/* The same with stages as long as the settings' plan makes them on such devices; lengths of *simulation do
 * not count. */
td_status td_profile_forecast(const td_profile_forecast_request *request, const td_simulation *simulation,
                              td_profile *out);

/* Trains for `steps` steps, and TD_PROFILE_WARM_UP before them, as the settings say, writing nothing. A
 * monitor in the settings has room for all of them. *out: td_profile_free(), also after a
 * failure.
 */
td_status td_profile_train(td_registry *registry, const td_roles *roles, const td_train_settings *settings,
                           uint64_t steps, td_profile *out);

/* Takes what a monitor has seen, leaves `n_warm_up` batches out of the figures, and judges. */
td_status td_profile_read(td_monitor *monitor, size_t capacity, size_t n_warm_up, td_profile *profile);

/* Gets all ranks' times, for the trace; all ranks call it. The clocks of other computers are
 * compared when all leave a barrier, so that they agree about as well as a message is fast. */
td_status td_profile_gather(td_profile *profile, td_cluster *cluster);

/* The fields of what `profile --json` prints, into an object that is open. */
void td_profile_put_json(td_json *json, const td_profile *profile);

/* Trace in the format of Chrome and Perfetto: a track for each stage, arrows from preparing to training; a process
 * for each rank, with a track for its sums. */
td_status td_profile_write_trace(const td_profile *profile, const char *path);

/* A page that needs nothing else, not even a network. */
td_status td_profile_write_html(const td_profile *profile, const char *path);

#endif
