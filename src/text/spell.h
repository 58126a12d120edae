/* Numbers in words, by ICU's rule-based formats. Opening one costs milliseconds, so it is done once per
 * thread; a speller belongs to one thread at a time. Covered by tests/text/test_normalize.c.
 */
#ifndef TD_TEXT_SPELL_H
#define TD_TEXT_SPELL_H

#include "text/lang.h"
#include "text/unicode.h"

enum { TD_SPELL_MAX_DIGITS = 15 }; /* longer numbers are read digit by digit */

/* The plural class of a number. */
typedef enum td_plural { TD_PLURAL_ONE, TD_PLURAL_FEW, TD_PLURAL_OTHER } td_plural;

typedef struct td_speller td_speller;

/* *out: owned, td_speller_destroy(). TD_ERR_UNSUPPORTED if ICU's data lacks the language. */
td_status td_speller_create(td_lang lang, td_speller **out);
void td_speller_destroy(td_speller *speller);

/* Appends `value` (at most TD_SPELL_MAX_DIGITS digits) in lower-case words. `ruleset`: borrowed forever;
 * NULL = the language's plain numbers. */
td_status td_speller_say(td_speller *speller, const char *ruleset, uint64_t value, td_buffer *out);

/* The word of one digit, 0 to 9. Borrowed until destroy. */
const char *td_speller_digit(const td_speller *speller, int digit);

td_plural td_speller_plural(const td_speller *speller, double value);

#endif
