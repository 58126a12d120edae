/* The storages of a torch file: which there are, as the pickle tells, and where their bytes lie. See
 * torch_file.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "torch/bytes.h"
#include "torch/torch_internal.h"

enum { MAX_KEY_BYTES = 24, PREFIX_BYTES = 256 };

/* Classes of storages, which tell the type of elements. */
static const struct {
    const char *name;
    td_safetensors_dtype dtype;
} CLASSES[] = {
    {"FloatStorage", TD_SAFETENSORS_F32},     {"HalfStorage", TD_SAFETENSORS_F16},
    {"BFloat16Storage", TD_SAFETENSORS_BF16}, {"DoubleStorage", TD_SAFETENSORS_F64},
    {"LongStorage", TD_SAFETENSORS_I64},      {"IntStorage", TD_SAFETENSORS_I32},
    {"ShortStorage", TD_SAFETENSORS_I16},     {"CharStorage", TD_SAFETENSORS_I8},
    {"ByteStorage", TD_SAFETENSORS_U8},       {"BoolStorage", TD_SAFETENSORS_BOOL},
};

/* ---------------------------------------------------------------- what the pickle tells */

static td_status read_class(const td_pickle *p, td_pickle_id id, td_safetensors_dtype *out)
{
    char name[TD_PICKLE_NAME_BYTES];
    for (size_t i = 0; i < sizeof CLASSES / sizeof *CLASSES; i++) {
        *out = CLASSES[i].dtype;
        if (td_pickle_is_global(p, id, "torch", CLASSES[i].name)) return TD_OK;
    }
    td_pickle_format_global(p, id, name);
    return TD_FAIL(TD_ERR_UNSUPPORTED,
                   "a storage is of %s, which is not supported; save its tensors as float32", name);
}

/* ("storage", class, key, location, count[, view]) */
static td_status read_storage(const td_pickle *p, td_pickle_id tuple, td_torch_storage *out)
{
    const td_pickle_value *key = td_pickle_get(p, td_pickle_item(p, tuple, 2));
    const td_pickle_value *count = td_pickle_get(p, td_pickle_item(p, tuple, 4));
    const td_pickle_value *view = td_pickle_get(p, td_pickle_item(p, tuple, 5));
    *out = (td_torch_storage){0};
    TD_REFUSE_IF(!td_pickle_is_text(p, td_pickle_item(p, tuple, 0), "storage") ||
                     key->kind != TD_PICKLE_TEXT || count->kind != TD_PICKLE_INT,
                 TD_ERR_FORMAT, "its pickle speaks of something outside that is no storage");
    TD_REFUSE_IF(view->kind != TD_PICKLE_NONE, TD_ERR_UNSUPPORTED,
                 "a storage is a view of another one; save the file with a newer PyTorch");
    TD_REFUSE_IF(key->n == 0 || key->n > MAX_KEY_BYTES, TD_ERR_FORMAT, "the key of a storage has %u bytes",
                 key->n);
    for (size_t i = 0; i < key->n; i++)
        TD_REFUSE_IF(key->as.bytes[i] < '0' || key->as.bytes[i] > '9', TD_ERR_FORMAT,
                     "the key of a storage is no number");
    TD_CHECK(read_class(p, td_pickle_item(p, tuple, 1), &out->dtype));
    const uint64_t size = td_safetensors_dtype_bytes(out->dtype);
    TD_REFUSE_IF(count->as.integer < 0 || (uint64_t)count->as.integer > (uint64_t)INT64_MAX / size,
                 TD_ERR_FORMAT, "storage %.*s has %" PRId64 " elements", (int)key->n,
                 (const char *)key->as.bytes, count->as.integer);
    out->key = key->as.bytes;
    out->key_bytes = key->n;
    out->bytes = (uint64_t)count->as.integer * size;
    return TD_OK;
}

static int compare_keys(const void *a, const void *b)
{
    const td_torch_storage *x = a, *y = b;
    if (x->key_bytes != y->key_bytes) return x->key_bytes < y->key_bytes ? -1 : 1;
    return memcmp(x->key, y->key, x->key_bytes);
}

static td_status add_storage(td_torch_file *file, size_t *capacity, td_pickle_id tuple)
{
    TD_CHECK(td_alloc_grow(&file->storages, capacity, file->n_storages + 1, sizeof *file->storages));
    TD_CHECK(read_storage(file->pickle, tuple, &file->storages[file->n_storages]));
    file->n_storages++;
    return TD_OK;
}

