/* The aligner family: which symbol sounds at which frame. Convolutions over a spectrogram, two frames to a step, tell
 * for each step how likely each symbol begins there, or none (symbol 0); trained by CTC on recordings and their texts. It
 * does not speak: align/align.h lays texts along recordings with it. A step sees `reach` frames around it and no more, so
 * that a long recording can be gone through in pieces with the same result. Covered by tests/families/test_aligner.c. */
#include <string.h>

#include "base/error.h"
#include "families/family.h"

enum { FRAMES_PER_STEP = 2, EDGE = 1 }; /* a text begins and ends with a token that is not heard */

/* ---------------------------------------------------------------- configuration */

typedef struct aligner {
    uint32_t width, layers, kernel, inside, n_mels, n_symbols;
    float dropout, vary_gain, vary_bands, vary_noise;
} aligner;

#define KEY(type, name, least, most, is_shape, help)                                                         \
    TD_MODEL_KEY(aligner, type, name, least, most, is_shape, help)
#define RUN_KEY(name_, least_, most_, help_)                                                                 \
    {                                                                                                        \
        .section = "training", .name = #name_, .help = help_, .type = TD_KEY_NUMBER,                         \
        .offset = offsetof(aligner, name_), .least = least_, .most = most_                                   \
    }

static const td_model_key keys[] = {
    KEY(COUNT, width, 8, 2048, true, "channels of the net"),
    KEY(COUNT, layers, 1, 32, true, "blocks of the net"),
    KEY(COUNT, kernel, 1, 31, true, "steps that a convolution sees; odd"),
    KEY(COUNT, inside, 8, 8192, true, "channels inside a block"),
    KEY(COUNT, n_mels, 1, 512, true, "bands of a spectrogram; set from the data"),
    KEY(COUNT, n_symbols, 1, 65536, true, "symbols of texts; set from the data"),
    KEY(NUMBER, dropout, 0, 0.9, false, "share of channels that is dropped in training"),
    RUN_KEY(vary_gain, 0, 4,
            "deviation of the loudness that recordings are heard at, in units of the spectrogram"),
    RUN_KEY(vary_bands, 0, 4, "deviation of the loudness of each band"),
    RUN_KEY(vary_noise, 0, 4, "deviation of the level of noise that recordings are heard in"),
};

static void preset(uint32_t size, void *values)
{
    static const struct {
        uint32_t width, layers;
    } SIZES[] = {{64, 3}, {128, 5}, {192, 6}, {256, 8}, {384, 10}, {512, 12}};
    *(aligner *)values = (aligner){.width = SIZES[size].width,
                                   .layers = SIZES[size].layers,
                                   .kernel = 9,
                                   .inside = 2 * SIZES[size].width,
                                   .n_mels = 80,
                                   .n_symbols = 64,
                                   .dropout = 0.1f,
                                   .vary_gain = 0.4f,
                                   .vary_bands = 0.15f,
                                   .vary_noise = 0.6f};
}

static td_status check(const void *values)
{
    const aligner *c = values;
    TD_REFUSE_IF(c->kernel % 2 == 0, TD_ERR_CONFIG, "model.kernel is %u, but must be odd", c->kernel);
    return TD_OK;
}

static void describe(const void *values, td_model_facts *out)
{
    const aligner *c = values;
    out->n_mels = c->n_mels;
    out->n_symbols = c->n_symbols;
    out->frames_per_step = FRAMES_PER_STEP;
    out->reach = FRAMES_PER_STEP * (1 + c->layers * (c->kernel / 2));
}

static void fit(const td_data_facts *facts, const void *old, void *values)
{
    aligner *c = values;
    (void)old;
    c->n_mels = facts->n_mels;
    c->n_symbols = facts->n_symbols;
}

/* ---------------------------------------------------------------- the graph */

/* What training hears is louder or softer, of another colour, and in more noise than the recording: steady noise hides
 * what is softer, and trembles. In units of the spectrogram, in which NATS are one. */
