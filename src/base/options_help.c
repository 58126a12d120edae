/* Option engine, third part: everything a table can say about itself: --help, the Markdown page and the
 * resolved configuration. Texts are made in memory; nothing is printed here. See options.h. Covered by
 * tests/unit/test_options.c.
 */
#include "base/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/wrap.h"

enum { HELP_COLUMNS = 80, HELP_INDENT = 28, PAGE_COLUMNS = 120, CONFIG_LINE_BYTES = 160 };

/* Texts grow in a memory stream; close_text says whether all of it was stored. */
static td_status open_text(FILE **text, char **out, size_t *bytes)
{
    *out = NULL;
    *text = open_memstream(out, bytes);
    return *text ? TD_OK : TD_FAIL(TD_ERR_HOST_MEMORY, "no host memory for a text; close other programs");
}

static td_status close_text(FILE *text, char **out)
{
    const bool failed = ferror(text) != 0;
    if (fclose(text) == 0 && !failed) return TD_OK;
    free(*out);
    *out = NULL;
    return TD_FAIL(TD_ERR_HOST_MEMORY, "no host memory for a text; close other programs");
}

/* ---------------------------------------------------------------- help */

/* "-h, --help", "--[no-]cache", "--data-gpu N", "--color auto|always|never" */
static void format_usage(const td_option *option, char *out, size_t capacity)
{
    char flag[TD_OPTION_FLAG_BYTES], opposite[TD_OPTION_FLAG_BYTES], letter[8] = "";
    td_option_flag(option, flag);
    td_option_opposite(option, opposite);
    if (option->letter) snprintf(letter, sizeof letter, "-%c, ", option->letter);
    const char *value = option->type == TD_OPTION_CHOICE ? option->choices : option->placeholder;
    if (!option->topics) { /* in files, or so */
        snprintf(out, capacity, "--set %s.%s=%s", option->section, option->key, value ? value : "true");
    } else if (strncmp(opposite, "disable-", 8) == 0) {
        snprintf(out, capacity, "%s--%s, --%s", letter, flag, opposite);
    } else {
        snprintf(out, capacity, "%s--%s%s%s%s", letter, *opposite ? "[no-]" : "", flag, value ? " " : "",
                 value ? value : "");
    }
}

static void write_option(FILE *text, const td_option *option, bool with_key)
{
    char usage[256], words[512];
    int used;
    format_usage(option, usage, sizeof usage);
    used = snprintf(words, sizeof words, "%s", option->help);
    if (option->default_text)
        used += snprintf(words + used, sizeof words - (size_t)used, " (default %s)", option->default_text);
    if (with_key && option->section)
        snprintf(words + used, sizeof words - (size_t)used, " [%s.%s]", option->section, option->key);
    fprintf(text, "  %-*s", HELP_INDENT - 3, usage);
    /* A usage that does not fit its column has the description on the next line. */
    if (strlen(usage) > HELP_INDENT - 3)
        fprintf(text, "\n%*s", HELP_INDENT, "");
    else
        fputc(' ', text);
    td_wrap_write(text, words, HELP_INDENT, HELP_INDENT, HELP_COLUMNS);
}

static bool is_first_of_group(const td_option_table *table, size_t row, uint64_t topics)
{
    for (size_t i = 0; i < row; i++) {
        const td_option *other = &table->options[i];
        if ((other->topics & topics) && strcmp(other->group, table->options[row].group) == 0) return false;
    }
    return true;
}

/* The options of any of `topics`, under their headings, in the order of the table. */
static void write_groups(FILE *text, const td_option_table *table, uint64_t topics)
{
    for (size_t i = 0; i < table->n_options; i++) {
        const td_option *first = &table->options[i];
        if (!(first->topics & topics) || !is_first_of_group(table, i, topics)) continue;
        fprintf(text, "\n%s:\n", first->group);
        for (size_t j = i; j < table->n_options; j++) {
            const td_option *option = &table->options[j];
            if ((option->topics & topics) && strcmp(option->group, first->group) == 0)
                write_option(text, option, true);
        }
    }
}

static void write_overview(FILE *text, const td_option_table *table)
{
    fprintf(text, "Usage: %s COMMAND [options]\n\n", table->program);
    td_wrap_write(text, table->summary, 0, 0, HELP_COLUMNS);
    fprintf(text, "\nCommands:\n");
    for (size_t i = 0; i < table->n_commands; i++) {
        fprintf(text, "  %-*s ", HELP_INDENT - 3, table->commands[i].name);
        td_wrap_write(text, table->commands[i].summary, HELP_INDENT, HELP_INDENT, HELP_COLUMNS);
    }
    fprintf(text, "\n`%s COMMAND --help` tells the options of a command.\n", table->program);
}

static void write_indented(FILE *text, const char *lines)
{
    for (size_t length; *lines; lines += length) {
        length = strcspn(lines, "\n");
        length += lines[length] == '\n';
        fprintf(text, "  %.*s", (int)length, lines);
    }
}

