/* Completion for shells. Names of two words are commands of a family ("bench gemm"): the first word is
 * completed, then the second. Flags offer their choices, or files where they take a path. See help_texts.h.
 */
#include <stdbool.h>
#include <string.h>

#include "cli/help_texts.h"

/* ---------------------------------------------------------------- the table */

static bool takes_value(const td_option *option)
{
    return option->type != TD_OPTION_BOOL;
}

static bool takes_path(const td_option *option)
{
    return option->type == TD_OPTION_PATH || option->type == TD_OPTION_CONFIG;
}

/* The second word of a command's name, or NULL. */
static const char *second_word(const td_option_command *command)
{
    const char *space = strchr(command->name, ' ');
    return space ? space + 1 : NULL;
}

static int first_length(const td_option_command *command)
{
    return (int)strcspn(command->name, " ");
}

/* Whether no command before has the same first word. */
static bool is_first_of_family(const td_option_table *table, size_t command)
{
    const td_option_command *c = &table->commands[command];
    for (size_t i = 0; i < command; i++) {
        const td_option_command *other = &table->commands[i];
        if (first_length(other) == first_length(c) &&
            strncmp(other->name, c->name, (size_t)first_length(c)) == 0)
            return false;
    }
    return true;
}

static bool is_family(const td_option_table *table, size_t command)
{
    return second_word(&table->commands[command]) && is_first_of_family(table, command);
}

/* Commands of the family of `command`, told one by one: the next from `i` on, or n_commands. */
static size_t next_member(const td_option_table *table, size_t command, size_t i)
{
    const td_option_command *c = &table->commands[command];
    while (i < table->n_commands &&
           (!second_word(&table->commands[i]) ||
            strncmp(table->commands[i].name, c->name, (size_t)first_length(c) + 1) != 0))
        i++;
    return i;
}

/* "a|b" as "a b". */
static void write_choices(FILE *text, const char *choices)
{
    for (const char *c = choices; *c; c++)
        fputc(*c == '|' ? ' ' : *c, text);
}

/* Inside single quotes of a shell; characters of `marks` get a backslash. */
static void write_quoted(FILE *text, const char *words, const char *marks)
{
    for (const char *c = words; *c; c++) {
        if (*c == '\'') {
            fputs("'\\''", text);
        } else {
            if (strchr(marks, *c)) fputc('\\', text);
            fputc(*c, text);
        }
    }
}

/* ---------------------------------------------------------------- bash */

/* Whether another row has the same flag, for other commands. */
static bool is_shared(const td_option_table *table, const td_option *option)
{
    char own[TD_OPTION_FLAG_BYTES], other[TD_OPTION_FLAG_BYTES];
    td_option_flag(option, own);
    for (size_t i = 0; i < table->n_options; i++) {
        td_option_flag(&table->options[i], other);
        if (&table->options[i] != option && table->options[i].topics && strcmp(own, other) == 0) return true;
    }
    return false;
}

/* What stands before a value: the flag behind any command, or behind those that take it. */
static void write_bash_flag(FILE *text, const td_option_table *table, const td_option *option)
{
    char flag[TD_OPTION_FLAG_BYTES];
    const char *joint = "    ";
    td_option_flag(option, flag);
    if (!is_shared(table, option)) {
        fprintf(text, "    *' --%s'", flag);
        if (option->letter) fprintf(text, "|*' -%c'", option->letter);
        return;
    }
    for (size_t i = 0; i < table->n_commands; i++) {
        if (!td_option_is_taken(table, option, i)) continue;
        fprintf(text, "%s'%s --%s'", joint, table->commands[i].name, flag);
        joint = "|";
    }
}

static void write_bash_values(FILE *text, const td_option_table *table)
{
    fputs("    case \"$command $previous\" in\n", text);
    for (size_t i = 0; i < table->n_options; i++) {
        const td_option *option = &table->options[i];
        if (!option->topics || !takes_value(option)) continue;
        write_bash_flag(text, table, option);
        if (option->choices) {
            fputs(") COMPREPLY=($(compgen -W '", text);
            write_choices(text, option->choices);
            fputs("' -- \"$current\")); return;;\n", text);
        } else if (takes_path(option)) {
            fputs(") compopt -o filenames; COMPREPLY=($(compgen -f -- \"$current\")); return;;\n", text);
        } else {
            fputs(") return;;\n", text);
        }
    }
    fputs("    esac\n", text);
}

