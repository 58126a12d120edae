/* Option engine, first part: the store of values with their origin, the check of each value, and argv. Files
 * are read in options_ini.c, texts written in options_help.c. See options.h. Covered by
 * tests/unit/test_options.c.
 */
#include "base/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/text.h"

#define MB_BYTES (UINT64_C(1) << 20)
#define COMMAND_LINE "command line"

struct td_options {
    const td_option_table *table;
    td_arena *arena;         /* every string of the store */
    td_option_value *values; /* [n_options]; only owners' entries are used */
    const char **flag_used;  /* [n_options] which flag set an owner's value on the command line, or NULL */
    td_option_mistake *mistakes;
    size_t n_mistakes, mistakes_capacity;
    const char **arguments;
    size_t n_arguments, arguments_capacity;
};

/* ---------------------------------------------------------------- rows */

static bool is_same_key(const td_option *a, const char *section, const char *key)
{
    return a->section && strcmp(a->section, section) == 0 && strcmp(a->key, key) == 0;
}

const td_option *td_option_find(const td_option_table *table, const char *section, const char *key)
{
    for (size_t i = 0; i < table->n_options; i++)
        if (is_same_key(&table->options[i], section, key)) return &table->options[i];
    return NULL;
}

void td_option_flag(const td_option *option, char out[TD_OPTION_FLAG_BYTES])
{
    snprintf(out, TD_OPTION_FLAG_BYTES, "%s", option->flag ? option->flag : option->key);
    for (char *c = out; *c; c++)
        if (*c == '_') *c = '-';
}

void td_option_opposite(const td_option *option, char out[TD_OPTION_FLAG_BYTES])
{
    char flag[TD_OPTION_FLAG_BYTES];
    out[0] = 0;
    if (option->type != TD_OPTION_BOOL || !option->section) return;
    td_option_flag(option, flag);
    const bool enables = strncmp(flag, "enable-", 7) == 0;
    snprintf(out, TD_OPTION_FLAG_BYTES, "%s%.*s", enables ? "disable-" : "no-", TD_OPTION_FLAG_BYTES - 10,
             enables ? flag + 7 : flag);
}

bool td_option_is_taken(const td_option_table *table, const td_option *option, size_t command)
{
    return (option->topics & table->commands[command].topics) != 0;
}

void td_option_takers(const td_option_table *table, const td_option *option, const char *quote, char *out,
                      size_t capacity)
{
    size_t used = 0, count = 0;
    out[0] = 0;
    for (size_t i = 0; i < table->n_commands && used < capacity; i++) {
        if (!td_option_is_taken(table, option, i)) continue;
        used += (size_t)snprintf(out + used, capacity - used, "%s%s%s%s", count++ ? ", " : "", quote,
                                 table->commands[i].name, quote);
    }
    if (count == table->n_commands) out[0] = 0;
}

/* Row whose value a row gives: the first one with its key, or itself. */
static size_t find_owner(const td_option_table *table, const td_option *option)
{
    const size_t row = (size_t)(option - table->options);
    for (size_t i = 0; i < row && option->section; i++)
        if (is_same_key(&table->options[i], option->section, option->key)) return i;
    return row;
}

/* ---------------------------------------------------------------- checking a value */

static void format_range(const td_option *option, const char *what, char *out, size_t capacity)
{
    char low[TD_TEXT_FORMAT_BYTES], high[TD_TEXT_FORMAT_BYTES];
    if (!(option->min < option->max)) {
        snprintf(out, capacity, "%s", what);
        return;
    }
    if (option->type == TD_OPTION_FLOAT) {
        td_text_format_double(option->min, low);
        td_text_format_double(option->max, high);
    } else {
        snprintf(low, sizeof low, "%.0f", option->min);
        snprintf(high, sizeof high, "%.0f", option->max);
    }
    snprintf(out, capacity, "%s from %s to %s", what, low, high);
}

