/* libFuzzer target: any bytes as SSML; what is read has texts, rates and pauses within their bounds. clang
 * -fsanitize=fuzzer,address,undefined; start it with the files of tests/fuzz/corpus/ssml.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/ssml.h"
#include "text/unicode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    td_ssml ssml;
    size_t said = 0;
    char *text = malloc(bytes ? bytes : 1); /* no longer, so that a look behind its end is seen */
    if (text == NULL) return 0;
    if (bytes) memcpy(text, data, bytes);
    if (td_ssml_is(text, bytes) && td_ssml_read(text, bytes, &ssml) == TD_OK) {
        for (size_t i = 0; i < ssml.count; i++) {
            const td_ssml_part *p = &ssml.parts[i];
            said += strlen(p->text);
            if (!(p->rate >= TD_SSML_LEAST_RATE && p->rate <= TD_SSML_MOST_RATE)) abort();
            if (!(p->pause_s >= -1)) abort();
            if (td_unicode_check(p->text, strlen(p->text), NULL) != TD_OK) abort();
        }
        if (said > bytes) abort(); /* entities are longer than what they stand for */
        td_ssml_free(&ssml);
    }
    free(text);
    return 0;
}
