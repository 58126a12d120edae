/* Atomic writing (temporary sibling, sync, rename, directory sync), whole-file reading, folders.
 * Covered by tests/unit/test_file.c. */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

enum { MAX_TEMPORARY_NAMES = 1000, LIKELY_FILE_BYTES = 4096 };

struct td_file_writer {
    int fd;         /* -1 once closed */
    bool failed;    /* a write or the commit failed: what the temporary holds is not whole */
    bool committed; /* the temporary has become the file */
    char path[TD_FILE_PATH_BYTES];
    char temporary[TD_FILE_PATH_BYTES];
};

static const char *suggest_remedy(int error)
{
    switch (error) {
    case ENOSPC:
    case EDQUOT:
        return "free space there or choose another folder";
    case EACCES:
    case EPERM:
        return "check the permissions or choose another path";
    case EROFS:
        return "the file system is read-only: choose another path";
    case ENOENT:
        return "check that the path is spelt right and its folder exists";
    case ENOTDIR:
    case EEXIST:
        return "a part of the path is a file where a folder is needed: remove it or choose another path";
    case EISDIR:
        return "a folder is in its place: remove it or choose another path";
    case EMFILE:
    case ENFILE:
        return "raise the limit of open files (ulimit -n) or close other programs";
    case ENAMETOOLONG:
        return "choose a shorter path";
    case EFBIG:
        return "raise the limit of the file size (ulimit -f) or choose another file system";
    default:
        return "check the disk and the path, then try again";
    }
}

static td_status fail_with_errno(int error, const char *action, const char *path)
{
    const char *name = strerrorname_np(error);
    const char *reason = strerrordesc_np(error);
    td_status status = error == ENOENT ? TD_ERR_NOT_FOUND : error == ENOMEM ? TD_ERR_HOST_MEMORY : TD_ERR_IO;
    return TD_FAIL_NATIVE(status, name, "cannot %s '%s': %s; %s", action, path,
                          reason ? reason : "unknown error", suggest_remedy(error));
}

static td_status copy_path(char out[TD_FILE_PATH_BYTES], const char *path)
{
    int length = snprintf(out, TD_FILE_PATH_BYTES, "%s", path);
    if (length >= TD_FILE_PATH_BYTES) return fail_with_errno(ENAMETOOLONG, "use", path);
    return TD_OK;
}

/* The process id keeps other processes out; O_EXCL and counting keep threads and left-overs out. */
static td_status open_temporary(td_file_writer *writer)
{
    for (int n = 0; n < MAX_TEMPORARY_NAMES; ++n) {
        int length = snprintf(writer->temporary, sizeof writer->temporary, "%s.tmp-%ld-%d", writer->path,
                              (long)getpid(), n);
        if (length >= (int)sizeof writer->temporary)
            return fail_with_errno(ENAMETOOLONG, "write", writer->path);
        writer->fd = open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (writer->fd >= 0) return TD_OK;
        if (errno != EEXIST && errno != EINTR) return fail_with_errno(errno, "write", writer->path);
    }
    return TD_FAIL(TD_ERR_IO, "cannot write '%s': %d left-over files '%s.tmp-*' are in the way; remove them",
                   writer->path, MAX_TEMPORARY_NAMES, writer->path);
}

td_status td_file_writer_open(const char *path, td_file_writer **out)
{
    td_status status = TD_OK;
    td_file_writer *writer = NULL;
    *out = NULL;
    TD_TRY(TD_NEW(&writer));
    writer->fd = -1;
    TD_TRY(copy_path(writer->path, path));
    TD_TRY(open_temporary(writer));
    *out = writer;
    return TD_OK;
fail:
    free(writer);
    return status;
}

td_status td_file_writer_write(td_file_writer *writer, const void *data, size_t bytes)
{
    const char *from = data;
    while (bytes > 0) {
        ssize_t written = write(writer->fd, from, bytes);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) {
            writer->failed = true;
            return fail_with_errno(written < 0 ? errno : ENOSPC, "write", writer->path);
        }
        from += written;
        bytes -= (size_t)written;
    }
    return TD_OK;
}

static int sync_descriptor(int fd)
{
    while (fsync(fd) != 0)
        if (errno != EINTR) return errno;
    return 0;
}

/* Makes the rename itself durable. File systems that cannot sync a folder say EINVAL: nothing more can be
 * done. */
