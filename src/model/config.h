/* What a model is: sizes and choices, one table of keys for INI files ([model]), checkpoint metadata and
 * comparison, and the presets. Knows nothing of graphs. Covered by tests/model/test_model_config.c.
 */
#ifndef TD_MODEL_CONFIG_H
#define TD_MODEL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tandem/status.h"

typedef enum td_strategy { TD_NON_AUTOREGRESSIVE, TD_AUTOREGRESSIVE, TD_STRATEGIES } td_strategy;

/* X(type, key, least, most, is_shape, help). type: count (uint32_t), number (float), flag (bool), strategy.
 * is_shape: another value means other parameters, so a checkpoint does not fit. */
#define TD_MODEL_KEYS(X)                                                                                     \
    X(strategy, decoder_strategy, 0, 1, 1, "how the decoder makes a spectrogram")                            \
    X(count, n_symbols, 5, 1000000, 1, "rows of the symbol table; set from the data")                        \
    X(count, n_speakers, 0, 100000, 1, "rows of the speaker table; 0: none")                                 \
    X(count, n_mels, 1, 512, 1, "bands of a spectrogram; set from the front end")                            \
    X(count, text_width, 8, 8192, 1, "channels of the text encoder")                                         \
    X(count, text_layers, 1, 64, 1, "blocks of the text encoder")                                            \
    X(count, text_heads, 0, 64, 1, "self-attention heads of the text encoder; 0: none")                      \
    X(count, audio_width, 8, 8192, 1, "channels of the audio encoder")                                       \
    X(count, audio_layers, 1, 64, 1, "blocks of the audio encoder")                                          \
    X(count, audio_heads, 0, 64, 1, "self-attention heads of the audio encoder; 0: none")                    \
    X(count, audio_channels, 1, 1024, 1, "channels of its first convolution; the others have 2 and 4 times") \
    X(count, decoder_width, 8, 8192, 1, "channels of the decoder")                                           \
    X(count, decoder_layers, 1, 64, 1, "blocks of the decoder")                                              \
    X(count, decoder_heads, 0, 64, 1, "self-attention heads of the decoder; 0: none")                        \
    X(count, ff_factor, 1, 16, 1, "channels inside a feed-forward part, in widths")                          \
    X(count, kernel, 1, 31, 1, "taps of the first convolution of a feed-forward part, odd")                  \
    X(count, decoder_kernel, 1, 31, 1, "the same in the decoder; autoregressive: 1")                         \
    X(flag, speaker_encoder, 0, 1, 1, "speaker embedding from a reference recording")                        \
    X(count, speaker_width, 1, 4096, 1, "elements of a speaker embedding")                                   \
    X(flag, pitch_predictor, 0, 1, 1, "predict pitch per token (non-autoregressive)")                        \
    X(flag, energy_predictor, 0, 1, 1, "predict energy per token (non-autoregressive)")                      \
    X(count, reduction, 1, 8, 1, "frames per step of the autoregressive decoder")                            \
    X(count, prenet_width, 1, 4096, 1, "channels of the autoregressive decoder's pre-net")                   \
    X(flag, postnet, 0, 1, 1, "convolutions over the autoregressive decoder's frames")                       \
    X(number, dropout, 0, 0.9, 0, "share of elements dropped in blocks while training")                      \
    X(number, prenet_dropout, 0, 0.9, 0, "share dropped in the pre-net, in synthesis too")                   \
    X(number, frame_dropout, 0, 0.9, 0, "share of previous frames hidden while training")                    \
    X(number, input_noise, 0, 1, 0, "size of noise on previous frames while training")                       \
    X(number, attention_rate, 0, 100, 0, "tokens per autoregressive step; set from the data")                \
    X(count, max_tokens, 1, 65536, 0, "longest text")                                                        \
    X(count, max_frames, 1, 1000000, 0, "longest spectrogram")

#define TD_MODEL_TYPE_count uint32_t
#define TD_MODEL_TYPE_number float
#define TD_MODEL_TYPE_flag bool
#define TD_MODEL_TYPE_strategy td_strategy

typedef struct td_model_config {
#define TD_MODEL_FIELD(type, key, least, most, is_shape, help) TD_MODEL_TYPE_##type key;
    TD_MODEL_KEYS(TD_MODEL_FIELD)
#undef TD_MODEL_FIELD
} td_model_config;

enum { TD_MODEL_VALUE_BYTES = 32 };

/* "pico|nano|tiny|small|base|big" ("normal" is base). TD_ERR_CONFIG names the presets. The strategy chooses
 * what differs between the two. n_symbols, n_mels, max_* are set to usual values; the caller overrides. */
td_status td_model_preset(const char *name, td_strategy strategy, td_model_config *out);

/* TD_ERR_CONFIG with the key, its value and what it can be. */
td_status td_model_config_check(const td_model_config *config);

/* The keys in order: "decoder_strategy" ... */
size_t td_model_key_count(void);
const char *td_model_key_name(size_t i);
const char *td_model_key_help(size_t i);

/* One value as text, such that it reads back the same: "128", "0.1", "true", "autoregressive". */
void td_model_config_get(const td_model_config *config, size_t key, char out[TD_MODEL_VALUE_BYTES]);

/* TD_ERR_CONFIG for an unknown key (with the nearest) or a value that cannot be. */
td_status td_model_config_put(td_model_config *config, const char *key, const char *value);

/* The first key that is not the same in both and changes parameters; td_model_key_count() if there is none.
 */
size_t td_model_config_differ(const td_model_config *a, const td_model_config *b);

#endif
