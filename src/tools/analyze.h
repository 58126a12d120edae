/* `tandem analyze`: where the data pipeline loses time. Text preprocessing with and without the cache,
 * decoding file by file, mel, waits between batches, how long a model device would idle, what other numbers
 * of workers give, and from all that what to change. Prints nothing (src/cli/cmd_analyze.c does). Covered by
 * tests/cli/test_load.py.
 */
#ifndef TD_TOOLS_ANALYZE_H
#define TD_TOOLS_ANALYZE_H

#include "tools/load_rig.h"

enum { TD_ANALYZE_SLOWEST = 10, TD_ANALYZE_SWEEP = 6, TD_ANALYZE_ADVICE = 8 };

typedef struct td_analyze_options {
    td_data_settings load;
    double step_ms;     /* of a training step, which a pause stands in for */
    size_t max_files;   /* that are decoded one by one; spread over the dataset */
    size_t max_batches; /* of a run */
} td_analyze_options;

typedef struct td_analyze_file {
    uint32_t row;
    double ms, audio_s;
} td_analyze_file;

typedef struct td_analyze_workers {
    size_t workers;
    double samples_per_s;
} td_analyze_workers;

typedef struct td_analyze_advice {
    double gain;     /* training steps a second, as a factor: 1.5 = half as many again */
    char option[64]; /* what to write, "--num-workers 8"; "" where no option does it */
    char reason[192];
} td_analyze_advice;

typedef struct td_analysis {
    size_t n_rows, workers;
    double text_cold_s, text_cached_s; /* cached: 0 without a cache */
    size_t n_files;
    td_stats decode_ms; /* of a file, one thread */
    td_analyze_file slowest[TD_ANALYZE_SLOWEST];
    size_t n_slowest;
    double mel_ms; /* of a batch, upload included; the median */
    double audio_s_per_batch;
    td_load_run free_run;    /* as fast as it goes, from disk */
    td_load_run paced_run;   /* with a pause of step_ms after each batch, from disk */
    td_mel_cache_kind cache; /* that the options give; NONE: cached_run is zero */
    td_load_run cached_run;  /* as fast as it goes, from the second epoch on */
    td_analyze_workers sweep[TD_ANALYZE_SWEEP];
    size_t n_sweep;
    td_analyze_advice advice[TD_ANALYZE_ADVICE]; /* the largest gain first */
    size_t n_advice;
} td_analysis;

/* `rig` is open, with the dataset of the options. */
td_status td_analyze_run(const td_load_rig *rig, const td_analyze_options *options, td_analysis *out);

#endif