static td_tensor vary(td_graph *g, const aligner *c, td_tensor mel)
{
    const float QUIET = -2.0f, TREMBLE = 0.12f, NATS = 3.0f;
    const td_shape s = td_graph_shape(g, mel);
    const td_tensor gain = td_graph_scale(g, td_graph_noise(g, td_dims(s.dims[0], 1, 1)), c->vary_gain);
    const td_tensor color =
        td_graph_scale(g, td_graph_noise(g, td_dims(s.dims[0], 1, s.dims[2])), c->vary_bands);
    const td_tensor heard = td_graph_add(g, td_graph_add(g, mel, gain), color);
    const td_tensor level = td_graph_scale(g, td_graph_noise(g, td_dims(s.dims[0], 1, 1)), c->vary_noise);
    const td_tensor tremble = td_graph_scale(g, td_graph_noise(g, s), TREMBLE);
    const td_tensor noise = td_graph_shift(g, td_graph_add(g, tremble, level), QUIET);
    const td_tensor above = td_graph_softplus(g, td_graph_scale(g, td_graph_sub(g, heard, noise), NATS));
    return td_graph_add_scaled(g, noise, above, 1 / NATS);
}

static td_tensor add_block(td_nn *nn, const aligner *c, td_tensor x, uint32_t number)
{
    td_graph *g = nn->graph;
    td_nn_push(nn, "block.%u", number);
    const td_tensor taps = td_nn_param(nn, "taps", td_dims(c->kernel, c->width), TD_PARAM_DECAY,
                                       (td_init){.rule = TD_INIT_NORMAL, .scale = 0.3f});
    td_tensor y = td_graph_depthwise(g, x, taps);
    y = td_graph_gelu(g, td_nn_linear(nn, "inside", td_nn_norm(nn, "norm", y), c->inside));
    y = td_nn_dropout(nn, td_nn_linear(nn, "out", y, c->width));
    td_nn_pop(nn);
    return td_graph_add(g, x, y);
}

/* [B, steps, n_symbols] */
static td_tensor classify(td_nn *nn, const td_build *b)
{
    const aligner *c = (const aligner *)&b->config->values;
    const uint32_t items = b->shape.items, frames = b->shape.frames;
    const uint32_t steps = (frames + FRAMES_PER_STEP - 1) / FRAMES_PER_STEP;
    td_graph *g = nn->graph;
    td_tensor x = td_graph_input(g, "mel", td_dims(items, frames, c->n_mels), TD_F32);
    if (b->dropout) x = vary(g, c, x);
    if (steps * FRAMES_PER_STEP != frames) x = td_graph_pad(g, x, 1, 0, steps * FRAMES_PER_STEP - frames, 0);
    x = td_graph_reshape(g, x, td_dims(items, steps, FRAMES_PER_STEP * c->n_mels));
    x = td_nn_conv(nn, "stem", x, 3, c->width);
    for (uint32_t i = 0; i < c->layers; i++)
        x = add_block(nn, c, x, i);
    return td_nn_linear(nn, "symbols", td_nn_norm(nn, "norm", x), c->n_symbols);
}

static td_tensor build(td_nn *nn, const td_build *b)
{
    const aligner *c = (const aligner *)&b->config->values;
    const uint32_t items = b->shape.items;
    td_graph *g = nn->graph;
    nn->dropout = b->dropout ? c->dropout : 0;
    const td_tensor logits = classify(nn, b);
    const td_tensor ids = td_graph_input(g, "token_ids", td_dims(items, b->shape.tokens), TD_U32);
    const td_tensor tokens = td_graph_input(g, "token_counts", td_dims(items), TD_U32);
    const td_tensor frames = td_graph_input(g, "frame_counts", td_dims(items), TD_U32);
    const td_tensor loss =
        td_graph_ctc(g, logits, ids, tokens, td_graph_counts(g, frames, FRAMES_PER_STEP), EDGE);
    if (!b->weighs) return loss;
    return td_graph_mul(g, loss, td_graph_input(g, td_share_name(TD_COUNT_TOKENS), td_dims(1), TD_F32));
}

/* ---------------------------------------------------------------- the table */

static const td_learner_row learners[] = {{.name = "aligner"}};

const td_family td_family_aligner = {
    .name = "aligner",
    .help = "tells which symbol sounds when; for tandem cut",
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .learners = learners,
    .n_learners = 1,
    .preset = preset,
    .check = check,
    .describe = describe,
    .fit = fit,
    .build = build,
    .classify = classify,
};
