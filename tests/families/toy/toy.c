/* The smallest family: it predicts each frame of a spectrogram from the one before, with two layers. It does
 * not speak. docs/adding_a_family.md walks through this file. */
#include "families/family.h"

/* ---------------------------------------------------------------- configuration */

typedef struct toy {
    uint32_t width, n_mels;
    float dropout;
} toy;

static const td_model_key keys[] = {
    TD_MODEL_KEY(toy, COUNT, width, 1, 4096, true, "channels between the two layers"),
    TD_MODEL_KEY(toy, COUNT, n_mels, 1, 512, true, "bands of a spectrogram; set from the data"),
    TD_MODEL_KEY(toy, NUMBER, dropout, 0, 0.9, false, "share of those channels that is dropped in training"),
};

static void preset(uint32_t size, void *values)
{
    *(toy *)values = (toy){.width = 16U << size, .n_mels = 80};
}

static void describe(const void *values, td_model_facts *out)
{
    out->n_mels = ((const toy *)values)->n_mels;
}

static void fit(const td_data_facts *facts, const void *old, void *values)
{
    (void)old;
    ((toy *)values)->n_mels = facts->n_mels;
}

/* ---------------------------------------------------------------- graph */

static td_tensor build(td_nn *nn, const td_build *b)
{
    const toy *c = (const toy *)&b->config->values;
    const uint32_t items = b->shape.items, frames = b->shape.frames;
    td_graph *g = nn->graph;
    nn->dropout = b->dropout ? c->dropout : 0;

    const td_tensor mel = td_graph_input(g, "mel", td_dims(items, frames, c->n_mels), TD_F32);
    const td_tensor counts = td_graph_input(g, "frame_counts", td_dims(items), TD_U32);

    const td_tensor later = td_graph_pad(g, mel, 1, 1, 0, 0); /* silence, then the recording */
    const td_tensor before = td_graph_slice(g, later, 1, 0, frames);
    const td_tensor inside = td_graph_gelu(g, td_nn_linear(nn, "inside", before, c->width));
    const td_tensor made = td_nn_linear(nn, "frame", td_nn_dropout(nn, inside), c->n_mels);
    td_graph_output(g, made, "predicted_mel");
    return td_graph_loss(g, TD_LOSS_L1, made, mel, counts, 0);
}

/* ---------------------------------------------------------------- the table */

static const td_learner_row learners[] = {{.name = "toy"}};

const td_family td_family_toy = {
    .name = "toy",
    .help = "the next frame from the one before; for tests",
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .learners = learners,
    .n_learners = 1,
    .preset = preset,
    .describe = describe,
    .fit = fit,
    .build = build,
};
