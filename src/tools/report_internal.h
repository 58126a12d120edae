/* What the parts of the report share. See report.h. */
#ifndef TD_TOOLS_REPORT_INTERNAL_H
#define TD_TOOLS_REPORT_INTERNAL_H

#include <stdbool.h>

#include "base/file.h"
#include "base/json.h"
#include "tools/report.h"

enum { TD_REPORT_NOTES = 32, TD_REPORT_NOTE_BYTES = 512 };

/* The run being told. */
typedef struct td_report_state {
    td_json *json;
    td_report_run *run;
    const td_option_table *table;
    char notes[TD_REPORT_NOTES][TD_REPORT_NOTE_BYTES]; /* run->n_notes of them */
} td_report_state;

/* Something the reader should know; past TD_REPORT_NOTES they are dropped. */
void td_report_note(td_report_state *state, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The path of a file of the run. */
td_status td_report_path(const td_report_state *state, const char *name, char out[TD_FILE_PATH_BYTES]);

/* Each puts keys into the open object of the run. A missing or broken file is a note, not a failure. */
td_status td_report_put_events(td_report_state *state);      /* "events" */
td_status td_report_put_config(td_report_state *state);      /* "config" */
td_status td_report_put_checkpoints(td_report_state *state); /* "checkpoints" */
td_status td_report_put_samples(td_report_state *state);     /* "samples" */

#endif