static void write_head(FILE *text, const td_option_table *table, size_t command, bool shortly)
{
    const td_option_command *c = &table->commands[command];
    fprintf(text, "Usage: %s %s%s%s [options]\n\n", table->program, c->name, *c->arguments ? " " : "",
            c->arguments);
    fprintf(text, "%s.\n", c->summary);
    if (*c->detail && !shortly) {
        fputc('\n', text);
        td_wrap_write(text, c->detail, 0, 0, HELP_COLUMNS);
    }
    if (c->examples) {
        fputs("\nExamples:\n", text);
        write_indented(text, c->examples);
    }
}

/* Everything a command takes, explained. */
static void write_command(FILE *text, const td_option_table *table, size_t command)
{
    write_head(text, table, command, false);
    write_groups(text, table, table->commands[command].topics);
    fputc('\n', text);
    td_wrap_write(
        text,
        "An option with a [section.key] may also stand in the --config file, or be given by --set. The "
        "command line wins over --set, that over the file, that over defaults.",
        0, 0, HELP_COLUMNS);
}

/* What is not usual, by name, a paragraph for each group. */
static void write_names(FILE *text, const td_option_table *table, uint64_t topics)
{
    for (size_t i = 0; i < table->n_options; i++) {
        const char *group = table->options[i].group;
        char line[4096] = "", flag[TD_OPTION_FLAG_BYTES];
        size_t used = 0;
        if (!(table->options[i].topics & topics) || !is_first_of_group(table, i, topics)) continue;
        for (size_t j = i; j < table->n_options && used < sizeof line; j++) {
            const td_option *option = &table->options[j];
            if (!(option->topics & topics) || option->usual || strcmp(option->group, group) != 0) continue;
            td_option_flag(option, flag);
            used += (size_t)snprintf(line + used, sizeof line - used, "%s--%s", used > 0 ? ", " : "", flag);
        }
        if (used == 0) continue;
        fprintf(text, "  %s: ", group);
        td_wrap_write(text, line, strlen(group) + 4, 4, HELP_COLUMNS);
    }
}

/* What fits a screen: the usual options explained, the others named. */
static void write_command_shortly(FILE *text, const td_option_table *table, size_t command)
{
    write_head(text, table, command, true);
    fputs("\nMost used options:\n", text);
    for (size_t i = 0; i < table->n_options; i++) {
        const td_option *option = &table->options[i];
        if (option->usual && td_option_is_taken(table, option, command)) write_option(text, option, false);
    }
    fprintf(text, "\nMore, explained by `%s help %s --all`:\n", table->program,
            table->commands[command].name);
    write_names(text, table, table->commands[command].topics);
}

static size_t count_lines(const char *text)
{
    size_t lines = 0;
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; ++at)
        lines++;
    return lines;
}

/* One of the texts above. */
static td_status make_help(const td_option_table *table, size_t command, bool shortly, char **out)
{
    FILE *text;
    size_t bytes;
    const td_status status = open_text(&text, out, &bytes);
    if (status != TD_OK) return status;
    if (command >= table->n_commands)
        write_overview(text, table);
    else if (shortly)
        write_command_shortly(text, table, command);
    else
        write_command(text, table, command);
    return close_text(text, out);
}

td_status td_options_help(const td_option_table *table, size_t command, bool all, char **out)
{
    const td_status status = make_help(table, command, false, out);
    if (status != TD_OK || all || command >= table->n_commands || count_lines(*out) <= TD_OPTIONS_HELP_LINES)
        return status;
    free(*out);
    return make_help(table, command, true, out);
}

/* ---------------------------------------------------------------- Markdown */

/* An entry of a list, `depth` lists deep: "- label: content", in lines of PAGE_COLUMNS. Nothing without
 * content. */
static void write_entry(FILE *text, size_t depth, const char *label, const char *content)
{
    char words[768];
    if (!*content) return;
    snprintf(words, sizeof words, "- %s: %s", label, content);
    fprintf(text, "%*s", (int)(2 * depth), "");
    td_wrap_write(text, words, 2 * depth, 2 * depth + 2, PAGE_COLUMNS);
}

static void write_commands(FILE *text, const td_option_table *table, const td_option *option)
{
    char names[512];
    td_option_takers(table, option, "", names, sizeof names);
    write_entry(text, 1, "commands", *names ? names : "all");
}

static void write_option_entry(FILE *text, const td_option_table *table, const td_option *option)
{
    char label[300], usage[256], words[512] = "";
    format_usage(option, usage, sizeof usage);
    snprintf(label, sizeof label, "`%s`", usage);
    write_entry(text, 0, label, option->help);
    if (option->section) snprintf(words, sizeof words, "`%s.%s`", option->section, option->key);
    write_entry(text, 1, "key", words);
    td_option_allowed(option, words, sizeof words);
    if (option->section || option->type != TD_OPTION_BOOL) write_entry(text, 1, "values", words);
    if (option->default_text) write_entry(text, 1, "default", option->default_text);
    write_commands(text, table, option);
}

