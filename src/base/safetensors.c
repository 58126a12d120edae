/* Reading safetensors (safetensors.h): scan the header's text, parse it, check every number, then the whole
 * layout. The writer (safetensors_write.c) has its own header read by the same code before a byte of it
 * reaches the disk, so the rules stand here once. Covered by tests/unit/test_safetensors.c and
 * tests/fuzz/fuzz_safetensors.c.
 */
#include <cJSON.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/safetensors_internal.h"
#include "base/text.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "data is handed out as it lies in the file");

enum {
    MAX_DEPTH = 3,                                /* {"name": {"shape": [ */
    MAX_COMMAS = 16 * TD_SAFETENSORS_MAX_ENTRIES, /* bounds the parsed tree to some 100 MB */
};

#define MAX_INTEGER (UINT64_C(1) << 53) /* the parser's numbers are doubles, exact up to here */

struct td_safetensors {
    cJSON *header; /* owns every name, key and value */
    td_safetensors_tensor *tensors;
    const td_safetensors_tensor **by_name;
    size_t n_tensors;
    td_safetensors_pair *pairs;
    size_t n_pairs;
    uint64_t header_hash;
    td_file_mapping mapping; /* empty when parsed from memory */
};

static const struct {
    const char *name;
    size_t bytes;
} DTYPES[TD_SAFETENSORS_DTYPE_COUNT] = {
#define TD_SAFETENSORS_ROW(name, bytes) {#name, bytes},
    TD_SAFETENSORS_DTYPE_LIST(TD_SAFETENSORS_ROW)
#undef TD_SAFETENSORS_ROW
};

const char *td_safetensors_dtype_name(td_safetensors_dtype dtype)
{
    return DTYPES[dtype].name;
}

size_t td_safetensors_dtype_bytes(td_safetensors_dtype dtype)
{
    return DTYPES[dtype].bytes;
}

/* --- The header's text --- */

typedef struct scan {
    size_t depth;
    size_t n_commas;
    bool in_string;
} scan;

/* One character inside a string; *length grows to skip what an escape covers. */
static td_status scan_string(scan *s, const char *at, size_t left, uint32_t c, size_t *length)
{
    if (c < 0x20) return TD_FAIL(TD_ERR_FORMAT, "a bare control character is in a string");
    if (c == '"') s->in_string = false;
    if (c != '\\') return TD_OK;
    /* C strings would end there: two names could look the same, or one differ from what was checked. */
    if (left >= 6 && memcmp(at, "\\u0000", 6) == 0)
        return TD_FAIL(TD_ERR_FORMAT, "a zero character is in a string");
    *length = left >= 2 ? 2 : 1;
    return TD_OK;
}

static td_status scan_structure(scan *s, const char *at, size_t left, bool after_digit, uint32_t c)
{
    switch (c) {
    case '"':
        s->in_string = true;
        return TD_OK;
    case '{':
    case '[':
        if (++s->depth > MAX_DEPTH) return TD_FAIL(TD_ERR_FORMAT, "it is nested deeper than %d", MAX_DEPTH);
        return TD_OK;
    case '}':
    case ']':
        --s->depth; /* the caller stops at 0 */
        return TD_OK;
    case ',':
        if (++s->n_commas > MAX_COMMAS)
            return TD_FAIL(TD_ERR_LIMIT, "it has more than %d values", MAX_COMMAS);
        return TD_OK;
    case '0':
        if (!after_digit && left > 1 && td_text_is_digit(at[1]))
            return TD_FAIL(TD_ERR_FORMAT, "a number starts with a zero");
        return TD_OK;
    default:
        /* Neither fractions, signs, true, false nor null have a place in a header. */
        if ((c < 0x80 && td_text_is_digit((char)c)) || c == ':' || c == ' ' || c == '\t' || c == '\n' ||
            c == '\r')
            return TD_OK;
        return TD_FAIL(TD_ERR_FORMAT, "a character has no place between strings and whole numbers");
    }
}

