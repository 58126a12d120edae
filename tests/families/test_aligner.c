/* The aligner family: its table, and one that learns letters which are tones (a few hundred small steps), with which texts
 * are laid along recordings by align/align.h. */
#include "run.h"
#include "table.h"

#include "align/align.h"
#include "audio/encode.h"
#include "base/rng.h"

enum { ROWS = 24, RATE = 22050, LETTERS = 4, MOST_LETTERS = 5, PAUSE = RATE / 20, TONE = RATE / 10 };

static const double HERTZ[LETTERS] = {400, 900, 1800, 3500};

/* A tone for each letter "a" to "d" with silence around; returns where the letters begin, in samples. */
static size_t sing(const char *letters, float *to, size_t *begins)
{
    size_t count = 2 * PAUSE;
    memset(to, 0, count * sizeof *to);
    for (size_t i = 0; letters[i]; i++) {
        begins[i] = count;
        for (size_t k = 0; k < TONE; k++)
            to[count++] =
                0.3F * (float)sin(2 * 3.141592653589793 * HERTZ[letters[i] - 'a'] * (double)k / RATE);
        memset(to + count, 0, PAUSE * sizeof *to);
        count += PAUSE;
    }
    return count;
}

static void draw_word(uint32_t seed, char out[MOST_LETTERS + 1])
{
    const uint32_t count = 2 + td_rng_u32(3, seed, 0) % (MOST_LETTERS - 1);
    for (uint32_t i = 0; i < count; i++)
        out[i] = (char)('a' + td_rng_u32(3, seed, i + 1) % LETTERS);
    out[count] = 0;
}

enum { ROOM = 3 * PAUSE + MOST_LETTERS * (TONE + PAUSE) };

static void make_tones(void)
{
    char table[ROWS * 16] = "", path[64], word[MOST_LETTERS + 1];
    static float samples[ROOM];
    size_t begins[MOST_LETTERS];
    make_folder("tones");
    make_folder("tones/wavs");
    for (uint32_t i = 0; i < ROWS; i++) {
        draw_word(i, word);
        snprintf(table + strlen(table), sizeof table - strlen(table), "t%u|%s\n", i, word);
        snprintf(path, sizeof path, "tones/wavs/t%u.wav", i);
        check(td_audio_encode(temp_path(path), samples, sing(word, samples, begins), RATE));
    }
    write_text(temp_path("tones/metadata.csv"), table);
}

static void test_its_table_holds(void **state)
{
    (void)state;
    check_table(td_family_find("aligner"));
}

static void test_other_families_cannot_align(void **state)
{
    (void)state;
    td_aligner *aligner;
    td_train_settings s = run_settings("toy", "other", 1);
    const td_train_result result = run_train(&s);
    refuse(TD_ERR_CONFIG, "toy|make_aligner.sh",
           td_aligner_open(run_rig.memory, result.checkpoint, &aligner));
    refuse(TD_ERR_NOT_FOUND, "no aligner|make_aligner.sh",
           td_aligner_open(run_rig.memory, temp_path("none.safetensors"), &aligner));
}

/* Letters lie within two steps of where they sound; a text that is not sung fits worse. */
static void expect_fit(td_aligner *aligner, uint32_t seed)
{
    static float samples[ROOM];
    char word[MOST_LETTERS + 1], other[MOST_LETTERS + 1];
    size_t begins[MOST_LETTERS];
    td_timing t, wrong;
    const double step = td_aligner_step_samples(aligner);
    draw_word(seed, word);
    const size_t count = sing(word, samples, begins);
    check(td_aligner_fit(aligner, TD_LANG_EN, word, samples, count, &t));
    assert_int_equal(t.count, strlen(word));
    for (size_t i = 0; i < t.count; i++) {
        assert_true((t.first[i] + 2) * step >= (double)begins[i]);
        assert_true((t.first[i] - 2.0) * step <= (double)begins[i] + TONE);
        other[i] = (char)('a' + (word[i] - 'a' + 1) % LETTERS);
    }
    other[t.count] = 0;
    assert_true(t.score > -0.2);
    check(td_aligner_fit(aligner, TD_LANG_EN, other, samples, count, &wrong));
    assert_true(wrong.score < t.score - 0.5);
    td_timing_free(&t);
    td_timing_free(&wrong);
}

/* What is heard of a piece of a recording is what is heard of the whole. */
static void expect_same_pieces(td_aligner *aligner)
{
    enum { STEPS = TD_ALIGN_PIECE + 40 };
    const size_t classes = td_aligner_classes(aligner), step = td_aligner_step_samples(aligner);
    const size_t count = STEPS * step, later = 100 * step;
    float *samples = calloc(count, sizeof *samples);
    td_heard whole, part;
    assert_non_null(samples);
    for (size_t i = 0; i < count; i++)
        samples[i] = 0.2F * (float)sin(2 * 3.141592653589793 * HERTZ[i / 7000 % LETTERS] * (double)i / RATE);
    check(td_aligner_listen(aligner, samples, count, &whole));
    check(td_aligner_listen(aligner, samples + later, count - later, &part));
    assert_int_equal(whole.steps - part.steps, 100);
    /* Behind what the beginning of the part reaches into; the whole has a border between two pieces there. */
    for (size_t i = 50 * classes; i < part.steps * classes; i++)
        assert_true(fabsf(part.values[i] - whole.values[i + 100 * classes]) < 2e-3F);
    free(whole.values);
    free(part.values);
    free(samples);
}

static void test_it_learns_tones_and_finds_them(void **state)
{
    (void)state;
    td_aligner *aligner;
    make_tones();
    td_train_settings s = run_settings("aligner", "tones_run", 240);
    s.data.dataset.dir = temp_path("tones");
    s.data.batch_size = 8;
    s.save_every = 240;
    s.schedule.lr = 1e-2;
    const td_train_result result = run_train(&s);
    check(td_aligner_open(run_rig.memory, result.checkpoint, &aligner));
    assert_int_equal(td_aligner_rate(aligner), RATE);
    for (uint32_t seed = 1000; seed < 1006; seed++)
        expect_fit(aligner, seed);
    expect_same_pieces(aligner);
    td_aligner_close(aligner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_its_table_holds),
        cmocka_unit_test_setup_teardown(test_other_families_cannot_align, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_it_learns_tones_and_finds_them, run_set_up, temp_dir_remove),
    };
    return cmocka_run_group_tests(tests, run_open, run_close);
}