static int sync_parent(const char *path)
{
    char folder[TD_FILE_PATH_BYTES];
    snprintf(folder, sizeof folder, "%s", path);
    int fd = open(dirname(folder), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return errno == EACCES ? 0 : errno; /* a folder may be writable but not readable */
    int error = sync_descriptor(fd);
    close(fd);
    return error == EINVAL ? 0 : error;
}

td_status td_file_writer_commit(td_file_writer *writer)
{
    if (writer->failed || writer->committed) {
        return TD_FAIL(TD_ERR_ARGUMENT,
                       "cannot commit '%s': it was committed or failed before; open a new writer",
                       writer->path);
    }
    writer->failed = true; /* until all is done */
    int error = sync_descriptor(writer->fd);
    if (close(writer->fd) != 0 && !error && errno != EINTR) error = errno;
    writer->fd = -1;
    if (error) return fail_with_errno(error, "write", writer->path);
    if (rename(writer->temporary, writer->path) != 0) return fail_with_errno(errno, "replace", writer->path);
    writer->committed = true;
    writer->failed = false;
    error = sync_parent(writer->path);
    return error ? fail_with_errno(error, "make durable", writer->path) : TD_OK;
}

void td_file_writer_close(td_file_writer *writer)
{
    if (!writer) return;
    if (writer->fd >= 0) close(writer->fd);
    if (!writer->committed) unlink(writer->temporary);
    free(writer);
}

td_status td_file_write_atomic(const char *path, const void *data, size_t bytes)
{
    td_file_writer *writer;
    td_status status = TD_OK;
    TD_TRY(td_file_writer_open(path, &writer));
    TD_TRY(td_file_writer_write(writer, data, bytes));
    TD_TRY(td_file_writer_commit(writer));
fail:
    td_file_writer_close(writer);
    return status;
}

static td_status fail_too_large(const char *path, size_t max_bytes)
{
    return TD_FAIL(TD_ERR_LIMIT,
                   "'%s' is larger than the %zu bytes allowed here; check that it is the right file", path,
                   max_bytes);
}

/* Reads to the end of the file; one byte of *buffer always stays free for the zero. */
static td_status read_all(int fd, const char *path, size_t max_bytes, size_t likely_bytes, char **buffer,
                          size_t *bytes)
{
    size_t capacity = 0;
    td_status status = td_alloc_grow(buffer, &capacity, likely_bytes + 2, 1);
    *bytes = 0;
    while (status == TD_OK) {
        ssize_t got = read(fd, *buffer + *bytes, capacity - *bytes - 1);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail_with_errno(errno, "read", path);
        if (got == 0) return TD_OK;
        *bytes += (size_t)got;
        if (*bytes > max_bytes) return fail_too_large(path, max_bytes);
        status = td_alloc_grow(buffer, &capacity, *bytes + 2, 1);
    }
    return status;
}

td_status td_file_read(const char *path, size_t max_bytes, char **data, size_t *bytes)
{
    td_status status = TD_OK;
    char *buffer = NULL;
    struct stat info;
    *data = NULL;
    *bytes = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail_with_errno(errno, "open", path);
    /* The size spares growing, but is not relied on: the file may be a pipe, or change while it is read. */
    size_t likely_bytes = LIKELY_FILE_BYTES;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0) {
        if ((uintmax_t)info.st_size > max_bytes) {
            status = fail_too_large(path, max_bytes);
            goto fail;
        }
        likely_bytes = (size_t)info.st_size;
    }
    TD_TRY(read_all(fd, path, max_bytes, likely_bytes, &buffer, bytes));
    buffer[*bytes] = '\0';
    *data = buffer;
    buffer = NULL;
fail:
    close(fd);
    free(buffer);
    if (status != TD_OK) *bytes = 0;
    return status;
}