/* Refuses what the JSON parser would let pass (it is lenient with control characters, zeros, numbers and what
 * follows the object) and what would make it use much memory. *end: just past the object's closing brace. */
static td_status scan_header(const char *text, size_t bytes, size_t *end)
{
    scan s = {0};
    size_t at = 0;
    if (bytes == 0 || text[0] != '{') return TD_FAIL(TD_ERR_FORMAT, "the header does not begin with '{'");
    do {
        uint32_t c;
        size_t length = td_text_utf8_next(text + at, bytes - at, &c);
        td_status status;
        if (c == 0xFFFD && length == 1)
            status = TD_FAIL(TD_ERR_FORMAT, "the text is not valid UTF-8");
        else if (s.in_string)
            status = scan_string(&s, text + at, bytes - at, c, &length);
        else
            status = scan_structure(&s, text + at, bytes - at, at > 0 && td_text_is_digit(text[at - 1]), c);
        if (status != TD_OK) return td_error_context("byte %zu of the header", at);
        at += length;
    } while (at < bytes && s.depth > 0);
    if (s.depth > 0) return TD_FAIL(TD_ERR_FORMAT, "the header ends inside its object");
    *end = at;
    for (; at < bytes; ++at)
        if (text[at] != ' ')
            return TD_FAIL(TD_ERR_FORMAT, "byte %zu of the header: only spaces may follow the object", at);
    return TD_OK;
}

/* --- Tensors --- */

static td_status get_integer(const cJSON *item, const char *what, uint64_t *out)
{
    if (!cJSON_IsNumber(item)) return TD_FAIL(TD_ERR_FORMAT, "%s holds something that is not a number", what);
    if (!(item->valuedouble >= 0 && item->valuedouble <= (double)MAX_INTEGER))
        return TD_FAIL(TD_ERR_FORMAT, "%s holds a number past 2^53", what);
    *out = (uint64_t)item->valuedouble;
    return TD_OK;
}

static td_status read_dtype(const cJSON *item, td_safetensors_tensor *tensor)
{
    if (!cJSON_IsString(item)) return TD_FAIL(TD_ERR_FORMAT, "the dtype is not a string");
    for (size_t i = 0; i < TD_SAFETENSORS_DTYPE_COUNT; ++i) {
        tensor->dtype = (td_safetensors_dtype)i;
        if (strcmp(item->valuestring, DTYPES[i].name) == 0) return TD_OK;
    }
    return TD_FAIL(TD_ERR_FORMAT, "the dtype '%.32s' is not known", item->valuestring);
}

static td_status read_shape(const cJSON *item, td_safetensors_tensor *tensor)
{
    if (!cJSON_IsArray(item)) return TD_FAIL(TD_ERR_FORMAT, "the shape is not a list");
    for (const cJSON *dim = item->child; dim; dim = dim->next) {
        if (tensor->rank == TD_SAFETENSORS_MAX_RANK)
            return TD_FAIL(TD_ERR_LIMIT, "the shape has more than %d dimensions", TD_SAFETENSORS_MAX_RANK);
        td_status status = get_integer(dim, "the shape", &tensor->dims[tensor->rank++]);
        if (status != TD_OK) return status;
    }
    return TD_OK;
}

static td_status read_offsets(const cJSON *item, td_safetensors_tensor *tensor)
{
    uint64_t end = 0;
    const cJSON *first = cJSON_IsArray(item) ? item->child : NULL;
    TD_REFUSE_IF(!first || !first->next || first->next->next, TD_ERR_FORMAT,
                 "data_offsets is not a list of two numbers");
    TD_CHECK(get_integer(first, "data_offsets", &tensor->offset));
    TD_CHECK(get_integer(first->next, "data_offsets", &end));
    TD_REFUSE_IF(end < tensor->offset, TD_ERR_FORMAT, "data_offsets [%" PRIu64 ", %" PRIu64 "] run backwards",
                 tensor->offset, end);
    tensor->bytes = end - tensor->offset;
    return TD_OK;
}

