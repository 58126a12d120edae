/* See torch_write.h. The pickle is of protocol 2 and has those opcodes alone that plain dicts of tensors need. */
#include "torch/torch_write.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "torch/bytes.h"
#include "torch/zip_write.h"

enum { PREFIX_BYTES = 128, MAX_DEPTH = 8 };

static const char *const CLASSES[TD_SAFETENSORS_DTYPE_COUNT] = {
    [TD_SAFETENSORS_F64] = "DoubleStorage", [TD_SAFETENSORS_F32] = "FloatStorage",
    [TD_SAFETENSORS_F16] = "HalfStorage",   [TD_SAFETENSORS_BF16] = "BFloat16Storage",
    [TD_SAFETENSORS_I64] = "LongStorage",   [TD_SAFETENSORS_I32] = "IntStorage",
    [TD_SAFETENSORS_I16] = "ShortStorage",  [TD_SAFETENSORS_I8] = "CharStorage",
    [TD_SAFETENSORS_U8] = "ByteStorage",    [TD_SAFETENSORS_BOOL] = "BoolStorage",
};

struct td_torch_writer {
    td_zip_writer *zip;
    char prefix[PREFIX_BYTES];
    unsigned char *pickle;
    size_t pickle_bytes, pickle_capacity;
    uint64_t *sizes; /* of storages, in bytes */
    size_t n_tensors, capacity, n_written, depth;
    bool is_described;
};

/* ---------------------------------------------------------------- the pickle */

static td_status put_bytes(td_torch_writer *w, const void *data, size_t bytes)
{
    TD_CHECK(td_alloc_grow(&w->pickle, &w->pickle_capacity, w->pickle_bytes + bytes, 1));
    memcpy(w->pickle + w->pickle_bytes, data, bytes);
    w->pickle_bytes += bytes;
    return TD_OK;
}

static td_status put_opcodes(td_torch_writer *w, const char *opcodes)
{
    return put_bytes(w, opcodes, strlen(opcodes));
}

static td_status put_text(td_torch_writer *w, const char *text)
{
    unsigned char head[5] = {'X'};
    td_put_u32(head + 1, (uint32_t)strlen(text));
    TD_CHECK(put_bytes(w, head, sizeof head));
    return put_bytes(w, text, strlen(text));
}

/* BININT, or LONG1 of nine bytes for what is larger: the sign is the last bit. */
static td_status put_integer(td_torch_writer *w, uint64_t value)
{
    unsigned char small[5] = {'J'}, large[11] = {0x8a, 9};
    td_put_u32(small + 1, (uint32_t)value);
    td_put_u64(large + 2, value);
    return value <= INT32_MAX ? put_bytes(w, small, sizeof small) : put_bytes(w, large, sizeof large);
}

static td_status put_numbers(td_torch_writer *w, const uint64_t *numbers, size_t n)
{
    TD_CHECK(put_opcodes(w, "("));
    for (size_t i = 0; i < n; i++)
        TD_CHECK(put_integer(w, numbers[i]));
    return put_opcodes(w, "t");
}

/* ("storage", class, key, "cpu", count), as what stands outside of the pickle. */
static td_status put_storage(td_torch_writer *w, td_safetensors_dtype dtype, uint64_t count)
{
    char text[64];
    TD_CHECK(put_opcodes(w, "("));
    TD_CHECK(put_text(w, "storage"));
    snprintf(text, sizeof text, "ctorch\n%s\n", CLASSES[dtype]);
    TD_CHECK(put_opcodes(w, text));
    snprintf(text, sizeof text, "%zu", w->n_tensors);
    TD_CHECK(put_text(w, text));
    TD_CHECK(put_text(w, "cpu"));
    TD_CHECK(put_integer(w, count));
    return put_opcodes(w, "tQ");
}

td_status td_torch_writer_begin_dict(td_torch_writer *w)
{
    if (w->is_described || w->depth == MAX_DEPTH) return TD_FAIL(TD_ERR_ARGUMENT, "a dict has no place here");
    w->depth++;
    return put_opcodes(w, "}(");
}

td_status td_torch_writer_key(td_torch_writer *w, const char *key)
{
    return put_text(w, key);
}

