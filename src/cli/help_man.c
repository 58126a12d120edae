/* The man page. See help_texts.h. */
#include <stdbool.h>
#include <string.h>

#include "cli/help_texts.h"
#include "tandem/version.h"

/* Text as roff takes it: a hyphen stays one that can be copied, a backslash is one. */
static void write_text(FILE *text, const char *words)
{
    if (*words == '.' || *words == '\'') fputs("\\&", text);
    for (const char *c = words; *c; c++)
        if (*c == '-')
            fputs("\\-", text);
        else if (*c == '\\')
            fputs("\\e", text);
        else
            fputc(*c, text);
}

static void write_flag(FILE *text, const char *dashes, const char *flag)
{
    fputs("\\fB", text);
    write_text(text, dashes);
    write_text(text, flag);
    fputs("\\fR", text);
}

/* "-o, --output FILE" with the flags in bold. */
static void write_usage(FILE *text, const td_option *option)
{
    char flag[TD_OPTION_FLAG_BYTES], opposite[TD_OPTION_FLAG_BYTES];
    const char letter[2] = {option->letter, 0};
    td_option_flag(option, flag);
    td_option_opposite(option, opposite);
    const char *value = option->type == TD_OPTION_CHOICE ? option->choices : option->placeholder;
    if (!option->topics) {
        write_flag(text, "--", "set");
        fprintf(text, " %s.%s=", option->section, option->key);
        write_text(text, value ? value : "true");
    } else {
        if (option->letter) {
            write_flag(text, "-", letter);
            fputs(", ", text);
        }
        write_flag(text, "--", flag);
        if (*opposite) {
            fputs(", ", text);
            write_flag(text, "--", opposite);
        }
        if (value) {
            fputs(" \\fI", text);
            write_text(text, value);
            fputs("\\fR", text);
        }
    }
    fputc('\n', text);
}

static void write_option(FILE *text, const td_option_table *table, const td_option *option)
{
    char takers[512];
    td_option_takers(table, option, "", takers, sizeof takers);
    fputs(".TP\n", text);
    write_usage(text, option);
    write_text(text, option->help);
    fputc('.', text);
    if (option->default_text) {
        fputs(" Default: ", text);
        write_text(text, option->default_text);
        fputc('.', text);
    }
    if (option->section) fprintf(text, " Key: %s.%s.", option->section, option->key);
    if (*takers) {
        fputs(" Of: ", text);
        write_text(text, takers);
        fputc('.', text);
    }
    fputc('\n', text);
}

static void write_commands(FILE *text, const td_option_table *table)
{
    fputs(".SH COMMANDS\n", text);
    for (size_t i = 0; i < table->n_commands; i++) {
        const td_option_command *c = &table->commands[i];
        fputs(".TP\n", text);
        write_flag(text, "", c->name);
        if (*c->arguments) {
            fputs(" \\fI", text);
            write_text(text, c->arguments);
            fputs("\\fR", text);
        }
        fputc('\n', text);
        write_text(text, c->summary);
        fputs(*c->detail ? ". " : ".", text);
        write_text(text, c->detail);
        fputc('\n', text);
    }
}

static void write_examples(FILE *text, const td_option_table *table)
{
    fputs(".SH EXAMPLES\n.nf\n", text);
    for (size_t i = 0; i < table->n_commands; i++)
        if (table->commands[i].examples) write_text(text, table->commands[i].examples);
    fputs(".fi\n", text);
}

static bool is_first_of_group(const td_option_table *table, size_t row)
{
    for (size_t i = 0; i < row; i++)
        if (strcmp(table->options[i].group, table->options[row].group) == 0) return false;
    return true;
}

static void write_options(FILE *text, const td_option_table *table)
{
    fputs(".SH OPTIONS\nThe command line wins over \\fB\\-\\-set\\fR, that over the file of "
          "\\fB\\-\\-config\\fR, that over a preset, that over the default.\n",
          text);
    for (size_t i = 0; i < table->n_options; i++) {
        const char *group = table->options[i].group;
        if (!is_first_of_group(table, i)) continue;
        fprintf(text, ".SS %s\n", group);
        for (size_t j = i; j < table->n_options; j++)
            if (strcmp(table->options[j].group, group) == 0) write_option(text, table, &table->options[j]);
    }
}

static void write_rest(FILE *text)
{
    static const char *const PAIRS[][2] = {
        {"TANDEM_VISIBLE_DEVICES",
         "Numbers of the devices that are seen, such as 2,3; they count from 0 then."},
        {"TANDEM_CACHE_DIR", "Where caches are kept."},
        {"XDG_CACHE_HOME", "Caches are kept in its folder tandem; ~/.cache/tandem if not set."},
        {"NO_COLOR", "No colours, if it is set."},
    };
    fputs(".SH EXIT STATUS\n.TP\n0\nDone.\n.TP\n1\nThe work or a check failed.\n.TP\n2\nWrong usage or "
          "configuration; nothing was started.\n.TP\n128+n\nEnded by signal n.\n.SH ENVIRONMENT\n",
          text);
    for (size_t i = 0; i < sizeof PAIRS / sizeof PAIRS[0]; i++) {
        fputs(".TP\n", text);
        write_flag(text, "", PAIRS[i][0]);
        fputc('\n', text);
        write_text(text, PAIRS[i][1]);
        fputc('\n', text);
    }
}

void td_help_write_man(FILE *text, const td_option_table *table)
{
    fprintf(text, ".TH TANDEM 1 \"\" \"%s %s\" \"User Commands\"\n.nh\n.ad l\n", table->program,
            TANDEM_VERSION);
    fprintf(text, ".SH NAME\n%s \\- ", table->program);
    fputs("trains and runs voices on any OpenCL or Vulkan device\n", text);
    fprintf(text, ".SH SYNOPSIS\n.B %s\n.I COMMAND\n[options]\n.SH DESCRIPTION\n", table->program);
    write_text(text, table->summary);
    fprintf(text, "\n.PP\n\\fB%s\\fR \\fICOMMAND\\fR \\fB\\-\\-help\\fR tells the options of a command.\n",
            table->program);
    write_commands(text, table);
    write_examples(text, table);
    write_options(text, table);
    write_rest(text);
}
