/* A growing list of token ids, as tokenizers fill it. Covered by tests/text/test_tokenizer.c. */
#ifndef TD_TEXT_TOKENS_H
#define TD_TEXT_TOKENS_H

#include <stddef.h>
#include <stdint.h>

#include "tandem/status.h"

/* Starts as {0}; td_tokens_free(). */
typedef struct td_tokens {
    int32_t *ids; /* owned, moves when the list grows */
    size_t count;
    size_t capacity;
    size_t n_unknown;       /* symbols of the last text that the tokenizer does not know */
    uint32_t first_unknown; /* code point of the first of them */
} td_tokens;

td_status td_tokens_push(td_tokens *tokens, int32_t id);
td_status td_tokens_push_unknown(td_tokens *tokens, int32_t id, uint32_t codepoint);

/* Empty, memory kept. */
void td_tokens_clear(td_tokens *tokens);
void td_tokens_free(td_tokens *tokens);

#endif
