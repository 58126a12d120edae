/* JSON writer: a growing buffer, a stack of open objects and arrays, and one sticky error. See json.h.
 * Covered by tests/unit/test_json.c. */
#include "base/json.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

enum { MAX_DEPTH = 64, FLUSH_BYTES = 64 * 1024 };

typedef struct level {
    bool is_object;
    bool has_items;
    bool has_key; /* object: a key waits for its value */
} level;

struct td_json {
    FILE *file; /* borrowed; NULL = keep in memory */
    int indent;
    char *text;
    size_t bytes;
    size_t capacity;
    level levels[MAX_DEPTH];
    size_t depth;
    bool has_root;
    td_error error; /* the first failure; status TD_OK while there is none */
};

td_status td_json_create(FILE *file, int indent, td_json **out)
{
    td_status status = TD_NEW(out);
    if (status != TD_OK) return status;
    (*out)->file = file;
    (*out)->indent = indent;
    return TD_OK;
}

void td_json_destroy(td_json *json)
{
    if (!json) return;
    free(json->text);
    free(json);
}

static bool has_failed(const td_json *json)
{
    return json->error.status != TD_OK;
}

static void keep_error(td_json *json)
{
    json->error = *td_error_last();
}

static void fail_misuse(td_json *json, const char *what)
{
    if (has_failed(json)) return;
    TD_FAIL(TD_ERR_ARGUMENT, "wrong use of the JSON writer at depth %zu: %s; correct the calling code",
            json->depth, what);
    keep_error(json);
}

static void flush_text(td_json *json)
{
    errno = 0;
    if (fwrite(json->text, 1, json->bytes, json->file) != json->bytes || fflush(json->file) != 0) {
        TD_FAIL_NATIVE(TD_ERR_IO, strerrorname_np(errno),
                       "cannot write JSON: %s; check that the output is still open "
                       "and its disk not full",
                       strerrordesc_np(errno));
        keep_error(json);
    }
    json->bytes = 0;
}

static void put(td_json *json, const char *text, size_t bytes)
{
    if (has_failed(json)) return;
    if (td_alloc_grow(&json->text, &json->capacity, json->bytes + bytes + 1, 1) != TD_OK) {
        keep_error(json);
        return;
    }
    memcpy(json->text + json->bytes, text, bytes);
    json->bytes += bytes;
    json->text[json->bytes] = '\0';
    if (json->file && json->bytes >= FLUSH_BYTES) flush_text(json);
}

static void put_text(td_json *json, const char *text)
{
    put(json, text, strlen(text));
}

static void put_line_break(td_json *json)
{
    if (json->indent <= 0) return;
    put_text(json, "\n");
    for (size_t i = 0; i < json->depth * (size_t)json->indent; ++i)
        put_text(json, " ");
}