/* A dimension of 0 does not excuse a product that overflows before it: whoever multiplies the others later
 * would be surprised. */
td_status td_safetensors_measure(td_safetensors_dtype dtype, size_t rank, const uint64_t *dims,
                                 uint64_t *bytes)
{
    bool is_empty = false;
    uint64_t product = DTYPES[dtype].bytes;
    for (size_t i = 0; i < rank; ++i) {
        is_empty = is_empty || dims[i] == 0;
        if (__builtin_mul_overflow(product, dims[i] ? dims[i] : 1, &product))
            return TD_FAIL(TD_ERR_FORMAT, "the product of dtype and shape overflows 64 bits");
    }
    *bytes = is_empty ? 0 : product;
    return TD_OK;
}

static td_status read_fields(const cJSON *item, td_safetensors_tensor *tensor)
{
    static const struct {
        const char *key;
        td_status (*read)(const cJSON *item, td_safetensors_tensor *tensor);
    } fields[] = {{"dtype", read_dtype}, {"shape", read_shape}, {"data_offsets", read_offsets}};
    enum { N_FIELDS = sizeof fields / sizeof fields[0] };
    bool seen[N_FIELDS] = {false};
    if (!cJSON_IsObject(item)) return TD_FAIL(TD_ERR_FORMAT, "it is not an object");
    for (const cJSON *field = item->child; field; field = field->next) {
        size_t i = 0;
        while (i < N_FIELDS && strcmp(field->string, fields[i].key) != 0)
            ++i;
        if (i == N_FIELDS)
            return TD_FAIL(TD_ERR_FORMAT, "it has a field that is none of dtype, shape, "
                                          "data_offsets");
        if (seen[i]) return TD_FAIL(TD_ERR_FORMAT, "it has %s twice", fields[i].key);
        seen[i] = true;
        td_status status = fields[i].read(field, tensor);
        if (status != TD_OK) return status;
    }
    for (size_t i = 0; i < N_FIELDS; ++i)
        if (!seen[i]) return TD_FAIL(TD_ERR_FORMAT, "it has no %s", fields[i].key);
    return TD_OK;
}

static td_status check_extent(const td_safetensors_tensor *tensor, uint64_t data_bytes)
{
    uint64_t need = 0;
    const uint64_t end = tensor->offset + tensor->bytes;
    TD_CHECK(td_safetensors_measure(tensor->dtype, tensor->rank, tensor->dims, &need));
    TD_REFUSE_IF(tensor->bytes != need, TD_ERR_FORMAT,
                 "data_offsets span %" PRIu64 " bytes, dtype and shape need %" PRIu64, tensor->bytes, need);
    TD_REFUSE_IF(end > data_bytes, TD_ERR_FORMAT,
                 "data_offsets [%" PRIu64 ", %" PRIu64 "] reach past the %" PRIu64 " bytes of data",
                 tensor->offset, end, data_bytes);
    TD_REFUSE_IF(tensor->offset % DTYPES[tensor->dtype].bytes != 0, TD_ERR_FORMAT,
                 "its data at %" PRIu64
                 " is not aligned to the %zu bytes of %s; order wide types before narrow",
                 tensor->offset, DTYPES[tensor->dtype].bytes, DTYPES[tensor->dtype].name);
    return TD_OK;
}

/* Names go into one-line messages, so they must not break lines or steer a terminal. */
static td_status check_name(const char *name)
{
    size_t bytes = strlen(name);
    if (bytes == 0) return TD_FAIL(TD_ERR_FORMAT, "a tensor has an empty name");
    if (bytes > TD_SAFETENSORS_MAX_NAME_BYTES) {
        return TD_FAIL(TD_ERR_LIMIT, "a tensor's name has %zu bytes, more than %d; it begins '%.40s'", bytes,
                       TD_SAFETENSORS_MAX_NAME_BYTES, name);
    }
    for (size_t i = 0; i < bytes; ++i)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7F)
            return TD_FAIL(TD_ERR_FORMAT, "a tensor's name has a control character at byte %zu", i);
    return TD_OK;
}

