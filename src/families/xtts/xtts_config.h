/* What an XTTS-v2 model is configured with. Keys that Coqui's config.json has are called as there (its
 * `model_args`, the others at its top); what their code has as constants, or tells by shapes alone, has keys of
 * its own. Tensors have the names of Coqui's current code in voices: NAME.parametrizations.weight.original0 and 1 are
 * g and v of weight norm. Covered by tests/families/test_families.c and tests/families/test_xtts_import.c.
 */
#ifndef TD_FAMILIES_XTTS_CONFIG_H
#define TD_FAMILIES_XTTS_CONFIG_H

#include "families/family.h"

/* X(type, key, least, most, is_shape, help), in the order of files.
 *
 * model_args of config.json */
#define TD_XTTS_ARG_KEYS(X)                                                                                  \
    X(COUNT, gpt_layers, 1, 256, 1, "blocks of the GPT")                                                     \
    X(COUNT, gpt_n_model_channels, 8, 16384, 1, "channels of the GPT and its conditioning")                  \
    X(COUNT, gpt_n_heads, 1, 256, 1, "attention heads of the GPT and its conditioning")                      \
    X(COUNT, gpt_number_text_tokens, 4, 1048576, 1, "rows of the table of text tokens")                      \
    X(COUNT, gpt_start_text_token, 0, 1048575, 0, "text token that begins a text")                           \
    X(COUNT, gpt_stop_text_token, 0, 1048575, 0, "text token that ends a text")                              \
    X(COUNT, gpt_num_audio_tokens, 4, 1048576, 1, "rows of the table of audio codes: start and stop too")    \
    X(COUNT, gpt_start_audio_token, 0, 1048575, 0, "audio code that begins speech")                          \
    X(COUNT, gpt_stop_audio_token, 0, 1048575, 0, "audio code that ends speech")                             \
    X(COUNT, gpt_max_audio_tokens, 4, 65536, 1, "longest speech, in audio codes")                            \
    X(COUNT, gpt_max_text_tokens, 2, 65536, 1, "longest text, in tokens")                                    \
    X(COUNT, gpt_max_prompt_tokens, 0, 65536, 0, "longest prompt")                                           \
    X(COUNT, gpt_code_stride_len, 1, 65536, 0, "samples of input that a code stands for")                    \
    X(FLAG, gpt_use_masking_gt_prompt_approach, 0, 1, 0, "training hides the loss of the prompt's codes")    \
    X(COUNT, input_sample_rate, 1000, 384000, 0, "Hz of what the GPT hears")                                 \
    X(COUNT, output_sample_rate, 1000, 384000, 0, "Hz of what is spoken")                                    \
    X(COUNT, output_hop_length, 1, 65536, 0, "samples that the vocoder makes of a frame")                    \
    X(COUNT, decoder_input_dim, 1, 16384, 1, "channels that the vocoder takes: those of the GPT")            \
    X(COUNT, d_vector_dim, 1, 16384, 1, "elements of a speaker embedding")

/* The top of config.json: how it speaks unless asked otherwise. */
#define TD_XTTS_SPEAK_KEYS(X)                                                                                \
    X(NUMBER, temperature, 0.001, 100, 0, "of sampling: lower is steadier")                                  \
    X(NUMBER, length_penalty, -100, 100, 0,                                                                  \
      "kept for the file's sake: acts on beams, of which there are none")                                    \
    X(NUMBER, repetition_penalty, 0.01, 100, 0, "of codes that were spoken already")                         \
    X(COUNT, top_k, 0, 1048576, 0, "likeliest codes to draw from; 0: all")                                   \
    X(NUMBER, top_p, 0.001, 1, 0, "share of the probability to draw from")                                   \
    X(NUMBER, gpt_cond_len, 0, 3600, 0, "seconds of references that are heard; 0: all")                      \
    X(NUMBER, gpt_cond_chunk_len, 0.33, 3600, 0, "seconds of a piece of references")                         \
    X(NUMBER, max_ref_len, 0.33, 3600, 0, "seconds that are taken of each reference")                        \
    X(FLAG, sound_norm_refs, 0, 1, 0, "references are scaled to a peak of 0.75")

/* What the shapes of tensors tell. */
#define TD_XTTS_SHAPE_KEYS(X)                                                                                \
    X(COUNT, n_mels, 1, 512, 1, "bands of the spectrograms of the GPT and the DVAE")                         \
    X(COUNT, conditioning_blocks, 1, 64, 1, "attention blocks of the conditioning encoder")                  \
    X(COUNT, perceiver_layers, 1, 64, 1, "layers of the perceiver")                                          \
    X(COUNT, perceiver_latents, 1, 4096, 1, "latents that tell the speaker to the GPT")                      \
    X(COUNT, perceiver_heads, 1, 256, 1, "attention heads of the perceiver, of 64 channels each")            \
    X(COUNT, decoder_channels, 16, 16384, 1,                                                                 \
      "channels of the vocoder's first layer; each stage halves them")                                       \
    X(COUNT, speaker_mels, 8, 512, 1, "bands of the speaker encoder's spectrogram")                          \
    X(COUNT, speaker_filters_1, 8, 4096, 1, "channels of the speaker encoder's first layer")                 \
    X(COUNT, speaker_filters_2, 8, 4096, 1, "channels of its second layer")                                  \
    X(COUNT, speaker_filters_3, 8, 4096, 1, "channels of its third layer")                                   \
    X(COUNT, speaker_filters_4, 8, 4096, 1, "channels of its fourth layer")                                  \
    X(COUNT, speaker_blocks_1, 1, 64, 1, "blocks of the speaker encoder's first layer")                      \
    X(COUNT, speaker_blocks_2, 1, 64, 1, "blocks of its second layer")                                       \
    X(COUNT, speaker_blocks_3, 1, 64, 1, "blocks of its third layer")                                        \
    X(COUNT, speaker_blocks_4, 1, 64, 1, "blocks of its fourth layer")                                       \
    X(COUNT, dvae_hidden, 0, 4096, 1, "channels of the DVAE's first layer; 0: there is no DVAE")             \
    X(COUNT, dvae_codebook_dim, 1, 16384, 1, "channels of a code of the DVAE")                               \
    X(COUNT, dvae_blocks, 1, 64, 1, "residual blocks of the DVAE, in its encoder and its decoder")

