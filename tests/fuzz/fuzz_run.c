/* libFuzzer target: any bytes as what a run's report reads: the metrics, up to the first zero byte, and the
 * configuration behind it. A page must come of it whatever they hold.
 * clang -fsanitize=fuzzer,address,undefined; start it with the files of tests/fuzz/corpus/run.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "fuzz/scratch.h"
#include "tools/report_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static td_report_state state;
    static td_cli_table table;
    td_report_run run = {.dir = scratch_dir()};
    const uint8_t *zero = bytes > 0 ? memchr(data, 0, bytes) : NULL;
    const size_t first = zero ? (size_t)(zero - data) : bytes;
    td_json *json = NULL;
    scratch_file("metrics.jsonl", data, first);
    scratch_file("config.ini", data + first, bytes - first);
    if (td_json_create(NULL, 0, &json) != TD_OK) return 0;
    if (table.table.options == NULL && td_cli_make_table(&table) != TD_OK) abort();
    state = (td_report_state){.json = json, .run = &run, .table = &table.table};
    td_json_begin_object(json);
    if (td_report_put_events(&state) != TD_OK || td_report_put_config(&state) != TD_OK) abort();
    td_json_end_object(json);
    if (td_json_finish(json, NULL) != TD_OK) abort();
    td_json_destroy(json);
    return 0;
}
