/* Datasets: the same for any number of threads, kept in the cache, and rebuilt only where something has
 * changed or the cache is damaged; bad data is named and the run goes on or ends. */
#include "data/fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/error.h"
#include "base/rng.h"
#include "data/dataset.h"

enum { N_ROWS = 300 };

static const char *const SENTENCES[] = {
    "The %zu men waited for %zu hours.",
    "On the %zuth day it cost $%zu.50.",
    "Dr. Smith counted %zu of %zu boxes.",
    "Chapter %zu, page %zu: a quiet road.",
    "It was %zu%% of %zu km.",
    "Nobody knew (%zu or %zu) what to say!",
};

static char *make_line(size_t i, size_t salt)
{
    static char line[200];
    const size_t used = (size_t)snprintf(line, sizeof line, "r%04zu|", i);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(line + used, sizeof line - used, SENTENCES[i % 6], 4 + i % 16, i + salt);
#pragma GCC diagnostic pop
    return strcat(line, "\n");
}

/* A table of N_ROWS rows; row `changed` has another number in it. */
static void write_table(size_t changed)
{
    char *text = calloc(N_ROWS, 200);
    size_t used = 0;
    assert_non_null(text);
    for (size_t i = 0; i < N_ROWS; ++i) {
        const char *line = make_line(i, i == changed ? 1000 : 0);
        memcpy(text + used, line, strlen(line));
        used += strlen(line);
    }
    write_bytes(temp_path("metadata.csv"), text, used);
    free(text);
}

static td_dataset_settings settings;

static int set_up(void **state)
{
    if (temp_dir_make(state) != 0) return -1;
    static char cache[600];
    snprintf(cache, sizeof cache, "%s/cache", temp_dir);
    settings = (td_dataset_settings){.dir = temp_dir,
                                     .language = "en",
                                     .val_fraction = 0.1,
                                     .max_bad_fraction = 0.05,
                                     .seed = 1,
                                     .cache_dir = cache,
                                     .without_audio = true};
    logged[0] = '\0';
    listen_to(keep_log, NULL, TD_LOG_INFO);
    return 0;
}

static int tear_down(void **state)
{
    listen_to(NULL, NULL, TD_LOG_ERROR);
    return temp_dir_remove(state);
}

static td_status try_open(size_t workers, td_dataset **out)
{
    td_pool *pool = NULL;
    assert_int_equal(td_pool_create(workers, &pool), TD_OK);
    const td_status status = td_dataset_open(&settings, pool, out);
    td_pool_destroy(pool);
    return status;
}

static td_dataset *open_with(size_t workers)
{
    td_dataset *d = NULL;
    if (try_open(workers, &d) != TD_OK) fail_msg("%s", td_error_last()->message);
    return d;
}

static void expect_failure(td_status expected, const char *words)
{
    td_dataset *d = NULL;
    assert_int_equal(try_open(2, &d), expected);
    assert_null(d);
    if (strstr(td_error_last()->message, words) == NULL)
        fail_msg("'%s' does not say '%s'", td_error_last()->message, words);
}

static void expect_logged(const char *words)
{
    if (strstr(logged, words) == NULL) fail_msg("the log '%s' does not say '%s'", logged, words);
}

static size_t count_lines(const char *text)
{
    size_t n = 0;
    for (; *text; ++text)
        n += *text == '\n';
    return n;
}

/* ---------------------------------------------------------------- the same for all */

static void texts_and_tokens_are_right(void **state)
{
    (void)state;
    write_text(temp_path("metadata.csv"), "a|It cost $5.\nb|Two cats!\nc|It is 9 %.\n");
    settings.val_fraction = 0;
    td_dataset *d = open_with(2);
    assert_int_equal(d->view.n_rows, 3);
    assert_string_equal(td_dataset_id(d, 1), "b");
    assert_string_equal(td_dataset_text(d, 0), "it cost five dollars.");
    assert_string_equal(td_dataset_text(d, 1), "two cats!");
    assert_int_equal(d->view.rows[1].n_characters, 9);
    assert_int_equal(d->view.rows[1].n_tokens, 11);
    const char *symbols = td_block_string(&d->view, d->view.header->symbols);
    const int32_t *tokens = td_dataset_tokens(d, 1);
    assert_int_equal(tokens[0], TD_SYMBOL_BOS);
    assert_int_equal(tokens[10], TD_SYMBOL_EOS);
    for (size_t i = 0; i < 9; ++i) {
        const char *at = strchr(symbols, td_dataset_text(d, 1)[i]);
        assert_non_null(at);
        assert_int_equal(tokens[i + 1], TD_SYMBOL_FIRST + (at - symbols));
    }
    assert_int_equal(d->n_train, 3);
    assert_int_equal(d->n_val, 0);
    td_dataset_close(d);
}

