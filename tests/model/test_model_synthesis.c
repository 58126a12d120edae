/* The graphs of synthesis give what the training graph gives; what is behind an item's end, or comes later,
 * makes no difference. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "support/store.h"

static const td_batch_shape shape = {.items = 3, .tokens = 9, .frames = 41, .reference_frames = 12};

static td_acoustic make_config(bool sequential)
{
    td_acoustic c;
    td_acoustic_preset(0, sequential, &c);
    c.n_mels = 12;
    c.n_speakers = 2;
    c.speaker_encoder = true;
    c.pitch_predictor = c.energy_predictor = !sequential;
    c.postnet = true;
    return c;
}

static void open_trainer(trainer *t, const rig *r, const td_acoustic *c, const batch *b)
{
    const td_family *family = c->decoder_kernel == 1 ? &td_family_autoregressive : &td_family_parallel;
    trainer_open(t, r, family, c, b->shape, &(td_build){.backward = true});
    batch_fill(b, t->plan, t->graph);
    run_plan(t->plan, 0, NULL, 0);
}

static void assert_near(const float *a, const float *b, size_t n, double tolerance)
{
    const double error = relative_error(a, b, n);
    if (error <= tolerance) return;
    print_error("off by %g\n", error);
    fail();
}

static void fill(td_plan *plan, const td_graph *graph, const char *input, const void *values)
{
    check(td_plan_fill(plan, 0, td_graph_find_input(graph, input), values));
}

/* The encoder, run over a batch with the parameters of a trainer. */
typedef struct encoder {
    td_graph *graph;
    td_plan *plan;
    float *hidden, *speaker;
} encoder;

static void encoder_run(encoder *e, const trainer *t, const td_acoustic *c, const batch *b)
{
    const bool predicts = t->config.family == &td_family_parallel;
    check(td_acoustic_encoder_graph(&t->config, &shape, 0, predicts, &e->graph));
    check(td_plan_create(t->store, e->graph, &(td_plan_options){.forward_only = true}, &e->plan));
    batch_fill(b, e->plan, e->graph);
    run_plan(e->plan, 0, NULL, 0);
    e->hidden = read_output(e->plan, td_graph_find_output(e->graph, "hidden"),
                            (size_t)shape.items * shape.tokens * c->text_width);
    e->speaker = read_output(e->plan, td_graph_find_output(e->graph, "speaker"),
                             (size_t)shape.items * c->speaker_width);
}

static void encoder_close(encoder *e)
{
    free(e->hidden);
    free(e->speaker);
    td_plan_destroy(e->plan);
    td_graph_destroy(e->graph);
}

/* ---------------------------------------------------------------- non-autoregressive */

/* ln(1 + scale mean) over the frames of each token, of those above 0 if `positive`. */
static float *token_means(const batch *b, const uint32_t *durations, const float *x, float scale,
                          bool positive)
{
    float *y = calloc((size_t)b->shape.items * b->shape.tokens, sizeof *y);
    for (uint32_t i = 0; i < b->shape.items; i++) {
        uint32_t t = i * b->shape.frames;
        for (uint32_t j = i * b->shape.tokens; j < (i + 1) * b->shape.tokens; j++) {
            double sum = 0, count = 0;
            for (const uint32_t end = t + durations[j]; t < end; t++) {
                if (positive && !(x[t] > 0)) continue;
                sum += (double)x[t];
                count++;
            }
            y[j] = (float)log(1 + (double)scale * (count > 0 ? sum / count : 0));
        }
    }
    return y;
}

