/* libFuzzer target: any bytes as a zip archive. What opens must keep the promises of torch/zip.h: entries inside the
 * file, apart from each other, found by their names. Start it with the files of tests/fuzz/corpus/zip.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "torch/zip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void demand(int holds)
{
    if (!holds) abort();
}

static void check_entry(const td_zip *zip, const td_zip_entry *entry, const uint8_t *content, size_t bytes)
{
    char name[TD_ZIP_MAX_NAME_BYTES + 1];
    demand(entry->data >= content && entry->data <= content + bytes);
    demand(entry->bytes <= (size_t)(content + bytes - entry->data));
    for (size_t i = 0; i < td_zip_count(zip); ++i) {
        const td_zip_entry *other = td_zip_at(zip, i);
        demand(other == entry || other->data + other->bytes <= entry->data ||
               entry->data + entry->bytes <= other->data);
    }
    memcpy(name, entry->name, entry->name_bytes);
    name[entry->name_bytes] = '\0';
    if (strlen(name) == entry->name_bytes) demand(td_zip_find(zip, name) == entry);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    td_zip *zip = NULL;
    uint8_t *exact = malloc(bytes > 0 ? bytes : 1); /* so that a byte too far is seen */
    if (!exact) return 0;
    memcpy(exact, data, bytes);
    if (td_zip_parse(exact, bytes, &zip) == TD_OK) {
        for (size_t i = 0; i < td_zip_count(zip); ++i)
            check_entry(zip, td_zip_at(zip, i), exact, bytes);
    } else {
        demand(zip == NULL);
    }
    td_zip_close(zip);
    free(exact);
    return 0;
}
