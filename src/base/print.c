/* See print.h. Covered by tests/unit/test_text.c and tests/cli/test_findings_guards.py. */
#include "base/print.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/text.h"

/* Whether a character is written as it is. A byte that is not UTF-8 (U+FFFD of one byte) is not. */
static bool is_plain(uint32_t c, size_t bytes)
{
    return c == '\n' || c == '\t' || !(td_text_is_control(c) || (c == 0xFFFD && bytes == 1));
}

void td_print_text(FILE *file, const char *text, size_t bytes)
{
    uint32_t c;
    size_t run = 0; /* bytes before `text` that are plain and not written yet */
    while (bytes > 0) {
        const size_t used = td_text_utf8_next(text, bytes, &c);
        if (is_plain(c, used)) {
            run += used;
        } else {
            fwrite(text - run, 1, run, file);
            run = 0;
            fprintf(file, used == 1 ? "\\x%02x" : "U+%04X", used == 1 ? (unsigned char)*text : (unsigned)c);
        }
        text += used;
        bytes -= used;
    }
    fwrite(text - run, 1, run, file);
}

void td_vfprintf(FILE *file, const char *format, va_list args)
{
    char *text = NULL;
    const int bytes = vasprintf(&text, format, args);
    if (bytes < 0) return;
    td_print_text(file, text, (size_t)bytes);
    free(text);
}

void td_fprintf(FILE *file, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    td_vfprintf(file, format, args);
    va_end(args);
}
