/* The table of the vocoder family, its keys and its training graph; see vocoder.h. */
#include "families/vocoder/vocoder.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"

static_assert(sizeof(td_vocoder_values) <= TD_MODEL_CONFIG_BYTES, "a config has room for it");

enum { LEAST_CROP = 12, LONGEST_TRANSFORM = 2048 };

/* ---------------------------------------------------------------- configuration */

#define KEY(type, name, least, most, is_shape, help)                                                         \
    TD_MODEL_KEY(td_vocoder_values, type, name, least, most, is_shape, help)
#define FROM_DATA "of the front end; set from the data"
#define RUN_KEY(name_, member, type_, least_, most_, help_)                                                  \
    {                                                                                                        \
        .section = "training", .name = name_, .help = help_, .type = TD_KEY_##type_,                         \
        .offset = offsetof(td_vocoder_values, member), .least = least_, .most = most_                        \
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
    RUN_KEY("crop", crop, COUNT, LEAST_CROP, 4096, "frames that are made of each crop"),
    RUN_KEY("loss_spectral", loss_spectral, NUMBER, 0, 100, "weight of the spectra at three resolutions"),
    RUN_KEY("loss_mel", loss_mel, NUMBER, 0, 100, "weight of the spectrogram's error"),
    RUN_KEY("loss_pitch", loss_pitch, NUMBER, 0, 100, "weight of the pitch net's loss"),
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
                           .loss_pitch = 0.1f};
    td_vocoder_set_mel(&c, &mel);
    memcpy(values, &c, sizeof c);
}

static td_status check(const void *values)
{
    const td_vocoder_values *c = values;
    td_status status = TD_OK;
    TD_FAIL_IF(c->kernel % 2 == 0, TD_ERR_CONFIG, "model.kernel is %u, but must be odd", c->kernel);
    TD_FAIL_IF(c->n_fft % (2 * c->hop), TD_ERR_CONFIG,
               "a vocoder needs windows of an even number of hops; the front end has %u and %u samples",
               c->n_fft, c->hop);
    TD_FAIL_IF((c->crop + 1) * c->hop < c->n_fft + LONGEST_TRANSFORM, TD_ERR_CONFIG,
               "training.crop is %u frames of %u samples; that is too short for the longest transform, of %d",
               c->crop, c->hop, LONGEST_TRANSFORM);
fail:
    return status;
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

static td_tensor build(td_nn *nn, const td_build *b)
{
    const td_vocoder_values c = td_vocoder_get(b->config);
    td_graph *g = nn->graph;
    const uint32_t items = b->shape.items, least = LEAST_CROP + 2 * td_vocoder_margin(&c);
    const uint32_t frames =
        b->shape.frames > least ? b->shape.frames : least; /* parameters are found by less */
    const uint32_t samples = (frames - 1) * c.hop;
    const td_tensor mel = td_graph_input(g, "mel", td_dims(items, frames, c.n_mels), TD_F32);
    const td_tensor pitch = td_graph_input(g, "pitch", td_dims(items, frames), TD_F32);
    const td_tensor wave = td_graph_input(g, "wave", td_dims(items, samples), TD_F32);
    const td_tensor start =
        td_graph_reshape(g, td_graph_scale(g, td_graph_slice(g, pitch, 1, 0, 1), 0), td_dims(items));
    const td_vocoder_source source = {.pulses = td_graph_pulse(g, pitch, start, c.hop, (float)c.rate),
                                      .noise = draw_noise(nn, b, td_dims(items, samples))};
    const td_tensor made = td_vocoder_generate(nn, &c, mel, pitch, &source);
    const td_tensor trimmed = td_vocoder_trim(g, &c, made);
    const td_tensor terms[] = {td_vocoder_spectral_loss(g, trimmed, td_vocoder_trim(g, &c, wave)),
                               td_vocoder_mel_loss(nn, &c, trimmed, mel),
                               td_vocoder_pitch_loss(g, td_vocoder_pitch(nn, &c, mel), pitch)};
    td_graph_output(g, made, "wave");
    td_graph_output(g, terms[0], "loss.spectral");
    td_graph_output(g, terms[1], "loss.mel");
    td_graph_output(g, terms[2], "loss.pitch");
    return td_graph_total(g, terms, (const float[]){c.loss_spectral, c.loss_mel, c.loss_pitch}, 3);
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
    const td_tensor pitch = td_graph_input(g, "pitch", td_dims(1, frames), TD_F32);
    const td_tensor phase = td_graph_input(g, "phase", td_dims(1), TD_F32);
    const td_vocoder_source source = {
        .pulses = td_graph_pulse(g, pitch, phase, c.hop, (float)c.rate),
        .noise = td_graph_input(g, "noise", td_dims(1, (frames - 1) * c.hop), TD_F32)};
    return finish_graph(g, td_vocoder_generate(&nn, &c, mel, pitch, &source), "wave", out);
}

/* ---------------------------------------------------------------- the table */

/* What the recipe was found with: less momentum than voices are trained with, and a higher limit of norms. */
static void adjust(const void *values, td_pace *pace)
{
    (void)values;
    pace->optimizer.beta1 = 0.8f;
    pace->optimizer.beta2 = 0.99f;
    pace->optimizer.max_norm = 5;
}

static const td_part parts[] = {{"generator", "net."}, {"pitch", "pitch."}};
static const td_learner_row learners[] = {{.name = "vocoder", .adjust = adjust}};

const td_family td_family_vocoder = {
    .name = "vocoder",
    .help = "spectrograms to sound, by a net whose phases follow the pitch",
    .parts = parts,
    .n_parts = sizeof parts / sizeof *parts,
    .keys = keys,
    .n_keys = sizeof keys / sizeof *keys,
    .learners = learners,
    .n_learners = 1,
    .preset = preset,
    .check = check,
    .describe = describe,
    .fit = fit,
    .crop_frames = crop_frames,
    .build = build,
    .vocode = &td_vocoder_vocode,
};
