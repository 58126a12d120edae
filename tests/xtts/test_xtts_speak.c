/* Whole utterances against the public package: how codes are weighed, greedy codes, the whole wave, streams in both
 * ways; and what must hold of the rest: seeds, guard, receivers that end the call. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "families/xtts/utter.h"

static td_xtts_manner greedy_manner(const golden *g)
{
    return (td_xtts_manner){
        .sampling = {.greedy = true, .repetition_penalty = (double)g->c.repetition_penalty}, .speed = 1};
}

static void utter(bench *b, const td_xtts_timbre *t, const td_xtts_manner *m, td_xtts_utterance *out)
{
    check(td_xtts_utter(b->engine, t, golden_values(&b->g, "tokens", 0), golden_count(&b->g, "tokens"), m,
                        out));
}

/* ---------------------------------------------------------------- choosing */

static void test_codes_are_weighed_as_by_the_package(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        golden g;
        td_xtts_chooser c;
        golden_open(&g, golden_cases[k]);
        const size_t n = g.c.gpt_num_audio_tokens;
        const float *logits = golden_values(&g, "sampling_logits", 4 * n);
        const float *expected = golden_values(&g, "sampling_probabilities", 4 * n);
        const float *settings = golden_values(&g, "sampling_settings", 12);
        const int32_t *history = golden_values(&g, "sampling_history", 0);
        const size_t length = golden_count(&g, "sampling_history") / 4;
        check(td_xtts_chooser_open(n, &c));
        for (size_t row = 0; row < 4; row++) {
            const td_xtts_sampling s = {.top_k = (uint32_t)settings[3 * row],
                                        .top_p = (double)settings[3 * row + 1],
                                        .temperature = (double)settings[3 * row + 2],
                                        .repetition_penalty = (double)g.c.repetition_penalty};
            memset(c.spoken, 0, n);
            for (size_t i = 0; i < length; i++)
                c.spoken[history[row * length + i]] = true;
            td_xtts_weigh(&c, &s, logits + row * n);
            for (size_t i = 0; i < n; i++)
                if (!(fabs((double)c.scores[i] - (double)expected[row * n + i]) <= 1e-6))
                    fail_msg("row %zu: code %zu has %g instead of %g", row, i, (double)c.scores[i],
                             (double)expected[row * n + i]);
        }
        td_xtts_chooser_close(&c);
        golden_close(&g);
    }
}

/* As often as it should be, and the same with the same seed. */
static void test_draws_follow_the_weights(void **state)
{
    const float logits[4] = {1, 0, 2, -1};
    td_xtts_sampling s = {.temperature = 1, .top_p = 1, .repetition_penalty = 1, .seed = 7};
    td_xtts_chooser c;
    size_t counts[4] = {0};
    double sum = 0;
    (void)state;
    check(td_xtts_chooser_open(4, &c));
    for (uint64_t i = 0; i < 20000; i++)
        counts[td_xtts_choose(&c, &s, logits, 0, i)]++;
    for (size_t i = 0; i < 4; i++)
        sum += exp((double)logits[i]);
    for (size_t i = 0; i < 4; i++)
        assert_true(fabs((double)counts[i] / 20000 - exp((double)logits[i]) / sum) < 0.012);
    assert_int_equal(td_xtts_choose(&c, &s, logits, 3, 5), td_xtts_choose(&c, &s, logits, 3, 5));
    s.top_k = 1;
    assert_int_equal(td_xtts_choose(&c, &s, logits, 0, 1), 2);
    td_xtts_chooser_close(&c);
}

/* ---------------------------------------------------------------- utterances */

static void test_greedy_speech_is_the_packages(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        bench b;
        td_xtts_utterance u;
        if (!open_bench(&b, RIG_CL_CPU, golden_cases[k])) skip();
        const td_xtts_manner m = greedy_manner(&b.g);
        td_xtts_timbre t = golden_timbre(&b.g);
        utter(&b, &t, &m, &u);
        assert_int_equal(u.n, golden_count(&b.g, "codes"));
        assert_memory_equal(u.codes, golden_values(&b.g, "codes", u.n), u.n * sizeof *u.codes);
        assert_int_equal(u.is_stopped, k == 1);
        golden_compare(&b.g, "latents", u.latents, u.n * b.g.c.gpt_n_model_channels, 5e-6);
        assert_int_equal(u.count, *(const int32_t *)golden_values(&b.g, "wave_samples", 2));
        golden_compare_strided(&b.g, "wave", u.samples, u.count, 1e-5);
        td_xtts_utterance_free(&u);
        td_xtts_timbre_free(&t);
        close_bench(&b);
    }
}

typedef struct heard {
    float samples[65536];
    size_t count, chunks[16], n_chunks, stop_after;
} heard;

static bool hear(void *context, const float *samples, size_t count)
{
    heard *h = context;
    assert_true(h->count + count <= 65536 && h->n_chunks < 16);
    memcpy(h->samples + h->count, samples, count * sizeof *samples);
    h->count += count;
    h->chunks[h->n_chunks++] = count;
    return h->n_chunks != h->stop_after;
}

