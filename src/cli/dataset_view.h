/* What the commands that open datasets share. Covered by tests/cli/test_data.py. */
#ifndef TD_CLI_DATASET_VIEW_H
#define TD_CLI_DATASET_VIEW_H

#include "base/progress.h"
#include "cli/cli.h"
#include "data/summary.h"
#include "tools/dataset_check.h"

/* Progress on stderr, a line per stage; a td_dataset_report. Starts as {0}. */
typedef struct td_cli_progress {
    td_progress *bar; /* NULL: none is shown */
    const char *stage;
    uint64_t start_ns; /* of the stage */
} td_cli_progress;

void td_cli_show_progress(void *context, const char *stage, uint64_t done, uint64_t total);
void td_cli_end_progress(td_cli_progress *shown);

/* The dataset on stdout, or as one JSON object. */
void td_cli_print_dataset(const td_dataset *dataset, const td_summary *summary);
void td_cli_put_dataset(td_json *json, const td_dataset *dataset, const td_summary *summary);

/* What is wrong with its rows, likewise: dataset_findings.c. */
void td_cli_print_check(const td_cli *cli, const td_dataset_check *check);
void td_cli_put_check(td_json *json, const td_dataset_check *check);

#endif
