/* The keys of a model as a table, and the presets. See config.h. Covered by tests/model/test_model_config.c.
 */
#include "model/config.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

/* ---------------------------------------------------------------- the table */

typedef enum key_type { KEY_count, KEY_number, KEY_flag, KEY_strategy } key_type;

typedef struct model_key {
    const char *name, *help;
    size_t offset;
    double least, most;
    key_type type;
    bool is_shape;
} model_key;

#define MODEL_KEY(type, key, least, most, is_shape, help)                                                    \
    {#key, help, offsetof(td_model_config, key), least, most, KEY_##type, is_shape},
static const model_key keys[] = {TD_MODEL_KEYS(MODEL_KEY)};
#undef MODEL_KEY

#define KEYS (sizeof keys / sizeof *keys)

static const char *const strategy_names[TD_STRATEGIES] = {
    [TD_NON_AUTOREGRESSIVE] = "non_autoregressive",
    [TD_AUTOREGRESSIVE] = "autoregressive",
};

size_t td_model_key_count(void)
{
    return KEYS;
}

const char *td_model_key_name(size_t i)
{
    return keys[i].name;
}

const char *td_model_key_help(size_t i)
{
    return keys[i].help;
}

static double get_number(const td_model_config *config, const model_key *key)
{
    const char *at = (const char *)config + key->offset;
    switch (key->type) {
    case KEY_count:
        return (double)*(const uint32_t *)(const void *)at;
    case KEY_number:
        return (double)*(const float *)(const void *)at;
    case KEY_flag:
        return *(const bool *)(const void *)at ? 1 : 0;
    case KEY_strategy:
        break;
    }
    return (double)*(const td_strategy *)(const void *)at;
}

static void put_number(td_model_config *config, const model_key *key, double value)
{
    char *at = (char *)config + key->offset;
    switch (key->type) {
    case KEY_count:
        *(uint32_t *)(void *)at = (uint32_t)value;
        break;
    case KEY_number:
        *(float *)(void *)at = (float)value;
        break;
    case KEY_flag:
        *(bool *)(void *)at = value != 0;
        break;
    case KEY_strategy:
        *(td_strategy *)(void *)at = (td_strategy)value;
        break;
    }
}

/* ---------------------------------------------------------------- text */

/* The shortest digits that read back as the same float. */
static void format_float(double value, char out[TD_MODEL_VALUE_BYTES])
{
    for (int digits = 1; digits <= 9; digits++) {
        double back = 0;
        snprintf(out, TD_MODEL_VALUE_BYTES, "%.*g", digits, value);
        if (td_text_parse_double(out, &back) == TD_OK && (float)back == (float)value) return;
    }
}

void td_model_config_get(const td_model_config *config, size_t key, char out[TD_MODEL_VALUE_BYTES])
{
    const double value = get_number(config, &keys[key]);
    switch (keys[key].type) {
    case KEY_count:
        snprintf(out, TD_MODEL_VALUE_BYTES, "%.0f", value);
        break;
    case KEY_number:
        format_float(value, out);
        break;
    case KEY_flag:
        snprintf(out, TD_MODEL_VALUE_BYTES, "%s", value != 0 ? "true" : "false");
        break;
    case KEY_strategy:
        snprintf(out, TD_MODEL_VALUE_BYTES, "%s",
                 strategy_names[value == TD_AUTOREGRESSIVE ? TD_AUTOREGRESSIVE : TD_NON_AUTOREGRESSIVE]);
        break;
    }
}

static td_status find_key(const char *name, const model_key **out)
{
    const char *names[KEYS];
    td_status status = TD_OK;
    for (size_t i = 0; i < KEYS; i++) {
        names[i] = keys[i].name;
        *out = &keys[i];
        if (strcmp(name, keys[i].name) == 0) return TD_OK;
    }
    const char *nearest = td_text_nearest(name, names, KEYS);
    TD_FAIL_IF(true, TD_ERR_CONFIG, "a model has no key \"%.60s\"%s%s", name,
               nearest ? "; did you mean " : "", nearest ? nearest : "");
fail:
    return status;
}

static bool parse_word(const model_key *key, const char *text, double *out)
{
    const char *const words[] = {key->type == KEY_flag ? "false" : strategy_names[0],
                                 key->type == KEY_flag ? "true" : strategy_names[1]};
    for (int i = 0; i < 2; i++) {
        *out = i;
        if (strcmp(text, words[i]) == 0) return true;
    }
    return false;
}

static td_status check_range(const model_key *key, double value)
{
    td_status status = TD_OK;
    TD_FAIL_IF(!(value >= key->least && value <= key->most), TD_ERR_CONFIG,
               "model.%s is %g, but can be from %g to %g (%s)", key->name, value, key->least, key->most,
               key->help);
fail:
    return status;
}

td_status td_model_config_put(td_model_config *config, const char *name, const char *text)
{
    const model_key *key = NULL;
    double value = 0;
    uint64_t whole = 0;
    td_status status = TD_OK;
    TD_TRY(find_key(name, &key));
    switch (key->type) {
    case KEY_count:
        TD_FAIL_IF(td_text_parse_u64(text, &whole) != TD_OK, TD_ERR_CONFIG,
                   "model.%s is \"%.40s\", but must be a whole number from %g to %g", key->name, text,
                   key->least, key->most);
        value = (double)whole;
        break;
    case KEY_number:
        TD_FAIL_IF(td_text_parse_double(text, &value) != TD_OK, TD_ERR_CONFIG,
                   "model.%s is \"%.40s\", but must be a number from %g to %g", key->name, text, key->least,
                   key->most);
        break;
    default:
        TD_FAIL_IF(!parse_word(key, text, &value), TD_ERR_CONFIG, "model.%s is \"%.40s\", but can be %s",
                   key->name, text,
                   key->type == KEY_flag ? "true or false" : "non_autoregressive or autoregressive");
    }
    TD_TRY(check_range(key, value));
    put_number(config, key, value);
fail:
    return status;
}

size_t td_model_config_differ(const td_model_config *a, const td_model_config *b)
{
    size_t i = 0;
    while (i < KEYS && (!keys[i].is_shape || get_number(a, &keys[i]) == get_number(b, &keys[i])))
        i++;
    return i;
}

/* ---------------------------------------------------------------- checks */

static td_status check_heads(const char *part, uint32_t width, uint32_t heads)
{
    const uint32_t size = heads ? width / heads : 0;
    td_status status = TD_OK;
    if (heads == 0) return TD_OK;
    TD_FAIL_IF(width % heads || (size != 32 && size != 64 && size != 96 && size != 128), TD_ERR_CONFIG,
               "model.%s_heads is %u for a width of %u, but a head must have 32, 64, 96 or 128 channels",
               part, heads, width);
fail:
    return status;
}

td_status td_model_config_check(const td_model_config *c)
{
    td_status status = TD_OK;
    for (size_t i = 0; i < KEYS; i++)
        TD_TRY(check_range(&keys[i], get_number(c, &keys[i])));
    TD_TRY(check_heads("text", c->text_width, c->text_heads));
    TD_TRY(check_heads("audio", c->audio_width, c->audio_heads));
    TD_TRY(check_heads("decoder", c->decoder_width, c->decoder_heads));
    TD_FAIL_IF(c->kernel % 2 == 0, TD_ERR_CONFIG, "model.kernel is %u, but must be odd", c->kernel);
    TD_FAIL_IF(c->decoder_kernel % 2 == 0, TD_ERR_CONFIG, "model.decoder_kernel is %u, but must be odd",
               c->decoder_kernel);
    TD_FAIL_IF(c->text_width % 2 || c->decoder_width % 2, TD_ERR_CONFIG,
               "model.text_width and decoder_width must be even, for the positions");
    if (c->decoder_strategy == TD_NON_AUTOREGRESSIVE) return TD_OK;
    TD_FAIL_IF(c->decoder_heads == 0, TD_ERR_CONFIG,
               "model.decoder_heads is 0, but an autoregressive decoder needs self-attention");
    TD_FAIL_IF(c->decoder_kernel != 1, TD_ERR_CONFIG,
               "model.decoder_kernel is %u, but must be 1 in an autoregressive decoder", c->decoder_kernel);
fail:
    return status;
}

/* ---------------------------------------------------------------- presets */

typedef struct preset {
    const char *name;
    uint32_t text[3], audio[3], decoder[3]; /* width, layers, heads */
    uint32_t ff_factor, audio_channels, speaker_width, prenet_width;
    bool rich; /* speaker encoder, pitch, energy, post-net, dropout */
} preset;

static const preset presets[] = {
    {"pico", {32, 2, 1}, {32, 1, 1}, {32, 2, 1}, 2, 8, 16, 16, false},
    {"nano", {128, 3, 0}, {128, 2, 0}, {128, 3, 0}, 3, 32, 128, 128, false},
    {"tiny", {256, 4, 4}, {256, 4, 4}, {768, 8, 12}, 4, 64, 256, 256, true},
    {"small", {384, 6, 6}, {512, 6, 8}, {1024, 12, 16}, 4, 64, 320, 256, true},
    {"base", {512, 8, 8}, {768, 8, 12}, {1536, 16, 24}, 4, 64, 512, 256, true},
    {"big", {768, 10, 12}, {1024, 10, 16}, {2048, 20, 32}, 4, 64, 640, 256, true},
};

static const preset *find_preset(const char *name)
{
    if (strcmp(name, "normal") == 0) name = "base";
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        if (strcmp(presets[i].name, name) == 0) return &presets[i];
    }
    return NULL;
}