static void put_escaped(td_json *json, const char *text)
{
    put_text(json, "\"");
    for (size_t left = strlen(text); left > 0;) {
        uint32_t c;
        size_t length = td_text_utf8_next(text, left, &c);
        char escape[8];
        if (c == '"' || c == '\\') {
            put(json, (char[]){'\\', (char)c}, 2);
        } else if (td_text_is_control(c)) {
            const char *at = c < 0x20 ? strchr("\bb\ff\nn\rr\tt", (int)c) : NULL;
            if (at)
                put(json, (char[]){'\\', at[1]}, 2);
            else
                put(json, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", (unsigned)c));
        } else if (c == 0xFFFD) {
            put_text(json, "\xEF\xBF\xBD");
        } else {
            put(json, text, length);
        }
        text += length;
        left -= length;
    }
    put_text(json, "\"");
}

/* Commas and line breaks before an item of the innermost object or array. */
static void begin_item(td_json *json)
{
    level *top = &json->levels[json->depth - 1];
    if (top->has_items) put_text(json, json->indent > 0 ? "," : ", ");
    top->has_items = true;
    put_line_break(json);
}

/* Whether a value may stand here; writes what goes before it. */
static bool begin_value(td_json *json)
{
    if (json->depth == 0) {
        if (json->has_root) fail_misuse(json, "a second value at the top");
        json->has_root = true;
    } else if (!json->levels[json->depth - 1].is_object) {
        begin_item(json);
    } else {
        if (!json->levels[json->depth - 1].has_key) fail_misuse(json, "a value without a key in an object");
        json->levels[json->depth - 1].has_key = false;
    }
    return !has_failed(json);
}

static void put_value(td_json *json, const char *text)
{
    if (begin_value(json)) put_text(json, text);
}

static void begin_level(td_json *json, bool is_object)
{
    if (!begin_value(json)) return;
    if (json->depth == MAX_DEPTH) {
        fail_misuse(json, "too many levels");
        return;
    }
    put_text(json, is_object ? "{" : "[");
    json->levels[json->depth++] = (level){.is_object = is_object};
}

static void end_level(td_json *json, bool is_object)
{
    if (has_failed(json)) return;
    if (json->depth == 0 || json->levels[json->depth - 1].is_object != is_object) {
        fail_misuse(json, is_object ? "the end of an object that is not open"
                                    : "the end of an array that is not open");
        return;
    }
    if (json->levels[json->depth - 1].has_key)
        fail_misuse(json, "the end of an object after a key without a value");
    bool has_items = json->levels[--json->depth].has_items;
    if (has_items) put_line_break(json);
    put_text(json, is_object ? "}" : "]");
}

void td_json_begin_object(td_json *json)
{
    begin_level(json, true);
}

void td_json_end_object(td_json *json)
{
    end_level(json, true);
}

void td_json_begin_array(td_json *json)
{
    begin_level(json, false);
}

void td_json_end_array(td_json *json)
{
    end_level(json, false);
}

void td_json_key(td_json *json, const char *key)
{
    if (has_failed(json)) return;
    if (json->depth == 0 || !json->levels[json->depth - 1].is_object ||
        json->levels[json->depth - 1].has_key) {
        fail_misuse(json, "a key where none may stand");
        return;
    }
    begin_item(json);
    put_escaped(json, key);
    put_text(json, ": ");
    json->levels[json->depth - 1].has_key = true;
}

void td_json_string(td_json *json, const char *text)
{
    if (!text)
        td_json_null(json);
    else if (begin_value(json))
        put_escaped(json, text);
}

void td_json_int(td_json *json, int64_t value)
{
    char text[TD_TEXT_FORMAT_BYTES];
    snprintf(text, sizeof text, "%" PRId64, value);
    put_value(json, text);
}

void td_json_uint(td_json *json, uint64_t value)
{
    char text[TD_TEXT_FORMAT_BYTES];
    snprintf(text, sizeof text, "%" PRIu64, value);
    put_value(json, text);
}

void td_json_double(td_json *json, double value)
{
    char text[TD_TEXT_FORMAT_BYTES] = "null";
    if (isfinite(value)) td_text_format_double(value, text);
    put_value(json, text);
}

void td_json_bool(td_json *json, bool value)
{
    put_value(json, value ? "true" : "false");
}

void td_json_null(td_json *json)
{
    put_value(json, "null");
}

void td_json_put_object(td_json *json, const char *key)
{
    td_json_key(json, key);
    td_json_begin_object(json);
}

void td_json_put_array(td_json *json, const char *key)
{
    td_json_key(json, key);
    td_json_begin_array(json);
}

void td_json_put_string(td_json *json, const char *key, const char *text)
{
    td_json_key(json, key);
    td_json_string(json, text);
}

void td_json_put_uint(td_json *json, const char *key, uint64_t value)
{
    td_json_key(json, key);
    td_json_uint(json, value);
}

void td_json_put_double(td_json *json, const char *key, double value)
{
    td_json_key(json, key);
    td_json_double(json, value);
}

void td_json_put_bool(td_json *json, const char *key, bool value)
{
    td_json_key(json, key);
    td_json_bool(json, value);
}

td_status td_json_finish(td_json *json, const char **text)
{
    if (text) *text = NULL;
    if (json->depth > 0) fail_misuse(json, "an object or array was not closed");
    if (!json->has_root) fail_misuse(json, "nothing was written");
    if (json->file && !has_failed(json)) {
        put_text(json, "\n");
        if (!has_failed(json)) flush_text(json);
    }
    if (has_failed(json)) return td_error_adopt(&json->error);
    if (text) *text = json->file ? NULL : json->text;
    return TD_OK;
}
