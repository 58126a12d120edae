/* What the commands that load batches share: from options to the settings of a loader. */
#ifndef TD_CLI_LOAD_OPTIONS_H
#define TD_CLI_LOAD_OPTIONS_H

#include "cli/cli.h"
#include "tools/load_rig.h"

/* `workers` is left to the caller. `cache_dir` is where a part of *out lives. */
td_status td_cli_load_options(const td_cli *cli, char cache_dir[TD_FILE_PATH_BYTES], td_data_settings *out);

#endif