/* nano has heads only where the autoregressive decoder cannot do without. */
static uint32_t heads_of(const uint32_t part[3], bool sequential)
{
    return part[2] == 0 && sequential ? part[0] / 64 : part[2];
}

td_status td_model_preset(const char *name, td_strategy strategy, td_model_config *out)
{
    const preset *p = find_preset(name);
    const bool sequential = strategy == TD_AUTOREGRESSIVE;
    td_status status = TD_OK;
    TD_FAIL_IF(!p, TD_ERR_CONFIG,
               "there is no model size \"%.40s\"; choose pico, nano, tiny, small, base or big", name);
    *out = (td_model_config){.decoder_strategy = strategy,
                             .n_symbols = 64,
                             .n_mels = 80,
                             .text_width = p->text[0],
                             .text_layers = p->text[1],
                             .text_heads = heads_of(p->text, sequential),
                             .audio_width = p->audio[0],
                             .audio_layers = p->audio[1],
                             .audio_heads = p->audio[2],
                             .audio_channels = p->audio_channels,
                             .decoder_width = p->decoder[0],
                             .decoder_layers = p->decoder[1],
                             .decoder_heads = heads_of(p->decoder, sequential),
                             .ff_factor = p->ff_factor,
                             .kernel = 3,
                             .decoder_kernel = sequential ? 1 : 3,
                             .speaker_encoder = p->rich,
                             .speaker_width = p->speaker_width,
                             .pitch_predictor = p->rich && !sequential,
                             .energy_predictor = p->rich && !sequential,
                             .reduction = 2,
                             .prenet_width = p->prenet_width,
                             .postnet = p->rich,
                             .dropout = p->rich ? 0.1f : 0,
                             .prenet_dropout = 0.5f,
                             .frame_dropout = 0.2f,
                             .input_noise = 0.1f,
                             .attention_rate = 0.33f,
                             .max_tokens = 512,
                             .max_frames = 2048};
fail:
    return status;
}