static bool is_dir(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

td_status td_file_make_dirs(const char *path)
{
    char prefix[TD_FILE_PATH_BYTES];
    td_status status = copy_path(prefix, path);
    if (status != TD_OK) return status;
    for (char *at = prefix; *at;) {
        at += strspn(at, "/");
        at += strcspn(at, "/");
        char kept = *at;
        *at = '\0';
        if (mkdir(prefix, 0777) != 0) {
            int error = errno;
            if (!is_dir(prefix)) return fail_with_errno(error, "create the folder", prefix);
        }
        *at = kept;
    }
    return TD_OK;
}

bool td_file_exists(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

bool td_file_is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

td_status td_file_size(const char *path, uint64_t *bytes)
{
    struct stat info;
    *bytes = 0;
    if (stat(path, &info) != 0) return fail_with_errno(errno, "look at", path);
    if (!S_ISREG(info.st_mode))
        return TD_FAIL(TD_ERR_IO, "'%s' is a folder, a pipe or a device where a file should be; remove it",
                       path);
    *bytes = (uint64_t)info.st_size;
    return TD_OK;
}

td_status td_file_map(const char *path, td_file_mapping *out)
{
    td_status status = TD_OK;
    struct stat info;
    *out = (td_file_mapping){0};
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is refused, not waited for */
    if (fd < 0 || fstat(fd, &info) != 0) {
        status = fail_with_errno(errno, "open", path);
        goto fail;
    }
    TD_FAIL_IF(!S_ISREG(info.st_mode), TD_ERR_FORMAT,
               "'%.200s' is not a regular file and cannot be mapped; name another one", path);
    if (info.st_size > 0) {
        void *mapped = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (mapped == MAP_FAILED) {
            status = fail_with_errno(errno, "map", path);
            goto fail;
        }
        *out = (td_file_mapping){.data = mapped, .bytes = (size_t)info.st_size};
    }
fail:
    if (fd >= 0) close(fd);
    return status;
}

void td_file_unmap(td_file_mapping *mapping)
{
    if (mapping->data) munmap((void *)mapping->data, mapping->bytes);
    *mapping = (td_file_mapping){0};
}

void td_file_forget(const td_file_mapping *mapping, const void *data, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t begin = (size_t)((const char *)data - (const char *)mapping->data) / page * page;
    const size_t end = (size_t)((const char *)data - (const char *)mapping->data) + bytes;
    /* Advice: what fails costs memory, not correctness. */
    if (mapping->data && bytes > 0) (void)madvise((char *)mapping->data + begin, end - begin, MADV_DONTNEED);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static td_status add_name(td_file_names *names, size_t *capacity, const char *name)
{
    const size_t bytes = strlen(name) + 1;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return TD_OK;
    TD_CHECK(td_alloc_grow(&names->at, capacity, names->count + 1, sizeof *names->at));
    TD_CHECK(td_alloc_zeroed(bytes, 1, &names->at[names->count]));
    memcpy(names->at[names->count++], name, bytes);
    return TD_OK;
}

td_status td_file_list(const char *folder, td_file_names *out)
{
    td_status status = TD_OK;
    size_t capacity = 0;
    *out = (td_file_names){0};
    DIR *dir = opendir(folder);
    if (dir == NULL) return fail_with_errno(errno, "read the folder", folder);
    for (;;) {
        errno = 0; /* which alone tells a failure from the end */
        const struct dirent *entry = readdir(dir);
        if (entry == NULL) break;
        TD_TRY(add_name(out, &capacity, entry->d_name));
    }
    if (errno != 0) TD_TRY(fail_with_errno(errno, "read the folder", folder));
    if (out->count > 1) qsort(out->at, out->count, sizeof *out->at, compare_names);
fail:
    closedir(dir);
    if (status != TD_OK) td_file_names_free(out);
    return status;
}

void td_file_names_free(td_file_names *names)
{
    for (size_t i = 0; i < names->count; ++i)
        free(names->at[i]);
    free(names->at);
    *names = (td_file_names){0};
}

td_status td_file_cache_dir(const char *override, char out[TD_FILE_PATH_BYTES])
{
    if (override) return copy_path(out, override);
    const char *base = getenv("XDG_CACHE_HOME");
    const char *middle = "";
    if (!base || base[0] != '/') { /* the XDG rules say to ignore a relative one */
        base = getenv("HOME");
        middle = "/.cache";
    }
    if (!base || !*base) {
        return TD_FAIL(TD_ERR_NOT_FOUND, "no folder for caches: neither XDG_CACHE_HOME nor HOME is set; "
                                         "set one of them, or name a folder in data.cache_dir");
    }
    int length = snprintf(out, TD_FILE_PATH_BYTES, "%s%s/tandem", base, middle);
    if (length >= TD_FILE_PATH_BYTES) return fail_with_errno(ENAMETOOLONG, "use", base);
    return TD_OK;
}