static td_status read_tensor(td_safetensors *file, const cJSON *item, const char *data, uint64_t data_bytes)
{
    td_status status = check_name(item->string);
    if (status != TD_OK) return status;
    td_safetensors_tensor *tensor = &file->tensors[file->n_tensors++];
    tensor->name = item->string;
    status = read_fields(item, tensor);
    if (status == TD_OK) status = check_extent(tensor, data_bytes);
    if (status != TD_OK) return td_error_context("tensor '%.200s'", item->string);
    tensor->data = data ? data + tensor->offset : NULL;
    return TD_OK;
}

/* --- The whole --- */

static int compare_offsets(const void *a, const void *b)
{
    const td_safetensors_tensor *x = a;
    const td_safetensors_tensor *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1; /* empty ones before what starts there */
    return strcmp(x->name, y->name);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const td_safetensors_tensor *const *)a)->name,
                  (*(const td_safetensors_tensor *const *)b)->name);
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const td_safetensors_pair *)a)->key, ((const td_safetensors_pair *)b)->key);
}

static td_status check_names_differ(const td_safetensors *file)
{
    for (size_t i = 1; i < file->n_tensors; ++i)
        if (strcmp(file->by_name[i - 1]->name, file->by_name[i]->name) == 0)
            return TD_FAIL(TD_ERR_FORMAT, "tensor '%.200s': the name is there twice", file->by_name[i]->name);
    return TD_OK;
}

static td_status check_tiling(const td_safetensors *file, uint64_t data_bytes)
{
    uint64_t end = 0;
    for (size_t i = 0; i < file->n_tensors; ++i) {
        const td_safetensors_tensor *tensor = &file->tensors[i];
        if (tensor->offset < end) {
            return TD_FAIL(TD_ERR_FORMAT, "tensor '%.200s': its data overlaps that of '%.200s'", tensor->name,
                           file->tensors[i - 1].name);
        }
        if (tensor->offset > end) {
            return TD_FAIL(TD_ERR_FORMAT, "tensor '%.200s': %" PRIu64 " bytes before it belong to no tensor",
                           tensor->name, tensor->offset - end);
        }
        end += tensor->bytes;
    }
    if (end != data_bytes) {
        return TD_FAIL(TD_ERR_FORMAT, "the last %" PRIu64 " of %" PRIu64 " bytes of data belong to no tensor",
                       data_bytes - end, data_bytes);
    }
    return TD_OK;
}

static size_t count_children(const cJSON *item)
{
    size_t n = 0;
    for (const cJSON *child = item->child; child; child = child->next)
        ++n;
    return n;
}

static td_status read_metadata(td_safetensors *file, const cJSON *map)
{
    const size_t n = count_children(map);
    TD_REFUSE_IF(file->pairs, TD_ERR_FORMAT, "%s is there twice", TD_SAFETENSORS_METADATA);
    TD_REFUSE_IF(!cJSON_IsObject(map), TD_ERR_FORMAT, "%s is not an object", TD_SAFETENSORS_METADATA);
    TD_REFUSE_IF(n > TD_SAFETENSORS_MAX_ENTRIES, TD_ERR_LIMIT, "%s has more than %d entries",
                 TD_SAFETENSORS_METADATA, TD_SAFETENSORS_MAX_ENTRIES);
    TD_CHECK(TD_NEW_ARRAY(&file->pairs, n));
    for (const cJSON *item = map->child; item; item = item->next) {
        TD_REFUSE_IF(!cJSON_IsString(item), TD_ERR_FORMAT, "%s has a value that is not a string",
                     TD_SAFETENSORS_METADATA);
        file->pairs[file->n_pairs++] = (td_safetensors_pair){item->string, item->valuestring};
    }
    qsort(file->pairs, n, sizeof *file->pairs, compare_keys);
    for (size_t i = 1; i < n; ++i) {
        TD_REFUSE_IF(compare_keys(&file->pairs[i - 1], &file->pairs[i]) == 0, TD_ERR_FORMAT,
                     "%s has a key twice", TD_SAFETENSORS_METADATA);
    }
    return TD_OK;
}

