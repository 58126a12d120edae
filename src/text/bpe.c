/* Byte-pair encoding (bpe.h). Merging keeps the candidates in a heap and the symbols in a linked list, so
 * that a long word costs n log n. Covered by tests/text/test_tokenizer.c.
 */
#include "text/bpe.h"

#include <stdlib.h>
#include <string.h>

#include <unicode/uchar.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"
#include "text/bpe_internal.h"

td_bpe_piece *td_bpe_piece_slot(const td_bpe *bpe, const char *text, size_t bytes)
{
    size_t mask = bpe->n_piece_slots - 1;
    for (size_t i = (size_t)td_hash64(text, bytes) & mask;; i = (i + 1) & mask) {
        td_bpe_piece *slot = &bpe->pieces[i];
        if (slot->bytes == 0) return slot;
        if (slot->bytes == bytes && memcmp(bpe->text.data + slot->text, text, bytes) == 0) return slot;
    }
}

td_bpe_merge *td_bpe_merge_slot(const td_bpe *bpe, int32_t left, int32_t right)
{
    const int32_t key[2] = {left, right};
    size_t mask = bpe->n_merge_slots - 1;
    for (size_t i = (size_t)td_hash64(key, sizeof key) & mask;; i = (i + 1) & mask) {
        td_bpe_merge *slot = &bpe->merges[i];
        if (slot->left < 0 || (slot->left == left && slot->right == right)) return slot;
    }
}

void td_bpe_destroy(td_bpe *bpe)
{
    if (bpe == NULL) return;
    td_buffer_free(&bpe->text);
    free(bpe->pieces);
    free(bpe->merges);
    free(bpe->added);
    free(bpe);
}

size_t td_bpe_vocab_size(const td_bpe *bpe)
{
    return (size_t)bpe->max_id + 1;
}

int32_t td_bpe_find(const td_bpe *bpe, const char *piece)
{
    size_t bytes = strlen(piece);
    const td_bpe_piece *slot = td_bpe_piece_slot(bpe, piece, bytes);
    if (bytes > 0 && slot->bytes != 0) return slot->id;
    for (size_t i = 0; i < bpe->n_added; ++i) {
        const td_bpe_piece *added = &bpe->added[i];
        if (added->bytes == bytes && memcmp(bpe->text.data + added->text, piece, bytes) == 0)
            return added->id;
    }
    return -1;
}

/* One symbol of the word being merged. */
typedef struct symbol {
    int32_t id;
    uint32_t codepoint; /* for the report of an unknown one */
    size_t previous;    /* NONE at an end */
    size_t next;
    bool gone; /* merged into its left neighbour */
} symbol;

/* A pair that may be merged; stale if its symbols have changed since. */
typedef struct candidate {
    int32_t rank;
    int32_t left_id, right_id;
    size_t left;
} candidate;

#define NONE SIZE_MAX

/* Memory of one td_bpe_encode() call. */
typedef struct work {
    const td_bpe *bpe;
    symbol *symbols;
    size_t n_symbols, symbols_capacity;
    candidate *heap;
    size_t n_heap, heap_capacity;
} work;

/* The lower rank first, then the leftmost. */
static bool is_before(const candidate *a, const candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->left < b->left;
}

static void swap_candidates(candidate *a, candidate *b)
{
    candidate t = *a;
    *a = *b;
    *b = t;
}

static td_status push_candidate(work *w, size_t left)
{
    size_t right = left == NONE ? NONE : w->symbols[left].next;
    if (right == NONE || w->symbols[left].id < 0 || w->symbols[right].id < 0) return TD_OK;
    const td_bpe_merge *merge = td_bpe_merge_slot(w->bpe, w->symbols[left].id, w->symbols[right].id);
    if (merge->left < 0) return TD_OK;
    td_status status = td_alloc_grow(&w->heap, &w->heap_capacity, w->n_heap + 1, sizeof *w->heap);
    if (status != TD_OK) return status;
    size_t i = w->n_heap++;
    w->heap[i] = (candidate){merge->rank, merge->left, merge->right, left};
    for (; i > 0 && is_before(&w->heap[i], &w->heap[(i - 1) / 2]); i = (i - 1) / 2)
        swap_candidates(&w->heap[i], &w->heap[(i - 1) / 2]);
    return TD_OK;
}

static candidate pop_candidate(work *w)
{
    candidate top = w->heap[0];
    w->heap[0] = w->heap[--w->n_heap];
    for (size_t i = 0;;) {
        size_t best = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < w->n_heap; ++child)
            if (is_before(&w->heap[child], &w->heap[best])) best = child;
        if (best == i) return top;
        swap_candidates(&w->heap[i], &w->heap[best]);
        i = best;
    }
}

