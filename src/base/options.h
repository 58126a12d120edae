/* Option engine: ONE const table of rows gives the command line, the INI keys, --set, --help, the Markdown
 * page and --print-config, so they cannot drift apart. Values keep where they came from; the order of
 * authority is command line > --set > INI file > preset > default, whatever order they arrive in. Mistakes
 * are collected, so that a user sees all of them at once. Prints nothing and knows no concrete option: the
 * program's table is put together in src/cli/option_table.c. options.c holds values and reads argv,
 * options_ini.c reads files, options_help.c writes the texts. Not thread-safe. Covered by
 * tests/unit/test_options.c.
 */
#ifndef TD_BASE_OPTIONS_H
#define TD_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "tandem/status.h"

typedef enum td_option_type {
    TD_OPTION_BOOL,    /* --x, and with a key also --no-x (--enable-x: --disable-x); in files true or
                          false, or a word of `choices`, which is kept as text with truth false */
    TD_OPTION_INT,     /* value.integer; 0 for a word of `choices`, where there are any */
    TD_OPTION_FLOAT,   /* value.real */
    TD_OPTION_TEXT,    /* value.text; an empty text means not set */
    TD_OPTION_PATH,    /* as TEXT; a leading ~/ becomes $HOME/ */
    TD_OPTION_CHOICE,  /* value.text, one of `choices` */
    TD_OPTION_SIZE_MB, /* whole number of MB (2^20 bytes) in text and limits; value.bytes */
    TD_OPTION_CONFIG,  /* the INI file to read; command line only */
    TD_OPTION_SET,     /* section.key=value, may be repeated; command line only */
} td_option_type;

/* One row. Rows with the same section and key are several flags of one value: the first owns it (its type and
 * limits hold in files), the others only check what their flag is given. */
typedef struct td_option {
    const char *section; /* NULL: command line only */
    const char *key;     /* NULL with the section */
    const char *flag;    /* without "--"; NULL: the key with '-' for '_' */
    char letter;         /* "-h", "-o FILE"; 0: none */
    td_option_type type;
    const char *default_text; /* NULL: not set (BOOL: false) */
    const char *placeholder;  /* "N", "FILE"; NULL for BOOL and CHOICE */
    const char *choices;      /* CHOICE: "a|b|c"; INT, BOOL: words that may stand for a value */
    double min, max;          /* INT, FLOAT, SIZE_MB; equal: no limit */
    const char *group;        /* heading in --help */
    uint64_t topics;  /* bits; a command that has one of them takes the flag. 0: files and --set alone */
    const char *help; /* one line, no full stop */
    bool usual;       /* explained where --help has no room for all */
    bool repeats;     /* TEXT, PATH: given several times it keeps all, one a line */
} td_option;

typedef struct td_option_command {
    const char *name;      /* one or two words */
    const char *arguments; /* "FILE", "[COMMAND]" or "" */
    size_t min_arguments, max_arguments;
    const char *summary; /* one line, no full stop */
    const char *detail;  /* sentences for its --help; may be "" */
    uint64_t topics;
    const char *examples; /* lines with their ends; NULL: none */
} td_option_command;

/* What other programs call an option: "learning-rate" for "lr". Several rows of one name: the first that the
 * command takes. "/" and ".wav" stand for an argument that is a folder, or ends so. */
typedef struct td_option_synonym {
    const char *theirs, *ours; /* flags without their dashes */
} td_option_synonym;

typedef struct td_option_table {
    const char *program;
    const char *summary; /* one sentence */
    const td_option *options;
    size_t n_options;
    const td_option_command *commands;
    size_t n_commands;
    const td_option_synonym *synonyms; /* may be NULL */
    size_t n_synonyms;
} td_option_table;

/* Rows put together at run time, to be a table's: begins as {0}; td_option_rows_free(). */
typedef struct td_option_rows {
    td_option *rows;
    size_t count, capacity;
    struct td_arena *texts;
} td_option_rows;

/* Copies rows behind those that are there; their texts are borrowed as long as the list lives. */
td_status td_option_rows_add(td_option_rows *list, const td_option *rows, size_t n_rows);

