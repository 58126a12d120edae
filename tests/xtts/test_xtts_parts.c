/* Every part of XTTS against the public package on shrunk models (tests/oracle/make_xtts_golden.py): conditioning,
 * speaker encoder, GPT with its caches, vocoder. Two sets of sizes, so that none is assumed; the GPT and the vocoder
 * also on lavapipe and with the kernels of graphics cards. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "families/xtts/timbre_cache.h"

static void test_a_speaker_is_known_as_by_the_package(void **state)
{
    (void)state;
    for (size_t k = 0; k < GOLDEN_CASES; k++) {
        bench b;
        td_xtts_timbre t;
        if (!open_bench(&b, RIG_CL_CPU, golden_cases[k])) skip();
        const td_xtts *c = &b.g.c;
        check(td_xtts_clone(b.engine, b.g.paths, b.g.n_references, &t));
        golden_compare(&b.g, "mel", t.mel, (size_t)t.frames * c->n_mels, 5e-6);
        golden_compare(&b.g, "cond_latents", t.latents, 32 * (size_t)c->gpt_n_model_channels, 2e-5);
        golden_compare(&b.g, "speaker_embedding_exact", t.embedding, c->d_vector_dim, 5e-6);
        td_xtts_timbre_free(&t);
        close_bench(&b);
    }
}

/* All codes but the last, one by one: logits and latents of each step. */
static void check_gpt(rig_kind kind, const char *name, size_t most, double tolerance)
{
    bench b;
    if (!open_bench(&b, kind, name)) skip();
    const golden *g = &b.g;
    const size_t vocab = g->c.gpt_num_audio_tokens, width = g->c.gpt_n_model_channels;
    const uint32_t *codes = golden_values(g, "codes", 0);
    size_t n = golden_count(g, "codes");
    if (n > most) n = most;
    const float *logits = golden_values(g, "logits", vocab * golden_count(g, "codes"));
    const float *latents = golden_values(g, "latents", width * golden_count(g, "codes"));
    td_xtts_timbre t = golden_timbre(g);
    td_xtts_thought thought;
    check(td_xtts_begin(b.engine, 0, &t, golden_values(g, "tokens", 0), golden_count(g, "tokens"), &thought));
    for (size_t i = 0; i < n; i++) {
        if (i) check(td_xtts_next(b.engine, &(td_xtts_chosen){.code = codes[i - 1]}, 1, &thought));
        const double wrong = relative_error(thought.logits, logits + i * vocab, vocab);
        const double far = relative_error(thought.latent, latents + i * width, width);
        if (!(wrong <= tolerance)) fail_msg("step %zu: logits are wrong by %g", i, wrong);
        if (!(far <= tolerance)) fail_msg("step %zu: the latent is wrong by %g", i, far);
    }
    td_xtts_timbre_free(&t);
    close_bench(&b);
}

static void test_the_gpt_thinks_as_the_package(void **state)
{
    (void)state;
    check_gpt(RIG_CL_CPU, "a", SIZE_MAX, 5e-6);
    check_gpt(RIG_CL_CPU, "b", SIZE_MAX, 5e-6);
    check_gpt(RIG_CL_CPU, "c", SIZE_MAX, 5e-6);
}

static void test_the_gpt_thinks_the_same_on_other_drivers(void **state)
{
    (void)state;
    check_gpt(RIG_CL_GPU, "a", 6, 5e-6);
    check_gpt(RIG_VK, "b", 4, 5e-6);
}

static void check_vocoder(rig_kind kind, const char *name)
{
    bench b;
    if (!open_bench(&b, kind, name)) skip();
    const golden *g = &b.g;
    const size_t n = (size_t)golden_number(g, "short");
    const td_xtts_sounding s = {.latents = golden_values(g, "latents", 0),
                                .embedding = golden_values(g, "speaker_embedding", 0),
                                .n = n,
                                .speed = 1};
    const size_t samples = td_xtts_samples(&g->c, n, 1);
    float *wave = calloc(samples, sizeof *wave);
    for (size_t i = 0; i < samples; i++)
        wave[i] = NAN;
    assert_int_equal(samples, golden_count(g, "short_wave"));
    check(td_xtts_sound(b.engine, &s, 0, samples, wave));
    golden_compare(g, "short_wave", wave, samples, 5e-6);
    free(wave);
    close_bench(&b);
}

static void test_the_vocoder_sounds_as_the_package(void **state)
{
    (void)state;
    check_vocoder(RIG_CL_CPU, "a");
    check_vocoder(RIG_CL_CPU, "b");
    check_vocoder(RIG_CL_CPU, "c");
}

static void test_the_vocoder_sounds_the_same_on_other_drivers(void **state)
{
    (void)state;
    check_vocoder(RIG_CL_GPU, "b");
    check_vocoder(RIG_VK, "b");
}

