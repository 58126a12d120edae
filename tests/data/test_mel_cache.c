/* The mel cache: gives back what was put in, within its bound, across runs on disk; forgets what has changed
 * or is damaged. */
#include "data/fixture.h"

#include <utime.h>

#include "base/error.h"
#include "data/mel_cache.h"

enum { N_ROWS = 6, FRAMES = 20, BANDS = 80 };

static td_dataset *dataset;
static td_mel_cache_settings settings;

static td_dataset *open_dataset(void)
{
    td_pool *pool = NULL;
    td_dataset *d = NULL;
    const td_dataset_settings data = {.dir = temp_dir, .language = "en", .max_bad_fraction = 0};
    assert_int_equal(td_pool_create(1, &pool), TD_OK);
    if (td_dataset_open(&data, pool, &d) != TD_OK) fail_msg("%s", td_error_last()->message);
    td_pool_destroy(pool);
    return d;
}

static int set_up(void **state)
{
    static char cache[600];
    char text[1024], name[32];
    size_t used = 0;
    if (temp_dir_make(state) != 0) return -1;
    make_folder("wavs");
    for (size_t i = 0; i < N_ROWS; ++i) {
        used += (size_t)snprintf(text + used, sizeof text - used, "r%zu|word %zu\n", i, i);
        snprintf(name, sizeof name, "wavs/r%zu.wav", i);
        write_wav(temp_path(name), 22050, 1, 5000);
    }
    write_text(temp_path("metadata.csv"), text);
    dataset = open_dataset();
    snprintf(cache, sizeof cache, "%s/cache", temp_dir);
    settings = (td_mel_cache_settings){.kind = TD_MEL_CACHE_RAM,
                                       .cache_dir = cache,
                                       .config = td_mel_config_default(),
                                       .has_energy = true,
                                       .has_pitch = true,
                                       .device = "cl:test 1.0"};
    logged[0] = '\0';
    listen_to(keep_log, NULL, TD_LOG_INFO);
    return 0;
}

static int tear_down(void **state)
{
    listen_to(NULL, NULL, TD_LOG_ERROR);
    td_dataset_close(dataset);
    return temp_dir_remove(state);
}

static td_mel_cache *open_cache(void)
{
    td_mel_cache *cache = NULL;
    if (td_mel_cache_open(&settings, dataset, &cache) != TD_OK) fail_msg("%s", td_error_last()->message);
    return cache;
}

static float mel[FRAMES * BANDS], energy[FRAMES], pitch[FRAMES];

static void fill(uint32_t row)
{
    for (size_t i = 0; i < FRAMES * BANDS; ++i)
        mel[i] = (float)(1000 * row + i);
    for (size_t i = 0; i < FRAMES; ++i) {
        energy[i] = (float)(row + 1) / (float)(i + 1);
        pitch[i] = (float)(100 * row + i);
    }
}

static void put(td_mel_cache *cache, uint32_t row)
{
    fill(row);
    td_mel_cache_write(cache, row, FRAMES, mel, settings.has_energy ? energy : NULL,
                       settings.has_pitch ? pitch : NULL);
}

static bool get(td_mel_cache *cache, uint32_t row)
{
    static float got_mel[FRAMES * BANDS], got_energy[FRAMES], got_pitch[FRAMES];
    uint32_t n = 0;
    if (!td_mel_cache_read(cache, row, FRAMES, got_mel, settings.has_energy ? got_energy : NULL,
                           settings.has_pitch ? got_pitch : NULL, &n))
        return false;
    fill(row);
    assert_int_equal(n, FRAMES);
    assert_memory_equal(got_mel, mel, sizeof mel);
    if (settings.has_energy) assert_memory_equal(got_energy, energy, sizeof energy);
    if (settings.has_pitch) assert_memory_equal(got_pitch, pitch, sizeof pitch);
    return true;
}