/* A text for a row, kept by the list. */
td_status td_option_rows_text(td_option_rows *list, char **out, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The row that owns "section.key", or NULL; borrowed until the next row is added. */
const td_option *td_option_rows_find(const td_option_rows *list, const char *section, const char *key);

void td_option_rows_free(td_option_rows *list);

/* In rising authority. */
typedef enum td_option_origin {
    TD_ORIGIN_DEFAULT,
    TD_ORIGIN_PRESET,
    TD_ORIGIN_FILE,
    TD_ORIGIN_SET,
    TD_ORIGIN_COMMAND_LINE,
} td_option_origin;

/* Strings are owned by the store and valid until it is destroyed. */
typedef struct td_option_value {
    const char *text; /* NULL: not set */
    td_option_origin origin;
    const char *place; /* "default", "preset nano", "run.ini:12", "--set", "command line (--data-gpu)" */
    union {
        bool truth;
        int64_t integer;
        double real;
        uint64_t bytes;
    };
} td_option_value;

typedef struct td_option_mistake {
    const char *place; /* "run.ini:12", "--set", "command line" */
    const char *message;
} td_option_mistake;

typedef struct td_options td_options;

/* All values at their defaults. `table` is borrowed until destroy; *out is owned. A default that breaks its
 * own row's rules is TD_ERR_ARGUMENT. */
td_status td_options_create(const td_option_table *table, td_options **out);
void td_options_destroy(td_options *options);

/* Reads the arguments of `command` (argv[0] is the first one after its name) and the INI file they name.
 * TD_ERR_CONFIG if there are mistakes; values without a mistake are set all the same. */
td_status td_options_parse(td_options *options, size_t command, int argc, const char *const *argv);

/* Reads one INI file, or its text under the name `path`; wrong content, or a file that cannot be read, is a
 * mistake and not a failure. */
td_status td_options_read_file(td_options *options, const char *path);
td_status td_options_read_text(td_options *options, const char *path, const char *text, size_t bytes);

/* Gives "section.key" a value from `origin`; kept only if nothing of more authority did. An unknown name or a
 * bad value is a mistake at `place`. */
td_status td_options_assign(td_options *options, const char *name, const char *text, td_option_origin origin,
                            const char *place);

/* Adds a mistake the caller found, for example two options that exclude each other. */
td_status td_options_add_mistake(td_options *options, const char *place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* In the order they were found; borrowed until the next call that may add one. */
const td_option_mistake *td_options_mistakes(const td_options *options, size_t *count);

/* The value of "section.key", or of the flag of a row without a key; NULL if the table has no such row. */
const td_option_value *td_options_get(const td_options *options, const char *name);

/* Arguments that are not options. */
const char *const *td_options_arguments(const td_options *options, size_t *count);

/* ---------------------------------------------------------------- rows (used by the parts of the engine) */

enum { TD_OPTION_FLAG_BYTES = 64 };

const td_option_table *td_options_table(const td_options *options);

/* Whether the table has the section; if not, that is a mistake at `place`. */
td_status td_options_check_section(td_options *options, const char *section, const char *place, bool *known);

/* The row that owns "section.key", or NULL. */
const td_option *td_option_find(const td_option_table *table, const char *section, const char *key);

/* Whether a command takes the option as a flag. */
bool td_option_is_taken(const td_option_table *table, const td_option *option, size_t command);

/* The flag of the command that was probably meant by `word`: a synonym's, and unless `is_known`, since the
 * word is another command's flag, the only one that begins so, or the nearest; false if none is. */
bool td_option_suggest(const td_option_table *table, size_t command, const char *word, bool is_known,
                       char out[TD_OPTION_FLAG_BYTES]);

/* The flag of the command that was probably left out before an argument: a synonym of its ending, or of "/" for a
 * folder; false if none is. */
bool td_option_suggest_for_argument(const td_option_table *table, size_t command, const char *argument,
                                    char out[TD_OPTION_FLAG_BYTES]);

/* The key of the section that was probably meant; NULL if none is. Borrowed from the table. */
const char *td_option_suggest_key(const td_option_table *table, const char *section, const char *word);

/* Names of the commands that take it, separated by ", ", each between two `quote`; "" if all do, or none. */
void td_option_takers(const td_option_table *table, const td_option *option, const char *quote, char *out,
                      size_t capacity);

/* "data-gpu"; and of a BOOL with a key its opposite ("no-cache", "disable-x"), else "". */
void td_option_flag(const td_option *option, char out[TD_OPTION_FLAG_BYTES]);
void td_option_opposite(const td_option *option, char out[TD_OPTION_FLAG_BYTES]);

/* "a whole number from 0 to 64", "true or false", "one of: auto, always, never". */
void td_option_allowed(const td_option *option, char *out, size_t capacity);

/* ---------------------------------------------------------------- texts; *out is owned, free() */

enum { TD_OPTIONS_HELP_LINES = 50 };

/* Help of a command; `command` == n_commands gives the overview of the program. Where explaining every option
 * takes more than TD_OPTIONS_HELP_LINES, the usual ones are explained and the others named, unless `all` is
 * set. */
td_status td_options_help(const td_option_table *table, size_t command, bool all, char **out);

/* One Markdown page of all commands and options. */
td_status td_options_markdown(const td_option_table *table, char **out);

/* Every value with a key as INI, each with its place as comment. Reading it back gives the same values
 * (but INI cannot hold a text with " ;" in it, where a comment begins). */
td_status td_options_config(const td_options *options, char **out);

/* The same as an array of {"key", "value", "place"}. */
void td_options_config_json(const td_options *options, td_json *json);

#endif