static void write_bash_flags(FILE *text, const td_option_table *table, size_t command)
{
    char flag[TD_OPTION_FLAG_BYTES];
    fprintf(text, "    '%s') words='", table->commands[command].name);
    const char *joint = "";
    for (size_t i = 0; i < table->n_options; i++) {
        const td_option *option = &table->options[i];
        if (!td_option_is_taken(table, option, command)) continue;
        td_option_flag(option, flag);
        fprintf(text, "%s--%s", joint, flag);
        joint = " ";
        td_option_opposite(option, flag);
        if (*flag) fprintf(text, " --%s", flag);
    }
    fputs("';;\n", text);
}

static void write_bash(FILE *text, const td_option_table *table)
{
    const char *name = table->program;
    fprintf(text, "# bash completion for %s; made by `%s help --completion bash`\n_%s() {\n", name, name,
            name);
    fputs(
        "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} "
        "command=${COMP_WORDS[1]} "
        "words=\n    COMPREPLY=()\n    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        COMPREPLY=($(compgen -W '",
        text);
    for (size_t i = 0; i < table->n_commands; i++) {
        const td_option_command *c = &table->commands[i];
        if (is_first_of_family(table, i)) fprintf(text, "%s%.*s", i ? " " : "", first_length(c), c->name);
    }
    fputs("' -- \"$current\")); return\n    fi\n    case $command in\n", text);
    for (size_t i = 0; i < table->n_commands; i++) {
        if (!is_family(table, i)) continue;
        fprintf(text, "    %.*s) if [ \"$COMP_CWORD\" -eq 2 ]; then COMPREPLY=($(compgen -W '",
                first_length(&table->commands[i]), table->commands[i].name);
        for (size_t m = next_member(table, i, 0); m < table->n_commands; m = next_member(table, i, m + 1))
            fprintf(text, " %s", second_word(&table->commands[m]));
        fputs("' -- \"$current\")); return; fi; command=\"$command ${COMP_WORDS[2]}\";;\n", text);
    }
    fputs("    esac\n", text);
    write_bash_values(text, table);
    fputs("    case $current in -*) ;; *) compopt -o filenames; COMPREPLY=($(compgen -f -- \"$current\")); "
          "return;; esac\n"
          "    case $command in\n",
          text);
    for (size_t i = 0; i < table->n_commands; i++)
        write_bash_flags(text, table, i);
    fprintf(text,
            "    esac\n    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n}\ncomplete -F _%s %s\n",
            name, name);
}

/* ---------------------------------------------------------------- zsh */

/* One argument of _arguments: '--flag[help]:VALUE:what to offer'. */
static void write_zsh_flag(FILE *text, const td_option *option, const char *dashes, const char *flag)
{
    fprintf(text, " \\\n            '%s%s%s[", option->type == TD_OPTION_SET ? "*" : "", dashes, flag);
    write_quoted(text, option->help, "[]\\");
    fputc(']', text);
    if (takes_value(option)) {
        fputc(':', text);
        write_quoted(text, option->placeholder ? option->placeholder : "value", ":\\");
        fputc(':', text);
        if (option->choices) {
            fputc('(', text);
            write_choices(text, option->choices);
            fputc(')', text);
        } else if (takes_path(option)) {
            fputs("_files", text);
        } else {
            fputc(' ', text);
        }
    }
    fputc('\'', text);
}

static void write_zsh_command(FILE *text, const td_option_table *table, size_t command)
{
    char flag[TD_OPTION_FLAG_BYTES];
    const td_option_command *c = &table->commands[command];
    fprintf(text, "    '%s')\n        _arguments -s", c->name);
    for (size_t i = 0; i < table->n_options; i++) {
        const td_option *option = &table->options[i];
        if (!td_option_is_taken(table, option, command)) continue;
        td_option_flag(option, flag);
        write_zsh_flag(text, option, "--", flag);
        if (option->letter) write_zsh_flag(text, option, "-", (const char[]){option->letter, 0});
        td_option_opposite(option, flag);
        if (*flag) write_zsh_flag(text, option, "--", flag);
    }
    if (c->max_arguments > 0) fputs(" \\\n            '*:file:_files'", text);
    fputs(";;\n", text);
}

static void write_zsh_word(FILE *text, const char *word, int length, const char *summary)
{
    fprintf(text, " \\\n            '%.*s:", length, word);
    write_quoted(text, summary, ":\\");
    fputc('\'', text);
}

