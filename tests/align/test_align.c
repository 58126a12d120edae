/* Letters along what is heard (align/align.h) and sentences along a long recording (align/path.h), on values that are made
 * here, so that the truth is known. What an aligner hears itself is tests/families/test_aligner.c's. */
#include <math.h>
#include <stdlib.h>

#include "align/align.h"
#include "align/path.h"
#include "base/rng.h"
#include "support/expect.h"

enum { CLASSES = 12, MOST_STEPS = 60000 };

/* What is heard, as it grows. */
typedef struct sound {
    float *values;
    size_t steps;
    uint64_t drawn;
} sound;

static uint32_t draw(sound *s, uint32_t below)
{
    return td_rng_u32(7, 1, s->drawn++) % below;
}

static void hear(sound *s, uint32_t class_)
{
    float *row = s->values + s->steps++ * CLASSES;
    assert_true(s->steps < MOST_STEPS);
    for (uint32_t i = 0; i < CLASSES; i++)
        row[i] = i == class_ ? 0 : -3.0f - 0.01f * (float)draw(s, 300);
}

static void be_quiet(sound *s, uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++)
        hear(s, 0);
}

/* Each letter sounds for a step or two, with a quiet step behind it, without which two of a kind would be one. */
static td_found say(sound *s, uint32_t sentence, const uint16_t *letters, size_t count)
{
    td_found found = {.sentence = sentence, .first = (uint32_t)s->steps};
    for (size_t i = 0; i < count; i++) {
        for (uint32_t n = 1 + draw(s, 2); n-- > 0;)
            hear(s, letters[i]);
        found.last = (uint32_t)s->steps - 1;
        if (i + 1 < count) hear(s, 0);
    }
    return found;
}

static sound open_sound(void)
{
    sound s = {.values = calloc((size_t)MOST_STEPS * CLASSES, sizeof(float))};
    assert_non_null(s.values);
    return s;
}

/* ---------------------------------------------------------------- letters */

static void test_letters_are_where_they_sound(void **state)
{
    static const uint16_t LETTERS[] = {3, 5, 5, 1, 7, 3};
    enum { N = sizeof LETTERS / sizeof *LETTERS };
    (void)state;
    sound s = open_sound();
    td_timing t, other;
    be_quiet(&s, 9);
    const td_found truth = say(&s, 0, LETTERS, N);
    be_quiet(&s, 4);
    check(td_align_letters(s.values, s.steps, CLASSES, LETTERS, N, &t));
    assert_int_equal(t.count, N);
    assert_int_equal(t.first[0], truth.first);
    assert_int_equal(t.last[N - 1], truth.last);
    for (size_t i = 0; i < N; i++) {
        assert_true(t.first[i] <= t.last[i]);
        assert_true(i == 0 || t.first[i] > t.last[i - 1]);
        for (uint32_t step = t.first[i]; step <= t.last[i]; step++)
            assert_true(s.values[step * CLASSES + LETTERS[i]] == 0);
    }
    assert_true(t.score == 0);
    static const uint16_t OTHER[N] = {3, 5, 6, 9, 7, 3};
    check(td_align_letters(s.values, s.steps, CLASSES, OTHER, N, &other));
    assert_true(other.score < -0.5);
    td_timing_free(&t);
    td_timing_free(&other);
    free(s.values);
}

static void test_a_text_that_cannot_be_has_no_score(void **state)
{
    static const uint16_t SAME[] = {2, 2, 2}; /* takes five steps: there is quiet between them */
    (void)state;
    sound s = open_sound();
    td_timing t;
    be_quiet(&s, 4);
    check(td_align_letters(s.values, s.steps, CLASSES, SAME, 3, &t));
    assert_true(isinf(t.score));
    td_timing_free(&t);
    be_quiet(&s, 1);
    check(td_align_letters(s.values, s.steps, CLASSES, SAME, 3, &t));
    assert_true(isfinite(t.score));
    td_timing_free(&t);
    check(td_align_letters(s.values, s.steps, CLASSES, SAME, 0, &t));
    assert_true(isinf(t.score));
    td_timing_free(&t);
    free(s.values);
}

/* ---------------------------------------------------------------- sentences */

enum { SENTENCES = 300, LONGEST = 40 };

typedef struct book {
    uint16_t letters[SENTENCES * LONGEST];
    size_t firsts[SENTENCES + 1];
    td_found truth[SENTENCES];
    size_t n_truth;
} book;

static void write_book(sound *s, book *b)
{
    for (size_t i = 0; i < SENTENCES; i++) {
        const size_t count = 15 + draw(s, LONGEST - 15);
        b->firsts[i + 1] = b->firsts[i] + count;
        for (size_t k = b->firsts[i]; k < b->firsts[i + 1]; k++)
            b->letters[k] = (uint16_t)(1 + draw(s, CLASSES - 1));
    }
}

static void read_aloud(sound *s, book *b, uint32_t i)
{
    be_quiet(s, 3 + draw(s, 12));
    b->truth[b->n_truth++] = say(s, i, b->letters + b->firsts[i], b->firsts[i + 1] - b->firsts[i]);
}

static void chatter(sound *s, uint32_t letters)
{
    be_quiet(s, 4);
    for (uint32_t i = 0; i < letters; i++) {
        hear(s, 1 + draw(s, CLASSES - 1));
        hear(s, 0);
    }
}

static void find_with(const td_path_prices *prices, const unsigned char *hints, const sound *s, const book *b,
                      size_t piece, td_found **found, size_t *count)
{
    const td_path_text text = {b->letters, b->firsts, SENTENCES};
    td_path *path;
    check(td_path_create(&text, CLASSES, prices, &path));
    for (size_t at = 0; at < s->steps; at += piece)
        check(td_path_push(path, s->values + at * CLASSES, hints ? hints + at : NULL,
                           s->steps - at < piece ? s->steps - at : piece));
    check(td_path_finish(path, found, count));
    td_path_destroy(path);
}

