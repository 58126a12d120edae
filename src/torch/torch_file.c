/* See torch_file.h. Storages are found in storage.c; here they become tensors and are read. */
#include "torch/torch_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/error.h"
#include "torch/convert.h"
#include "torch/torch_internal.h"

enum {
    CRC_PIECE_BYTES = 8 << 20,
    MAX_VISITS =
        4 * TD_SAFETENSORS_MAX_ENTRIES, /* of items, by a list: dicts may hold each other many times */
};

/* ---------------------------------------------------------------- opening */

static bool is_safetensors(const unsigned char *content, size_t bytes)
{
    static const unsigned char HIGH[4] = {0};
    return bytes > 8 && content[8] == '{' && memcmp(content + 4, HIGH, 4) == 0;
}

td_status td_torch_parse(const void *content, size_t bytes, const char *name, td_torch_file **out)
{
    td_status status = TD_OK;
    td_torch_file *file = NULL;
    *out = NULL;
    TD_TRY(TD_NEW(&file));
    TD_TRY(td_arena_create(0, &file->arena));
    TD_TRY(TD_NEW_ARRAY(&file->name, strlen(name) + 1));
    memcpy(file->name, name, strlen(name) + 1);
    if (td_zip_is_one(content, bytes))
        TD_TRY(td_torch_open_zip(file, content, bytes));
    else if (bytes > 1 && *(const unsigned char *)content == 0x80 && !is_safetensors(content, bytes))
        TD_TRY(td_torch_open_legacy(file, content, bytes));
    else if (is_safetensors(content, bytes))
        TD_TRY(td_safetensors_parse(content, bytes, name, &file->safetensors));
    else
        TD_FAIL_IF(true, TD_ERR_FORMAT, "it is neither of torch.save() nor a safetensors file");
    *out = file;
    return TD_OK;
fail:
    td_torch_close(file);
    if (status != TD_ERR_HOST_MEMORY) (void)td_error_context("'%.200s' cannot be read", name);
    return status;
}

td_status td_torch_open(const char *path, td_torch_file **out)
{
    td_status status = TD_OK;
    td_file_mapping mapping = {0};
    *out = NULL;
    TD_TRY(td_file_map(path, &mapping));
    TD_TRY(td_torch_parse(mapping.data, mapping.bytes, path, out));
    (*out)->mapping = mapping;
    return TD_OK;
fail:
    td_file_unmap(&mapping);
    return status;
}

void td_torch_close(td_torch_file *file)
{
    if (file == NULL) return;
    td_pickle_close(file->pickle);
    td_safetensors_close(file->safetensors);
    td_file_unmap(&file->mapping);
    td_arena_destroy(file->arena);
    free(file->storages);
    free(file->name);
    free(file);
}

const td_pickle *td_torch_pickle(const td_torch_file *file)
{
    return file->pickle;
}

const char *td_torch_name(const td_torch_file *file)
{
    return file->name;
}

/* ---------------------------------------------------------------- tensors of a pickle */

/* A tuple of whole numbers that are not negative. */
static td_status read_numbers(const td_pickle *p, td_pickle_id tuple, const char *what,
                              uint64_t out[TD_SAFETENSORS_MAX_RANK], size_t *n)
{
    const td_pickle_value *value = td_pickle_get(p, tuple);
    TD_REFUSE_IF(value->kind != TD_PICKLE_TUPLE || value->n > TD_SAFETENSORS_MAX_RANK, TD_ERR_FORMAT,
                 "its %s is no list of at most %d numbers", what, TD_SAFETENSORS_MAX_RANK);
    for (size_t i = 0; i < value->n; i++) {
        const td_pickle_value *number = td_pickle_get(p, value->as.items[i]);
        TD_REFUSE_IF(number->kind != TD_PICKLE_INT || number->as.integer < 0, TD_ERR_FORMAT,
                     "its %s has something that is no number, or negative", what);
        out[i] = (uint64_t)number->as.integer;
    }
    *n = value->n;
    return TD_OK;
}

