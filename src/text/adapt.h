/* A text in the symbols that a tokenizer knows: what it does not know is written with what it knows (compatible
 * forms, letters without their accents, letters or phonemes of a like sound, other marks), or left out. A text that it knows stays as it is.
 * Covered by tests/text/test_adapt.c.
 */
#ifndef TD_TEXT_ADAPT_H
#define TD_TEXT_ADAPT_H

#include "text/tokenizer.h"

typedef struct td_left_out {
    uint32_t codepoint;
    size_t count;
} td_left_out;

/* Characters that nothing stands for, each once, in the order in which they came. Starts as {0}. */
typedef struct td_left_outs {
    td_left_out *at; /* owned: td_left_outs_free() */
    size_t count, capacity;
} td_left_outs;

/* Appends valid UTF-8, as td_tokenizer_spell() makes it, to `out` (zero-terminated also if it is empty). What is
 * left out is counted in `left_outs`; marks that say nothing by themselves (quotes, brackets, hyphens) are not.
 */
td_status td_adapt_text(const td_tokenizer *tokenizer, const char *text, size_t bytes, td_buffer *out,
                        td_left_outs *left_outs);

/* Counts one more of them. */
td_status td_left_outs_count(td_left_outs *left_outs, uint32_t codepoint);

/* "'x' (U+0078) 3 times, 'y' (U+0079), and 2 others": as many as there is room for. */
void td_left_outs_describe(const td_left_outs *left_outs, char *to, size_t bytes);
void td_left_outs_free(td_left_outs *left_outs);

#endif
