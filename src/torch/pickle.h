/* Pickles, read as data. A pickle is a program for a stack machine that names functions and calls them; this
 * machine has no functions. A global is its two names, a call is a note of what would have been called with
 * what, and nothing outside of the pickle is ever looked up, imported or run.
 *
 * Read are the opcodes that torch.save() and pickle's protocols 2 to 5 write for data; others are refused by
 * name. So are globals that have no place in a file of tensors (os.system, builtins.eval and their like):
 * nothing would run, but such a file is an attack on somebody, and is called by its name. Values may be
 * shared and may contain themselves; who walks them has a limit. Covered by tests/torch and
 * tests/fuzz/fuzz_pickle.c.
 */
#ifndef TD_TORCH_PICKLE_H
#define TD_TORCH_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tandem/status.h"

enum {
    TD_PICKLE_MAX_BYTES = 64 << 20,
    TD_PICKLE_MAX_VALUES = 1 << 20, /* and marks of the memo */
    TD_PICKLE_MAX_ITEMS = 1 << 22,  /* of all containers; and on the stack */
    TD_PICKLE_MAX_DEPTH = 200,
    TD_PICKLE_MAX_TEXT_BYTES = 1 << 20,
};

typedef enum td_pickle_kind {
    TD_PICKLE_NONE,
    TD_PICKLE_BOOL,       /* integer */
    TD_PICKLE_INT,        /* integer */
    TD_PICKLE_LONG,       /* bytes: an integer past 64 bits, two's complement, low byte first */
    TD_PICKLE_FLOAT,      /* number */
    TD_PICKLE_TEXT,       /* bytes: UTF-8 as it came, not ended by 0 */
    TD_PICKLE_BYTES,      /* bytes */
    TD_PICKLE_TUPLE,      /* items */
    TD_PICKLE_LIST,       /* items; sets too */
    TD_PICKLE_DICT,       /* items: key, value, key, value; as they were put, so the last of a key counts */
    TD_PICKLE_GLOBAL,     /* a, b: module and name, texts */
    TD_PICKLE_OBJECT,     /* a: what was called; b: with which arguments; c: its state, 0: none */
    TD_PICKLE_PERSISTENT, /* a: what stands for something outside of the pickle */
} td_pickle_kind;

typedef uint32_t td_pickle_id; /* 0: no value */

typedef struct td_pickle_value {
    td_pickle_kind kind;
    uint32_t n; /* bytes, or items */
    union {
        int64_t integer;
        double number;
        const unsigned char *bytes; /* borrowed from the content */
        td_pickle_id *items;
        struct {
            td_pickle_id a, b, c;
        } of;
    } as;
} td_pickle_value;

typedef struct td_pickle td_pickle;

/* Reads one pickle, which ends with its STOP; *used (may be NULL): its bytes. `content` is borrowed until
 * close. *out: owned, td_pickle_close(); NULL on failure. */
td_status td_pickle_parse(const void *content, size_t bytes, size_t *used, td_pickle **out);
void td_pickle_close(td_pickle *pickle);

td_pickle_id td_pickle_root(const td_pickle *pickle);

/* Values have the ids from 1 to one less than this. */
size_t td_pickle_count(const td_pickle *pickle);

/* Borrowed until close; of 0 a NONE. */
const td_pickle_value *td_pickle_get(const td_pickle *pickle, td_pickle_id id);

/* Item i of a tuple, list or dict; 0 if there is none. */
td_pickle_id td_pickle_item(const td_pickle *pickle, td_pickle_id id, size_t i);

/* The value of a key that is this text; of several the last; 0 if there is none, or it is no dict. */
td_pickle_id td_pickle_find(const td_pickle *pickle, td_pickle_id dict, const char *key);

bool td_pickle_is_text(const td_pickle *pickle, td_pickle_id id, const char *text);
bool td_pickle_is_global(const td_pickle *pickle, td_pickle_id id, const char *module, const char *name);

/* "module.name" of a global, for messages: cut where it is too long. */
enum { TD_PICKLE_NAME_BYTES = 128 };
void td_pickle_format_global(const td_pickle *pickle, td_pickle_id id, char out[TD_PICKLE_NAME_BYTES]);

#endif
