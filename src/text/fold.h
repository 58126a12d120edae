/* First stage of normalisation: from any UTF-8 to a small, tidy alphabet. Lower case and NFC; one kind of
 * quotes, dashes, spaces and digits; full-width and CJK punctuation as ASCII; signs that the language has no
 * word for, controls, emoji and marks without a letter dropped; no space before a mark, none twice.
 * Does not change what is said. Covered by tests/text/test_normalize.c.
 */
#ifndef TD_TEXT_FOLD_H
#define TD_TEXT_FOLD_H

#include "text/lang.h"
#include "text/unicode.h"

typedef struct td_folder td_folder;

/* *out: owned, td_folder_destroy(). One thread at a time. */
td_status td_folder_create(td_lang lang, td_folder **out);
void td_folder_destroy(td_folder *folder);

/* *out: zero-terminated, borrowed until the next run or destroy. */
td_status td_folder_run(td_folder *folder, const char *text, size_t bytes, const td_buffer **out);

/* Whether a sign is dropped since the language has no word for it. Marks that are dropped, such as brackets, say nothing
 * anyway and are not meant. */
bool td_folder_drops(const td_folder *folder, uint32_t codepoint);

#endif
