/* Lines of words that fit a width: paragraphs for help texts and reports, and cutting with an ellipsis.
 * Widths are in characters of UTF-8, not bytes. Writes only to the FILE it is given. Covered by
 * tests/unit/test_wrap.c.
 */
#ifndef TD_BASE_WRAP_H
#define TD_BASE_WRAP_H

#include <stddef.h>
#include <stdio.h>

/* Characters of `text`. */
size_t td_wrap_width(const char *text);

/* Writes the words of `words`, separated by single spaces, and ends the line. The cursor stands at `column`;
 * before a word that would pass `columns` a new line begins, `indent` spaces in. columns 0: never. */
void td_wrap_write(FILE *file, const char *words, size_t column, size_t indent, size_t columns);

/* Writes as much of `text` as `columns` hold, the last one an ellipsis if something is left out. columns 0:
 * all. */
void td_wrap_cut(FILE *file, const char *text, size_t columns);

#endif
