/* The vocoder family: spectrograms to sound. A net predicts the size and the turn of phase of each bin of a
 * spectrum whose phases come from a pulse train at the voice's pitch and from noise; the inverse transform makes
 * the samples. A second, small net tells pitch and voicing of a spectrogram, so that any can be voiced. Or the
 * generator of HiFi-GAN makes the samples, which needs no pitch.
 * docs/vocoder.md has the whole of it. B F T are items, frames of a batch, and frames that are made of it: those
 * in whose window no sample is missing. Covered by tests/families/test_vocoder.c.
 */
#ifndef TD_FAMILIES_VOCODER_VOCODER_H
#define TD_FAMILIES_VOCODER_VOCODER_H

#include "families/family.h"
#include "families/vocode.h"
#include "nn/hifigan.h"

enum { TD_VOCODER_PULSE, TD_VOCODER_HIFIGAN };

typedef struct td_vocoder_values {
    uint32_t width, inside, blocks, kernel; /* of the net */
    uint32_t pitch_width, pitch_layers;     /* of the net that tells pitch */
    uint32_t n_mels, rate, n_fft, hop, win; /* of the front end, as the rest of this block */
    float fmin, fmax, floor, mean, scale;
    uint32_t mel_scale;
    bool area_norm, power;
    uint32_t crop; /* frames that are made of a crop */
    float loss_spectral, loss_mel, loss_pitch;
    uint32_t generator; /* TD_VOCODER_PULSE ... */
    bool discriminators;
    uint32_t discriminator_width;
    uint32_t adversarial_start; /* step from which they count */
    float loss_adversarial, loss_features;
    bool has_predictions;                /* batches have them; set from the data */
    float predicted_share, pitch_jitter; /* with them */
} td_vocoder_values;

td_vocoder_values td_vocoder_get(const td_model_config *config);
td_mel_config td_vocoder_mel(const td_vocoder_values *c);
void td_vocoder_set_mel(td_vocoder_values *c, const td_mel_config *mel);

/* Frames at each end of a batch that only tell what lies within the windows of those between. */
uint32_t td_vocoder_margin(const td_vocoder_values *c);

/* Frames that reach into a frame of the generator from each side, and of the net that tells pitch. */
uint32_t td_vocoder_reach(const td_vocoder_values *c);
uint32_t td_vocoder_pitch_reach(const td_vocoder_values *c);

/* What excites a batch, [B, (F - 1) hop] each. */
typedef struct td_vocoder_source {
    td_tensor pulses, noise;
} td_vocoder_source;

/* HiFi-GAN of `width` channels whose stages make a hop of a frame. */
td_hifigan td_vocoder_hifigan(const td_vocoder_values *c);

/* mel [B, F, n_mels] by it: samples [B, (F - 1) hop]. */
td_tensor td_vocoder_upsample(td_nn *nn, const td_vocoder_values *c, td_tensor mel);

/* mel [B, F, n_mels], pitch [B, F] in Hz (0: unvoiced): samples [B, (F - 1) hop]. */
td_tensor td_vocoder_generate(td_nn *nn, const td_vocoder_values *c, td_tensor mel, td_tensor pitch,
                              const td_vocoder_source *source);

/* mel [B, F, n_mels] to [B, F, 2]: ln(pitch in Hz) - 5, and the logit of being voiced. */
td_tensor td_vocoder_pitch(td_nn *nn, const td_vocoder_values *c, td_tensor mel);

/* Losses, [1] each: of samples made [B, (F - 1) hop] by their spectrogram, and of the pitch that was told. */
td_tensor td_vocoder_mel_loss(td_nn *nn, const td_vocoder_values *c, td_tensor made, td_tensor mel);
td_tensor td_vocoder_pitch_loss(td_graph *g, td_tensor told, td_tensor pitch);

/* x [B, S] without what does not count: where windows do not overlap in full. */
td_tensor td_vocoder_trim(td_graph *g, const td_vocoder_values *c, td_tensor x);

/* The graphs of synthesis, for one item of so many frames.
 *   pitch: in mel [1, F, n_mels]; out told [1, F, 2]
 *   wave:  in mel, and unless HiFi-GAN pitch [1, F], phase [1], noise [1, (F - 1) hop]; out wave [1, (F - 1) hop] */
td_status td_vocoder_pitch_graph(const td_model_config *config, uint32_t frames, td_graph **out);
td_status td_vocoder_wave_graph(const td_model_config *config, uint32_t frames, td_graph **out);

/* Frames that a piece of speech is made of, with those around it. */
uint32_t td_vocoder_piece_frames(const td_vocoder_values *c);

extern const td_vocode_class td_vocoder_vocode;
extern const td_family td_family_vocoder;

#endif