td_status td_options_markdown(const td_option_table *table, char **out)
{
    FILE *text;
    size_t bytes;
    const td_status status = open_text(&text, out, &bytes);
    if (status != TD_OK) return status;
    fprintf(text, "# Options of `%s`\n\nMade by `%s help --markdown`; do not edit.\n\n", table->program,
            table->program);
    fprintf(
        text,
        "Authority: command line > `--set section.key=value` > file of `--config` > preset > default.\n\n");
    char label[256];
    for (size_t i = 0; i < table->n_commands; i++) {
        const td_option_command *c = &table->commands[i];
        snprintf(label, sizeof label, "`%s%s%s`", c->name, *c->arguments ? " " : "", c->arguments);
        write_entry(text, 0, label, c->summary);
    }
    for (size_t i = 0; i < table->n_options; i++) {
        const char *group = table->options[i].group;
        if (!is_first_of_group(table, i, UINT64_MAX)) continue;
        fprintf(text, "\n## %s\n\n", group);
        for (size_t j = i; j < table->n_options; j++)
            if (strcmp(table->options[j].group, group) == 0)
                write_option_entry(text, table, &table->options[j]);
    }
    return close_text(text, out);
}

/* ---------------------------------------------------------------- configuration */

/* The first row of its key, so that a value with several flags is written once. */
static bool owns_key(const td_option_table *table, const td_option *option)
{
    return option->section && td_option_find(table, option->section, option->key) == option;
}

static const td_option_value *get_value(const td_options *options, const td_option *option, char name[256])
{
    snprintf(name, 256, "%s.%s", option->section, option->key);
    return td_options_get(options, name);
}

/* What would not read back without quotes; then which, else "". */
static const char *choose_quote(const char *value)
{
    const size_t bytes = strlen(value);
    const bool has_comment = *value == ';' || *value == '#' || strstr(value, " ;") || strstr(value, "\t;");
    const bool has_blanks = bytes > 0 && (strchr(" \t", *value) || strchr(" \t", value[bytes - 1]));
    if (*value != '"' && *value != '\'' && !has_comment && !has_blanks) return "";
    return strchr(value, '"') ? "'" : "\"";
}

static void write_setting(FILE *text, const td_option *option, const td_option_value *value)
{
    if (!value->text && value->origin == TD_ORIGIN_DEFAULT) {
        fprintf(text, "; %s is not set\n", option->key);
        return;
    }
    const char *shown = value->text ? value->text : "", *quote = choose_quote(shown);
    const size_t bytes = strlen(shown) + 2 * strlen(quote);
    /* The comment must not push the line past what readers take. */
    if (strlen(option->key) + bytes + strlen(value->place) > CONFIG_LINE_BYTES)
        fprintf(text, "; %s\n%s = %s%s%s\n", value->place, option->key, quote, shown, quote);
    else
        fprintf(text, "%s = %s%s%s%*s ; %s\n", option->key, quote, shown, quote,
                bytes < 16 ? 16 - (int)bytes : 0, "", value->place);
}

static bool is_first_of_section(const td_option_table *table, size_t row)
{
    for (size_t i = 0; i < row; i++) {
        const char *section = table->options[i].section;
        if (section && strcmp(section, table->options[row].section) == 0) return false;
    }
    return true;
}

td_status td_options_config(const td_options *options, char **out)
{
    const td_option_table *table = td_options_table(options);
    FILE *text;
    size_t bytes;
    char name[256];
    const td_status status = open_text(&text, out, &bytes);
    if (status != TD_OK) return status;
    for (size_t i = 0; i < table->n_options; i++) {
        const char *section = table->options[i].section;
        if (!section || !is_first_of_section(table, i)) continue;
        fprintf(text, "%s[%s]\n", ftell(text) > 0 ? "\n" : "", section);
        for (size_t j = i; j < table->n_options; j++) {
            const td_option *option = &table->options[j];
            if (!owns_key(table, option) || strcmp(option->section, section) != 0) continue;
            write_setting(text, option, get_value(options, option, name));
        }
    }
    return close_text(text, out);
}

void td_options_config_json(const td_options *options, td_json *json)
{
    const td_option_table *table = td_options_table(options);
    char name[256];
    td_json_begin_array(json);
    for (size_t i = 0; i < table->n_options; i++) {
        if (!owns_key(table, &table->options[i])) continue;
        const td_option_value *value = get_value(options, &table->options[i], name);
        td_json_begin_object(json);
        td_json_put_string(json, "key", name);
        td_json_put_string(json, "value", value->text);
        td_json_put_string(json, "place", value->place);
        td_json_end_object(json);
    }
    td_json_end_array(json);
}
