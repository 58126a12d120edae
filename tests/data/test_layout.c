/* Which layout a folder is taken for, which of its tables, and where its lines stand. tests/cli/
 * test_findings_data.py loads a dataset of each. */
#include "data/fixture.h"

#include <unistd.h>

#include "base/error.h"
#include "data/source.h"

static td_source source;

static td_status find(const char *path, const char *layout, bool validates)
{
    const td_source_request request = {.path = path, .layout = layout, .validates = validates};
    td_source_free(&source);
    return td_source_find(&request, &source);
}

static void expect(const char *path, bool validates, const char *layout, const char *table, const char *eval)
{
    if (find(path, NULL, validates) != TD_OK) fail_msg("%s", td_error_last()->message);
    assert_string_equal(source.layout->name, layout);
    assert_string_equal(source.table, table);
    assert_true(source.is_recognised);
    if (eval == NULL)
        assert_null(source.eval);
    else
        assert_string_equal(source.eval, eval);
}

static void refuse(const char *path, const char *layout, const char *words)
{
    assert_int_not_equal(find(path, layout, false), TD_OK);
    if (strstr(td_error_last()->message, words) == NULL)
        fail_msg("'%s' does not say '%s'", td_error_last()->message, words);
}

static void make_folders(const char *path)
{
    assert_int_equal(td_file_make_dirs(temp_path(path)), TD_OK);
}

static int tear_down(void **state)
{
    td_source_free(&source);
    return temp_dir_remove(state);
}

static void test_finding_10_tables_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *text, *layout;
    } CASES[] = {
        {"a|one two|one two\nb|three four|three four\n", "ljspeech"},
        {"a|one two\nb|three four\n", "ljspeech"},
        {"a|one|one\nb|two|two\nc|one|one\nd|two|two\n", "ljspeech"}, /* few words, often */
        {"a|21|twenty one\nb|three four|three four\n", "ljspeech"},
        {"a|x|one two\nb|y|three four\n", "piper"},                                /* words, then texts */
        {"a|Ann Lee|one\nb|Ann Lee|two\nc|Bo Ek|three\nd|Bo Ek|four\n", "piper"},  /* few, often */
        {"a|Ann Lee|one two\nb|Ann Lee|two\nc|three\nd|Bo Ek|four\n", "ljspeech"}, /* not everywhere */
        {"\xef\xbb\xbf\r\naudio_file|text|speaker_name\r\nwavs/a.wav|one|x\r\n", "coqui"},
        {"path\ttext\na\tone\n", "ljspeech"}, /* a table of tabs, but no sentence */
        {"", "ljspeech"},
    };
    make_folders("wavs");
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; ++i) {
        write_text(temp_path("metadata.csv"), CASES[i].text);
        expect(temp_dir, false, CASES[i].layout, "metadata.csv", NULL);
        expect(temp_path("metadata.csv"), false, CASES[i].layout, "metadata.csv", NULL);
    }
    write_text(temp_path("metadata.csv"), CASES[1].text);
    make_folders("wav");
    expect(temp_dir, false, "ljspeech", "metadata.csv", NULL);
    assert_int_equal(rmdir(temp_path("wavs")), 0);
    expect(temp_dir, false, "piper", "metadata.csv", NULL);
}

static void test_finding_01_each_layout_has_its_split(void **state)
{
    (void)state;
    write_text(temp_path("metadata_train.csv"), "a|one\n");
    write_text(temp_path("metadata_eval.csv"), "b|two\n");
    expect(temp_dir, false, "ljspeech", "metadata_train.csv", "metadata_eval.csv");
    expect(temp_dir, true, "ljspeech", "metadata_eval.csv", NULL);
    expect(temp_path("metadata_eval.csv"), true, "ljspeech", "metadata_eval.csv", NULL);
    write_text(temp_path("metadata.csv"), "a|one\n");
    expect(temp_dir, false, "ljspeech", "metadata.csv", NULL);
    make_folders("cv/clips");
    write_text(temp_path("cv/validated.tsv"), "client_id\tpath\tsentence\n");
    expect(temp_path("cv"), false, "common_voice", "validated.tsv", NULL);
    expect(temp_path("cv"), true, "common_voice", "validated.tsv", NULL);
    write_text(temp_path("cv/train.tsv"), "client_id\tpath\tsentence\n");
    expect(temp_path("cv"), false, "common_voice", "train.tsv", "dev.tsv");
    write_text(temp_path("any.txt"), "client_id\tpath\tsentence\n");
    expect(temp_path("any.txt"), false, "common_voice", "any.txt", NULL);
    make_folders("libri/train-clean/1/2");
    write_text(temp_path("libri/train-clean/1/2/1_2_3.normalized.txt"), "one");
    expect(temp_path("libri"), false, "libritts", "train*", "dev*");
    expect(temp_path("libri/train-clean"), false, "libritts", ".", NULL);
}

static void test_finding_10_lines_of_many_files_have_places(void **state)
{
    (void)state;
    char place[TD_FILE_PATH_BYTES + 16], *text, wanted[600];
    size_t bytes;
    td_metadata_settings form = {0};
    make_folders("wav48");
    make_folders("txt/p2/deep.x");
    make_folders("txt/p10");
    write_text(temp_path("txt/p2/p2_1.txt"), "one\ttwo\r\n");
    write_text(temp_path("txt/p10/bare.txt"), "\xef\xbb\xbfthree");
    write_text(temp_path("txt/p2/notes.md"), "no");
    write_text(temp_path("txt/p2/deep.x/p2_9.txt"), "no");
    expect(temp_dir, false, "vctk", "txt", NULL);
    assert_int_equal(td_source_read(&source, &form, &text, &bytes), TD_OK);
    assert_string_equal(text, "p10/bare\tp10\tthree\np2/p2_1\tp2\tone two  \n");
    assert_int_equal(bytes, strlen(text));
    free(text);
    td_source_place(&source, 2, place);
    snprintf(wanted, sizeof wanted, "%s/txt/p2/p2_1.txt:1", temp_dir);
    assert_string_equal(place, wanted);
    td_source_place(&source, 3, place); /* which there is not */
    snprintf(wanted, sizeof wanted, "%s/txt:3", temp_dir);
    assert_string_equal(place, wanted);
    form = (td_metadata_settings){.columns = "id|text"};
    assert_int_equal(td_source_read(&source, &form, &text, &bytes), TD_ERR_CONFIG);
}

static void test_finding_10_what_is_not_there_is_refused(void **state)
{
    (void)state;
    refuse(temp_path("none"), NULL, "is not there");
    refuse(temp_dir, NULL, "has no metadata.csv and nothing of another known layout");
    refuse(temp_dir, "vctk", "has no txt; layout vctk is: txt/SPEAKER/");
    refuse(temp_dir, "libri", "data.layout = 'libri': there are auto, common_voice, coqui");
    make_folders("txt/p1"); /* texts alone are not VCTK */
    write_text(temp_path("txt/p1/p1_1.txt"), "one");
    refuse(temp_dir, NULL, "nothing of another known layout");
    assert_int_equal(find(temp_dir, "vctk", false), TD_OK);
    assert_false(source.is_recognised);
    make_folders("metadata.csv");
    refuse(temp_dir, NULL, "metadata.csv is a folder");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, temp_dir_make, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_finding_10_tables_are_told_apart),
        TEST(test_finding_01_each_layout_has_its_split),
        TEST(test_finding_10_lines_of_many_files_have_places),
        TEST(test_finding_10_what_is_not_there_is_refused),
    };
    return cmocka_run_group_tests_name("data_layout", tests, NULL, NULL);
}
