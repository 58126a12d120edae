/* Two learners that share a batch: a generator that predicts each frame from the one before, and a
 * discriminator that tells recorded frames from predicted ones. Each is frozen in the other's graph. */
#include <stddef.h>

#include "families/family.h"

/* ---------------------------------------------------------------- configuration */

typedef struct gan {
    uint32_t width, n_mels;
    float adversarial;
} gan;

static const td_model_key keys[] = {
    TD_MODEL_KEY(gan, COUNT, width, 1, 4096, true, "channels between the layers"),
    TD_MODEL_KEY(gan, COUNT, n_mels, 1, 512, true, "bands of a spectrogram; set from the data"),
    {.section = "training",
     .name = "loss_adversarial",
     .help = "weight of what the discriminator says",
     .type = TD_KEY_NUMBER,
     .offset = offsetof(gan, adversarial),
     .most = 100},
};

static void preset(uint32_t size, void *values)
{
    *(gan *)values = (gan){.width = 16U << size, .n_mels = 80, .adversarial = 0.5f};
}

static void describe(const void *values, td_model_facts *out)
{
    out->n_mels = ((const gan *)values)->n_mels;
}

static void fit(const td_data_facts *facts, const void *old, void *values)
{
    (void)old;
    ((gan *)values)->n_mels = facts->n_mels;
}

/* ---------------------------------------------------------------- graphs */

/* Two layers under a prefix. */
static td_tensor stack(td_nn *nn, const char *prefix, td_tensor x, uint32_t inside, uint32_t width)
{
    td_nn_push(nn, "%s", prefix);
    const td_tensor h = td_graph_leaky_relu(nn->graph, td_nn_linear(nn, "inside", x, inside), 0.1f);
    const td_tensor out = td_nn_linear(nn, "out", h, width);
    td_nn_pop(nn);
    return out;
}

/* How far the discriminator's answers to x [B, T, n_mels] are from `truth`. */
static td_tensor doubt(td_nn *nn, const gan *c, td_tensor x, td_tensor counts, float truth)
{
    const td_tensor answer = stack(nn, "discriminator", x, c->width, 1);
    const td_tensor wanted = td_graph_shift(nn->graph, td_graph_scale(nn->graph, answer, 0), truth);
    return td_graph_loss(nn->graph, TD_LOSS_MSE, answer, wanted, counts, 0);
}

enum { DISCRIMINATOR, GENERATOR };

/* What the discriminator says counts half in the first steps. */
static float scalar(const void *values, const char *input, uint64_t step)
{
    (void)input;
    return ((const gan *)values)->adversarial * (step < 2 ? 0.5f : 1);
}

static td_tensor build(td_nn *nn, const td_build *b)
{
    const gan *c = (const gan *)&b->config->values;
    td_graph *g = nn->graph;
    const td_tensor mel =
        td_graph_input(g, "mel", td_dims(b->shape.items, b->shape.frames, c->n_mels), TD_F32);
    const td_tensor counts = td_graph_input(g, "frame_counts", td_dims(b->shape.items), TD_U32);
    const td_tensor before = td_graph_slice(g, td_graph_pad(g, mel, 1, 1, 0, 0), 1, 0, b->shape.frames);
    const td_tensor made = stack(nn, "generator", before, c->width, c->n_mels);
    const td_tensor weight = td_graph_input(g, "adversarial_weight", td_dims(1), TD_F32);
    td_tensor terms[2];
    if (b->learner == DISCRIMINATOR) {
        terms[0] = doubt(nn, c, mel, counts, 1);
        terms[1] = doubt(nn, c, td_graph_stop_gradient(g, made), counts, 0);
        td_graph_output(g, terms[0], "loss.recorded");
        td_graph_output(g, terms[1], "loss.made");
        return td_graph_mul(g, td_graph_total(g, terms, (const float[]){1, 1}, 2), weight);
    }
    terms[0] = td_graph_loss(g, TD_LOSS_L1, made, mel, counts, 0);
    terms[1] = doubt(nn, c, made, counts, 1);
    td_graph_output(g, made, "predicted_mel");
    td_graph_output(g, terms[0], "loss.mel");
    td_graph_output(g, terms[1], "loss.adversarial");
    return td_graph_add(g, terms[0], td_graph_mul(g, terms[1], weight));
}

/* ---------------------------------------------------------------- the table */

/* The discriminator learns half as fast, with less momentum. */
static void adjust(const void *values, td_pace *pace)
{
    (void)values;
    pace->schedule.lr *= 0.5;
    pace->optimizer.beta1 = 0.5f;
}

static const char *const discriminator[] = {"discriminator.", NULL}, *const generator[] = {"generator.",
                                                                                           NULL};
static const td_learner_row learners[] = {
    [DISCRIMINATOR] = {.name = "discriminator", .prefixes = discriminator, .adjust = adjust},
    [GENERATOR] = {.name = "generator", .prefixes = generator}};

const td_family td_family_gan = {
    .name = "gan",
    .help = "the next frame, judged by a second model; for tests",
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .learners = learners,
    .n_learners = 2,
    .judge = GENERATOR,
    .preset = preset,
    .describe = describe,
    .fit = fit,
    .build = build,
    .scalar = scalar,
};
