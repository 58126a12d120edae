/* Wrapping and cutting of text by width, see wrap.h. Covered by tests/unit/test_wrap.c. */
#include "base/wrap.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/print.h"
#include "base/text.h"

static size_t measure(const char *text, size_t bytes)
{
    size_t width = 0;
    uint32_t codepoint;
    for (; bytes > 0; width++) {
        const size_t used = td_text_utf8_next(text, bytes, &codepoint);
        text += used;
        bytes -= used;
    }
    return width;
}

size_t td_wrap_width(const char *text)
{
    return measure(text, strlen(text));
}

void td_wrap_write(FILE *file, const char *words, size_t column, size_t indent, size_t columns)
{
    bool is_first = true;
    for (const char *word = words + strspn(words, " "); *word; word += strspn(word, " ")) {
        const size_t bytes = strcspn(word, " ");
        const size_t width = measure(word, bytes);
        if (!is_first && columns && column + 1 + width > columns) {
            fprintf(file, "\n%*s", (int)indent, "");
            column = indent;
        } else if (!is_first) {
            fputc(' ', file);
            column++;
        }
        td_print_text(file, word, bytes);
        column += width;
        is_first = false;
        word += bytes;
    }
    fputc('\n', file);
}

void td_wrap_cut(FILE *file, const char *text, size_t columns)
{
    uint32_t codepoint;
    size_t left = strlen(text);
    if (!columns || td_wrap_width(text) <= columns) {
        td_print_text(file, text, left);
        return;
    }
    for (size_t shown = 1; shown < columns; shown++) {
        const size_t used = td_text_utf8_next(text, left, &codepoint);
        td_print_text(file, text, used);
        text += used;
        left -= used;
    }
    fputs("…", file);
}
