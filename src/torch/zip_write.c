/* See zip_write.h. */
#include "torch/zip_write.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/error.h"
#include "base/file.h"
#include "torch/bytes.h"
#include "torch/zip.h"

enum {
    LOCAL_BYTES = 30,
    CENTRAL_BYTES = 46,
    END_BYTES = 22,
    ALIGN = 64,
    VERSION = 20,
    FLAG_UTF8 = 1 << 11,
    DATE =
        (1980 - 1980) << 9 | 1 << 5 | 1, /* the same for all, so that the same content gives the same file */
    PADDING_ID = 'F' | 'B' << 8,
    CRC_PIECE_BYTES = 1 << 30,
};

struct td_zip_writer {
    td_file_writer *file;
    unsigned char *directory;
    size_t directory_bytes, capacity;
    uint64_t at;
    size_t n_entries;
};

td_status td_zip_writer_open(const char *path, td_zip_writer **out)
{
    td_status status = TD_OK;
    td_zip_writer *w = NULL;
    *out = NULL;
    TD_TRY(TD_NEW(&w));
    TD_TRY(td_file_writer_open(path, &w->file));
    *out = w;
    return TD_OK;
fail:
    td_zip_writer_close(w);
    return status;
}

static td_status put(td_zip_writer *w, const void *data, uint64_t bytes)
{
    w->at += bytes;
    return td_file_writer_write(w->file, data, (size_t)bytes);
}

static uint32_t make_crc(const unsigned char *data, uint64_t bytes)
{
    uLong crc = crc32(0, NULL, 0);
    while (bytes > 0) {
        const uint64_t piece = bytes < CRC_PIECE_BYTES ? bytes : CRC_PIECE_BYTES;
        crc = crc32(crc, data, (uInt)piece);
        data += piece;
        bytes -= piece;
    }
    return (uint32_t)crc;
}

/* What a local header and a row of the directory have in common, from the version on. */
static void fill_common(unsigned char *at, uint32_t crc, uint64_t bytes, size_t name_bytes)
{
    td_put_u16(at, VERSION);
    td_put_u16(at + 2, FLAG_UTF8);
    td_put_u16(at + 8, DATE);
    td_put_u32(at + 10, crc);
    td_put_u32(at + 14, (uint32_t)bytes);
    td_put_u32(at + 18, (uint32_t)bytes);
    td_put_u16(at + 22, (uint16_t)name_bytes);
}

static td_status add_row(td_zip_writer *w, const char *name, size_t name_bytes, uint32_t crc, uint64_t bytes,
                         uint64_t header)
{
    TD_CHECK(td_alloc_grow(&w->directory, &w->capacity, w->directory_bytes + CENTRAL_BYTES + name_bytes, 1));
    unsigned char *row = w->directory + w->directory_bytes;
    memset(row, 0, CENTRAL_BYTES);
    td_put_u32(row, 0x02014b50);
    td_put_u16(row + 4, VERSION);
    fill_common(row + 6, crc, bytes, name_bytes);
    td_put_u32(row + 42, (uint32_t)header);
    memcpy(row + CENTRAL_BYTES, name, name_bytes);
    w->directory_bytes += CENTRAL_BYTES + name_bytes;
    w->n_entries++;
    return TD_OK;
}

td_status td_zip_writer_add(td_zip_writer *w, const char *name, const void *data, uint64_t bytes)
{
    unsigned char local[LOCAL_BYTES + TD_ZIP_MAX_NAME_BYTES + 4 + ALIGN] = {0};
    const size_t name_bytes = strlen(name);
    const uint64_t header = w->at;
    TD_REFUSE_IF(name_bytes > TD_ZIP_MAX_NAME_BYTES, TD_ERR_ARGUMENT,
                 "entry '%.40s...' has a name of %zu bytes", name, name_bytes);
    TD_REFUSE_IF(bytes > UINT32_MAX - ALIGN - sizeof local ||
                     header + bytes > UINT32_MAX - ALIGN - sizeof local,
                 TD_ERR_LIMIT, "the archive would be larger than 4 GiB; store the voice in 16 bits first");
    TD_REFUSE_IF(w->n_entries >= UINT16_MAX - 1, TD_ERR_LIMIT, "the archive would have more than %u entries",
                 UINT16_MAX - 1);
    const uint64_t begin = header + LOCAL_BYTES + name_bytes + 4;
    const size_t padding = (size_t)((ALIGN - begin % ALIGN) % ALIGN);
    const uint32_t crc = make_crc(data, bytes);
    td_put_u32(local, 0x04034b50);
    fill_common(local + 4, crc, bytes, name_bytes);
    td_put_u16(local + 28, (uint16_t)(4 + padding));
    for (size_t i = 0; i < name_bytes; i++)
        local[LOCAL_BYTES + i] = (unsigned char)name[i];
    td_put_u16(local + LOCAL_BYTES + name_bytes, PADDING_ID);
    td_put_u16(local + LOCAL_BYTES + name_bytes + 2, (uint16_t)padding);
    memset(local + LOCAL_BYTES + name_bytes + 4, 'Z', padding);
    TD_CHECK(put(w, local, LOCAL_BYTES + name_bytes + 4 + padding));
    TD_CHECK(put(w, data, bytes));
    return add_row(w, name, name_bytes, crc, bytes, header);
}

td_status td_zip_writer_commit(td_zip_writer *w)
{
    unsigned char end[END_BYTES] = {0};
    td_put_u32(end, 0x06054b50);
    td_put_u16(end + 8, (uint16_t)w->n_entries);
    td_put_u16(end + 10, (uint16_t)w->n_entries);
    td_put_u32(end + 12, (uint32_t)w->directory_bytes);
    td_put_u32(end + 16, (uint32_t)w->at);
    TD_REFUSE_IF(w->at + w->directory_bytes > UINT32_MAX - END_BYTES, TD_ERR_LIMIT,
                 "the archive would be larger than 4 GiB; store the voice in 16 bits first");
    TD_CHECK(put(w, w->directory, w->directory_bytes));
    TD_CHECK(put(w, end, sizeof end));
    return td_file_writer_commit(w->file);
}

void td_zip_writer_close(td_zip_writer *w)
{
    if (w == NULL) return;
    td_file_writer_close(w->file);
    free(w->directory);
    free(w);
}
