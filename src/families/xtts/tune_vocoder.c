/* See tune_vocoder.h. */
#include "families/xtts/tune_vocoder.h"

#include "families/adversary.h"
#include "families/wave_loss.h"
#include "families/xtts/layers.h"

enum { GENERATOR };

td_mel_config td_xtts_spoken_mel(const void *values)
{
    const td_xtts *c = values;
    td_mel_config mel = td_mel_config_torch();
    mel.rate = c->output_sample_rate;
    mel.hop_samples = c->output_hop_length;
    mel.n_mels = c->n_mels;
    mel.fmax_hz = (float)c->output_sample_rate / 2;
    return mel;
}

static td_adversary describe(const td_xtts *c)
{
    return (td_adversary){.width = c->discriminator_width,
                          .start = c->adversarial_start,
                          .loss_adversarial = c->loss_adversarial,
                          .loss_features = c->loss_features};
}

float td_xtts_scalar(const void *values, const char *input, uint64_t step)
{
    const td_adversary a = describe(values);
    (void)input;
    return td_adversary_ramp(&a, step);
}

static td_tensor compare(td_graph *g, const td_xtts *c, td_tensor made, td_tensor recorded)
{
    const td_mel_config mel = td_xtts_spoken_mel(c);
    const td_tensor apart = td_graph_sub(g, td_wave_mel(g, &mel, made), td_wave_mel(g, &mel, recorded));
    const td_tensor terms[] = {td_wave_spectral_loss(g, made, recorded),
                               td_wave_mean(g, td_wave_abs(g, apart))};
    td_graph_output(g, terms[0], "loss.spectral");
    td_graph_output(g, terms[1], "loss.mel");
    return td_graph_total(g, terms, (const float[]){c->loss_spectral, c->loss_mel}, 2);
}

td_tensor td_xtts_build_vocoder(td_nn *nn, const td_build *b)
{
    td_graph *g = nn->graph;
    const td_xtts c = td_xtts_get(b->config);
    const td_adversary a = describe(&c);
    const uint32_t items = b->shape.items, least = TD_XTTS_LEAST_CROP + 1; /* parameters are found by less */
    const uint32_t frames = b->shape.frames > least ? b->shape.frames : least;
    const td_tensor latents =
        td_graph_input(g, "latents", td_dims(items, frames, c.decoder_input_dim), TD_F32);
    const td_tensor speaker = td_graph_input(g, "speaker_vector", td_dims(items, c.d_vector_dim), TD_F32);
    const td_tensor wave =
        td_graph_input(g, "wave", td_dims(items, (frames - 1) * c.output_hop_length), TD_F32);
    const td_tensor made =
        td_xtts_vocode_filed(nn, &c, td_graph_slice(g, latents, 1, 0, frames - 1), speaker);
    if (b->learner != GENERATOR) return td_adversary_judge(nn, &a, made, wave);
    td_graph_output(g, made, "wave");
    const td_tensor sum = compare(g, &c, made, wave);
    return c.discriminators ? td_graph_add(g, sum, td_adversary_please(nn, &a, made, wave)) : sum;
}
