/* libFuzzer target: any bytes as a safetensors file, and as the header of one whose length fits. What opens
 * must keep the promises of base/safetensors.h: data inside the file, in order, found by name. clang
 * -fsanitize=fuzzer,address,undefined; start it with the files of tests/fuzz/corpus/safetensors.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/safetensors.h"

enum { DATA_BYTES = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void demand(int holds)
{
    if (!holds) abort();
}

static void check_tensors(const td_safetensors *file, const uint8_t *content, size_t bytes)
{
    const uint8_t *next = NULL;
    for (size_t i = 0; i < td_safetensors_count(file); ++i) {
        const td_safetensors_tensor *tensor = td_safetensors_at(file, i);
        const uint8_t *data = tensor->data;
        demand(next == NULL || data == next);
        demand(data >= content + 8 && data <= content + bytes && tensor->bytes <= bytes);
        next = data + tensor->bytes;
        demand(next <= content + bytes);
        demand((uintptr_t)data % td_safetensors_dtype_bytes(tensor->dtype) == 0);
        uint64_t expected = td_safetensors_dtype_bytes(tensor->dtype);
        for (size_t d = 0; d < tensor->rank; ++d)
            expected *= tensor->dims[d];
        demand(tensor->bytes == expected);
        demand(td_safetensors_find(file, tensor->name) == tensor);
    }
    demand(next == NULL || next == content + bytes);
}

static void try_content(const uint8_t *content, size_t bytes)
{
    td_safetensors *file = NULL;
    if (td_safetensors_parse(content, bytes, "fuzz", &file) != TD_OK) {
        demand(file == NULL && strncmp(td_error_last()->message, "'fuzz'", 6) == 0);
        return;
    }
    check_tensors(file, content, bytes);
    for (size_t i = 0; i < td_safetensors_metadata_count(file); ++i) {
        const td_safetensors_pair *pair = td_safetensors_metadata_at(file, i);
        demand(td_safetensors_metadata_find(file, pair->key) == pair->value);
    }
    td_safetensors_close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const size_t header_bytes = (bytes + 7) / 8 * 8;
    uint8_t *content = malloc(8 + header_bytes + DATA_BYTES);
    if (!content) return 0;
    if (bytes > 0) {
        memcpy(content, data, bytes); /* malloc aligns, libFuzzer need not */
        uint8_t *exact = realloc(content, bytes);
        try_content(exact, bytes); /* exact, so that a byte too far is seen */
        content = realloc(exact, 8 + header_bytes + DATA_BYTES);
    }
    memset(content, 0, 8 + header_bytes + DATA_BYTES);
    for (size_t i = 0; i < 8; ++i)
        content[i] = (uint8_t)((uint64_t)header_bytes >> 8 * i);
    memset(content + 8, ' ', header_bytes);
    if (bytes > 0) memcpy(content + 8, data, bytes);
    try_content(content, 8 + header_bytes + DATA_BYTES);
    free(content);
    return 0;
}