static void test_parallel(void **state)
{
    (void)state;
    rig r;
    trainer t;
    encoder e;
    td_graph *decode = NULL;
    td_plan *decoding = NULL;
    const td_acoustic c = make_config(false);
    if (!rig_open(&r, RIG_CL_CPU, 0)) return;
    batch b = batch_make(&c, shape, 21);
    const size_t tokens = (size_t)shape.items * shape.tokens, frames = (size_t)shape.items * shape.frames;
    open_trainer(&t, &r, &c, &b);
    float *mel = read_named(&t, "predicted_mel", frames * c.n_mels);
    float *logs = read_named(&t, "log_durations", tokens);
    float *durations = read_named(&t, "durations", tokens);
    float *index = read_named(&t, "index", frames);

    encoder_run(&e, &t, &c, &b);
    float *predicted = read_output(e.plan, td_graph_find_output(e.graph, "log_durations"), tokens);
    assert_near(predicted, logs, shape.tokens, 1e-6); /* of item 0, which is full */

    float *pitch = token_means(&b, (uint32_t *)(void *)durations, b.pitch, 0.01f, true);
    float *energy = token_means(&b, (uint32_t *)(void *)durations, b.energy, 20, false);
    check(td_parallel_decoder_graph(&t.config, &shape, 0, &decode));
    check(td_plan_create(t.store, decode, &(td_plan_options){.forward_only = true}, &decoding));
    fill(decoding, decode, "hidden", e.hidden);
    fill(decoding, decode, "speaker", e.speaker);
    fill(decoding, decode, "pitch", pitch);
    fill(decoding, decode, "energy", energy);
    fill(decoding, decode, "durations", durations);
    fill(decoding, decode, "index", index);
    fill(decoding, decode, "frame_counts", b.frame_counts);
    run_plan(decoding, 0, NULL, 0);
    float *made = read_output(decoding, td_graph_find_output(decode, "predicted_mel"), frames * c.n_mels);
    for (uint32_t i = 0; i < shape.items; i++) {
        const size_t at = (size_t)i * shape.frames * c.n_mels;
        assert_near(made + at, mel + at, (size_t)b.frame_counts[i] * c.n_mels, 1e-5);
    }
    float *const all[] = {mel, logs, durations, index, predicted, pitch, energy, made};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    td_plan_destroy(decoding);
    td_graph_destroy(decode);
    encoder_close(&e);
    trainer_close(&t);
    batch_free(&b);
    rig_close(&r);
}

/* ---------------------------------------------------------------- autoregressive */

/* Steps with the true frames before them; coarse [B, S r, M], weights [B, S, L]. */
static void run_steps(td_plan *plan, const td_graph *step, const td_acoustic *c, const batch *b,
                      float *coarse, float *weights, float *stops)
{
    const size_t r = c->reduction, bands = c->n_mels, steps = (b->shape.frames + r - 1) / r;
    const uint32_t items = b->shape.items;
    float *previous = calloc((size_t)items * bands, sizeof *previous);
    for (uint32_t s = 0; s < steps; s++) {
        uint32_t position[8], keys[8];
        for (uint32_t i = 0; i < items; i++) {
            position[i] = s;
            keys[i] = s + 1;
            if (s > 0)
                memcpy(previous + i * bands, b->mel + ((size_t)i * b->shape.frames + s * r - 1) * bands,
                       bands * sizeof *previous);
        }
        fill(plan, step, "previous", previous);
        fill(plan, step, "position", position);
        fill(plan, step, "key_counts", keys);
        run_plan(plan, s, NULL, 0);
        float *mel =
            read_output(plan, td_graph_find_output(step, "predicted_mel"), (size_t)items * r * bands);
        float *w =
            read_output(plan, td_graph_find_output(step, "attention"), (size_t)items * b->shape.tokens);
        float *stop = read_output(plan, td_graph_find_output(step, "stop"), items);
        for (uint32_t i = 0; i < items; i++) {
            memcpy(coarse + ((size_t)i * steps + s) * r * bands, mel + (size_t)i * r * bands,
                   r * bands * sizeof *mel);
            memcpy(weights + ((size_t)i * steps + s) * b->shape.tokens, w + (size_t)i * b->shape.tokens,
                   b->shape.tokens * sizeof *w);
            stops[i * steps + s] = stop[i];
        }
        free(mel);
        free(w);
        free(stop);
    }
    free(previous);
}