static void find(const sound *s, const book *b, size_t piece, td_found **found, size_t *count)
{
    find_with(&TD_PATH_USUAL, NULL, s, b, piece, found, count);
}

static void assert_found(const sound *s, const book *b)
{
    td_found *found;
    size_t count;
    find(s, b, 512, &found, &count);
    for (size_t i = 0; i < count && i < b->n_truth; i++) {
        assert_int_equal(found[i].sentence, b->truth[i].sentence);
        assert_int_equal(found[i].first, b->truth[i].first);
        assert_int_equal(found[i].last, b->truth[i].last);
    }
    assert_int_equal(count, b->n_truth);
    free(found);
}

static book *open_book(sound *s)
{
    book *b = calloc(1, sizeof *b);
    assert_non_null(b);
    *s = open_sound();
    write_book(s, b);
    return b;
}

/* Every 17th sentence is not read, and behind every 13th somebody says something else. */
static void test_what_is_missing_and_what_is_added_is_passed_over(void **state)
{
    (void)state;
    sound s;
    book *b = open_book(&s);
    for (uint32_t i = 0; i < SENTENCES; i++) {
        if (i % 17 != 5) read_aloud(&s, b, i);
        if (i % 13 == 7) chatter(&s, 30);
    }
    be_quiet(&s, 20);
    assert_found(&s, b);
    free(s.values);
    free(b);
}

/* A chapter that was left out, and minutes of something else. */
static void test_long_gaps(void **state)
{
    (void)state;
    sound s;
    book *b = open_book(&s);
    for (uint32_t i = 0; i < 20; i++)
        read_aloud(&s, b, i);
    chatter(&s, 2000);
    for (uint32_t i = 140; i < SENTENCES - 60; i++)
        read_aloud(&s, b, i);
    assert_found(&s, b);
    free(s.values);
    free(b);
}

static void test_pieces_do_not_matter(void **state)
{
    (void)state;
    sound s;
    book *b = open_book(&s);
    td_found *whole, *parts;
    size_t n_whole, n_parts;
    for (uint32_t i = 0; i < 40; i++)
        if (i % 7 != 3) read_aloud(&s, b, i);
    find(&s, b, s.steps, &whole, &n_whole);
    find(&s, b, 7, &parts, &n_parts);
    assert_int_equal(n_whole, n_parts);
    assert_true(n_whole > 30);
    assert_memory_equal(whole, parts, n_whole * sizeof *whole);
    free(whole);
    free(parts);
    free(s.values);
    free(b);
}

static void test_nothing_is_found_in_silence_or_in_another_text(void **state)
{
    (void)state;
    sound s;
    book *b = open_book(&s);
    td_found *found;
    size_t count;
    be_quiet(&s, 3000);
    find(&s, b, 512, &found, &count);
    assert_int_equal(count, 0);
    free(found);
    chatter(&s, 3000);
    find(&s, b, 512, &found, &count);
    assert_int_equal(count, 0);
    free(found);
    find(&(sound){.values = s.values}, b, 512, &found, &count); /* no step at all */
    assert_int_equal(count, 0);
    free(found);
    free(s.values);
    free(b);
}

/* What an aligner hears of a voice that it does not know: nothing is likelier than any letter. */
static unsigned char *mumble(sound *s)
{
    unsigned char *hints = calloc(s->steps, 1);
    assert_non_null(hints);
    for (size_t t = 0; t < s->steps; t++) {
        float *row = s->values + t * CLASSES;
        const bool is_quiet =
            row[0] == 0 && (t == 0 || row[-CLASSES] == 0 || hints[t - 1] & TD_PATH_NEAR_PAUSE);
        hints[t] = is_quiet ? TD_PATH_NEAR_PAUSE : TD_PATH_SPEECH;
        for (size_t i = 1; i < CLASSES; i++)
            row[i] -= 1;
        row[0] = 0;
    }
    for (size_t t = 0; t < s->steps; t++)
        for (size_t k = t < 2 ? 0 : t - 2; k < t + 3 && k < s->steps; k++)
            if (hints[k] == TD_PATH_NEAR_PAUSE) hints[t] |= TD_PATH_NEAR_PAUSE;
    return hints;
}

static void test_a_voice_that_is_heard_badly(void **state)
{
    (void)state;
    sound s;
    book *b = open_book(&s);
    td_found *found;
    size_t count;
    for (uint32_t i = 0; i < SENTENCES; i++)
        if (i % 9 != 4) read_aloud(&s, b, i);
    be_quiet(&s, 6);
    unsigned char *hints = mumble(&s);
    find(&s, b, 512, &found, &count);
    assert_int_equal(count, 0);
    free(found);
    find_with(&TD_PATH_LOOSE, hints, &s, b, 512, &found, &count);
    assert_int_equal(count, b->n_truth);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(found[i].sentence, b->truth[i].sentence);
        assert_in_range(found[i].first + 2, b->truth[i].first, b->truth[i].first + 4);
        assert_in_range(found[i].last + 2, b->truth[i].last, b->truth[i].last + 4);
    }
    free(found);
    free(hints);
    free(b);
    free(s.values);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_letters_are_where_they_sound),
        cmocka_unit_test(test_a_text_that_cannot_be_has_no_score),
        cmocka_unit_test(test_what_is_missing_and_what_is_added_is_passed_over),
        cmocka_unit_test(test_long_gaps),
        cmocka_unit_test(test_pieces_do_not_matter),
        cmocka_unit_test(test_a_voice_that_is_heard_badly),
        cmocka_unit_test(test_nothing_is_found_in_silence_or_in_another_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
