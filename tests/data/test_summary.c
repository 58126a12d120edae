/* Statistics of a dataset whose rows are known. */
#include "data/fixture.h"

#include "base/error.h"
#include "data/summary.h"

/* Samples of one value at 8 kHz. */
static void write_flat(const char *path, sf_count_t frames, short value)
{
    SF_INFO info = {.samplerate = 8000, .channels = 1, .format = SF_FORMAT_WAV | SF_FORMAT_PCM_16};
    SNDFILE *file = sf_open(path, SFM_WRITE, &info);
    assert_non_null(file);
    for (sf_count_t i = 0; i < frames; ++i)
        assert_int_equal(sf_writef_short(file, &value, 1), 1);
    sf_close(file);
}

static void figures_are_right(void **state)
{
    (void)state;
    td_pool *pool = NULL;
    td_dataset *d = NULL;
    td_summary s;
    char line[200];
    FILE *file = fopen(temp_path("metadata.csv"), "w");
    assert_non_null(file);
    make_folder("wavs");
    fputs("id|text|speaker\n", file);
    for (int i = 0; i < 20; ++i) { /* 20 characters in 2 seconds */
        fprintf(file, "r%02d|twenty characters %c%c|%s\n", i, 'a' + i % 20, 'a' + i,
                i % 4 == 0 ? "zoe" : "adam");
        snprintf(line, sizeof line, "wavs/r%02d.wav", i);
        write_wav(temp_path(line), i < 15 ? 8000 : 16000, i == 3 ? 2 : 1, i < 15 ? 16000 : 32000);
    }
    fputs("long|this text is far too long for its short recording|adam\n"
          "slow|this text is too short|adam\ntwice|Twenty characters aa|adam\nnone|bad|adam\n",
          file);
    fclose(file);
    write_wav(temp_path("wavs/long.wav"), 8000, 1, 8000);
    write_flat(temp_path("wavs/r05.wav"), 16000, 32767);
    write_flat(temp_path("wavs/r06.wav"), 16000, 3);
    write_wav(temp_path("wavs/slow.wav"), 8000, 1, 160000);
    write_wav(temp_path("wavs/twice.wav"), 8000, 1, 16000);
    const td_dataset_settings settings = {
        .dir = temp_dir, .language = "en", .val_fraction = 0.1, .max_bad_fraction = 0.1, .listen = true};
    assert_int_equal(td_pool_create(2, &pool), TD_OK);
    if (td_dataset_open(&settings, pool, &d) != TD_OK) fail_msg("%s", td_error_last()->message);
    assert_int_equal(td_summary_make(d, &s), TD_OK);
    assert_int_equal(s.n_rows, 23);
    assert_int_equal(s.n_val, 2);
    assert_int_equal(s.n_train, 21);
    assert_int_equal(s.n_bad, 1);
    assert_float_equal(s.hours * 3600, 21 * 2 + 1 + 20, 1e-6);
    assert_float_equal(s.seconds.max, 20, 1e-9);
    assert_float_equal(s.seconds.median, 2, 1e-9);
    assert_float_equal(s.p99_seconds, 20, 1e-9);
    assert_int_equal(s.bins[1], 1);
    assert_int_equal(s.bins[2], 21);
    assert_int_equal(s.bins[TD_SUMMARY_BINS - 1], 1);
    assert_float_equal(s.characters_per_second, 10, 1e-9);
    assert_float_equal(s.characters.median, 20, 1e-9);
    assert_float_equal(s.tokens.median, 22, 1e-9);
    assert_int_equal(s.languages[TD_LANG_EN], 23);
    assert_int_equal(s.speakers[0], 18);
    assert_int_equal(s.speakers[1], 5);
    assert_int_equal(s.rates[0].rate_hz, 8000);
    assert_int_equal(s.rates[0].n_rows, 18);
    assert_int_equal(s.rates[1].rate_hz, 16000);
    assert_int_equal(s.rates[1].n_rows, 5);
    assert_int_equal(s.rates[2].n_rows, 0);
    assert_int_equal(s.n_not_mono, 1);
    assert_int_equal(s.duplicates.count, 1);
    assert_string_equal(td_dataset_id(d, s.duplicates.first[0]), "twice");
    assert_int_equal(s.hurried.count, 1);
    assert_string_equal(td_dataset_id(d, s.hurried.first[0]), "long");
    assert_int_equal(s.slow.count, 1);
    assert_string_equal(td_dataset_id(d, s.slow.first[0]), "slow");
    assert_int_equal(s.n_heard, 23);
    assert_int_equal(s.clipped.count, 1);
    assert_string_equal(td_dataset_id(d, s.clipped.first[0]), "r05");
    assert_int_equal(s.silent.count, 1);
    assert_string_equal(td_dataset_id(d, s.silent.first[0]), "r06");
    assert_int_equal(s.off_centre.count, 22); /* the tones of this test are, all but the silent one */
    td_summary_free(&s);
    td_dataset_close(d);
    td_pool_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(figures_are_right, temp_dir_make, temp_dir_remove),
    };
    return cmocka_run_group_tests_name("data_summary", tests, NULL, NULL);
}