td_status td_torch_collect_storages(td_torch_file *file)
{
    size_t capacity = 0, n = 0;
    const size_t n_values = td_pickle_count(file->pickle);
    for (td_pickle_id id = 1; id < n_values; id++) {
        const td_pickle_value *value = td_pickle_get(file->pickle, id);
        if (value->kind == TD_PICKLE_PERSISTENT) TD_CHECK(add_storage(file, &capacity, value->as.of.a));
    }
    if (file->n_storages > 1) qsort(file->storages, file->n_storages, sizeof *file->storages, compare_keys);
    for (size_t i = 0; i < file->n_storages; i++) {
        const td_torch_storage *s = &file->storages[i], *kept = n > 0 ? &file->storages[n - 1] : NULL;
        if (kept != NULL && compare_keys(kept, s) == 0) {
            TD_REFUSE_IF(kept->dtype != s->dtype || kept->bytes != s->bytes, TD_ERR_FORMAT,
                         "storage %.*s is told of in two ways", (int)s->key_bytes, (const char *)s->key);
            continue;
        }
        file->storages[n++] = *s;
    }
    file->n_storages = n;
    return TD_OK;
}

size_t td_torch_find_storage(const td_torch_file *file, const unsigned char *key, size_t bytes)
{
    const td_torch_storage wanted = {.key = key, .key_bytes = bytes};
    const td_torch_storage *found =
        file->n_storages > 0 ? bsearch(&wanted, file->storages, file->n_storages, sizeof wanted, compare_keys)
                             : NULL;
    return found != NULL ? (size_t)(found - file->storages) : file->n_storages;
}

/* ---------------------------------------------------------------- archives */

/* The folder that all of it lies in is that of data.pkl. */
static td_status find_prefix(const td_zip *zip, char out[PREFIX_BYTES], const td_zip_entry **pickle)
{
    static const char NAME[] = "/data.pkl";
    *pickle = NULL;
    for (size_t i = 0; i < td_zip_count(zip) && *pickle == NULL; i++) {
        const td_zip_entry *entry = td_zip_at(zip, i);
        const char *slash = memchr(entry->name, '/', entry->name_bytes);
        const size_t before = slash != NULL ? (size_t)(slash - entry->name) : 0;
        if (slash == NULL || before >= PREFIX_BYTES || entry->name_bytes != before + sizeof NAME - 1 ||
            memcmp(slash, NAME, sizeof NAME - 1) != 0 || memchr(entry->name, '\0', before) != NULL)
            continue;
        memcpy(out, entry->name, before);
        out[before] = '\0';
        *pickle = entry;
    }
    if (*pickle == NULL)
        return TD_FAIL(TD_ERR_FORMAT,
                       "it is a zip archive without data.pkl, so torch.save() did not write it");
    return TD_OK;
}

static td_status check_byte_order(const td_zip *zip, const char *prefix)
{
    char name[PREFIX_BYTES + 32];
    snprintf(name, sizeof name, "%s/byteorder", prefix);
    const td_zip_entry *entry = td_zip_find(zip, name);
    if (entry == NULL || (entry->bytes == 6 && memcmp(entry->data, "little", 6) == 0)) return TD_OK;
    return TD_FAIL(TD_ERR_UNSUPPORTED, "its numbers are not little-endian; save it on another computer");
}

static td_status place_in_zip(const td_zip *zip, const char *prefix, td_torch_storage *s)
{
    char name[PREFIX_BYTES + 64];
    snprintf(name, sizeof name, "%s/data/%.*s", prefix, (int)s->key_bytes, (const char *)s->key);
    const td_zip_entry *entry = td_zip_find(zip, name);
    TD_REFUSE_IF(entry == NULL, TD_ERR_FORMAT, "it has no entry '%s', which its pickle tells of", name);
    TD_REFUSE_IF(entry->bytes != s->bytes, TD_ERR_FORMAT,
                 "entry '%s' has %" PRIu64 " bytes, but its pickle tells of %" PRIu64, name, entry->bytes,
                 s->bytes);
    s->data = entry->data;
    s->crc = entry->crc;
    return TD_OK;
}

td_status td_torch_open_zip(td_torch_file *file, const void *content, size_t bytes)
{
    td_status status = TD_OK;
    td_zip *zip = NULL;
    const td_zip_entry *pickle;
    char prefix[PREFIX_BYTES];
    TD_TRY(td_zip_parse(content, bytes, &zip));
    TD_TRY(find_prefix(zip, prefix, &pickle));
    TD_TRY(check_byte_order(zip, prefix));
    TD_FAIL_IF(pickle->bytes > TD_PICKLE_MAX_BYTES, TD_ERR_LIMIT,
               "its pickle has %" PRIu64 " bytes, more than %d", pickle->bytes, TD_PICKLE_MAX_BYTES);
    TD_TRY(td_pickle_parse(pickle->data, (size_t)pickle->bytes, NULL, &file->pickle));
    TD_TRY(td_torch_collect_storages(file));
    for (size_t i = 0; i < file->n_storages; i++)
        TD_TRY(place_in_zip(zip, prefix, &file->storages[i]));
fail:
    td_zip_close(zip);
    return status;
}

