/* The table of the vocoder family, its keys and its training graph; see vocoder.h. */
#include "families/vocoder/vocoder.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "families/adversary.h"
#include "families/wave_loss.h"

static_assert(sizeof(td_vocoder_values) <= TD_MODEL_CONFIG_BYTES, "a config has room for it");

enum { LEAST_CROP = 12, LONGEST_TRANSFORM = 2048 };
enum { GENERATOR, DISCRIMINATOR };

/* ---------------------------------------------------------------- configuration */

#define KEY(type, name, least, most, is_shape, help)                                                         \
    TD_MODEL_KEY(td_vocoder_values, type, name, least, most, is_shape, help)
#define FROM_DATA "of the front end; set from the data"
#define RUN_KEY(name_, member, type_, least_, most_, help_)                                                  \
    {                                                                                                        \
        .section = "training", .name = name_, .help = help_, .type = TD_KEY_##type_,                         \
        .offset = offsetof(td_vocoder_values, member), .least = least_, .most = most_                        \
    }

/* Keys that came after the first files. */
#define LATER_KEY(type_, name_, least_, most_, help_)                                                        \
    {                                                                                                        \
        .section = "model", .name = #name_, .help = help_, .type = TD_KEY_##type_,                           \
        .offset = offsetof(td_vocoder_values, name_), .least = least_, .most = most_, .is_shape = true,      \
        .may_lack = true                                                                                     \
    }

static const td_model_key keys[] = {
    KEY(COUNT, width, 8, 4096, true, "channels of the net"),
    KEY(COUNT, inside, 8, 16384, true, "channels inside a block"),
    KEY(COUNT, blocks, 1, 64, true, "blocks of the net"),
    KEY(COUNT, kernel, 1, 31, true, "frames that a convolution sees; odd"),
    KEY(COUNT, pitch_width, 8, 1024, true, "channels of the net that tells pitch"),
    KEY(COUNT, pitch_layers, 1, 2, true, "layers of the net that tells pitch"),
    KEY(COUNT, n_mels, 1, 512, true, "bands of a spectrogram; set from the data"),
    KEY(COUNT, rate, 8000, 96000, true, "samples a second " FROM_DATA),
    KEY(COUNT, n_fft, 512, 2048, true, "samples of a transform " FROM_DATA),
    KEY(COUNT, hop, 1, 2048, true, "samples from frame to frame " FROM_DATA),
    KEY(COUNT, win, 2, 2048, true, "samples of the window " FROM_DATA),
    KEY(NUMBER, fmin, 0, 48000, true, "lowest frequency " FROM_DATA),
    KEY(NUMBER, fmax, 1, 48000, true, "highest frequency " FROM_DATA),
    KEY(NUMBER, floor, 1e-12, 1, true, "least value " FROM_DATA),
    KEY(NUMBER, mean, -100, 100, true, "mean " FROM_DATA),
    KEY(NUMBER, scale, 1e-3, 100, true, "scale " FROM_DATA),
    {.section = "model",
     .name = "mel_scale",
     .help = "scale of frequencies " FROM_DATA,
     .type = TD_KEY_CHOICE,
     .offset = offsetof(td_vocoder_values, mel_scale),
     .is_shape = true,
     .choices = "slaney|htk"},
    KEY(FLAG, area_norm, 0, 1, true, "bands of equal area " FROM_DATA),
    KEY(FLAG, power, 0, 1, true, "of power, not size " FROM_DATA),
    {.section = "model",
     .name = "generator",
     .help = "pulse: phases of pulses at the pitch; hifigan: layers that make the signal longer",
     .type = TD_KEY_CHOICE,
     .offset = offsetof(td_vocoder_values, generator),
     .is_shape = true,
     .may_lack = true,
     .choices = "pulse|hifigan"},
    LATER_KEY(FLAG, discriminators, 0, 1,
              "train against discriminators, which tell made sound from recorded"),
    LATER_KEY(COUNT, discriminator_width, 1, 1024, "channels of the discriminators' first layers"),
    RUN_KEY("crop", crop, COUNT, LEAST_CROP, 4096, "frames that are made of each crop"),
    RUN_KEY("loss_spectral", loss_spectral, NUMBER, 0, 100, "weight of the spectra at three resolutions"),
    RUN_KEY("loss_mel", loss_mel, NUMBER, 0, 100, "weight of the spectrogram's error"),
    RUN_KEY("loss_pitch", loss_pitch, NUMBER, 0, 100, "weight of the pitch net's loss"),
    RUN_KEY("loss_adversarial", loss_adversarial, NUMBER, 0, 100, "weight of what discriminators answer"),
    RUN_KEY("loss_features", loss_features, NUMBER, 0, 100, "weight of the distance inside discriminators"),
    RUN_KEY("predicted_share", predicted_share, NUMBER, 0, 1,
            "with acoustic: share of crops that are predicted"),
    RUN_KEY("pitch_jitter", pitch_jitter, NUMBER, 0, 0.2,
            "with acoustic: deviation of the pitch that is heard"),
    RUN_KEY("adversarial_start", adversarial_start, COUNT, 0, 1e9, "update from which discriminators count"),
};

