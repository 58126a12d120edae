/* One file per blob: a header in which every byte is checked, then the payload. Writing is atomic, so readers
 * in other threads and processes see whole files. Covered by tests/unit/test_blob_cache.c. */
#include "base/blob_cache.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"

enum { BLOB_VERSION = 1, BLOB_MAX_BYTES = 1 << 30 };

static const char BLOB_MAGIC[8] = {'T', 'D', 'B', 'L', 'O', 'B', '\r', '\n'};

/* In the machine's byte order: a cache of a foreign machine shows as a wrong version. */
typedef struct blob_header {
    char magic[8];
    uint64_t version;
    td_digest key;
    uint64_t payload_bytes;
    uint64_t payload_hash;
} blob_header;

static_assert(sizeof(blob_header) == 48, "the header has no padding");

struct td_blob_cache {
    char dir[TD_FILE_PATH_BYTES]; /* "" = off */
    td_log_once_flag unusable;
    atomic_uint_least64_t hits;
    atomic_uint_least64_t misses;
    atomic_uint_least64_t stores;
};

td_status td_blob_cache_open(const char *dir, td_blob_cache **out)
{
    td_status status = TD_NEW(out);
    if (status != TD_OK) return status;
    int length = snprintf((*out)->dir, sizeof(*out)->dir, "%s", dir ? dir : "");
    if (length >= TD_FILE_PATH_BYTES) {
        td_log_once(&(*out)->unusable, TD_LOG_WARN,
                    "cache off: the name of its folder has %d bytes; choose a shorter one", length);
        (*out)->dir[0] = '\0';
    }
    return TD_OK;
}

void td_blob_cache_close(td_blob_cache *cache)
{
    free(cache);
}