static void what_was_put_in_comes_back(void **state)
{
    (void)state;
    static const td_mel_cache_kind KINDS[] = {TD_MEL_CACHE_RAM, TD_MEL_CACHE_DISK};
    for (size_t i = 0; i < 8; ++i) { /* with and without energy and pitch: entries of their own */
        const size_t k = i % 2;
        settings.kind = KINDS[k];
        settings.has_energy = i / 2 % 2 == 0;
        settings.has_pitch = i < 4;
        td_mel_cache *cache = open_cache();
        assert_int_equal(td_mel_cache_count(cache).used_bytes, 0);
        for (uint32_t row = 0; row < N_ROWS; ++row)
            assert_false(get(cache, row));
        for (uint32_t row = 0; row < N_ROWS; ++row)
            put(cache, row);
        put(cache, 2); /* is there already */
        for (uint32_t row = N_ROWS; row-- > 0;)
            assert_true(get(cache, row));
        uint32_t n;
        assert_false(td_mel_cache_read(cache, 1, FRAMES - 1, mel, energy, pitch, &n));
        const td_mel_cache_stats stats = td_mel_cache_count(cache);
        assert_int_equal(stats.kind, KINDS[k]);
        assert_int_equal(stats.n_hits, N_ROWS);
        assert_int_equal(stats.n_misses, N_ROWS + 1);
        assert_int_equal(stats.n_stores, N_ROWS);
        td_mel_cache_close(cache);
    }
}

static void none_keeps_nothing(void **state)
{
    (void)state;
    settings.kind = TD_MEL_CACHE_NONE;
    td_mel_cache *cache = open_cache();
    put(cache, 0);
    assert_false(get(cache, 0));
    assert_int_equal(td_mel_cache_count(cache).used_bytes, 0);
    td_mel_cache_close(cache);
    td_mel_cache_close(NULL);
}

static void the_bound_holds(void **state)
{
    (void)state;
    static const td_mel_cache_kind KINDS[] = {TD_MEL_CACHE_RAM, TD_MEL_CACHE_DISK};
    for (size_t k = 0; k < 2; ++k) {
        settings.kind = KINDS[k];
        settings.max_bytes = 3 * (FRAMES * (BANDS + 2) * 4 + 4096) + 1000;
        if (k == 0) settings.max_bytes = 3 * FRAMES * (BANDS + 2) * 4 + 100;
        for (int run = 0; run < 2; ++run) { /* files of an earlier run count */
            td_mel_cache *cache = open_cache();
            size_t n = 0;
            for (uint32_t i = 0; i < N_ROWS; ++i)
                put(cache, run == 0 ? i : N_ROWS - 1 - i);
            for (uint32_t row = 0; row < N_ROWS; ++row)
                n += get(cache, row);
            assert_int_equal(n, 3);
            assert_true(td_mel_cache_count(cache).n_refused >= 3);
            assert_true(td_mel_cache_count(cache).used_bytes <= settings.max_bytes);
            td_mel_cache_close(cache);
        }
    }
}

/* Fills a cache on disk and opens another, with the settings as they are then. */
static td_mel_cache *reopen_filled(void)
{
    settings.kind = TD_MEL_CACHE_DISK;
    td_mel_cache *cache = open_cache();
    for (uint32_t row = 0; row < N_ROWS; ++row)
        put(cache, row);
    td_mel_cache_close(cache);
    return open_cache();
}

static void disk_serves_the_next_run(void **state)
{
    (void)state;
    td_mel_cache *cache = reopen_filled();
    for (uint32_t row = 0; row < N_ROWS; ++row)
        assert_true(get(cache, row));
    td_mel_cache_close(cache);
    /* other settings or another device: nothing fits, and what is stale goes */
    settings.config.fmax_hz = 7600;
    cache = open_cache();
    for (uint32_t row = 0; row < N_ROWS; ++row)
        assert_false(get(cache, row));
    assert_int_equal(td_mel_cache_count(cache).used_bytes, 0);
    td_mel_cache_close(cache);
    td_mel_cache_close(reopen_filled());
    settings.device = "vk:other 2.0";
    cache = open_cache();
    assert_false(get(cache, 0));
    td_mel_cache_close(cache);
}