td_vocoder_values td_vocoder_get(const td_model_config *config)
{
    td_vocoder_values c;
    memcpy(&c, config->values.bytes, sizeof c);
    return c;
}

td_mel_config td_vocoder_mel(const td_vocoder_values *c)
{
    td_mel_config m = td_mel_config_default();
    m.rate = c->rate;
    m.n_fft = c->n_fft;
    m.hop_samples = c->hop;
    m.win_samples = c->win;
    m.n_mels = c->n_mels;
    m.fmin_hz = c->fmin;
    m.fmax_hz = c->fmax;
    m.mel_scale = (td_mel_scale)c->mel_scale;
    m.area_norm = c->area_norm;
    m.power = c->power;
    m.floor = c->floor;
    m.mean = c->mean;
    m.scale = c->scale;
    return m;
}

void td_vocoder_set_mel(td_vocoder_values *c, const td_mel_config *m)
{
    c->rate = m->rate;
    c->n_fft = m->n_fft;
    c->hop = m->hop_samples;
    c->win = m->win_samples;
    c->n_mels = m->n_mels;
    c->fmin = m->fmin_hz;
    c->fmax = m->fmax_hz;
    c->mel_scale = m->mel_scale;
    c->area_norm = m->area_norm;
    c->power = m->power;
    c->floor = m->floor;
    c->mean = m->mean;
    c->scale = m->scale;
}

static void preset(uint32_t size, void *values)
{
    static const struct {
        uint32_t width, inside, blocks;
    } SIZES[] = {{64, 128, 2}, {128, 256, 3}, {160, 320, 4}, {192, 384, 4}, {384, 1152, 8}, {512, 1536, 8}};
    const td_mel_config mel = td_mel_config_default();
    td_vocoder_values c = {.width = SIZES[size].width,
                           .inside = SIZES[size].inside,
                           .blocks = SIZES[size].blocks,
                           .kernel = 7,
                           .pitch_width = 32U << (size < 2 ? size : 2),
                           .pitch_layers = 2,
                           .crop = 32,
                           .loss_spectral = 1,
                           .loss_mel = 1,
                           .loss_pitch = 0.1f,
                           .discriminator_width = size < 4 ? 8 : 32,
                           .loss_adversarial = 0.2f,
                           .loss_features = 0.5f,
                           .predicted_share = 0.5f,
                           .pitch_jitter = 0.01f};
    td_vocoder_set_mel(&c, &mel);
    memcpy(values, &c, sizeof c);
}

