/* Loaded before the program under test (LD_PRELOAD): counts its calls that touch files below one folder, and
 * lets the n-th of them end or fail. So a moment is a place in the program, which comes again, not a time.
 *
 *   TANDEM_FAULT_UNDER=DIR     the folder; files elsewhere (drivers, system) are left alone
 *   TANDEM_FAULT=ACTION:N[:ever]   list: only list; kill: SIGKILL in the middle of call N (a write is made
 *                                  by half); an errno's name: call N, and with "ever" all after it, fails so
 *   TANDEM_FAULT_LOG=FILE      gets "fired CALL PATH", or "CALL PATH" of each if they are listed
 *   TANDEM_FAULT_FREE=BYTES    what statvfs() tells of free space, for all file systems
 *   TANDEM_FAULT_CLOCK=SECONDS the wall clock jumps to and fro by this much, at each look
 *
 * Used by the scripts in tests/faults. Not for the product. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SEEN_ERROR = 0x20 }; /* of FILE._flags: what ferror() tells */

static struct {
    char under[PATH_MAX];
    const char *log;
    unsigned long n;
    bool lists, kills, lasts, armed;
    int error;
    atomic_ulong calls;
} fault;

#define REAL(name) ((__typeof__(&name))find(#name))

static void *find(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

static void put_log(const char *what, const char *call, const char *path)
{
    char line[PATH_MAX + 64];
    if (fault.log == NULL) return;
    snprintf(line, sizeof line, "%s%s %s\n", what, call, path);
    const int fd = (int)syscall(SYS_openat, AT_FDCWD, fault.log, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (fd < 0) return;
    (void)!syscall(SYS_write, fd, line, strlen(line));
    syscall(SYS_close, fd);
}

static int parse_error(const char *name)
{
    static const int ERRORS[] = {ENOSPC, EIO, EACCES, EROFS, EDQUOT, EMFILE};
    for (size_t i = 0; i < sizeof ERRORS / sizeof ERRORS[0]; ++i)
        if (strcmp(strerrorname_np(ERRORS[i]), name) == 0) return ERRORS[i];
    return 0;
}

__attribute__((constructor)) static void begin(void)
{
    const char *under = getenv("TANDEM_FAULT_UNDER"), *text = getenv("TANDEM_FAULT");
    char action[32] = "", lasts[16] = "";
    fault.log = getenv("TANDEM_FAULT_LOG");
    if (under == NULL || text == NULL || realpath(under, fault.under) == NULL) return;
    sscanf(text, "%31[^:]:%lu:%15s", action, &fault.n, lasts);
    fault.lists = strcmp(action, "list") == 0;
    fault.kills = strcmp(action, "kill") == 0;
    fault.lasts = strcmp(lasts, "ever") == 0;
    fault.error = parse_error(action);
    fault.armed = true;
}

/* ---------------------------------------------------------------- judging a call */

static bool is_watched(const char *path)
{
    const size_t bytes = strlen(fault.under);
    return fault.armed && strncmp(path, fault.under, bytes) == 0 && (path[bytes] == '/' || path[bytes] == 0);
}

/* True if the call is the one, or one of those, that go wrong. */
static bool meets(const char *call, const char *path)
{
    if (!is_watched(path)) return false;
    if (fault.lists) put_log("", call, path);
    const unsigned long number = atomic_fetch_add(&fault.calls, 1) + 1;
    if (number != fault.n && !(fault.lasts && fault.n > 0 && number > fault.n)) return false;
    if (!fault.kills && fault.error == 0) return false;
    if (number == fault.n) put_log("fired ", call, path);
    errno = fault.error;
    return true;
}

static void die(void)
{
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

static bool fails(const char *call, const char *path)
{
    const bool met = meets(call, path);
    if (met && fault.kills) die();
    return met;
}

static const char *path_of(int fd, char out[PATH_MAX])
{
    char link[64];
    const int before = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t bytes = readlink(link, out, PATH_MAX - 1);
    out[bytes > 0 ? bytes : 0] = '\0';
    errno = before;
    return out;
}

static bool fails_at(const char *call, int fd)
{
    char path[PATH_MAX];
    return fault.armed && fails(call, path_of(fd, path));
}

/* ---------------------------------------------------------------- calls on names */

#define OPEN(name)                                                                                           \
    int name(const char *path, int flags, ...)                                                               \
    {                                                                                                        \
        va_list more;                                                                                        \
        va_start(more, flags);                                                                               \
        const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;                 \
        va_end(more);                                                                                        \
        return fails("open", path) ? -1 : REAL(name)(path, flags, mode);                                     \
    }
OPEN(open)
OPEN(open64)

#define FOPEN(name)                                                                                          \
    FILE *name(const char *path, const char *mode)                                                           \
    {                                                                                                        \
        return fails("fopen", path) ? NULL : REAL(name)(path, mode);                                         \
    }
FOPEN(fopen)
FOPEN(fopen64)

int rename(const char *from, const char *to)
{
    return fails("rename", to) ? -1 : REAL(rename)(from, to);
}

int unlink(const char *path)
{
    return fails("unlink", path) ? -1 : REAL(unlink)(path);
}

int mkdir(const char *path, mode_t mode)
{
    return fails("mkdir", path) ? -1 : REAL(mkdir)(path, mode);
}

#define STAT(name)                                                                                           \
    int name(const char *restrict path, struct stat *restrict out)                                           \
    {                                                                                                        \
        return fails("stat", path) ? -1 : REAL(name)(path, out);                                             \
    }
STAT(stat)
STAT(lstat)

char *realpath(const char *restrict path, char *restrict out)
{
    return fails("realpath", path) ? NULL : REAL(realpath)(path, out);
}

char *__realpath_chk(const char *path, char *out, size_t bytes) /* what a hardened program calls */
{
    (void)bytes;
    return realpath(path, out);
}

DIR *opendir(const char *path)
{
    return fails("opendir", path) ? NULL : REAL(opendir)(path);
}

/* ---------------------------------------------------------------- calls on descriptors */

ssize_t write(int fd, const void *data, size_t bytes)
{
    char path[PATH_MAX];
    if (!fault.armed || !meets("write", path_of(fd, path))) return syscall(SYS_write, fd, data, bytes);
    if (!fault.kills) return -1;
    (void)!syscall(SYS_write, fd, data, bytes / 2);
    die();
    return -1;
}

ssize_t read(int fd, void *data, size_t bytes)
{
    return fails_at("read", fd) ? -1 : syscall(SYS_read, fd, data, bytes);
}

int fsync(int fd)
{
    return fails_at("fsync", fd) ? -1 : REAL(fsync)(fd);
}

int flock(int fd, int operation)
{
    return fails_at("flock", fd) ? -1 : REAL(flock)(fd, operation);
}

off_t lseek(int fd, off_t offset, int whence)
{
    return fails_at("lseek", fd) ? -1 : REAL(lseek)(fd, offset, whence);
}

int fstat(int fd, struct stat *out)
{
    return fails_at("fstat", fd) ? -1 : REAL(fstat)(fd, out);
}

/* What the operating system does with a file that is closed is done; only the answer is a failure. */
int close(int fd)
{
    const bool failed = fails_at("close", fd);
    const int error = errno, result = REAL(close)(fd);
    if (!failed) return result;
    errno = error;
    return -1;
}

struct dirent *readdir(DIR *dir)
{
    return fails_at("readdir", dirfd(dir)) ? NULL : REAL(readdir)(dir);
}

int ftruncate(int fd, off_t bytes)
{
    return fails_at("ftruncate", fd) ? -1 : REAL(ftruncate)(fd, bytes);
}

#define MMAP(name)                                                                                           \
    void *name(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)                      \
    {                                                                                                        \
        if (fd >= 0 && fails_at("mmap", fd)) return MAP_FAILED;                                              \
        return REAL(name)(at, bytes, protection, flags, fd, offset);                                         \
    }
MMAP(mmap)
MMAP(mmap64)

/* ---------------------------------------------------------------- streams */

/* As the stream would do it, by half, if it is killed. */
static bool fails_in(const char *call, FILE *file, const void *data, size_t bytes)
{
    char path[PATH_MAX];
    if (!fault.armed || file == NULL || fileno(file) < 0) return false;
    if (!meets(call, path_of(fileno(file), path))) return false;
    if (fault.kills) {
        (void)!syscall(SYS_write, fileno(file), data, bytes / 2);
        die();
    }
    file->_flags |= SEEN_ERROR;
    return true;
}

size_t fwrite(const void *data, size_t size, size_t count, FILE *file)
{
    if (fails_in("fwrite", file, data, size * count)) return 0;
    return REAL(fwrite)(data, size, count, file);
}

int fflush(FILE *file)
{
    const char *from = file != NULL ? file->_IO_write_base : NULL;
    if (fails_in("fflush", file, from, file != NULL ? (size_t)(file->_IO_write_ptr - from) : 0)) return EOF;
    return REAL(fflush)(file);
}

/* ---------------------------------------------------------------- room and time */

static uint64_t free_blocks(uint64_t block_bytes, uint64_t otherwise)
{
    const char *text = getenv("TANDEM_FAULT_FREE");
    return text != NULL && block_bytes > 0 ? strtoull(text, NULL, 10) / block_bytes : otherwise;
}

#define STATVFS(name, type)                                                                                  \
    int name(const char *path, struct type *out)                                                             \
    {                                                                                                        \
        const int result = fails("statvfs", path) ? -1 : REAL(name)(path, out);                              \
        if (result == 0) out->f_bavail = free_blocks(out->f_frsize, out->f_bavail);                          \
        return result;                                                                                       \
    }
STATVFS(statvfs, statvfs)
STATVFS(statvfs64, statvfs64)

static time_t jump(void)
{
    static atomic_uint looks;
    const char *text = getenv("TANDEM_FAULT_CLOCK");
    if (text == NULL) return 0;
    return (atomic_fetch_add(&looks, 1) % 2 == 0 ? -1 : 1) * (time_t)atol(text);
}

time_t time(time_t *out)
{
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
    const time_t seconds = now.tv_sec + jump();
    if (out != NULL) *out = seconds;
    return seconds;
}

int clock_gettime(clockid_t id, struct timespec *out)
{
    const long result = syscall(SYS_clock_gettime, id, out);
    if (result == 0 && id == CLOCK_REALTIME) out->tv_sec += jump();
    return (int)result;
}