/* That every element lies in the storage, and that there are not more of them than there. */
static td_status check_view(const td_torch_storage *s, uint64_t offset, td_torch_tensor *t)
{
    const uint64_t size = td_safetensors_dtype_bytes(t->dtype), room = s->bytes / size;
    uint64_t last = offset;
    t->n = 1;
    for (size_t d = 0; d < t->rank; d++) {
        TD_REFUSE_IF(__builtin_mul_overflow(t->n, t->dims[d], &t->n), TD_ERR_FORMAT,
                     "its shape has too many elements");
    }
    TD_REFUSE_IF(t->n > room, TD_ERR_FORMAT, "it has %" PRIu64 " elements, and its storage %" PRIu64, t->n,
                 room);
    for (size_t d = 0; d < t->rank && t->n > 0; d++) {
        uint64_t reach;
        TD_REFUSE_IF(__builtin_mul_overflow(t->dims[d] - 1, t->strides[d], &reach) ||
                         __builtin_add_overflow(last, reach, &last),
                     TD_ERR_FORMAT, "its strides are too large");
    }
    TD_REFUSE_IF(t->n > 0 && last >= room, TD_ERR_FORMAT,
                 "it reaches to element %" PRIu64 " of a storage of %" PRIu64, last, room);
    t->data = s->data + (t->n > 0 ? offset * size : 0);
    return TD_OK;
}

/* (storage, offset, size, stride, ...) */
static td_status read_view(const td_torch_file *file, td_pickle_id arguments, td_torch_tensor *out)
{
    const td_pickle *p = file->pickle;
    const td_pickle_value *storage = td_pickle_get(p, td_pickle_item(p, arguments, 0));
    const td_pickle_value *offset = td_pickle_get(p, td_pickle_item(p, arguments, 1));
    size_t n_strides;
    *out = (td_torch_tensor){0};
    TD_REFUSE_IF(storage->kind != TD_PICKLE_PERSISTENT, TD_ERR_FORMAT, "it has no storage");
    const td_pickle_value *key = td_pickle_get(p, td_pickle_item(p, storage->as.of.a, 2));
    out->storage = td_torch_find_storage(file, key->as.bytes, key->n);
    out->dtype = file->storages[out->storage].dtype;
    TD_REFUSE_IF(offset->kind != TD_PICKLE_INT || offset->as.integer < 0, TD_ERR_FORMAT,
                 "its offset is no number, or negative");
    TD_CHECK(read_numbers(p, td_pickle_item(p, arguments, 2), "shape", out->dims, &out->rank));
    TD_CHECK(read_numbers(p, td_pickle_item(p, arguments, 3), "stride", out->strides, &n_strides));
    TD_REFUSE_IF(n_strides != out->rank, TD_ERR_FORMAT, "it has %zu dimensions and %zu strides", out->rank,
                 n_strides);
    return check_view(&file->storages[out->storage], (uint64_t)offset->as.integer, out);
}

td_status td_torch_resolve(const td_torch_file *file, td_pickle_id id, td_torch_tensor *out, bool *is_tensor)
{
    const td_pickle *p = file->pickle;
    *is_tensor = false;
    /* Parameters and subclasses wrap tensors; a wrap inside a wrap inside a wrap does not occur. */
    for (int i = 0; i < 4; i++) {
        const td_pickle_value *value = td_pickle_get(p, id);
        if (value->kind != TD_PICKLE_OBJECT) return TD_OK;
        td_pickle_id called = value->as.of.a, arguments = value->as.of.b;
        if (td_pickle_is_global(p, called, "torch._tensor", "_rebuild_from_type_v2")) {
            called = td_pickle_item(p, arguments, 0);
            arguments = td_pickle_item(p, arguments, 2);
        }
        if (td_pickle_is_global(p, called, "torch._utils", "_rebuild_tensor_v2")) {
            *is_tensor = true;
            return read_view(file, arguments, out);
        }
        if (td_pickle_is_global(p, called, "torch._utils", "_rebuild_tensor_v3"))
            return TD_FAIL(TD_ERR_UNSUPPORTED, "its type is one of the newer ones; save it as float32");
        if (!td_pickle_is_global(p, called, "torch._utils", "_rebuild_parameter")) return TD_OK;
        id = td_pickle_item(p, arguments, 0);
    }
    return TD_OK;
}

