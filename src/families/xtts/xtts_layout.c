/* See xtts_layout.h. A prefix is put before names; "{...}" of the names in comments are numbers. */
#include "families/xtts/xtts_layout.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"

enum { PREFIX_BYTES = 64, LAYER_BYTES = TD_XTTS_NAME_BYTES - PREFIX_BYTES, DVAE_LAYERS = 2 };

typedef struct walk {
    const td_xtts *c;
    td_xtts_visit *visit;
    void *context;
    td_status status; /* of the first failure; nothing is visited afterwards */
    char prefix[PREFIX_BYTES];
} walk;

static void set_prefix(walk *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void set_prefix(walk *w, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(w->prefix, sizeof w->prefix, format, list);
    va_end(list);
}

/* A tensor under the prefix; dims end with the first 0. */
static void add(walk *w, const char *name, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    td_xtts_tensor t = {.dims = {a, b, c, d}};
    while (t.rank < 4 && t.dims[t.rank] > 0)
        t.rank++;
    snprintf(t.name, sizeof t.name, "%s%s", w->prefix, name);
    if (w->status == TD_OK) w->status = w->visit(w->context, &t);
}

static void add_counter(walk *w, const char *name)
{
    td_xtts_tensor t = {.is_integer = true};
    snprintf(t.name, sizeof t.name, "%s%s", w->prefix, name);
    if (w->status == TD_OK) w->status = w->visit(w->context, &t);
}

/* NAME.weight of the shape, NAME.bias of its first dimension. */
static void add_layer(walk *w, const char *name, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
    char full[LAYER_BYTES];
    snprintf(full, sizeof full, "%s.weight", name);
    add(w, full, a, b, c, d);
    snprintf(full, sizeof full, "%s.bias", name);
    add(w, full, a, 0, 0, 0);
}

/* GPT-2's: [in, out], and a bias of out. */
static void add_conv1d(walk *w, const char *name, uint64_t in, uint64_t out)
{
    char full[LAYER_BYTES];
    snprintf(full, sizeof full, "%s.weight", name);
    add(w, full, in, out, 0, 0);
    snprintf(full, sizeof full, "%s.bias", name);
    add(w, full, out, 0, 0, 0);
}

/* ---------------------------------------------------------------- GPT */

static void walk_conditioning(walk *w)
{
    const td_xtts *c = w->c;
    const uint64_t width = c->gpt_n_model_channels;
    const uint64_t heads = (uint64_t)c->perceiver_heads * TD_XTTS_PERCEIVER_HEAD;
    const uint64_t inside = td_xtts_perceiver_inside(c);
    set_prefix(w, "gpt.conditioning_encoder.");
    add_layer(w, "init", width, c->n_mels, 1, 0);
    for (uint32_t i = 0; i < c->conditioning_blocks; i++) {
        set_prefix(w, "gpt.conditioning_encoder.attn.%u.", i);
        add_layer(w, "norm", width, 0, 0, 0);
        add_layer(w, "qkv", 3 * width, width, 1, 0);
        add_layer(w, "proj_out", width, width, 1, 0);
    }
    set_prefix(w, "gpt.conditioning_perceiver.");
    add(w, "latents", c->perceiver_latents, width, 0, 0);
    add(w, "norm.gamma", width, 0, 0, 0);
    for (uint32_t i = 0; i < c->perceiver_layers; i++) {
        set_prefix(w, "gpt.conditioning_perceiver.layers.%u.", i);
        add(w, "0.to_q.weight", heads, width, 0, 0);
        add(w, "0.to_kv.weight", 2 * heads, width, 0, 0);
        add(w, "0.to_out.weight", width, heads, 0, 0);
        add_layer(w, "1.0", 2 * inside, width, 0, 0);
        add_layer(w, "1.2", width, inside, 0, 0);
    }
}

static void walk_gpt(walk *w)
{
    const td_xtts *c = w->c;
    const uint64_t width = c->gpt_n_model_channels;
    set_prefix(w, "gpt.");
    add(w, "text_embedding.weight", c->gpt_number_text_tokens, width, 0, 0);
    add(w, "mel_embedding.weight", c->gpt_num_audio_tokens, width, 0, 0);
    add(w, "text_pos_embedding.emb.weight", td_xtts_text_positions(c), width, 0, 0);
    add(w, "mel_pos_embedding.emb.weight", td_xtts_audio_positions(c), width, 0, 0);
    add_layer(w, "gpt.ln_f", width, 0, 0, 0);
    add_layer(w, "final_norm", width, 0, 0, 0);
    add_layer(w, "text_head", c->gpt_number_text_tokens, width, 0, 0);
    add_layer(w, "mel_head", c->gpt_num_audio_tokens, width, 0, 0);
    for (uint32_t i = 0; i < c->gpt_layers; i++) {
        set_prefix(w, "gpt.gpt.h.%u.", i);
        add_layer(w, "ln_1", width, 0, 0, 0);
        add_layer(w, "ln_2", width, 0, 0, 0);
        add_conv1d(w, "attn.c_attn", width, 3 * width);
        add_conv1d(w, "attn.c_proj", width, width);
        add_conv1d(w, "mlp.c_fc", width, 4 * width);
        add_conv1d(w, "mlp.c_proj", 4 * width, width);
    }
}

/* ---------------------------------------------------------------- vocoder */

/* Weight norm over the first axis; the bias has as many elements as the layer makes. */
static void add_normed(walk *w, const char *name, uint64_t a, uint64_t b, uint64_t taps, uint64_t bias)
{
    char full[LAYER_BYTES];
    snprintf(full, sizeof full, "%s.bias", name);
    add(w, full, bias, 0, 0, 0);
    snprintf(full, sizeof full, "%s.parametrizations.weight.original0", name);
    add(w, full, a, 1, 1, 0);
    snprintf(full, sizeof full, "%s.parametrizations.weight.original1", name);
    add(w, full, a, b, taps, 0);
}

static void walk_vocoder(walk *w)
{
    static const uint32_t TAPS[TD_XTTS_DECODER_STAGES] = {16, 16, 4, 4};
    static const uint32_t BLOCK_TAPS[TD_XTTS_DECODER_RESBLOCKS] = {3, 7, 11};
    const td_xtts *c = w->c;
    uint64_t channels = c->decoder_channels;
    set_prefix(w, "hifigan_decoder.waveform_decoder.");
    add_layer(w, "conv_pre", channels, c->decoder_input_dim, 7, 0);
    add_layer(w, "cond_layer", channels, c->d_vector_dim, 1, 0);
    for (uint32_t i = 0; i < TD_XTTS_DECODER_STAGES; i++) {
        char name[32];
        set_prefix(w, "hifigan_decoder.waveform_decoder.");
        snprintf(name, sizeof name, "ups.%u", i);
        add_normed(w, name, channels, channels / 2, TAPS[i], channels / 2);
        channels /= 2;
        snprintf(name, sizeof name, "conds.%u", i);
        add_layer(w, name, channels, c->d_vector_dim, 1, 0);
        for (uint32_t k = 0; k < 2 * 3 * TD_XTTS_DECODER_RESBLOCKS; k++) {
            const uint32_t block = k / 6;
            set_prefix(w, "hifigan_decoder.waveform_decoder.resblocks.%u.",
                       TD_XTTS_DECODER_RESBLOCKS * i + block);
            snprintf(name, sizeof name, "convs%u.%u", k % 6 / 3 + 1, k % 3);
            add_normed(w, name, channels, channels, BLOCK_TAPS[block], channels);
        }
    }
    set_prefix(w, "hifigan_decoder.waveform_decoder.");
    add(w, "conv_post.weight", 1, channels, 7, 0);
}

/* ---------------------------------------------------------------- speaker encoder */

static void add_batch_norm(walk *w, const char *name, uint64_t channels)
{
    static const char *const FIELDS[] = {"weight", "bias", "running_mean", "running_var"};
    char full[LAYER_BYTES];
    for (size_t i = 0; i < sizeof FIELDS / sizeof *FIELDS; i++) {
        snprintf(full, sizeof full, "%s.%s", name, FIELDS[i]);
        add(w, full, channels, 0, 0, 0);
    }
    snprintf(full, sizeof full, "%s.num_batches_tracked", name);
    add_counter(w, full);
}

static void walk_speaker_block(walk *w, uint64_t from, uint64_t to, bool is_first_of_later)
{
    add(w, "conv1.weight", to, from, 3, 3);
    add_batch_norm(w, "bn1", to);
    add(w, "conv2.weight", to, to, 3, 3);
    add_batch_norm(w, "bn2", to);
    add_layer(w, "se.fc.0", to / TD_XTTS_SPEAKER_SQUEEZE, to, 0, 0);
    add_layer(w, "se.fc.2", to, to / TD_XTTS_SPEAKER_SQUEEZE, 0, 0);
    if (!is_first_of_later) return;
    add(w, "downsample.0.weight", to, from, 1, 1);
    add_batch_norm(w, "downsample.1", to);
}

static void walk_speaker(walk *w)
{
    const td_xtts *c = w->c;
    const uint32_t filters[] = {c->speaker_filters_1, c->speaker_filters_2, c->speaker_filters_3,
                                c->speaker_filters_4};
    const uint32_t blocks[] = {c->speaker_blocks_1, c->speaker_blocks_2, c->speaker_blocks_3,
                               c->speaker_blocks_4};
    const uint64_t pooled = (uint64_t)filters[3] * (c->speaker_mels / 8);
    uint64_t from = filters[0];
    set_prefix(w, "hifigan_decoder.speaker_encoder.");
    add_layer(w, "conv1", filters[0], 1, 3, 3);
    add_batch_norm(w, "bn1", filters[0]);
    add_layer(w, "attention.0", TD_XTTS_SPEAKER_ATTENTION, pooled, 1, 0);
    add_batch_norm(w, "attention.2", TD_XTTS_SPEAKER_ATTENTION);
    add_layer(w, "attention.3", pooled, TD_XTTS_SPEAKER_ATTENTION, 1, 0);
    add_layer(w, "fc", c->d_vector_dim, 2 * pooled, 0, 0);
    add(w, "torch_spec.0.filter", 1, 1, 2, 0);
    add(w, "torch_spec.1.spectrogram.window", TD_XTTS_SPEAKER_WINDOW, 0, 0, 0);
    add(w, "torch_spec.1.mel_scale.fb", TD_XTTS_SPEAKER_FFT / 2 + 1, c->speaker_mels, 0, 0);
    for (uint32_t i = 0; i < 4; i++) {
        for (uint32_t k = 0; k < blocks[i]; k++) {
            set_prefix(w, "hifigan_decoder.speaker_encoder.layer%u.%u.", i + 1, k);
            walk_speaker_block(w, from, filters[i], k == 0 && i > 0);
            from = filters[i];
        }
    }
}

/* ---------------------------------------------------------------- DVAE */

static void walk_dvae_blocks(walk *w, const char *side, uint32_t first, uint64_t width)
{
    for (uint32_t i = 0; i < w->c->dvae_blocks; i++) {
        set_prefix(w, "dvae.%s.%u.net.", side, first + i);
        add_layer(w, "0", width, width, 3, 0);
        add_layer(w, "2", width, width, 3, 0);
        add_layer(w, "4", width, width, 1, 0);
    }
}

static void walk_dvae(walk *w)
{
    const td_xtts *c = w->c;
    const uint64_t hidden = c->dvae_hidden, width = 2 * hidden, codes = td_xtts_codes(c);
    const uint32_t after = DVAE_LAYERS + c->dvae_blocks;
    char name[32];
    set_prefix(w, "dvae.");
    add_layer(w, "encoder.0.0", hidden, c->n_mels, 3, 0);
    add_layer(w, "encoder.1.0", width, hidden, 3, 0);
    snprintf(name, sizeof name, "encoder.%u", after);
    add_layer(w, name, c->dvae_codebook_dim, width, 1, 0);
    add_layer(w, "decoder.0", width, c->dvae_codebook_dim, 1, 0);
    snprintf(name, sizeof name, "decoder.%u.0.conv", c->dvae_blocks + 1);
    add_layer(w, name, width, width, 3, 0);
    snprintf(name, sizeof name, "decoder.%u.0.conv", c->dvae_blocks + 2);
    add_layer(w, name, hidden, width, 3, 0);
    snprintf(name, sizeof name, "decoder.%u", c->dvae_blocks + 3);
    add_layer(w, name, c->n_mels, hidden, 1, 0);
    add(w, "codebook.embed", c->dvae_codebook_dim, codes, 0, 0);
    add(w, "codebook.embed_avg", c->dvae_codebook_dim, codes, 0, 0);
    add(w, "codebook.cluster_size", codes, 0, 0, 0);
    walk_dvae_blocks(w, "encoder", DVAE_LAYERS, width);
    walk_dvae_blocks(w, "decoder", 1, width);
}

td_status td_xtts_walk(const td_xtts *c, td_xtts_visit *visit, void *context)
{
    walk w = {.c = c, .visit = visit, .context = context};
    walk_gpt(&w);
    walk_conditioning(&w);
    walk_vocoder(&w);
    walk_speaker(&w);
    set_prefix(&w, "%s", "");
    add(&w, "mel_stats", c->n_mels, 0, 0, 0);
    if (c->dvae_hidden > 0) walk_dvae(&w);
    return w.status;
}
