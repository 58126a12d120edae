/* From options (settings/table.h) to the settings of datasets, loaders and training runs, with the presets of
 * models and the defaults by device memory. Covered by tests/cli/test_train.py and tests/cli/test_load.py.
 */
#ifndef TD_SETTINGS_READ_H
#define TD_SETTINGS_READ_H

#include "base/file.h"
#include "base/options.h"
#include "pipeline/roles.h"
#include "train/train.h"

/* The registry with the environment's and the options' settings. *out is owned. */
td_status td_settings_open_registry(const td_options *options, td_registry **out);

/* The ranks that the options ask for. *out is owned. */
td_status td_settings_open_cluster(const td_options *options, td_cluster **out);

/* The roles the options ask for; of one process among several on its computer. */
td_status td_settings_resolve_roles(const td_options *options, const td_registry *registry, td_roles *out);
td_status td_settings_resolve_rank(const td_options *options, const td_registry *registry,
                                   uint32_t local_rank, td_roles *out);

/* A pool of pipeline.num_workers threads. *out is owned. */
td_status td_settings_open_pool(const td_options *options, td_pool **out);

/* `dir` is left to the caller. `cache_dir` is where a part of *out lives, here and below. */
td_status td_settings_dataset(const td_options *options, char cache_dir[TD_FILE_PATH_BYTES],
                              td_dataset_settings *out);

/* Of a loader; `workers` is left to the caller. */
td_status td_settings_load(const td_options *options, char cache_dir[TD_FILE_PATH_BYTES],
                           td_data_settings *out);

/* The family that the options choose; borrowed. */
const td_family *td_settings_family(const td_options *options);

/* Of a training run. The presets of the model and what the device's memory decides are put among the options,
 * so that config.ini shows them. tell, wants_end and config_text are left to the caller. */
td_status td_settings_train(td_options *options, const td_device_info *device,
                            char cache_dir[TD_FILE_PATH_BYTES], td_train_settings *out);

/* The same where no dataset need be named: for planning. */
td_status td_settings_plan(td_options *options, const td_device_info *device,
                           char cache_dir[TD_FILE_PATH_BYTES], td_train_settings *out);

/* Of "fp32", "bf16" or "fp16", as the options have it. */
td_dtype td_settings_precision(const char *name);

/* And of training.optimizer_state. */
td_state_format td_settings_state(const char *name);

#endif
