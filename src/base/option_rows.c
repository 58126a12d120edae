/* Rows of an option table that are put together at run time. See options.h. Covered by
 * tests/unit/test_options.c. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/options.h"

td_status td_option_rows_add(td_option_rows *list, const td_option *rows, size_t n_rows)
{
    TD_CHECK(td_alloc_grow(&list->rows, &list->capacity, list->count + n_rows, sizeof *list->rows));
    memcpy(list->rows + list->count, rows, n_rows * sizeof *rows);
    list->count += n_rows;
    return TD_OK;
}

td_status td_option_rows_text(td_option_rows *list, char **out, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (list->texts == NULL) TD_CHECK(td_arena_create(0, &list->texts));
    return td_arena_strdup(list->texts, text, out);
}

const td_option *td_option_rows_find(const td_option_rows *list, const char *section, const char *key)
{
    return td_option_find(&(td_option_table){.options = list->rows, .n_options = list->count}, section, key);
}

void td_option_rows_free(td_option_rows *list)
{
    td_arena_destroy(list->texts);
    free(list->rows);
    *list = (td_option_rows){0};
}
