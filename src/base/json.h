/* JSON writer into memory or a FILE. Calls return nothing: the first failure (memory, file, or a misuse such
 * as a value without a key) sticks, later calls do nothing, and td_json_finish() reports it. Strings are
 * escaped, invalid UTF-8 becomes U+FFFD, NaN and infinities become null. Reading JSON is not done here.
 * Covered by tests/unit/test_json.c.
 */
#ifndef TD_BASE_JSON_H
#define TD_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tandem/status.h"

typedef struct td_json td_json;

/* *out: owned, td_json_destroy(). `file` (borrowed until destroy) gets the text as it grows; NULL keeps it in
 * memory. `indent` spaces per level, 0 = all on one line. */
td_status td_json_create(FILE *file, int indent, td_json **out);
void td_json_destroy(td_json *json);

void td_json_begin_object(td_json *json);
void td_json_end_object(td_json *json);
void td_json_begin_array(td_json *json);
void td_json_end_array(td_json *json);

/* Inside an object: the name of the value that follows. */
void td_json_key(td_json *json, const char *key);

/* NULL is written as null. */
void td_json_string(td_json *json, const char *text);
void td_json_int(td_json *json, int64_t value);
void td_json_uint(td_json *json, uint64_t value);

/* The shortest digits that read back as the same double. */
void td_json_double(td_json *json, double value);
void td_json_bool(td_json *json, bool value);
void td_json_null(td_json *json);

/* A name and its value at once; an object or an array is then ended as others are. */
void td_json_put_object(td_json *json, const char *key);
void td_json_put_array(td_json *json, const char *key);
void td_json_put_string(td_json *json, const char *key, const char *text);
void td_json_put_uint(td_json *json, const char *key, uint64_t value);
void td_json_put_double(td_json *json, const char *key, double value);
void td_json_put_bool(td_json *json, const char *key, bool value);

/* Ends the document, with a newline when writing to a file. The first failure of any call, or an unclosed or
 * missing value, is returned here. `text` (may be NULL) receives the document when it is kept in memory:
 * borrowed until destroy, zero-terminated. */
td_status td_json_finish(td_json *json, const char **text);

#endif
