/* libFuzzer target: any bytes as a file of tensors, and as the pickle of an archive with one storage. Tensors that are
 * listed must lie in the file, and be no larger; their elements are read. Start it with the files of
 * tests/fuzz/corpus/torch.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "torch/bytes.h"
#include "torch/torch_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void demand(int holds)
{
    if (!holds) abort();
}

static void try_content(const uint8_t *content, size_t bytes)
{
    td_torch_file *file = NULL;
    td_torch_tensor *tensors = NULL;
    size_t n = 0;
    if (td_torch_parse(content, bytes, "fuzz", &file) != TD_OK) {
        demand(file == NULL && strstr(td_error_last()->message, "'fuzz'") != NULL);
        return;
    }
    const td_pickle *p = td_torch_pickle(file);
    if (td_torch_list(file, p != NULL ? td_pickle_root(p) : 0, 3, &tensors, &n) == TD_OK) {
        for (size_t i = 0; i < n; ++i) {
            const size_t size = (size_t)tensors[i].n * td_safetensors_dtype_bytes(tensors[i].dtype);
            demand(size <= bytes && strlen(tensors[i].name) < TD_SAFETENSORS_MAX_NAME_BYTES);
            void *room = malloc(size > 0 ? size : 1);
            if (room) (void)td_torch_read(file, &tensors[i], tensors[i].dtype, room);
            free(room);
        }
    }
    free(tensors);
    td_torch_close(file);
}

/* Local header, name, data. Returns where the next begins. */
static size_t put_entry(uint8_t *to, size_t at, const char *name, const void *data, size_t bytes)
{
    memset(to + at, 0, 30);
    td_put_u32(to + at, 0x04034b50);
    td_put_u16(to + at + 26, (uint16_t)strlen(name));
    memcpy(to + at + 30, name, strlen(name));
    if (bytes > 0) memcpy(to + at + 30 + strlen(name), data, bytes);
    return at + 30 + strlen(name) + bytes;
}

static size_t put_row(uint8_t *to, size_t at, const char *name, size_t header, size_t bytes)
{
    memset(to + at, 0, 46);
    td_put_u32(to + at, 0x02014b50);
    td_put_u32(to + at + 20, (uint32_t)bytes);
    td_put_u32(to + at + 24, (uint32_t)bytes);
    td_put_u16(to + at + 28, (uint16_t)strlen(name));
    td_put_u32(to + at + 42, (uint32_t)header);
    memcpy(to + at + 46, name, strlen(name));
    return at + 46 + strlen(name);
}

static void try_pickle(const uint8_t *data, size_t bytes)
{
    static const uint8_t STORAGE[48] = {1, 2, 3};
    uint8_t *zip = malloc(bytes + 512);
    if (!zip) return;
    const size_t second = put_entry(zip, 0, "x/data.pkl", data, bytes);
    const size_t begin = put_entry(zip, second, "x/data/0", STORAGE, sizeof STORAGE);
    size_t at = put_row(zip, begin, "x/data.pkl", 0, bytes);
    at = put_row(zip, at, "x/data/0", second, sizeof STORAGE);
    memset(zip + at, 0, 22);
    td_put_u32(zip + at, 0x06054b50);
    td_put_u16(zip + at + 8, 2);
    td_put_u16(zip + at + 10, 2);
    td_put_u32(zip + at + 12, (uint32_t)(at - begin));
    td_put_u32(zip + at + 16, (uint32_t)begin);
    uint8_t *exact = realloc(zip, at + 22); /* so that a byte too far is seen */
    if (exact) try_content(exact, at + 22);
    free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    uint8_t *exact = malloc(bytes > 0 ? bytes : 1);
    if (!exact) return 0;
    memcpy(exact, data, bytes);
    try_content(exact, bytes);
    free(exact);
    try_pickle(data, bytes);
    return 0;
}
