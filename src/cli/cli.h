/* What the commands share: the context of one run, output that obeys --json, --color and the terminal, and
 * the set-up most commands begin with. Only this folder prints or exits. Covered by tests/cli/test_cli.py.
 */
#ifndef TD_CLI_CLI_H
#define TD_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/json.h"
#include "base/log.h"
#include "base/options.h"
#include "base/print.h"
#include "pipeline/roles.h"
#include "tandem/device.h"

enum { TD_EXIT_DONE = 0, TD_EXIT_FAILED = 1, TD_EXIT_USAGE = 2, TD_EXIT_SIGNAL = 128 };

typedef struct td_cli {
    const td_option_table *table; /* of td_cli_make_table() */
    size_t command;               /* which one runs; TD_COMMAND_COUNT before it is known */
    td_options *options;          /* NULL before the arguments were read */
    td_log_context *log;          /* log lines to stderr; NULL: dropped */
    bool json;                    /* stdout carries exactly one JSON document */
    bool color_out, color_err;
    size_t columns; /* of the terminal at stdout; 0: no terminal, so nothing is cut or wrapped */
} td_cli;

/* ---------------------------------------------------------------- option_table.c */

enum {
#define TD_COMMAND(id, ...) TD_COMMAND_##id,
#include "cli/commands.def"
#undef TD_COMMAND
    TD_COMMAND_COUNT
};

extern const td_option_command td_cli_commands[TD_COMMAND_COUNT];

/* All that the program knows of its options; td_cli_free_table(). */
typedef struct td_cli_table {
    td_option_table table;
    td_option_rows rows;
} td_cli_table;

td_status td_cli_make_table(td_cli_table *out);
void td_cli_free_table(td_cli_table *table);

/* ---------------------------------------------------------------- output.c */

typedef enum td_color { TD_COLOR_RED, TD_COLOR_GREEN, TD_COLOR_YELLOW, TD_COLOR_BOLD, TD_COLOR_DIM } td_color;

/* Decides colours by `color` (auto, always, never) and NO_COLOR, and sends log lines up to `level` to stderr.
 * Errors of commands are printed by td_cli_fail, not logged. cli is borrowed until td_cli_end_output(). */
void td_cli_begin_output(td_cli *cli, const char *color, td_log_level level);
void td_cli_end_output(td_cli *cli);

/* Ranks other than 0 log errors alone. Returns what td_log_close() takes in the end. */
td_log_context *td_cli_silence_rank(td_cli *cli, uint32_t rank);

enum { TD_CLI_LINE_BYTES = 4096 };

/* The library's message in the program's words: keys that the command has a flag for ("training.lr") are
 * named by it ("--lr"). Returns `out`. */
const char *td_cli_name_flags(const td_cli *cli, const char *message, char out[TD_CLI_LINE_BYTES]);

/* What is for people and goes to stdout: td_fprintf() of base/print.h. */
void td_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* `text` in a colour, or as it is; printed to stdout padded to `width` characters. */
void td_cli_print_colored(const td_cli *cli, td_color color, const char *text, size_t width);

/* The document of --json, an object that is open. *out is owned by td_cli_print_json(). */
td_status td_cli_begin_json(td_json **out);

/* Ends the document, prints it, and destroys the writer. Returns the exit code `done`, or that of a failure.
 */
int td_cli_print_json(const td_cli *cli, td_json *json, int done);

/* The same to another stream, where stdout is taken. */
int td_cli_print_json_to(FILE *to, const td_cli *cli, td_json *json, int done);

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

/* Memory of large blocks goes back to the system when they are freed; else glibc keeps what a voice was loaded through,
 * since it takes larger and larger blocks for usual ones. */
void td_cli_return_large_blocks(void);

/* Values of options: of a key or of a flag that has none. NULL: not set. */
const char *td_cli_text(const td_cli *cli, const char *name);
bool td_cli_is_on(const td_cli *cli, const char *name);
uint64_t td_cli_count(const td_cli *cli, const char *name);

/* For commands that open a voice: what its model is like was decided in training, so that `--set model.KEY` would
 * change nothing and is refused. In a file such keys may stand: it may be a run's. */
td_status td_cli_refuse_model_keys(const td_cli *cli);

/* "", or the folder that stands for / (TANDEM_SYSTEM_ROOT, for tests). */
const char *td_cli_system_root(void);

/* The device that an option such as --simulate-device describes, in place of one of this computer. *registry
 * is owned; *out is borrowed from it. */
td_status td_cli_open_stand_in(const char *model, td_registry **registry, const td_device_info **out);

/* ---------------------------------------------------------------- measure.c */

/* The device of --device, or the best one. A wrong name is a fault of usage. */
td_status td_cli_find_device(const td_cli *cli, const td_registry *registry, const td_device_info **out);

/* Version and commit, as "build" of a JSON object or for people. */
void td_cli_put_build(td_json *json);
void td_cli_print_build(void);

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

/* ---------------------------------------------------------------- profile_cluster.c */

/* `profile --simulate-cluster`. Returns the exit code. */
int td_cli_profile_cluster(td_cli *cli);

/* ---------------------------------------------------------------- commands: each returns the exit code */

#define TD_COMMAND(id, function, ...) int td_cmd_##function(td_cli *cli);
#include "cli/commands.def"
#undef TD_COMMAND

/* The help of `command`, or with TD_COMMAND_COUNT the overview. */
int td_cli_print_help(const td_cli *cli, size_t command, bool all);
int td_cli_print_version(const td_cli *cli);

/* The command whose name begins the words: its number and how many words it took; TD_COMMAND_COUNT if there
 * is none, with the error recorded. */
size_t td_cli_find_command(const char *const *words, size_t n_words, size_t *n_used);

#endif
