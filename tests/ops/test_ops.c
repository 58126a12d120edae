/* The op suite: every kernel on every device present, and on CPU devices of OpenCL in class GPU too.
 *
 *   test_ops [test|grad|perf|support|list] [-o OP] [-d DEVICE] [-c cpu|gpu] [-m WORDS] [-s WORDS]
 *            [-a BYTES] [--json FILE]
 *
 * test     judges every case; a kernel of ops.def that no case of a device launched fails the suite
 * grad     the backward cases alone
 * perf     times the ops of `tandem bench kernels`, in the device's own class unless -c says otherwise
 * support  how many cases passed, per kernel and device
 * list     the cases, with words in all buffers and the kernels they name
 *
 * -o takes a part of an op's name or, after an equals sign, the whole; -d a selector as `tandem devices`
 * prints it, -m leaves out cases with more words in all buffers, for builds with a sanitizer, to which large
 * cases show nothing that small ones do not; -s does the same for interpreters that check memory
 * (scripts/oclgrind.sh), where every buffer then ends where its memory does; -a treats devices as if bindings had to
 * start at multiples of so many bytes. Exit code 0, 1 when a case
 * failed, 2 for wrong usage. PoCL and lavapipe must be there unless TANDEM_TEST_ALLOW_MISSING=1.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "device/backend.h"
#include "suite_internal.h"
#include "support/rig.h"
#include "tools/bench_kernels.h"

typedef enum mode { MODE_TEST, MODE_GRAD, MODE_PERF, MODE_SUPPORT, MODE_LIST, MODE_COUNT } mode;
static const char *const MODE_NAMES[MODE_COUNT] = {"test", "grad", "perf", "support", "list"};
static const char *const CLASS_NAMES[TD_CLASS_COUNT] = {"cpu", "gpu"};

#define MAX_COLUMNS 16

typedef struct run {
    mode mode;
    const char *op, *device, *class_name, *most_words, *checked_words, *align, *json_path;
    FILE *json_file;
    td_json *json;
    size_t passed, failed, skipped;
    size_t n_columns; /* devices so far, a class each */
    char column[MAX_COLUMNS][128];
    uint32_t launches[TD_KERNEL_COUNT][MAX_COLUMNS]; /* by cases that passed */
} run;

/* ---------------------------------------------------------------- reports */

static void write_json(run *r, const op_case *c, const op_result *result)
{
    static const char *const VERDICTS[] = {"pass", "fail", "skip"};
    if (!r->json) return;
    td_json_begin_object(r->json);
    td_json_key(r->json, "op");
    td_json_string(r->json, c->op);
    td_json_key(r->json, "case");
    td_json_string(r->json, c->label);
    td_json_key(r->json, "device");
    td_json_string(r->json, r->column[r->n_columns]);
    td_json_key(r->json, "verdict");
    td_json_string(r->json, VERDICTS[result->verdict]);
    if (result->message[0]) {
        td_json_key(r->json, "message");
        td_json_string(r->json, result->message);
    }
    td_json_key(r->json, "error");
    td_json_double(r->json, result->error);
    td_json_end_object(r->json);
}

static void take_time(void *context, const td_bench_kernels_row *row)
{
    run *r = context;
    const bool is_product = row->gflops > 0;
    r->passed++;
    printf("  %-16s %-32s %9.3f ms %8.1f %s %5.2f of a %s\n", row->op, row->shape, row->ms,
           is_product ? row->gflops : row->gbps, is_product ? "GF/s" : "GB/s", row->share, row->of);
    fflush(stdout);
    if (!r->json) return;
    td_json_begin_object(r->json);
    td_json_key(r->json, "op");
    td_json_string(r->json, row->op);
    td_json_key(r->json, "case");
    td_json_string(r->json, row->shape);
    td_json_key(r->json, "device");
    td_json_string(r->json, r->column[r->n_columns]);
    td_json_key(r->json, "ms");
    td_json_double(r->json, row->ms);
    td_json_key(r->json, "share");
    td_json_double(r->json, row->share);
    td_json_key(r->json, "of");
    td_json_string(r->json, row->of);
    td_json_end_object(r->json);
}

static void take_result(run *r, const op_case *c, const op_result *result)
{
    switch (result->verdict) {
    case OP_PASS:
        r->passed++;
        for (int id = 0; id < TD_KERNEL_COUNT; id++)
            r->launches[id][r->n_columns] += result->launched[id];
        break;
    case OP_FAIL:
        r->failed++;
        printf("  FAIL %s, %s%s: %s\n", c->op, c->label, c->is_gradient ? " (gradient)" : "",
               result->message);
        break;
    case OP_SKIP:
        r->skipped++;
        printf("  SKIP %s, %s: %s\n", c->op, c->label, result->message);
        break;
    }
    fflush(stdout);
    write_json(r, c, result);
}

