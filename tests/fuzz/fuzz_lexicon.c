/* libFuzzer target: a lexicon up to the first byte 0x01, and a text behind it; what is respelled stays UTF-8. clang
 * -fsanitize=fuzzer,address,undefined; start it with the files of tests/fuzz/corpus/lexicon.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/lexicon.h"
#include "text/unicode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const uint8_t *mark = bytes ? memchr(data, 1, bytes) : NULL;
    const size_t n = mark ? (size_t)(mark - data) : bytes;
    const char *text = (const char *)data + n + (mark != NULL);
    const size_t text_bytes = bytes - n - (mark != NULL);
    td_lexicon *lexicon = NULL;
    if (td_lexicon_parse((const char *)data, n, "fuzz", &lexicon) != TD_OK) return 0;
    for (int takes_phonemes = 0; takes_phonemes < 2; takes_phonemes++) {
        td_buffer out = {0};
        size_t stayed = 0;
        if (td_unicode_check(text, text_bytes, NULL) == TD_OK &&
            td_lexicon_apply(lexicon, takes_phonemes, text, text_bytes, &out, &stayed) == TD_OK &&
            td_unicode_check(out.data, out.size, NULL) != TD_OK)
            abort();
        td_buffer_free(&out);
    }
    td_lexicon_destroy(lexicon);
    return 0;
}
