/* See xtts_config.h. */
#include "families/xtts/xtts_config.h"

#include <string.h>

#include "base/error.h"
#include "families/xtts/tune_vocoder.h"
#include "text/lang.h"

#define ROW(type_, key_, least_, most_, is_shape_, help_)                                                    \
    TD_MODEL_KEY(td_xtts, type_, key_, least_, most_, is_shape_, help_),

/* Voices that were not trained here lack them. */
#define TRAIN_ROW(type_, key_, least_, most_, is_shape_, choices_, help_)                                    \
    {                                                                                                        \
        .section = "xtts", .name = #key_, .help = help_, .type = TD_KEY_##type_,                             \
        .offset = offsetof(td_xtts, key_), .least = least_, .most = most_, .is_shape = is_shape_,            \
        .may_lack = true, .choices = choices_                                                                \
    }

const td_model_key td_xtts_keys[TD_XTTS_KEY_COUNT] = {
    TD_XTTS_KEYS(ROW)
        TRAIN_ROW(CHOICE, tune, 0, 0, true, "full|lora|vocoder",
                  "What is trained: full: all of the GPT; lora: low-rank adapters beside its matrices; "
                  "vocoder: what makes sound of the GPT's latents"),
    TRAIN_ROW(COUNT, lora_rank, 1, 1024, true, NULL, "Channels of an adapter"),
    TRAIN_ROW(NUMBER, lora_alpha, 0.001, 65536, true, NULL,
              "What an adapter adds is multiplied by this, divided by lora_rank"),
    TRAIN_ROW(SET, lora_targets, 0, 0, true, "c_attn|c_proj|c_fc", "Matrices of a block that have adapters"),
    TRAIN_ROW(NUMBER, text_loss_weight, 0, 100, false, NULL,
              "Of the loss of the text, where that of the codes counts 1"),
    TRAIN_ROW(
        CHOICE, prompt_masking, 0, 0, false, "coqui|all|none",
        "Codes that the conditioning has heard are not learnt: coqui: as Coqui's trainer counts them; all: "
        "exactly those; none: all are learnt"),
    TRAIN_ROW(NUMBER, dropout, 0, 0.9, false, NULL, "Share of elements that training drops"),
    TRAIN_ROW(COUNT, crop, TD_XTTS_LEAST_CROP, 4096, false, NULL,
              "Frames of the vocoder, of 10.7 ms, in each crop that it learns from"),
    TRAIN_ROW(FLAG, discriminators, 0, 1, true, NULL,
              "The vocoder learns against discriminators, which tell made sound from recorded"),
    TRAIN_ROW(COUNT, discriminator_width, 1, 1024, true, NULL,
              "Channels of the discriminators' first layers"),
    TRAIN_ROW(COUNT, adversarial_start, 0, 1e9, false, NULL, "Update from which discriminators count"),
    TRAIN_ROW(NUMBER, loss_spectral, 0, 100, false, NULL, "Weight of the spectra at three resolutions"),
    TRAIN_ROW(NUMBER, loss_mel, 0, 100, false, NULL, "Weight of the spectrogram's error"),
    TRAIN_ROW(NUMBER, loss_adversarial, 0, 100, false, NULL, "Weight of what discriminators answer"),
    TRAIN_ROW(NUMBER, loss_features, 0, 100, false, NULL, "Weight of the distance inside discriminators"),
};

td_xtts td_xtts_get(const td_model_config *config)
{
    td_xtts values;
    memcpy(&values, &config->values, sizeof values);
    return values;
}

void td_xtts_put(td_model_config *config, const td_xtts *values)
{
    memcpy(&config->values, values, sizeof *values);
}

/* ---------------------------------------------------------------- presets */

typedef struct size_row {
    uint32_t layers, width, heads, decoder, filters, blocks[4], dvae;
} size_row;

/* Base is the published model; the others have its proportions. */
static const size_row SIZES[] = {
    {2, 64, 2, 32, 8, {1, 1, 1, 1}, 16},        {4, 128, 2, 64, 8, {1, 1, 1, 1}, 32},
    {8, 256, 4, 128, 16, {1, 2, 2, 1}, 64},     {16, 512, 8, 256, 16, {2, 2, 3, 2}, 128},
    {30, 1024, 16, 512, 32, {3, 4, 6, 3}, 512}, {36, 1280, 20, 512, 32, {3, 4, 6, 3}, 512},
};