static td_status check(const void *values)
{
    const td_vocoder_values *c = values;
    TD_REFUSE_IF(c->kernel % 2 == 0, TD_ERR_CONFIG, "model.kernel is %u, but must be odd", c->kernel);
    TD_REFUSE_IF(c->n_fft % (2 * c->hop), TD_ERR_CONFIG,
                 "a vocoder needs windows of an even number of hops; the front end has %u and %u samples",
                 c->n_fft, c->hop);
    TD_REFUSE_IF(
        (c->crop + 1) * c->hop < c->n_fft + LONGEST_TRANSFORM, TD_ERR_CONFIG,
        "training.crop is %u frames of %u samples; that is too short for the longest transform, of %d",
        c->crop, c->hop, LONGEST_TRANSFORM);
    if (c->generator != TD_VOCODER_HIFIGAN) return TD_OK;
    const td_hifigan h = td_vocoder_hifigan(c);
    TD_REFUSE_IF(h.n_stages == 0, TD_ERR_CONFIG,
                 "model.generator = hifigan cannot make a hop of %u samples in %d stages", c->hop,
                 TD_HIFIGAN_STAGES);
    TD_REFUSE_IF(c->width >> h.n_stages == 0 || c->width % (1U << h.n_stages), TD_ERR_CONFIG,
                 "model.width is %u; each of the %u stages of hifigan halves it: take a multiple of %u",
                 c->width, h.n_stages, 1U << h.n_stages);
    return TD_OK;
}

static void describe(const void *values, td_model_facts *out)
{
    out->n_mels = ((const td_vocoder_values *)values)->n_mels;
}

static void fit(const td_data_facts *facts, const void *old, void *values)
{
    td_vocoder_values *c = values;
    (void)old;
    if (facts->mel) td_vocoder_set_mel(c, facts->mel);
    c->n_mels = facts->n_mels;
    c->has_predictions = facts->has_predictions;
}

static uint32_t crop_frames(const void *values)
{
    const td_vocoder_values *c = values;
    return c->crop + 2 * td_vocoder_margin(c);
}

/* ---------------------------------------------------------------- training */

/* Others in each step; without dropout, for comparisons, always the same, and one for all items. */
static td_tensor draw_noise(td_nn *nn, const td_build *b, td_shape shape)
{
    td_graph *g = nn->graph;
    if (b->dropout) return td_graph_noise(g, shape);
    const uint32_t most = (crop_frames(&b->config->values) - 1) * td_vocoder_get(b->config).hop;
    const td_tensor noise = td_graph_state(g, "constant.noise", td_dims(1, most), TD_STATE_CONSTANT);
    td_graph_set_init(g, noise, (td_init){.rule = TD_INIT_NORMAL, .scale = 1});
    return td_graph_slice(g, noise, 1, 0, shape.dims[1]);
}

/* A batch, and what the generator makes of it. */
typedef struct crop {
    td_tensor mel, wave;              /* [B, F, n_mels], [B, (F - 1) hop] */
    td_tensor pitch;                  /* [B, F]; none for HiFi-GAN */
    td_tensor heard_mel, heard_pitch; /* what sound is made of */
    td_tensor made;                   /* as wave */
} crop;

/* The spectrogram, or in its place the one that a voice predicts, drawn for each item by training.predicted_share. */
static td_tensor choose_mel(td_nn *nn, const td_vocoder_values *c, const td_build *b, td_tensor mel)
{
    td_graph *g = nn->graph;
    const td_shape shape = td_graph_shape(g, mel);
    if (!c->has_predictions) return mel;
    const td_tensor predicted = td_graph_input(g, "predicted_mel", shape, TD_F32);
    td_tensor takes = td_graph_input(g, "is_predicted", td_dims(shape.dims[0]), TD_F32);
    if (b->dropout && c->predicted_share < 1)
        takes = td_graph_scale(g, td_graph_dropout(g, takes, 1 - c->predicted_share), c->predicted_share);
    takes = td_graph_reshape(g, takes, td_dims(shape.dims[0], 1, 1));
    return td_graph_add(g, mel, td_graph_mul(g, td_graph_sub(g, predicted, mel), takes));
}

/* The pitch, off by a little in each frame: that of a voice will be. */
static td_tensor disturb_pitch(td_nn *nn, const td_vocoder_values *c, const td_build *b, td_tensor pitch)
{
    td_graph *g = nn->graph;
    if (!c->has_predictions || !b->dropout || !(c->pitch_jitter > 0)) return pitch;
    const td_tensor noise = td_graph_noise(g, td_graph_shape(g, pitch));
    return td_graph_mul(
        g, pitch,
        td_graph_clamp(g, td_graph_shift(g, td_graph_scale(g, noise, c->pitch_jitter), 1), 0.5f, 2));
}

