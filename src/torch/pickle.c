/* See pickle.h: the values, the stack and the memo. The opcodes are in pickle_ops.c. */
#include "torch/pickle.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "torch/pickle_internal.h"

/* ---------------------------------------------------------------- values and stack */

td_status td_pickle_take(td_pickle *p, uint64_t bytes, const unsigned char **out)
{
    if (bytes > p->bytes - p->at)
        return TD_FAIL(TD_ERR_FORMAT, "it is cut: %" PRIu64 " bytes are missing", bytes - (p->bytes - p->at));
    *out = p->content + p->at;
    p->at += (size_t)bytes;
    return TD_OK;
}

td_status td_pickle_push_id(td_pickle *p, td_pickle_id id)
{
    TD_REFUSE_IF(p->n_stack >= TD_PICKLE_MAX_ITEMS, TD_ERR_LIMIT, "more than %d values wait on its stack",
                 TD_PICKLE_MAX_ITEMS);
    TD_CHECK(td_alloc_grow(&p->stack, &p->stack_capacity, p->n_stack + 1, sizeof *p->stack));
    p->stack[p->n_stack++] = id;
    return TD_OK;
}

td_status td_pickle_push(td_pickle *p, td_pickle_value value)
{
    TD_REFUSE_IF(p->n_values >= TD_PICKLE_MAX_VALUES, TD_ERR_LIMIT, "it has more than %d values",
                 TD_PICKLE_MAX_VALUES);
    TD_CHECK(td_alloc_grow(&p->values, &p->value_capacity, p->n_values + 1, sizeof *p->values));
    p->values[p->n_values] = value;
    TD_CHECK(td_pickle_push_id(p, (td_pickle_id)p->n_values));
    p->n_values++;
    return TD_OK;
}

static size_t find_floor(const td_pickle *p)
{
    return p->n_marks > 0 ? p->marks[p->n_marks - 1] : 0;
}

td_status td_pickle_top(td_pickle *p, td_pickle_id *out)
{
    if (p->n_stack <= find_floor(p)) return TD_FAIL(TD_ERR_FORMAT, "its stack is empty");
    *out = p->stack[p->n_stack - 1];
    return TD_OK;
}

td_status td_pickle_pop(td_pickle *p, td_pickle_id *out)
{
    const td_status status = td_pickle_top(p, out);
    if (status == TD_OK) p->n_stack--;
    return status;
}

td_status td_pickle_pop_mark(td_pickle *p, const td_pickle_id **items, size_t *n)
{
    if (p->n_marks == 0) return TD_FAIL(TD_ERR_FORMAT, "there is no mark on its stack");
    const size_t floor = p->marks[--p->n_marks];
    *items = p->stack + floor;
    *n = p->n_stack - floor;
    p->n_stack = floor;
    return TD_OK;
}

td_status td_pickle_append(td_pickle *p, td_pickle_id to, const td_pickle_id *items, size_t n)
{
    td_pickle_value *value = &p->values[to];
    if (n == 0) return TD_OK;
    p->n_items += n;
    TD_REFUSE_IF(p->n_items > TD_PICKLE_MAX_ITEMS, TD_ERR_LIMIT, "its containers have more than %d items",
                 TD_PICKLE_MAX_ITEMS);
    /* Room is a power of two, so how much there is need not be kept. */
    size_t capacity = value->n > 0 ? 1 : 0;
    while (capacity < value->n)
        capacity *= 2;
    size_t need = 1;
    while (need < value->n + n)
        need *= 2;
    if (need > capacity) {
        td_pickle_id *grown = realloc(value->as.items, need * sizeof *grown);
        TD_REFUSE_IF(grown == NULL, TD_ERR_HOST_MEMORY, "cannot allocate %zu items", need);
        value->as.items = grown;
    }
    memcpy(value->as.items + value->n, items, n * sizeof *items);
    value->n += (uint32_t)n;
    return TD_OK;
}

