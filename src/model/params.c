/* The parameters of a model: names, shapes, groups and how each begins. One walk over the config gives the
 * list that graphs declare, stores keep and td_model_init fills. See docs/model.md. Covered by
 * tests/model/test_model_init.c. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"
#include "model/internal.h"

/* ---------------------------------------------------------------- the walk */

typedef struct walk {
    td_parameters *list;
    const td_model_config *c;
    td_status status; /* the first failure sticks */
} walk;

static td_parameter *add(walk *w, const char *prefix, const char *name, td_shape shape, td_init_rule rule,
                         uint32_t fan_in, td_param_group group)
{
    td_parameters *list = w->list;
    if (w->status == TD_OK)
        w->status = td_alloc_grow(&list->all, &list->capacity, list->n + 1, sizeof *list->all);
    if (w->status != TD_OK) return NULL;
    td_parameter *p = &list->all[list->n++];
    *p = (td_parameter){.shape = shape, .rule = rule, .fan_in = fan_in, .group = group};
    td_model_name(p->name, prefix, name, TD_MODEL_ONLY);
    memcpy(p->like, p->name, sizeof p->like);
    return p;
}

static void add_weights(walk *w, const char *prefix, td_shape shape, uint32_t fan_in)
{
    const uint32_t out = shape.dims[shape.n_dims - 1];
    add(w, prefix, "weight", shape, TD_INIT_UNIFORM, fan_in, TD_PARAM_DECAY);
    add(w, prefix, "bias", td_dims(out), TD_INIT_UNIFORM, fan_in, TD_PARAM_NO_DECAY);
}

static void add_linear(walk *w, const char *prefix, uint32_t in, uint32_t out)
{
    add_weights(w, prefix, td_dims(in, out), in);
}

static void add_conv(walk *w, const char *prefix, uint32_t taps, uint32_t in, uint32_t out)
{
    add_weights(w, prefix, td_dims(taps, in, out), taps * in);
}

static void add_norm(walk *w, const char *prefix, uint32_t width)
{
    add(w, prefix, "gamma", td_dims(width), TD_INIT_ONE, 0, TD_PARAM_NO_DECAY);
    add(w, prefix, "beta", td_dims(width), TD_INIT_ZERO, 0, TD_PARAM_NO_DECAY);
}

/* prefix and a part of it; valid to the end of the block that the call stands in. */
#define PART(prefix, ...) td_model_name((char[TD_MODEL_NAME_BYTES]){0}, (prefix), __VA_ARGS__)
#define ONLY TD_MODEL_ONLY

const char *td_model_name(char out[TD_MODEL_NAME_BYTES], const char *prefix, const char *part,
                          uint32_t number)
{
    const int used = number == ONLY ? snprintf(out, TD_MODEL_NAME_BYTES, "%s.%s", prefix, part)
                                    : snprintf(out, TD_MODEL_NAME_BYTES, "%s.%s%u", prefix, part, number);
    if (used < 0 || used >= TD_MODEL_NAME_BYTES) out[0] = '\0'; /* found nowhere */
    return out;
}

/* ---------------------------------------------------------------- parts */

/* Keys start as queries do, so that positions find themselves from the first step on. */
static void add_cross(walk *w, const char *prefix, uint32_t width, uint32_t memory)
{
    add_norm(w, PART(prefix, "norm", ONLY), width);
    add_linear(w, PART(prefix, "query", ONLY), width, width);
    const size_t key = w->list->n;
    add_linear(w, PART(prefix, "key", ONLY), memory, width);
    for (size_t i = key; memory == width && w->status == TD_OK && i < w->list->n; i++)
        memcpy(w->list->all[i].like, w->list->all[i - 2].name, TD_MODEL_NAME_BYTES);
    add_linear(w, PART(prefix, "value", ONLY), memory, width);
    add_linear(w, PART(prefix, "out", ONLY), width, width);
}

static void add_blocks(walk *w, const char *prefix, uint32_t layers, uint32_t width, uint32_t heads,
                       uint32_t kernel, uint32_t memory)
{
    const uint32_t inside = w->c->ff_factor * width;
    for (uint32_t i = 0; i < layers; i++) {
        char block[TD_MODEL_NAME_BYTES];
        td_model_name(block, prefix, "block.", i);
        if (heads) {
            add_norm(w, PART(block, "attention.norm", ONLY), width);
            add_linear(w, PART(block, "attention.qkv", ONLY), width, 3 * width);
            add_linear(w, PART(block, "attention.out", ONLY), width, width);
        }
        if (memory) add_cross(w, PART(block, "cross", ONLY), width, memory);
        add_norm(w, PART(block, "ff.norm", ONLY), width);
        add_conv(w, PART(block, "ff.conv1", ONLY), kernel, width, inside);
        add_conv(w, PART(block, "ff.conv2", ONLY), 1, inside, width);
    }
    add_norm(w, PART(prefix, "norm", ONLY), width);
}

