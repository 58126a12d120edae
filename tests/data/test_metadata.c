/* The table of a dataset: what is tolerated, what is a bad row, and how it is named. */
#include "data/fixture.h"

#include "base/error.h"
#include "data/metadata.h"

static td_metadata *parse_bytes(const char *text, size_t bytes, const td_metadata_settings *settings)
{
    td_metadata *table = NULL;
    static const td_metadata_settings USUAL;
    char *copy = malloc(bytes + 1);
    assert_non_null(copy);
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    assert_int_equal(td_metadata_parse(copy, bytes, "metadata.csv", settings ? settings : &USUAL, &table),
                     TD_OK);
    return table;
}

static td_metadata *parse(const char *text)
{
    return parse_bytes(text, strlen(text), NULL);
}

static void expect_row(const td_metadata *table, size_t i, const char *id, const char *text, uint32_t line)
{
    assert_true(i < table->n_rows);
    assert_string_equal(table->rows[i].id, id);
    assert_string_equal(table->rows[i].text, text);
    assert_int_equal(table->rows[i].text_bytes, strlen(text));
    assert_int_equal(table->rows[i].line, line);
}

static void expect_problem(const td_metadata *table, size_t i, uint32_t line, const char *words)
{
    assert_true(i < table->problems.count);
    assert_int_equal(table->problems.items[i].line, line);
    if (strstr(table->problems.items[i].message, words) == NULL)
        fail_msg("'%s' does not say '%s'", table->problems.items[i].message, words);
}

static void the_usual_layout_is_read(void **state)
{
    (void)state;
    td_metadata *table = parse("LJ001-0001|It cost $5.|It cost five dollars.\nLJ001-0002|Yes.|Yes.\n");
    assert_int_equal(table->n_rows, 2);
    expect_row(table, 0, "LJ001-0001", "It cost five dollars.", 1);
    expect_row(table, 1, "LJ001-0002", "Yes.", 2);
    assert_int_equal(table->problems.total, 0);
    assert_int_equal(table->n_speakers, 1);
    assert_string_equal(table->speakers[0], "");
    assert_int_equal(table->rows[0].lang, TD_METADATA_NO_LANG);
    td_metadata_destroy(table);
}

static void the_first_and_the_last_bar_count(void **state)
{
    (void)state;
    td_metadata *table = parse("a|one | two | three|four\nb|x|y|\n");
    expect_row(table, 0, "a", "four", 1);
    expect_row(table, 1, "b", "x|y", 2);
    td_metadata_destroy(table);
}

static void marks_ends_headers_and_blanks_are_tolerated(void **state)
{
    (void)state;
    td_metadata *table =
        parse("\xef\xbb\xbfID|Transcription|Normalized Transcription\r\n\r\n  \t \r\na|one|\r\n"
              "b | two \r\n\n c|\"quoted\"|three");
    assert_true(table->has_header);
    assert_int_equal(table->n_rows, 3);
    expect_row(table, 0, "a", "one", 4);
    expect_row(table, 1, "b", "two", 5);
    expect_row(table, 2, "c", "three", 7);
    assert_int_equal(table->problems.total, 0);
    td_metadata_destroy(table);
}

static void an_id_may_be_written_as_a_file(void **state)
{
    (void)state;
    td_metadata *table = parse("wavs/a.wav|one\nb.WAV|two\np1/c|three\n");
    expect_row(table, 0, "a", "one", 1);
    expect_row(table, 1, "b", "two", 2);
    expect_row(table, 2, "p1/c", "three", 3);
    td_metadata_destroy(table);
}

static void known_speakers_keep_their_numbers(void **state)
{
    (void)state;
    static const td_metadata_settings SETTINGS = {.columns = "id|speaker|text", .speakers = "z\nm\nb"};
    static const char *const WANTED[] = {"z", "m", "b", "a", "q"};
    static const uint32_t NUMBERS[] = {4, 0, 3, 2, 3};
    td_metadata *table = parse_bytes("1|q|x\n2|z|x\n3|a|x\n4|b|x\n5|a|x\n", 30, &SETTINGS);
    assert_int_equal(table->n_speakers, 5);
    for (size_t i = 0; i < 5; ++i) {
        assert_string_equal(table->speakers[i], WANTED[i]);
        assert_int_equal(table->rows[i].speaker, NUMBERS[i]);
    }
    td_metadata_destroy(table);
}

