/* Whether a row's text and sound belong together, as an aligner (align/align.h) hears it: each sound is laid along its own
 * text and along the texts of other rows; where many others fit better, the text is not what was said. An aligner that does
 * not know the voices learns them first, from rows whose own text fits best of all. Covered by
 * tests/cli/test_dataset_check.py and measured by tests/peers/dataset_check.py.
 */
#ifndef TD_TOOLS_ROW_HEAR_H
#define TD_TOOLS_ROW_HEAR_H

#include "data/dataset.h"
#include "device/dispatch.h"
#include "tools/row_checks.h"

typedef struct td_hearing {
    const td_dataset *dataset;
    const td_checked_row *rows; /* [n_rows] */
    size_t n_rows;
    td_memory *memory;
    const char *aligner;      /* a checkpoint */
    td_dataset_report report; /* may be NULL */
    void *report_context;
} td_hearing;

typedef struct td_hearing_result {
    bool is_usable;  /* four of five rows find their own text; else the aligner does not know the language */
    bool is_adapted; /* it has learnt the voices */
    size_t n_judged;
} td_hearing_result;

/* better[n_rows]: as td_checked_row has it; NAN where nothing is heard or the text has no letters. */
td_status td_hearing_run(const td_hearing *hearing, double *better, td_hearing_result *out);

#endif