/* ---------------------------------------------------------------- lists */

typedef struct listing {
    td_torch_file *file;
    td_torch_tensor *tensors;
    size_t n, capacity, n_visits;
} listing;

static td_status add_tensor(listing *l, const char *name, const td_torch_tensor *tensor)
{
    TD_REFUSE_IF(l->n >= TD_SAFETENSORS_MAX_ENTRIES, TD_ERR_LIMIT, "it has more than %d tensors",
                 TD_SAFETENSORS_MAX_ENTRIES);
    TD_CHECK(td_alloc_grow(&l->tensors, &l->capacity, l->n + 1, sizeof *l->tensors));
    l->tensors[l->n] = *tensor;
    l->tensors[l->n++].name = name;
    return TD_OK;
}

/* Names go into other files and onto terminals: texts of a sane length, without zeros. */
static td_status join_name(listing *l, const char *prefix, const td_pickle_value *key, char **out)
{
    const size_t bytes = strlen(prefix) + (prefix[0] != '\0') + key->n;
    TD_REFUSE_IF(
        key->n == 0 || bytes >= TD_SAFETENSORS_MAX_NAME_BYTES || memchr(key->as.bytes, '\0', key->n) != NULL,
        TD_ERR_FORMAT, "a tensor of '%s' has a name of %u bytes, or with zeros in it", prefix, key->n);
    return td_arena_printf(l->file->arena, out, "%s%s%.*s", prefix, prefix[0] != '\0' ? "." : "", (int)key->n,
                           (const char *)key->as.bytes);
}

/* Recursion is bounded by `depth`, and a list by its limit, however values contain each other. */
static td_status list_value(listing *l, const char *name, td_pickle_id id, size_t depth)
{
    td_status status = TD_OK;
    td_torch_tensor tensor;
    bool is_tensor;
    status = td_torch_resolve(l->file, id, &tensor, &is_tensor);
    if (status != TD_OK) return td_error_context("tensor %s", name);
    if (is_tensor) return add_tensor(l, name, &tensor);
    const td_pickle_value *value = td_pickle_get(l->file->pickle, id);
    if (depth == 0 || value->kind != TD_PICKLE_DICT) return TD_OK;
    for (size_t i = 0; i + 1 < value->n; i += 2) {
        const td_pickle_value *key = td_pickle_get(l->file->pickle, value->as.items[i]);
        const td_pickle_kind kind = td_pickle_get(l->file->pickle, value->as.items[i + 1])->kind;
        char *inner;
        TD_FAIL_IF(++l->n_visits > MAX_VISITS, TD_ERR_LIMIT, "its dicts have more than %d items", MAX_VISITS);
        if (key->kind != TD_PICKLE_TEXT || (kind != TD_PICKLE_OBJECT && kind != TD_PICKLE_DICT)) continue;
        TD_TRY(join_name(l, name, key, &inner));
        TD_TRY(list_value(l, inner, value->as.items[i + 1], depth - 1));
    }
fail:
    return status;
}

/* Whose data are where the file has them. */
static td_status list_safetensors(listing *l)
{
    for (size_t i = 0; i < td_safetensors_count(l->file->safetensors); i++) {
        const td_safetensors_tensor *from = td_safetensors_at(l->file->safetensors, i);
        td_torch_tensor t = {.dtype = from->dtype,
                             .rank = from->rank,
                             .n = from->bytes / td_safetensors_dtype_bytes(from->dtype),
                             .data = from->data};
        uint64_t stride = 1;
        for (size_t d = t.rank; d-- > 0;) {
            t.dims[d] = from->dims[d];
            t.strides[d] = stride;
            stride *= from->dims[d];
        }
        TD_CHECK(add_tensor(l, from->name, &t));
    }
    return TD_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const td_torch_tensor *)a)->name, ((const td_torch_tensor *)b)->name);
}