static void any_number_of_workers_gives_the_same_bytes(void **state)
{
    (void)state;
    static const char *const LANGUAGES[] = {"en", "auto", "each"};
    static const size_t WORKERS[] = {2, 16, 3};
    write_table(N_ROWS);
    settings.cache_dir = NULL;
    for (size_t l = 0; l < 3; ++l) {
        settings.language = LANGUAGES[l];
        td_dataset *one = open_with(1);
        for (size_t w = 0; w < 3; ++w) {
            td_dataset *many = open_with(WORKERS[w]);
            assert_int_equal(many->block.bytes, one->block.bytes);
            assert_memory_equal(many->block.data, one->block.data, one->block.bytes);
            td_dataset_close(many);
        }
        td_dataset_close(one);
    }
}

static void languages_come_from_column_setting_or_text(void **state)
{
    (void)state;
    write_text(temp_path("metadata.csv"),
               "id|text|language\n"
               "a|Der Hund ist nicht auf dem Tisch und schläft.|\nb|Die Katze ist 5 Jahre alt und schläft.|\n"
               "c|The dog was not on the table and slept.|\nd|7 cats|en\n");
    settings.language = "auto";
    td_dataset *d = open_with(2);
    assert_int_equal(d->view.rows[0].lang, TD_LANG_DE);
    assert_int_equal(d->view.rows[2].lang, TD_LANG_DE);
    assert_int_equal(d->view.rows[3].lang, TD_LANG_EN);
    assert_string_equal(td_dataset_text(d, 1), "die katze ist fünf jahre alt und schläft.");
    assert_string_equal(td_dataset_text(d, 3), "seven cats");
    td_dataset_close(d);
    settings.language = "each";
    d = open_with(2);
    assert_int_equal(d->view.rows[0].lang, TD_LANG_DE);
    assert_int_equal(d->view.rows[2].lang, TD_LANG_EN);
    td_dataset_close(d);
    settings.language = "fr";
    d = open_with(2);
    assert_int_equal(d->view.rows[0].lang, TD_LANG_FR);
    assert_int_equal(d->view.rows[3].lang, TD_LANG_EN);
    td_dataset_close(d);
    settings.language = "xx";
    expect_failure(TD_ERR_CONFIG, "xx");
}

static void the_split_depends_on_seed_and_ids_alone(void **state)
{
    (void)state;
    char former[N_ROWS];
    write_table(N_ROWS);
    td_dataset *d = open_with(2);
    assert_int_equal(d->n_val, N_ROWS / 10);
    assert_int_equal(d->n_train, N_ROWS - N_ROWS / 10);
    for (size_t i = 0; i < N_ROWS; ++i)
        former[i] = (char)d->view.rows[i].is_validation;
    td_dataset_close(d);
    settings.seed = 2;
    d = open_with(2);
    size_t n_same = 0;
    for (size_t i = 0; i < N_ROWS; ++i)
        n_same += former[i] == d->view.rows[i].is_validation;
    assert_true(n_same < N_ROWS);
    td_dataset_close(d);
    settings.seed = 1;
    FILE *file = fopen(temp_path("metadata.csv"), "w"); /* backwards, and one row more */
    for (size_t i = N_ROWS; i-- > 0;)
        fputs(make_line(i, 0), file);
    fputs("new|One more row.\n", file);
    fclose(file);
    d = open_with(2);
    n_same = 0;
    for (size_t i = 0; i < N_ROWS; ++i)
        n_same += former[N_ROWS - 1 - i] == d->view.rows[i].is_validation;
    assert_true(n_same >= N_ROWS - 1);
    td_dataset_close(d);
}