static void print_support(const run *r)
{
    for (size_t d = 0; d < r->n_columns; d++)
        printf("(%zu) %s\n", d + 1, r->column[d]);
    printf("%-28s", "cases passed on");
    for (size_t d = 0; d < r->n_columns; d++)
        printf("   (%zu)", d + 1);
    printf("\n");
    for (int id = 0; id < TD_KERNEL_COUNT; id++) {
        printf("%-28s", td_kernel_get((td_kernel_id)id)->name);
        for (size_t d = 0; d < r->n_columns; d++)
            printf(" %5u", r->launches[id][d]);
        printf("\n");
    }
}

/* Every kernel of ops.def must have been launched by a case that passed, on every device and class that ran.
 */
static void check_coverage(run *r)
{
    for (size_t d = 0; d < r->n_columns; d++) {
        for (int id = 0; id < TD_KERNEL_COUNT; id++) {
            if (r->launches[id][d]) continue;
            printf("FAIL kernel %s of ops.def has no case that passes on %s\n",
                   td_kernel_get((td_kernel_id)id)->name, r->column[d]);
            r->failed++;
        }
    }
}

/* ---------------------------------------------------------------- running */

static void list_cases(const op_suite *suite)
{
    for (size_t i = 0; i < suite->count; i++) {
        const op_case *c = &suite->cases[i];
        printf("%-24s %8zu %-8s %-44s %s\n", c->op, op_case_words(c), c->is_gradient ? "gradient" : "forward",
               c->label, c->kernels);
    }
}

static void run_family(run *r, const op_bench *bench, const op_family *family)
{
    const char *most_words = r->checked_words ? r->checked_words : r->most_words;
    op_suite suite = {.op = r->op,
                      .gradients_only = r->mode == MODE_GRAD,
                      .most_words = most_words ? strtoul(most_words, NULL, 10) : 0};
    family->make(&suite, bench->device);
    if (r->mode == MODE_LIST) list_cases(&suite);
    for (size_t i = 0; r->mode != MODE_LIST && i < suite.count; i++) {
        op_result result;
        op_run_case(bench, &suite.cases[i], &result);
        take_result(r, &suite.cases[i], &result);
    }
    op_suite_clear(&suite);
}

static void begin_column(run *r, const td_device_info *info)
{
    snprintf(r->column[r->n_columns], sizeof r->column[0], "%s, class %s", info->selector,
             CLASS_NAMES[info->gpu_kernels ? TD_CLASS_GPU : TD_CLASS_CPU]);
    if (r->mode != MODE_LIST) printf("%s\n", r->column[r->n_columns]);
}

static td_status time_device(run *r, td_registry *registry, const td_device_info *info)
{
    char pattern[64];
    const td_bench_kernels_options options = {.ops = pattern, .rounds = 15};
    td_status status = TD_OK;
    snprintf(pattern, sizeof pattern, "*%s*", r->op ? r->op : "");
    begin_column(r, info);
    TD_TRY(td_bench_kernels_run(registry, info, &options, take_time, r));
    r->n_columns++;
fail:
    return status;
}

static td_status run_device(run *r, td_registry *registry, const td_device_info *info)
{
    op_bench bench = {0};
    td_span held;
    td_status status = TD_OK;
    TD_TRY(td_device_open(registry, info, &bench.device));
    if (r->align) bench.device->info.caps.offset_align = (uint32_t)strtoul(r->align, NULL, 10);
    bench.is_checked = r->checked_words != NULL;
    TD_TRY(td_memory_create(bench.device, "test", 0, &bench.memory));
    for (int kind = 0; kind < TD_MEMORY_KIND_COUNT; kind++) /* so that the first chunk stays between cases */
        TD_TRY(td_memory_alloc(bench.memory, (td_memory_kind)kind, 4, &held));
    begin_column(r, info);
    for (size_t f = 0; f < OP_FAMILY_COUNT; f++)
        run_family(r, &bench, &OP_FAMILIES[f]);
    r->n_columns++;
fail:
    td_memory_destroy(bench.memory);
    td_device_close(bench.device);
    return status;
}

/* In the second round the CPU devices of OpenCL run kernels of class GPU; others would only repeat. */
static bool is_in_round(const run *r, const td_device_info *info, const td_device_info *only, int round)
{
    const bool own_gpu = info->type != TD_DEVICE_CPU;
    const int kernel_class = own_gpu || round == 1 ? TD_CLASS_GPU : TD_CLASS_CPU;
    if (!info->usable || r->n_columns == MAX_COLUMNS || (only && only != info)) return false;
    if (r->class_name && strcmp(r->class_name, CLASS_NAMES[kernel_class]) != 0) return false;
    if (round == 0) return r->mode != MODE_LIST || r->n_columns == 0;
    return !own_gpu && info->api == TD_API_OPENCL && r->mode != MODE_LIST &&
           (r->mode != MODE_PERF || r->class_name);
}

