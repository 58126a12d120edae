/* fprintf for what people read: control characters of names, paths and files are shown as \x1b or U+202E and so
 * never steer a terminal. Line ends and tabs stay. The program's own colours are written past this. Covered by
 * tests/unit/test_text.c and tests/cli/test_findings_guards.py.
 */
#ifndef TD_BASE_PRINT_H
#define TD_BASE_PRINT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

void td_print_text(FILE *file, const char *text, size_t bytes);

/* A text for which there is no memory is left out. */
void td_fprintf(FILE *file, const char *format, ...) __attribute__((format(printf, 2, 3)));
void td_vfprintf(FILE *file, const char *format, va_list args) __attribute__((format(printf, 2, 0)));

#endif
