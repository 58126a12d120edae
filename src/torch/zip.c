/* See zip.h. The format is that of PKWARE's APPNOTE: end record, central directory, local headers. */
#include "torch/zip.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "torch/bytes.h"

enum {
    LOCAL_BYTES = 30,
    CENTRAL_BYTES = 46,
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR_BYTES = 20,
    MAX_COMMENT_BYTES = 65535,
    EXTRA_ZIP64 = 1,
    FLAG_ENCRYPTED = 1,
};

#define LOCAL_MARK UINT32_C(0x04034b50)
#define CENTRAL_MARK UINT32_C(0x02014b50)
#define END_MARK UINT32_C(0x06054b50)
#define END64_MARK UINT32_C(0x06064b50)
#define LOCATOR_MARK UINT32_C(0x07064b50)
#define FULL16 UINT32_C(0xffff)
#define FULL32 UINT32_C(0xffffffff)

struct td_zip {
    td_zip_entry *entries;
    size_t n_entries;
};

typedef struct directory {
    uint64_t begin, bytes, n_entries;
} directory;

/* ---------------------------------------------------------------- the end record */

/* Where it is: its comment reaches to the end of the file. */
static bool find_end(const unsigned char *content, size_t bytes, size_t *out)
{
    const size_t least = bytes > END_BYTES + MAX_COMMENT_BYTES ? bytes - END_BYTES - MAX_COMMENT_BYTES : 0;
    if (bytes < END_BYTES) return false;
    for (size_t at = bytes - END_BYTES;; at--) {
        if (td_read_u32(content + at) == END_MARK &&
            at + END_BYTES + td_read_u16(content + at + 20) == bytes) {
            *out = at;
            return true;
        }
        if (at == least) return false;
    }
}

static td_status read_end64(const unsigned char *content, size_t end, directory *out)
{
    TD_REFUSE_IF(end < LOCATOR_BYTES || td_read_u32(content + end - LOCATOR_BYTES) != LOCATOR_MARK,
                 TD_ERR_FORMAT, "its end tells of a zip64 record that is not there");
    const uint64_t at = td_read_u64(content + end - LOCATOR_BYTES + 8);
    TD_REFUSE_IF(end < LOCATOR_BYTES + END64_BYTES || at > end - LOCATOR_BYTES - END64_BYTES ||
                     td_read_u32(content + at) != END64_MARK,
                 TD_ERR_FORMAT, "its zip64 record is not at byte %" PRIu64 ", where it should be", at);
    TD_REFUSE_IF(td_read_u32(content + at + 16) != 0 || td_read_u32(content + at + 20) != 0 ||
                     td_read_u64(content + at + 24) != td_read_u64(content + at + 32),
                 TD_ERR_FORMAT, "it is one of several disks");
    out->n_entries = td_read_u64(content + at + 32);
    out->bytes = td_read_u64(content + at + 40);
    out->begin = td_read_u64(content + at + 48);
    return TD_OK;
}

static td_status find_directory(const unsigned char *content, size_t bytes, directory *out)
{
    size_t end = 0;
    TD_REFUSE_IF(!find_end(content, bytes, &end), TD_ERR_FORMAT,
                 "its end is not there; it was cut, or is no zip archive");
    const uint32_t disk = td_read_u16(content + end + 4), first = td_read_u16(content + end + 6);
    const uint32_t here = td_read_u16(content + end + 8), all = td_read_u16(content + end + 10);
    *out = (directory){
        .n_entries = all, .bytes = td_read_u32(content + end + 12), .begin = td_read_u32(content + end + 16)};
    if (disk == FULL16 || all == FULL16 || out->bytes == FULL32 || out->begin == FULL32)
        TD_CHECK(read_end64(content, end, out));
    else
        TD_REFUSE_IF(disk != 0 || first != 0 || here != all, TD_ERR_FORMAT, "it is one of several disks");
    TD_REFUSE_IF(out->begin > end || out->bytes > end - out->begin, TD_ERR_FORMAT,
                 "its directory (%" PRIu64 " bytes at %" PRIu64 ") does not lie inside the file", out->bytes,
                 out->begin);
    TD_REFUSE_IF(out->n_entries > TD_ZIP_MAX_ENTRIES, TD_ERR_LIMIT,
                 "it has %" PRIu64 " entries, more than the %d allowed", out->n_entries, TD_ZIP_MAX_ENTRIES);
    return TD_OK;
}

