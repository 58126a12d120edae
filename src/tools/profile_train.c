/* A profile of real training: the same loop as `train`, watched, in a folder of its own that is removed
 * again. See profile.h. Covered by tests/cli/test_profile.py. */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "tools/profile.h"

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info, (void)kind, (void)place;
    return remove(path);
}

static td_status make_folder(char *path, size_t capacity)
{
    const char *parent = getenv("TMPDIR");
    (void)snprintf(path, capacity, "%s/tandem-profile-XXXXXX", parent && parent[0] ? parent : "/tmp");
    if (mkdtemp(path)) return TD_OK;
    return TD_FAIL(TD_ERR_IO, "%s: no folder could be made there; set TMPDIR to one that can be written",
                   path);
}

static void name_devices(const td_roles *roles, td_profile *out)
{
    (void)snprintf(out->data_device, sizeof out->data_device, "%s", roles->data->selector);
    (void)snprintf(out->model_device, sizeof out->model_device, "%s", roles->model->selector);
    out->is_single = roles->data == roles->model;
    out->is_simulated = roles->data->type == TD_DEVICE_SIM || roles->model->type == TD_DEVICE_SIM;
}

td_status td_profile_train(td_registry *registry, const td_roles *roles, const td_train_settings *settings,
                           uint64_t steps, td_profile *out)
{
    const td_device_info *infos[] = {roles->data, roles->model};
    const size_t n_devices = roles->data == roles->model ? 1 : 2,
                 capacity = (size_t)steps + TD_PROFILE_WARM_UP;
    td_device *devices[2] = {NULL, NULL};
    td_monitor *monitor = NULL;
    td_train_settings s = *settings;
    td_train_result result;
    td_status status = TD_OK;
    char folder[TD_FILE_PATH_BYTES] = "";
    *out = (td_profile){0};
    name_devices(roles, out);
    TD_TRY(make_folder(folder, sizeof folder));
    if (s.monitor == NULL) TD_TRY(td_monitor_create(capacity, out->is_single, &monitor));
    TD_TRY(td_devices_open(registry, infos, n_devices, devices));
    s.run_dir = folder;
    s.is_trial = true;
    if (monitor != NULL) s.monitor = monitor;
    s.max_steps = capacity;
    s.grad_accum = 1;
    s.epochs = s.save_every = s.val_every = s.sample_every = 0;
    s.max_minutes = 0;
    s.resume = s.events_dir = s.dump_step = s.config_text = NULL;
    TD_TRY(td_train_run(devices[0], devices[n_devices - 1], &s, &result));
    out->samples_per_step = (double)result.n_items / (double)capacity;
    out->audio_s_per_step = result.audio_s / (double)capacity;
    out->host_ms = result.host_ms_per_step;
    out->data_peak_bytes = result.data_peak_bytes;
    out->model_peak_bytes = result.model_peak_bytes;
    TD_TRY(td_profile_read(s.monitor, capacity, TD_PROFILE_WARM_UP, out));
fail:
    for (size_t i = 0; i < n_devices; ++i)
        td_device_close(devices[i]);
    td_monitor_destroy(monitor);
    if (folder[0] && nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0)
        td_log_warn("%s could not be removed", folder);
    return status;
}

/* ---------------------------------------------------------------- ranks */

static void shift(td_interval *interval, uint64_t by_ns)
{
    if (interval->end_ns == 0) return;
    interval->start_ns += by_ns; /* by less than nothing where it wraps around */
    interval->end_ns += by_ns;
}

enum { BARRIERS = 15, BOOT_BYTES = 64 };

/* What a rank tells of itself: which clock it has, and what that showed when it left each of some barriers. */
typedef struct rank_clock {
    char boot[BOOT_BYTES]; /* "": not known */
    uint64_t at_ns[BARRIERS];
    uint64_t n_times;
} rank_clock;

/* Processes of one computer have one clock, and the system a name for its run. */
static void read_boot(char out[BOOT_BYTES])
{
    char *text = NULL;
    size_t bytes = 0;
    if (td_file_read("/proc/sys/kernel/random/boot_id", BOOT_BYTES, &text, &bytes) == TD_OK)
        (void)snprintf(out, BOOT_BYTES, "%.*s", (int)bytes, text);
    free(text);
}

static int by_size(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* What is to be added to a rank's times: the median, since leaving a barrier takes now and then longer. */
static uint64_t compare_clocks(const rank_clock *first, const rank_clock *other)
{
    int64_t ahead[BARRIERS];
    if (first->boot[0] != '\0' && strcmp(first->boot, other->boot) == 0) return 0;
    for (int i = 0; i < BARRIERS; ++i)
        ahead[i] = (int64_t)(first->at_ns[i] - other->at_ns[i]);
    qsort(ahead, BARRIERS, sizeof *ahead, by_size);
    return (uint64_t)ahead[BARRIERS / 2];
}

td_status td_profile_gather(td_profile *p, td_cluster *cluster)
{
    const uint32_t n_ranks = td_cluster_size(cluster);
    rank_clock mine = {.n_times = p->n_times}, *all = NULL;
    td_status status = TD_OK;
    if (n_ranks == 1) return TD_OK;
    read_boot(mine.boot);
    TD_TRY(TD_NEW_ARRAY(&all, n_ranks));
    for (int i = 0; i < BARRIERS; ++i) {
        TD_TRY(td_cluster_barrier(cluster));
        mine.at_ns[i] = td_clock_ns();
    }
    TD_TRY(td_cluster_all_gather(cluster, &mine, sizeof mine, all));
    for (uint32_t r = 0; r < n_ranks; ++r) /* one may have seen a step more */
        if (all[r].n_times < p->n_times) p->n_times = all[r].n_times;
    TD_TRY(TD_NEW_ARRAY(&p->rank_times, n_ranks * p->n_times));
    TD_TRY(td_cluster_all_gather(cluster, p->times, p->n_times * sizeof *p->times, p->rank_times));
    p->n_ranks = n_ranks;
    for (size_t i = 0; i < n_ranks * p->n_times; ++i) {
        const uint64_t by_ns = compare_clocks(&all[0], &all[i / p->n_times]);
        for (int s = 0; s < TD_STAGE_COUNT; ++s)
            shift(&p->rank_times[i].stages[s], by_ns);
        shift(&p->rank_times[i].reduce, by_ns);
        shift(&p->rank_times[i].gather, by_ns);
    }
fail:
    free(all);
    return status;
}