/* False when the cache is off or the path too long, which the folder's warning covers. */
static bool make_path(td_blob_cache *cache, const char *kind, td_digest key, char out[TD_FILE_PATH_BYTES])
{
    assert(*kind && kind[strspn(kind, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0');
    if (!cache->dir[0]) return false;
    int length = snprintf(out, TD_FILE_PATH_BYTES, "%s/%s-%016" PRIx64 "%016" PRIx64 ".blob", cache->dir,
                          kind, key.high, key.low);
    if (length < TD_FILE_PATH_BYTES) return true;
    td_log_once(&cache->unusable, TD_LOG_WARN,
                "cache off: paths under '%s' are too long; choose another folder", cache->dir);
    return false;
}

/* NULL if the file is whole and belongs to the key, otherwise what is wrong with it. */
static const char *find_damage(const char *data, size_t bytes, td_digest key)
{
    blob_header header;
    if (bytes < sizeof header) return "it is cut short";
    memcpy(&header, data, sizeof header);
    if (memcmp(header.magic, BLOB_MAGIC, sizeof BLOB_MAGIC) != 0) return "it is not a cache file";
    if (header.version != BLOB_VERSION) return "it is of another version";
    if (header.key.low != key.low || header.key.high != key.high) return "it belongs to another key";
    if (header.payload_bytes != bytes - sizeof header) return "its size is wrong";
    if (header.payload_hash != td_hash64(data + sizeof header, bytes - sizeof header))
        return "its checksum is wrong";
    return NULL;
}

/* Says what is wrong and takes the file away, so that it is said once. Where it cannot be taken away the
 * folder is not usable, which is also said once. */
static void reject_file(td_blob_cache *cache, const char *path, const char *reason)
{
    if (unlink(path) == 0) {
        td_log_warn("cache file '%s' is not used: %s; it is rebuilt", path, reason);
    } else {
        td_log_once(&cache->unusable, TD_LOG_WARN,
                    "cache file '%s' is not used: %s; it cannot be removed either (%s), remove it by hand",
                    path, reason, strerrordesc_np(errno));
    }
}

/* Of a file that td_file_read() refused: one that is there and sound is not taken away because this process
 * has no memory, no permission or too many files open. */
static void judge_unreadable(td_blob_cache *cache, const char *path)
{
    const td_error *error = td_error_last();
    if (error->status == TD_ERR_NOT_FOUND) return; /* another process was faster */
    if (error->status == TD_ERR_LIMIT || strcmp(error->native, "EIO") == 0) {
        reject_file(cache, path, error->message);
    } else {
        td_log_once(&cache->unusable, TD_LOG_WARN, "cache folder '%s' cannot be read, going on without: %s",
                    cache->dir, error->message);
    }
}

/* The payload (owned) or NULL. */
static char *read_payload(td_blob_cache *cache, const char *path, td_digest key, size_t *bytes)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        /* Not there yet, or a file instead of the folder, which the first store will report. */
        if (errno == ENOENT || errno == ENOTDIR) return NULL;
        td_log_once(&cache->unusable, TD_LOG_WARN, "cache folder '%s' cannot be read (%s), going on without",
                    cache->dir, strerrordesc_np(errno));
        return NULL;
    }
    /* Anything but a regular file might block the reader forever, as a named pipe does. */
    if (!S_ISREG(info.st_mode)) {
        reject_file(cache, path, "it is not a regular file");
        return NULL;
    }
    char *data;
    size_t file_bytes;
    if (td_file_read(path, sizeof(blob_header) + BLOB_MAX_BYTES, &data, &file_bytes) != TD_OK) {
        judge_unreadable(cache, path);
        return NULL;
    }
    const char *damage = find_damage(data, file_bytes, key);
    if (damage) {
        reject_file(cache, path, damage);
        free(data);
        return NULL;
    }
    *bytes = file_bytes - sizeof(blob_header);
    memmove(data, data + sizeof(blob_header), *bytes);
    return data;
}

bool td_blob_cache_load(td_blob_cache *cache, const char *kind, td_digest key, void **data, size_t *bytes)
{
    char path[TD_FILE_PATH_BYTES];
    *data = NULL;
    *bytes = 0;
    if (make_path(cache, kind, key, path)) *data = read_payload(cache, path, key, bytes);
    atomic_fetch_add(*data ? &cache->hits : &cache->misses, 1);
    return *data != NULL;
}

static td_status write_blob(const char *dir, const char *path, td_digest key, const void *data, size_t bytes)
{
    blob_header header = {.version = BLOB_VERSION, .key = key, .payload_bytes = bytes};
    memcpy(header.magic, BLOB_MAGIC, sizeof header.magic);
    header.payload_hash = td_hash64(data, bytes);
    td_file_writer *writer = NULL;
    td_status status = TD_OK;
    TD_TRY(td_file_make_dirs(dir));
    TD_TRY(td_file_writer_open(path, &writer));
    TD_TRY(td_file_writer_write(writer, &header, sizeof header));
    TD_TRY(td_file_writer_write(writer, data, bytes));
    TD_TRY(td_file_writer_commit(writer));
fail:
    td_file_writer_close(writer);
    return status;
}

void td_blob_cache_store(td_blob_cache *cache, const char *kind, td_digest key, const void *data,
                         size_t bytes)
{
    char path[TD_FILE_PATH_BYTES];
    if (bytes > BLOB_MAX_BYTES || !make_path(cache, kind, key, path)) return;
    if (write_blob(cache->dir, path, key, data, bytes) == TD_OK) {
        atomic_fetch_add(&cache->stores, 1);
    } else {
        td_log_once(&cache->unusable, TD_LOG_WARN, "cache folder '%s' cannot be used, going on without: %s",
                    cache->dir, td_error_last()->message);
    }
}

td_blob_cache_stats td_blob_cache_count(const td_blob_cache *cache)
{
    return (td_blob_cache_stats){.hits = atomic_load(&cache->hits),
                                 .misses = atomic_load(&cache->misses),
                                 .stores = atomic_load(&cache->stores)};
}