/* The table has what the training rows have, and their language; not what only a validation row has. */
static void symbols_are_those_of_the_training_rows(void **state)
{
    static const char *const LETTERS[] = {"\320\266", "\320\277", "\320\267"};
    (void)state;
    write_text(temp_path("metadata.csv"),
               "a|\320\266\320\266 a\nb|\320\277\320\277 b\nc|\320\267\320\267 c\n");
    settings.val_fraction = 0.34;
    settings.language = "en";
    td_dataset *d = open_with(2);
    assert_int_equal(d->n_val, 1);
    const td_block_row *row = &d->view.rows[d->val[0]];
    const char *symbols = td_block_string(&d->view, d->view.header->symbols);
    assert_memory_equal(symbols, " !\"'(),-.:;?abcdefghijklmnopqrstuvwxyz", 38);
    for (uint32_t i = 0; i < 3; ++i)
        assert_int_equal(strstr(symbols, LETTERS[i]) == NULL, i == d->val[0]);
    assert_int_equal(row->n_unknown, 2);
    assert_int_equal(td_dataset_tokens(d, d->val[0])[1], TD_SYMBOL_UNKNOWN);
    td_dataset_close(d);
    settings.symbols = "abcdef";
    d = open_with(2);
    assert_string_equal(td_block_string(&d->view, d->view.header->symbols), "abcdef");
    assert_int_equal(d->view.header->vocab_size, TD_SYMBOL_FIRST + 6);
    assert_int_equal(td_dataset_tokens(d, 1)[4], TD_SYMBOL_FIRST + 1);
    td_dataset_close(d);
}

/* ---------------------------------------------------------------- what is rebuilt */

