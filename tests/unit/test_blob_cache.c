/* The blob cache: hits, every kind of damage, unusable folders, threads (src/base/blob_cache.c). Warnings are
 * counted through a log sink. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "base/blob_cache.h"
#include "base/file.h"
#include "support/listen.h"
#include "support/temp_dir.h"

static const td_digest KEY = {.low = 0x0123456789abcdef, .high = 0xfedcba9876543210};
static const char FILE_NAME[] = "binary-fedcba98765432100123456789abcdef.blob";
enum { HEADER_BYTES = 48 };

static int n_warnings;
static char last_warning[4096];

static void count_warning(void *ctx, td_log_level level, const char *message)
{
    (void)ctx;
    if (level == TD_LOG_WARN) n_warnings++;
    snprintf(last_warning, sizeof last_warning, "%s", message);
}

static int begin(void **state)
{
    n_warnings = 0;
    last_warning[0] = '\0';
    listen_to(count_warning, NULL, TD_LOG_INFO);
    return temp_dir_make(state);
}

static int end(void **state)
{
    listen_to(NULL, NULL, TD_LOG_INFO);
    return temp_dir_remove(state);
}

static td_blob_cache *open_cache(const char *dir)
{
    td_blob_cache *cache = NULL;
    assert_int_equal(td_blob_cache_open(dir, &cache), TD_OK);
    return cache;
}

static void assert_counts(const td_blob_cache *cache, uint64_t hits, uint64_t misses, uint64_t stores)
{
    td_blob_cache_stats stats = td_blob_cache_count(cache);
    assert_int_equal(stats.hits, hits);
    assert_int_equal(stats.misses, misses);
    assert_int_equal(stats.stores, stores);
}

static bool loads(td_blob_cache *cache, const char *expected)
{
    void *data = &data;
    size_t bytes = 99;
    bool hit = td_blob_cache_load(cache, "binary", KEY, &data, &bytes);
    if (hit) {
        assert_int_equal(bytes, strlen(expected));
        assert_memory_equal(data, expected, bytes);
        assert_int_equal((uintptr_t)data % 16, 0);
        free(data);
    } else {
        assert_null(data);
        assert_int_equal(bytes, 0);
    }
    return hit;
}

static void test_stored_blobs_are_found_again(void **state)
{
    (void)state;
    td_blob_cache *cache = open_cache(temp_path("cache/deep"));
    assert_false(loads(cache, ""));
    td_blob_cache_store(cache, "binary", KEY, "payload", 7);
    assert_true(loads(cache, "payload"));
    td_blob_cache_store(cache, "binary", KEY, "other", 5);
    assert_true(loads(cache, "other"));
    td_blob_cache_store(cache, "binary", KEY, NULL, 0);
    assert_true(loads(cache, ""));
    void *data;
    size_t bytes;
    assert_false(td_blob_cache_load(cache, "tune", KEY, &data, &bytes));
    assert_false(td_blob_cache_load(cache, "binary", (td_digest){.low = KEY.low}, &data, &bytes));
    assert_counts(cache, 3, 3, 3);
    td_blob_cache_close(cache);
    char path[600];
    snprintf(path, sizeof path, "%s/%s", temp_path("cache/deep"), FILE_NAME);
    assert_true(td_file_exists(path));
    cache = open_cache(temp_path("cache/deep"));
    assert_true(loads(cache, ""));
    td_blob_cache_close(cache);
    td_blob_cache_close(NULL);
    assert_int_equal(n_warnings, 0);
}

/* Puts these bytes in the place of the blob; then: a miss, one warning with name and reason, a second miss
 * without one, and the next store repairs it. */
static void check_damage(const void *content, size_t bytes, const char *reason)
{
    td_blob_cache *cache = open_cache(temp_dir);
    assert_int_equal(td_file_write_atomic(temp_path(FILE_NAME), content, bytes), TD_OK);
    n_warnings = 0;
    assert_false(loads(cache, ""));
    assert_int_equal(n_warnings, 1);
    assert_non_null(strstr(last_warning, FILE_NAME));
    if (reason) assert_non_null(strstr(last_warning, reason));
    assert_false(loads(cache, ""));
    assert_int_equal(n_warnings, 1);
    td_blob_cache_store(cache, "binary", KEY, "payload", 7);
    assert_true(loads(cache, "payload"));
    assert_counts(cache, 1, 2, 1);
    td_blob_cache_close(cache);
}

