/* libFuzzer target: any bytes as a table; every byte of each row that is kept must be readable, ids must be
 * different and stay in their folder. The first byte chooses the settings.
 * clang -fsanitize=fuzzer,address,undefined; start it with the files of tests/fuzz/corpus/metadata.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "data/metadata.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check(const td_metadata *table)
{
    for (size_t i = 0; i < table->n_rows; ++i) {
        const td_metadata_row *row = &table->rows[i];
        if (*row->id == '\0' || strlen(row->text) != row->text_bytes || row->text_bytes == 0) abort();
        if (*row->id == '/' || strncmp(row->id, "../", 3) == 0 || strstr(row->id, "/../") != NULL) abort();
        if (row->speaker >= table->n_speakers || row->line == 0) abort();
        if (i > 0 && (row->line <= row[-1].line || strcmp(row->id, row[-1].id) == 0)) abort();
    }
    for (size_t i = 0; i < table->problems.count; ++i) {
        if (strlen(table->problems.items[i].message) == 0) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const td_metadata_settings SETTINGS[] = {
        {0},
        {.columns = "id|speaker|text|normalised|language"},
        {.speaker_pattern = "^([^_]*)_"},
        {.columns = "text|-|id"},
        {.columns = "id|speaker|text", .separator = '\t', .has_no_header = true, .speakers = "x\ny"},
        {.columns = "speaker|id|text|-", .separator = ','},
    };
    td_metadata *table = NULL;
    if (bytes == 0) return 0;
    char *copy = malloc(bytes);
    if (copy == NULL) return 0;
    memcpy(copy, data + 1, bytes - 1);
    copy[bytes - 1] = '\0';
    if (td_metadata_parse(copy, bytes - 1, "fuzz", &SETTINGS[data[0] % 6], &table) == TD_OK) check(table);
    td_metadata_destroy(table);
    return 0;
}