/* `data` may be NULL: the layout alone. */
static td_status read_header(td_safetensors *file, const char *text, size_t bytes, const char *data,
                             uint64_t data_bytes)
{
    size_t end = 0;
    TD_CHECK(scan_header(text, bytes, &end));
    file->header = cJSON_ParseWithLength(text, end);
    TD_REFUSE_IF(!file->header, TD_ERR_FORMAT, "the header is not valid JSON");
    const size_t n = count_children(file->header);
    TD_REFUSE_IF(n > TD_SAFETENSORS_MAX_ENTRIES, TD_ERR_LIMIT, "the header has more than %d tensors",
                 TD_SAFETENSORS_MAX_ENTRIES);
    TD_CHECK(TD_NEW_ARRAY(&file->tensors, n));
    TD_CHECK(TD_NEW_ARRAY(&file->by_name, n));
    for (const cJSON *item = file->header->child; item; item = item->next) {
        TD_CHECK(strcmp(item->string, TD_SAFETENSORS_METADATA) == 0
                     ? read_metadata(file, item)
                     : read_tensor(file, item, data, data_bytes));
    }
    qsort(file->tensors, file->n_tensors, sizeof *file->tensors, compare_offsets);
    for (size_t i = 0; i < file->n_tensors; ++i)
        file->by_name[i] = &file->tensors[i];
    qsort(file->by_name, file->n_tensors, sizeof *file->by_name, compare_names);
    TD_CHECK(check_names_differ(file));
    return check_tiling(file, data_bytes);
}

static td_status read_content(td_safetensors *file, const unsigned char *content, size_t bytes)
{
    uint64_t header_bytes = 0;
    TD_REFUSE_IF(bytes < TD_SAFETENSORS_LENGTH_BYTES, TD_ERR_FORMAT,
                 "%zu bytes cannot hold the header's length", bytes);
    for (size_t i = 0; i < TD_SAFETENSORS_LENGTH_BYTES; ++i)
        header_bytes |= (uint64_t)content[i] << 8 * i;
    TD_REFUSE_IF(header_bytes > TD_SAFETENSORS_MAX_HEADER_BYTES, TD_ERR_LIMIT,
                 "it claims a header of %" PRIu64 " bytes, more than the %d allowed", header_bytes,
                 TD_SAFETENSORS_MAX_HEADER_BYTES);
    TD_REFUSE_IF(header_bytes > bytes - TD_SAFETENSORS_LENGTH_BYTES, TD_ERR_FORMAT,
                 "it claims a header of %" PRIu64 " bytes, but only %zu follow", header_bytes,
                 bytes - TD_SAFETENSORS_LENGTH_BYTES);
    TD_REFUSE_IF(header_bytes % 8 != 0, TD_ERR_FORMAT,
                 "the header's %" PRIu64 " bytes are no multiple of 8, so the data is not aligned",
                 header_bytes);
    file->header_hash = td_hash64(content, TD_SAFETENSORS_LENGTH_BYTES + header_bytes);
    const char *text = (const char *)content + TD_SAFETENSORS_LENGTH_BYTES;
    return read_header(file, text, header_bytes, text + header_bytes,
                       bytes - TD_SAFETENSORS_LENGTH_BYTES - header_bytes);
}

td_status td_safetensors_parse_layout(const void *content, size_t bytes, uint64_t data_bytes,
                                      td_safetensors **out)
{
    td_status status = TD_OK;
    td_safetensors *file = NULL;
    *out = NULL;
    TD_TRY(TD_NEW(&file));
    file->header_hash = td_hash64(content, bytes);
    TD_TRY(read_header(file, (const char *)content + TD_SAFETENSORS_LENGTH_BYTES,
                       bytes - TD_SAFETENSORS_LENGTH_BYTES, NULL, data_bytes));
    *out = file;
    return TD_OK;
fail:
    td_safetensors_close(file);
    return status;
}

