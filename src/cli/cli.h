/* What the commands share: the context of one run, output that obeys --json, --color and the terminal, and
 * the set-up most commands begin with. Only this folder prints or exits. Covered by tests/cli/test_cli.py.
 */
#ifndef TD_CLI_CLI_H
#define TD_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/json.h"
#include "base/log.h"
#include "base/options.h"
#include "pipeline/roles.h"
#include "tandem/device.h"

enum { TD_EXIT_DONE = 0, TD_EXIT_FAILED = 1, TD_EXIT_USAGE = 2, TD_EXIT_SIGNAL = 128 };

typedef struct td_cli {
    td_options *options; /* NULL before the arguments were read */
    td_log_context *log; /* log lines to stderr; NULL: dropped */
    bool json;           /* stdout carries exactly one JSON document */
    bool color_out, color_err;
    size_t columns; /* of the terminal at stdout; 0: no terminal, so nothing is cut or wrapped */
} td_cli;

/* ---------------------------------------------------------------- option_table.c */

enum {
    TD_COMMAND_DEVICES,
    TD_COMMAND_VALIDATE,
    TD_COMMAND_CHECK_CONFIG,
    TD_COMMAND_ADVISE,
    TD_COMMAND_PREPARE,
    TD_COMMAND_INSPECT,
    TD_COMMAND_ANALYZE,
    TD_COMMAND_TRAIN,
    TD_COMMAND_PROFILE,
    TD_COMMAND_SYNTH,
    TD_COMMAND_TUNE,
    TD_COMMAND_BENCH_GEMM,
    TD_COMMAND_BENCH_MEL,
    TD_COMMAND_BENCH_STEP,
    TD_COMMAND_BENCH_KERNELS,
    TD_COMMAND_BENCH_SUBMIT,
    TD_COMMAND_BENCH_TEXT,
    TD_COMMAND_BENCH_LOAD,
    TD_COMMAND_BENCH_PIPELINE,
    TD_COMMAND_REPORT,
    TD_COMMAND_DOCTOR,
    TD_COMMAND_HELP,
    TD_COMMAND_COUNT
};

extern const td_option_table td_cli_table;

/* help_examples.c: lines of each command. */
extern const char *const td_cli_examples[TD_COMMAND_COUNT];

/* ---------------------------------------------------------------- output.c */

typedef enum td_color { TD_COLOR_RED, TD_COLOR_GREEN, TD_COLOR_YELLOW, TD_COLOR_BOLD, TD_COLOR_DIM } td_color;

/* Decides colours by `color` (auto, always, never) and NO_COLOR, and sends log lines up to `level` to stderr.
 * Errors of commands are printed by td_cli_fail, not logged. cli is borrowed until td_cli_end_output(). */
void td_cli_begin_output(td_cli *cli, const char *color, td_log_level level);
void td_cli_end_output(td_cli *cli);

/* `text` in a colour, or as it is; printed to stdout padded to `width` characters. */
void td_cli_print_colored(const td_cli *cli, td_color color, const char *text, size_t width);

/* Ends the document, prints it, and destroys the writer. Returns the exit code `done`, or that of a failure.
 */
int td_cli_print_json(const td_cli *cli, td_json *json, int done);

/* Tells this thread's last error, or all mistakes of the options: on stderr, and with --json as the document
 * on stdout. `registry` (may be NULL): the devices there are to choose from are told too. Returns the exit
 * code: 2 for a fault of usage or configuration, else 1. */
int td_cli_fail(const td_cli *cli, const td_registry *registry);

/* ---------------------------------------------------------------- devices_view.c */

/* The table for people, and what to install where an API has no loader or no driver. stdout, or stderr for
 * the list that follows an error. */
void td_cli_print_devices(const td_cli *cli, const td_registry *registry, FILE *file);

/* Every field of the device as one JSON object. */
void td_cli_device_json(td_json *json, const td_device_info *info);

/* "OpenCL", for people. */
const char *td_cli_api_name(td_api api);

/* ---------------------------------------------------------------- setup.c */

/* "", or the folder that stands for / (TANDEM_SYSTEM_ROOT, for tests). */
const char *td_cli_system_root(void);

/* The registry with the environment's and the options' settings. *out is owned. */
td_status td_cli_open_registry(const td_cli *cli, td_registry **out);

/* The roles the options ask for. */
td_status td_cli_resolve_roles(const td_cli *cli, const td_registry *registry, td_roles *out);

/* The device that an option such as --simulate-device describes, in place of one of this computer. *registry
 * is owned; *out is borrowed from it. */
td_status td_cli_open_stand_in(const char *model, td_registry **registry, const td_device_info **out);

/* ---------------------------------------------------------------- measure.c */

/* The device of --device, or the best one. A wrong name is a fault of usage. */
td_status td_cli_find_device(const td_cli *cli, const td_registry *registry, const td_device_info **out);

/* The device and this build, what a measurement ran with: as "device", "selector", "driver", "simulated" and
 * "build" of a JSON object, or for people. */
void td_cli_put_setting(td_json *json, const td_device_info *info);
void td_cli_print_setting(const td_device_info *info);

/* Measures, and shows it: in the object that `json` is in (which already tells the setting), or for people if
 * it is NULL. */
typedef td_status td_cli_measure(void *context, td_registry *registry, const td_device_info *info,
                                 td_json *json);

/* Measures on the device of --device. Returns the exit code. */
int td_cli_measure_device(const td_cli *cli, td_cli_measure *measure, void *context);

/* ---------------------------------------------------------------- commands: each returns the exit code */

int td_cmd_devices(td_cli *cli);
int td_cmd_validate(td_cli *cli);
int td_cmd_check_config(td_cli *cli);
int td_cmd_advise(td_cli *cli);
int td_cmd_prepare(td_cli *cli);
int td_cmd_inspect(td_cli *cli);
int td_cmd_analyze(td_cli *cli);
int td_cmd_train(td_cli *cli);
int td_cmd_profile(td_cli *cli);
int td_cmd_synth(td_cli *cli);
int td_cmd_tune(td_cli *cli);
int td_cmd_bench_gemm(td_cli *cli);
int td_cmd_bench_mel(td_cli *cli);
int td_cmd_bench_step(td_cli *cli);
int td_cmd_bench_kernels(td_cli *cli);
int td_cmd_bench_submit(td_cli *cli);
int td_cmd_bench_text(td_cli *cli);
int td_cmd_bench_load(td_cli *cli);
int td_cmd_bench_pipeline(td_cli *cli);
int td_cmd_report(td_cli *cli);
int td_cmd_doctor(td_cli *cli);
int td_cmd_help(td_cli *cli);

/* The help of `command`, or with td_cli_table.n_commands the overview. */
int td_cli_print_help(const td_cli *cli, size_t command, bool all);
int td_cli_print_version(const td_cli *cli);

/* The command whose name begins the words: its number and how many words it took; n_commands if there is
 * none, with the error recorded. */
size_t td_cli_find_command(const char *const *words, size_t n_words, size_t *n_used);

#endif