static void add_predictor(walk *w, const char *prefix, uint32_t width)
{
    for (uint32_t i = 1; i <= 2; i++) {
        add_conv(w, PART(prefix, "conv", i), 3, width, width);
        add_norm(w, PART(prefix, "norm", i), width);
    }
    add_linear(w, PART(prefix, "out", ONLY), width, 1);
}

static void add_speaker(walk *w)
{
    const td_model_config *c = w->c;
    uint32_t in = c->n_mels;
    if (c->n_speakers)
        add(w, "speaker", "table", td_dims(c->n_speakers, c->speaker_width), TD_INIT_NORMAL, 0,
            TD_PARAM_NO_DECAY);
    for (uint32_t i = 1; c->speaker_encoder && i <= TD_AUDIO_LAYERS; i++) {
        const uint32_t out = c->audio_channels << (i - 1);
        add_conv(w, PART("audio", "conv", i), 3, in, out);
        add_norm(w, PART("audio", "norm", i), out);
        in = out;
    }
    if (c->speaker_encoder) {
        add_linear(w, "audio.input", in, c->audio_width);
        add_blocks(w, "audio", c->audio_layers, c->audio_width, c->audio_heads, c->kernel, 0);
        add_linear(w, "audio.out", c->audio_width, c->speaker_width);
    }
    if (!td_model_has_speaker(c)) return;
    add_linear(w, "speaker.text", c->speaker_width, c->text_width);
    add_linear(w, "speaker.decoder", c->speaker_width, c->decoder_width);
}

static void add_nar(walk *w)
{
    const td_model_config *c = w->c;
    add_predictor(w, "duration", c->text_width);
    if (c->pitch_predictor) {
        add_predictor(w, "pitch", c->text_width);
        add_linear(w, "pitch.embed", 1, c->text_width);
    }
    if (c->energy_predictor) {
        add_predictor(w, "energy", c->text_width);
        add_linear(w, "energy.embed", 1, c->text_width);
    }
    if (c->decoder_width != c->text_width) add_linear(w, "decoder.input", c->text_width, c->decoder_width);
    add_linear(w, "decoder.place", 3, c->decoder_width);
    add_blocks(w, "decoder", c->decoder_layers, c->decoder_width, c->decoder_heads, c->decoder_kernel, 0);
    add_linear(w, "decoder.out", c->decoder_width, c->n_mels);
}

static void add_ar(walk *w)
{
    const td_model_config *c = w->c;
    add_linear(w, "decoder.prenet1", c->n_mels, 2 * c->prenet_width);
    add_linear(w, "decoder.prenet2", 2 * c->prenet_width, c->prenet_width);
    add_linear(w, "decoder.prenet3", c->prenet_width, c->decoder_width);
    add_blocks(w, "decoder", c->decoder_layers, c->decoder_width, c->decoder_heads, c->decoder_kernel,
               c->text_width);
    add_linear(w, "decoder.out", c->decoder_width, c->reduction * c->n_mels);
    add_linear(w, "decoder.stop", c->decoder_width, 1);
    if (!c->postnet) return;
    add_conv(w, "postnet.conv1", TD_POSTNET_TAPS, c->n_mels, c->text_width);
    add_conv(w, "postnet.conv2", TD_POSTNET_TAPS, c->text_width, c->text_width);
    add_conv(w, "postnet.conv3", TD_POSTNET_TAPS, c->text_width, c->n_mels);
}

td_status td_model_list(const td_model_config *config, td_parameters *out)
{
    walk w = {.list = out, .c = config};
    *out = (td_parameters){0};
    add(&w, "text", "embedding", td_dims(config->n_symbols, config->text_width), TD_INIT_NORMAL, 0,
        TD_PARAM_NO_DECAY);
    add_blocks(&w, "text", config->text_layers, config->text_width, config->text_heads, config->kernel, 0);
    add_speaker(&w);
    add_linear(&w, "prior", config->text_width, config->n_mels);
    if (config->decoder_strategy == TD_AUTOREGRESSIVE)
        add_ar(&w);
    else
        add_nar(&w);
    if (w.status != TD_OK) {
        free(out->all);
        *out = (td_parameters){0};
    }
    return w.status;
}