static crop read_crop(td_nn *nn, const td_vocoder_values *c, const td_build *b)
{
    td_graph *g = nn->graph;
    const uint32_t items = b->shape.items, least = LEAST_CROP + 2 * td_vocoder_margin(c);
    const uint32_t frames =
        b->shape.frames > least ? b->shape.frames : least; /* parameters are found by less */
    const uint32_t samples = (frames - 1) * c->hop;
    crop x = {.mel = td_graph_input(g, "mel", td_dims(items, frames, c->n_mels), TD_F32),
              .wave = td_graph_input(g, "wave", td_dims(items, samples), TD_F32)};
    x.heard_mel = choose_mel(nn, c, b, x.mel);
    if (c->generator == TD_VOCODER_HIFIGAN) return x;
    x.pitch = td_graph_input(g, "pitch", td_dims(items, frames), TD_F32);
    x.heard_pitch = disturb_pitch(nn, c, b, x.pitch);
    return x;
}

static td_tensor generate(td_nn *nn, const td_vocoder_values *c, const td_build *b, const crop *x)
{
    td_graph *g = nn->graph;
    if (c->generator == TD_VOCODER_HIFIGAN) return td_vocoder_upsample(nn, c, x->heard_mel);
    const td_shape shape = td_graph_shape(g, x->wave);
    const td_tensor first = td_graph_scale(g, td_graph_slice(g, x->pitch, 1, 0, 1), 0);
    const td_tensor start = td_graph_reshape(g, first, td_dims(shape.dims[0]));
    const td_vocoder_source source = {.pulses =
                                          td_graph_pulse(g, x->heard_pitch, start, c->hop, (float)c->rate),
                                      .noise = draw_noise(nn, b, shape)};
    return td_vocoder_generate(nn, c, x->heard_mel, x->heard_pitch, &source);
}

static td_adversary describe_adversary(const td_vocoder_values *c)
{
    return (td_adversary){.width = c->discriminator_width,
                          .start = c->adversarial_start,
                          .loss_adversarial = c->loss_adversarial,
                          .loss_features = c->loss_features};
}

static float scalar(const void *values, const char *input, uint64_t step)
{
    const td_adversary a = describe_adversary(values);
    (void)input;
    return td_adversary_ramp(&a, step);
}

static td_tensor build_generator(td_nn *nn, const td_vocoder_values *c, const crop *x)
{
    td_graph *g = nn->graph;
    const td_tensor made = td_vocoder_trim(g, c, x->made), recorded = td_vocoder_trim(g, c, x->wave);
    td_tensor terms[3] = {td_wave_spectral_loss(g, made, recorded), td_vocoder_mel_loss(nn, c, made, x->mel)};
    td_graph_output(g, x->made, "wave");
    td_graph_output(g, terms[0], "loss.spectral");
    td_graph_output(g, terms[1], "loss.mel");
    if (x->pitch.id) {
        terms[2] = td_vocoder_pitch_loss(g, td_vocoder_pitch(nn, c, x->heard_mel), x->pitch);
        td_graph_output(g, terms[2], "loss.pitch");
    }
    const td_tensor sum = td_graph_total(
        g, terms, (const float[]){c->loss_spectral, c->loss_mel, c->loss_pitch}, x->pitch.id ? 3 : 2);
    if (!c->discriminators) return sum;
    const td_adversary a = describe_adversary(c);
    return td_graph_add(g, sum, td_adversary_please(nn, &a, made, recorded));
}

static td_tensor build_discriminator(td_nn *nn, const td_vocoder_values *c, const crop *x)
{
    td_graph *g = nn->graph;
    const td_adversary a = describe_adversary(c);
    return td_adversary_judge(nn, &a, td_vocoder_trim(g, c, x->made), td_vocoder_trim(g, c, x->wave));
}

static td_tensor build(td_nn *nn, const td_build *b)
{
    const td_vocoder_values c = td_vocoder_get(b->config);
    crop x = read_crop(nn, &c, b);
    x.made = generate(nn, &c, b, &x);
    return b->learner == GENERATOR ? build_generator(nn, &c, &x) : build_discriminator(nn, &c, &x);
}