static void test_every_damage_is_a_miss(void **state)
{
    (void)state;
    td_blob_cache *cache = open_cache(temp_dir);
    td_blob_cache_store(cache, "binary", KEY, "payload", 7);
    td_blob_cache_close(cache);
    char *whole;
    size_t bytes;
    assert_int_equal(td_file_read(temp_path(FILE_NAME), 1000, &whole, &bytes), TD_OK);
    assert_int_equal(bytes, HEADER_BYTES + 7);
    for (size_t i = 0; i < bytes; ++i) { /* a wrong bit in each byte of header and payload */
        whole[i] ^= 4;
        const char *reason = "checksum";
        if (i < 40) reason = "size";
        if (i < 32) reason = "another key";
        if (i < 16) reason = "version";
        if (i < 8) reason = "not a cache file";
        check_damage(whole, bytes, reason);
        whole[i] ^= 4;
    }
    for (size_t cut = 0; cut < bytes; ++cut) /* cut short anywhere */
        check_damage(whole, cut, cut < HEADER_BYTES ? "short" : "size");
    char longer[HEADER_BYTES + 8] = {0};
    memcpy(longer, whole, bytes);
    check_damage(longer, sizeof longer, "size");
    check_damage("rubbish that is long enough to hold a whole header, and more", 60, "not a cache file");
    free(whole);
}

static void test_other_things_in_its_place_are_a_miss(void **state)
{
    (void)state;
    td_blob_cache *cache = open_cache(temp_dir);
    assert_int_equal(mkdir(temp_path(FILE_NAME), 0777), 0);
    for (int i = 0; i < 3; ++i) {
        assert_false(loads(cache, ""));
        td_blob_cache_store(cache, "binary", KEY, "payload", 7);
    }
    assert_int_equal(n_warnings, 1); /* it cannot be removed: the folder's one warning */
    assert_counts(cache, 0, 3, 0);
    td_blob_cache_close(cache);
    assert_int_equal(rmdir(temp_path(FILE_NAME)), 0);

    cache = open_cache(temp_dir);
    assert_int_equal(mkfifo(temp_path(FILE_NAME), 0666), 0);
    assert_false(loads(cache, "")); /* reading it would wait for ever */
    assert_int_equal(n_warnings, 2);
    td_blob_cache_store(cache, "binary", KEY, "payload", 7);
    assert_true(loads(cache, "payload"));
    td_blob_cache_close(cache);
}

static void check_unusable(const char *dir)
{
    n_warnings = 0;
    td_blob_cache *cache = open_cache(dir);
    for (int i = 0; i < 3; ++i) {
        assert_false(loads(cache, ""));
        td_blob_cache_store(cache, "binary", KEY, "payload", 7);
    }
    assert_int_equal(n_warnings, 1);
    assert_counts(cache, 0, 3, 0);
    td_blob_cache_close(cache);
}

static void test_unusable_folders_warn_once(void **state)
{
    (void)state;
    assert_int_equal(td_file_write_atomic(temp_path("file"), "x", 1), TD_OK);
    check_unusable(temp_path("file"));
    check_unusable(temp_path("file/below"));
    check_unusable("/proc/tandem-cache"); /* where nobody may create anything */
    char long_dir[TD_FILE_PATH_BYTES + 100];
    memset(long_dir, 'n', sizeof long_dir - 1);
    long_dir[sizeof long_dir - 1] = '\0';
    check_unusable(long_dir);
    long_dir[TD_FILE_PATH_BYTES - 10] = '\0'; /* fits, but its files would not */
    check_unusable(long_dir);
}

/* Root may write anywhere, so this one acts as nobody for a while. */
static void test_read_only_folder_still_gives_hits(void **state)
{
    (void)state;
    td_blob_cache *cache = open_cache(temp_dir);
    td_blob_cache_store(cache, "binary", KEY, "payload", 7);
    td_blob_cache_close(cache);
    assert_int_equal(chmod(temp_dir, 0555), 0);
    bool was_root = geteuid() == 0;
    if (was_root) assert_int_equal(seteuid(65534), 0);
    cache = open_cache(temp_dir);
    bool hit = loads(cache, "payload");
    td_blob_cache_store(cache, "binary", KEY, "newer", 5);
    td_blob_cache_store(cache, "binary", KEY, "newer", 5);
    bool still = loads(cache, "payload");
    if (was_root) assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(temp_dir, 0777), 0);
    assert_true(hit && still);
    assert_int_equal(n_warnings, 1);
    assert_non_null(strstr(last_warning, temp_dir));
    td_blob_cache_close(cache);

    assert_int_equal(chmod(temp_path(FILE_NAME), 0), 0); /* unreadable: made anew */
    if (was_root) assert_int_equal(seteuid(65534), 0);
    cache = open_cache(temp_dir);
    hit = loads(cache, "");
    td_blob_cache_store(cache, "binary", KEY, "newer", 5);
    still = loads(cache, "newer");
    if (was_root) assert_int_equal(seteuid(0), 0);
    assert_false(hit);
    assert_true(still);
    assert_int_equal(n_warnings, 2);
    td_blob_cache_close(cache);
}

