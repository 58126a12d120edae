/* A profile of real training: the same loop as `train`, watched, in a folder of its own that is removed
 * again. See profile.h. Covered by tests/cli/test_profile.py. */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
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
