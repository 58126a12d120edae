/* libFuzzer target: the first line is a Content-Type, the rest a body of multipart/form-data. Parts that are taken lie
 * inside of the body, one behind the other, and have names of their own.
 * clang -fsanitize=fuzzer,address,undefined; start it with the files of tests/fuzz/corpus/multipart.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "serve/multipart.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check(const td_parts *parts, const char *body, size_t bytes)
{
    const char *end = body;
    for (size_t i = 0; i < parts->count; i++) {
        const td_part *p = &parts->at[i];
        if (p->data < end || p->data + p->bytes > body + bytes || td_multipart_find(parts, p->name) != p)
            abort();
        if (!memchr(p->name, 0, sizeof p->name) || !*p->name) abort();
        end = p->data + p->bytes;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const uint8_t *line = bytes ? memchr(data, '\n', bytes) : NULL;
    const size_t head = line ? (size_t)(line - data) : bytes, first = line ? head + 1 : bytes;
    char *type = malloc(head + 1), *body = malloc(bytes - first + 1);
    td_parts parts;
    if (!type || !body) abort();
    if (head) memcpy(type, data, head);
    type[head] = '\0';
    if (bytes > first) memcpy(body, data + first, bytes - first);
    if (td_multipart_parse(type, body, bytes - first, &parts) == TD_OK) check(&parts, body, bytes - first);
    free(type);
    free(body);
    return 0;
}