td_status td_model_count(const td_model_config *config, uint64_t *parameters)
{
    td_parameters list = {0};
    td_status status = TD_OK;
    *parameters = 0;
    TD_TRY(td_model_config_check(config));
    TD_TRY(td_model_list(config, &list));
    for (size_t i = 0; i < list.n; i++)
        *parameters += td_shape_size(list.all[i].shape);
fail:
    free(list.all);
    return status;
}

/* ---------------------------------------------------------------- first values */

static void draw(const td_parameter *p, uint64_t seed, uint64_t n, float *values)
{
    const uint64_t stream = td_hash64(p->like, strlen(p->like));
    const float bound = p->fan_in ? 1.0f / sqrtf((float)p->fan_in) : 0;
    for (uint64_t i = 0; i < n; i++) {
        switch (p->rule) {
        case TD_INIT_UNIFORM:
            values[i] = bound * (2 * td_rng_float(seed, stream, i) - 1);
            break;
        case TD_INIT_NORMAL:
            values[i] = 0.5f * td_rng_normal(seed, stream, i);
            break;
        case TD_INIT_ONE:
            values[i] = 1;
            break;
        case TD_INIT_ZERO:
            values[i] = 0;
            break;
        }
    }
}

static const td_parameter *find(const td_parameters *list, const char *name)
{
    for (size_t i = 0; i < list->n; i++) {
        if (strcmp(list->all[i].name, name) == 0) return &list->all[i];
    }
    return NULL;
}

td_status td_model_init_values(const td_model_config *config, const char *name, td_shape shape, uint64_t seed,
                               float *values)
{
    td_parameters list = {0};
    td_status status = TD_OK;
    TD_TRY(td_model_list(config, &list));
    const td_parameter *p = find(&list, name);
    TD_FAIL_IF(!p, TD_ERR_NOT_FOUND, "this model has no parameter %.64s", name);
    draw(p, seed, td_shape_size(shape), values);
fail:
    free(list.all);
    return status;
}

td_status td_model_init(td_store *store, const td_model_config *config, uint64_t seed)
{
    td_parameters list = {0};
    float *values = NULL;
    td_status status = TD_OK;
    TD_TRY(td_model_list(config, &list));
    for (size_t i = 0; i < td_store_count(store); i++) {
        const td_store_entry entry = td_store_get(store, i);
        const td_parameter *p = find(&list, entry.name);
        const uint64_t n = td_shape_size(entry.shape);
        if (entry.role != TD_TENSOR_PARAMETER) continue;
        TD_FAIL_IF(!p || td_shape_size(p->shape) != n, TD_ERR_ARGUMENT,
                   "the store's %.64s is not of this model; make the store from a graph of the same config",
                   entry.name);
        TD_TRY(TD_NEW_ARRAY(&values, n));
        draw(p, seed, n, values);
        TD_TRY(td_store_write(store, i, TD_BLOCK_WEIGHT, values));
        free(values);
        values = NULL;
    }
    TD_TRY(td_model_init_constants(store, config));
fail:
    free(values);
    free(list.all);
    return status;
}

/* ---------------------------------------------------------------- positions */

/* values [rows, width]: sin and cos of p * rate * 10000^(-2i / width), side by side. */
static void fill_positions(float *values, uint32_t rows, uint32_t width, double rate)
{
    for (uint32_t i = 0; i < width / 2; i++) {
        const double frequency = exp(-2.0 * i * log(10000.0) / width);
        for (uint32_t p = 0; p < rows; p++) {
            float *at = values + (size_t)p * width + (size_t)2 * i;
            at[0] = (float)sin(p * rate * frequency);
            at[1] = (float)cos(p * rate * frequency);
        }
    }
}

td_status td_model_init_constants(td_store *store, const td_model_config *config)
{
    float *values = NULL;
    td_status status = TD_OK;
    for (size_t i = 0; i < td_store_count(store); i++) {
        const td_store_entry entry = td_store_get(store, i);
        if (strncmp(entry.name, "constant.", 9) != 0) continue;
        const bool scaled = strcmp(entry.name, "constant.query_positions") == 0;
        TD_TRY(TD_NEW_ARRAY(&values, td_shape_size(entry.shape)));
        fill_positions(values, entry.shape.dims[0], entry.shape.dims[1],
                       scaled ? (double)config->attention_rate : 1);
        TD_TRY(td_store_write(store, i, TD_BLOCK_WEIGHT, values));
        free(values);
        values = NULL;
    }
fail:
    free(values);
    return status;
}
