/* libFuzzer target: any bytes as a text to be spoken, in each language; the first byte chooses it. The result
 * must be a text that can be normalised again, and fall into pieces that lie in it one after the other. clang
 * -fsanitize=fuzzer,address,undefined; start it with the files of tests/fuzz/corpus/text.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "synth/split.h"
#include "text/normalize.h"

enum { PIECE_CHARACTERS = 40 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static td_normalizer *normalizers[TD_LANG_COUNT];
    const char *spoken;
    td_piece piece;
    if (bytes == 0) return 0;
    const td_lang lang = data[0] % TD_LANG_COUNT;
    if (normalizers[lang] == NULL && td_normalizer_create(lang, &normalizers[lang]) != TD_OK) abort();
    if (td_normalizer_run(normalizers[lang], (const char *)data + 1, bytes - 1, &spoken) != TD_OK) return 0;
    char *first = strdup(spoken);
    if (first == NULL) return 0;
    if (td_normalizer_run(normalizers[lang], first, strlen(first), &spoken) != TD_OK) abort();
    size_t end = 0;
    for (size_t at = 0; td_split_next(first, lang, PIECE_CHARACTERS, &at, &piece);) {
        if (piece.bytes == 0 || piece.first < end || piece.first + piece.bytes > strlen(first)) abort();
        end = piece.first + piece.bytes;
    }
    free(first);
    return 0;
}