void td_option_allowed(const td_option *option, char *out, size_t capacity)
{
    switch (option->type) {
    case TD_OPTION_BOOL:
        snprintf(out, capacity, option->choices ? "true, false or %s" : "true or false", option->choices);
        break;
    case TD_OPTION_INT:
        format_range(option, "a whole number", out, capacity);
        if (option->choices) {
            const size_t used = strlen(out);
            snprintf(out + used, capacity - used, ", or %s", option->choices);
        }
        break;
    case TD_OPTION_FLOAT:
        format_range(option, "a number", out, capacity);
        break;
    case TD_OPTION_SIZE_MB:
        format_range(option, "a whole number of MB", out, capacity);
        break;
    case TD_OPTION_CHOICE: {
        int used = snprintf(out, capacity, "one of: ");
        for (const char *c = option->choices; *c && (size_t)used + 3 < capacity; c++)
            used += snprintf(out + used, capacity - (size_t)used, *c == '|' ? ", " : "%c", *c);
        break;
    }
    case TD_OPTION_SET:
        snprintf(out, capacity, "section.key=value");
        break;
    case TD_OPTION_TEXT:
        snprintf(out, capacity, "a text");
        break;
    case TD_OPTION_PATH:
    case TD_OPTION_CONFIG:
        snprintf(out, capacity, "a path");
        break;
    }
}

static bool is_in_range(const td_option *option, double value)
{
    return !(option->min < option->max) || (value >= option->min && value <= option->max);
}

static bool is_choice(const char *choices, const char *text)
{
    const size_t length = strlen(text);
    for (const char *c = choices;; c++) {
        const size_t n = strcspn(c, "|");
        if (n == length && strncmp(c, text, n) == 0) return true;
        c += n;
        if (!*c) return false;
    }
}

static bool read_truth(const char *text, bool *out)
{
    static const char *const WORDS[2][4] = {{"false", "no", "off", "0"}, {"true", "yes", "on", "1"}};
    for (size_t truth = 0; truth < 2; truth++) {
        for (size_t i = 0; i < 4; i++) {
            if (strcasecmp(text, WORDS[truth][i]) == 0) {
                *out = truth == 1;
                return true;
            }
        }
    }
    return false;
}

/* Parses `text` into out's number; false if the row forbids it. */
static bool check_value(const td_option *option, const char *text, td_option_value *out)
{
    uint64_t megabytes;
    switch (option->type) {
    case TD_OPTION_BOOL:
        out->truth = false;
        return read_truth(text, &out->truth) || (option->choices && is_choice(option->choices, text));
    case TD_OPTION_INT:
        if (option->choices && is_choice(option->choices, text)) {
            out->integer = 0;
            return true;
        }
        return td_text_parse_i64(text, &out->integer) == TD_OK && is_in_range(option, (double)out->integer);
    case TD_OPTION_FLOAT:
        return td_text_parse_double(text, &out->real) == TD_OK && is_in_range(option, out->real);
    case TD_OPTION_SIZE_MB:
        if (td_text_parse_u64(text, &megabytes) != TD_OK || !is_in_range(option, (double)megabytes))
            return false;
        if (megabytes > UINT64_MAX / MB_BYTES) return false;
        out->bytes = megabytes * MB_BYTES;
        return true;
    case TD_OPTION_CHOICE:
        return is_choice(option->choices, text);
    case TD_OPTION_TEXT:
    case TD_OPTION_PATH:
    case TD_OPTION_CONFIG:
    case TD_OPTION_SET:
        return true;
    }
    return false;
}

/* The text as it is kept: canonical truth words, ~ resolved, NULL for not set. */
static td_status keep_text(td_options *options, const td_option *option, const char *text,
                           td_option_value *out)
{
    char *copy = NULL;
    td_status status = TD_OK;
    const bool is_textual = option->type == TD_OPTION_TEXT || option->type == TD_OPTION_PATH;
    const char *home = option->type == TD_OPTION_PATH && strncmp(text, "~/", 2) == 0 ? getenv("HOME") : NULL;
    if (option->type == TD_OPTION_BOOL && !(option->choices && is_choice(option->choices, text))) {
        out->text = out->truth ? "true" : "false";
        return TD_OK;
    }
    if (home)
        status = td_arena_printf(options->arena, &copy, "%s%s", home, text + 1);
    else if (*text || !is_textual)
        status = td_arena_strdup(options->arena, text, &copy);
    out->text = copy;
    return status;
}

/* ---------------------------------------------------------------- mistakes */

td_status td_options_add_mistake(td_options *options, const char *place, const char *format, ...)
{
    char message[1024];
    char *kept_place, *kept_message;
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    TD_CHECK(td_alloc_grow(&options->mistakes, &options->mistakes_capacity, options->n_mistakes + 1,
                           sizeof *options->mistakes));
    TD_CHECK(td_arena_strdup(options->arena, place, &kept_place));
    TD_CHECK(td_arena_strdup(options->arena, message, &kept_message));
    options->mistakes[options->n_mistakes++] = (td_option_mistake){kept_place, kept_message};
    return TD_OK;
}

