/* What a voice is to say: a text, normalised and made tokens as in its training, in pieces short enough for
 * it. Covered by tests/synth/test_script.c.
 */
#ifndef TD_SYNTH_SCRIPT_H
#define TD_SYNTH_SCRIPT_H

#include "families/checkpoint.h"
#include "synth/split.h"
#include "text/lexicon.h"
#include "text/romanize.h"

enum {
    TD_SCRIPT_MAX_BYTES = 1 << 20,    /* of a text */
    TD_SCRIPT_PIECE_CHARACTERS = 160, /* at most, unless the voice says how many */
};

typedef struct td_script_piece {
    char *text; /* owned, normalised, and of characters that the voice knows unless it says phonemes */
    td_tokens tokens;
    td_piece_end end;
    double rate;    /* 2: twice as fast as the rest */
    double pause_s; /* behind it; below 0: as long as its end asks for */
} td_script_piece;

typedef struct td_script {
    td_script_piece *pieces;
    size_t count, capacity;
    double lead_s; /* silence before the first piece */
    td_lang lang;
    const td_lexicon *lexicon; /* borrowed; or NULL */
    td_model_facts model;
    td_symbols *symbols;     /* owned; or NULL */
    td_tokenizer *tokenizer; /* owned */
    td_romanizer *romanizer; /* owned; or NULL */
} td_script;

typedef struct td_script_options {
    const char *language;      /* a code; NULL, "" or "auto": the voice's */
    const td_lexicon *lexicon; /* or NULL; borrowed until the script is freed */
    bool is_strict;
} td_script_options;

/* Of a text, or of SSML if it begins with <speak> (text/ssml.h). What the voice has not learnt is written with what it
 * has (text/adapt.h), or left out with one warning for the call; strict: it is TD_ERR_FORMAT, by name. TD_ERR_CONFIG:
 * nothing to say, or too much; TD_ERR_FORMAT: no UTF-8, or malformed SSML. On failure *out is empty. */
td_status td_script_make(const td_checkpoint_info *voice, const td_script_options *options, const char *text,
                         size_t bytes, td_script *out);

/* Puts two shorter pieces in the place of piece `i`, cut near its middle: at a clause, else between words, else
 * between characters. *is_split: false if it is too short for that. */
td_status td_script_split(td_script *script, size_t i, bool *is_split);
void td_script_free(td_script *script);

#endif
