/* The part of `inspect` that shows checkpoints. */
#ifndef TD_CLI_INSPECT_CHECKPOINT_H
#define TD_CLI_INSPECT_CHECKPOINT_H

#include "cli/cli.h"

/* Returns the exit code. */
int td_cli_inspect_checkpoint(const td_cli *cli, const char *path);

#endif