const td_option_mistake *td_options_mistakes(const td_options *options, size_t *count)
{
    *count = options->n_mistakes;
    return options->mistakes;
}

/* Refuses a value and says what would be right. `said`: how the user named it, "--color", "devices.data". */
static td_status refuse_value(td_options *options, const td_option *option, const char *said,
                              const char *text, const char *place)
{
    char allowed[256], choices[256];
    const char *names[32];
    size_t n_names = 0;
    const char *near = NULL;
    char *rest = NULL;
    td_option_allowed(option, allowed, sizeof allowed);
    if (option->choices) {
        snprintf(choices, sizeof choices, "%s", option->choices);
        for (char *c = strtok_r(choices, "|", &rest); c && n_names < 32; c = strtok_r(NULL, "|", &rest))
            names[n_names++] = c;
        near = td_text_nearest(text, names, n_names);
    }
    if (near) {
        return td_options_add_mistake(options, place, "%s cannot be '%s'; did you mean '%s'? It must be %s",
                                      said, text, near, allowed);
    }
    return td_options_add_mistake(options, place, "%s cannot be '%s'; it must be %s", said, text, allowed);
}

/* ---------------------------------------------------------------- giving values */

/* Checks by `option`, which need not own the value, and keeps it if its origin has the authority. */
static td_status give_value(td_options *options, const td_option *option, const char *said, const char *text,
                            td_option_origin origin, const char *place, const char *kept_place)
{
    td_option_value value = {.origin = origin};
    char *copy;
    const size_t row = find_owner(options->table, option);
    const td_option *owner = &options->table->options[row];
    if (!check_value(option, text, &value) || !check_value(owner, text, &value))
        return refuse_value(options, option, said, text, place);
    if (origin < options->values[row].origin) return TD_OK;
    TD_CHECK(keep_text(options, owner, text, &value));
    const td_option_value *before = &options->values[row];
    if (owner->repeats && before->origin == origin && before->text && value.text) {
        TD_CHECK(td_arena_printf(options->arena, &copy, "%s\n%s", before->text, value.text));
        value.text = copy;
    }
    TD_CHECK(td_arena_strdup(options->arena, kept_place, &copy));
    value.place = copy;
    options->values[row] = value;
    return TD_OK;
}

/* Names of the section's keys, or of all sections, for "did you mean". Returns how many. */
static size_t list_names(const td_option_table *table, const char *section, const char **names,
                         size_t capacity)
{
    size_t count = 0;
    for (size_t i = 0; i < table->n_options && count < capacity; i++) {
        const td_option *option = &table->options[i];
        if (!option->section || (section && strcmp(option->section, section) != 0)) continue;
        const char *name = section ? option->key : option->section;
        size_t seen = 0;
        while (seen < count && strcmp(names[seen], name) != 0)
            seen++;
        if (seen == count) names[count++] = name;
    }
    return count;
}