/* A process that may open no file now finds the cache whole when it may again. */
static void test_sound_files_survive_a_process_that_cannot_open_them(void **state)
{
    (void)state;
    struct rlimit before, none;
    td_blob_cache *cache = open_cache(temp_dir);
    td_blob_cache_store(cache, "binary", KEY, "payload", 7);
    getrlimit(RLIMIT_NOFILE, &before);
    none = before;
    none.rlim_cur = 0;
    setrlimit(RLIMIT_NOFILE, &none);
    const bool misses = loads(cache, "") || loads(cache, "payload");
    setrlimit(RLIMIT_NOFILE, &before);
    assert_false(misses);
    assert_int_equal(n_warnings, 1);
    assert_non_null(strstr(last_warning, "ulimit"));
    assert_true(loads(cache, "payload"));
    td_blob_cache_close(cache);
}

/* A full disk, as far as a process can have its own: the limit of the file size. */
static void test_full_disk_warns_once_and_leaves_no_rubbish(void **state)
{
    (void)state;
    struct rlimit before, small;
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 20;
    signal(SIGXFSZ, SIG_IGN);
    td_blob_cache *cache = open_cache(temp_dir);
    setrlimit(RLIMIT_FSIZE, &small);
    td_blob_cache_store(cache, "binary", KEY, "payload", 7);
    td_blob_cache_store(cache, "binary", KEY, "payload", 7);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(n_warnings, 1);
    assert_int_equal(temp_dir_count(temp_dir), 0);
    td_blob_cache_store(cache, "binary", KEY, "payload", 7);
    assert_true(loads(cache, "payload"));
    td_blob_cache_close(cache);
}

static void test_no_folder_means_off(void **state)
{
    (void)state;
    td_blob_cache *cache = open_cache(NULL);
    td_blob_cache_store(cache, "binary", KEY, "payload", 7);
    assert_false(loads(cache, ""));
    assert_int_equal(n_warnings, 0);
    assert_counts(cache, 0, 1, 0);
    td_blob_cache_close(cache);
}

enum { N_THREADS = 4, N_ROUNDS = 25 };

typedef struct {
    td_blob_cache *cache;
    atomic_int wrong;
} shared;

/* Everybody stores and loads the same key with different payloads: a load is whole, whoever stored it. */
static void *use_cache(void *arg)
{
    shared *s = arg;
    char payload[3000];
    for (int i = 0; i < N_ROUNDS; ++i) {
        memset(payload, 'a' + i % 26, sizeof payload);
        td_blob_cache_store(s->cache, "binary", KEY, payload, sizeof payload);
        void *data;
        size_t bytes;
        if (!td_blob_cache_load(s->cache, "binary", KEY, &data, &bytes)) {
            s->wrong++;
            continue;
        }
        if (bytes != sizeof payload || memchr(data, ((char *)data)[0] ^ 1, bytes)) s->wrong++;
        free(data);
    }
    return NULL;
}

static void test_threads_share_a_cache(void **state)
{
    (void)state;
    shared s = {.cache = open_cache(temp_dir)};
    pthread_t threads[N_THREADS];
    for (int i = 0; i < N_THREADS; ++i)
        assert_int_equal(pthread_create(&threads[i], NULL, use_cache, &s), 0);
    for (int i = 0; i < N_THREADS; ++i)
        pthread_join(threads[i], NULL);
    assert_int_equal(s.wrong, 0);
    assert_int_equal(n_warnings, 0);
    assert_counts(s.cache, N_THREADS * N_ROUNDS, 0, N_THREADS * N_ROUNDS);
    assert_int_equal(temp_dir_count(temp_dir), 1);
    td_blob_cache_close(s.cache);
}

int main(void)
{
#define CACHE_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        CACHE_TEST(test_stored_blobs_are_found_again),
        CACHE_TEST(test_every_damage_is_a_miss),
        CACHE_TEST(test_other_things_in_its_place_are_a_miss),
        CACHE_TEST(test_unusable_folders_warn_once),
        CACHE_TEST(test_read_only_folder_still_gives_hits),
        CACHE_TEST(test_sound_files_survive_a_process_that_cannot_open_them),
        CACHE_TEST(test_full_disk_warns_once_and_leaves_no_rubbish),
        CACHE_TEST(test_no_folder_means_off),
        CACHE_TEST(test_threads_share_a_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