static td_status merge_symbols(work *w)
{
    w->n_heap = 0;
    for (size_t i = 0; i + 1 < w->n_symbols; ++i)
        TD_CHECK(push_candidate(w, i));
    while (w->n_heap > 0) {
        candidate c = pop_candidate(w);
        symbol *left = &w->symbols[c.left];
        if (left->gone || left->id != c.left_id || left->next == NONE) continue;
        symbol *right = &w->symbols[left->next];
        if (right->id != c.right_id) continue;
        left->id = td_bpe_merge_slot(w->bpe, c.left_id, c.right_id)->id;
        right->gone = true;
        left->next = right->next;
        if (left->next != NONE) w->symbols[left->next].previous = c.left;
        TD_CHECK(push_candidate(w, left->previous));
        TD_CHECK(push_candidate(w, c.left));
    }
    return TD_OK;
}

static td_status encode_word(work *w, const char *text, size_t bytes, td_tokens *tokens)
{
    w->n_symbols = 0;
    for (size_t at = 0, step = 0; at < bytes; at += step) {
        uint32_t codepoint = 0;
        step = td_text_utf8_next(text + at, bytes - at, &codepoint);
        const td_bpe_piece *piece = td_bpe_piece_slot(w->bpe, text + at, step);
        TD_CHECK(td_alloc_grow(&w->symbols, &w->symbols_capacity, w->n_symbols + 1, sizeof *w->symbols));
        size_t i = w->n_symbols++;
        w->symbols[i] = (symbol){.id = piece->bytes != 0 ? piece->id : -1,
                                 .codepoint = codepoint,
                                 .previous = i > 0 ? i - 1 : NONE,
                                 .next = at + step < bytes ? i + 1 : NONE};
    }
    TD_CHECK(merge_symbols(w));
    bool after_unknown = false;
    for (size_t i = w->n_symbols > 0 ? 0 : NONE; i != NONE; i = w->symbols[i].next) {
        const symbol *s = &w->symbols[i];
        bool unknown = s->id < 0;
        if (!unknown)
            TD_CHECK(td_tokens_push(tokens, s->id));
        else if (w->bpe->unknown >= 0 && !(after_unknown && w->bpe->fuse_unknown))
            TD_CHECK(td_tokens_push_unknown(tokens, w->bpe->unknown, s->codepoint));
        else if (tokens->n_unknown++ == 0)
            tokens->first_unknown = s->codepoint;
        after_unknown = unknown;
    }
    return TD_OK;
}

/* The classes of the pre-tokenizer's expression \w+|[^\w\s]+ : 0 space, 1 word, 2 mark. */
static int classify(uint32_t codepoint)
{
    if (codepoint < 0x80) {
        char c = (char)codepoint;
        if (c == ' ' || (c >= '\t' && c <= '\r')) return 0;
        bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
        return word ? 1 : 2;
    }
    UChar32 c = (UChar32)codepoint;
    if (u_isUWhiteSpace(c)) return 0;
    bool word = u_isUAlphabetic(c) || u_hasBinaryProperty(c, UCHAR_JOIN_CONTROL) ||
                (U_GET_GC_MASK(c) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0;
    return word ? 1 : 2;
}

/* Splits text without added tokens. */
static td_status encode_plain(work *w, const char *text, size_t bytes, td_tokens *tokens)
{
    size_t start = 0;
    int class = 0;
    for (size_t at = 0; at < bytes;) {
        uint32_t codepoint = 0;
        size_t step = td_text_utf8_next(text + at, bytes - at, &codepoint);
        int now = classify(codepoint);
        if (now != class) {
            if (class != 0) TD_CHECK(encode_word(w, text + start, at - start, tokens));
            start = at;
            class = now;
        }
        at += step;
    }
    if (class != 0) TD_CHECK(encode_word(w, text + start, bytes - start, tokens));
    return TD_OK;
}

/* The longest added token that starts the text, or NULL. */
static const td_bpe_piece *match_added(const td_bpe *bpe, const char *text, size_t bytes)
{
    if (!bpe->added_start[(unsigned char)text[0]]) return NULL;
    for (size_t i = 0; i < bpe->n_added; ++i) {
        const td_bpe_piece *added = &bpe->added[i];
        if (added->bytes <= bytes && memcmp(bpe->text.data + added->text, text, added->bytes) == 0)
            return added;
    }
    return NULL;
}

td_status td_bpe_encode(const td_bpe *bpe, const char *text, size_t bytes, td_tokens *tokens)
{
    td_status status = TD_OK;
    work w = {.bpe = bpe};
    size_t start = 0;
    for (size_t at = 0; at < bytes;) {
        const td_bpe_piece *added = match_added(bpe, text + at, bytes - at);
        if (added == NULL) {
            ++at;
            continue;
        }
        TD_TRY(encode_plain(&w, text + start, at - start, tokens));
        TD_TRY(td_tokens_push(tokens, added->id));
        at += added->bytes;
        start = at;
    }
    TD_TRY(encode_plain(&w, text + start, bytes - start, tokens));
fail:
    free(w.symbols);
    free(w.heap);
    return status;
}
