/* A second front end and a frozen part: batches have spectrograms of another size ("coarse"), the data device
 * makes a few numbers of each of their frames ("content"), and the model learns to tell the frame from these. */
#include <stddef.h>

#include "audio/mel.h"
#include "families/family.h"

enum { BANDS = 20, NUMBERS = 6 };

/* ---------------------------------------------------------------- configuration */

typedef struct content {
    uint32_t width, hop;
} content;

static const td_model_key keys[] = {
    TD_MODEL_KEY(content, COUNT, width, 1, 4096, true, "channels between the layers"),
    TD_MODEL_KEY(content, COUNT, hop, 256, 1024, false, "samples from one coarse frame to the next"),
};

static void preset(uint32_t size, void *values)
{
    *(content *)values = (content){.width = 16U << size, .hop = 512};
}

static void describe(const void *values, td_model_facts *out)
{
    (void)values;
    out->n_mels = td_mel_config_default().n_mels;
}

static void fit(const td_data_facts *facts, const void *old, void *values)
{
    (void)facts, (void)old, (void)values;
}

static td_mel_config configure(const void *values)
{
    td_mel_config config = td_mel_config_default();
    config.hop_samples = ((const content *)values)->hop;
    config.n_mels = BANDS;
    return config;
}

/* ---------------------------------------------------------------- graphs */

/* [B, T', channels], T' being the coarse frames of the batch's longest recording. */
static td_tensor make_input(td_nn *nn, const td_build *b, const char *name, uint32_t channels)
{
    const td_mel_config config = configure(&b->config->values);
    const uint64_t samples = (uint64_t)b->shape.frames * td_mel_config_default().hop_samples - 1;
    const td_shape shape = td_dims(b->shape.items, td_mel_frames(&config, samples), channels);
    return td_graph_input(nn->graph, name, shape, TD_F32);
}

static td_tensor build_frozen(td_nn *nn, const td_build *b)
{
    return td_nn_linear(nn, "content.numbers", make_input(nn, b, "coarse", BANDS), NUMBERS);
}

static td_tensor build(td_nn *nn, const td_build *b)
{
    const content *c = (const content *)&b->config->values;
    const td_tensor numbers = make_input(nn, b, "content", NUMBERS),
                    coarse = make_input(nn, b, "coarse", BANDS);
    const td_tensor counts = td_graph_input(nn->graph, "coarse_counts", td_dims(b->shape.items), TD_U32);
    const td_tensor inside = td_graph_gelu(nn->graph, td_nn_linear(nn, "inside", numbers, c->width));
    return td_graph_loss(nn->graph, TD_LOSS_L1, td_nn_linear(nn, "frame", inside, BANDS), coarse, counts, 0);
}

/* ---------------------------------------------------------------- the table */

static const td_learner_row learners[] = {{.name = "content"}};
static const td_front_end_row front_ends[] = {{.name = "coarse", .config = configure}};
static const td_frozen_row frozen[] = {{.name = "content", .build = build_frozen}};

const td_family td_family_content = {
    .name = "content",
    .help = "a spectrogram from what a frozen part makes of it; for tests",
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .learners = learners,
    .n_learners = 1,
    .front_ends = front_ends,
    .n_front_ends = 1,
    .frozen = frozen,
    .n_frozen = 1,
    .preset = preset,
    .describe = describe,
    .fit = fit,
    .build = build,
};