/* ---------------------------------------------------------------- entries */

/* Sizes and the place that do not fit 32 bits stand in a field behind the name: only those, in this order. */
static td_status read_zip64(const unsigned char *extra, size_t bytes, uint64_t *full, uint64_t *stored,
                            uint64_t *header)
{
    uint64_t *const wanted[] = {full, stored, header};
    size_t at = 0, i = 0;
    while (at + 4 <= bytes && td_read_u16(extra + at) != EXTRA_ZIP64)
        at += 4 + (size_t)td_read_u16(extra + at + 2);
    const size_t length = at + 4 <= bytes ? td_read_u16(extra + at + 2) : 0;
    TD_REFUSE_IF(at + 4 + length > bytes && length > 0, TD_ERR_FORMAT,
                 "a field of it is longer than its fields");
    for (size_t used = 0; i < 3; i++) {
        if (*wanted[i] != FULL32) continue;
        TD_REFUSE_IF(used + 8 > length, TD_ERR_FORMAT, "its size or place is not told");
        *wanted[i] = td_read_u64(extra + at + 4 + used);
        used += 8;
    }
    return TD_OK;
}

/* The local header must tell the same name; what else it tells may be left out. */
static td_status find_data(const unsigned char *content, const directory *d, td_zip_entry *entry)
{
    TD_REFUSE_IF(entry->header > d->begin || d->begin - entry->header < LOCAL_BYTES, TD_ERR_FORMAT,
                 "its header at %" PRIu64 " does not lie before the directory", entry->header);
    const unsigned char *local = content + entry->header;
    const uint64_t before = LOCAL_BYTES + (uint64_t)td_read_u16(local + 26) + td_read_u16(local + 28);
    TD_REFUSE_IF(td_read_u32(local) != LOCAL_MARK || td_read_u16(local + 26) != entry->name_bytes ||
                     d->begin - entry->header < before ||
                     memcmp(local + LOCAL_BYTES, entry->name, entry->name_bytes) != 0,
                 TD_ERR_FORMAT, "it has no header of its own at %" PRIu64, entry->header);
    TD_REFUSE_IF(entry->bytes > d->begin - entry->header - before, TD_ERR_FORMAT,
                 "its %" PRIu64 " bytes at %" PRIu64 " reach past the file's data", entry->bytes,
                 entry->header + before);
    entry->data = local + before;
    return TD_OK;
}

static td_status read_entry(const unsigned char *content, const directory *d, uint64_t *at,
                            td_zip_entry *entry)
{
    td_status status = TD_OK;
    const uint64_t left = d->begin + d->bytes - *at;
    const unsigned char *row = content + *at;
    TD_FAIL_IF(left < CENTRAL_BYTES || td_read_u32(row) != CENTRAL_MARK, TD_ERR_FORMAT,
               "the directory has no entry at byte %" PRIu64, *at);
    const size_t name_bytes = td_read_u16(row + 28), extra_bytes = td_read_u16(row + 30);
    const uint64_t bytes = CENTRAL_BYTES + name_bytes + extra_bytes + td_read_u16(row + 32);
    TD_FAIL_IF(bytes > left, TD_ERR_FORMAT, "the directory ends inside an entry, at byte %" PRIu64, *at);
    TD_FAIL_IF(name_bytes == 0 || name_bytes > TD_ZIP_MAX_NAME_BYTES, TD_ERR_FORMAT,
               "an entry's name has %zu bytes; it can have from 1 to %d", name_bytes, TD_ZIP_MAX_NAME_BYTES);
    *entry = (td_zip_entry){.name = (const char *)row + CENTRAL_BYTES,
                            .name_bytes = name_bytes,
                            .crc = td_read_u32(row + 16),
                            .bytes = td_read_u32(row + 24),
                            .header = td_read_u32(row + 42)};
    uint64_t stored = td_read_u32(row + 20);
    *at += bytes;
    TD_TRY(read_zip64(row + CENTRAL_BYTES + name_bytes, extra_bytes, &entry->bytes, &stored, &entry->header));
    TD_FAIL_IF((td_read_u16(row + 8) & FLAG_ENCRYPTED) != 0, TD_ERR_UNSUPPORTED, "it is encrypted");
    TD_FAIL_IF(td_read_u16(row + 10) != 0, TD_ERR_UNSUPPORTED,
               "it is compressed (method %u), which torch.save() never does", td_read_u16(row + 10));
    TD_FAIL_IF(stored != entry->bytes, TD_ERR_FORMAT, "it has %" PRIu64 " bytes or %" PRIu64, stored,
               entry->bytes);
    TD_TRY(find_data(content, d, entry));
fail:
    if (status != TD_OK && entry->name != NULL)
        (void)td_error_context("entry '%.*s'", (int)entry->name_bytes, entry->name);
    return status;
}