static void touching_nothing_makes_nothing(void **state)
{
    (void)state;
    struct stat before, after;
    write_table(N_ROWS);
    td_dataset *d = open_with(2);
    assert_false(d->origin.from_cache);
    assert_int_equal(d->origin.n_normalised, N_ROWS);
    assert_string_equal(d->origin.why, "");
    assert_int_equal(stat(d->origin.cache_path, &before), 0);
    td_dataset *again = open_with(2);
    assert_true(again->origin.from_cache);
    assert_true(again->block.is_mapped);
    assert_int_equal(again->origin.n_normalised, 0);
    assert_int_equal(again->block.bytes, d->block.bytes);
    assert_memory_equal(again->block.data, d->block.data, d->block.bytes);
    assert_int_equal(stat(again->origin.cache_path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_string_equal(logged, "");
    td_dataset_close(d);
    td_dataset_close(again);
}

static void one_changed_row_normalises_one_row(void **state)
{
    (void)state;
    write_table(N_ROWS);
    td_dataset_close(open_with(2));
    write_table(17);
    td_dataset *d = open_with(2);
    assert_false(d->origin.from_cache);
    assert_int_equal(d->origin.n_normalised, 1);
    assert_int_equal(count_lines(logged), 1);
    expect_logged("the metadata has changed");
    settings.cache_dir = NULL;
    td_dataset *fresh = open_with(2);
    assert_memory_equal(fresh->block.data, d->block.data, d->block.bytes);
    td_dataset_close(fresh);
    td_dataset_close(d);
}

static void a_setting_makes_anew_what_depends_on_it(void **state)
{
    (void)state;
    write_table(N_ROWS);
    td_dataset_close(open_with(2));
    settings.seed = 5;
    td_dataset *d = open_with(2);
    assert_false(d->origin.from_cache);
    assert_int_equal(d->origin.n_normalised, 0);
    expect_logged("other settings");
    td_dataset_close(d);
    settings.language = "de";
    d = open_with(2);
    assert_int_equal(d->origin.n_normalised, N_ROWS);
    td_dataset_close(d);
    settings.max_bad_fraction = 0.5; /* shapes nothing */
    d = open_with(2);
    assert_true(d->origin.from_cache);
    td_dataset_close(d);
}

static void write_wavs(void)
{
    make_folder("wavs");
    for (size_t i = 0; i < N_ROWS; ++i) {
        char name[32];
        snprintf(name, sizeof name, "wavs/r%04zu.wav", i);
        write_wav(temp_path(name), 22050, 1, 100 + (sf_count_t)i);
    }
}

static void one_changed_recording_is_read_alone(void **state)
{
    (void)state;
    write_table(N_ROWS);
    write_wavs();
    settings.without_audio = false;
    td_dataset *d = open_with(2);
    assert_int_equal(d->origin.n_clips_read, N_ROWS);
    assert_int_equal(d->view.rows[9].clip.frames, 109);
    td_dataset_close(d);
    d = open_with(2);
    assert_true(d->origin.from_cache);
    assert_true(d->block.is_mapped);
    assert_int_equal(d->origin.n_clips_read, 0);
    td_dataset_close(d);
    write_wav(temp_path("wavs/r0009.wav"), 44100, 2, 5000);
    for (int round = 0; round < 2; ++round) {
        d = open_with(2);
        assert_true(d->origin.from_cache);
        assert_int_equal(d->origin.n_clips_read, round == 0);
        assert_int_equal(d->view.rows[9].clip.frames, 5000);
        assert_int_equal(d->view.rows[9].clip.rate_hz, 44100);
        assert_int_equal(d->view.rows[9].clip.channels, 2);
        assert_int_equal(d->view.rows[8].clip.frames, 108);
        td_dataset_close(d);
    }
    /* The time alone, and the size alone, tell of a change. */
    struct stat info;
    write_wav(temp_path("wavs/r0009.wav"), 22050, 4, 2500);
    assert_int_equal(stat(temp_path("wavs/r0009.wav"), &info), 0);
    d = open_with(2);
    assert_int_equal(d->view.rows[9].clip.file_bytes, info.st_size);
    assert_int_equal(d->view.rows[9].clip.channels, 4);
    td_dataset_close(d);
    const struct timespec times[2] = {info.st_atim, info.st_mtim};
    write_wav(temp_path("wavs/r0009.wav"), 44100, 2, 5001);
    assert_int_equal(utimensat(AT_FDCWD, temp_path("wavs/r0009.wav"), times, 0), 0);
    d = open_with(2);
    assert_int_equal(d->view.rows[9].clip.frames, 5001);
    td_dataset_close(d);
    write_table(3); /* what is known of recordings outlives a change of the text */
    d = open_with(2);
    assert_int_equal(d->origin.n_normalised, 1);
    assert_int_equal(d->origin.n_clips_read, 0);
    assert_int_equal(d->view.rows[9].clip.frames, 5001);
    td_dataset_close(d);
}

/* ---------------------------------------------------------------- damaged caches */

static void expect_rebuilt(const td_dataset *right, const char *words)
{
    logged[0] = '\0';
    td_dataset *d = open_with(2);
    assert_false(d->origin.from_cache);
    assert_int_equal(d->block.bytes, right->block.bytes);
    assert_memory_equal(d->block.data, right->block.data, right->block.bytes);
    assert_int_equal(count_lines(logged), 1);
    expect_logged("is rebuilt");
    expect_logged(words);
    td_dataset_close(d);
}

static void a_cut_cache_is_made_anew(void **state)
{
    (void)state;
    write_text(temp_path("metadata.csv"), "a|one|one\nb|two\nc|three\nbad\nd|four 4\ne|five\n");
    settings.max_bad_fraction = 0.5;
    td_dataset *right = open_with(2);
    for (uint64_t i = 0; i < 200; ++i) {
        const size_t bytes = (size_t)td_rng_below(1, 1, i, right->block.bytes);
        write_bytes(right->origin.cache_path, right->block.data, bytes);
        logged[0] = '\0';
        td_dataset *d = open_with(1);
        assert_false(d->origin.from_cache);
        assert_memory_equal(d->block.data, right->block.data, right->block.bytes);
        expect_logged("it is cut short");
        td_dataset_close(d);
        d = open_with(1);
        assert_true(d->origin.from_cache);
        td_dataset_close(d);
    }
    td_dataset_close(right);
}

static void flipped_bytes_are_found(void **state)
{
    (void)state;
    write_text(temp_path("metadata.csv"), "a|one|one\nb|two\nc|three\nd|four 4\ne|five\n");
    td_dataset *right = open_with(2);
    char *copy = malloc(right->block.bytes);
    assert_non_null(copy);
    for (uint64_t i = 0; i < 200; ++i) {
        /* The fields before the checksum are few: every byte of them once, then anywhere. */
        const size_t at = i < 40 ? (size_t)i : (size_t)td_rng_below(2, 2, i, right->block.bytes);
        memcpy(copy, right->block.data, right->block.bytes);
        copy[at] = (char)(copy[at] ^ (1 << i % 8));
        write_bytes(right->origin.cache_path, copy, right->block.bytes);
        logged[0] = '\0';
        td_dataset *d = open_with(1);
        assert_false(d->origin.from_cache);
        assert_memory_equal(d->block.data, right->block.data, right->block.bytes);
        expect_logged("is rebuilt");
        td_dataset_close(d);
    }
    free(copy);
    td_dataset_close(right);
}

static void other_versions_and_foreign_files_are_made_anew(void **state)
{
    (void)state;
    write_table(N_ROWS);
    td_dataset *right = open_with(2);
    td_block_header *header = malloc(right->block.bytes + 1);
    assert_non_null(header);
    memcpy(header, right->block.data, right->block.bytes);
    header->version = TD_BLOCK_VERSION + 1;
    write_bytes(right->origin.cache_path, header, right->block.bytes);
    expect_rebuilt(right, "another version");
    memcpy(header, right->block.data, right->block.bytes);
    header->metadata.low ^= 1; /* whole, but of another table */
    td_block_seal(header, right->block.bytes);
    write_bytes(right->origin.cache_path, header, right->block.bytes);
    expect_rebuilt(right, "the metadata has changed");
    memcpy(header, right->block.data, right->block.bytes);
    write_bytes(right->origin.cache_path, header, right->block.bytes + 1);
    expect_rebuilt(right, "size is wrong");
    write_text(right->origin.cache_path, "");
    expect_rebuilt(right, "cut short");
    char *page = calloc(1, 4096);
    assert_non_null(page);
    write_bytes(right->origin.cache_path, page, 4096);
    expect_rebuilt(right, "not a prepared dataset");
    free(page);
    free(header);
    td_dataset_close(right);
}

static void what_a_killed_process_left_is_no_harm(void **state)
{
    (void)state;
    char path[TD_FILE_PATH_BYTES + 32];
    write_table(N_ROWS);
    td_dataset *right = open_with(2);
    assert_int_equal(unlink(right->origin.cache_path), 0);
    for (int i = 0; i < 3; ++i) {
        snprintf(path, sizeof path, "%s.tmp-%d-%d", right->origin.cache_path, (int)getpid(), i);
        write_bytes(path, right->block.data, right->block.bytes / 2);
    }
    td_dataset *d = open_with(2);
    assert_false(d->origin.from_cache);
    td_dataset_close(d);
    d = open_with(2);
    assert_true(d->origin.from_cache);
    td_dataset_close(d);
    td_dataset_close(right);
}

/* Builds for ever, with settings that change, so that it is always at some point of reading or writing. */
static void build_until_killed(void)
{
    td_pool *pool = NULL;
    if (td_pool_create(2, &pool) != TD_OK) _exit(1);
    for (uint64_t round = 0;; ++round) {
        td_dataset *d = NULL;
        settings.seed = 10 + round;
        if (td_dataset_open(&settings, pool, &d) != TD_OK) _exit(1);
        td_dataset_close(d);
    }
}

static void killing_a_process_leaves_a_whole_cache_or_none(void **state)
{
    (void)state;
    write_table(N_ROWS);
    for (uint64_t i = 0; i < 20; ++i) {
        int result = 0;
        const pid_t child = fork();
        if (child == 0) build_until_killed();
        usleep(1000 + (useconds_t)td_rng_below(4, 4, i, 40000));
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &result, 0), child);
        assert_true(WIFSIGNALED(result));
        logged[0] = '\0';
        td_dataset *d = open_with(2);
        assert_int_equal(d->view.n_rows, N_ROWS);
        assert_null(strstr(logged, "cut short"));
        assert_null(strstr(logged, "checksum"));
        td_dataset_close(d);
    }
}

