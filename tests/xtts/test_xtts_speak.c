/* Whole utterances against the public package: how codes are weighed, greedy codes, the whole wave, streams in both
 * ways; and what must hold of the rest: seeds, receivers that end the call. */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "families/xtts/engine_internal.h"
#include "families/xtts/load.h"
#include "families/xtts/utter.h"
#include "kernels/decode_geometry.h"
#include "kernels/half_geometry.h"
#include "nn/bytes.h"

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
    for (size_t k = 0; k < GOLDEN_CASES; k++) {
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
    for (size_t k = 0; k < GOLDEN_CASES; k++) {
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
    for (size_t k = 0; k < GOLDEN_CASES; k++) {
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

static void compare_samples(const float *samples, const td_xtts_utterance *expected, float tolerance)
{
    for (size_t i = 0; i < expected->count; i++)
        if (!(fabsf(samples[i] - expected->samples[i]) <= tolerance)) fail_msg("sample %zu differs", i);
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
    size_t n_equal = 0; /* chunks of 4 codes, where they do not grow */
    for (int i = 0; i < 5; i++) {
        static const uint32_t CHUNKS[] = {9, 9, 4, 20, 4};
        h = (heard){0};
        m.speed = i == 0 ? 1.3 : 1;
        m.sink = NULL;
        m.chunk_codes = 0;
        utter(&b, &t, &m, &whole);
        m.sink = hear;
        m.context = &h;
        m.chunk_codes = CHUNKS[i];
        m.most_codes = i == 4 ? 20 : 0;
        utter(&b, &t, &m, &u);
        assert_true(h.n_chunks >= (CHUNKS[i] == 20 ? 2 : 4));
        if (i == 2) n_equal = h.n_chunks;
        if (i == 4) assert_true(h.n_chunks < n_equal);
        assert_int_equal(h.count, whole.count);
        compare_samples(h.samples, &whole, 1e-5f);
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

/* ---------------------------------------------------------------- several texts */

/* Texts of different lengths, side by side and each alone, have the same codes, latents and samples, to the bit: greedily
 * and drawn, in all formats, with more texts than places. */
static void test_texts_side_by_side_are_as_alone(void **state)
{
    enum { TEXTS = 5 };
    static const uint32_t FORMATS[] = {TD_FORMAT_FP32, TD_FORMAT_BF16, TD_FORMAT_INT8};
    bench b;
    (void)state;
    /* it often stops, at a draw: the stop is the last code */
    if (!open_bench_biased(&b, RIG_CL_CPU, "a", 33, 3)) skip();
    td_xtts_timbre t = golden_timbre(&b.g);
    const uint32_t *tokens = golden_values(&b.g, "tokens", 0);
    const size_t n_tokens = golden_count(&b.g, "tokens");
    td_xtts_text texts[TEXTS];
    for (size_t i = 0; i < TEXTS; i++)
        texts[i] = (td_xtts_text){.tokens = tokens + i, .n_tokens = i == 3 ? 1 : n_tokens - 2 * i};
    for (size_t f = 0; f < sizeof FORMATS / sizeof *FORMATS; f++) {
        td_xtts_engine *engine;
        td_xtts_utterance together[TEXTS], alone;
        size_t lengths = 0;
        td_xtts_manner m = {.sampling = {.temperature = 1, .top_p = 0.9, .repetition_penalty = 2, .seed = 7},
                            .speed = 1,
                            .is_guarded = true};
        m.sampling.greedy = f == 1;
        check(td_xtts_engine_open(b.r.memory, b.r.memory, b.voice, FORMATS[f], &engine));
        check(td_xtts_utter_all(engine, &t, texts, TEXTS, 3, &m, together));
        for (size_t i = 0; i < TEXTS; i++) {
            const td_xtts_utterance *u = &together[i];
            check(td_xtts_utter(engine, &t, texts[i].tokens, texts[i].n_tokens, &m, &alone));
            m.sampling.seed++;
            if (u->n != alone.n || memcmp(u->codes, alone.codes, u->n * sizeof *u->codes) != 0)
                fail_msg("format %zu: the codes of text %zu differ", f, i);
            assert_memory_equal(u->latents, alone.latents, u->n * b.g.c.gpt_n_model_channels * sizeof(float));
            assert_int_equal(u->count, alone.count);
            assert_memory_equal(u->samples, alone.samples, u->count * sizeof *u->samples);
            lengths += i > 0 && u->n != together[0].n;
            td_xtts_utterance_free(&alone);
        }
        assert_true(m.sampling.greedy || lengths > 0); /* each has a stop of its own */
        for (size_t i = 0; i < TEXTS; i++)
            td_xtts_utterance_free(&together[i]);
        m.chunk_codes = 4;
        refuse(TD_ERR_ARGUMENT, "one text", td_xtts_utter_all(engine, &t, texts, 2, 2, &m, together));
        td_xtts_engine_close(engine);
    }
    td_xtts_timbre_free(&t);
    close_bench(&b);
}

/* ---------------------------------------------------------------- several threads */

enum { SPEAKERS = 3, CODES = 4 };

typedef struct speaker {
    td_xtts_engine *engine;
    td_xtts_chosen chosen;
    td_xtts_thought thought;
} speaker;

static void *think_on(void *context)
{
    speaker *s = context;
    check(td_xtts_next(s->engine, &s->chosen, 1, &s->thought));
    return NULL;
}

/* Keeps the stack until all wait for it. */
static void think_together(td_shared_stack *stack, speaker *speakers)
{
    pthread_t threads[SPEAKERS];
    (void)td_shared_stack_take(stack);
    for (size_t i = 0; i < SPEAKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, think_on, &speakers[i]), 0);
    while (td_shared_stack_stats(stack).n_waiting < SPEAKERS)
        sched_yield();
    td_shared_stack_return(stack);
    for (size_t i = 0; i < SPEAKERS; i++)
        pthread_join(threads[i], NULL);
}

/* Engines on the same weights, each in a thread of its own, that wait at the same moment take one step; what each thinks is
 * what it thinks alone, to the bit. */
static void test_threads_take_steps_together(void **state)
{
    bench b;
    speaker speakers[SPEAKERS];
    td_xtts_thought alone;
    (void)state;
    if (!open_bench(&b, RIG_CL_CPU, "a")) skip();
    const size_t logits = b.g.c.gpt_num_audio_tokens;
    td_xtts_timbre t = golden_timbre(&b.g);
    const uint32_t *tokens = golden_values(&b.g, "tokens", 0);
    const size_t n_tokens = golden_count(&b.g, "tokens");
    float *kept = calloc(logits * SPEAKERS * CODES, sizeof *kept);
    for (uint32_t i = 0; i < SPEAKERS; i++) {
        td_xtts_chosen chosen = {0};
        check(td_xtts_begin(b.engine, 0, &t, tokens + i, n_tokens - 2 * i, &alone));
        for (uint32_t k = 0; k < CODES; k++) {
            chosen.code = 3 * i + k;
            check(td_xtts_next(b.engine, &chosen, 1, &alone));
            memcpy(kept + (k * SPEAKERS + i) * logits, alone.logits, logits * sizeof *kept);
        }
    }
    for (uint32_t i = 0; i < SPEAKERS; i++) {
        speakers[i] = (speaker){0};
        check(td_xtts_engine_share(b.engine, &speakers[i].engine));
        check(td_xtts_begin(speakers[i].engine, 0, &t, tokens + i, n_tokens - 2 * i, &alone));
    }
    const td_shared_stats before = td_shared_stack_stats(b.engine->stack);
    for (uint32_t k = 0; k < CODES; k++) {
        for (uint32_t i = 0; i < SPEAKERS; i++)
            speakers[i].chosen.code = 3 * i + k;
        think_together(b.engine->stack, speakers);
        for (size_t i = 0; i < SPEAKERS; i++)
            assert_memory_equal(speakers[i].thought.logits, kept + (k * SPEAKERS + i) * logits,
                                logits * sizeof *kept);
    }
    const td_shared_stats after = td_shared_stack_stats(b.engine->stack);
    assert_int_equal(after.n_steps - before.n_steps, CODES);
    assert_int_equal(after.n_codes - before.n_codes, CODES * SPEAKERS);
    for (size_t i = 0; i < SPEAKERS; i++)
        td_xtts_engine_close(speakers[i].engine);
    free(kept);
    td_xtts_timbre_free(&t);
    close_bench(&b);
}

/* ---------------------------------------------------------------- two devices */

/* Nanoseconds of events on one track during which there was one on the other. */
static uint64_t count_shared(const td_trace *trace)
{
    uint64_t shared = 0;
    for (size_t i = 0; i < trace->n; i++)
        for (size_t j = 0; j < trace->n; j++) {
            const struct td_trace_event *a = &trace->events[i], *b = &trace->events[j];
            const uint64_t from = a->start_ns > b->start_ns ? a->start_ns : b->start_ns;
            const uint64_t to = a->end_ns < b->end_ns ? a->end_ns : b->end_ns;
            if (a->track == TD_XTTS_TRACK_GPT && b->track == TD_XTTS_TRACK_VOCODER && from < to)
                shared += to - from;
        }
    return shared;
}

/* The GPT on one device, the vocoder on another: they work at the same time, and say what one device says. */
static void test_two_devices_work_at_once(void **state)
{
    static heard h;
    bench b;
    rig other;
    td_xtts_engine *two;
    td_xtts_utterance whole, u;
    td_trace trace = {0};
    (void)state;
    if (!open_bench(&b, RIG_CL_CPU, "b")) skip();
    if (!rig_open(&other, RIG_VK, 0)) skip();
    check(td_xtts_engine_open(b.r.memory, other.memory, b.voice, TD_FORMAT_FP32, &two));
    assert_true(td_xtts_overlaps(two) && !td_xtts_overlaps(b.engine));
    td_xtts_manner m = greedy_manner(&b.g);
    td_xtts_timbre t = golden_timbre(&b.g);
    const uint32_t *tokens = golden_values(&b.g, "tokens", 0);
    const size_t n_tokens = golden_count(&b.g, "tokens");
    m.trace = &trace;
    utter(&b, &t, &m, &whole);
    assert_int_equal(count_shared(&trace), 0);
    td_trace_clear(&trace);
    m.chunk_codes = 4;
    for (int streams = 0; streams < 2; streams++) {
        h = (heard){0};
        m.sink = streams ? hear : NULL;
        m.context = &h;
        check(td_xtts_utter(two, &t, tokens, n_tokens, &m, &u));
        assert_int_equal(u.count, whole.count);
        compare_samples(u.samples, &whole, 1e-5f);
        if (streams) compare_samples(h.samples, &whole, 1e-5f);
        td_xtts_utterance_free(&u);
    }
    assert_true(count_shared(&trace) > 0);
    h = (heard){.stop_after = 1};
    refuse(TD_ERR_CANCELLED, "receiver", td_xtts_utter(two, &t, tokens, n_tokens, &m, &u));
    td_trace_clear(&trace);
    td_xtts_utterance_free(&whole);
    td_xtts_timbre_free(&t);
    td_xtts_engine_close(two);
    rig_close(&other);
    close_bench(&b);
}

/* How far the first n latents are off with the package's codes before them; *agreeing: of these, those that would be
 * chosen. */
static double follow_some(td_xtts_engine *engine, const golden *g, const td_xtts_timbre *t, size_t n,
                          size_t *agreeing)
{
    const size_t all = golden_count(g, "codes"), width = g->c.gpt_n_model_channels;
    const uint32_t *codes = golden_values(g, "codes", all);
    const td_xtts_manner m = greedy_manner(g);
    float *latents = malloc(n * width * sizeof *latents);
    td_xtts_chooser c;
    td_xtts_thought thought;
    *agreeing = 0;
    check(td_xtts_chooser_open(g->c.gpt_num_audio_tokens, &c));
    check(td_xtts_begin(engine, 0, t, golden_values(g, "tokens", 0), golden_count(g, "tokens"), &thought));
    c.spoken[1] = c.spoken[g->c.gpt_start_audio_token] = true; /* as the package has it */
    for (size_t i = 0; i < n; i++) {
        memcpy(latents + i * width, thought.latent, width * sizeof *latents);
        *agreeing += td_xtts_choose(&c, &m.sampling, thought.logits, 0, i) == codes[i];
        c.spoken[codes[i]] = true;
        if (i + 1 < n) check(td_xtts_next(engine, &(td_xtts_chosen){.code = codes[i]}, 1, &thought));
    }
    const double error = relative_error(latents, golden_values(g, "latents", all * width), n * width);
    td_xtts_chooser_close(&c);
    free(latents);
    return error;
}

static double follow_codes(td_xtts_engine *engine, const golden *g, const td_xtts_timbre *t, size_t *agreeing)
{
    return follow_some(engine, g, t, golden_count(g, "codes"), agreeing);
}

/* Weights of fewer bits: near fp32, but not fp32; lent, the same; and what is said with them can be heard. */
static void test_smaller_weights_say_nearly_the_same(void **state)
{
    static const struct {
        const char *name;
        uint32_t format;
        double least, most; /* of the error */
    } CASES[] = {{"bf16", TD_FORMAT_BF16, 1e-3, 6e-3}, {"int8", TD_FORMAT_INT8, 4e-3, 1.6e-2}};
    (void)state;
    for (size_t k = 0; k < (size_t)2 * GOLDEN_CASES; k++) {
        bench b;
        td_xtts_engine *small, *second;
        td_xtts_utterance u;
        size_t agreeing, again;
        if (!open_bench(&b, RIG_CL_CPU, golden_cases[k / 2])) skip();
        td_xtts_timbre t = golden_timbre(&b.g);
        const td_xtts_manner m = greedy_manner(&b.g);
        check(td_xtts_engine_open(b.r.memory, b.r.memory, b.voice, CASES[k % 2].format, &small));
        const double error = follow_codes(small, &b.g, &t, &agreeing);
        check(td_xtts_engine_share(small, &second));
        assert_true(follow_codes(second, &b.g, &t, &again) == error && again == agreeing);
        td_xtts_engine_close(second);
        const size_t n = golden_count(&b.g, "codes");
        if (!(error > CASES[k % 2].least && error < CASES[k % 2].most && 10 * agreeing >= 9 * n))
            fail_msg("%s, %s: latents off by %.2e, %zu of %zu codes agree", CASES[k % 2].name,
                     golden_cases[k / 2], error, agreeing, n);
        check(
            td_xtts_utter(small, &t, golden_values(&b.g, "tokens", 0), golden_count(&b.g, "tokens"), &m, &u));
        assert_true(u.count > 0);
        for (size_t i = 0; i < u.count; i++)
            assert_true(isfinite(u.samples[i]));
        td_xtts_utterance_free(&u);
        td_xtts_engine_close(small);
        td_xtts_timbre_free(&t);
        close_bench(&b);
    }
}

/* A copy of the voice with the matrices of its blocks as bytes, as the importer stores them. */
static void write_bytes(const td_checkpoint *voice, const char *path)
{
    enum { MOST = 2000 };
    const td_safetensors *file = td_checkpoint_file(voice);
    td_checkpoint_tensor_data *tensors = calloc(MOST, sizeof *tensors);
    void *owned[MOST];
    char names[64][160];
    size_t n = 0, n_owned = 0, n_names = 0;
    for (size_t i = 0; i < td_safetensors_count(file); i++) {
        const td_safetensors_tensor *t = td_safetensors_at(file, i);
        if (strncmp(t->name, "header.", 7) == 0) continue;
        td_checkpoint_tensor_data *to = &tensors[n++];
        *to = (td_checkpoint_tensor_data){.prefix = "",
                                          .name = t->name,
                                          .dtype = t->dtype,
                                          .rank = t->rank,
                                          .data = t->data,
                                          .bytes = t->bytes};
        memcpy(to->dims, t->dims, sizeof to->dims);
        if (strncmp(t->name, "gpt.gpt.h.", 10) != 0 || t->rank != 2) continue;
        const size_t in = (size_t)t->dims[0], out = (size_t)t->dims[1];
        float *scales = owned[n_owned++] = malloc(out * sizeof *scales);
        int8_t *bytes = owned[n_owned++] = malloc(in * out);
        td_bytes_find_scales(t->data, in, out, scales);
        td_bytes_make(t->data, in, out, scales, bytes);
        snprintf(names[n_names], sizeof names[0], "%s.scale", t->name);
        tensors[n++] = (td_checkpoint_tensor_data){.prefix = "",
                                                   .name = names[n_names++],
                                                   .dtype = TD_SAFETENSORS_F32,
                                                   .rank = 1,
                                                   .dims = {out},
                                                   .data = scales,
                                                   .bytes = 4 * out};
        to->dtype = TD_SAFETENSORS_I8;
        to->data = bytes;
        to->bytes = in * out;
    }
    check(td_checkpoint_write(path, td_checkpoint_get_info(voice), NULL, 0, tensors, n));
    while (n_owned > 0)
        free(owned[--n_owned]);
    free(tensors);
}

/* Stored they are the bytes that are made when a voice is opened. Widened, they are still the same numbers: the first
 * latent shows it, for which both have floats; behind it caches beside bytes are narrower. */
static void test_bytes_of_a_file_speak_the_same(void **state)
{
    static const struct {
        uint32_t format;
        double first, all; /* differences of errors at most */
    } CASES[] = {{TD_FORMAT_INT8, 0, 0}, {TD_FORMAT_FP32, 1e-7, 1e-4}};
    bench b;
    td_checkpoint *stored;
    td_xtts_engine *made;
    char path[400];
    size_t agreeing, again;
    (void)state;
    if (!open_bench(&b, RIG_CL_CPU, "b")) skip();
    snprintf(path, sizeof path, "%s/bytes.safetensors", b.g.folder);
    write_bytes(b.voice, path);
    check(td_checkpoint_open(path, &stored));
    assert_int_equal(td_xtts_stored_format(b.voice), TD_FORMAT_FP32);
    assert_int_equal(td_xtts_stored_format(stored), TD_FORMAT_INT8);
    td_xtts_timbre t = golden_timbre(&b.g);
    check(td_xtts_engine_open(b.r.memory, b.r.memory, b.voice, TD_FORMAT_INT8, &made));
    const double first = follow_some(made, &b.g, &t, 1, &agreeing);
    const double error = follow_codes(made, &b.g, &t, &agreeing);
    td_xtts_engine_close(made);
    for (size_t i = 0; i < 2; i++) {
        check(td_xtts_engine_open(b.r.memory, b.r.memory, stored, CASES[i].format, &made));
        const double stored_first = follow_some(made, &b.g, &t, 1, &again);
        const double stored_error = follow_codes(made, &b.g, &t, &again);
        td_xtts_engine_close(made);
        if (!(fabs(stored_first - first) <= CASES[i].first && fabs(stored_error - error) <= CASES[i].all) ||
            again != agreeing)
            fail_msg(
                "latents off by %.9e, then %.9e with bytes of the file, %.9e and %.9e with those made of it",
                stored_first, stored_error, first, error);
    }
    td_xtts_timbre_free(&t);
    td_checkpoint_close(stored);
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
                                       cmocka_unit_test(test_texts_side_by_side_are_as_alone),
                                       cmocka_unit_test(test_threads_take_steps_together),
                                       cmocka_unit_test(test_two_devices_work_at_once),
                                       cmocka_unit_test(test_smaller_weights_say_nearly_the_same),
                                       cmocka_unit_test(test_bytes_of_a_file_speak_the_same),
                                       cmocka_unit_test(test_seeds_decide)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
