/* One way from normalised text to token ids, whatever the kind: characters, phonemes, or the BPE of an
 * imported model. Any number of threads may use one tokenizer; phonemes take turns inside.
 * Covered by tests/text/test_tokenizer.c.
 */
#ifndef TD_TEXT_TOKENIZER_H
#define TD_TEXT_TOKENIZER_H

#include <stdbool.h>

#include "text/buffer.h"
#include "text/lang.h"
#include "text/symbols.h"
#include "text/tokens.h"

typedef struct td_tokenizer td_tokenizer;

typedef enum td_token_kind { TD_TOKENS_CHARACTERS, TD_TOKENS_PHONEMES, TD_TOKENS_BPE } td_token_kind;

/* *out: owned, td_tokenizer_destroy(). `symbols`: borrowed until destroy. `kind` is characters or phonemes;
 * phonemes without espeak-ng are TD_ERR_UNSUPPORTED. */
td_status td_tokenizer_create(td_token_kind kind, const td_symbols *symbols, td_tokenizer **out);

/* The BPE of a `tokenizer.json` or an XTTS `vocab.json` (bpe.h). */
td_status td_tokenizer_open_bpe(const char *path, td_tokenizer **out);

/* The same from what is in such a file. `name` is for messages; NULL: that of a voice. */
td_status td_tokenizer_parse_bpe(const char *json, size_t bytes, const char *name, td_tokenizer **out);
void td_tokenizer_destroy(td_tokenizer *tokenizer);

/* How many ids there may be: one more than the largest. */
size_t td_tokenizer_vocab_size(const td_tokenizer *tokenizer);

td_token_kind td_tokenizer_kind(const td_tokenizer *tokenizer);

/* The text whose symbols become tokens: the text itself, or its phonemes. Appended to `out`. This is what a
 * symbol table for the kind is collected from. */
td_status td_tokenizer_spell(td_token_kind kind, td_lang lang, const char *text, size_t bytes,
                             td_buffer *out);

/* Replaces the content of `tokens`. Characters and phonemes: TD_SYMBOL_BOS, the symbols, TD_SYMBOL_EOS. BPE:
 * the tokens of "[lang]" and the text with "[SPACE]" for spaces; start and stop are the model's own.
 * Unknown symbols become the unknown token and are counted in `tokens`. */
td_status td_tokenizer_encode(const td_tokenizer *tokenizer, td_lang lang, const char *text, size_t bytes,
                              td_tokens *tokens);

/* The same of what td_tokenizer_spell() made. */
td_status td_tokenizer_encode_spelled(const td_tokenizer *tokenizer, td_lang lang, const char *text,
                                      size_t bytes, td_tokens *tokens);

/* Whether a BPE tokenizer has a tag for the language. */
bool td_tokenizer_has_language(const td_tokenizer *tokenizer, td_lang lang);

/* Whether a character of spelled text has a token. */
bool td_tokenizer_knows(const td_tokenizer *tokenizer, uint32_t codepoint);

#endif
