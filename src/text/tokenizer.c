/* The tokenizers behind one interface (tokenizer.h). */
#include "text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unicode/utf8.h>

#include "base/error.h"
#include "base/text.h"
#include "text/bpe.h"
#include "text/phonemes.h"
#include "text/unicode.h"

struct td_tokenizer {
    td_token_kind kind;
    const td_symbols *symbols; /* not of BPE */
    td_bpe *bpe;               /* of BPE, owned */
};

td_status td_tokenizer_create(td_token_kind kind, const td_symbols *symbols, td_tokenizer **out)
{
    TD_REFUSE_IF(kind == TD_TOKENS_BPE, TD_ERR_ARGUMENT,
                 "a BPE tokenizer comes from a file, not from symbols");
    if (kind == TD_TOKENS_PHONEMES) TD_CHECK(td_phonemes_check());
    TD_CHECK(TD_NEW(out));
    (*out)->kind = kind;
    (*out)->symbols = symbols;
    return TD_OK;
}

/* Takes the BPE over. */
static td_status wrap_bpe(td_bpe *bpe, td_tokenizer **out)
{
    td_status status = TD_OK;
    TD_TRY(TD_NEW(out));
    (*out)->kind = TD_TOKENS_BPE;
    (*out)->bpe = bpe;
    return TD_OK;
fail:
    td_bpe_destroy(bpe);
    return status;
}

td_status td_tokenizer_open_bpe(const char *path, td_tokenizer **out)
{
    td_bpe *bpe = NULL;
    const td_status status = td_bpe_open(path, &bpe);
    return status == TD_OK ? wrap_bpe(bpe, out) : status;
}

td_status td_tokenizer_parse_bpe(const char *json, size_t bytes, const char *name, td_tokenizer **out)
{
    td_bpe *bpe = NULL;
    const td_status status = td_bpe_parse(json, bytes, name != NULL ? name : "the voice's tokenizer", &bpe);
    return status == TD_OK ? wrap_bpe(bpe, out) : status;
}

void td_tokenizer_destroy(td_tokenizer *tokenizer)
{
    if (tokenizer == NULL) return;
    td_bpe_destroy(tokenizer->bpe);
    free(tokenizer);
}

td_token_kind td_tokenizer_kind(const td_tokenizer *tokenizer)
{
    return tokenizer->kind;
}

size_t td_tokenizer_vocab_size(const td_tokenizer *tokenizer)
{
    return tokenizer->bpe != NULL ? td_bpe_vocab_size(tokenizer->bpe) : td_symbols_count(tokenizer->symbols);
}

td_status td_tokenizer_spell(td_token_kind kind, td_lang lang, const char *text, size_t bytes, td_buffer *out)
{
    return kind == TD_TOKENS_PHONEMES ? td_phonemes_convert(lang, text, bytes, out)
                                      : td_buffer_append(out, text, bytes);
}

static td_status encode_symbols(const td_symbols *symbols, const char *text, size_t bytes, td_tokens *tokens)
{
    TD_CHECK(td_tokens_push(tokens, TD_SYMBOL_BOS));
    for (size_t at = 0; at < bytes;) {
        uint32_t codepoint = 0;
        at += td_text_utf8_next(text + at, bytes - at, &codepoint);
        int32_t id = td_symbols_find(symbols, codepoint);
        TD_CHECK(id == TD_SYMBOL_UNKNOWN ? td_tokens_push_unknown(tokens, id, codepoint)
                                         : td_tokens_push(tokens, id));
    }
    return td_tokens_push(tokens, TD_SYMBOL_EOS);
}

enum { TAG_BYTES = 16 };

/* "[en]"; that of Chinese is "[zh-cn]". */
static void make_tag(td_lang lang, char out[TAG_BYTES])
{
    snprintf(out, TAG_BYTES, "[%s]", lang == TD_LANG_ZH ? "zh-cn" : td_lang_code(lang));
}

bool td_tokenizer_has_language(const td_tokenizer *tokenizer, td_lang lang)
{
    char tag[TAG_BYTES];
    make_tag(lang, tag);
    return tokenizer->bpe != NULL && td_bpe_find(tokenizer->bpe, tag) >= 0;
}

/* "[en]hello[SPACE]world". */
static td_status tag_text(td_lang lang, const char *text, size_t bytes, td_buffer *out)
{
    char tag[TAG_BYTES];
    make_tag(lang, tag);
    TD_CHECK(td_buffer_append(out, tag, strlen(tag)));
    for (size_t at = 0; at < bytes;) {
        const char *space = memchr(text + at, ' ', bytes - at);
        size_t run = space != NULL ? (size_t)(space - text) - at : bytes - at;
        TD_CHECK(td_buffer_append(out, text + at, run));
        if (space != NULL) TD_CHECK(td_buffer_append(out, "[SPACE]", 7));
        at += run + (space != NULL);
    }
    return TD_OK;
}

td_status td_tokenizer_encode_spelled(const td_tokenizer *tokenizer, td_lang lang, const char *text,
                                      size_t bytes, td_tokens *tokens)
{
    td_status status = TD_OK;
    td_buffer tagged = {0};
    td_tokens_clear(tokens);
    if (tokenizer->kind != TD_TOKENS_BPE) return encode_symbols(tokenizer->symbols, text, bytes, tokens);
    TD_TRY(tag_text(lang, text, bytes, &tagged));
    TD_TRY(td_bpe_encode(tokenizer->bpe, tagged.data, tagged.size, tokens));
fail:
    td_buffer_free(&tagged);
    return status;
}

td_status td_tokenizer_encode(const td_tokenizer *tokenizer, td_lang lang, const char *text, size_t bytes,
                              td_tokens *tokens)
{
    td_status status = TD_OK;
    td_buffer spelled = {0};
    td_tokens_clear(tokens);
    TD_TRY(td_unicode_check(text, bytes, NULL));
    if (tokenizer->kind != TD_TOKENS_PHONEMES)
        return td_tokenizer_encode_spelled(tokenizer, lang, text, bytes, tokens);
    TD_TRY(td_phonemes_convert(lang, text, bytes, &spelled));
    TD_TRY(td_tokenizer_encode_spelled(tokenizer, lang, spelled.data, spelled.size, tokens));
fail:
    td_buffer_free(&spelled);
    return status;
}

bool td_tokenizer_knows(const td_tokenizer *tokenizer, uint32_t codepoint)
{
    char piece[U8_MAX_LENGTH + 1] = "";
    size_t length = 0;
    if (tokenizer->kind != TD_TOKENS_BPE)
        return td_symbols_find(tokenizer->symbols, codepoint) != TD_SYMBOL_UNKNOWN;
    U8_APPEND_UNSAFE((unsigned char *)piece, length, codepoint);
    return td_bpe_find(tokenizer->bpe, codepoint == ' ' ? "[SPACE]" : piece) >= 0;
}