static td_status refuse_section(td_options *options, const char *section, const char *place)
{
    const char *names[64] = {0};
    char list[512] = "";
    const size_t count = list_names(options->table, NULL, names, 64);
    const char *near = td_text_nearest(section, names, count);
    if (near) {
        return td_options_add_mistake(options, place, "unknown section [%s]; did you mean [%s]?", section,
                                      near);
    }
    for (size_t i = 0, used = 0; i < count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s[%s]", i ? ", " : "", names[i]);
    return td_options_add_mistake(options, place, "unknown section [%s]; there are %s", section, list);
}

static td_status refuse_key(td_options *options, const char *section, const char *key, const char *place)
{
    const char *name;
    if (list_names(options->table, section, &name, 1) == 0) return refuse_section(options, section, place);
    const char *near = td_option_suggest_key(options->table, section, key);
    if (near) {
        return td_options_add_mistake(options, place, "unknown key '%s' in [%s]; did you mean '%s'?", key,
                                      section, near);
    }
    for (size_t i = 0; i < options->table->n_options; i++) {
        const td_option *option = &options->table->options[i];
        if (option->section && strcmp(option->key, key) == 0) {
            return td_options_add_mistake(options, place, "unknown key '%s' in [%s]; it belongs in [%s]", key,
                                          section, option->section);
        }
    }
    return td_options_add_mistake(options, place,
                                  "unknown key '%s' in [%s]; run `%s help --markdown` for all keys", key,
                                  section, options->table->program);
}

td_status td_options_check_section(td_options *options, const char *section, const char *place, bool *known)
{
    const char *name;
    *known = list_names(options->table, section, &name, 1) > 0;
    return *known ? TD_OK : refuse_section(options, section, place);
}

td_status td_options_assign(td_options *options, const char *name, const char *text, td_option_origin origin,
                            const char *place)
{
    char section[128];
    const char *dot = strchr(name, '.');
    if (!dot || dot == name || !dot[1] || (size_t)(dot - name) >= sizeof section) {
        return td_options_add_mistake(options, place, "'%s' does not name a key; write section.key=value",
                                      name);
    }
    snprintf(section, sizeof section, "%.*s", (int)(dot - name), name);
    const td_option *option = td_option_find(options->table, section, dot + 1);
    if (!option) return refuse_key(options, section, dot + 1, place);
    return give_value(options, option, name, text, origin, place, place);
}

/* ---------------------------------------------------------------- argv */

/* What one argument on the command line means. */
typedef struct parsed_flag {
    const td_option *option;
    bool is_opposite;
} parsed_flag;

/* Two commands may each have an option of one name; the command's own is taken. */
static bool find_flag(const td_option_table *table, size_t command, const char *name, size_t length,
                      parsed_flag *out)
{
    char forms[2][TD_OPTION_FLAG_BYTES];
    bool found = false;
    for (size_t i = 0; i < table->n_options; i++) {
        const td_option *option = &table->options[i];
        td_option_flag(option, forms[0]);
        td_option_opposite(option, forms[1]);
        for (int form = 0; form < 2; form++) {
            if (!*forms[form] || strlen(forms[form]) != length || strncmp(forms[form], name, length) != 0)
                continue;
            const bool is_own = td_option_is_taken(table, option, command);
            if (!found || is_own) *out = (parsed_flag){option, form == 1};
            if (is_own) return true;
            found = true;
        }
    }
    return found;
}

static td_status refuse_flag(td_options *options, size_t command, const char *argument, size_t length)
{
    const td_option_table *table = options->table;
    char word[TD_OPTION_FLAG_BYTES], meant[TD_OPTION_FLAG_BYTES];
    const int shown = (int)length + 2;
    snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word - 1), argument + 2);
    for (char *at = strchr(word, '_'); at; at = strchr(at, '_'))
        *at = '-'; /* as other programs spell it, and as keys are spelt */
    if (td_option_suggest(table, command, word, false, meant))
        return td_options_add_mistake(options, COMMAND_LINE, "unknown option %.*s; did you mean --%s?", shown,
                                      argument, meant);
    return td_options_add_mistake(options, COMMAND_LINE, "unknown option %.*s; see `%s %s --help`", shown,
                                  argument, table->program, table->commands[command].name);
}

/* The option exists, but this command does not take it. */
static td_status refuse_foreign(td_options *options, const td_option *option, size_t command,
                                const char *flag)
{
    const td_option_table *table = options->table;
    char takers[256], meant[TD_OPTION_FLAG_BYTES];
    const char *name = table->commands[command].name;
    td_option_takers(table, option, "`", takers, sizeof takers);
    if (td_option_suggest(table, command, flag + 2, true, meant))
        return td_options_add_mistake(options, COMMAND_LINE,
                                      "`%s` does not take %s, an option of %s; did you mean --%s?", name,
                                      flag, takers, meant);
    return td_options_add_mistake(options, COMMAND_LINE, "`%s` does not take %s; it is an option of %s", name,
                                  flag, takers);
}

static td_status read_assignment(td_options *options, const char *text)
{
    char name[256];
    const char *equals = strchr(text, '=');
    if (!equals || (size_t)(equals - text) >= sizeof name)
        return td_options_add_mistake(options, "--set", "'%s' is not section.key=value", text);
    snprintf(name, sizeof name, "%.*s", (int)(equals - text), text);
    return td_options_assign(options, name, equals + 1, TD_ORIGIN_SET, "--set");
}

/* Gives the value of a flag. Two different flags of one value contradict each other; the same flag again
 * replaces what it said, so that scripts can append overrides. */