static void a_changed_recording_is_forgotten_alone(void **state)
{
    (void)state;
    td_mel_cache_close(reopen_filled());
    write_wav(temp_path("wavs/r3.wav"), 22050, 1, 5001);
    td_dataset_close(dataset);
    dataset = open_dataset();
    td_mel_cache *cache = open_cache();
    for (uint32_t row = 0; row < N_ROWS; ++row)
        assert_int_equal(get(cache, row), row != 3);
    put(cache, 3);
    assert_true(get(cache, 3));
    td_mel_cache_close(cache);
}

static char damaged[600];

static void damage(const char *folder, size_t keep_bytes, int flip_at)
{
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        if (strncmp(entry->d_name, "mel-", 4) != 0) continue;
        snprintf(damaged, sizeof damaged, "%.280s/%.200s", folder, entry->d_name);
        break;
    }
    closedir(dir);
    if (keep_bytes > 0) assert_int_equal(truncate(damaged, (off_t)keep_bytes), 0);
    if (flip_at < 0) return;
    FILE *file = fopen(damaged, "r+b");
    assert_non_null(file);
    fseek(file, flip_at, SEEK_SET);
    const int byte = fgetc(file);
    fseek(file, flip_at, SEEK_SET);
    fputc(byte ^ 0x10, file);
    fclose(file);
}

static void a_damaged_entry_is_made_anew(void **state)
{
    (void)state;
    char folder[700] = "";
    for (int kind = 0; kind < 2; ++kind) {
        td_mel_cache *cache = reopen_filled();
        DIR *dir = opendir(temp_path("cache/mel"));
        assert_non_null(dir);
        for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
            if (entry->d_name[0] != '.')
                snprintf(folder, sizeof folder, "%s/%.200s", temp_path("cache/mel"), entry->d_name);
        closedir(dir);
        damage(folder, kind == 0 ? 100 : 0, kind == 0 ? -1 : 1000);
        size_t n = 0;
        for (uint32_t row = 0; row < N_ROWS; ++row) {
            if (get(cache, row)) {
                ++n;
            } else {
                put(cache, row);
                assert_true(get(cache, row));
            }
        }
        assert_int_equal(n, N_ROWS - 1);
        assert_non_null(strstr(logged, "warning"));
        td_mel_cache_close(cache);
    }
}

static void a_folder_that_cannot_be_read_is_done_without(void **state)
{
    (void)state;
    settings.kind = TD_MEL_CACHE_DISK;
    make_folder("cache");
    write_text(temp_path("cache/mel"), "a file in its place");
    td_mel_cache *cache = open_cache();
    assert_non_null(strstr(logged, "warning: what lies in the mel cache is not known"));
    assert_false(get(cache, 0));
    put(cache, 0);
    assert_false(get(cache, 0));
    td_mel_cache_close(cache);
}

static void the_choice_is_told(void **state)
{
    (void)state;
    settings.kind = TD_MEL_CACHE_AUTO;
    td_mel_cache *cache = open_cache();
    assert_int_equal(td_mel_cache_count(cache).kind, TD_MEL_CACHE_RAM);
    assert_non_null(strstr(logged, "info: mel cache: ram, up to"));
    td_mel_cache_close(cache);
    settings.max_bytes = 10; /* nothing fits */
    cache = open_cache();
    assert_int_equal(td_mel_cache_count(cache).kind, TD_MEL_CACHE_NONE);
    assert_non_null(strstr(logged, "info: mel cache: none"));
    td_mel_cache_close(cache);
    settings.kind = TD_MEL_CACHE_DISK;
    settings.cache_dir = NULL;
    assert_int_equal(td_mel_cache_open(&settings, dataset, &cache), TD_ERR_CONFIG);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(what_was_put_in_comes_back),
        TEST(none_keeps_nothing),
        TEST(the_bound_holds),
        TEST(disk_serves_the_next_run),
        TEST(a_changed_recording_is_forgotten_alone),
        TEST(a_damaged_entry_is_made_anew),
        TEST(a_folder_that_cannot_be_read_is_done_without),
        TEST(the_choice_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