/* ---------------------------------------------------------------- pickles in a row */

/* 0x1950a86a20f9469cfc6c */
static const unsigned char MAGIC[] = {0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};

static td_status read_next(const unsigned char *content, size_t bytes, size_t *at, td_pickle **out)
{
    size_t used = 0;
    const td_status status = td_pickle_parse(content + *at, bytes - *at, &used, out);
    *at += used;
    return status;
}

/* Magic number, protocol, and how the computer counts bytes. */
static td_status read_preamble(const unsigned char *content, size_t bytes, size_t *at)
{
    td_status status = TD_OK;
    td_pickle *p = NULL;
    TD_TRY(read_next(content, bytes, at, &p));
    const td_pickle_value *magic = td_pickle_get(p, td_pickle_root(p));
    TD_FAIL_IF(magic->kind != TD_PICKLE_LONG || magic->n != sizeof MAGIC ||
                   memcmp(magic->as.bytes, MAGIC, sizeof MAGIC) != 0,
               TD_ERR_FORMAT, "it is a pickle, but not one of torch.save()");
    td_pickle_close(p);
    TD_TRY(read_next(content, bytes, at, &p));
    const td_pickle_value *protocol = td_pickle_get(p, td_pickle_root(p));
    TD_FAIL_IF(protocol->kind != TD_PICKLE_INT || protocol->as.integer != 1001, TD_ERR_UNSUPPORTED,
               "its protocol is not 1001; save it with another version of PyTorch");
    td_pickle_close(p);
    TD_TRY(read_next(content, bytes, at, &p));
    const td_pickle_id little = td_pickle_find(p, td_pickle_root(p), "little_endian");
    TD_FAIL_IF(td_pickle_get(p, little)->kind != TD_PICKLE_BOOL || td_pickle_get(p, little)->as.integer != 1,
               TD_ERR_UNSUPPORTED, "its numbers are not little-endian; save it on another computer");
fail:
    td_pickle_close(p);
    return status;
}

/* Storages follow each other in the order of the list of keys, each after its count of elements. */
static td_status place_in_row(td_torch_file *file, const td_pickle *keys, const unsigned char *content,
                              size_t bytes, size_t at)
{
    const td_pickle_value *list = td_pickle_get(keys, td_pickle_root(keys));
    TD_REFUSE_IF(list->kind != TD_PICKLE_LIST, TD_ERR_FORMAT, "its list of storages is no list");
    for (size_t i = 0; i < list->n; i++) {
        const td_pickle_value *key = td_pickle_get(keys, list->as.items[i]);
        const size_t number = key->kind == TD_PICKLE_TEXT ? td_torch_find_storage(file, key->as.bytes, key->n)
                                                          : file->n_storages;
        TD_REFUSE_IF(number == file->n_storages, TD_ERR_FORMAT,
                     "storage %zu of its list is one that its pickle does not tell of", i);
        td_torch_storage *s = &file->storages[number];
        TD_REFUSE_IF(s->data != NULL, TD_ERR_FORMAT, "storage %.*s is there twice", (int)s->key_bytes,
                     (const char *)s->key);
        TD_REFUSE_IF(bytes - at < 8 || s->bytes > bytes - at - 8, TD_ERR_FORMAT,
                     "it is cut inside storage %.*s", (int)s->key_bytes, (const char *)s->key);
        TD_REFUSE_IF(td_read_u64(content + at) * td_safetensors_dtype_bytes(s->dtype) != s->bytes,
                     TD_ERR_FORMAT,
                     "storage %.*s has %" PRIu64 " elements, which is not what its pickle tells",
                     (int)s->key_bytes, (const char *)s->key, td_read_u64(content + at));
        s->data = content + at + 8;
        at += 8 + (size_t)s->bytes;
    }
    for (size_t i = 0; i < file->n_storages; i++)
        TD_REFUSE_IF(file->storages[i].data == NULL, TD_ERR_FORMAT, "it has no storage %.*s",
                     (int)file->storages[i].key_bytes, (const char *)file->storages[i].key);
    return TD_OK;
}

td_status td_torch_open_legacy(td_torch_file *file, const void *content, size_t bytes)
{
    td_status status = TD_OK;
    td_pickle *keys = NULL;
    size_t at = 0;
    TD_TRY(read_preamble(content, bytes, &at));
    TD_TRY(read_next(content, bytes, &at, &file->pickle));
    TD_TRY(td_torch_collect_storages(file));
    TD_TRY(read_next(content, bytes, &at, &keys));
    TD_TRY(place_in_row(file, keys, content, bytes, at));
fail:
    td_pickle_close(keys);
    return status;
}