static void processes_at_once_all_succeed(void **state)
{
    (void)state;
    pid_t children[4];
    write_table(N_ROWS);
    for (int i = 0; i < 4; ++i) {
        children[i] = fork();
        if (children[i] != 0) continue;
        td_pool *pool = NULL;
        bool good = td_pool_create(2, &pool) == TD_OK;
        for (uint64_t round = 0; round < 20 && good; ++round) {
            td_dataset *d = NULL;
            settings.seed = round % 2; /* so that they take the cache from each other */
            good = td_dataset_open(&settings, pool, &d) == TD_OK && d->view.n_rows == N_ROWS;
            td_dataset_close(d);
        }
        td_pool_destroy(pool);
        _exit(good ? 0 : 1);
    }
    for (int i = 0; i < 4; ++i) {
        int result = 0;
        assert_int_equal(waitpid(children[i], &result, 0), children[i]);
        assert_int_equal(result, 0);
    }
}

static void a_cache_that_cannot_be_written_is_a_warning(void **state)
{
    (void)state;
    static char path[600];
    write_table(N_ROWS);
    snprintf(path, sizeof path, "%s/metadata.csv/cache", temp_dir);
    settings.cache_dir = path;
    td_dataset *d = open_with(2);
    assert_int_equal(d->view.n_rows, N_ROWS);
    expect_logged("warning: the prepared dataset is not kept");
    td_dataset_close(d);
}

/* ---------------------------------------------------------------- bad data */