static const td_xtts PUBLISHED = {
    .gpt_number_text_tokens = 6681,
    .gpt_start_text_token = 261,
    .gpt_stop_text_token = 0,
    .gpt_num_audio_tokens = 1026,
    .gpt_start_audio_token = 1024,
    .gpt_stop_audio_token = 1025,
    .gpt_max_audio_tokens = 605,
    .gpt_max_text_tokens = 402,
    .gpt_max_prompt_tokens = 70,
    .gpt_code_stride_len = 1024,
    .gpt_use_masking_gt_prompt_approach = true,
    .input_sample_rate = 22050,
    .output_sample_rate = 24000,
    .output_hop_length = 256,
    .d_vector_dim = 512,
    .temperature = 0.75F,
    .length_penalty = 1,
    .repetition_penalty = 5,
    .top_k = 50,
    .top_p = 0.85F,
    .gpt_cond_len = 30,
    .gpt_cond_chunk_len = 4,
    .max_ref_len = 30,
    .n_mels = 80,
    .conditioning_blocks = 6,
    .perceiver_layers = 2,
    .perceiver_latents = 32,
    .perceiver_heads = 8,
    .speaker_mels = 64,
    .dvae_blocks = 3,
    .tune = TD_XTTS_FULL,
    .lora_rank = 16,
    .lora_alpha = 32,
    .lora_targets = TD_XTTS_LORA_ALL,
    .text_loss_weight = 0.01F,
    .prompt_masking = TD_XTTS_MASK_COQUI,
    .dropout = 0.1F,
    .crop = 32,
    .discriminators = true,
    .discriminator_width = 32,
    .loss_spectral = 1,
    .loss_mel = 1,
    .loss_adversarial = 0.2F,
    .loss_features = 0.5F,
};

void td_xtts_preset(uint32_t size, void *values)
{
    const size_row *row = &SIZES[size];
    td_xtts c = PUBLISHED;
    c.gpt_layers = row->layers;
    c.gpt_n_model_channels = c.decoder_input_dim = row->width;
    c.gpt_n_heads = row->heads;
    c.decoder_channels = row->decoder;
    c.speaker_filters_1 = row->filters;
    c.speaker_filters_2 = 2 * row->filters;
    c.speaker_filters_3 = 4 * row->filters;
    c.speaker_filters_4 = 8 * row->filters;
    c.speaker_blocks_1 = row->blocks[0];
    c.speaker_blocks_2 = row->blocks[1];
    c.speaker_blocks_3 = row->blocks[2];
    c.speaker_blocks_4 = row->blocks[3];
    c.dvae_hidden = c.dvae_codebook_dim = row->dvae;
    c.discriminator_width = size < 4 ? 8 : 32;
    memcpy(values, &c, sizeof c);
}

/* ---------------------------------------------------------------- what must agree */

static td_status check_tokens(const td_xtts *c)
{
    TD_REFUSE_IF(c->gpt_start_text_token >= c->gpt_number_text_tokens ||
                     c->gpt_stop_text_token >= c->gpt_number_text_tokens,
                 TD_ERR_CONFIG,
                 "model.gpt_start_text_token is %u and model.gpt_stop_text_token %u, but there are "
                 "model.gpt_number_text_tokens = %u; this family reads byte pairs: begin with a voice "
                 "(training.init_from), or name a vocab.json (data.tokenizer)",
                 c->gpt_start_text_token, c->gpt_stop_text_token, c->gpt_number_text_tokens);
    TD_REFUSE_IF(
        c->gpt_start_audio_token >= c->gpt_num_audio_tokens ||
            c->gpt_stop_audio_token >= c->gpt_num_audio_tokens ||
            c->gpt_start_audio_token == c->gpt_stop_audio_token,
        TD_ERR_CONFIG,
        "model.gpt_start_audio_token is %u and model.gpt_stop_audio_token %u; they must be two of the "
        "model.gpt_num_audio_tokens = %u",
        c->gpt_start_audio_token, c->gpt_stop_audio_token, c->gpt_num_audio_tokens);
    return TD_OK;
}