td_status td_safetensors_parse(const void *content, size_t bytes, const char *name, td_safetensors **out)
{
    td_status status = TD_OK;
    td_safetensors *file = NULL;
    *out = NULL;
    TD_TRY(TD_NEW(&file));
    TD_TRY(read_content(file, content, bytes));
    *out = file;
    return TD_OK;
fail:
    td_safetensors_close(file);
    const td_error *error = td_error_last();
    if (status == TD_ERR_HOST_MEMORY) {
        td_error_context("cannot read '%.200s'", name);
    } else {
        td_error_set(status, NULL, error->file, error->line,
                     "'%.200s' is not a valid safetensors file: %s; fetch or write it again", name,
                     error->message);
    }
    return status;
}

td_status td_safetensors_open(const char *path, td_safetensors **out)
{
    td_status status = TD_OK;
    td_file_mapping mapping = {0};
    *out = NULL;
    TD_TRY(td_file_map(path, &mapping));
    TD_TRY(td_safetensors_parse(mapping.data, mapping.bytes, path, out));
    (*out)->mapping = mapping;
    return TD_OK;
fail:
    td_file_unmap(&mapping);
    return status;
}

void td_safetensors_forget(const td_safetensors *file, const td_safetensors_tensor *tensor)
{
    td_file_forget(&file->mapping, tensor->data, (size_t)tensor->bytes);
}

void td_safetensors_close(td_safetensors *file)
{
    if (!file) return;
    td_file_unmap(&file->mapping);
    free(file->pairs);
    free(file->by_name);
    free(file->tensors);
    cJSON_Delete(file->header);
    free(file);
}

size_t td_safetensors_count(const td_safetensors *file)
{
    return file->n_tensors;
}

const td_safetensors_tensor *td_safetensors_at(const td_safetensors *file, size_t index)
{
    return &file->tensors[index];
}

const td_safetensors_tensor *td_safetensors_find(const td_safetensors *file, const char *name)
{
    const td_safetensors_tensor wanted = {.name = name};
    const td_safetensors_tensor *key = &wanted;
    const td_safetensors_tensor *const *found =
        bsearch(&key, file->by_name, file->n_tensors, sizeof *file->by_name, compare_names);
    return found ? *found : NULL;
}

size_t td_safetensors_metadata_count(const td_safetensors *file)
{
    return file->n_pairs;
}

const td_safetensors_pair *td_safetensors_metadata_at(const td_safetensors *file, size_t index)
{
    return &file->pairs[index];
}

const char *td_safetensors_metadata_find(const td_safetensors *file, const char *key)
{
    const td_safetensors_pair wanted = {.key = key};
    if (file->n_pairs == 0) return NULL; /* there may be no array to search */
    const td_safetensors_pair *found =
        bsearch(&wanted, file->pairs, file->n_pairs, sizeof *file->pairs, compare_keys);
    return found ? found->value : NULL;
}

uint64_t td_safetensors_header_hash(const td_safetensors *file)
{
    return file->header_hash;
}

uint64_t td_safetensors_find_broken(const td_safetensors_tensor *t)
{
    const uint32_t exponent = 0x7f800000, *words = t->data;
    const uint16_t *halves = t->data, half = t->dtype == TD_SAFETENSORS_F16 ? 0x7c00 : 0x7f80;
    const uint64_t n = t->bytes / td_safetensors_dtype_bytes(t->dtype);
    const bool is_half = t->dtype == TD_SAFETENSORS_F16 || t->dtype == TD_SAFETENSORS_BF16;
    if (!is_half && t->dtype != TD_SAFETENSORS_F32) return n;
    uint64_t i = 0;
    while (i < n && (is_half ? (halves[i] & half) != half : (words[i] & exponent) != exponent))
        ++i;
    return i;
}