td_status td_pickle_push_items(td_pickle *p, td_pickle_kind kind, const td_pickle_id *items, size_t n)
{
    td_status status = TD_OK;
    td_pickle_value value = {.kind = kind};
    td_pickle_id *copy = NULL;
    /* The items may lie where the new value will stand on the stack. */
    if (n > 0) {
        TD_TRY(TD_NEW_ARRAY(&copy, n));
        memcpy(copy, items, n * sizeof *copy);
    }
    TD_TRY(td_pickle_push(p, value));
    TD_TRY(td_pickle_append(p, (td_pickle_id)(p->n_values - 1), copy, n));
fail:
    free(copy);
    return status;
}

/* ---------------------------------------------------------------- globals */

static bool has_text(const td_pickle_value *value, const char *text, size_t bytes)
{
    return value->kind == TD_PICKLE_TEXT && value->n == bytes && memcmp(value->as.bytes, text, bytes) == 0;
}

/* Whether the module is `name` or inside of it. */
static bool is_within(const td_pickle_value *module, const char *name)
{
    const size_t bytes = strlen(name);
    return module->n >= bytes && memcmp(module->as.bytes, name, bytes) == 0 &&
           (module->n == bytes || module->as.bytes[bytes] == '.');
}

/* What tensors and configurations have no use for, and attacks do. Safety does not hang on this list: what is
 * not on it is not called either. */
static const char *const HOSTILE[] = {
    "os",         "posix",     "nt",
    "subprocess", "sys",       "socket",
    "shutil",     "ctypes",    "importlib",
    "runpy",      "pty",       "code",
    "codeop",     "pickle",    "_pickle",
    "marshal",    "imp",       "commands",
    "pdb",        "bdb",       "timeit",
    "cProfile",   "profile",   "trace",
    "webbrowser", "asyncio",   "multiprocessing",
    "signal",     "popen2",    "platform",
    "http",       "urllib",    "requests",
    "ftplib",     "smtplib",   "pip",
    "ensurepip",  "venv",      "tempfile",
    "operator",   "functools", "types",
    "inspect",    "ast",       "dis",
    "gc",
};

static const char *const HARMLESS_BUILTINS[] = {
    "set", "frozenset", "dict", "list", "tuple", "bytearray", "bytes",   "complex", "object",
    "int", "float",     "bool", "str",  "slice", "range",     "unicode", "long",    "xrange"};

static bool is_hostile(const td_pickle_value *module, const td_pickle_value *name)
{
    for (size_t i = 0; i < sizeof HOSTILE / sizeof *HOSTILE; i++)
        if (is_within(module, HOSTILE[i])) return true;
    if (!is_within(module, "builtins") && !is_within(module, "__builtin__")) return false;
    for (size_t i = 0; i < sizeof HARMLESS_BUILTINS / sizeof *HARMLESS_BUILTINS; i++)
        if (has_text(name, HARMLESS_BUILTINS[i], strlen(HARMLESS_BUILTINS[i]))) return false;
    return true;
}

td_status td_pickle_push_global(td_pickle *p, td_pickle_id module, td_pickle_id name)
{
    td_status status = TD_OK;
    TD_FAIL_IF(p->values[module].kind != TD_PICKLE_TEXT || p->values[name].kind != TD_PICKLE_TEXT,
               TD_ERR_FORMAT, "the name of a global is no text");
    TD_TRY(td_pickle_push(p, (td_pickle_value){.kind = TD_PICKLE_GLOBAL, .as.of = {module, name, 0}}));
    if (is_hostile(&p->values[module], &p->values[name])) {
        char text[TD_PICKLE_NAME_BYTES];
        td_pickle_format_global(p, (td_pickle_id)(p->n_values - 1), text);
        status = TD_FAIL(TD_ERR_FORMAT,
                         "it asks for %s, which no file of tensors needs; nothing of it was run; do not "
                         "load this file with other programs",
                         text);
    }
fail:
    return status;
}