/* ---------------------------------------------------------------- all entries together */

static int compare_text(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    const int order = memcmp(a, b, a_bytes < b_bytes ? a_bytes : b_bytes);
    return order != 0 ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

static int compare_names(const void *a, const void *b)
{
    const td_zip_entry *x = a, *y = b;
    return compare_text(x->name, x->name_bytes, y->name, y->name_bytes);
}

static int compare_places(const void *a, const void *b)
{
    const td_zip_entry *x = a, *y = b;
    return (x->header > y->header) - (x->header < y->header);
}

/* Entries that share bytes would let a small file unfold into a large one. */
static td_status check_places(td_zip *zip, const unsigned char *content)
{
    qsort(zip->entries, zip->n_entries, sizeof *zip->entries, compare_places);
    for (size_t i = 1; i < zip->n_entries; i++) {
        const td_zip_entry *before = &zip->entries[i - 1], *entry = &zip->entries[i];
        TD_REFUSE_IF((uint64_t)(before->data - content) + before->bytes > entry->header, TD_ERR_FORMAT,
                     "entries '%.*s' and '%.*s' overlap", (int)before->name_bytes, before->name,
                     (int)entry->name_bytes, entry->name);
    }
    return TD_OK;
}

static td_status check_names(td_zip *zip)
{
    qsort(zip->entries, zip->n_entries, sizeof *zip->entries, compare_names);
    for (size_t i = 1; i < zip->n_entries; i++)
        TD_REFUSE_IF(compare_names(&zip->entries[i - 1], &zip->entries[i]) == 0, TD_ERR_FORMAT,
                     "entry '%.*s' is there twice", (int)zip->entries[i].name_bytes, zip->entries[i].name);
    return TD_OK;
}

bool td_zip_is_one(const void *content, size_t bytes)
{
    return bytes >= 4 && td_read_u32(content) == LOCAL_MARK;
}

td_status td_zip_parse(const void *content, size_t bytes, td_zip **out)
{
    td_status status = TD_OK;
    td_zip *zip = NULL;
    directory d = {0};
    *out = NULL;
    TD_TRY(find_directory(content, bytes, &d));
    TD_TRY(TD_NEW(&zip));
    TD_TRY(TD_NEW_ARRAY(&zip->entries, d.n_entries + 1));
    uint64_t at = d.begin;
    for (; zip->n_entries < d.n_entries; zip->n_entries++)
        TD_TRY(read_entry(content, &d, &at, &zip->entries[zip->n_entries]));
    TD_TRY(check_places(zip, content));
    TD_TRY(check_names(zip));
    *out = zip;
    return TD_OK;
fail:
    td_zip_close(zip);
    return status;
}

void td_zip_close(td_zip *zip)
{
    if (zip == NULL) return;
    free(zip->entries);
    free(zip);
}

size_t td_zip_count(const td_zip *zip)
{
    return zip->n_entries;
}

const td_zip_entry *td_zip_at(const td_zip *zip, size_t i)
{
    return &zip->entries[i];
}

const td_zip_entry *td_zip_find(const td_zip *zip, const char *name)
{
    const td_zip_entry key = {.name = name, .name_bytes = strlen(name)};
    if (zip->n_entries == 0) return NULL;
    return bsearch(&key, zip->entries, zip->n_entries, sizeof key, compare_names);
}