/* Any part of a signal, made by itself, is that part of the whole; at another speed, too. */
static void test_a_part_of_a_signal_is_as_in_the_whole(void **state)
{
    bench b;
    (void)state;
    if (!open_bench(&b, RIG_CL_CPU, "a")) skip();
    const golden *g = &b.g;
    td_xtts_sounding s = {.latents = golden_values(g, "latents", 0),
                          .embedding = golden_values(g, "speaker_embedding", 0),
                          .n = golden_count(g, "codes")};
    const int32_t *lengths = golden_values(g, "wave_samples", 2);
    for (int fast = 0; fast < 2; fast++) {
        s.speed = fast ? 1.3 : 1;
        const size_t samples = td_xtts_samples(&g->c, s.n, s.speed);
        float *whole = calloc(samples, sizeof *whole), *part = calloc(samples, sizeof *part);
        assert_int_equal(samples, lengths[fast]);
        check(td_xtts_sound(b.engine, &s, 0, samples, whole));
        golden_compare_strided(g, fast ? "fast_wave" : "wave", whole, samples, 5e-6);
        static const size_t firsts[] = {0, 5000, 20001, 30000};
        for (size_t i = 0; i < 4; i++) {
            const size_t count = i == 3 ? samples - firsts[i] : 3000 + i;
            check(td_xtts_sound(b.engine, &s, firsts[i], count, part));
            const double error = relative_error(part, whole + firsts[i], count);
            if (!(error <= 1e-6)) fail_msg("samples from %zu on are wrong by %g", firsts[i], error);
        }
        free(whole);
        free(part);
    }
    close_bench(&b);
}

static void test_what_cannot_be_is_refused(void **state)
{
    bench b;
    float sample;
    uint32_t tokens[64] = {0};
    td_xtts_thought thought;
    td_xtts_timbre t, none;
    (void)state;
    if (!open_bench(&b, RIG_CL_CPU, "a")) skip();
    t = golden_timbre(&b.g);
    refuse(TD_ERR_ARGUMENT, "before the text",
           td_xtts_next(b.engine, &(td_xtts_chosen){.code = 1}, 1, &thought));
    refuse(TD_ERR_LIMIT, "40 tokens", td_xtts_begin(b.engine, 0, &t, tokens, 40, &thought));
    tokens[1] = 5000;
    refuse(TD_ERR_FORMAT, "5000", td_xtts_begin(b.engine, 0, &t, tokens, 2, &thought));
    refuse(TD_ERR_NOT_FOUND, "/no/such.wav",
           td_xtts_clone(b.engine, (const char *const[]){"/no/such.wav"}, 1, &none));
    const td_xtts_sounding s = {.latents = &sample, .embedding = &sample, .n = 1, .speed = 1};
    refuse(TD_ERR_ARGUMENT, "samples", td_xtts_sound(b.engine, &s, 0, 1 << 20, &sample));
    td_xtts_timbre_free(&t);
    close_bench(&b);
}

/* What was found out about a speaker is found again, by the recordings it came from alone. */
static void test_a_speaker_is_kept(void **state)
{
    static const uint64_t REFERENCES = UINT64_C(0x7e57);
    bench b;
    td_xtts_timbre found;
    (void)state;
    if (!open_bench(&b, RIG_CL_CPU, "a")) skip();
    td_xtts_timbre t = golden_timbre(&b.g);
    const size_t n = golden_count(&b.g, "cond_latents"), d = golden_count(&b.g, "speaker_embedding");
    t.frames = 3;
    t.mel = calloc((size_t)t.frames * b.g.c.n_mels, sizeof *t.mel);
    for (size_t i = 0; i < (size_t)t.frames * b.g.c.n_mels; i++)
        t.mel[i] = (float)i;
    td_xtts_timbre_keep(b.engine, REFERENCES, &t);
    assert_false(td_xtts_timbre_recall(b.engine, REFERENCES + 1, &found));
    assert_true(td_xtts_timbre_recall(b.engine, REFERENCES, &found));
    assert_int_equal(found.frames, t.frames);
    assert_memory_equal(found.latents, t.latents, n * sizeof *t.latents);
    assert_memory_equal(found.embedding, t.embedding, d * sizeof *t.embedding);
    assert_memory_equal(found.mel, t.mel, (size_t)t.frames * b.g.c.n_mels * sizeof *t.mel);
    td_xtts_timbre_free(&found);
    td_xtts_timbre_free(&t);
    close_bench(&b);
    /* another model does not know this speaker */
    if (!open_bench(&b, RIG_CL_CPU, "b")) skip();
    assert_false(td_xtts_timbre_recall(b.engine, REFERENCES, &found));
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_speaker_is_known_as_by_the_package),
                                       cmocka_unit_test(test_the_gpt_thinks_as_the_package),
                                       cmocka_unit_test(test_the_gpt_thinks_the_same_on_other_drivers),
                                       cmocka_unit_test(test_the_vocoder_sounds_as_the_package),
                                       cmocka_unit_test(test_the_vocoder_sounds_the_same_on_other_drivers),
                                       cmocka_unit_test(test_a_part_of_a_signal_is_as_in_the_whole),
                                       cmocka_unit_test(test_a_speaker_is_kept),
                                       cmocka_unit_test(test_what_cannot_be_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