static void test_steps(void **state)
{
    (void)state;
    rig r;
    trainer t;
    encoder e;
    td_graph *step = NULL, *finish = NULL;
    td_plan *stepping = NULL, *finishing = NULL;
    const td_acoustic c = make_config(true);
    if (!rig_open(&r, RIG_CL_CPU, 0)) return;
    batch b = batch_make(&c, shape, 22);
    const uint32_t steps = (shape.frames + c.reduction - 1) / c.reduction, frames = steps * c.reduction;
    open_trainer(&t, &r, &c, &b);
    float *mel = read_named(&t, "predicted_mel", (size_t)shape.items * frames * c.n_mels);
    float *attention = read_named(&t, "attention", (size_t)shape.items * steps * shape.tokens);

    encoder_run(&e, &t, &c, &b);

    check(td_ar_step_graph(&t.config, &shape, 0, &step));
    check(td_store_extend(t.store, step));
    check(td_plan_create(t.store, step, &(td_plan_options){.forward_only = true}, &stepping));
    float *window = calloc((size_t)shape.items * shape.tokens, sizeof *window);
    fill(stepping, step, "hidden", e.hidden);
    fill(stepping, step, "speaker", e.speaker);
    fill(stepping, step, "token_counts", b.token_counts);
    fill(stepping, step, "window", window);
    float *coarse = calloc((size_t)shape.items * frames * c.n_mels, sizeof *coarse);
    float *weights = calloc((size_t)shape.items * steps * shape.tokens, sizeof *weights);
    float *stops = calloc((size_t)shape.items * steps, sizeof *stops);
    run_steps(stepping, step, &c, &b, coarse, weights, stops);
    run_steps(stepping, step, &c, &b, coarse, weights, stops); /* what the caches held does not matter */

    const td_batch_shape whole = {.items = shape.items, .tokens = shape.tokens, .frames = frames};
    check(td_ar_postnet_graph(&t.config, &whole, 0, &finish));
    check(td_plan_create(t.store, finish, &(td_plan_options){.forward_only = true}, &finishing));
    fill(finishing, finish, "coarse", coarse);
    fill(finishing, finish, "frame_counts", b.frame_counts);
    run_plan(finishing, 0, NULL, 0);
    float *made = read_output(finishing, td_graph_find_output(finish, "predicted_mel"),
                              (size_t)shape.items * frames * c.n_mels);
    for (uint32_t i = 0; i < shape.items; i++) {
        const uint32_t n_steps = (b.frame_counts[i] + c.reduction - 1) / c.reduction;
        const size_t at = (size_t)i * frames * c.n_mels, row = (size_t)i * steps * shape.tokens;
        assert_near(made + at, mel + at, (size_t)b.frame_counts[i] * c.n_mels, 1e-5);
        assert_near(weights + row, attention + row, (size_t)n_steps * shape.tokens, 1e-5);
    }
    for (uint32_t k = 0; k < shape.items * shape.tokens; k++) /* all but the second token of each */
        window[k] = k % shape.tokens == 1 ? 0 : -1e4f;
    fill(stepping, step, "window", window);
    run_steps(stepping, step, &c, &b, coarse, weights, stops);
    assert_float_equal(weights[1], 1, 1e-6);
    float *const all[] = {mel, attention, window, coarse, weights, stops, made};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    td_plan_destroy(finishing);
    td_plan_destroy(stepping);
    td_graph_destroy(finish);
    td_graph_destroy(step);
    encoder_close(&e);
    trainer_close(&t);
    batch_free(&b);
    rig_close(&r);
}

/* ---------------------------------------------------------------- what must make no difference */

/* Puts other things behind the ends of texts, recordings and references. */
static void spoil_padding(batch *b, const td_acoustic *c)
{
    const td_batch_shape *s = &b->shape;
    for (uint32_t i = 0; i < s->items; i++) {
        for (uint32_t j = b->token_counts[i]; j < s->tokens; j++)
            b->token_ids[i * s->tokens + j] = 1 + j % 4;
        for (uint32_t k = b->frame_counts[i]; k < s->frames; k++) {
            for (uint32_t m = 0; m < c->n_mels; m++)
                b->mel[(size_t)(i * s->frames + k) * c->n_mels + m] = 3.25f - (float)m;
            b->pitch[i * s->frames + k] = 123;
            b->energy[i * s->frames + k] = 0.5f;
        }
        for (uint32_t k = b->reference_counts[i]; k < s->reference_frames; k++) {
            for (uint32_t m = 0; m < c->n_mels; m++)
                b->reference_mel[(size_t)(i * s->reference_frames + k) * c->n_mels + m] = 7;
        }
    }
}

/* The first n rows of `row` words of an item, between batches whose items have this many rows. */
static void copy_item(void *to, const void *from, size_t item, size_t to_rows, size_t from_rows, size_t n,
                      size_t row)
{
    memcpy((char *)to + 4 * item * to_rows * row, (const char *)from + 4 * item * from_rows * row,
           4 * n * row);
}

