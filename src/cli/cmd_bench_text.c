/* `tandem bench text`: shows what tools/bench_text.h measured. Covered by tests/cli/test_data.py. */
#include <stdio.h>

#include "cli/cli.h"
#include "tools/bench_text.h"

static int print_json(const td_cli *cli, const td_bench_text_result *result)
{
    const struct {
        const char *key;
        double value;
    } fields[] = {
        {"cold_s", result->cold_s.median},
        {"cold_spread", result->cold_s.spread},
        {"cached_s", result->cached_s.median},
        {"cached_spread", result->cached_s.spread},
        {"first_s", result->first_s},
        {"lines_per_s", result->lines_per_s},
        {"characters_per_line", result->characters_per_line},
        {"lines", (double)result->lines},
        {"workers", (double)result->workers},
        {"rounds", result->rounds},
        {"cache_bytes", (double)result->cache_bytes},
    };
    td_json *json;
    if (td_cli_begin_json(&json) != TD_OK) return td_cli_fail(cli, NULL);
    td_cli_put_build(json);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; ++i)
        td_json_put_double(json, fields[i].key, fields[i].value);
    return td_cli_print_json(cli, json, TD_EXIT_DONE);
}

static void print_result(const td_bench_text_result *result)
{
    td_cli_print_build();
    td_printf("work           %zu generated lines of %.0f characters, %zu workers, median of %u runs\n",
              result->lines, result->characters_per_line, result->workers, result->rounds);
    td_printf("cold           %.3f s, spread %.0f %% (%.0f lines/s; the first run took %.3f s)\n",
              result->cold_s.median, 100 * result->cold_s.spread, result->lines_per_s, result->first_s);
    td_printf("cached         %.4f s, spread %.0f %%\n", result->cached_s.median,
              100 * result->cached_s.spread);
}

int td_cmd_bench_text(td_cli *cli)
{
    td_bench_text_result result;
    const size_t lines = (size_t)td_cli_count(cli, "bench.lines");
    const size_t workers = (size_t)td_cli_count(cli, "bench.workers");
    const uint32_t rounds = (uint32_t)td_cli_count(cli, "bench.rounds");
    if (td_bench_text_run(lines, workers, rounds, &result) != TD_OK) return td_cli_fail(cli, NULL);
    if (cli->json) return print_json(cli, &result);
    print_result(&result);
    return TD_EXIT_DONE;
}