static td_status use_flag(td_options *options, const td_option *option, const char *flag, const char *text)
{
    const size_t row = find_owner(options->table, option);
    char place[TD_OPTION_FLAG_BYTES + 32];
    char *copy;
    if (option->type == TD_OPTION_SET) return read_assignment(options, text);
    const char *former = options->flag_used[row];
    if (former && option->type == TD_OPTION_CONFIG)
        return td_options_add_mistake(options, COMMAND_LINE, "%s may be given only once", flag);
    if (former && strcmp(former, flag) != 0 && option->type != TD_OPTION_BOOL) {
        return td_options_add_mistake(options, COMMAND_LINE, "%s and %s cannot both be given; keep one",
                                      former, flag);
    }
    TD_CHECK(td_arena_strdup(options->arena, flag, &copy));
    options->flag_used[row] = copy;
    snprintf(place, sizeof place, COMMAND_LINE " (%s)", flag);
    return give_value(options, option, flag, text, TD_ORIGIN_COMMAND_LINE, COMMAND_LINE, place);
}

static td_status refuse_lack(td_options *options, const td_option *option, const char *flag)
{
    char allowed[256];
    td_option_allowed(option, allowed, sizeof allowed);
    return td_options_add_mistake(options, COMMAND_LINE, "%s needs a value: %s", flag, allowed);
}

/* Reads argv[*position], which starts with "--", and the value behind it; moves *position past both. */
static td_status read_flag(td_options *options, size_t command, int argc, const char *const *argv,
                           int *position)
{
    const char *argument = argv[(*position)++];
    const size_t length = strcspn(argument + 2, "=");
    const char *value = argument[2 + length] == '=' ? argument + 3 + length : NULL;
    parsed_flag found;
    char flag[TD_OPTION_FLAG_BYTES + 2];
    if (!find_flag(options->table, command, argument + 2, length, &found))
        return refuse_flag(options, command, argument, length);
    snprintf(flag, sizeof flag, "%.*s", (int)length + 2, argument);
    const bool wants_value = found.option->type != TD_OPTION_BOOL;
    if (wants_value && !value && *position < argc && strncmp(argv[*position], "--", 2) != 0)
        value = argv[(*position)++];
    if (!td_option_is_taken(options->table, found.option, command))
        return refuse_foreign(options, found.option, command, flag);
    if (!wants_value && value) {
        return td_options_add_mistake(options, COMMAND_LINE, "%s takes no value; write it without '=%s'",
                                      flag, value);
    }
    if (!wants_value) return use_flag(options, found.option, flag, found.is_opposite ? "false" : "true");
    if (!value) return refuse_lack(options, found.option, flag);
    return use_flag(options, found.option, flag, value);
}

/* "-o FILE" or "-v"; as read_flag. */
static td_status read_letter(td_options *options, size_t command, int argc, const char *const *argv,
                             int *position)
{
    const td_option_table *table = options->table;
    const char *argument = argv[(*position)++];
    for (size_t i = 0; i < table->n_options; i++) {
        const td_option *option = &table->options[i];
        if (!option->letter || argument[1] != option->letter || argument[2] ||
            !td_option_is_taken(table, option, command))
            continue;
        if (option->type == TD_OPTION_BOOL) return use_flag(options, option, argument, "true");
        if (*position == argc || strncmp(argv[*position], "--", 2) == 0)
            return refuse_lack(options, option, argument);
        return use_flag(options, option, argument, argv[(*position)++]);
    }
    return td_options_add_mistake(options, COMMAND_LINE, "unknown option %s; see `%s %s --help`", argument,
                                  table->program, table->commands[command].name);
}

static td_status check_arguments(td_options *options, size_t command)
{
    const td_option_command *c = &options->table->commands[command];
    if (options->n_arguments < c->min_arguments) {
        return td_options_add_mistake(options, COMMAND_LINE, "`%s` needs %s; see `%s %s --help`", c->name,
                                      c->arguments, options->table->program, c->name);
    }
    if (options->n_arguments <= c->max_arguments) return TD_OK;
    size_t n_surplus = options->n_arguments - c->max_arguments;
    for (size_t i = 0; i < options->n_arguments && n_surplus > 0; i++) {
        char flag[TD_OPTION_FLAG_BYTES];
        const char *argument = options->arguments[i];
        if (!td_option_suggest_for_argument(options->table, command, argument, flag)) continue;
        TD_CHECK(td_options_add_mistake(options, COMMAND_LINE,
                                        "`%s` does not take '%s'; did you mean --%s %s?", c->name, argument,
                                        flag, argument));
        n_surplus--;
    }
    for (; n_surplus > 0; n_surplus--) {
        TD_CHECK(td_options_add_mistake(options, COMMAND_LINE, "`%s` does not take '%s'; see `%s %s --help`",
                                        c->name, options->arguments[options->n_arguments - n_surplus],
                                        options->table->program, c->name));
    }
    return TD_OK;
}

