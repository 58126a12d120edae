/* List of token ids (tokens.h). */
#include "text/tokens.h"

#include <stdlib.h>

#include "base/error.h"

td_status td_tokens_push(td_tokens *tokens, int32_t id)
{
    td_status status = td_alloc_grow(&tokens->ids, &tokens->capacity, tokens->count + 1, sizeof *tokens->ids);
    if (status == TD_OK) tokens->ids[tokens->count++] = id;
    return status;
}

td_status td_tokens_push_unknown(td_tokens *tokens, int32_t id, uint32_t codepoint)
{
    if (tokens->n_unknown++ == 0) tokens->first_unknown = codepoint;
    return td_tokens_push(tokens, id);
}

void td_tokens_clear(td_tokens *tokens)
{
    tokens->count = 0;
    tokens->n_unknown = 0;
    tokens->first_unknown = 0;
}

void td_tokens_free(td_tokens *tokens)
{
    free(tokens->ids);
    *tokens = (td_tokens){0};
}