#define TD_XTTS_KEYS(X) TD_XTTS_ARG_KEYS(X) TD_XTTS_SPEAK_KEYS(X) TD_XTTS_SHAPE_KEYS(X)

#define TD_XTTS_TYPE_COUNT uint32_t
#define TD_XTTS_TYPE_NUMBER float
#define TD_XTTS_TYPE_FLAG bool

enum { TD_XTTS_FULL, TD_XTTS_LORA, TD_XTTS_VOCODER };             /* tune */
enum { TD_XTTS_MASK_COQUI, TD_XTTS_MASK_ALL, TD_XTTS_MASK_NONE }; /* prompt_masking */
enum {
    TD_XTTS_LORA_ATTN = 1,
    TD_XTTS_LORA_PROJ = 2,
    TD_XTTS_LORA_FC = 4,
    TD_XTTS_LORA_ALL = 7
}; /* lora_targets */

typedef struct td_xtts {
#define TD_XTTS_FIELD(type, key, least, most, is_shape, help) TD_XTTS_TYPE_##type key;
    TD_XTTS_KEYS(TD_XTTS_FIELD)
#undef TD_XTTS_FIELD
    /* Section [xtts]: how the GPT is trained, */
    uint32_t tune, lora_rank, lora_targets, prompt_masking;
    float lora_alpha, text_loss_weight, dropout;
    /* and the vocoder. */
    uint32_t crop, discriminator_width, adversarial_start;
    float loss_spectral, loss_mel, loss_adversarial, loss_features;
    bool discriminators;
} td_xtts;

_Static_assert(sizeof(td_xtts) <= TD_MODEL_CONFIG_BYTES, "a family's struct has at most that many bytes");

/* Constants of the architecture, which no file tells. */
enum {
    TD_XTTS_PERCEIVER_HEAD = 64,     /* channels of a head of the perceiver */
    TD_XTTS_SPEAKER_RATE = 16000,    /* Hz of what the speaker encoder hears */
    TD_XTTS_SPEAKER_FFT = 512,       /* of its spectrogram */
    TD_XTTS_SPEAKER_WINDOW = 400,    /* samples of it that are looked at */
    TD_XTTS_SPEAKER_ATTENTION = 128, /* channels inside the speaker encoder's pooling */
    TD_XTTS_SPEAKER_SQUEEZE = 8,     /* channels to each of a squeeze-and-excitation layer's inside */
    TD_XTTS_DECODER_STAGES = 4,      /* of the vocoder: strides 8, 8, 2, 2, taps 16, 16, 4, 4 */
    TD_XTTS_DECODER_RESBLOCKS = 3,   /* of a stage: taps 3, 7, 11, each with dilations 1, 3, 5 */
    TD_XTTS_FRAMES_PER_CODE = 4,     /* of the DVAE's spectrogram */
};

/* Positions that have an embedding: those of a text with its start and stop, and of codes with theirs. */
static inline uint32_t td_xtts_text_positions(const td_xtts *c)
{
    return c->gpt_max_text_tokens + 2;
}

static inline uint32_t td_xtts_audio_positions(const td_xtts *c)
{
    return c->gpt_max_audio_tokens + 3;
}

/* Channels inside a feed-forward part of the perceiver; the layer before has twice as many, half of them gates. */
static inline uint32_t td_xtts_perceiver_inside(const td_xtts *c)
{
    return (uint32_t)((uint64_t)c->gpt_n_model_channels * 8 / 3);
}

/* Codes that the DVAE has: without start and stop. */
static inline uint32_t td_xtts_codes(const td_xtts *c)
{
    return c->gpt_num_audio_tokens - 2;
}

/* Codes that the DVAE makes of so many frames. */
static inline uint32_t td_xtts_count_codes(uint32_t frames)
{
    return (frames + TD_XTTS_FRAMES_PER_CODE - 1) / TD_XTTS_FRAMES_PER_CODE;
}

/* A copy of a config's values, and back. */
td_xtts td_xtts_get(const td_model_config *config);
void td_xtts_put(td_model_config *config, const td_xtts *values);

/* Rows of the family's table. */
#define TD_XTTS_ONE(...) +1
enum { TD_XTTS_TRAIN_KEYS = 15, TD_XTTS_KEY_COUNT = TD_XTTS_TRAIN_KEYS TD_XTTS_KEYS(TD_XTTS_ONE) };
#undef TD_XTTS_ONE
extern const td_model_key td_xtts_keys[TD_XTTS_KEY_COUNT];
void td_xtts_preset(uint32_t size, void *values); /* 4, base: XTTS-v2 as it was published */
td_status td_xtts_check(const void *values);
void td_xtts_describe(const void *values, td_model_facts *out);
void td_xtts_fit(const td_data_facts *facts, const void *old, void *values);

/* Front ends. Both are divided by mel_stats, band by band, in the model. */
td_mel_config td_xtts_conditioning_mel(const void *values); /* what the conditioning encoder hears: "mel" */
td_mel_config td_xtts_dvae_mel(const void *values);         /* what the DVAE makes codes of: "dvae_mel" */

#endif
