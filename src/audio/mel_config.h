/* The one front end of training, synthesis and vocoding: what a mel spectrogram is. Serialised as text, since
 * it is part of a checkpoint. Covered by tests/audio/test_mel_config.c.
 */
#ifndef TD_AUDIO_MEL_CONFIG_H
#define TD_AUDIO_MEL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tandem/status.h"

typedef enum td_mel_scale { TD_MEL_SLANEY, TD_MEL_HTK } td_mel_scale;

/* y = (ln(max(filterbank * |X|, floor)) - mean) / scale. Frames are centred at multiples of the hop, the
 * signal mirrored at its ends, the Hann window periodic and in the middle of n_fft. */
typedef struct td_mel_config {
    uint32_t rate;  /* samples per second */
    uint32_t n_fft; /* 512, 1024 or 2048 */
    uint32_t hop_samples, win_samples;
    uint32_t n_mels;
    float fmin_hz, fmax_hz;
    td_mel_scale mel_scale;
    bool area_norm; /* each triangle has area 1 over Hz, else peak 1 */
    bool power;     /* of |X|^2 instead of |X| */
    float floor;
    float mean, scale;
    float pitch_min_hz, pitch_max_hz; /* where the pitch track looks */
} td_mel_config;

/* 22050 Hz, 1024, hop 256, 80 Slaney bands of area 1 to 8000 Hz, magnitude, floor 1e-5, (y + 5.6) / 3. */
td_mel_config td_mel_config_default(void);

/* As torchaudio makes them for XTTS: the same sizes, HTK bands of area 1, power, plain logarithms. */
td_mel_config td_mel_config_torch(void);

/* TD_ERR_CONFIG names the first key whose value cannot be, and what it can be. */
td_status td_mel_config_check(const td_mel_config *config);

enum { TD_MEL_CONFIG_TEXT_BYTES = 512 };

/* One "key=value" a line, floats such that they read back the same. Equal configs give equal text. */
void td_mel_config_format(const td_mel_config *config, char out[TD_MEL_CONFIG_TEXT_BYTES]);

enum { TD_MEL_CONFIG_LINE_BYTES = 128 };

/* Whether two differ, and the first line of each text that does. */
bool td_mel_config_differ(const td_mel_config *a, const td_mel_config *b,
                          char a_line[TD_MEL_CONFIG_LINE_BYTES], char b_line[TD_MEL_CONFIG_LINE_BYTES]);

/* Reads what format wrote: each key once, none missing, checked. TD_ERR_CONFIG names the line. */
td_status td_mel_config_parse(const char *text, td_mel_config *out);

/* Frames of a signal of n samples: 1 + n / hop; 0 of none. */
uint32_t td_mel_frames(const td_mel_config *config, uint64_t samples);

/* What stands in a padded batch behind an item's frames: the floor, normalised. */
float td_mel_pad_value(const td_mel_config *config);

#endif