void td_pickle_format_global(const td_pickle *p, td_pickle_id id, char out[TD_PICKLE_NAME_BYTES])
{
    const td_pickle_value *value = td_pickle_get(p, id);
    snprintf(out, TD_PICKLE_NAME_BYTES, "something without a name");
    if (value->kind != TD_PICKLE_GLOBAL) return;
    const td_pickle_value *module = &p->values[value->as.of.a], *name = &p->values[value->as.of.b];
    snprintf(out, TD_PICKLE_NAME_BYTES, "%.*s.%.*s", (int)(module->n < 60 ? module->n : 60),
             (const char *)module->as.bytes, (int)(name->n < 60 ? name->n : 60),
             (const char *)name->as.bytes);
}

/* ---------------------------------------------------------------- reading */

td_status td_pickle_parse(const void *content, size_t bytes, size_t *used, td_pickle **out)
{
    td_status status = TD_OK;
    td_pickle *p = NULL;
    *out = NULL;
    TD_TRY(TD_NEW(&p));
    p->content = content;
    p->bytes = bytes < TD_PICKLE_MAX_BYTES ? bytes : TD_PICKLE_MAX_BYTES;
    TD_TRY(td_alloc_grow(&p->values, &p->value_capacity, 1024, sizeof *p->values));
    TD_TRY(td_alloc_grow(&p->stack, &p->stack_capacity, 1024, sizeof *p->stack));
    p->n_values = 1;
    while (!p->is_done) {
        const size_t at = p->at;
        status = td_pickle_run_opcode(p);
        if (status != TD_OK) {
            (void)td_error_context("byte %zu of its pickle", at);
            goto fail;
        }
    }
    free(p->stack);
    free(p->memo);
    p->stack = p->memo = NULL;
    if (used != NULL) *used = p->at;
    *out = p;
    return TD_OK;
fail:
    td_pickle_close(p);
    return status;
}

void td_pickle_close(td_pickle *p)
{
    if (p == NULL) return;
    for (size_t i = 0; i < p->n_values; i++) {
        const td_pickle_kind kind = p->values[i].kind;
        if (kind == TD_PICKLE_TUPLE || kind == TD_PICKLE_LIST || kind == TD_PICKLE_DICT)
            free(p->values[i].as.items);
    }
    free(p->values);
    free(p->stack);
    free(p->memo);
    free(p);
}

/* ---------------------------------------------------------------- looking */

td_pickle_id td_pickle_root(const td_pickle *p)
{
    return p->root;
}

size_t td_pickle_count(const td_pickle *p)
{
    return p->n_values;
}

const td_pickle_value *td_pickle_get(const td_pickle *p, td_pickle_id id)
{
    return &p->values[id];
}

td_pickle_id td_pickle_item(const td_pickle *p, td_pickle_id id, size_t i)
{
    const td_pickle_value *value = &p->values[id];
    const bool has_items =
        value->kind == TD_PICKLE_TUPLE || value->kind == TD_PICKLE_LIST || value->kind == TD_PICKLE_DICT;
    return has_items && i < value->n ? value->as.items[i] : 0;
}

td_pickle_id td_pickle_find(const td_pickle *p, td_pickle_id dict, const char *key)
{
    const td_pickle_value *value = &p->values[dict];
    const size_t bytes = strlen(key);
    if (value->kind != TD_PICKLE_DICT) return 0;
    for (uint32_t i = value->n; i >= 2; i -= 2)
        if (has_text(&p->values[value->as.items[i - 2]], key, bytes)) return value->as.items[i - 1];
    return 0;
}

bool td_pickle_is_text(const td_pickle *p, td_pickle_id id, const char *text)
{
    return has_text(&p->values[id], text, strlen(text));
}

bool td_pickle_is_global(const td_pickle *p, td_pickle_id id, const char *module, const char *name)
{
    const td_pickle_value *value = &p->values[id];
    return value->kind == TD_PICKLE_GLOBAL && td_pickle_is_text(p, value->as.of.a, module) &&
           td_pickle_is_text(p, value->as.of.b, name);
}
