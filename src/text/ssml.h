/* A small SSML: a text inside <speak> may have <break time|strength>, <prosody rate>, <p>, <s>, comments, CDATA and
 * entities. Other elements and attributes are passed over, their texts are kept. DTDs, elements inside more than ten
 * others and what is not well-formed are refused, by line and column. Covered by tests/text/test_ssml.c and
 * tests/fuzz/fuzz_ssml.c.
 */
#ifndef TD_TEXT_SSML_H
#define TD_TEXT_SSML_H

#include <stdbool.h>
#include <stddef.h>

#include "tandem/status.h"

#define TD_SSML_LEAST_RATE 0.25
#define TD_SSML_MOST_RATE 4.0
#define TD_SSML_MOST_PAUSE_S 60.0

typedef enum td_ssml_end { TD_SSML_WITHIN, TD_SSML_SENTENCE, TD_SSML_PARAGRAPH } td_ssml_end;

typedef struct td_ssml_part {
    char *text;     /* owned; "" where there is but a pause */
    double rate;    /* 2: twice as fast */
    double pause_s; /* asked for behind it; below 0: none was */
    td_ssml_end end;
} td_ssml_part;

typedef struct td_ssml {
    td_ssml_part *parts; /* owned */
    size_t count, capacity;
    char ignored[160]; /* what was passed over, each once: "<emphasis>, <prosody pitch>"; "": nothing */
} td_ssml;

/* Whether a text begins with <speak>, perhaps behind an XML declaration. Any other is plain text. */
bool td_ssml_is(const char *text, size_t bytes);

/* Reads a text without zero bytes. *out: owned, td_ssml_free(); empty after a failure. TD_ERR_FORMAT: malformed. */
td_status td_ssml_read(const char *text, size_t bytes, td_ssml *out);
void td_ssml_free(td_ssml *ssml);

#endif
