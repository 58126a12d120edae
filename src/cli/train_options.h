/* From options to the settings of a training run. Covered by tests/cli/test_train.py. */
#ifndef TD_CLI_TRAIN_OPTIONS_H
#define TD_CLI_TRAIN_OPTIONS_H

#include "cli/cli.h"
#include "train/train.h"

/* The presets of the model and what the device's memory decides are put among the options, so that config.ini
 * shows them. `cache_dir` is where a part of *out lives; tell, wants_end and config_text are left to the
 * caller. */
td_status td_cli_train_settings(td_cli *cli, const td_device_info *device, char cache_dir[TD_FILE_PATH_BYTES],
                                td_train_settings *out);

/* The same where no dataset need be named: for planning. */
td_status td_cli_plan_settings(td_cli *cli, const td_device_info *device, char cache_dir[TD_FILE_PATH_BYTES],
                               td_train_settings *out);

/* Of "fp32", "bf16" or "fp16", as the options have it. */
td_dtype td_cli_precision(const char *name);

/* The family that the options choose. */
const td_family *td_cli_family(const td_cli *cli);

#endif
