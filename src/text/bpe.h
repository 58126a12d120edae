/* Byte-pair encoding of a Hugging Face `tokenizer.json` (XTTS names it `vocab.json`): added tokens are cut
 * out first, the rest is split into words and runs of marks, and each is merged by rank. Immutable once
 * opened. Not done: normalizers, byte fallback and other pre-tokenizers; a file that needs them is refused by
 * name. Covered by tests/text/test_tokenizer.c and tests/fuzz/fuzz_tokenizer_json.c.
 */
#ifndef TD_TEXT_BPE_H
#define TD_TEXT_BPE_H

#include "text/tokens.h"

/* What a file may hold; more is TD_ERR_LIMIT. */
enum {
    TD_BPE_MAX_FILE_BYTES = 16 << 20,
    TD_BPE_MAX_PIECES = 1 << 20,
    TD_BPE_MAX_ID = (1 << 20) - 1,
    TD_BPE_MAX_PIECE_BYTES = 1024,
    TD_BPE_MAX_ADDED = 4096,
};

typedef struct td_bpe td_bpe;

/* *out: owned, td_bpe_destroy(). `name` is for messages. TD_ERR_FORMAT, TD_ERR_LIMIT and TD_ERR_UNSUPPORTED
 * say which part of the file is at fault. */
td_status td_bpe_parse(const char *json, size_t bytes, const char *name, td_bpe **out);
td_status td_bpe_open(const char *path, td_bpe **out);
void td_bpe_destroy(td_bpe *bpe);

/* The largest id and one: ids may have holes. */
size_t td_bpe_vocab_size(const td_bpe *bpe);

/* The id of a piece or an added token, -1 if there is none. */
int32_t td_bpe_find(const td_bpe *bpe, const char *piece);

/* Appends the ids of valid UTF-8. */
td_status td_bpe_encode(const td_bpe *bpe, const char *text, size_t bytes, td_tokens *tokens);

#endif
