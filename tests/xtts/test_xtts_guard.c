/* The guard against babble: loops, heads that follow the text, and voices in which each is planted. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "families/xtts/guard.h"
#include "families/xtts/utter.h"

/* The first `n_tokens` of the golden text. */
static void utter(bench *b, const td_xtts_timbre *t, size_t n_tokens, const td_xtts_manner *m,
                  td_xtts_utterance *out)
{
    check(td_xtts_utter(b->engine, t, golden_values(&b->g, "tokens", 0), n_tokens, m, out));
}

/* ---------------------------------------------------------------- loops */

static void test_loops_are_found(void **state)
{
    uint32_t codes[64];
    (void)state;
    for (uint32_t i = 0; i < 64; i++)
        codes[i] = i;
    assert_int_equal(td_xtts_find_loop(codes, 64), 0);
    for (uint32_t i = 32; i < 64; i++)
        codes[i] = i % 5;
    assert_int_equal(td_xtts_find_loop(codes, 64), 27);
    assert_int_equal(td_xtts_find_loop(codes, 50), 0); /* not long enough yet */
    for (uint32_t i = 0; i < 64; i++)
        codes[i] = 3;
    assert_int_equal(td_xtts_find_loop(codes, 30), 29);
}

/* A voice that nearly always says the same code is cut off or drawn again; without the guard it goes on. */
static void test_a_loop_is_left(void **state)
{
    bench b;
    td_xtts_utterance u;
    (void)state;
    if (!open_bench_biased(&b, RIG_CL_CPU, "a", 7, 60)) skip();
    td_xtts_timbre t = golden_timbre(&b.g);
    td_xtts_manner m = {.sampling = {.greedy = true, .repetition_penalty = 1}, .speed = 1};
    utter(&b, &t, golden_count(&b.g, "tokens"), &m, &u);
    assert_int_equal(u.n, td_xtts_most_codes(&b.g.c));
    assert_true(td_xtts_find_loop(u.codes, u.n) > 0);
    td_xtts_utterance_free(&u);
    m.is_guarded = true;
    utter(&b, &t, golden_count(&b.g, "tokens"), &m, &u);
    assert_true(u.is_cut && u.n < 4 && u.n_redrawn == 0);
    td_xtts_utterance_free(&u);
    m.sampling = (td_xtts_sampling){.temperature = 6, .top_p = 1, .repetition_penalty = 1, .seed = 3};
    utter(&b, &t, golden_count(&b.g, "tokens"), &m, &u);
    assert_true(u.n_redrawn > 0 && td_xtts_find_loop(u.codes, u.n) == 0);
    td_xtts_utterance_free(&u);
    td_xtts_timbre_free(&t);
    close_bench(&b);
}

/* ---------------------------------------------------------------- the end of the text */

enum { CODES = 90, KEYS = 20 };

/* Each code looks at one token most, and a little at others. */
static void look_at(float weights[CODES * KEYS], size_t (*where)(size_t code))
{
    for (size_t i = 0; i < CODES; i++)
        for (size_t j = 0; j < KEYS; j++)
            weights[i * KEYS + j] = j == where(i) ? 0.4f : 0.3f / (float)(1 + (i * 7 + j * 3) % 5);
}

static size_t go_through(size_t i) /* three codes a token, then it stays with the last */
{
    return i / 3 < KEYS ? i / 3 : KEYS - 1;
}

static size_t go_and_wander(size_t i)
{
    return i < 60 ? i / 3 : i * 7 % KEYS;
}

static size_t stay_at_end(size_t i)
{
    (void)i;
    return KEYS - 1;
}

static size_t leap(size_t i)
{
    return i < 5 ? 0 : KEYS - 1;
}

static size_t go_half(size_t i)
{
    return i / 9;
}

static size_t wander(size_t i)
{
    return i * i * 7 % KEYS;
}

static size_t go_back(size_t i)
{
    return i < 30 ? i % KEYS : KEYS - 1;
}

