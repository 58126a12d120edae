/* What a dataset is like, as `prepare` and `inspect` tell: amounts, lengths, languages, speakers, rates, and
 * rows worth a look: texts that occur twice or do not fit their recording, and recordings with flaws.
 * Covered by tests/data/test_summary.c.
 */
#ifndef TD_DATA_SUMMARY_H
#define TD_DATA_SUMMARY_H

#include "base/stats.h"
#include "data/dataset.h"

enum {
    TD_SUMMARY_BINS = 12, /* of seconds: 0-1, 1-2, ... 10-11, 11 and more */
    TD_SUMMARY_RATES = 8,
    TD_SUMMARY_EXAMPLES = 10,
};

typedef struct td_summary_rate {
    uint32_t rate_hz;
    size_t n_rows;
} td_summary_rate;

/* Rows of one kind: how many, and the first of them. */
typedef struct td_summary_rows {
    size_t count;
    uint32_t first[TD_SUMMARY_EXAMPLES];
} td_summary_rows;

/* Of the rows that can be used. */
typedef struct td_summary {
    size_t n_rows, n_train, n_val, n_bad;
    double hours;
    td_stats seconds; /* of a recording; all 0 without audio */
    double p99_seconds;
    size_t bins[TD_SUMMARY_BINS];
    td_stats characters, tokens; /* of a text */
    double p99_tokens;
    double characters_per_second;            /* the median */
    size_t languages[TD_LANG_COUNT];         /* rows of each */
    size_t *speakers;                        /* rows of each, owned */
    td_summary_rate rates[TD_SUMMARY_RATES]; /* most frequent first; 0 rows ends them */
    size_t n_not_mono;
    size_t n_unknown;           /* characters that are not in the symbol table */
    td_summary_rows duplicates; /* texts that an earlier row has */
    td_summary_rows hurried;    /* more than twice the usual characters per second: text too long */
    td_summary_rows slow;       /* less than half of it: text too short */
    size_t n_heard;             /* recordings that were listened to; what follows is of them */
    double silence_s;           /* at both ends of a recording, the mean */
    td_summary_rows clipped;    /* samples at full scale */
    td_summary_rows silent;     /* never louder than -40 dB */
    td_summary_rows off_centre; /* mean further than 1 % of full scale from 0 */
} td_summary;

td_status td_summary_make(const td_dataset *dataset, td_summary *out);
void td_summary_free(td_summary *summary);

#endif
