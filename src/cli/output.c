/* Where the program speaks: log lines and errors to stderr, results to stdout, JSON documents whole or not at
 * all. Colours and widths are decided here; the text itself goes through base/print.h. Covered by tests/cli/test_cli.py.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/wrap.h"
#include "cli/cli.h"

static const char *const ESCAPES[] = {
    [TD_COLOR_RED] = "\033[31m", [TD_COLOR_GREEN] = "\033[32m", [TD_COLOR_YELLOW] = "\033[33m",
    [TD_COLOR_BOLD] = "\033[1m", [TD_COLOR_DIM] = "\033[2m",
};

static void write_prefix(const td_cli *cli, td_color color, const char *prefix)
{
    if (cli->color_err)
        fprintf(stderr, "%s%s:\033[0m ", ESCAPES[color], prefix);
    else
        fprintf(stderr, "%s: ", prefix);
}

/* The row of the key that `word` is, if the command takes it; the most used one of several. Else NULL. */
static const td_option *find_key(const td_cli *cli, const char *word, size_t length)
{
    const td_option_table *table = cli->table;
    const td_option *found = NULL;
    for (size_t i = 0; cli->command < TD_COMMAND_COUNT && i < table->n_options; i++) {
        const td_option *option = &table->options[i];
        const size_t section = option->section ? strlen(option->section) : 0;
        if (section == 0 || !td_option_is_taken(table, option, cli->command) ||
            section + 1 + strlen(option->key) != length)
            continue;
        if (strncmp(word, option->section, section) == 0 && word[section] == '.' &&
            strncmp(word + section + 1, option->key, length - section - 1) == 0 &&
            (found == NULL || (option->usual && !found->usual)))
            found = option;
    }
    return found;
}

const char *td_cli_name_flags(const td_cli *cli, const char *message, char out[TD_CLI_LINE_BYTES])
{
    static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyz0123456789_.";
    char flag[TD_OPTION_FLAG_BYTES];
    size_t used = 0;
    const char *at = message;
    out[0] = 0;
    while (*at && used + 1 < TD_CLI_LINE_BYTES) {
        size_t length = strspn(at, LETTERS);
        while (length > 0 && at[length - 1] == '.')
            length--;
        const bool begins = at == message || !strchr("/'-", at[-1]);
        const td_option *option = begins && length > 0 ? find_key(cli, at, length) : NULL;
        if (option) td_option_flag(option, flag);
        if (length == 0) length = 1;
        used += (size_t)(option ? snprintf(out + used, TD_CLI_LINE_BYTES - used, "--%s", flag)
                                : snprintf(out + used, TD_CLI_LINE_BYTES - used, "%.*s", (int)length, at));
        at += length;
        if (option && strncmp(at, " = ", 3) == 0) at += 2; /* "--lr 0.1" */
    }
    return out;
}

static void write_log_line(void *context, td_log_level level, const char *message)
{
    static const td_color COLORS[] = {TD_COLOR_RED, TD_COLOR_YELLOW, TD_COLOR_BOLD, TD_COLOR_DIM};
    char line[TD_CLI_LINE_BYTES];
    write_prefix(context, COLORS[level], td_log_level_name(level));
    td_fprintf(stderr, "%s\n", td_cli_name_flags(context, message, line));
}

static bool wants_color(const char *color, int fd)
{
    if (strcmp(color, "auto") != 0) return strcmp(color, "always") == 0;
    const char *no_color = getenv("NO_COLOR"), *terminal = getenv("TERM");
    if ((no_color && *no_color) || (terminal && strcmp(terminal, "dumb") == 0)) return false;
    return isatty(fd) == 1;
}

void td_cli_begin_output(td_cli *cli, const char *color, td_log_level level)
{
    struct winsize size;
    cli->color_out = wants_color(color, STDOUT_FILENO);
    cli->color_err = wants_color(color, STDERR_FILENO);
    cli->columns = 0;
    if (isatty(STDOUT_FILENO) == 1)
        cli->columns = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20 ? size.ws_col : 80;
    td_cli_end_output(cli);
    if (td_log_open(write_log_line, cli, level, NULL, &cli->log) == TD_OK) td_log_bind(cli->log);
}