td_status td_torch_writer_end_dict(td_torch_writer *w)
{
    if (w->depth == 0) return TD_FAIL(TD_ERR_ARGUMENT, "no dict is open");
    w->depth--;
    return put_opcodes(w, "u");
}

td_status td_torch_writer_tensor(td_torch_writer *w, td_safetensors_dtype dtype, size_t rank,
                                 const uint64_t *dims)
{
    uint64_t strides[TD_SAFETENSORS_MAX_RANK], n = 1;
    TD_REFUSE_IF(w->is_described || rank > TD_SAFETENSORS_MAX_RANK, TD_ERR_ARGUMENT,
                 "a tensor has no place here");
    TD_REFUSE_IF(CLASSES[dtype] == NULL, TD_ERR_UNSUPPORTED, "PyTorch has no storage of %s",
                 td_safetensors_dtype_name(dtype));
    for (size_t d = rank; d-- > 0;) {
        strides[d] = n;
        n *= dims[d];
    }
    TD_CHECK(td_alloc_grow(&w->sizes, &w->capacity, w->n_tensors + 1, sizeof *w->sizes));
    TD_CHECK(put_opcodes(w, "ctorch._utils\n_rebuild_tensor_v2\n("));
    TD_CHECK(put_storage(w, dtype, n));
    TD_CHECK(put_integer(w, 0));
    TD_CHECK(put_numbers(w, dims, rank));
    TD_CHECK(put_numbers(w, strides, rank));
    TD_CHECK(put_opcodes(w, "\x89"
                            "ccollections\nOrderedDict\n)RtR")); /* needs no gradient, has no hooks */
    w->sizes[w->n_tensors++] = n * td_safetensors_dtype_bytes(dtype);
    return TD_OK;
}

/* ---------------------------------------------------------------- the archive */

td_status td_torch_writer_open(const char *path, const char *prefix, td_torch_writer **out)
{
    td_status status = TD_OK;
    td_torch_writer *w = NULL;
    *out = NULL;
    TD_TRY(TD_NEW(&w));
    snprintf(w->prefix, sizeof w->prefix, "%s", prefix);
    TD_TRY(td_zip_writer_open(path, &w->zip));
    TD_TRY(put_opcodes(w, "\x80\x02"));
    *out = w;
    return TD_OK;
fail:
    td_torch_writer_close(w);
    return status;
}

static td_status add_entry(td_torch_writer *w, const char *name, const void *data, uint64_t bytes)
{
    char full[PREFIX_BYTES + 64];
    snprintf(full, sizeof full, "%s/%s", w->prefix, name);
    return td_zip_writer_add(w->zip, full, data, bytes);
}

static td_status end_description(td_torch_writer *w)
{
    if (w->is_described) return TD_OK;
    TD_REFUSE_IF(w->depth > 0, TD_ERR_ARGUMENT, "a dict is open");
    TD_CHECK(put_opcodes(w, "."));
    TD_CHECK(add_entry(w, "data.pkl", w->pickle, w->pickle_bytes));
    TD_CHECK(add_entry(w, "byteorder", "little", 6));
    w->is_described = true;
    return TD_OK;
}

td_status td_torch_writer_write(td_torch_writer *w, const void *data, uint64_t bytes)
{
    char name[32];
    TD_CHECK(end_description(w));
    TD_REFUSE_IF(w->n_written == w->n_tensors || w->sizes[w->n_written] != bytes, TD_ERR_ARGUMENT,
                 "tensor %zu does not have %" PRIu64 " bytes", w->n_written, bytes);
    snprintf(name, sizeof name, "data/%zu", w->n_written);
    TD_CHECK(add_entry(w, name, data, bytes));
    w->n_written++;
    return TD_OK;
}

td_status td_torch_writer_commit(td_torch_writer *w)
{
    TD_CHECK(end_description(w));
    TD_REFUSE_IF(w->n_written < w->n_tensors, TD_ERR_ARGUMENT, "tensor %zu lacks data", w->n_written);
    TD_CHECK(add_entry(w, "version", "3\n", 2));
    return td_zip_writer_commit(w->zip);
}

void td_torch_writer_close(td_torch_writer *w)
{
    if (w == NULL) return;
    td_zip_writer_close(w->zip);
    free(w->pickle);
    free(w->sizes);
    free(w);
}
