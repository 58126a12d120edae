/* The doctor of datasets: measures every row (row_sound.h, row_fit.h, languages, copies) on all threads, judges it by
 * the table of row_checks.h, ranks what was found, and writes a table without the rows that are better left out, or
 * a page to look and listen. Reads the dataset, changes nothing in it. Covered by tests/cli/test_dataset_check.py.
 */
#ifndef TD_TOOLS_DATASET_CHECK_H
#define TD_TOOLS_DATASET_CHECK_H

#include "data/dataset.h"
#include "device/dispatch.h"
#include "tools/row_checks.h"

enum { TD_CHECKS_MAX = 16, TD_FINDING_BYTES = 256 };

typedef struct td_finding {
    uint32_t at;    /* of the checked rows */
    uint32_t check; /* of the table */
    double value;
    double excess; /* td_row_check_excess() */
} td_finding;

/* Borrows the dataset until it is freed. */
typedef struct td_dataset_check {
    const td_dataset *dataset;
    td_metadata *table;   /* owned: texts as the table has them */
    td_checked_row *rows; /* owned; those whose text and recording can be used, in the order of the table */
    size_t n_rows, n_heard, n_fitted; /* fitted: text and sound were compared, */
    bool is_by_aligner, is_adapted;   /* by an aligner, which has learnt the voices; else letter by letter */
    td_check_limits limits[TD_CHECKS_MAX];
    size_t counts[TD_CHECKS_MAX];        /* findings of each check */
    td_finding *findings;                /* owned; rows to leave out first, then by excess */
    size_t n_findings, n_accused, n_out; /* rows with a finding; with one that leaves them out */
    bool *is_out;                        /* owned: of each checked row */
} td_dataset_check;

/* What texts and sounds are compared with, where there is one. */
typedef struct td_dataset_aligner {
    const char *path;  /* a checkpoint; NULL: none */
    td_memory *memory; /* of the device that it runs on */
} td_dataset_aligner;

/* `settings`: those the dataset was opened with; without `listen` only texts are judged. *out: owned,
 * td_dataset_check_free(). */
td_status td_dataset_check_run(const td_dataset_settings *settings, const td_dataset *dataset,
                               const td_dataset_aligner *aligner, td_pool *pool, td_dataset_check **out);
void td_dataset_check_free(td_dataset_check *check);

/* "clipped: 2.1 % of the samples in flat tops; usual 0, limit 0.05". */
void td_dataset_check_describe(const td_dataset_check *check, const td_finding *finding,
                               char out[TD_FINDING_BYTES]);

/* Whether the usual value of a check is itself poor, so that its remark applies to the dataset. */
bool td_dataset_check_is_poor(const td_dataset_check *check, size_t i);

/* Copies and texts that occur again: fills same_sound and same_text. */
td_status td_dataset_check_find_same(td_dataset_check *check);

typedef struct td_fixed_table {
    size_t n_kept, n_out; /* out: also rows that could not be used at all */
    bool is_elsewhere;    /* not in the dataset's folder, where recordings are looked for */
} td_fixed_table;

/* Writes the table again, line by line as it was, without blank lines, bad rows and those with a finding that leaves
 * them out. Where each text has a file of its own, the copy is a table audio_file|text|speaker_name. The dataset's own
 * files are refused (TD_ERR_CONFIG). */
td_status td_dataset_check_fix(const td_dataset_check *check, const char *path, td_fixed_table *out);

enum {
    TD_DATASET_PAGE_ROWS = 100,
    TD_DATASET_PAGE_BYTES = 24 << 20
}; /* most of what is shown with its sound */

/* The page: rows with findings, worst first, with spectrogram and player. */
td_status td_dataset_check_write_page(const td_dataset_check *check, const char *path);

#endif
