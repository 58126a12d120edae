/* libFuzzer target: any bytes as a tokenizer.json; what opens must also encode text within bounds.
 * clang -fsanitize=fuzzer,address,undefined; start it with the files of tests/fuzz/corpus/tokenizer_json.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/bpe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char text[] = "[en]low[SPACE]lower é!! 字 aaaa [STOP] x_1";
    td_bpe *bpe = NULL;
    td_tokens tokens = {0};
    if (td_bpe_parse((const char *)data, bytes, "fuzz", &bpe) != TD_OK) return 0;
    if (td_bpe_encode(bpe, text, sizeof text - 1, &tokens) == TD_OK) {
        for (size_t i = 0; i < tokens.count; ++i) {
            if (tokens.ids[i] < 0 || (size_t)tokens.ids[i] >= td_bpe_vocab_size(bpe)) abort();
        }
    }
    td_tokens_free(&tokens);
    td_bpe_destroy(bpe);
    return 0;
}
