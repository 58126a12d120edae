/* The family of discrete autoencoders (nn/dvae.h): it learns to say a spectrogram in codes, a few bits for each 46 ms. It
 * does not speak; what is trained on its codes begins with training.init_from = a checkpoint of it, whose tensors have the
 * names that imported voices have. docs/xtts.md. Covered by tests/families/test_dvae.c. */
#include <stddef.h>

#include "families/family.h"
#include "nn/dvae.h"

/* What spectrograms are divided by where nobody has measured anything better: it brings logarithms near 1. */
#define MEL_STATS 4.0f

/* ---------------------------------------------------------------- configuration */

typedef struct dvae_values {
    uint32_t hidden, blocks, codebook_dim, codes, n_mels;
    float commitment, codebook_rate, codebook_least;
} dvae_values;

#define KEY(type_, name_, least_, most_, help_)                                                              \
    TD_MODEL_KEY(dvae_values, type_, name_, least_, most_, true, help_)
#define RUN_KEY(name_, least_, most_, help_)                                                                 \
    {                                                                                                        \
        .section = "training", .name = #name_, .help = help_, .type = TD_KEY_NUMBER,                         \
        .offset = offsetof(dvae_values, name_), .least = least_, .most = most_                               \
    }

static const td_model_key keys[] = {
    KEY(COUNT, hidden, 1, 4096, "channels of the first layer; the others have twice as many"),
    KEY(COUNT, blocks, 1, 64, "residual blocks, in the encoder and in the decoder"),
    KEY(COUNT, codebook_dim, 1, 16384, "channels of a code's vector"),
    KEY(COUNT, codes, 2, 1048576, "codes there are"),
    KEY(COUNT, n_mels, 1, 512, "bands of a spectrogram; set from the data"),
    RUN_KEY(commitment, 0, 100, "weight of the distance from what is encoded to its code's vector"),
    RUN_KEY(codebook_rate, 1e-6, 1,
            "how far a code's vector moves, in a step, to the mean of what it stood for"),
    RUN_KEY(codebook_least, 0, 100,
            "a code that stands for fewer frames of a batch begins anew; 0: none does"),
};

static void preset(uint32_t size, void *values)
{
    static const uint32_t HIDDEN[] = {16, 32, 64, 128, 512, 512};
    *(dvae_values *)values = (dvae_values){.hidden = HIDDEN[size],
                                           .blocks = 3,
                                           .codebook_dim = HIDDEN[size],
                                           .codes = 1024,
                                           .n_mels = 80,
                                           .commitment = 0.25f,
                                           .codebook_rate = 0.01f,
                                           .codebook_least = 0.01f};
}

static void describe(const void *values, td_model_facts *out)
{
    out->n_mels = ((const dvae_values *)values)->n_mels;
}

static void fit(const td_data_facts *facts, const void *old, void *values)
{
    (void)old;
    ((dvae_values *)values)->n_mels = facts->n_mels;
}

static td_mel_config configure(const void *values)
{
    td_mel_config mel = td_mel_config_torch();
    mel.n_mels = ((const dvae_values *)values)->n_mels;
    return mel;
}

/* ---------------------------------------------------------------- graph */

static td_status make_stats(const uint32_t words[TD_INIT_WORDS], td_shape shape, float *values)
{
    (void)words;
    for (size_t i = 0; i < td_shape_size(shape); i++)
        values[i] = MEL_STATS;
    return TD_OK;
}

/* What was encoded, as its codes say it; gradients pass as if it were unchanged. *commitment: how far the two are apart.
 * In training the codebook follows. */
static td_tensor quantise(td_nn *nn, const dvae_values *c, const td_dvae *d, td_tensor z, td_tensor rest,
                          bool learns, td_tensor *commitment)
{
    td_graph *g = nn->graph;
    const td_tensor codes = td_nn_dvae_search(nn, d, z, rest);
    const td_tensor vectors = td_nn_dvae_look_up(nn, d, codes);
    *commitment = td_graph_loss(g, TD_LOSS_MSE, z, vectors, rest, 0);
    td_nn_dvae_move(nn, d, z, codes, rest,
                    (td_dvae_pace){.rate = learns ? c->codebook_rate : 0, .least = c->codebook_least});
    return td_graph_add(g, z, td_graph_stop_gradient(g, td_graph_sub(g, vectors, z)));
}

static td_tensor build(td_nn *nn, const td_build *b)
{
    const dvae_values *c = (const dvae_values *)&b->config->values;
    const td_dvae d = {.bands = c->n_mels,
                       .hidden = c->hidden,
                       .blocks = c->blocks,
                       .dim = c->codebook_dim,
                       .codes = c->codes};
    const uint32_t items = b->shape.items, frames = b->shape.frames;
    td_graph *g = nn->graph;
    td_tensor rest, commitment;
    const td_tensor mel = td_graph_input(g, "mel", td_dims(items, frames, c->n_mels), TD_F32);
    const td_tensor counts = td_graph_input(g, "frame_counts", td_dims(items), TD_U32);
    const td_tensor stats = td_nn_param(nn, "mel_stats", td_dims(c->n_mels), TD_PARAM_NO_DECAY,
                                        (td_init){.rule = TD_INIT_MADE, .make = make_stats});
    const td_tensor heard = td_graph_div(g, mel, stats);
    td_nn_push(nn, "dvae");
    const td_tensor z = td_nn_dvae_encode(nn, &d, heard, counts, &rest);
    const td_tensor said = quantise(nn, c, &d, z, rest, b->backward, &commitment);
    const td_tensor made = td_graph_slice(g, td_nn_dvae_decode(nn, &d, said, rest), 1, 0, frames);
    td_nn_pop(nn);
    const td_tensor error = td_graph_loss(g, TD_LOSS_MSE, made, heard, counts, 0);
    td_graph_output(g, error, "loss.reconstruction");
    td_graph_output(g, commitment, "loss.commitment");
    td_graph_output(g, td_graph_mul(g, made, stats), "predicted_mel");
    return td_graph_total(g, (const td_tensor[]){error, commitment}, (const float[]){1, c->commitment}, 2);
}

/* ---------------------------------------------------------------- the table */

static const char *const trained[] = {"dvae.", NULL};
static const td_learner_row learners[] = {{.name = "dvae", .prefixes = trained}};

const td_family td_family_dvae = {
    .name = "dvae",
    .help = "spectrograms in codes, as a GPT over audio codes learns from; does not speak",
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .learners = learners,
    .n_learners = 1,
    .mel = configure,
    .preset = preset,
    .describe = describe,
    .fit = fit,
    .build = build,
};
