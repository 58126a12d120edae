/* Configuration of the acoustic families: presets, what values must agree, what the data decides. See
 * acoustic.h. Covered by tests/model/test_model_config.c. */
#include <string.h>

#include "base/error.h"
#include "families/acoustic.h"

static_assert(sizeof(td_acoustic) <= TD_MODEL_CONFIG_BYTES, "a config has room for it");

enum { ROUND = 32 };

const char *const td_acoustic_order[] = {"text.",    "speaker.table", "audio.", "speaker.", "prior.",
                                         "contour.", "duration.",     "pitch.", "energy.",  "decoder.",
                                         "postnet.", "flow.",         NULL};

const td_part td_acoustic_parts[1] = {{"acoustic", ""}};
const td_learner_row td_acoustic_learners[1] = {{.name = "acoustic"}};

td_acoustic td_acoustic_get(const td_model_config *config)
{
    td_acoustic c;
    memcpy(&c, config->values.bytes, sizeof c);
    return c;
}

void td_acoustic_put(td_model_config *config, const td_acoustic *values)
{
    memcpy(config->values.bytes, values, sizeof *values);
}

/* ---------------------------------------------------------------- checks */

static td_status check_heads(const char *part, uint32_t width, uint32_t heads)
{
    const uint32_t size = heads ? width / heads : 0;
    if (heads == 0) return TD_OK;
    TD_REFUSE_IF(width % heads || (size != 32 && size != 64 && size != 96 && size != 128), TD_ERR_CONFIG,
                 "model.%s_heads is %u for a width of %u, but a head must have 32, 64, 96 or 128 channels",
                 part, heads, width);
    return TD_OK;
}

td_status td_acoustic_check(const td_acoustic *c)
{
    TD_CHECK(check_heads("text", c->text_width, c->text_heads));
    TD_CHECK(check_heads("audio", c->audio_width, c->audio_heads));
    TD_CHECK(check_heads("decoder", c->decoder_width, c->decoder_heads));
    TD_REFUSE_IF(c->kernel % 2 == 0, TD_ERR_CONFIG, "model.kernel is %u, but must be odd", c->kernel);
    TD_REFUSE_IF(c->decoder_kernel % 2 == 0, TD_ERR_CONFIG, "model.decoder_kernel is %u, but must be odd",
                 c->decoder_kernel);
    TD_REFUSE_IF(c->text_width % 2 || c->decoder_width % 2, TD_ERR_CONFIG,
                 "model.text_width and decoder_width must be even, for the positions");
    return TD_OK;
}

td_status td_acoustic_check_shape(const void *values, const td_batch_shape *shape)
{
    td_acoustic c;
    memcpy(&c, values, sizeof c);
    TD_REFUSE_IF(shape->tokens > c.max_tokens, TD_ERR_LIMIT, "%u tokens, but model.max_tokens is %u",
                 shape->tokens, c.max_tokens);
    TD_REFUSE_IF(shape->frames > c.max_frames, TD_ERR_LIMIT, "%u frames, but model.max_frames is %u",
                 shape->frames, c.max_frames);
    return TD_OK;
}

/* ---------------------------------------------------------------- presets */

typedef struct preset {
    uint32_t text[3], audio[3], decoder[3]; /* width, layers, heads */
    uint32_t ff_factor, audio_channels, speaker_width, prenet_width;
    bool rich; /* speaker encoder, pitch, energy, post-net, dropout */
} preset;

static const preset presets[] = {
    /* pico, nano, tiny, small, base, big */
    {{32, 2, 1}, {32, 1, 1}, {32, 2, 1}, 2, 8, 16, 16, false},
    {{128, 3, 0}, {128, 2, 0}, {128, 3, 0}, 3, 32, 128, 128, false},
    {{256, 4, 4}, {256, 4, 4}, {768, 8, 12}, 4, 64, 256, 256, true},
    {{384, 6, 6}, {512, 6, 8}, {1024, 12, 16}, 4, 64, 320, 256, true},
    {{512, 8, 8}, {768, 8, 12}, {1536, 16, 24}, 4, 64, 512, 256, true},
    {{768, 10, 12}, {1024, 10, 16}, {2048, 20, 32}, 4, 64, 640, 256, true},
};

/* nano has heads only where a sequential decoder cannot do without. */
static uint32_t heads_of(const uint32_t part[3], bool sequential)
{
    return part[2] == 0 && sequential ? part[0] / 64 : part[2];
}

static void put_sizes(const preset *p, bool sequential, td_acoustic *out)
{
    out->text_width = p->text[0];
    out->text_layers = p->text[1];
    out->text_heads = heads_of(p->text, sequential);
    out->audio_width = p->audio[0];
    out->audio_layers = p->audio[1];
    out->audio_heads = p->audio[2];
    out->audio_channels = p->audio_channels;
    out->decoder_width = p->decoder[0];
    out->decoder_layers = p->decoder[1];
    out->decoder_heads = heads_of(p->decoder, sequential);
    out->ff_factor = p->ff_factor;
    out->speaker_width = p->speaker_width;
    out->prenet_width = p->prenet_width;
    out->speaker_encoder = out->postnet = p->rich;
    out->pitch_predictor = out->energy_predictor = p->rich && !sequential;
    out->dropout = p->rich ? 0.1f : 0;
}

void td_acoustic_preset(uint32_t size, bool sequential, td_acoustic *out)
{
    *out = (td_acoustic){.n_symbols = 64,
                         .n_mels = 80,
                         .kernel = 3,
                         .decoder_kernel = sequential ? 1 : 3,
                         .reduction = 2,
                         .prenet_dropout = 0.5f,
                         .frame_dropout = 0.2f,
                         .input_noise = 0.1f,
                         .attention_rate = 0.33f,
                         .max_tokens = 512,
                         .max_frames = 2048,
                         .loss_mel = 1,
                         .loss_coarse = 1,
                         .loss_prior = 1,
                         .loss_duration = 1,
                         .loss_pitch = 1,
                         .loss_energy = 1,
                         .loss_contour = 1,
                         .loss_voicing = 0.1f,
                         .loss_flow = 1,
                         .flow_steps = 8,
                         .flow_temperature = 0.3f,
                         .loss_stop = 0.5f,
                         .loss_supervision = 0.3f,
                         .loss_guided = 5,
                         .supervision_start = 300};
    put_sizes(&presets[size], sequential, out);
}

/* ---------------------------------------------------------------- data */

void td_acoustic_describe(const td_acoustic *c, td_model_facts *out)
{
    *out = (td_model_facts){.n_symbols = c->n_symbols,
                            .n_speakers = c->n_speakers,
                            .n_mels = c->n_mels,
                            .max_tokens = c->max_tokens,
                            .max_frames = c->max_frames,
                            .takes_reference = c->speaker_encoder};
}

static uint32_t round_up(uint32_t n)
{
    return (n + ROUND - 1) / ROUND * ROUND;
}

void td_acoustic_fit(const td_data_facts *facts, td_acoustic *c)
{
    c->n_symbols = facts->n_symbols;
    c->n_mels = facts->n_mels;
    if (c->n_speakers == 0 && !c->speaker_encoder && facts->n_speakers > 1) c->n_speakers = facts->n_speakers;
    if (facts->max_tokens > 0) c->max_tokens = round_up(facts->max_tokens);
    if (facts->max_frames > 0) c->max_frames = round_up(facts->max_frames);
}
