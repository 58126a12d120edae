/* A user's own pronunciations: a file of lines WORD<TAB>RESPELLING or WORD<TAB>/PHONEMES/; empty lines and those
 * that begin with # are passed over. A word is found whatever its case, where no letter or digit goes on before or
 * behind it; of several that fit, the longest. Immutable, so any number of threads may use it at once. Covered by
 * tests/text/test_lexicon.c and tests/fuzz/fuzz_lexicon.c.
 */
#ifndef TD_TEXT_LEXICON_H
#define TD_TEXT_LEXICON_H

#include <stdbool.h>

#include "text/buffer.h"

typedef struct td_lexicon td_lexicon;

/* *out: owned, td_lexicon_destroy(). TD_ERR_FORMAT says FILE:LINE and what is wrong there. */
td_status td_lexicon_open(const char *path, td_lexicon **out);
td_status td_lexicon_parse(const char *data, size_t bytes, const char *name, td_lexicon **out);
void td_lexicon_destroy(td_lexicon *lexicon);

/* Appends a text, valid UTF-8, with its words respelled. A word with phonemes becomes one letter that stands for them
 * (td_lexicon_phonemes) and passes every normaliser unchanged; unless phonemes are not taken: then it stays, and is
 * counted in *n_stayed. */
td_status td_lexicon_apply(const td_lexicon *lexicon, bool takes_phonemes, const char *text, size_t bytes,
                           td_buffer *out, size_t *n_stayed);

/* What a letter stands for, borrowed until destroy; NULL for one that stands for itself. */
const char *td_lexicon_phonemes(const td_lexicon *lexicon, uint32_t codepoint);

#endif