static td_status check_standard_devices(const td_registry *registry)
{
    const td_device_info *info = NULL;
    td_status status = TD_OK;
    if (missing_is_allowed()) return TD_OK;
    TD_TRY(td_registry_select(registry, POCL_SELECTOR, &info));
    TD_TRY(td_registry_select(registry, LAVAPIPE_SELECTOR, &info));
fail:
    return status;
}

static td_status run_round(run *r, int round)
{
    td_registry *registry = NULL;
    td_registry_options options;
    const td_device_info *only = NULL;
    td_status status = TD_OK;
    td_registry_options_from_env(&options);
    options.gpu_kernels = round == 1;
    TD_TRY(td_registry_open(&options, &registry));
    if (r->device)
        TD_TRY(td_registry_select(registry, r->device, &only));
    else
        TD_TRY(check_standard_devices(registry));
    for (size_t i = 0; i < td_registry_count(registry); i++) {
        const td_device_info *info = td_registry_info(registry, i);
        if (is_in_round(r, info, only, round))
            TD_TRY((r->mode == MODE_PERF ? time_device : run_device)(r, registry, info));
    }
    TD_FAIL_IF(td_registry_validation_messages(registry) > 0, TD_ERR_DRIVER,
               "the Vulkan validation layer complained %llu times",
               (unsigned long long)td_registry_validation_messages(registry));
fail:
    td_registry_close(registry);
    return status;
}

static td_status run_all(run *r)
{
    td_status status = TD_OK;
    if (r->json_path) {
        r->json_file = fopen(r->json_path, "w");
        TD_FAIL_IF(!r->json_file, TD_ERR_IO, "%s cannot be written", r->json_path);
        TD_TRY(td_json_create(r->json_file, 2, &r->json));
        td_json_begin_array(r->json);
    }
    TD_TRY(run_round(r, 0));
    TD_TRY(run_round(r, 1));
    if (r->json) {
        td_json_end_array(r->json);
        TD_TRY(td_json_finish(r->json, NULL));
    }
fail:
    td_json_destroy(r->json);
    if (r->json_file) fclose(r->json_file);
    return status;
}

/* ---------------------------------------------------------------- command line */

static bool parse(run *r, int argc, char **argv)
{
    int i = 1;
    if (i < argc && argv[i][0] != '-') {
        for (r->mode = MODE_TEST; r->mode < MODE_COUNT; r->mode++)
            if (strcmp(argv[i], MODE_NAMES[r->mode]) == 0) break;
        if (r->mode == MODE_COUNT) return false;
        i++;
    }
    for (; i + 1 < argc; i += 2) {
        const char **value = strcmp(argv[i], "-o") == 0       ? &r->op
                             : strcmp(argv[i], "-d") == 0     ? &r->device
                             : strcmp(argv[i], "-c") == 0     ? &r->class_name
                             : strcmp(argv[i], "-m") == 0     ? &r->most_words
                             : strcmp(argv[i], "-s") == 0     ? &r->checked_words
                             : strcmp(argv[i], "-a") == 0     ? &r->align
                             : strcmp(argv[i], "--json") == 0 ? &r->json_path
                                                              : NULL;
        if (!value) return false;
        *value = argv[i + 1];
    }
    return i == argc;
}

int main(int argc, char **argv)
{
    static run r; /* too large for a stack */
    if (!parse(&r, argc, argv)) {
        fprintf(stderr,
                "usage: %s [test|grad|perf|support|list] [-o OP] [-d DEVICE] [-c cpu|gpu] "
                "[-m WORDS] [-s WORDS] [-a BYTES] [--json FILE]\n",
                argv[0]);
        return 2;
    }
    if (run_all(&r) != TD_OK) {
        printf("FAIL %s\n", td_error_last()->message);
        r.failed++;
    }
    if (r.mode != MODE_LIST && r.passed + r.failed == 0) {
        printf("FAIL nothing was asked for that exists\n");
        r.failed++;
    }
    if (r.mode == MODE_SUPPORT) print_support(&r);
    if (r.mode == MODE_TEST && !r.op && !r.checked_words) check_coverage(&r);
    if (r.mode != MODE_LIST)
        printf("test_ops %s: %zu passed, %zu failed, %zu skipped\n", MODE_NAMES[r.mode], r.passed, r.failed,
               r.skipped);
    return r.failed ? 1 : 0;
}
