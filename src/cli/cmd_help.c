/* `tandem help`, and the help and version that every command can print. Covered by tests/cli/test_cli.py and
 * tests/cli/test_help.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/help_texts.h"
#include "tandem/version.h"

/* Text as it is, or as the one field of a JSON object. Frees it. */
static int print_text(const td_cli *cli, const char *field, char *text)
{
    int code = TD_EXIT_DONE;
    td_json *json;
    if (!cli->json) {
        fputs(text, stdout);
    } else if (td_cli_begin_json(&json) != TD_OK) {
        code = td_cli_fail(cli, NULL);
    } else {
        td_json_put_string(json, field, text);
        code = td_cli_print_json(cli, json, TD_EXIT_DONE);
    }
    free(text);
    return code;
}

int td_cli_print_help(const td_cli *cli, size_t command, bool all)
{
    char *text;
    if (td_options_help(cli->table, command, all, &text) != TD_OK) return td_cli_fail(cli, NULL);
    return print_text(cli, "help", text);
}

int td_cli_print_version(const td_cli *cli)
{
    td_json *json;
    if (!cli->json) {
        td_printf("tandem %s (%s)\n", TANDEM_VERSION, TD_BUILD_ID);
        return TD_EXIT_DONE;
    }
    if (td_cli_begin_json(&json) != TD_OK) return td_cli_fail(cli, NULL);
    td_json_put_string(json, "version", TANDEM_VERSION);
    td_json_put_string(json, "build", TD_BUILD_ID);
    return td_cli_print_json(cli, json, TD_EXIT_DONE);
}

/* Names of two words are commands of a family ("bench submit"); `members` gets their second words. */
static size_t list_family(const char *first, char *members, size_t capacity)
{
    size_t count = 0, used = 0;
    const size_t length = strlen(first);
    members[0] = 0;
    for (size_t i = 0; i < TD_COMMAND_COUNT && used < capacity; i++) {
        const char *name = td_cli_commands[i].name;
        if (strncmp(name, first, length) != 0 || name[length] != ' ') continue;
        used +=
            (size_t)snprintf(members + used, capacity - used, "%s%s", count++ ? ", " : "", name + length + 1);
    }
    return count;
}

static void refuse_command(const char *first, const char *second)
{
    const char *names[2 * TD_COMMAND_COUNT];
    char firsts[TD_COMMAND_COUNT][32], members[256];
    size_t count = 0;
    if (list_family(first, members, sizeof members) > 0) {
        TD_FAIL(TD_ERR_CONFIG, "`%s%s%s` is not a command; `%s` takes one of: %s", first, *second ? " " : "",
                second, first, members);
        return;
    }
    for (size_t i = 0; i < TD_COMMAND_COUNT; i++) {
        const char *name = td_cli_commands[i].name;
        snprintf(firsts[i], sizeof firsts[i], "%.*s", (int)strcspn(name, " "), name);
        names[count++] = firsts[i];
    }
    const char *near = td_text_nearest(first, names, count);
    if (near)
        TD_FAIL(TD_ERR_CONFIG, "unknown command '%s'; did you mean '%s'?", first, near);
    else
        TD_FAIL(TD_ERR_CONFIG, "unknown command '%s'; run `tandem --help` for the list", first);
}

size_t td_cli_find_command(const char *const *words, size_t n_words, size_t *n_used)
{
    const char *second = n_words > 1 && words[1][0] != '-' ? words[1] : "";
    for (size_t i = 0; i < TD_COMMAND_COUNT; i++) {
        const char *name = td_cli_commands[i].name;
        const size_t length = strcspn(name, " ");
        if (strlen(words[0]) != length || strncmp(name, words[0], length) != 0) continue;
        if (name[length] && strcmp(name + length + 1, second) != 0) continue;
        *n_used = name[length] ? 2 : 1;
        return i;
    }
    refuse_command(words[0], second);
    *n_used = 0;
    return TD_COMMAND_COUNT;
}

/* The man page, or with `shell` its completion. */
static int print_made_text(const td_cli *cli, const char *field, const char *shell)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    if (file != NULL) {
        if (shell)
            td_help_write_completion(file, cli->table, shell);
        else
            td_help_write_man(file, cli->table);
        if (fclose(file) == 0) return print_text(cli, field, text);
        free(text);
    }
    TD_FAIL(TD_ERR_HOST_MEMORY, "no host memory for a text; close other programs");
    return td_cli_fail(cli, NULL);
}

int td_cmd_help(td_cli *cli)
{
    char *text;
    const char *shell = td_cli_text(cli, "completion");
    size_t n_words, n_used, command = TD_COMMAND_COUNT;
    const char *const *words = td_options_arguments(cli->options, &n_words);
    if (td_cli_is_on(cli, "man")) return print_made_text(cli, "man", NULL);
    if (shell) return print_made_text(cli, "completion", shell);
    if (td_cli_is_on(cli, "markdown")) {
        if (td_options_markdown(cli->table, &text) != TD_OK) return td_cli_fail(cli, NULL);
        return print_text(cli, "markdown", text);
    }
    if (n_words > 0) {
        command = td_cli_find_command(words, n_words, &n_used);
        if (command == TD_COMMAND_COUNT) return td_cli_fail(cli, NULL);
    }
    return td_cli_print_help(cli, command, td_cli_is_on(cli, "all"));
}
