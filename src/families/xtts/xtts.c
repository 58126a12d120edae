/* The family of XTTS-v2: a GPT over audio codes, told the speaker by a recording, and a HiFi-GAN that speaks
 * what the GPT has thought. docs/xtts.md. */
#include "families/adversary.h"
#include "families/xtts/dvae.h"
#include "families/xtts/engine.h"
#include "families/xtts/graphs.h"
#include "families/xtts/hear.h"
#include "families/xtts/talk.h"
#include "families/xtts/train.h"
#include "families/xtts/tune_vocoder.h"
#include "families/xtts/xtts_config.h"
#include "families/xtts/xtts_coqui.h"
#include "nn/bytes.h"

static const td_part parts[] = {
    {"gpt", "gpt."},
    {"vocoder", "hifigan_decoder.waveform_decoder."},
    {"speaker_encoder", "hifigan_decoder.speaker_encoder."},
    {"mel_stats", "mel_stats"},
    {"dvae", "dvae."},
    {"speakers", "speakers."},
    {"discriminator", TD_ADVERSARY_PREFIX},
};

static const char *const buffers[] = {"*.running_mean",
                                      "*.running_var",
                                      "*.num_batches_tracked",
                                      "*.torch_spec.*",
                                      "mel_stats",
                                      "dvae.codebook.*",
                                      "dvae.discrete_loss.*",
                                      "speakers.*",
                                      TD_BYTES_SCALES,
                                      NULL};

static const td_front_end_row front_ends[] = {{"dvae_mel", td_xtts_dvae_mel}};

/* The voice's own learner is that of the GPT, or of the vocoder; which one `tune` says. */
static bool tunes_vocoder(const void *values)
{
    return ((const td_xtts *)values)->tune == TD_XTTS_VOCODER;
}

static void adjust(const void *values, td_pace *pace)
{
    if (tunes_vocoder(values)) td_adversary_adjust_generator(pace);
}

static void adjust_discriminator(const void *values, td_pace *pace)
{
    (void)values;
    td_adversary_adjust_discriminator(pace);
}

static const char *const of_voice[] = {"gpt.", "hifigan_decoder.waveform_decoder.", NULL};
static const char *const of_discriminator[] = {TD_ADVERSARY_PREFIX, NULL};
static const td_learner_row learners[] = {
    {.name = "voice", .prefixes = of_voice, .adjust = adjust},
    {.name = "discriminator", .prefixes = of_discriminator, .adjust = adjust_discriminator}};

static size_t count_learners(const void *values)
{
    return tunes_vocoder(values) && ((const td_xtts *)values)->discriminators ? 2 : 1;
}

/* With the margin of a frame that crops have behind their last sample. */
static uint32_t crop_frames(const void *values)
{
    return tunes_vocoder(values) ? ((const td_xtts *)values)->crop + 1 : 0;
}

static td_mel_config choose_mel(const void *values)
{
    return tunes_vocoder(values) ? td_xtts_spoken_mel(values) : td_xtts_conditioning_mel(values);
}

static td_tensor build(td_nn *nn, const td_build *b)
{
    return tunes_vocoder(&b->config->values) ? td_xtts_build_vocoder(nn, b) : td_xtts_build(nn, b);
}

/* A stream begins with so many codes' frames. */
static td_status build_wave(const td_model_config *config, uint32_t frames, td_graph **out,
                            td_wave_facts *facts)
{
    const td_xtts c = td_xtts_get(config);
    const size_t first = td_xtts_samples(&c, TD_XTTS_FIRST_CODES, 1) / c.output_hop_length;
    *facts = (td_wave_facts){
        .rate = c.output_sample_rate, .hop = c.output_hop_length, .first_frames = (uint32_t)first};
    return out ? td_xtts_vocoder_graph(&c, frames, out) : TD_OK;
}

const td_family td_family_xtts = {
    .name = "xtts",
    .help = "XTTS-v2: clones a voice from a recording, in many languages",
    .parts = parts,
    .n_parts = sizeof parts / sizeof *parts,
    .buffers = buffers,
    .keys = td_xtts_keys,
    .n_keys = TD_XTTS_KEY_COUNT,
    .learners = learners,
    .n_learners = sizeof learners / sizeof *learners,
    .mel = choose_mel,
    .front_ends = front_ends,
    .n_front_ends = sizeof front_ends / sizeof *front_ends,
    .frozen = td_xtts_frozen,
    .n_frozen = TD_XTTS_FROZEN_PARTS,
    .preset = td_xtts_preset,
    .check = td_xtts_check,
    .describe = td_xtts_describe,
    .fit = td_xtts_fit,
    .usual = td_xtts_usual,
    .carries = true,
    .check_shape = td_xtts_check_shape,
    .build = build,
    .count_learners = count_learners,
    .crop_frames = crop_frames,
    .scalar = td_xtts_scalar,
    .listener = &td_xtts_listener,
    .talker = &td_xtts_talker,
    .wave_graph = build_wave,
    .importer = &td_coqui_importer,
};
