/* The program: finds the command, reads its options, runs it and turns its result into an exit code: 0 done,
 * 1 the work or a check failed, 2 wrong usage or configuration, 128+signal. What a command does is in
 * cmd_*.c, which commands and options there are in commands.def
 * and option_table.c. Covered by tests/cli/test_cli.py.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/pool.h"
#include "cli/cli.h"

static int (*const RUN[TD_COMMAND_COUNT])(td_cli *cli) = {
#define TD_COMMAND(id, function, ...) [TD_COMMAND_##id] = td_cmd_##function,
#include "cli/commands.def"
#undef TD_COMMAND
};

/* Files are written by atomic rename, so ending at once is clean. `train`, which has more to save, catches
 * signals itself. */
static void end_by_signal(int number)
{
    _exit(TD_EXIT_SIGNAL + number);
}

static void catch_signals(void)
{
    static const int SIGNALS[] = {SIGINT, SIGTERM};
    struct sigaction former;
    const struct sigaction action = {.sa_handler = end_by_signal};
    for (size_t i = 0; i < sizeof SIGNALS / sizeof SIGNALS[0]; i++) {
        /* A shell ignores SIGINT for background jobs; that stays so. */
        if (sigaction(SIGNALS[i], NULL, &former) == 0 && former.sa_handler != SIG_IGN)
            sigaction(SIGNALS[i], &action, NULL);
    }
}

/* Known before the options are read, because a failure to read them must be told in JSON too. */
static bool wants_json(int argc, const char *const *argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--json") == 0) return true;
    return false;
}

static int print_config(const td_cli *cli)
{
    char *text;
    td_json *json;
    if (!cli->json) {
        if (td_options_config(cli->options, &text) != TD_OK) return td_cli_fail(cli, NULL);
        td_printf("%s", text);
        free(text);
        return TD_EXIT_DONE;
    }
    if (td_cli_begin_json(&json) != TD_OK) return td_cli_fail(cli, NULL);
    td_json_key(json, "config");
    td_options_config_json(cli->options, json);
    return td_cli_print_json(cli, json, TD_EXIT_DONE);
}

/* Runs a command whose arguments stand at argv. */
static int run_command(td_cli *cli, size_t command, int argc, const char *const *argv)
{
    cli->command = command;
    td_status status = td_options_create(cli->table, &cli->options);
    if (status != TD_OK) return td_cli_fail(cli, NULL);
    status = td_options_parse(cli->options, command, argc, argv);
    if (td_cli_is_on(cli, "help")) return td_cli_print_help(cli, command, false);
    if (td_cli_is_on(cli, "version")) return td_cli_print_version(cli);
    if (td_cli_is_on(cli, "quiet") && td_cli_is_on(cli, "verbose")) {
        static const char MESSAGE[] = "--quiet and --verbose cannot both be given; keep one";
        (void)td_options_add_mistake(cli->options, "command line", "%s", MESSAGE);
        if (status == TD_OK) status = TD_FAIL(TD_ERR_CONFIG, "command line: %s", MESSAGE);
    }
    const td_log_level level = td_cli_is_on(cli, "quiet")     ? TD_LOG_ERROR
                               : td_cli_is_on(cli, "verbose") ? TD_LOG_DEBUG
                                                              : TD_LOG_INFO;
    td_cli_begin_output(cli, td_cli_text(cli, "color"), level);
    if (status != TD_OK) return td_cli_fail(cli, NULL);
    if (td_cli_is_on(cli, "print-config")) return print_config(cli);
    return RUN[command](cli);
}

static int run_program(td_cli *cli, int argc, const char *const *argv)
{
    size_t n_used;
    if (argc < 2) {
        TD_FAIL(TD_ERR_CONFIG, "no command was given; run `tandem --help` for the list");
        return td_cli_fail(cli, NULL);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return td_cli_print_help(cli, TD_COMMAND_COUNT, false);
    if (strcmp(argv[1], "--version") == 0) return td_cli_print_version(cli);
    if (argv[1][0] == '-') {
        TD_FAIL(TD_ERR_CONFIG,
                "the command comes before options; write `tandem COMMAND %s`, and see `tandem --help` for "
                "the commands",
                argv[1]);
        return td_cli_fail(cli, NULL);
    }
    const size_t command = td_cli_find_command(argv + 1, (size_t)argc - 1, &n_used);
    if (command == TD_COMMAND_COUNT) return td_cli_fail(cli, NULL);
    const int first = 1 + (int)n_used;
    return run_command(cli, command, argc - first, argv + first);
}

/* The program is a process of its own, so that it may copy itself to compile kernels; a library does not. A core stays
 * for this process. */
static void allow_helpers(void)
{
    char count[24];
    (void)snprintf(count, sizeof count, "%zu", td_pool_cores() - 1);
    (void)setenv("TANDEM_COMPILE_HELPERS", count, 0);
}

int main(int argc, char **argv)
{
    const char *const *words = (const char *const *)argv;
    td_cli cli = {.command = TD_COMMAND_COUNT, .json = wants_json(argc, words)};
    td_cli_table table;
    catch_signals();
    allow_helpers();
    td_cli_begin_output(&cli, "auto", TD_LOG_INFO);
    const bool has_table = td_cli_make_table(&table) == TD_OK;
    cli.table = &table.table;
    int code = has_table ? run_program(&cli, argc, words) : td_cli_fail(&cli, NULL);
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == TD_EXIT_DONE) {
        td_fprintf(stderr, "error: writing the result to stdout failed: %s; check where it goes\n",
                   strerror(errno));
        code = TD_EXIT_FAILED;
    }
    td_cli_end_output(&cli);
    td_options_destroy(cli.options);
    if (has_table) td_cli_free_table(&table);
    return code;
}