static td_status read_argument(td_options *options, const char *argument)
{
    char *copy;
    TD_CHECK(td_alloc_grow(&options->arguments, &options->arguments_capacity, options->n_arguments + 1,
                           sizeof *options->arguments));
    TD_CHECK(td_arena_strdup(options->arena, argument, &copy));
    options->arguments[options->n_arguments++] = copy;
    return TD_OK;
}

td_status td_options_parse(td_options *options, size_t command, int argc, const char *const *argv)
{
    const td_option_table *table = options->table;
    td_status status = TD_OK;
    bool only_arguments = false;
    int position = 0;
    while (position < argc) {
        const char *argument = argv[position];
        if (!only_arguments && strcmp(argument, "--") == 0) {
            only_arguments = true;
            position++;
        } else if (!only_arguments && strncmp(argument, "--", 2) == 0) {
            TD_TRY(read_flag(options, command, argc, argv, &position));
        } else if (!only_arguments && argument[0] == '-' && argument[1]) {
            TD_TRY(read_letter(options, command, argc, argv, &position));
        } else {
            TD_TRY(read_argument(options, argv[position++]));
        }
    }
    TD_TRY(check_arguments(options, command));
    for (size_t i = 0; i < table->n_options; i++) {
        if (table->options[i].type != TD_OPTION_CONFIG || !options->values[i].text) continue;
        TD_TRY(td_options_read_file(options, options->values[i].text));
    }
    if (options->n_mistakes > 0)
        status = TD_FAIL(TD_ERR_CONFIG, "%s: %s", options->mistakes[0].place, options->mistakes[0].message);
fail:
    return status;
}

/* ---------------------------------------------------------------- life and reading */

td_status td_options_create(const td_option_table *table, td_options **out)
{
    td_options *options;
    td_status status;
    *out = NULL;
    TD_TRY(TD_NEW(&options));
    options->table = table;
    TD_TRY(td_arena_create(0, &options->arena));
    TD_TRY(TD_NEW_ARRAY(&options->values, table->n_options));
    TD_TRY(TD_NEW_ARRAY(&options->flag_used, table->n_options));
    for (size_t i = 0; i < table->n_options; i++) {
        const td_option *option = &table->options[i];
        options->values[i].place = "default";
        const char *text =
            option->type == TD_OPTION_BOOL && !option->default_text ? "false" : option->default_text;
        if (!text || find_owner(table, option) != i) continue;
        TD_FAIL_IF(!check_value(option, text, &options->values[i]), TD_ERR_ARGUMENT,
                   "the default '%s' of option %zu breaks its own row's rules; correct the table", text, i);
        TD_TRY(keep_text(options, option, text, &options->values[i]));
    }
    *out = options;
    return TD_OK;
fail:
    td_options_destroy(options);
    return status;
}

void td_options_destroy(td_options *options)
{
    if (!options) return;
    td_arena_destroy(options->arena);
    free(options->values);
    free(options->flag_used);
    free(options->mistakes);
    free(options->arguments);
    free(options);
}

const td_option_value *td_options_get(const td_options *options, const char *name)
{
    char flag[TD_OPTION_FLAG_BYTES];
    const char *dot = strchr(name, '.');
    for (size_t i = 0; i < options->table->n_options; i++) {
        const td_option *option = &options->table->options[i];
        if (dot && option->section) {
            const size_t length = (size_t)(dot - name);
            const bool is_section =
                strlen(option->section) == length && strncmp(option->section, name, length) == 0;
            if (is_section && strcmp(option->key, dot + 1) == 0) return &options->values[i];
        } else if (!dot && !option->section) {
            td_option_flag(option, flag);
            if (strcmp(flag, name) == 0) return &options->values[i];
        }
    }
    return NULL;
}

const td_option_table *td_options_table(const td_options *options)
{
    return options->table;
}

const char *const *td_options_arguments(const td_options *options, size_t *count)
{
    *count = options->n_arguments;
    return options->arguments;
}
