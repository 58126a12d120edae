/* See rig.h. */
#include "rig.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

/* ---------------------------------------------------------------- batches */

static void *zeros(size_t n)
{
    void *all = calloc(n + 1, 4);
    assert_non_null(all);
    return all;
}

/* The sound of a symbol, in one band. */
static float sound(uint32_t symbol, uint32_t band)
{
    return sinf(0.7f * (float)(symbol + 1) * (float)(band + 1)) * 1.5f;
}

static void fill_item(batch *b, const td_acoustic *c, uint32_t item, uint64_t seed)
{
    const uint32_t tokens = b->shape.tokens, frames = b->shape.frames, n_mels = c->n_mels;
    const uint64_t at = (uint64_t)item * 4096;
    uint32_t n_tokens = item == 0 ? tokens : 1 + (uint32_t)td_rng_below(seed, 1, item, tokens);
    if (n_tokens < 2) n_tokens = tokens < 2 ? tokens : 2;
    uint32_t t = 0;
    for (uint32_t j = 0; j < n_tokens; j++) {
        const uint32_t symbol = 4 + (uint32_t)td_rng_below(seed, 2, at + j, c->n_symbols - 4);
        uint32_t end = t + 2 + (uint32_t)td_rng_below(seed, 3, at + j, 4);
        if (item == 0 && j + 1 == n_tokens) end = frames;
        b->token_ids[item * tokens + j] = symbol;
        for (; t < end && t < frames; t++) {
            const uint32_t frame = item * frames + t;
            for (uint32_t m = 0; m < n_mels; m++)
                b->mel[frame * n_mels + m] =
                    sound(symbol, m) + 0.05f * td_rng_normal(seed, 4, frame * n_mels + m);
            b->energy[frame] = 0.02f * (float)(symbol % 7);
            b->pitch[frame] = symbol % 3 ? 100.0f + 10.0f * (float)(symbol % 11) : 0;
        }
    }
    b->token_counts[item] = n_tokens;
    b->frame_counts[item] = t;
    b->speakers[item] = c->n_speakers ? item % c->n_speakers : 0;
}

batch batch_make(const td_acoustic *c, td_batch_shape s, uint64_t seed)
{
    batch b = {.shape = s, .n_mels = c->n_mels, .supervision_weight = 0.3f, .guided_weight = 2};
    b.token_ids = zeros((size_t)s.items * s.tokens);
    b.token_counts = zeros(s.items);
    b.frame_counts = zeros(s.items);
    b.speakers = zeros(s.items);
    b.reference_counts = zeros(s.items);
    b.mel = zeros((size_t)s.items * s.frames * c->n_mels);
    b.energy = zeros((size_t)s.items * s.frames);
    b.pitch = zeros((size_t)s.items * s.frames);
    b.reference_mel = zeros((size_t)s.items * s.reference_frames * c->n_mels);
    for (size_t i = 0; i < (size_t)s.items * s.frames * c->n_mels; i++)
        b.mel[i] = -1.97f;
    for (uint32_t item = 0; item < s.items; item++) {
        fill_item(&b, c, item, seed);
        b.reference_counts[item] =
            item == 0 ? s.reference_frames : s.reference_frames - item % (s.reference_frames + 1);
    }
    for (size_t i = 0; i < (size_t)s.items * s.reference_frames * c->n_mels; i++)
        b.reference_mel[i] = td_rng_normal(seed, 5, i);
    return b;
}

void batch_free(batch *b)
{
    void *const all[] = {b->token_ids, b->token_counts, b->frame_counts, b->speakers,     b->reference_counts,
                         b->mel,       b->energy,       b->pitch,        b->reference_mel};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    *b = (batch){0};
}

void batch_fill(const batch *b, td_plan *plan, const td_graph *graph)
{
    const struct {
        const char *name;
        const void *values;
    } all[] = {
        {"token_ids", b->token_ids},
        {"token_counts", b->token_counts},
        {"frame_counts", b->frame_counts},
        {"speakers", b->speakers},
        {"mel", b->mel},
        {"energy", b->energy},
        {"pitch", b->pitch},
        {"reference_mel", b->reference_mel},
        {"reference_counts", b->reference_counts},
        {"supervision_weight", &b->supervision_weight},
        {"guided_weight", &b->guided_weight},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const td_tensor input = td_graph_find_input(graph, all[i].name);
        if (input.id) check(td_plan_fill(plan, 0, input, all[i].values));
    }
}

/* ---------------------------------------------------------------- running */

void trainer_open(trainer *out, const rig *r, const td_family *family, const td_acoustic *c,
                  td_batch_shape shape, const td_build *build)
{
    td_acoustic values = *c;
    td_model_config config = {.family = family};
    values.loss_supervision = values.loss_guided = 1;
    td_acoustic_put(&config, &values);
    trainer_open_config(out, r, &config, shape, build);
}

void trainer_open_config(trainer *out, const rig *r, const td_model_config *config, td_batch_shape shape,
                         const td_build *build)
{
    td_build whole = *build;
    *out = (trainer){.config = *config};
    whole.config = &out->config;
    whole.shape = shape;
    check(td_family_build(&whole, &out->graph));
    check(td_store_create(r->memory, out->graph, &(td_store_options){.training = true}, &out->store));
    check(td_store_init(out->store, 7));
    check(td_plan_create(out->store, out->graph, &(td_plan_options){0}, &out->plan));
}

void trainer_close(trainer *t)
{
    td_plan_destroy(t->plan);
    td_store_destroy(t->store);
    td_graph_destroy(t->graph);
}

void run_plan(td_plan *plan, uint32_t step, td_optimizer *optimizer, float learning_rate)
{
    td_point reached = {0};
    check(td_plan_run(plan, &(td_run){.step = step}, &reached));
    if (optimizer) check(td_optimizer_step(optimizer, learning_rate, &reached));
    check(td_point_wait(reached, TD_WAIT_FOREVER));
}

float *read_output(td_plan *plan, td_tensor output, size_t n)
{
    float *values = zeros(n);
    check(td_plan_read(plan, output, values));
    return values;
}

float scalar_of(td_plan *plan, const char *name)
{
    td_scalars scalars;
    check(td_plan_scalars(plan, td_plan_runs(plan) - 1, &scalars));
    for (size_t i = 0; i < scalars.count; i++) {
        if (strcmp(scalars.names[i], name) == 0) return scalars.values[i];
    }
    print_error("there is no scalar %s\n", name);
    fail();
    return NAN;
}

float *read_named(const trainer *t, const char *output, size_t n)
{
    return read_output(t->plan, td_graph_find_output(t->graph, output), n);
}