td_status td_xtts_check(const void *values)
{
    const td_xtts *c = values;
    const uint32_t filters[] = {c->speaker_filters_1, c->speaker_filters_2, c->speaker_filters_3,
                                c->speaker_filters_4};
    TD_REFUSE_IF(c->gpt_n_model_channels % c->gpt_n_heads != 0, TD_ERR_CONFIG,
                 "model.gpt_n_model_channels is %u, which model.gpt_n_heads = %u does not divide",
                 c->gpt_n_model_channels, c->gpt_n_heads);
    TD_REFUSE_IF(c->decoder_input_dim != c->gpt_n_model_channels, TD_ERR_CONFIG,
                 "model.decoder_input_dim is %u, but the vocoder takes what the GPT makes: "
                 "model.gpt_n_model_channels is %u",
                 c->decoder_input_dim, c->gpt_n_model_channels);
    TD_REFUSE_IF(
        c->output_hop_length != 256, TD_ERR_CONFIG,
        "model.output_hop_length is %u, but the vocoder's stages make 8 x 8 x 2 x 2 = 256 samples of a "
        "frame",
        c->output_hop_length);
    TD_REFUSE_IF(c->decoder_channels % 16 != 0, TD_ERR_CONFIG,
                 "model.decoder_channels is %u, but must be a multiple of 16, since four stages halve it",
                 c->decoder_channels);
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        TD_REFUSE_IF(filters[i] % TD_XTTS_SPEAKER_SQUEEZE != 0, TD_ERR_CONFIG,
                     "model.speaker_filters_%zu is %u, but must be a multiple of %d", i + 1, filters[i],
                     TD_XTTS_SPEAKER_SQUEEZE);
    TD_REFUSE_IF(c->speaker_mels % 8 != 0, TD_ERR_CONFIG,
                 "model.speaker_mels is %u, but must be a multiple of 8, since three layers halve it",
                 c->speaker_mels);
    return check_tokens(c);
}

/* ---------------------------------------------------------------- others */

/* Characters of a text that the package warns of, or splits at: about as much as the model speaks in one breath. */
static const uint16_t PIECE_CHARACTERS[TD_LANG_COUNT] = {
    [TD_LANG_EN] = 250,         [TD_LANG_ES] = 239, [TD_LANG_FR] = 273, [TD_LANG_DE] = 253,
    [TD_LANG_IT] = 213,         [TD_LANG_PT] = 203, [TD_LANG_PL] = 224, [TD_LANG_TR] = 226,
    [TD_LANG_RU] = 182,         [TD_LANG_NL] = 251, [TD_LANG_CS] = 186, [TD_LANG_AR] = 166,
    [TD_LANG_ZH] = 82,          [TD_LANG_HU] = 224, [TD_LANG_KO] = 95,  [TD_LANG_JA] = 71,
    [TD_LANG_HI] = 150,
#define FURTHER(name, code) [TD_LANG_##name] = 200, /* nobody has measured it */
    TD_LANG_PLAIN_LIST(FURTHER)
#undef FURTHER
};

void td_xtts_describe(const void *values, td_model_facts *out)
{
    const td_xtts *c = values;
    out->n_symbols = c->gpt_number_text_tokens;
    out->n_mels = c->n_mels;
    out->max_tokens = c->gpt_max_text_tokens - 1; /* the package takes fewer than that, too */
    out->max_frames = c->gpt_max_audio_tokens * (c->gpt_code_stride_len / c->output_hop_length);
    out->takes_reference = true;
    out->slice = (td_slice){.least = 3 * c->input_sample_rate, .most = 6 * c->input_sample_rate};
    out->sets_speed = true;
    out->is_romanized = true;
    out->piece_characters = PIECE_CHARACTERS;
}

void td_xtts_fit(const td_data_facts *facts, const void *old, void *values)
{
    td_xtts *c = values;
    (void)old;
    c->gpt_number_text_tokens = facts->n_symbols;
    c->n_mels = facts->n_mels;
}

static td_mel_config make_mel(const void *values, uint32_t n_fft)
{
    const td_xtts *c = values;
    td_mel_config mel = td_mel_config_torch();
    mel.rate = c->input_sample_rate;
    mel.n_fft = n_fft;
    mel.n_mels = c->n_mels;
    return mel;
}

td_mel_config td_xtts_conditioning_mel(const void *values)
{
    return make_mel(values, 2048);
}

td_mel_config td_xtts_dvae_mel(const void *values)
{
    return make_mel(values, 1024);
}
