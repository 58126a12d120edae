/* Writing safetensors (safetensors.h): the header is declared first and read by the reader's own code before
 * a byte of it reaches the disk; data follows in the order in which its tensors were declared. Covered by
 * tests/unit/test_safetensors.c.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/safetensors_internal.h"
#include "base/text.h"

struct td_safetensors_writer {
    td_file_writer *out;
    td_json *json; /* the header, as far as it was declared */
    bool in_metadata;
    bool has_tensors;
    uint64_t data_bytes;     /* of the tensors added so far */
    td_safetensors *layout;  /* NULL until the header is written */
    size_t turn;             /* the tensor whose data comes next */
    uint64_t n_turn_written; /* of its bytes */
    char path[TD_FILE_PATH_BYTES];
};

td_status td_safetensors_writer_open(const char *path, td_safetensors_writer **out)
{
    td_status status = TD_OK;
    td_safetensors_writer *writer = NULL;
    *out = NULL;
    TD_TRY(TD_NEW(&writer));
    TD_TRY(td_file_writer_open(path, &writer->out));
    TD_TRY(td_json_create(NULL, 0, &writer->json));
    snprintf(writer->path, sizeof writer->path, "%s", path);
    td_json_begin_object(writer->json);
    *out = writer;
    return TD_OK;
fail:
    td_safetensors_writer_close(writer);
    return status;
}

static td_status fail_use(const td_safetensors_writer *writer, const char *name, const char *what)
{
    return TD_FAIL(TD_ERR_ARGUMENT, "cannot write '%.200s': '%.200s' %s; correct the calling code",
                   writer->path, name, what);
}

/* The JSON writer would replace what is not UTF-8, and the name would not be found again. */
static bool is_utf8(const char *text)
{
    for (size_t left = strlen(text); left > 0;) {
        uint32_t c;
        size_t length = td_text_utf8_next(text, left, &c);
        if (c == 0xFFFD && length == 1) return false;
        text += length;
        left -= length;
    }
    return true;
}

td_status td_safetensors_writer_add_metadata(td_safetensors_writer *writer, const char *key,
                                             const char *value)
{
    if (writer->has_tensors || writer->layout)
        return fail_use(writer, key, "is metadata that comes after the tensors");
    if (!is_utf8(key) || !is_utf8(value)) return fail_use(writer, key, "is metadata that is not valid UTF-8");
    if (!writer->in_metadata) {
        td_json_key(writer->json, TD_SAFETENSORS_METADATA);
        td_json_begin_object(writer->json);
        writer->in_metadata = true;
    }
    td_json_put_string(writer->json, key, value);
    return TD_OK;
}

static void end_metadata(td_safetensors_writer *writer)
{
    if (writer->in_metadata) td_json_end_object(writer->json);
    writer->in_metadata = false;
}

td_status td_safetensors_writer_add_tensor(td_safetensors_writer *writer, const char *name,
                                           td_safetensors_dtype dtype, size_t rank, const uint64_t *dims)
{
    uint64_t bytes = 0;
    uint64_t end = 0;
    td_json *json = writer->json;
    if (writer->layout) return fail_use(writer, name, "is a tensor added after the first data");
    if (strcmp(name, TD_SAFETENSORS_METADATA) == 0 || !is_utf8(name))
        return fail_use(writer, name, "cannot be a tensor's name");
    if ((unsigned)dtype >= TD_SAFETENSORS_DTYPE_COUNT || rank > TD_SAFETENSORS_MAX_RANK)
        return fail_use(writer, name, "has an unknown dtype or too many dimensions");
    if (td_safetensors_measure(dtype, rank, dims, &bytes) != TD_OK ||
        __builtin_add_overflow(writer->data_bytes, bytes, &end))
        return fail_use(writer, name, "would end past 64 bits");
    end_metadata(writer);
    td_json_key(json, name);
    td_json_begin_object(json);
    td_json_put_string(json, "dtype", td_safetensors_dtype_name(dtype));
    td_json_key(json, "shape");
    td_json_begin_array(json);
    for (size_t i = 0; i < rank; ++i)
        td_json_uint(json, dims[i]);
    td_json_end_array(json);
    td_json_key(json, "data_offsets");
    td_json_begin_array(json);
    td_json_uint(json, writer->data_bytes);
    td_json_uint(json, end);
    td_json_end_array(json);
    td_json_end_object(json);
    writer->data_bytes = end;
    writer->has_tensors = true;
    return TD_OK;
}