static void test_heads_that_follow_are_told(void **state)
{
    static float weights[CODES * KEYS];
    static const struct {
        size_t (*where)(size_t code);
        size_t end; /* 0: it does not follow */
    } CASES[] = {{go_through, 51}, {go_and_wander, 51}, {stay_at_end, 0}, {leap, 0},
                 {go_half, 0},     {wander, 0},         {go_back, 17}};
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        size_t end = 0;
        look_at(weights, CASES[i].where);
        const bool follows = td_xtts_follow(weights, CODES, KEYS, &end);
        if (follows != (CASES[i].end > 0) || (follows && end != CASES[i].end))
            fail_msg("case %zu: %s, %zu", i, follows ? "follows" : "does not follow", end);
    }
    size_t end;
    look_at(weights, go_through);
    assert_false(td_xtts_follow(weights, CODES, 5, &end)); /* too short a text */
}

/* A place in the text as a point on curves that are near where places are near; its second half is the first's
 * negative, so that a norm leaves it as it is. */
static void put_place(float *row, double place)
{
    enum { HALF = 32 };
    for (int d = 0; d < HALF; d++) {
        const double angle = 2 * 3.14159265358979 * place * (d / 2 + 1) / 16 / 50;
        row[d] = (float)(d % 2 ? sin(angle) : cos(angle));
        row[HALF + d] = -row[d];
    }
}

/* The first head of the first layer looks at the text's token number i / 3 from the code number i. */
static void plant_follower(const char *name, float *values, size_t n)
{
    enum { WIDTH = 64, HEAD = 32, TOKENS = 7 };
    if (strcmp(name, "gpt.text_embedding.weight") == 0 || strcmp(name, "gpt.mel_embedding.weight") == 0)
        memset(values, 0, n * sizeof *values);
    for (size_t i = 0; strcmp(name, "gpt.text_pos_embedding.emb.weight") == 0 && i < n / WIDTH; i++)
        put_place(values + i * WIDTH, (double)i);
    for (size_t i = 0; strcmp(name, "gpt.mel_pos_embedding.emb.weight") == 0 && i < n / WIDTH; i++)
        put_place(values + i * WIDTH, i < 3 * TOKENS ? (double)i / 3 : TOKENS);
    for (size_t i = 0; strcmp(name, "gpt.gpt.h.0.ln_1.weight") == 0 && i < n; i++)
        values[i] = 1;
    if (strncmp(name, "gpt.gpt.h.0.ln_1.bias", 21) == 0 || strncmp(name, "gpt.gpt.h.0.attn.c_attn.", 24) == 0)
        memset(values, 0, n * sizeof *values);
    for (size_t i = 0; strcmp(name, "gpt.gpt.h.0.attn.c_attn.weight") == 0 && i < HEAD; i++)
        values[i * 3 * WIDTH + i] = values[i * 3 * WIDTH + WIDTH + i] = 4;
}

/* A voice that never stops: where a head follows the text it ends soon behind it, else where there is no more room. */
static void test_speech_behind_the_text_is_cut(void **state)
{
    enum { STOP = 33, TOKENS = 5, END = 11, FADE = 16 };
    (void)state;
    for (int is_planted = 0; is_planted < 2; is_planted++) {
        bench b;
        td_xtts_utterance u;
        if (!open_bench_changed(&b, RIG_CL_CPU, "a", STOP, -200, is_planted ? plant_follower : NULL)) skip();
        td_xtts_timbre t = golden_timbre(&b.g);
        td_xtts_manner m = {.sampling = {.temperature = 6, .top_p = 1, .repetition_penalty = 1, .seed = 3},
                            .speed = 1};
        const size_t most = td_xtts_most_codes(&b.g.c);
        assert_true(most >= td_xtts_doubtful_codes(TOKENS) && most < td_xtts_most_usual_codes(TOKENS));
        utter(&b, &t, TOKENS, &m, &u);
        assert_int_equal(u.n, most);
        assert_false(u.is_past_text);
        td_xtts_utterance_free(&u);
        m.is_guarded = true;
        utter(&b, &t, TOKENS, &m, &u);
        assert_int_equal(u.is_past_text, is_planted);
        assert_int_equal(u.n, is_planted ? END + FADE : most);
        assert_int_equal(u.count, td_xtts_samples(&b.g.c, u.n, 1));
        td_xtts_utterance_free(&u);
        td_xtts_timbre_free(&t);
        close_bench(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_loops_are_found),
                                       cmocka_unit_test(test_a_loop_is_left),
                                       cmocka_unit_test(test_heads_that_follow_are_told),
                                       cmocka_unit_test(test_speech_behind_the_text_is_cut)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
