/* Voices that clients bring: kept over a restart, under names that lead nowhere, and gone when they are removed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audio/encode.h"
#include "base/file.h"
#include "serve/clones.h"
#include "support/expect.h"
#include "support/temp_dir.h"

enum { RATE = 16000 };

/* A tone as a file, in memory. */
static void make_sound(const char *ending, double seconds, float level, char **data, size_t *bytes)
{
    const size_t n = (size_t)(seconds * RATE);
    float *samples = malloc((n + 1) * sizeof *samples);
    assert_non_null(samples);
    for (size_t i = 0; i < n; i++)
        samples[i] = level * (float)sin(0.1 * (double)i);
    check(td_audio_encode_memory(ending, samples, n, RATE, data, bytes));
    free(samples);
}

static size_t count_files(const char *folder)
{
    td_file_names names;
    check(td_file_list(folder, &names));
    const size_t n = names.count;
    td_file_names_free(&names);
    return n;
}

static void test_keeping(void **state)
{
    char folder[512], base[TD_VOICE_NAME], name[TD_VOICE_NAME], path[TD_FILE_PATH_BYTES], *sound, *flac;
    size_t bytes, flac_bytes;
    td_clones *clones;
    (void)state;
    snprintf(folder, sizeof folder, "%s", temp_path("voices/below"));
    make_sound(".wav", 1, 0.3f, &sound, &bytes);
    make_sound(".flac", 2, 0.3f, &flac, &flac_bytes);
    check(td_clones_open(folder, &clones));
    check(td_clones_add(clones, "ben", "anna", sound, bytes));
    check(td_clones_add(clones, "\xc3\x89va", "anna", sound, bytes)); /* the same recording */
    check(td_clones_add(clones, "..", "anna", flac, flac_bytes));     /* a name, and nothing else */
    refuse(TD_ERR_CONFIG, "already", td_clones_add(clones, "ben", "anna", flac, flac_bytes));
    assert_int_equal(count_files(folder), 3);
    td_clones_close(clones);
    check(td_clones_open(folder, &clones));
    assert_true(td_clones_find(clones, "..", base, path, sizeof path));
    assert_string_equal(base, "anna");
    assert_true(strncmp(path, folder, strlen(folder)) == 0 && td_file_exists(path));
    assert_int_equal(strspn(path + strlen(folder) + 1, "0123456789abcdef"), 32);
    assert_false(td_clones_find(clones, "nobody", base, path, sizeof path));
    assert_true(td_clones_get(clones, 1, name, base));
    assert_string_equal(name, "\xc3\x89va");
    check(td_clones_remove(clones, "ben"));
    assert_int_equal(count_files(folder), 3); /* another name has the recording */
    check(td_clones_remove(clones, "\xc3\x89va"));
    check(td_clones_remove(clones, ".."));
    refuse(TD_ERR_NOT_FOUND, "no voice", td_clones_remove(clones, "ben"));
    assert_int_equal(count_files(folder), 1);
    assert_false(td_clones_get(clones, 0, name, base));
    td_clones_close(clones);
    free(sound);
    free(flac);
}

static void test_refused(void **state)
{
    static const char *const NAMES[] = {"",
                                        "a/b",
                                        "a:b",
                                        "a\nb",
                                        "<b>",
                                        "\xff",
                                        "a\\b",
                                        "a\xe2\x80\xae"
                                        "b"};
    char folder[512], *quiet, *brief, *sound;
    size_t n_quiet, n_brief, bytes;
    td_clones *clones;
    (void)state;
    snprintf(folder, sizeof folder, "%s", temp_path("others"));
    make_sound(".wav", 1, 0, &quiet, &n_quiet);
    make_sound(".wav", 0.1, 0.3f, &brief, &n_brief);
    make_sound(".wav", 1, 0.3f, &sound, &bytes);
    check(td_clones_open(folder, &clones));
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        refuse(TD_ERR_CONFIG, "cannot be called", td_clones_add(clones, NAMES[i], "anna", sound, bytes));
    refuse(TD_ERR_FORMAT, "silent", td_clones_add(clones, "b", "anna", quiet, n_quiet));
    refuse(TD_ERR_FORMAT, "needs 0.5 s", td_clones_add(clones, "b", "anna", brief, n_brief));
    refuse(TD_ERR_FORMAT, "cannot be read", td_clones_add(clones, "b", "anna", "hello", 5));
    refuse(TD_ERR_FORMAT, "cannot be read", td_clones_add(clones, "b", "anna", sound, bytes / 2));
    refuse(TD_ERR_FORMAT, "cannot be read", td_clones_add(clones, "b", "anna", "", 0));
    assert_int_equal(count_files(folder), 0);
    td_clones_close(clones);
    free(quiet);
    free(brief);
    free(sound);
}

static void test_broken_list(void **state)
{
    static const char *const LISTS[] = {
        "", "{}", "[1]", "[{\"name\":\"a\",\"voice\":\"b\",\"recording\":\"../../etc/passwd\"}]",
        "[{\"name\":\"a/b\",\"voice\":\"b\",\"recording\":\"00000000000000000000000000000000\"}]"};
    char folder[512], path[600];
    td_clones *clones;
    (void)state;
    snprintf(folder, sizeof folder, "%s", temp_path("broken"));
    snprintf(path, sizeof path, "%s/voices.json", folder);
    check(td_file_make_dirs(folder));
    for (size_t i = 0; i < sizeof LISTS / sizeof *LISTS; i++) {
        check(td_file_write_atomic(path, LISTS[i], strlen(LISTS[i])));
        refuse(TD_ERR_FORMAT, "voices.json", td_clones_open(folder, &clones));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_keeping), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_broken_list)};
    return cmocka_run_group_tests(tests, temp_dir_make, temp_dir_remove);
}
