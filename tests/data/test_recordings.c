/* That recordings are found by id with any ending, in wavs/ and beside the table, and two of one id are told. */
#include "data/fixture.h"

#include <unistd.h>

#include "base/error.h"
#include "data/dataset.h"

static td_recordings *recordings;

static const td_layout *find_layout(const char *name)
{
    size_t i = 0;
    while (strcmp(td_layout_at(i)->name, name) != 0)
        ++i;
    return td_layout_at(i);
}

static void expect_found(const char *id, const char *file, const char *twin)
{
    td_recording found;
    assert_int_equal(td_recordings_find(recordings, id, &found), TD_OK);
    assert_string_equal(found.file, file);
    if (twin == NULL)
        assert_null(found.twin);
    else
        assert_string_equal(found.twin, twin);
}

static void test_finding_10_any_ending_is_found(void **state)
{
    (void)state;
    static const char *const FILES[] = {
        "wavs/a.wav", "wavs/b.WAV",   "wavs/c.Flac", "wavs/d.txt", "e.mp3", "wavs/f.opus", "f.wav",
        "s/g.ogg",    "wavs/s/h.aif", "wavs/i.wav",  "wavs/i.mp3", "j.wav", "j.AU"};
    static const char *const IDS[] = {"a", "b", "c", "d", "e", "f", "s/g", "s/h", "i", "j"};
    make_folder("wavs");
    make_folder("wavs/s");
    make_folder("s");
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; ++i)
        write_text(temp_path(FILES[i]), "");
    assert_int_equal(td_recordings_open(temp_dir, find_layout("ljspeech"), &recordings), TD_OK);
    for (size_t i = 0; i < sizeof IDS / sizeof *IDS; ++i)
        assert_int_equal(td_recordings_add(recordings, IDS[i]), TD_OK);
    expect_found("a", "wavs/a.wav", NULL);
    expect_found("b", "wavs/b.WAV", NULL);
    expect_found("c", "wavs/c.Flac", NULL);
    expect_found("d", "wavs/d.wav", NULL); /* which is not there */
    expect_found("e", "e.mp3", NULL);
    expect_found("f", "wavs/f.opus", NULL);
    expect_found("s/g", "s/g.ogg", NULL);
    expect_found("s/h", "wavs/s/h.aif", NULL);
    expect_found("i", "wavs/i.mp3", "wavs/i.wav");
    expect_found("j", "j.AU", "j.wav");
    expect_found("z", "wavs/z.wav", NULL);
    td_recordings_close(recordings);
}

static td_dataset *open_dataset(void)
{
    const td_dataset_settings settings = {
        .dir = temp_dir, .language = "en", .max_bad_fraction = 0.5, .cache_dir = temp_path("cache")};
    td_pool *pool = NULL;
    td_dataset *d = NULL;
    assert_int_equal(td_pool_create(1, &pool), TD_OK);
    if (td_dataset_open(&settings, pool, &d) != TD_OK) fail_msg("%s", td_error_last()->message);
    td_pool_destroy(pool);
    return d;
}

static void test_finding_10_a_new_ending_is_noticed(void **state)
{
    (void)state;
    char old[512], path[TD_FILE_PATH_BYTES];
    make_folder("wavs");
    write_text(temp_path("metadata.csv"), "a.WAV|one\nwavs/b.aiff|two\n");
    write_wav(temp_path("wavs/a.wav"), 22050, 1, 1000);
    write_wav(temp_path("wavs/b.AIFF"), 22050, 1, 1000);
    td_dataset *d = open_dataset();
    assert_int_equal(d->n_train, 2);
    assert_int_equal(d->origin.n_clips_read, 2);
    td_dataset_close(d);
    snprintf(old, sizeof old, "%s", temp_path("wavs/b.AIFF"));
    assert_int_equal(rename(old, temp_path("wavs/b.flac")), 0); /* size and time stay */
    for (int round = 0; round < 2; ++round) {
        d = open_dataset();
        assert_int_equal(d->origin.n_clips_read, round == 0);
        assert_int_equal(td_dataset_clip_path(d, 1, path), TD_OK);
        assert_non_null(strstr(path, "wavs/b.flac"));
        td_dataset_close(d);
    }
    write_wav(temp_path("wavs/b.mp3"), 22050, 1, 1000);
    d = open_dataset();
    assert_int_equal(d->n_train, 1);
    assert_int_equal(d->problems.total, 1);
    assert_non_null(strstr(d->problems.items[0].message, "wavs/b.flac and wavs/b.mp3 are both recordings"));
    td_dataset_close(d);
    assert_int_equal(unlink(temp_path("wavs/b.mp3")), 0);
    d = open_dataset();
    assert_int_equal(d->n_train, 2);
    td_dataset_close(d);
}

/* The first half of a recording of 60,000 samples. */
static void write_half(const char *name, int format)
{
    enum { FRAMES = 60000 };
    static short samples[FRAMES];
    SF_INFO info = {.samplerate = 22050, .channels = 1, .format = format};
    struct stat about;
    for (size_t i = 0; i < FRAMES; ++i)
        samples[i] = (short)(i * i % 1009);
    SNDFILE *file = sf_open(temp_path(name), SFM_WRITE, &info);
    assert_non_null(file);
    assert_int_equal(sf_writef_short(file, samples, FRAMES), FRAMES);
    sf_close(file);
    assert_int_equal(stat(temp_path(name), &about), 0);
    assert_int_equal(truncate(temp_path(name), about.st_size / 2), 0);
}

static void test_finding_04_and_18_bad_files_are_named(void **state)
{
    (void)state;
    static const char *const EXPECTED[] = {"wavs/a.wav is cut short", "wavs/b.flac is cut short",
                                           "wavs/c.ogg is cut short", "wavs/d.mp3 is cut short",
                                           "wavs/e.wav has a rate of 999 Hz; save it with 1000 to 384000"};
    make_folder("wavs");
    write_text(temp_path("metadata.csv"), "a|one\nb|two\nc|three\nd|four\ne|five\nf|six\ng|seven\nh|eight\n"
                                          "i|nine\nj|ten\n");
    write_half("wavs/a.wav", SF_FORMAT_WAV | SF_FORMAT_PCM_16);
    write_half("wavs/b.flac", SF_FORMAT_FLAC | SF_FORMAT_PCM_16);
    write_half("wavs/c.ogg", SF_FORMAT_OGG | SF_FORMAT_VORBIS);
    write_half("wavs/d.mp3", SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III);
    write_wav(temp_path("wavs/e.wav"), 999, 1, 1000);
    for (char id = 'f'; id <= 'j'; ++id) {
        char name[16];
        snprintf(name, sizeof name, "wavs/%c.wav", id);
        write_wav(temp_path(name), 22050, 1, 1000);
    }
    td_dataset *d = open_dataset();
    assert_int_equal(d->n_train, 5);
    assert_int_equal(d->problems.total, 5);
    for (size_t i = 0; i < 5; ++i)
        assert_non_null(strstr(d->problems.items[i].message, EXPECTED[i]));
    td_dataset_close(d);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, temp_dir_make, temp_dir_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_finding_10_any_ending_is_found),
        TEST(test_finding_10_a_new_ending_is_noticed),
        TEST(test_finding_04_and_18_bad_files_are_named),
    };
    return cmocka_run_group_tests_name("data_recordings", tests, NULL, NULL);
}