/* ---------------------------------------------------------------- synthesis */

static td_status finish_graph(td_graph *g, td_tensor made, const char *name, td_graph **out)
{
    td_graph_output(g, made, name);
    const td_status status = td_graph_status(g);
    if (status == TD_OK)
        *out = g;
    else
        td_graph_destroy(g);
    return status;
}

td_status td_vocoder_pitch_graph(const td_model_config *config, uint32_t frames, td_graph **out)
{
    const td_vocoder_values c = td_vocoder_get(config);
    td_nn nn = {0};
    const td_status status = td_graph_create(0, &nn.graph);
    if (status != TD_OK) return status;
    const td_tensor mel = td_graph_input(nn.graph, "mel", td_dims(1, frames, c.n_mels), TD_F32);
    return finish_graph(nn.graph, td_vocoder_pitch(&nn, &c, mel), "told", out);
}

td_status td_vocoder_wave_graph(const td_model_config *config, uint32_t frames, td_graph **out)
{
    const td_vocoder_values c = td_vocoder_get(config);
    td_nn nn = {0};
    const td_status status = td_graph_create(0, &nn.graph);
    if (status != TD_OK) return status;
    td_graph *g = nn.graph;
    const td_tensor mel = td_graph_input(g, "mel", td_dims(1, frames, c.n_mels), TD_F32);
    if (c.generator == TD_VOCODER_HIFIGAN)
        return finish_graph(g, td_vocoder_upsample(&nn, &c, mel), "wave", out);
    const td_tensor pitch = td_graph_input(g, "pitch", td_dims(1, frames), TD_F32);
    const td_tensor phase = td_graph_input(g, "phase", td_dims(1), TD_F32);
    const td_vocoder_source source = {
        .pulses = td_graph_pulse(g, pitch, phase, c.hop, (float)c.rate),
        .noise = td_graph_input(g, "noise", td_dims(1, (frames - 1) * c.hop), TD_F32)};
    return finish_graph(g, td_vocoder_generate(&nn, &c, mel, pitch, &source), "wave", out);
}

static td_status build_wave(const td_model_config *config, uint32_t frames, td_graph **out,
                            td_wave_facts *facts)
{
    const td_vocoder_values c = td_vocoder_get(config);
    *facts = (td_wave_facts){.rate = c.rate, .hop = c.hop, .first_frames = td_vocoder_piece_frames(&c)};
    return out ? td_vocoder_wave_graph(config, frames + 1, out) : TD_OK;
}

/* ---------------------------------------------------------------- the table */

static void adjust(const void *values, td_pace *pace)
{
    (void)values;
    td_adversary_adjust_generator(pace);
}

static void adjust_discriminator(const void *values, td_pace *pace)
{
    (void)values;
    td_adversary_adjust_discriminator(pace);
}

static size_t count_learners(const void *values)
{
    return ((const td_vocoder_values *)values)->discriminators ? 2 : 1;
}

static const td_part parts[] = {
    {"generator", "net."}, {"pitch", "pitch."}, {"discriminator", TD_ADVERSARY_PREFIX}};
static const char *const of_generator[] = {"net.", "pitch.", NULL};
static const char *const of_discriminator[] = {TD_ADVERSARY_PREFIX, NULL};
static const td_learner_row learners[] = {
    [GENERATOR] = {.name = "vocoder", .prefixes = of_generator, .adjust = adjust},
    [DISCRIMINATOR] = {
        .name = "discriminator", .prefixes = of_discriminator, .adjust = adjust_discriminator}};

const td_family td_family_vocoder = {
    .name = "vocoder",
    .help = "spectrograms to sound, by a net whose phases follow the pitch",
    .parts = parts,
    .n_parts = sizeof parts / sizeof *parts,
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .learners = learners,
    .n_learners = 2,
    .judge = GENERATOR,
    .preset = preset,
    .check = check,
    .describe = describe,
    .fit = fit,
    .crop_frames = crop_frames,
    .count_learners = count_learners,
    .build = build,
    .scalar = scalar,
    .vocode = &td_vocoder_vocode,
    .wave_graph = build_wave,
};