static td_status write_header(td_safetensors_writer *writer)
{
    td_status status = TD_OK;
    td_safetensors *layout = NULL;
    char *block = NULL;
    const char *text = NULL;
    end_metadata(writer);
    td_json_end_object(writer->json);
    TD_TRY(td_json_finish(writer->json, &text));
    const size_t header_bytes = (strlen(text) + 7) / 8 * 8;
    TD_FAIL_IF(header_bytes > TD_SAFETENSORS_MAX_HEADER_BYTES, TD_ERR_LIMIT,
               "the header's %zu bytes are more than the %d allowed; write less metadata", header_bytes,
               TD_SAFETENSORS_MAX_HEADER_BYTES);
    TD_TRY(TD_NEW_ARRAY(&block, TD_SAFETENSORS_LENGTH_BYTES + header_bytes + 1));
    for (size_t i = 0; i < TD_SAFETENSORS_LENGTH_BYTES; ++i)
        block[i] = (char)(header_bytes >> 8 * i & 0xFF);
    snprintf(block + TD_SAFETENSORS_LENGTH_BYTES, header_bytes + 1, "%-*s", (int)header_bytes, text);
    TD_TRY(td_safetensors_parse_layout(block, TD_SAFETENSORS_LENGTH_BYTES + header_bytes, writer->data_bytes,
                                       &layout));
    TD_TRY(td_file_writer_write(writer->out, block, TD_SAFETENSORS_LENGTH_BYTES + header_bytes));
    writer->layout = layout;
    layout = NULL;
fail:
    td_safetensors_close(layout);
    free(block);
    return status == TD_OK ? TD_OK : td_error_context("cannot write '%.200s'", writer->path);
}

/* The tensor whose data comes next; NULL when all is written. */
static const td_safetensors_tensor *find_turn(td_safetensors_writer *writer)
{
    const size_t n_tensors = td_safetensors_count(writer->layout);
    for (; writer->turn < n_tensors; ++writer->turn, writer->n_turn_written = 0) {
        const td_safetensors_tensor *tensor = td_safetensors_at(writer->layout, writer->turn);
        if (writer->n_turn_written < tensor->bytes) return tensor;
    }
    return NULL;
}

td_status td_safetensors_writer_write(td_safetensors_writer *writer, const char *name, const void *data,
                                      size_t bytes)
{
    td_status status = writer->layout ? TD_OK : write_header(writer);
    if (status != TD_OK || bytes == 0) return status;
    const td_safetensors_tensor *turn = find_turn(writer);
    if (!turn || strcmp(turn->name, name) != 0)
        return fail_use(writer, name, "is not the tensor to write now");
    if (bytes > turn->bytes - writer->n_turn_written)
        return fail_use(writer, name, "gets more bytes than its dtype and shape need");
    status = td_file_writer_write(writer->out, data, bytes);
    if (status == TD_OK) writer->n_turn_written += bytes;
    return status;
}

td_status td_safetensors_writer_header_hash(td_safetensors_writer *writer, uint64_t *out)
{
    const td_status status = writer->layout ? TD_OK : write_header(writer);
    *out = status == TD_OK ? td_safetensors_header_hash(writer->layout) : 0;
    return status;
}

td_status td_safetensors_writer_commit(td_safetensors_writer *writer)
{
    td_status status = writer->layout ? TD_OK : write_header(writer);
    if (status != TD_OK) return status;
    const td_safetensors_tensor *turn = find_turn(writer);
    if (turn) return fail_use(writer, turn->name, "lacks data");
    return td_file_writer_commit(writer->out);
}

void td_safetensors_writer_close(td_safetensors_writer *writer)
{
    if (!writer) return;
    td_safetensors_close(writer->layout);
    td_json_destroy(writer->json);
    td_file_writer_close(writer->out);
    free(writer);
}
