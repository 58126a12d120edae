/* Atomic writing under injected faults, reading, folders (src/base/file.c). The definitions of write, fsync,
 * rename and readdir below stand before those of the C library, so that every system error can be produced on
 * any computer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "base/error.h"
#include "base/file.h"
#include "support/temp_dir.h"

static struct {
    int write_error, fsync_error, rename_error, readdir_error;
    int names_before_error; /* that readdir gives */
    int fail_fsync_number;  /* 1 = first */
    int interruptions;      /* EINTR so many times, for each call */
    size_t short_bytes;     /* at most so many bytes per write; 0 = no limit */
    size_t disk_bytes;      /* ENOSPC past so many; 0 = no limit */
    atomic_int n_fsync;
    atomic_size_t n_written;
} faults;

static bool interrupt(void)
{
    static int left;
    if (faults.interruptions == 0) return false;
    if (left == 0) {
        left = faults.interruptions;
        return false;
    }
    left--;
    errno = EINTR;
    return true;
}

ssize_t write(int fd, const void *data, size_t bytes)
{
    if (fd > 2) {
        if (interrupt()) return -1;
        if (faults.write_error) return errno = faults.write_error, -1;
        if (faults.short_bytes && bytes > faults.short_bytes) bytes = faults.short_bytes;
        if (faults.disk_bytes && faults.n_written + bytes > faults.disk_bytes) {
            bytes = faults.disk_bytes - faults.n_written;
            if (bytes == 0) return errno = ENOSPC, -1;
        }
        faults.n_written += bytes;
    }
    return syscall(SYS_write, fd, data, bytes);
}

int fsync(int fd)
{
    if (interrupt()) return -1;
    faults.n_fsync++;
    if (faults.fsync_error && faults.n_fsync == faults.fail_fsync_number)
        return errno = faults.fsync_error, -1;
    return (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
    if (faults.rename_error) return errno = faults.rename_error, -1;
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

struct dirent *readdir(DIR *dir)
{
    struct dirent *(*real)(DIR *) = (struct dirent * (*)(DIR *)) dlsym(RTLD_NEXT, "readdir");
    if (faults.readdir_error && faults.names_before_error-- == 0) return errno = faults.readdir_error, NULL;
    return real(dir);
}

static int begin(void **state)
{
    memset(&faults, 0, sizeof faults);
    return temp_dir_make(state);
}

static void assert_content(const char *path, const char *expected)
{
    char *data;
    size_t bytes;
    assert_int_equal(td_file_read(path, 1 << 20, &data, &bytes), TD_OK);
    assert_int_equal(bytes, strlen(expected));
    assert_string_equal(data, expected);
    free(data);
}

static void test_write_and_read_back(void **state)
{
    (void)state;
    const char *path = temp_path("file");
    assert_false(td_file_exists(path));
    assert_int_equal(td_file_write_atomic(path, "first", 5), TD_OK);
    assert_true(td_file_exists(path));
    assert_content(path, "first");
    assert_int_equal(faults.n_fsync, 2); /* the file, then its folder */
    assert_int_equal(td_file_write_atomic(path, "2", 1), TD_OK);
    assert_content(path, "2");
    assert_int_equal(td_file_write_atomic(path, NULL, 0), TD_OK);
    assert_content(path, "");
    assert_int_equal(temp_dir_count(temp_dir), 1);
    struct stat info;
    mode_t mask = umask(0);
    umask(mask);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0666 & ~mask);
}

static void test_relative_paths(void **state)
{
    (void)state;
    char before[4096];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(temp_dir), 0);
    td_status plain = td_file_write_atomic("plain", "a", 1);
    td_status made = td_file_make_dirs("x/y/");
    td_status nested = td_file_write_atomic("x/y/z", "b", 1);
    assert_int_equal(chdir(before), 0);
    assert_int_equal(plain, TD_OK);
    assert_int_equal(made, TD_OK);
    assert_int_equal(nested, TD_OK);
    assert_content(temp_path("plain"), "a");
    assert_content(temp_path("x/y/z"), "b");
}