static void test_finding_10_tabs_and_commas_by_the_header(void **state)
{
    (void)state;
    td_metadata *table =
        parse("speaker\tid\ttext\tlang\r\n\ta\tone|two, three\ten\r\nx\tb\tfour\r\ny\tc\r\n");
    assert_int_equal(table->n_rows, 2);
    expect_row(table, 0, "a", "one|two, three", 2);
    expect_row(table, 1, "b", "four", 3);
    expect_problem(table, 0, 4, "too few columns, where the header has 4");
    td_metadata_destroy(table);
    table = parse("\"file\",text,note\na,\"one, \"\"two\"\"\" "
                  ",x\nb,two\nc,\"three\nd,\"four\"!,y\ne,5,6,7\nf,a \"b\",\n");
    assert_int_equal(table->n_rows, 3);
    expect_row(table, 0, "a", "one, \"two\"", 2);
    expect_row(table, 1, "b", "two", 3);
    expect_row(table, 2, "f", "a \"b\"", 7);
    expect_problem(table, 0, 4, "after column 1 of 3 a double quote does not close");
    expect_problem(table, 1, 5, "after column 1 of 3 a double quote does not close");
    expect_problem(table, 2, 6, "too many columns");
    td_metadata_destroy(table);
    table = parse("a|file, text\nb|two\n"); /* no header of commas */
    assert_int_equal(table->n_rows, 2);
    td_metadata_destroy(table);
}

static void bad_rows_are_named_and_left_out(void **state)
{
    (void)state;
    td_metadata *table =
        parse("a|one\nno bars here\n|empty id\nb|\nc||  \na|again\n../d|out\n/e|out\nf/..|out\n"
              "g/../../h|out\nz|last\n");
    assert_int_equal(table->n_rows, 2);
    expect_row(table, 1, "z", "last", 11);
    assert_int_equal(table->problems.total, 9);
    expect_problem(table, 0, 2, "0 bars");
    expect_problem(table, 1, 3, "id is empty");
    expect_problem(table, 2, 4, "'b' has no text");
    expect_problem(table, 3, 5, "'c' has no text");
    expect_problem(table, 4, 6, "'a' is already that of line 1");
    expect_problem(table, 5, 7, "leads out of");
    expect_problem(table, 6, 8, "leads out of");
    expect_problem(table, 7, 9, "leads out of");
    expect_problem(table, 8, 10, "leads out of");
    td_metadata_destroy(table);
}

static void bytes_that_are_not_text_are_named(void **state)
{
    (void)state;
    static const char TEXT[] = "a|caf\xe9\nb|zero\0byte\nc|good\n\xff\xfe\n";
    td_metadata *table = parse_bytes(TEXT, sizeof TEXT - 1, NULL);
    assert_int_equal(table->n_rows, 1);
    expect_row(table, 0, "c", "good", 3);
    assert_int_equal(table->problems.total, 3);
    expect_problem(table, 0, 1, "5");
    expect_problem(table, 1, 2, "");
    expect_problem(table, 2, 4, "");
    td_metadata_destroy(table);
}

static void a_line_of_a_megabyte_is_one_bad_row(void **state)
{
    (void)state;
    const size_t bytes = 1 << 20;
    char *text = malloc(bytes + 16);
    assert_non_null(text);
    memset(text, 'x', bytes);
    memcpy(text, "a|", 2);
    memcpy(text + bytes, "\nb|good\n", 8);
    td_metadata *table = parse_bytes(text, bytes + 8, NULL);
    assert_int_equal(table->n_rows, 1);
    expect_row(table, 0, "b", "good", 2);
    expect_problem(table, 0, 1, "1048576 bytes");
    td_metadata_destroy(table);
    free(text);
}

static void only_the_first_problems_are_kept_and_all_counted(void **state)
{
    (void)state;
    char *text = malloc(5000);
    assert_non_null(text);
    for (size_t i = 0; i < 2500; ++i)
        memcpy(text + 2 * i, "x\n", 2);
    td_metadata *table = parse_bytes(text, 5000, NULL);
    assert_int_equal(table->problems.total, 2500);
    assert_int_equal(table->problems.count, TD_PROBLEMS_KEPT);
    td_metadata_destroy(table);
    free(text);
}

static void nothing_gives_no_rows(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {"", "\n\n", "\xef\xbb\xbf", "id|text|normalised\n", "\r\n"};
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; ++i) {
        td_metadata *table = parse(TEXTS[i]);
        assert_int_equal(table->n_rows, 0);
        assert_int_equal(table->problems.total, 0);
        assert_int_equal(table->n_speakers, 1);
        td_metadata_destroy(table);
    }
}