static void test_a_faded_stream_is_the_packages(void **state)
{
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        static heard h;
        bench b;
        td_xtts_utterance u;
        h = (heard){0};
        if (!open_bench(&b, RIG_CL_CPU, golden_cases[k])) skip();
        const int32_t *lengths = golden_values(&b.g, "stream_chunks", 0);
        td_xtts_manner m = greedy_manner(&b.g);
        td_xtts_timbre t = golden_timbre(&b.g);
        m.flow = TD_XTTS_FADE;
        m.chunk_codes = (uint32_t)golden_number(&b.g, "chunk_codes");
        m.sink = hear;
        m.context = &h;
        utter(&b, &t, &m, &u);
        assert_int_equal(h.n_chunks, golden_count(&b.g, "stream_chunks"));
        for (size_t i = 0; i < h.n_chunks; i++)
            assert_int_equal(h.chunks[i], lengths[i]);
        golden_compare_strided(&b.g, "stream", h.samples, h.count, 1e-5);
        td_xtts_utterance_free(&u);
        td_xtts_timbre_free(&t);
        close_bench(&b);
    }
}

static void test_an_exact_stream_is_the_whole(void **state)
{
    static heard h;
    bench b;
    td_xtts_utterance u, whole;
    (void)state;
    if (!open_bench(&b, RIG_CL_CPU, "a")) skip();
    td_xtts_manner m = greedy_manner(&b.g);
    td_xtts_timbre t = golden_timbre(&b.g);
    for (int fast = 0; fast < 2; fast++) {
        h = (heard){0};
        m.speed = fast ? 1.3 : 1;
        m.sink = NULL;
        m.chunk_codes = 0;
        utter(&b, &t, &m, &whole);
        m.sink = hear;
        m.context = &h;
        m.chunk_codes = 9;
        utter(&b, &t, &m, &u);
        assert_true(h.n_chunks >= 4);
        assert_int_equal(h.count, whole.count);
        for (size_t i = 0; i < h.count; i++)
            if (!(fabsf(h.samples[i] - whole.samples[i]) <= 1e-5f)) fail_msg("sample %zu differs", i);
        td_xtts_utterance_free(&u);
        td_xtts_utterance_free(&whole);
    }
    h = (heard){.stop_after = 1};
    refuse(
        TD_ERR_CANCELLED, "receiver",
        td_xtts_utter(b.engine, &t, golden_values(&b.g, "tokens", 0), golden_count(&b.g, "tokens"), &m, &u));
    td_xtts_timbre_free(&t);
    close_bench(&b);
}

/* ---------------------------------------------------------------- the guard */

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
    utter(&b, &t, &m, &u);
    assert_int_equal(u.n, td_xtts_most_codes(&b.g.c));
    assert_true(td_xtts_find_loop(u.codes, u.n) > 0);
    td_xtts_utterance_free(&u);
    m.is_guarded = true;
    utter(&b, &t, &m, &u);
    assert_true(u.is_cut && u.n < 4 && u.n_redrawn == 0);
    td_xtts_utterance_free(&u);
    m.sampling = (td_xtts_sampling){.temperature = 6, .top_p = 1, .repetition_penalty = 1, .seed = 3};
    utter(&b, &t, &m, &u);
    assert_true(u.n_redrawn > 0 && td_xtts_find_loop(u.codes, u.n) == 0);
    td_xtts_utterance_free(&u);
    td_xtts_timbre_free(&t);
    close_bench(&b);
}

static void test_seeds_decide(void **state)
{
    bench b;
    td_xtts_utterance u[3];
    (void)state;
    if (!open_bench(&b, RIG_CL_CPU, "b")) skip();
    td_xtts_timbre t = golden_timbre(&b.g);
    for (uint64_t i = 0; i < 3; i++) {
        const td_xtts_manner m = {
            .sampling = {.temperature = 1.5, .top_p = 1, .repetition_penalty = 1, .seed = i / 2}, .speed = 1};
        utter(&b, &t, &m, &u[i]);
    }
    assert_int_equal(u[0].n, u[1].n);
    assert_memory_equal(u[0].samples, u[1].samples, u[0].count * sizeof(float));
    assert_true(u[2].n != u[0].n || memcmp(u[2].codes, u[0].codes, u[0].n * sizeof(uint32_t)) != 0);
    for (size_t i = 0; i < 3; i++)
        td_xtts_utterance_free(&u[i]);
    td_xtts_timbre_free(&t);
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_codes_are_weighed_as_by_the_package),
                                       cmocka_unit_test(test_draws_follow_the_weights),
                                       cmocka_unit_test(test_greedy_speech_is_the_packages),
                                       cmocka_unit_test(test_a_faded_stream_is_the_packages),
                                       cmocka_unit_test(test_an_exact_stream_is_the_whole),
                                       cmocka_unit_test(test_loops_are_found),
                                       cmocka_unit_test(test_a_loop_is_left),
                                       cmocka_unit_test(test_seeds_decide)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
