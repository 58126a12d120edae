/* The alphabet of a model: four special symbols, then code points in ascending order. Those of the training texts
 * and of their languages (alphabet.h), stored with the model, and used unchanged for validation and synthesis.
 * Covered by tests/text/test_symbols.c.
 */
#ifndef TD_TEXT_SYMBOLS_H
#define TD_TEXT_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

#include "tandem/status.h"

/* The ids every table has. Padding of a batch is 0. */
enum {
    TD_SYMBOL_PAD,
    TD_SYMBOL_BOS,
    TD_SYMBOL_EOS,
    TD_SYMBOL_UNKNOWN,
    TD_SYMBOL_FIRST, /* of the first code point */
};

/* A set of code points that grows text by text. One thread at a time; sets of several threads are joined in
 * any order with the same result. */
typedef struct td_symbol_set td_symbol_set;

/* *out: owned, td_symbol_set_destroy(). */
td_status td_symbol_set_create(td_symbol_set **out);
void td_symbol_set_destroy(td_symbol_set *set);

/* TD_ERR_FORMAT names the offset of a byte that is not UTF-8; then nothing is added. */
td_status td_symbol_set_add(td_symbol_set *set, const char *text, size_t bytes);

/* Immutable, so any number of threads may use it at once. */
typedef struct td_symbols td_symbols;

/* *out: owned, td_symbols_destroy(). */
td_status td_symbols_create(const td_symbol_set *set, td_symbols **out);

/* From td_symbols_text(); TD_ERR_FORMAT if it is not UTF-8 in strictly ascending order. */
td_status td_symbols_parse(const char *text, td_symbols **out);
void td_symbols_destroy(td_symbols *symbols);

/* Before it is shared: these code points are not found any more; their rows stay. For symbols that no training text
 * had: what a model makes of them is noise. */
td_status td_symbols_hide(td_symbols *symbols, const char *unseen);

/* Specials and code points. */
size_t td_symbols_count(const td_symbols *symbols);

/* The code points in order, as UTF-8. Borrowed until destroy. */
const char *td_symbols_text(const td_symbols *symbols);

/* TD_SYMBOL_UNKNOWN if it is not in the table. */
int32_t td_symbols_find(const td_symbols *symbols, uint32_t codepoint);

#endif