void td_cli_end_output(td_cli *cli)
{
    td_log_close(cli->log);
    cli->log = NULL;
}

td_log_context *td_cli_silence_rank(td_cli *cli, uint32_t rank)
{
    td_log_context *context = NULL;
    if (rank > 0 && td_log_open(write_log_line, cli, TD_LOG_ERROR, NULL, &context) == TD_OK)
        td_log_bind(context);
    return context;
}

void td_printf(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    td_vfprintf(stdout, format, args);
    va_end(args);
}

void td_cli_print_colored(const td_cli *cli, td_color color, const char *text, size_t width)
{
    const size_t used = td_wrap_width(text);
    fputs(cli->color_out ? ESCAPES[color] : "", stdout);
    td_print_text(stdout, text, strlen(text));
    fputs(cli->color_out ? "\033[0m" : "", stdout);
    td_printf("%*s", (int)(used < width ? width - used : 0), "");
}

td_status td_cli_begin_json(td_json **out)
{
    const td_status status = td_json_create(NULL, 2, out);
    if (status == TD_OK) td_json_begin_object(*out);
    return status;
}

int td_cli_print_json_to(FILE *to, const td_cli *cli, td_json *json, int done)
{
    const char *text;
    td_json_end_object(json);
    if (td_json_finish(json, &text) == TD_OK)
        fprintf(to, "%s\n", text);
    else
        done = td_cli_fail(cli, NULL);
    td_json_destroy(json);
    return done;
}

int td_cli_print_json(const td_cli *cli, td_json *json, int done)
{
    return td_cli_print_json_to(stdout, cli, json, done);
}

/* ---------------------------------------------------------------- failure */

static void write_error_json(const td_error *error, const td_option_mistake *mistakes, size_t n_mistakes,
                             const td_registry *registry)
{
    const char *text;
    td_json *json;
    if (td_cli_begin_json(&json) != TD_OK) return;
    td_json_put_object(json, "error");
    td_json_put_string(json, "status", td_status_name(error->status));
    td_json_put_string(json, "message", error->message);
    td_json_put_string(json, "native", *error->native ? error->native : NULL);
    td_json_put_array(json, "mistakes");
    for (size_t i = 0; i < n_mistakes; i++) {
        td_json_begin_object(json);
        td_json_put_string(json, "place", mistakes[i].place);
        td_json_put_string(json, "message", mistakes[i].message);
        td_json_end_object(json);
    }
    td_json_end_array(json);
    if (registry) {
        td_json_put_array(json, "devices");
        for (size_t i = 0; i < td_registry_count(registry); i++)
            td_cli_device_json(json, td_registry_info(registry, i));
        td_json_end_array(json);
    }
    td_json_end_object(json);
    td_json_end_object(json);
    if (td_json_finish(json, &text) == TD_OK) puts(text);
    td_json_destroy(json);
}

int td_cli_fail(const td_cli *cli, const td_registry *registry)
{
    td_error error = *td_error_last();
    char line[TD_CLI_LINE_BYTES];
    size_t n_mistakes = 0;
    const td_option_mistake *mistakes = cli->options ? td_options_mistakes(cli->options, &n_mistakes) : NULL;
    for (size_t i = 0; i < n_mistakes; i++) {
        write_prefix(cli, TD_COLOR_RED, "error");
        td_fprintf(stderr, "%s: %s\n", mistakes[i].place, mistakes[i].message);
    }
    if (n_mistakes == 0) {
        snprintf(error.message, sizeof error.message, "%.*s", (int)sizeof error.message - 1,
                 td_cli_name_flags(cli, error.message, line));
        write_prefix(cli, TD_COLOR_RED, "error");
        td_fprintf(stderr, "%s%s%s%s\n", error.message, *error.native ? " (" : "", error.native,
                   *error.native ? ")" : "");
    }
    if (registry) td_cli_print_devices(cli, registry, stderr);
    if (cli->json) write_error_json(&error, mistakes, n_mistakes, registry);
    return error.status == TD_ERR_CONFIG ? TD_EXIT_USAGE : TD_EXIT_FAILED;
}