static void columns_come_from_the_header(void **state)
{
    (void)state;
    td_metadata *table = parse("audio_file|text|speaker_name|lang|quality\nwavs/a.wav|one|two|zoe|de-AT|5\n"
                               "b|x|adam||1\nc|x|adam|xx|1\nd|x\n");
    assert_int_equal(table->n_rows, 2);
    expect_row(table, 0, "a", "one|two", 2);
    assert_int_equal(table->n_speakers, 2);
    assert_string_equal(table->speakers[0], "adam");
    assert_string_equal(table->speakers[1], "zoe");
    assert_int_equal(table->rows[0].speaker, 1);
    assert_int_equal(table->rows[1].speaker, 0);
    assert_int_equal(table->rows[0].lang, TD_LANG_DE);
    assert_int_equal(table->rows[1].lang, TD_METADATA_NO_LANG);
    expect_problem(table, 0, 4, "xx");
    expect_problem(table, 1, 5, "1 bar where at least 4 belong");
    td_metadata_destroy(table);
}

static void columns_come_from_the_settings(void **state)
{
    (void)state;
    const td_metadata_settings settings = {.columns = "id|speaker|text|normalised"};
    static const char TEXT[] = "a|s2|one|two|three\nb|s1|four\n";
    td_metadata *table = parse_bytes(TEXT, sizeof TEXT - 1, &settings);
    expect_row(table, 0, "a", "three", 1);
    expect_row(table, 1, "b", "four", 2);
    assert_int_equal(table->rows[0].speaker, 1);
    td_metadata_destroy(table);
}

static void a_pattern_gives_the_speaker(void **state)
{
    (void)state;
    const td_metadata_settings settings = {.speaker_pattern = "^(p[0-9]+)_"};
    static const char TEXT[] = "p248_1|one\np225_1|two\nxyz|three\np248_2|four\n";
    td_metadata *table = parse_bytes(TEXT, sizeof TEXT - 1, &settings);
    assert_int_equal(table->n_rows, 3);
    assert_int_equal(table->n_speakers, 2);
    assert_string_equal(table->speakers[0], "p225");
    assert_int_equal(table->rows[0].speaker, 1);
    assert_int_equal(table->rows[1].speaker, 0);
    assert_int_equal(table->rows[2].speaker, 1);
    assert_string_equal(table->rows[2].id, "p248_2");
    expect_problem(table, 0, 3, "does not match the id 'xyz'");
    td_metadata_destroy(table);
}

static void wrong_settings_are_refused(void **state)
{
    (void)state;
    static const struct {
        td_metadata_settings settings;
        const char *words;
    } CASES[] = {
        {{.columns = "id|text|spaeker"}, "no column 'spaeker'"},
        {{.columns = "id|speaker"}, "id and text must be there"},
        {{.columns = "id|text|text"}, "each name once"},
        {{.columns = ""}, "no column ''"},
        {{.speaker_pattern = "([a-z"}, "data.speaker_pattern"},
        {{.speaker_pattern = "^p[0-9]+"}, "has no group"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; ++i) {
        td_metadata *table = NULL;
        assert_int_equal(td_metadata_parse(strdup("a|b"), 3, "m", &CASES[i].settings, &table), TD_ERR_CONFIG);
        assert_null(table);
        if (strstr(td_error_last()->message, CASES[i].words) == NULL)
            fail_msg("'%s' does not say '%s'", td_error_last()->message, CASES[i].words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_usual_layout_is_read),
        cmocka_unit_test(the_first_and_the_last_bar_count),
        cmocka_unit_test(marks_ends_headers_and_blanks_are_tolerated),
        cmocka_unit_test(an_id_may_be_written_as_a_file),
        cmocka_unit_test(known_speakers_keep_their_numbers),
        cmocka_unit_test(test_finding_10_tabs_and_commas_by_the_header),
        cmocka_unit_test(bad_rows_are_named_and_left_out),
        cmocka_unit_test(bytes_that_are_not_text_are_named),
        cmocka_unit_test(a_line_of_a_megabyte_is_one_bad_row),
        cmocka_unit_test(only_the_first_problems_are_kept_and_all_counted),
        cmocka_unit_test(nothing_gives_no_rows),
        cmocka_unit_test(columns_come_from_the_header),
        cmocka_unit_test(columns_come_from_the_settings),
        cmocka_unit_test(a_pattern_gives_the_speaker),
        cmocka_unit_test(wrong_settings_are_refused),
    };
    return cmocka_run_group_tests_name("data_metadata", tests, NULL, NULL);
}
