/* Normalised text (normalize.h) as XTTS-v2 learnt to read it: Chinese, Japanese and Korean in Latin letters (pinyin with
 * tone numbers and without spaces, romaji, Hangul letter by letter), Hindi and Arabic with marks of their own, nothing
 * with quotes. Kanji have readings that only a dictionary knows, so Japanese with them is refused. One thread at a time.
 * Covered by tests/text/test_romanize.c and test_readings.c; tests/peers/romanize.py compares with the packages that
 * Coqui uses.
 */
#ifndef TD_TEXT_ROMANIZE_H
#define TD_TEXT_ROMANIZE_H

#include "text/buffer.h"
#include "text/lang.h"

typedef struct td_romanizer td_romanizer;

/* *out: owned, td_romanizer_destroy(). TD_ERR_UNSUPPORTED: ICU's data lacks the script. */
td_status td_romanizer_create(td_lang lang, td_romanizer **out);
void td_romanizer_destroy(td_romanizer *romanizer);

/* Appends what is read of valid UTF-8. What is of no script of the language is left as it is. TD_ERR_FORMAT names a
 * character without a reading and says what to write instead. */
td_status td_romanizer_run(td_romanizer *romanizer, const char *text, size_t bytes, td_buffer *out);

/* Words whose reading is not that of their characters one by one. Tables end with a row of NULL. */
typedef struct td_reading {
    const char *word, *said;
} td_reading;
extern const td_reading td_pinyin_words[];
extern const td_reading td_romaji_words[];

#endif
