/* libFuzzer target: any bytes as the first line of a Wyoming message. What is taken has a type and lengths within
 * the limits. The same bytes as a text that is still coming: no more of them are whole sentences than there are.
 * clang -fsanitize=fuzzer,address,undefined; start it with the files of tests/fuzz/corpus/wyoming.
 */
#include <cJSON.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "serve/wyoming.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    td_wyoming_head head;
    char *line = malloc(bytes + 1);
    if (!line) abort();
    if (bytes > 0) memcpy(line, data, bytes);
    line[bytes] = '\0';
    if (td_wyoming_read_head(line, &head) == TD_OK &&
        (memchr(head.type, 0, sizeof head.type) == NULL || head.data_bytes > TD_WYOMING_DATA ||
         head.payload_bytes > TD_WYOMING_DATA))
        abort();
    cJSON_Delete(head.data);
    if (td_wyoming_count_whole((const char *)data, bytes) > bytes) abort();
    free(line);
    return 0;
}
