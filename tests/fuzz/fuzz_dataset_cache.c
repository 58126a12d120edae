/* libFuzzer target: any bytes as a cache file, as they are and with a right size and checksum, so that what
 * lies behind those is reached. Everything a block that opens points to must be readable.
 * clang -fsanitize=fuzzer,address,undefined; start it with the files of tests/fuzz/corpus/dataset_cache.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "data/block.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static volatile uint64_t total;

static void read_text(const td_block_view *view, td_block_text text)
{
    if (strlen(td_block_string(view, text)) != text.bytes) abort();
}

static void read_all(const td_block_view *view)
{
    uint64_t sum = 0;
    read_text(view, view->header->symbols);
    for (size_t i = 0; i < view->n_speakers; ++i)
        read_text(view, view->speakers[i]);
    for (size_t i = 0; i < view->n_problems; ++i)
        read_text(view, view->problems[i].message);
    for (size_t i = 0; i < view->n_rows; ++i) {
        const td_block_row *row = &view->rows[i];
        char reason[160];
        read_text(view, row->id);
        read_text(view, row->text);
        read_text(view, view->speakers[row->speaker]);
        for (size_t t = 0; t < row->n_tokens; ++t)
            sum += (uint64_t)view->tokens[row->first_token + t];
        sum += (uint64_t)td_clip_seconds(&row->clip);
        td_clip_describe(&row->clip, reason, sizeof reason);
    }
    total = sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    td_block_view view;
    void *copy = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (copy == NULL) return 0;
    memcpy(copy, data, bytes);
    if (td_block_open(copy, bytes, &view) == NULL) read_all(&view);
    if (bytes >= sizeof(td_block_header)) {
        td_block_seal(copy, bytes);
        if (td_block_open(copy, bytes, &view) == NULL) read_all(&view);
    }
    free(copy);
    return 0;
}
