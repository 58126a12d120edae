/* Symbol table (symbols.h): a bit set while collecting, a sorted array afterwards. */
#include "text/symbols.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "text/unicode.h"

enum { N_CODEPOINTS = 0x110000, N_DIRECT = 0x80 };

struct td_symbol_set {
    uint64_t bits[N_CODEPOINTS / 64];
};

struct td_symbols {
    char *text;
    uint32_t *codepoints;
    bool *is_hidden;
    size_t count;             /* without the specials */
    int32_t direct[N_DIRECT]; /* ids of ASCII */
};

td_status td_symbol_set_create(td_symbol_set **out)
{
    return TD_NEW(out);
}

void td_symbol_set_destroy(td_symbol_set *set)
{
    free(set);
}

td_status td_symbol_set_add(td_symbol_set *set, const char *text, size_t bytes)
{
    td_status status = td_unicode_check(text, bytes, NULL);
    for (size_t at = 0; status == TD_OK && at < bytes;) {
        uint32_t codepoint = 0;
        at += td_text_utf8_next(text + at, bytes - at, &codepoint);
        set->bits[codepoint / 64] |= UINT64_C(1) << codepoint % 64;
    }
    return status;
}

td_status td_symbols_create(const td_symbol_set *set, td_symbols **out)
{
    td_status status = TD_OK;
    td_buffer text = {0};
    TD_TRY(td_buffer_append(&text, "", 0));
    for (uint32_t codepoint = 1; codepoint < N_CODEPOINTS; ++codepoint) {
        if ((set->bits[codepoint / 64] >> codepoint % 64 & 1) == 0) continue;
        TD_TRY(td_unicode_append(&text, codepoint));
    }
    TD_TRY(td_symbols_parse(text.data, out));
fail:
    td_buffer_free(&text);
    return status;
}

td_status td_symbols_parse(const char *text, td_symbols **out)
{
    td_status status = TD_OK;
    td_symbols *symbols = NULL;
    size_t bytes = strlen(text);
    TD_TRY(td_unicode_check(text, bytes, NULL));
    TD_TRY(TD_NEW(&symbols));
    TD_TRY(TD_NEW_ARRAY(&symbols->text, bytes + 1));
    TD_TRY(TD_NEW_ARRAY(&symbols->codepoints, bytes + 1));
    TD_TRY(TD_NEW_ARRAY(&symbols->is_hidden, bytes + 1));
    memcpy(symbols->text, text, bytes);
    for (int i = 0; i < N_DIRECT; ++i)
        symbols->direct[i] = TD_SYMBOL_UNKNOWN;
    uint32_t last = 0;
    for (size_t at = 0; at < bytes;) {
        uint32_t codepoint = 0;
        size_t start = at;
        at += td_text_utf8_next(text + at, bytes - at, &codepoint);
        TD_FAIL_IF(
            codepoint <= last, TD_ERR_FORMAT,
            "the symbol table is not in ascending order at byte %zu (U+%04X): it was changed or damaged",
            start, codepoint);
        last = codepoint;
        if (codepoint < N_DIRECT) symbols->direct[codepoint] = (int32_t)(TD_SYMBOL_FIRST + symbols->count);
        symbols->codepoints[symbols->count++] = codepoint;
    }
    *out = symbols;
    symbols = NULL;
fail:
    td_symbols_destroy(symbols);
    return status;
}

void td_symbols_destroy(td_symbols *symbols)
{
    if (symbols == NULL) return;
    free(symbols->text);
    free(symbols->codepoints);
    free(symbols->is_hidden);
    free(symbols);
}

size_t td_symbols_count(const td_symbols *symbols)
{
    return TD_SYMBOL_FIRST + symbols->count;
}

const char *td_symbols_text(const td_symbols *symbols)
{
    return symbols->text;
}

/* The id of a code point, hidden or not. */
static int32_t find(const td_symbols *symbols, uint32_t codepoint)
{
    if (codepoint < N_DIRECT) return symbols->direct[codepoint];
    size_t low = 0;
    size_t high = symbols->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (symbols->codepoints[middle] == codepoint) return (int32_t)(TD_SYMBOL_FIRST + middle);
        if (symbols->codepoints[middle] < codepoint)
            low = middle + 1;
        else
            high = middle;
    }
    return TD_SYMBOL_UNKNOWN;
}

int32_t td_symbols_find(const td_symbols *symbols, uint32_t codepoint)
{
    const int32_t id = find(symbols, codepoint);
    return id != TD_SYMBOL_UNKNOWN && symbols->is_hidden[id - TD_SYMBOL_FIRST] ? TD_SYMBOL_UNKNOWN : id;
}

td_status td_symbols_hide(td_symbols *symbols, const char *unseen)
{
    const size_t bytes = strlen(unseen);
    const td_status status = td_unicode_check(unseen, bytes, NULL);
    for (size_t at = 0; status == TD_OK && at < bytes;) {
        uint32_t codepoint = 0;
        at += td_text_utf8_next(unseen + at, bytes - at, &codepoint);
        const int32_t id = find(symbols, codepoint);
        if (id != TD_SYMBOL_UNKNOWN) symbols->is_hidden[id - TD_SYMBOL_FIRST] = true;
    }
    return status;
}
