/* Files: atomic writing, whole-file reading, folders. A reader of a path written here sees the old content or
 * the new one, never a part, also after a crash or a power cut. Messages name the path, the system's reason
 * and the next step; td_error.native holds the errno name ("ENOSPC"). Covered by tests/unit/test_file.c.
 */
#ifndef TD_BASE_FILE_H
#define TD_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tandem/status.h"

enum { TD_FILE_PATH_BYTES = 4096 };

/* Replaces `path` by these bytes: temporary sibling, sync, rename, directory sync. On failure the old file is
 * untouched and the temporary is removed. The folder must exist. */
td_status td_file_write_atomic(const char *path, const void *data, size_t bytes);

/* The same in pieces. Each write is a system call, so write large pieces. */
typedef struct td_file_writer td_file_writer;

/* *out: owned, td_file_writer_close(). */
td_status td_file_writer_open(const char *path, td_file_writer **out);
td_status td_file_writer_write(td_file_writer *writer, const void *data, size_t bytes);

/* Makes the content durable and puts it at `path`. Nothing may be written afterwards. After a failed write it
 * refuses. */
td_status td_file_writer_commit(td_file_writer *writer);

/* Frees the writer; without a successful commit the temporary is removed and `path` stays as it was. */
void td_file_writer_close(td_file_writer *writer);

/* The whole file in *data (owned, free()), followed by a zero byte that *bytes does not count. A file larger
 * than `max_bytes` is TD_ERR_LIMIT, a missing one TD_ERR_NOT_FOUND. On failure *data is NULL. */
td_status td_file_read(const char *path, size_t max_bytes, char **data, size_t *bytes);

/* A file mapped for reading: opening costs nothing, data is read when touched. Replacing the file by another
 * meanwhile is harmless; cutting it short in place ends the program when the lost part is touched. */
typedef struct td_file_mapping {
    const void *data; /* NULL for an empty file */
    size_t bytes;
} td_file_mapping;

/* *out: owned, td_file_unmap(). What is no regular file is TD_ERR_FORMAT. */
td_status td_file_map(const char *path, td_file_mapping *out);
void td_file_unmap(td_file_mapping *mapping);

/* These bytes of it are not needed for a while and need not stay in memory. */
void td_file_forget(const td_file_mapping *mapping, const void *data, size_t bytes);

/* Creates the folder and its parents where missing. */
td_status td_file_make_dirs(const char *path);

/* False if nothing is at `path`. What cannot be examined counts as existing: opening it reports why. */
bool td_file_exists(const char *path);

/* How large a file is. TD_ERR_IO for what is not a regular file. */
td_status td_file_size(const char *path, uint64_t *bytes);

/* The names in a folder, sorted, without "." and "..". */
typedef struct td_file_names {
    char **at;
    size_t count;
} td_file_names;

/* *out: owned, td_file_names_free(). A missing folder is TD_ERR_NOT_FOUND. On failure there are no names,
 * also if some could be read: half a list looks like a whole one. */
td_status td_file_list(const char *folder, td_file_names *out);
void td_file_names_free(td_file_names *names);

/* Where caches go: `override` if not NULL, else $XDG_CACHE_HOME/tandem, else ~/.cache/tandem. Not created. */
td_status td_file_cache_dir(const char *override, char out[TD_FILE_PATH_BYTES]);

#endif
