/* Where validation rows come from, and that they share the training's symbols. */
#include "data/fixture.h"

#include <unistd.h>

#include "base/error.h"
#include "data/pair.h"

static td_dataset_pair open_pair(const char *dir, const char *val_dir)
{
    const td_dataset_settings settings = {
        .dir = dir, .language = "en", .val_fraction = 0.25, .max_bad_fraction = 0, .without_audio = true};
    td_pool *pool = NULL;
    td_dataset_pair pair;
    assert_int_equal(td_pool_create(1, &pool), TD_OK);
    if (td_dataset_pair_open(&settings, val_dir, pool, &pair) != TD_OK) assert_null(pair.train);
    td_pool_destroy(pool);
    return pair;
}

static void one_table_is_split(void **state)
{
    (void)state;
    write_text(temp_path("metadata.csv"), "a|one\nb|two\nc|three\nd|four\n");
    td_dataset_pair pair = open_pair(temp_dir, NULL);
    assert_non_null(pair.train);
    assert_null(pair.val);
    assert_int_equal(pair.train->n_train, 3);
    assert_int_equal(pair.train->n_val, 1);
    td_dataset_pair_close(&pair);
}

static void two_tables_of_a_folder_are_a_pair(void **state)
{
    (void)state;
    write_text(temp_path("metadata_train.csv"), "a|one\nb|two\nc|three\nd|four\n");
    write_text(temp_path("metadata_eval.csv"), "e|nine\nf|жoo\n");
    td_dataset_pair pair = open_pair(temp_dir, NULL);
    assert_non_null(pair.val);
    assert_int_equal(pair.train->n_train, 4);
    assert_int_equal(pair.val->n_train, 2);
    assert_string_equal(td_block_string(&pair.val->view, pair.val->view.header->symbols),
                        td_block_string(&pair.train->view, pair.train->view.header->symbols));
    assert_int_equal(pair.val->view.rows[1].n_unknown, 1); /* of no language that the training rows have */
    td_dataset_pair_close(&pair);
}

static void two_folders_are_a_pair_and_one_twice_is_refused(void **state)
{
    (void)state;
    char other[512];
    make_folder("other");
    snprintf(other, sizeof other, "%s", temp_path("other"));
    write_text(temp_path("metadata.csv"), "a|one\nb|two\n");
    write_text(temp_path("other/metadata.csv"), "c|three\n");
    td_dataset_pair pair = open_pair(temp_dir, other);
    assert_non_null(pair.val);
    assert_string_equal(td_dataset_text(pair.val, 0), "three");
    td_dataset_pair_close(&pair);
    pair = open_pair(temp_dir, temp_dir);
    assert_null(pair.train);
    assert_int_equal(td_error_last()->status, TD_ERR_CONFIG);
}

static void test_finding_01_a_row_of_both_tables_is_refused(void **state)
{
    (void)state;
    write_text(temp_path("metadata_train.csv"), "a|one\nb|two\n");
    write_text(temp_path("metadata_eval.csv"), "c|nine\n\nb|two\n");
    const td_dataset_pair pair = open_pair(temp_dir, NULL);
    assert_null(pair.train);
    assert_int_equal(td_error_last()->status, TD_ERR_CONFIG);
    assert_non_null(strstr(td_error_last()->message, "metadata_eval.csv:3: 'b' validates"));
    assert_non_null(strstr(td_error_last()->message, "metadata_train.csv:2"));
}

static void test_finding_01_a_link_to_a_training_recording_is_refused(void **state)
{
    (void)state;
    char other[512], link[512];
    make_folder("wavs");
    make_folder("other");
    make_folder("other/wavs");
    snprintf(other, sizeof other, "%s", temp_path("other"));
    snprintf(link, sizeof link, "%s", temp_path("other/wavs/z.wav"));
    write_text(temp_path("metadata.csv"), "a|one\nb|two\n");
    write_text(temp_path("other/metadata.csv"), "z|three\n");
    write_wav(temp_path("wavs/b.wav"), 22050, 1, 1000);
    assert_int_equal(symlink(temp_path("wavs/b.wav"), link), 0);
    td_dataset_pair pair = open_pair(temp_dir, other);
    assert_null(pair.train);
    assert_non_null(strstr(td_error_last()->message, "metadata.csv:1: 'z' validates"));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, temp_dir_make, temp_dir_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_table_is_split),
        TEST(two_tables_of_a_folder_are_a_pair),
        TEST(two_folders_are_a_pair_and_one_twice_is_refused),
        TEST(test_finding_01_a_row_of_both_tables_is_refused),
        TEST(test_finding_01_a_link_to_a_training_recording_is_refused),
    };
    return cmocka_run_group_tests_name("data_pair", tests, NULL, NULL);
}
