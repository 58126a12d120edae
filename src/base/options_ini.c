/* Option engine, second part: INI files. libinih splits sections, keys, values and comments; around it stands
 * what it does not do: it reports only the first bad line, cuts a line past its limit in two, takes an
 * indented line as the continuation of the one above, and tells its handler no line numbers. So the lines
 * reach it through a reader that counts them, strips their indentation and keeps back what must not be read.
 * Covered by tests/unit/test_options.c.
 */
#include "base/options.h"

#include <ctype.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"

enum { MAX_FILE_BYTES = 1 << 20 };

typedef struct ini_reading {
    td_options *options;
    const char *path;
    char place[TD_FILE_PATH_BYTES + 32]; /* "path:line" */
    const char *next, *end;              /* the text not read yet */
    size_t line;                         /* number of the line the parser has now */
    size_t *given_line;                  /* [n_options] line that gave the key of that row, or 0 */
    char section[256];                   /* the last one that is known */
    bool section_known;                  /* keys of an unknown section are not complained about one by one */
    bool in_section;
    bool expects_key; /* the parser's line must reach handle_key, or it is not INI */
    td_status status; /* first failure that is not the user's mistake */
} ini_reading;

/* Adds a mistake at the parser's line. */
#define ADD_MISTAKE(reading, ...)                                                                            \
    note((reading), td_options_add_mistake((reading)->options, (reading)->place, __VA_ARGS__))

static void note(ini_reading *reading, td_status status)
{
    if (reading->status == TD_OK) reading->status = status;
}

/* A line "[name]" without its comment; the name goes to the parser only if it is whole and known. */
static bool read_section(ini_reading *reading, const char *line)
{
    char name[256];
    const char *close = strchr(line, ']');
    const char *rest = close ? close + 1 + strspn(close + 1, " \t\r") : "";
    reading->in_section = true;
    reading->section_known = false;
    if (!close || (*rest && *rest != ';' && *rest != '#')) {
        ADD_MISTAKE(reading, "'%s' is not a section; write it as [name]", line);
        return false;
    }
    snprintf(name, sizeof name, "%.*s", (int)(close - line - 1), line + 1);
    note(reading, td_options_check_section(reading->options, name, reading->place, &reading->section_known));
    if (reading->section_known) memcpy(reading->section, name, sizeof name);
    return reading->section_known;
}

static int handle_key(void *context, const char *section, const char *key, const char *value);

/* The end of a value in quotes, which `value` begins with: the first like it that only a comment follows. */
static char *find_closing(char *value)
{
    for (char *at = value + 1; (at = strchr(at, *value)) != NULL; ++at) {
        const char *rest = at + 1 + strspn(at + 1, " \t");
        if (*rest == '\0' || (rest > at + 1 && (*rest == ';' || *rest == '#'))) return at;
    }
    return NULL;
}

/* "key = 'a value'": what stands in quotes is taken as it is, also blanks and semicolons, which the parser
 * would cut off. True if it was such a line, which the parser then does not see. */
static bool read_quoted(ini_reading *reading, char *line)
{
    char *equals = strpbrk(line, "=:");
    char *value = equals != NULL ? equals + 1 + strspn(equals + 1, " \t") : NULL;
    if (value == NULL || (*value != '"' && *value != '\'')) return false;
    char *closing = find_closing(value);
    if (closing == NULL) {
        ADD_MISTAKE(reading, "the quote before '%s' does not close; put another at its end, or none",
                    value + 1);
        return true;
    }
    *closing = '\0';
    while (equals > line && isspace((unsigned char)equals[-1]))
        equals--;
    *equals = '\0';
    (void)handle_key(reading, reading->section, line, value + 1);
    return true;
}

/* Whether the parser may see this line (no indentation, no line end, shorter than its buffer). */
static bool admit_line(ini_reading *reading, char *line)
{
    if (*line == '[') return read_section(reading, line);
    if (!reading->in_section) {
        ADD_MISTAKE(reading, "'%s' stands before any [section]; put one above it", line);
        return false;
    }
    if (reading->section_known && read_quoted(reading, line)) return false;
    reading->expects_key = reading->section_known;
    return reading->section_known;
}

/* The parser's line had no '=': it never reached handle_key. */
static void check_last_line(ini_reading *reading, const char *line)
{
    if (!reading->expects_key) return;
    reading->expects_key = false;
    ADD_MISTAKE(reading, "'%s' is neither [section] nor key = value nor a ; comment", line);
}

/* libinih's reader: one line of at most capacity - 1 bytes into `line`, which still holds the last one. */
static char *read_line(char *line, int capacity, void *context)
{
    ini_reading *reading = context;
    if (reading->line > 0) check_last_line(reading, line);
    if (reading->next == reading->end) return NULL;
    reading->line++;
    snprintf(reading->place, sizeof reading->place, "%s:%zu", reading->path, reading->line);
    const size_t left = (size_t)(reading->end - reading->next);
    const char *newline = memchr(reading->next, '\n', left);
    const char *stop = newline ? newline : reading->end;
    const char *start = reading->next;
    reading->next = newline ? newline + 1 : reading->end;
    while (start < stop && isspace((unsigned char)*start))
        start++;
    while (stop > start && isspace((unsigned char)stop[-1]))
        stop--;
    const size_t length = (size_t)(stop - start);
    line[0] = 0;
    if (length == 0 || *start == ';' || *start == '#') return line;
    if (memchr(start, 0, length)) {
        ADD_MISTAKE(reading, "the line holds a zero byte; this is not a text file");
    } else if (length >= (size_t)capacity) {
        ADD_MISTAKE(reading, "the line is longer than the %d bytes a line may have; shorten it",
                    capacity - 1);
    } else {
        memcpy(line, start, length);
        line[length] = 0;
        if (!admit_line(reading, line)) line[0] = 0;
    }
    return line;
}

static int handle_key(void *context, const char *section, const char *key, const char *value)
{
    ini_reading *reading = context;
    char name[512];
    reading->expects_key = false;
    const td_option_table *table = td_options_table(reading->options);
    const td_option *option = td_option_find(table, section, key);
    size_t *given = option ? &reading->given_line[option - table->options] : NULL;
    if (given && *given) {
        ADD_MISTAKE(reading, "'%s' in [%s] was already given in line %zu; keep one", key, section, *given);
        return 1;
    }
    if (given) *given = reading->line;
    snprintf(name, sizeof name, "%s.%s", section, key);
    note(reading, td_options_assign(reading->options, name, value, TD_ORIGIN_FILE, reading->place));
    return 1;
}

td_status td_options_read_text(td_options *options, const char *path, const char *text, size_t bytes)
{
    ini_reading reading = {.options = options, .path = path, .next = text, .end = text + bytes};
    td_status status;
    if (bytes >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) reading.next += 3;
    TD_TRY(TD_NEW_ARRAY(&reading.given_line, td_options_table(options)->n_options));
    /* Its result is the first bad line, which check_last_line has found already. */
    (void)ini_parse_stream(read_line, &reading, handle_key, &reading);
    status = reading.status;
fail:
    free(reading.given_line);
    return status;
}

td_status td_options_read_file(td_options *options, const char *path)
{
    char *text;
    size_t bytes;
    td_status status = td_file_read(path, MAX_FILE_BYTES, &text, &bytes);
    if (status == TD_ERR_HOST_MEMORY) return status;
    if (status != TD_OK) return td_options_add_mistake(options, "--config", "%s", td_error_last()->message);
    status = td_options_read_text(options, path, text, bytes);
    free(text);
    return status;
}
