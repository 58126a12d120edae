/* `tandem bench decode`: shows what tools/bench_decode.h measured. */
#include <stdio.h>

#include "base/error.h"
#include "cli/cli.h"
#include "ops/decode.h"
#include "tools/bench_decode.h"

typedef struct setting {
    td_bench_decode_options options;
    const char *weights;
} setting;

static void put_result(td_json *json, const setting *s, const td_bench_decode_result *r)
{
    td_json_put_string(json, "weights", s->weights);
    td_json_put_uint(json, "layers", s->options.layers);
    td_json_put_uint(json, "width", s->options.width);
    td_json_put_uint(json, "prompt", s->options.prompt);
    td_json_put_uint(json, "codes", s->options.codes);
    td_json_put_uint(json, "texts", s->options.texts);
    td_json_put_double(json, "codes_per_s", r->codes_per_s);
    td_json_put_double(json, "ms_per_code", r->ms);
    td_json_put_double(json, "spread", r->spread);
    td_json_put_double(json, "bytes_per_code", r->bytes_per_code);
    td_json_put_double(json, "gbps", r->gbps);
    td_json_put_double(json, "copy_gbps", r->copy_gbps);
    td_json_put_double(json, "share_of_copy", r->share_of_copy);
    td_json_put_double(json, "read_gbps", r->read_gbps);
    td_json_put_double(json, "share_of_read", r->share_of_read);
    td_json_put_double(json, "realtime_factor", r->realtime_factor);
    td_json_put_uint(json, "launches_per_code", r->launches_per_code);
    td_json_put_uint(json, "peak_device_bytes", r->peak_bytes);
}

static void print_result(const td_device_info *info, const setting *s, const td_bench_decode_result *r)
{
    td_cli_print_setting(info);
    td_printf(
        "work           %u blocks of width %u, weights %s, %u codes behind %u rows, %u text%s at once\n",
        s->options.layers, s->options.width, s->weights, s->options.codes, s->options.prompt,
        s->options.texts, s->options.texts == 1 ? "" : "s");
    td_printf("speed          %.2f codes/s, %.2f times real time; %.2f ms a code, spread %.0f %%\n",
              r->codes_per_s, r->realtime_factor, r->ms, 100 * r->spread);
    td_printf("traffic        %.0f MB a code, %.2f GB/s: %.2f of a copy's %.2f, %.2f of reading's %.2f\n",
              1e-6 * r->bytes_per_code, r->gbps, r->share_of_copy, r->copy_gbps, r->share_of_read,
              r->read_gbps);
    td_printf("launches       %u a code\n", r->launches_per_code);
    td_printf("memory         %.0f MB of the device\n", 1e-6 * (double)r->peak_bytes);
}

static td_status measure(void *context, td_registry *registry, const td_device_info *info, td_json *json)
{
    const setting *s = context;
    td_bench_decode_result result;
    TD_CHECK(td_bench_decode_run(registry, info, &s->options, &result));
    if (json)
        put_result(json, s, &result);
    else
        print_result(info, s, &result);
    return TD_OK;
}

int td_cmd_bench_decode(td_cli *cli)
{
    const char *weights = td_cli_text(cli, "synth.weights");
    setting s = {.options = {.layers = (uint32_t)td_cli_count(cli, "bench.layers"),
                             .width = (uint32_t)td_cli_count(cli, "bench.width"),
                             .prompt = (uint32_t)td_cli_count(cli, "bench.prompt"),
                             .codes = (uint32_t)td_cli_count(cli, "bench.codes"),
                             .texts = (uint32_t)td_cli_count(cli, "synth.at_once")},
                 .weights = weights ? weights : "fp32"};
    if (s.options.texts == 0) s.options.texts = 1;
    if (td_decode_format(weights, &s.options.format) != TD_OK) return td_cli_fail(cli, NULL);
    return td_cli_measure_device(cli, measure, &s);
}