static void test_interrupted_and_short_writes_are_completed(void **state)
{
    (void)state;
    char text[2000];
    memset(text, 'q', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    faults.interruptions = 2;
    faults.short_bytes = 7;
    assert_int_equal(td_file_write_atomic(temp_path("file"), text, strlen(text)), TD_OK);
    assert_content(temp_path("file"), text);
}

static void assert_failure(td_status got, td_status expected, const char *native, const char *remedy)
{
    assert_int_equal(got, expected);
    assert_int_equal(td_error_last()->status, expected);
    assert_string_equal(td_error_last()->native, native);
    assert_non_null(strstr(td_error_last()->message, "/file"));
    assert_non_null(strstr(td_error_last()->message, remedy));
    assert_null(strchr(td_error_last()->message, '\n'));
}

static void test_failures_leave_the_old_file(void **state)
{
    (void)state;
    const char *path = temp_path("file");
    assert_int_equal(td_file_write_atomic(path, "old", 3), TD_OK);
    for (int k = 0; k < 5; ++k) {
        memset(&faults, 0, sizeof faults);
        const char *native = "EIO";
        if (k == 0) faults.write_error = EIO;
        if (k == 1) faults.fsync_error = EIO, faults.fail_fsync_number = 1;
        if (k == 2) faults.rename_error = EACCES, native = "EACCES";
        if (k == 3) faults.disk_bytes = 2, native = "ENOSPC";
        if (k == 4) faults.write_error = EFBIG, native = "EFBIG";
        td_status got = td_file_write_atomic(path, "newer", 5);
        const char *remedy = k == 2 ? "permissions" : k == 3 ? "free space" : k == 4 ? "limit" : "disk";
        assert_failure(got, TD_ERR_IO, native, remedy);
        memset(&faults, 0, sizeof faults);
        assert_content(path, "old");
        assert_int_equal(temp_dir_count(temp_dir), 1);
    }
}

static void test_folder_sync_is_reported_unless_impossible(void **state)
{
    (void)state;
    faults.fsync_error = EIO;
    faults.fail_fsync_number = 2;
    assert_failure(td_file_write_atomic(temp_path("file"), "x", 1), TD_ERR_IO, "EIO", "durable");
    assert_int_equal(temp_dir_count(temp_dir), 1);
    memset(&faults, 0, sizeof faults);
    faults.fsync_error = EINVAL;
    faults.fail_fsync_number = 2;
    assert_int_equal(td_file_write_atomic(temp_path("file"), "y", 1), TD_OK);
}

static void test_unusable_places(void **state)
{
    (void)state;
    assert_failure(td_file_write_atomic(temp_path("no/file"), "x", 1), TD_ERR_NOT_FOUND, "ENOENT", "folder");
    assert_int_equal(td_file_make_dirs(temp_path("file")), TD_OK);
    assert_failure(td_file_write_atomic(temp_path("file"), "x", 1), TD_ERR_IO, "EISDIR", "remove");
    assert_int_equal(temp_dir_count(temp_dir), 1);
    char long_path[TD_FILE_PATH_BYTES + 10];
    memset(long_path, 'n', sizeof long_path - 1);
    memcpy(long_path, "/file", 5);
    long_path[sizeof long_path - 1] = '\0';
    assert_int_equal(td_file_write_atomic(long_path, "x", 1), TD_ERR_IO);
    assert_string_equal(td_error_last()->native, "ENAMETOOLONG");
    assert_int_equal(td_file_make_dirs(long_path), TD_ERR_IO);
    long_path[300] = '\0'; /* one name longer than file systems take */
    assert_int_equal(td_file_write_atomic(long_path, "x", 1), TD_ERR_IO);
    assert_string_equal(td_error_last()->native, "ENAMETOOLONG");
}

static void test_writer_pieces_and_giving_up(void **state)
{
    (void)state;
    const char *path = temp_path("file");
    td_file_writer *writer;
    assert_int_equal(td_file_writer_open(path, &writer), TD_OK);
    assert_int_equal(td_file_writer_write(writer, "one ", 4), TD_OK);
    assert_false(td_file_exists(path));
    assert_int_equal(td_file_writer_write(writer, "two", 3), TD_OK);
    assert_int_equal(td_file_writer_commit(writer), TD_OK);
    assert_content(path, "one two");
    assert_int_equal(td_file_writer_commit(writer), TD_ERR_ARGUMENT);
    td_file_writer_close(writer);
    assert_content(path, "one two");

    assert_int_equal(td_file_writer_open(path, &writer), TD_OK);
    assert_int_equal(td_file_writer_write(writer, "given up", 8), TD_OK);
    td_file_writer_close(writer);
    assert_content(path, "one two");
    assert_int_equal(temp_dir_count(temp_dir), 1);
    td_file_writer_close(NULL);
}

static void test_commit_refuses_after_a_failed_write(void **state)
{
    (void)state;
    td_file_writer *writer;
    assert_int_equal(td_file_writer_open(temp_path("file"), &writer), TD_OK);
    faults.write_error = ENOSPC;
    assert_int_equal(td_file_writer_write(writer, "lost", 4), TD_ERR_IO);
    faults.write_error = 0;
    assert_int_equal(td_file_writer_write(writer, "rest", 4), TD_OK);
    assert_int_equal(td_file_writer_commit(writer), TD_ERR_ARGUMENT);
    td_file_writer_close(writer);
    assert_int_equal(temp_dir_count(temp_dir), 0);
}

static atomic_int n_failed_writes;

static void *write_often(void *arg)
{
    char text[4097];
    memset(text, *(char *)arg, sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (int i = 0; i < 30; ++i)
        n_failed_writes += td_file_write_atomic((char *)arg + 1, text, sizeof text - 1) != TD_OK;
    return NULL;
}

static void test_readers_never_see_a_mixture(void **state)
{
    (void)state;
    char args[2][600];
    pthread_t threads[2];
    faults.short_bytes = 500;
    for (int i = 0; i < 2; ++i) {
        snprintf(args[i], sizeof args[i], "%c%s", 'a' + i, temp_path("file"));
        assert_int_equal(pthread_create(&threads[i], NULL, write_often, args[i]), 0);
    }
    for (int i = 0; i < 200; ++i) {
        char *data;
        size_t bytes;
        if (td_file_read(temp_path("file"), 1 << 20, &data, &bytes) != TD_OK) continue; /* not there yet */
        assert_int_equal(bytes, 4096);
        for (size_t b = 1; b < bytes; ++b)
            assert_int_equal(data[b], data[0]);
        free(data);
    }
    for (int i = 0; i < 2; ++i)
        pthread_join(threads[i], NULL);
    assert_int_equal(n_failed_writes, 0);
    assert_int_equal(temp_dir_count(temp_dir), 1);
}

static void test_reading_limits_and_failures(void **state)
{
    (void)state;
    char *data = (char *)1;
    size_t bytes = 9;
    assert_failure(td_file_read(temp_path("file"), 10, &data, &bytes), TD_ERR_NOT_FOUND, "ENOENT", "spelt");
    assert_null(data);
    assert_int_equal(bytes, 0);
    assert_int_equal(td_file_write_atomic(temp_path("file"), "0123456789", 10), TD_OK);
    assert_int_equal(td_file_read(temp_path("file"), 10, &data, &bytes), TD_OK);
    assert_int_equal(bytes, 10);
    assert_int_equal(data[10], '\0');
    free(data);
    assert_int_equal(td_file_read(temp_path("file"), 9, &data, &bytes), TD_ERR_LIMIT);
    assert_null(data);
    assert_failure(td_file_read(temp_path("file/x"), 9, &data, &bytes), TD_ERR_IO, "ENOTDIR", "folder");
    assert_int_equal(td_file_read(temp_dir, 9, &data, &bytes), TD_ERR_IO);
    assert_string_equal(td_error_last()->native, "EISDIR");
    /* Files that do not tell their size, and those that never end. */
    assert_int_equal(td_file_read("/proc/self/status", 1 << 20, &data, &bytes), TD_OK);
    assert_true(bytes > 100 && bytes == strlen(data));
    free(data);
    assert_int_equal(td_file_read("/dev/zero", 100000, &data, &bytes), TD_ERR_LIMIT);
    assert_null(data);
}

static void test_list(void **state)
{
    (void)state;
    char folder[512], path[600];
    td_file_names names;
    snprintf(folder, sizeof folder, "%s", temp_path("files"));
    assert_failure(td_file_list(folder, &names), TD_ERR_NOT_FOUND, "ENOENT", "folder");
    assert_int_equal(td_file_make_dirs(folder), TD_OK);
    assert_int_equal(td_file_list(folder, &names), TD_OK);
    assert_int_equal(names.count, 0);
    td_file_names_free(&names);
    for (const char *name = "cabd"; *name; ++name) {
        snprintf(path, sizeof path, "%s/%c", folder, *name);
        assert_int_equal(td_file_write_atomic(path, "x", 1), TD_OK);
    }
    assert_int_equal(td_file_list(folder, &names), TD_OK);
    assert_int_equal(names.count, 4);
    for (size_t i = 0; i < 4; ++i)
        assert_string_equal(names.at[i], ((char[]){(char)('a' + i), '\0'}));
    td_file_names_free(&names);
    assert_null(names.at);

    /* A disk that fails in the middle has not told of all. */
    faults.readdir_error = EIO;
    for (int before = 0; before < 6; ++before) {
        faults.names_before_error = before;
        assert_failure(td_file_list(folder, &names), TD_ERR_IO, "EIO", "disk");
        assert_int_equal(names.count, 0);
    }
}

static void test_size(void **state)
{
    (void)state;
    uint64_t bytes = 7;
    assert_failure(td_file_size(temp_path("file"), &bytes), TD_ERR_NOT_FOUND, "ENOENT", "spelt");
    assert_int_equal(bytes, 0);
    assert_int_equal(td_file_write_atomic(temp_path("file"), "0123456789", 10), TD_OK);
    assert_int_equal(td_file_size(temp_path("file"), &bytes), TD_OK);
    assert_int_equal(bytes, 10);
    assert_int_equal(td_file_size(temp_dir, &bytes), TD_ERR_IO);
    assert_int_equal(bytes, 0);
}

static void test_what_cannot_be_looked_at_is_there(void **state)
{
    (void)state;
    assert_int_equal(symlink("loop", temp_path("loop")), 0);
    assert_true(td_file_exists(temp_path("loop")));
    assert_true(td_file_exists(temp_path("loop/x")));
    assert_int_equal(td_file_write_atomic(temp_path("file"), "x", 1), TD_OK);
    assert_false(td_file_exists(temp_path("file/x")));
}

static void test_make_dirs(void **state)
{
    (void)state;
    const char *deep = temp_path("a//b/c");
    assert_int_equal(td_file_make_dirs(deep), TD_OK);
    assert_int_equal(td_file_make_dirs(deep), TD_OK);
    assert_int_equal(td_file_write_atomic(temp_path("a/b/c/file"), "x", 1), TD_OK);
    assert_failure(td_file_make_dirs(temp_path("a/b/c/file/d")), TD_ERR_IO, "EEXIST", "file where a folder");
    assert_failure(td_file_make_dirs(temp_path("a/b/c/file")), TD_ERR_IO, "EEXIST", "file where a folder");
    assert_int_equal(td_file_make_dirs("/"), TD_OK);
}

static void test_cache_dir(void **state)
{
    (void)state;
    char out[TD_FILE_PATH_BYTES];
    setenv("XDG_CACHE_HOME", "/xdg", 1);
    setenv("HOME", "/home/someone", 1);
    assert_int_equal(td_file_cache_dir("/given", out), TD_OK);
    assert_string_equal(out, "/given");
    assert_int_equal(td_file_cache_dir(NULL, out), TD_OK);
    assert_string_equal(out, "/xdg/tandem");
    setenv("XDG_CACHE_HOME", "relative", 1);
    assert_int_equal(td_file_cache_dir(NULL, out), TD_OK);
    assert_string_equal(out, "/home/someone/.cache/tandem");
    unsetenv("XDG_CACHE_HOME");
    assert_int_equal(td_file_cache_dir(NULL, out), TD_OK);
    assert_string_equal(out, "/home/someone/.cache/tandem");
    unsetenv("HOME");
    assert_int_equal(td_file_cache_dir(NULL, out), TD_ERR_NOT_FOUND);
    assert_non_null(strstr(td_error_last()->message, "data.cache_dir"));
}

int main(void)
{
#define FILE_TEST(name) cmocka_unit_test_setup_teardown(name, begin, temp_dir_remove)
    const struct CMUnitTest tests[] = {
        FILE_TEST(test_write_and_read_back),
        FILE_TEST(test_relative_paths),
        FILE_TEST(test_interrupted_and_short_writes_are_completed),
        FILE_TEST(test_failures_leave_the_old_file),
        FILE_TEST(test_folder_sync_is_reported_unless_impossible),
        FILE_TEST(test_unusable_places),
        FILE_TEST(test_writer_pieces_and_giving_up),
        FILE_TEST(test_commit_refuses_after_a_failed_write),
        FILE_TEST(test_readers_never_see_a_mixture),
        FILE_TEST(test_reading_limits_and_failures),
        FILE_TEST(test_size),
        FILE_TEST(test_list),
        FILE_TEST(test_what_cannot_be_looked_at_is_there),
        FILE_TEST(test_make_dirs),
        FILE_TEST(test_cache_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