static void bad_recordings_are_named_and_left_out(void **state)
{
    (void)state;
    write_text(temp_path("metadata.csv"), "good|one\nmissing|two\nempty|three\ntext|four\nfolder|five\n"
                                          "silent|six\nwide|seven\nlink|eight\n\nnobar\n");
    make_folder("wavs");
    make_folder("wavs/folder.wav");
    write_wav(temp_path("wavs/good.wav"), 22050, 1, 22050);
    write_wav(temp_path("wavs/silent.wav"), 22050, 1, 0);
    write_wav(temp_path("wavs/wide.wav"), 192000, 8, 1920);
    write_text(temp_path("wavs/empty.wav"), "");
    write_text(temp_path("wavs/text.wav"), "this is a text and not a recording at all\n");
    assert_int_equal(symlink("link.wav", temp_path("wavs/link.wav")), 0);
    settings.without_audio = false;
    settings.max_bad_fraction = 0.8;
    settings.val_fraction = 0;
    for (int round = 0; round < 2; ++round) { /* the second time from the cache */
        static const char *const EXPECTED[] = {
            "metadata.csv:10: 0 bars",
            "metadata.csv:2: wavs/missing.wav is not there",
            "metadata.csv:3: wavs/empty.wav holds no sound",
            "metadata.csv:4: wavs/text.wav is not a recording",
            "metadata.csv:5: wavs/folder.wav cannot be opened: Is a directory",
            "metadata.csv:6: wavs/silent.wav holds no sound",
            "metadata.csv:8: wavs/link.wav cannot be opened",
        };
        logged[0] = '\0';
        td_dataset *d = open_with(2);
        assert_int_equal(d->origin.from_cache, round);
        assert_int_equal(d->n_train, 2);
        assert_string_equal(td_dataset_id(d, d->train[1]), "wide");
        assert_int_equal(d->view.rows[d->train[1]].clip.channels, 8);
        assert_int_equal(d->problems.total, 7);
        for (size_t i = 0; i < 7; ++i)
            expect_logged(EXPECTED[i]);
        td_dataset_close(d);
    }
    write_wav(temp_path("wavs/missing.wav"), 22050, 1, 500); /* found as soon as it is there */
    td_dataset *d = open_with(2);
    assert_int_equal(d->n_train, 3);
    td_dataset_close(d);
    assert_int_equal(unlink(temp_path("wavs/good.wav")), 0);
    d = open_with(2);
    assert_int_equal(d->n_train, 2);
    td_dataset_close(d);
    settings.max_bad_fraction = 0.05;
    expect_failure(TD_ERR_FORMAT, "7 of 9 rows are bad");
    expect_failure(TD_ERR_FORMAT, "metadata.csv:10: 0 bars");
}

static void write_floats(const char *path, const float *samples, sf_count_t frames)
{
    SF_INFO info = {.samplerate = 22050, .channels = 1, .format = SF_FORMAT_WAV | SF_FORMAT_FLOAT};
    SNDFILE *file = sf_open(path, SFM_WRITE, &info);
    assert_non_null(file);
    assert_int_equal(sf_writef_float(file, samples, frames), frames);
    sf_close(file);
}

static void flaws_are_heard_once(void **state)
{
    (void)state;
    static float samples[4000];
    write_text(temp_path("metadata.csv"), "good|one\nnan|two\ninf|three\nwide|four\n");
    make_folder("wavs");
    write_wav(temp_path("wavs/wide.wav"), 192000, 8, 19200);
    for (int i = 0; i < 4000; ++i)
        samples[i] = i % 100 < 50 ? 0.5F : -0.5F;
    samples[1000] = 1.0F;
    write_floats(temp_path("wavs/good.wav"), samples, 4000);
    samples[7] = strtof("nan", NULL);
    write_floats(temp_path("wavs/nan.wav"), samples, 4000);
    samples[7] = samples[8] = strtof("inf", NULL);
    write_floats(temp_path("wavs/inf.wav"), samples, 4000);
    settings.without_audio = false;
    settings.max_bad_fraction = 0.5;
    td_dataset *d = open_with(2);
    assert_int_equal(d->problems.total, 0); /* headers tell nothing of this */
    td_dataset_close(d);
    settings.listen = true;
    for (int round = 0; round < 2; ++round) {
        logged[0] = '\0';
        d = open_with(2);
        assert_int_equal(d->origin.n_clips_heard, round == 0 ? 4 : 0);
        assert_int_equal(d->origin.n_clips_read, 0);
        assert_int_equal(d->problems.total, 2);
        expect_logged("metadata.csv:2: wavs/nan.wav has 1 samples that are not finite");
        expect_logged("metadata.csv:3: wavs/inf.wav has 2 samples");
        assert_int_equal(d->view.rows[0].clip.n_clipped, 1);
        assert_true(d->view.rows[0].clip.peak > 0.99F && d->view.rows[0].clip.rms > 0.49F);
        assert_int_equal(d->view.rows[3].clip.state, TD_CLIP_GOOD);
        td_dataset_close(d);
    }
}