td_status td_torch_list(td_torch_file *file, td_pickle_id root, size_t depth, td_torch_tensor **out,
                        size_t *n)
{
    td_status status = TD_OK;
    listing l = {.file = file};
    *out = NULL;
    *n = 0;
    TD_TRY(td_alloc_grow(&l.tensors, &l.capacity, 1, sizeof *l.tensors));
    TD_TRY(file->safetensors != NULL ? list_safetensors(&l) : list_value(&l, "", root, depth));
    qsort(l.tensors, l.n, sizeof *l.tensors, compare_names);
    for (size_t i = 1; i < l.n; i++)
        TD_FAIL_IF(compare_names(&l.tensors[i - 1], &l.tensors[i]) == 0, TD_ERR_FORMAT,
                   "tensor %s is there twice", l.tensors[i].name);
    *out = l.tensors;
    *n = l.n;
    return TD_OK;
fail:
    free(l.tensors);
    return td_error_context("'%.200s' cannot be read", file->name);
}

/* ---------------------------------------------------------------- reading */

/* Once for each storage. What was looked at need not stay in memory. */
static td_status check_storage(td_torch_file *file, td_torch_storage *s)
{
    uLong crc = crc32(0, NULL, 0);
    if (s->is_checked || s->crc == 0) return TD_OK;
    for (uint64_t at = 0; at < s->bytes;) {
        const uint64_t left = s->bytes - at, piece = left < CRC_PIECE_BYTES ? left : CRC_PIECE_BYTES;
        crc = crc32(crc, s->data + at, (uInt)piece);
        td_file_forget(&file->mapping, s->data + at, (size_t)piece);
        at += piece;
    }
    if ((uint32_t)crc != s->crc)
        return TD_FAIL(
            TD_ERR_INTEGRITY,
            "'%.200s' is damaged: storage %.*s is not what was written (CRC %08x, not %08x); fetch it "
            "again",
            file->name, (int)s->key_bytes, (const char *)s->key, (unsigned)crc, (unsigned)s->crc);
    s->is_checked = true;
    return TD_OK;
}

/* Elements from the first to the last that a tensor touches. */
static uint64_t find_reach(const td_torch_tensor *t)
{
    uint64_t reach = t->n > 0 ? 1 : 0;
    for (size_t d = 0; d < t->rank && t->n > 0; d++)
        reach += (t->dims[d] - 1) * t->strides[d];
    return reach;
}

td_status td_torch_read(td_torch_file *file, const td_torch_tensor *t, td_safetensors_dtype dtype, void *out)
{
    uint64_t index[TD_SAFETENSORS_MAX_RANK] = {0};
    const size_t size = td_safetensors_dtype_bytes(t->dtype), out_size = td_safetensors_dtype_bytes(dtype);
    TD_REFUSE_IF(!td_convert_can(t->dtype, dtype), TD_ERR_UNSUPPORTED, "tensor %s of '%.200s' is %s, not %s",
                 t->name, file->name, td_safetensors_dtype_name(t->dtype), td_safetensors_dtype_name(dtype));
    if (file->safetensors == NULL) TD_CHECK(check_storage(file, &file->storages[t->storage]));
    /* Rows of the last dimensions that lie one behind the other are one piece. */
    size_t outer = t->rank;
    uint64_t row = 1;
    while (outer > 0 && t->strides[outer - 1] == row)
        row *= t->dims[--outer];
    for (uint64_t done = 0; done < t->n; done += row) {
        uint64_t at = 0;
        for (size_t d = 0; d < outer; d++)
            at += index[d] * t->strides[d];
        td_convert(t->data + at * size, t->dtype, dtype, row, (unsigned char *)out + done * out_size);
        for (size_t d = outer; d-- > 0 && ++index[d] == t->dims[d];)
            index[d] = 0;
    }
    td_file_forget(&file->mapping, t->data, (size_t)(find_reach(t) * size));
    return TD_OK;
}
