/* A training run, or two of them side by side, as one page that needs no network: curves, pictures, sounds,
 * devices, configuration, warnings. Reads what the run's folder holds (metrics.jsonl, config.ini, samples/,
 * checkpoints) and changes nothing there but the page; a run that is still going on, or was killed, is told
 * as far as it got, and what is missing is said on the page. Covered by tests/cli/test_report.py.
 */
#ifndef TD_TOOLS_REPORT_H
#define TD_TOOLS_REPORT_H

#include <stdint.h>

#include "base/options.h"

enum {
    TD_REPORT_RUNS = 2,
    TD_REPORT_POINTS = 2000,         /* most points of a run's curves; more are thinned out evenly */
    TD_REPORT_MEDIA_BYTES = 8 << 20, /* most bytes of a run's pictures and sounds, before base64 */
    TD_REPORT_SAMPLE_STEPS = 8,      /* most steps of which they are shown */
};

/* What a run gave. */
typedef struct td_report_run {
    const char *dir;       /* borrowed from the request */
    uint64_t n_lines;      /* of metrics.jsonl that could be read */
    uint64_t n_steps;      /* lines that tell of a step */
    uint64_t points_every; /* every how manieth of them is shown */
    uint64_t n_bad_lines;
    uint64_t last_step;
    size_t n_sample_steps, n_sample_steps_shown;
    uint64_t media_bytes;
    size_t n_notes; /* what is missing or was left out */
} td_report_run;

/* Borrowed during the call. */
typedef struct td_report_request {
    const char *dirs[TD_REPORT_RUNS];
    size_t n_dirs;
    const td_option_table *table; /* tells defaults and meanings of the configuration's keys */
    const char *path;             /* the page */
} td_report_request;

/* TD_ERR_CONFIG if a folder is not a run: it has neither metrics.jsonl nor config.ini. */
td_status td_report_write(const td_report_request *request, td_report_run runs[TD_REPORT_RUNS]);

#endif