static void too_many_bad_rows_end_it(void **state)
{
    (void)state;
    FILE *file = fopen(temp_path("metadata.csv"), "w");
    for (size_t i = 0; i < 100; ++i)
        fprintf(file, i % 20 == 7 ? "no bar\n" : "r%zu|text %zu\n", i, i);
    fclose(file);
    td_dataset_close(open_with(2)); /* 5 of 100 is just allowed */
    expect_logged("metadata.csv:8: 0 bars");
    settings.max_bad_fraction = 0.04;
    expect_failure(TD_ERR_FORMAT, "5 of 100 rows are bad");
    expect_failure(TD_ERR_FORMAT, "metadata.csv:8");
    settings.max_bad_fraction = 1;
    write_text(temp_path("metadata.csv"), "none\nat all\n");
    expect_failure(TD_ERR_FORMAT, "all 2 rows are bad");
    write_text(temp_path("metadata.csv"), "id|text\n");
    expect_failure(TD_ERR_FORMAT, "has no row");
}

static void texts_without_a_word_are_bad_rows(void **state)
{
    (void)state;
    write_text(temp_path("metadata.csv"), "a|one\nb|...!?\nc|\xe2\x80\x8b\nd|two\n");
    settings.max_bad_fraction = 0.5;
    td_dataset *d = open_with(2);
    assert_int_equal(d->view.n_rows, 2);
    assert_int_equal(d->problems.total, 2);
    assert_int_equal(d->problems.items[0].line, 2);
    assert_int_equal(d->problems.items[1].line, 3);
    assert_string_equal(td_dataset_text(d, 1), "two");
    td_dataset_close(d);
}

static void what_is_not_there_is_named(void **state)
{
    (void)state;
    static char path[600];
    expect_failure(TD_ERR_NOT_FOUND, "has no metadata.csv");
    write_text(temp_path("metadata_train.csv"), "a|one\n");
    settings.without_audio = false;
    expect_failure(TD_ERR_NOT_FOUND, "wavs' is not there");
    settings.metadata = "metadata_eval.csv";
    expect_failure(TD_ERR_NOT_FOUND, "has no metadata_eval.csv");
    snprintf(path, sizeof path, "%s/nowhere", temp_dir);
    settings.dir = path;
    expect_failure(TD_ERR_NOT_FOUND, "nowhere' is not there");
}

/* ---------------------------------------------------------------- other tokens, progress */

static void bpe_tokens_are_those_of_its_file(void **state)
{
    (void)state;
    static char path[600];
    snprintf(path, sizeof path, "%s/vocab.json", temp_dir);
    write_text(path, "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"[UNK]\",\"vocab\":{\"[UNK]\":0,\"l\":1,"
                     "\"o\":2,\"w\":3,\"lo\":4,\"low\":5},\"merges\":[\"l o\",\"lo w\"]},"
                     "\"added_tokens\":[{\"id\":0,\"content\":\"[UNK]\",\"special\":true},"
                     "{\"id\":6,\"content\":\"[en]\",\"special\":true},"
                     "{\"id\":7,\"content\":\"[SPACE]\",\"special\":true}],"
                     "\"pre_tokenizer\":{\"type\":\"Whitespace\"}}");
    write_text(temp_path("metadata.csv"), "a|low low\nb|lol\n");
    settings.tokens = TD_TOKENS_BPE;
    settings.bpe_path = path;
    td_dataset *d = open_with(2);
    static const int32_t EXPECTED[] = {6, 5, 7, 5};
    assert_int_equal(d->view.rows[0].n_tokens, 4);
    assert_memory_equal(td_dataset_tokens(d, 0), EXPECTED, sizeof EXPECTED);
    assert_int_equal(d->view.header->vocab_size, 8);
    td_dataset_close(d);
    assert_true(truncate(path, 10) == 0);
    td_dataset *none = NULL;
    assert_int_not_equal(try_open(2, &none), TD_OK);
}

