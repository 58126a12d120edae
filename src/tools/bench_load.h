/* `tandem bench load`: from recordings on disk to batches in the data device, without the mel cache and,
 * where one is asked for or chosen, from it. Prints nothing (src/cli/cmd_bench_load.c does). Covered by
 * tests/cli/test_load.py.
 */
#ifndef TD_TOOLS_BENCH_LOAD_H
#define TD_TOOLS_BENCH_LOAD_H

#include "tools/load_rig.h"

typedef struct td_bench_load_result {
    size_t workers, n_batches, n_items; /* of an epoch */
    size_t n_left_out;
    double audio_s; /* of an epoch */
    double samples_per_s, audio_s_per_s, spread;
    td_mel_cache_kind cache; /* NONE: the rest is 0 */
    double cached_samples_per_s, cached_audio_s_per_s, cached_spread;
    double hit_share; /* of the rows asked for while it counted */
} td_bench_load_result;

/* The median of `rounds` epochs, of at most `max_batches` (0: all) batches each, after one that warms up. */
td_status td_bench_load_run(td_registry *registry, const td_device_info *info,
                            const td_data_settings *options, uint32_t rounds, size_t max_batches,
                            td_bench_load_result *out);

#endif