static void write_zsh(FILE *text, const td_option_table *table)
{
    const char *name = table->program;
    fprintf(text,
            "#compdef %s\n# made by `%s help --completion zsh`\n_%s() {\n    local -a commands\n    local "
            "command=$words[2]\n    if (( CURRENT == 2 )); then\n        commands=(",
            name, name, name);
    for (size_t i = 0; i < table->n_commands; i++) {
        const td_option_command *c = &table->commands[i];
        if (!is_first_of_family(table, i)) continue;
        write_zsh_word(text, c->name, first_length(c), second_word(c) ? "Several commands" : c->summary);
    }
    fputs(")\n        _describe command commands\n        return\n    fi\n    case $command in\n", text);
    for (size_t i = 0; i < table->n_commands; i++) {
        if (!is_family(table, i)) continue;
        fprintf(text, "    %.*s)\n        if (( CURRENT == 3 )); then\n        commands=(",
                first_length(&table->commands[i]), table->commands[i].name);
        for (size_t m = next_member(table, i, 0); m < table->n_commands; m = next_member(table, i, m + 1)) {
            const char *word = second_word(&table->commands[m]);
            write_zsh_word(text, word, (int)strlen(word), table->commands[m].summary);
        }
        fputs(")\n        _describe command commands\n        return\n        fi\n        command=\"$command "
              "$words[3]\"\n        shift words\n        (( CURRENT-- ));;\n",
              text);
    }
    fputs("    esac\n    shift words\n    (( CURRENT-- ))\n    case $command in\n", text);
    for (size_t i = 0; i < table->n_commands; i++)
        write_zsh_command(text, table, i);
    fprintf(text, "    esac\n}\n_%s \"$@\"\n", name);
}

/* ---------------------------------------------------------------- fish */

static void write_fish_flag(FILE *text, const td_option_table *table, size_t command, const td_option *option,
                            const char *flag, bool has_letter)
{
    const td_option_command *c = &table->commands[command];
    fprintf(text, "complete -c %s -n '__fish_seen_subcommand_from %.*s", table->program, first_length(c),
            c->name);
    if (second_word(c)) fprintf(text, "; and __fish_seen_subcommand_from %s", second_word(c));
    fprintf(text, "' -l %s", flag);
    if (has_letter) fprintf(text, " -s %c", option->letter);
    if (takes_value(option)) fputs(takes_path(option) ? " -r -F" : " -x", text);
    if (takes_value(option) && option->choices) {
        fputs(" -a '", text);
        write_choices(text, option->choices);
        fputc('\'', text);
    }
    fputs(" -d '", text);
    write_quoted(text, option->help, "");
    fputs("'\n", text);
}

static void write_fish(FILE *text, const td_option_table *table)
{
    char flag[TD_OPTION_FLAG_BYTES];
    const char *name = table->program;
    fprintf(text, "# fish completion for %s; made by `%s help --completion fish`\n", name, name);
    for (size_t i = 0; i < table->n_commands; i++) {
        const td_option_command *c = &table->commands[i];
        const char *second = second_word(c);
        if (is_first_of_family(table, i)) {
            fprintf(text, "complete -c %s -f -n __fish_use_subcommand -a %.*s -d '", name, first_length(c),
                    c->name);
            write_quoted(text, second ? "Several commands" : c->summary, "");
            fputs("'\n", text);
        }
        if (second) {
            fprintf(text, "complete -c %s -f -n '__fish_seen_subcommand_from %.*s' -a %s -d '", name,
                    first_length(c), c->name, second);
            write_quoted(text, c->summary, "");
            fputs("'\n", text);
        }
        for (size_t j = 0; j < table->n_options; j++) {
            const td_option *option = &table->options[j];
            if (!td_option_is_taken(table, option, i)) continue;
            td_option_flag(option, flag);
            write_fish_flag(text, table, i, option, flag, option->letter != 0);
            td_option_opposite(option, flag);
            if (*flag) write_fish_flag(text, table, i, option, flag, false);
        }
    }
}

void td_help_write_completion(FILE *text, const td_option_table *table, const char *shell)
{
    if (strcmp(shell, "bash") == 0)
        write_bash(text, table);
    else if (strcmp(shell, "zsh") == 0)
        write_zsh(text, table);
    else
        write_fish(text, table);
}
