/* `tandem bench text`: how long a dataset takes from its table to tokens, cold and from the cache. The table
 * is generated: English sentences of the usual length, with numbers, years, money, times and abbreviations
 * as often as in real transcriptions, no line twice. Recordings are not part of it. Prints nothing
 * (src/cli/cmd_bench_text.c does). Covered by tests/cli/test_cli.py.
 */
#ifndef TD_TOOLS_BENCH_TEXT_H
#define TD_TOOLS_BENCH_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "base/stats.h"
#include "tandem/status.h"

typedef struct td_bench_text_result {
    size_t lines;
    size_t workers;
    uint32_t rounds;
    double characters_per_line;
    double first_s;  /* the first run, which also reads the libraries' own tables */
    td_stats cold_s; /* runs without a cache; writing it is included */
    td_stats cached_s;
    double lines_per_s; /* cold */
    size_t cache_bytes;
} td_bench_text_result;

/* `workers` 0: one per core. Works in a folder of its own under $TMPDIR, which it removes. */
td_status td_bench_text_run(size_t lines, size_t workers, uint32_t rounds, td_bench_text_result *out);

/* Line `index` of the table (an id, a bar, a sentence and the end of the line) into `out`; its length. */
size_t td_bench_text_line(size_t index, char *out, size_t capacity);

#endif
