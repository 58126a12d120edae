/* libFuzzer target: any bytes as the header of a checkpoint, followed by zeros. What opens must have a
 * configuration that can be built, and texts that can be read; whether its tensors are whole is asked too.
 * clang -fsanitize=fuzzer,address,undefined; start it with the files of tests/fuzz/corpus/checkpoint.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "families/checkpoint.h"
#include "fuzz/scratch.h"
#include "text/symbols.h"

enum { DATA_BYTES = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void look_at(const td_checkpoint *checkpoint)
{
    const td_checkpoint_info *info = td_checkpoint_get_info(checkpoint);
    td_symbols *symbols = NULL;
    if (td_mel_config_check(&info->mel) != TD_OK || td_model_config_check(&info->model) != TD_OK) abort();
    if (td_symbols_parse(info->symbols, &symbols) == TD_OK) td_symbols_destroy(symbols);
    (void)strlen(info->language);
    (void)strlen(info->speakers);
    (void)strlen(info->tokenizer);
    (void)td_checkpoint_verify(checkpoint);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const size_t header_bytes = (bytes + 7) / 8 * 8;
    td_checkpoint *checkpoint = NULL;
    uint8_t *content = calloc(1, 8 + header_bytes + DATA_BYTES);
    if (content == NULL) return 0;
    for (size_t i = 0; i < 8; ++i)
        content[i] = (uint8_t)((uint64_t)header_bytes >> 8 * i);
    memset(content + 8, ' ', header_bytes);
    if (bytes > 0) memcpy(content + 8, data, bytes);
    const char *path = scratch_file("checkpoint.safetensors", content, 8 + header_bytes + DATA_BYTES);
    if (td_checkpoint_open(path, &checkpoint) == TD_OK) look_at(checkpoint);
    td_checkpoint_close(checkpoint);
    free(content);
    return 0;
}