static void try_padding(const rig *r, bool sequential)
{
    const td_acoustic c = make_config(sequential);
    batch b = batch_make(&c, shape, 23);
    trainer t;
    size_t n = 0;
    open_trainer(&t, r, &c, &b);
    const float before = scalar_of(t.plan, "loss");
    float *gradients = read_gradients(t.store, &n);
    spoil_padding(&b, &c);
    batch_fill(&b, t.plan, t.graph);
    run_plan(t.plan, 0, NULL, 0);
    float *after = read_gradients(t.store, &n);
    const float spoilt = scalar_of(t.plan, "loss");
    assert_memory_equal(&before, &spoilt, sizeof before);
    for (size_t i = 0; i < n; i++)
        assert_true(gradients[i] == after[i]);
    trainer_close(&t);

    td_batch_shape wide = shape;
    wide.tokens += 3;
    wide.frames += 10;
    wide.reference_frames += 5;
    batch w = batch_make(&c, wide, 23);
    memset(w.token_ids, 0, (size_t)4 * wide.items * wide.tokens);
    memcpy(w.token_counts, b.token_counts, (size_t)4 * shape.items);
    memcpy(w.frame_counts, b.frame_counts, (size_t)4 * shape.items);
    memcpy(w.reference_counts, b.reference_counts, (size_t)4 * shape.items);
    for (uint32_t i = 0; i < shape.items; i++) {
        copy_item(w.token_ids, b.token_ids, i, wide.tokens, shape.tokens, b.token_counts[i], 1);
        copy_item(w.mel, b.mel, i, wide.frames, shape.frames, b.frame_counts[i], c.n_mels);
        copy_item(w.pitch, b.pitch, i, wide.frames, shape.frames, b.frame_counts[i], 1);
        copy_item(w.energy, b.energy, i, wide.frames, shape.frames, b.frame_counts[i], 1);
        copy_item(w.reference_mel, b.reference_mel, i, wide.reference_frames, shape.reference_frames,
                  b.reference_counts[i], c.n_mels);
    }
    open_trainer(&t, r, &c, &w);
    assert_float_equal(scalar_of(t.plan, "loss"), before, 2e-6f * before);
    float *widened = read_gradients(t.store, &n);
    assert_near(widened, gradients, n, 1e-5);
    trainer_close(&t);
    free(gradients);
    free(after);
    free(widened);
    batch_free(&w);
    batch_free(&b);
}

static void test_padding(void **state)
{
    (void)state;
    rig r;
    if (!rig_open(&r, RIG_CL_CPU, 0)) return;
    try_padding(&r, false);
    try_padding(&r, true);
    rig_close(&r);
}

static void test_causality(void **state)
{
    (void)state;
    rig r;
    trainer t;
    td_acoustic c = make_config(true);
    c.postnet = false;
    if (!rig_open(&r, RIG_CL_CPU, 0)) return;
    batch b = batch_make(&c, shape, 24);
    const uint32_t steps = (shape.frames + c.reduction - 1) / c.reduction;
    const size_t n = (size_t)shape.items * steps * c.reduction * c.n_mels;
    open_trainer(&t, &r, &c, &b);
    float *before = read_named(&t, "predicted_mel", n);
    for (uint32_t i = 0; i < shape.items; i++) {
        for (uint32_t k = 3 * c.reduction; k < shape.frames; k++)
            b.mel[(size_t)(i * shape.frames + k) * c.n_mels] += 1;
    }
    batch_fill(&b, t.plan, t.graph);
    run_plan(t.plan, 0, NULL, 0);
    float *after = read_named(&t, "predicted_mel", n);
    for (uint32_t i = 0; i < shape.items; i++) {
        const size_t at = (size_t)i * steps * c.reduction * c.n_mels;
        const size_t known = (size_t)4 * c.reduction * c.n_mels; /* step 4 is the first to see frame 3 r */
        assert_memory_equal(before + at, after + at, known * sizeof *before);
        assert_true(memcmp(before + at + known, after + at + known, c.n_mels * sizeof *before) != 0);
    }
    free(before);
    free(after);
    trainer_close(&t);
    batch_free(&b);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parallel),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_padding),
        cmocka_unit_test(test_causality),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
