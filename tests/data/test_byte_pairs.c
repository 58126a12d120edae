/* Texts as a voice of byte pairs learns them: spelled as it reads them, and left out where it cannot. */
#include "data/fixture.h"

#include "base/error.h"
#include "data/dataset.h"

static td_dataset_settings settings;

static int set_up(void **state)
{
    static char cache[512];
    if (temp_dir_make(state) != 0) return -1;
    snprintf(cache, sizeof cache, "%s/cache", temp_dir);
    settings = (td_dataset_settings){.dir = temp_dir, .seed = 1, .cache_dir = cache, .without_audio = true};
    listen_to(keep_log, NULL, TD_LOG_INFO);
    return 0;
}

static int tear_down(void **state)
{
    listen_to(NULL, NULL, TD_LOG_ERROR);
    return temp_dir_remove(state);
}

static td_dataset *open_set(void)
{
    td_pool *pool = NULL;
    td_dataset *d = NULL;
    assert_int_equal(td_pool_create(2, &pool), TD_OK);
    if (td_dataset_open(&settings, pool, &d) != TD_OK) fail_msg("%s", td_error_last()->message);
    td_pool_destroy(pool);
    return d;
}

/* Rows that a voice of byte pairs cannot learn from are named; the others are spelled as it reads them. */
static void rows_of_byte_pairs_are_judged(void **state)
{
    (void)state;
    static const char VOCAB[] =
        "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"[UNK]\",\"vocab\":{\"[STOP]\":0,"
        "\"[UNK]\":1,\"h\":2,\"a\":3,\"o\":4,\"l\":5,\"n\":6,\"i\":7,\"3\":8,\"han\":9,"
        "\"ha\":10},\"merges\":[\"h a\",\"ha n\"]},\"added_tokens\":["
        "{\"id\":0,\"content\":\"[STOP]\",\"special\":true},"
        "{\"id\":1,\"content\":\"[UNK]\",\"special\":true},"
        "{\"id\":11,\"content\":\"[en]\",\"special\":true},"
        "{\"id\":12,\"content\":\"[zh-cn]\",\"special\":true},"
        "{\"id\":13,\"content\":\"[SPACE]\",\"special\":true}],"
        "\"pre_tokenizer\":{\"type\":\"Whitespace\"}}";
    write_text(temp_path("metadata.csv"),
               "id|lang|text\na|en|han ha\nb|en|hat\nc|en|ha [STOP]\nd|de|ha\ne|zh|\u4f60\u597d\n");
    settings.tokens = TD_TOKENS_BPE;
    settings.bpe_json = VOCAB;
    settings.refuses_unknown = settings.romanizes = true;
    settings.max_bad_fraction = 1;
    settings.val_fraction = 0;
    td_dataset *d = open_set();
    static const int32_t EXPECTED[] = {11, 9, 13, 10}, CHINESE[] = {12, 6, 7, 8, 10, 4, 8};
    assert_int_equal(d->view.n_rows, 2);
    assert_memory_equal(td_dataset_tokens(d, 0), EXPECTED, sizeof EXPECTED);
    assert_int_equal(d->view.rows[1].n_tokens, 7);
    assert_memory_equal(td_dataset_tokens(d, 1), CHINESE, sizeof CHINESE); /* ni3hao3 */
    assert_int_equal(d->problems.total, 3);
    assert_non_null(strstr(d->problems.items[0].message, "U+0074"));
    assert_non_null(strstr(d->problems.items[1].message, "U+0028"));
    assert_non_null(strstr(d->problems.items[2].message, "'de'"));
    td_dataset_close(d);
    settings.refuses_unknown = false; /* other settings, another block */
    d = open_set();
    assert_int_equal(d->view.n_rows, 5);
    td_dataset_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_of_byte_pairs_are_judged, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
