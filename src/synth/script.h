/* What a voice is to say: a text, normalised and made tokens as in its training, in pieces short enough for
 * it. Covered by tests/synth/test_script.c.
 */
#ifndef TD_SYNTH_SCRIPT_H
#define TD_SYNTH_SCRIPT_H

#include "families/checkpoint.h"
#include "synth/split.h"

enum {
    TD_SCRIPT_MAX_BYTES = 1 << 20,    /* of a text */
    TD_SCRIPT_PIECE_CHARACTERS = 160, /* at most, if the voice permits: about ten seconds */
};

typedef struct td_script_piece {
    char *text; /* owned, normalised, and of characters that the voice knows unless it says phonemes */
    td_tokens tokens;
    td_piece_end end;
} td_script_piece;

typedef struct td_script {
    td_script_piece *pieces;
    size_t count, capacity;
    td_lang lang;
    td_model_facts model;
    td_symbols *symbols;     /* owned; or NULL */
    td_tokenizer *tokenizer; /* owned */
} td_script;

/* `language`: a code; NULL, "" or "auto": the voice's. What the voice has not learnt is written with what it has
 * (text/adapt.h), or left out with one warning for the call; `is_strict`: it is TD_ERR_FORMAT, by name.
 * TD_ERR_CONFIG: nothing to say, or too much; TD_ERR_FORMAT: no UTF-8. On failure *out is empty. */
td_status td_script_make(const td_checkpoint_info *voice, const char *language, bool is_strict,
                         const char *text, size_t bytes, td_script *out);

/* Puts two shorter pieces in the place of piece `i`, cut near its middle: at a clause, else between words, else
 * between characters. *is_split: false if it is too short for that. */
td_status td_script_split(td_script *script, size_t i, bool *is_split);
void td_script_free(td_script *script);

#endif