/* Rows that a voice of byte pairs cannot learn from are named; the others are spelled as it reads them. */
static void rows_of_byte_pairs_are_judged(void **state)
{
    (void)state;
    static const char VOCAB[] =
        "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"[UNK]\",\"vocab\":{\"q\":0,"
        "\"[UNK]\":1,\"h\":2,\"a\":3,\"o\":4,\"l\":5,\"n\":6,\"i\":7,\"3\":8,\"han\":9,"
        "\"ha\":10},\"merges\":[\"h a\",\"ha n\"]},\"added_tokens\":["
        "{\"id\":0,\"content\":\"[STOP]\",\"special\":true},"
        "{\"id\":1,\"content\":\"[UNK]\",\"special\":true},"
        "{\"id\":11,\"content\":\"[en]\",\"special\":true},"
        "{\"id\":12,\"content\":\"[zh-cn]\",\"special\":true},"
        "{\"id\":13,\"content\":\"[SPACE]\",\"special\":true}],"
        "\"pre_tokenizer\":{\"type\":\"Whitespace\"}}";
    write_text(temp_path("metadata.csv"),
               "id|lang|text\na|en|han ha\nb|en|hat\nc|en|ha q\nd|de|ha\ne|zh|\u4f60\u597d\n");
    settings.tokens = TD_TOKENS_BPE;
    settings.bpe_json = VOCAB;
    settings.refuses_unknown = settings.romanizes = true;
    settings.max_bad_fraction = 1;
    settings.val_fraction = 0;
    td_dataset *d = open_with(2);
    static const int32_t EXPECTED[] = {11, 9, 13, 10}, CHINESE[] = {12, 6, 7, 8, 10, 4, 8};
    assert_int_equal(d->view.n_rows, 2);
    assert_memory_equal(td_dataset_tokens(d, 0), EXPECTED, sizeof EXPECTED);
    assert_int_equal(d->view.rows[1].n_tokens, 7);
    assert_memory_equal(td_dataset_tokens(d, 1), CHINESE, sizeof CHINESE); /* ni3hao3 */
    assert_int_equal(d->problems.total, 3);
    assert_non_null(strstr(d->problems.items[0].message, "U+0074"));
    assert_non_null(strstr(d->problems.items[1].message, "[STOP]"));
    assert_non_null(strstr(d->problems.items[2].message, "'de'"));
    td_dataset_close(d);
    settings.refuses_unknown = false; /* other settings, another block */
    d = open_with(2);
    assert_int_equal(d->view.n_rows, 5);
    td_dataset_close(d);
}

/* Told on any thread, where cmocka cannot fail: judged afterwards. */
typedef struct told {
    uint64_t done, total, calls, faults;
} told;

static void keep_progress(void *context, const char *stage, uint64_t done, uint64_t total)
{
    told *t = context;
    t->faults += strcmp(stage, "text") != 0 || done <= t->done;
    t->done = done;
    t->total = total;
    ++t->calls;
}

static void progress_rises_to_the_end(void **state)
{
    (void)state;
    told t = {0};
    write_table(N_ROWS);
    settings.report = keep_progress;
    settings.report_context = &t;
    td_dataset_close(open_with(4));
    assert_int_equal(t.faults, 0);
    assert_int_equal(t.done, N_ROWS);
    assert_int_equal(t.total, N_ROWS);
    assert_true(t.calls > 1);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(texts_and_tokens_are_right),
        TEST(any_number_of_workers_gives_the_same_bytes),
        TEST(languages_come_from_column_setting_or_text),
        TEST(the_split_depends_on_seed_and_ids_alone),
        TEST(symbols_are_those_of_the_training_rows),
        TEST(touching_nothing_makes_nothing),
        TEST(one_changed_row_normalises_one_row),
        TEST(a_setting_makes_anew_what_depends_on_it),
        TEST(one_changed_recording_is_read_alone),
        TEST(a_cut_cache_is_made_anew),
        TEST(flipped_bytes_are_found),
        TEST(other_versions_and_foreign_files_are_made_anew),
        TEST(what_a_killed_process_left_is_no_harm),
        TEST(killing_a_process_leaves_a_whole_cache_or_none),
        TEST(processes_at_once_all_succeed),
        TEST(a_cache_that_cannot_be_written_is_a_warning),
        TEST(bad_recordings_are_named_and_left_out),
        TEST(flaws_are_heard_once),
        TEST(too_many_bad_rows_end_it),
        TEST(texts_without_a_word_are_bad_rows),
        TEST(what_is_not_there_is_named),
        TEST(bpe_tokens_are_those_of_its_file),
        TEST(rows_of_byte_pairs_are_judged),
        TEST(progress_rises_to_the_end),
    };
    return cmocka_run_group_tests_name("data_dataset", tests, NULL, NULL);
}
