/* See mel_config.h. One table names the keys for writing and reading. */
#include "audio/mel_config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "kernels/audio_geometry.h"

typedef enum kind { KIND_UINT, KIND_FLOAT, KIND_BOOL, KIND_SCALE } kind;

typedef struct key {
    const char *name;
    kind kind;
    size_t offset;
} key;

#define KEY(name_, kind_)                                                                                    \
    {                                                                                                        \
#name_, kind_, offsetof(td_mel_config, name_)                                                        \
    }
static const key KEYS[] = {
    KEY(rate, KIND_UINT),        KEY(n_fft, KIND_UINT),         KEY(hop_samples, KIND_UINT),
    KEY(win_samples, KIND_UINT), KEY(n_mels, KIND_UINT),        KEY(fmin_hz, KIND_FLOAT),
    KEY(fmax_hz, KIND_FLOAT),    KEY(mel_scale, KIND_SCALE),    KEY(area_norm, KIND_BOOL),
    KEY(power, KIND_BOOL),       KEY(floor, KIND_FLOAT),        KEY(mean, KIND_FLOAT),
    KEY(scale, KIND_FLOAT),      KEY(pitch_min_hz, KIND_FLOAT), KEY(pitch_max_hz, KIND_FLOAT),
};
enum { N_KEYS = sizeof KEYS / sizeof *KEYS };

td_mel_config td_mel_config_default(void)
{
    return (td_mel_config){.rate = 22050,
                           .n_fft = 1024,
                           .hop_samples = 256,
                           .win_samples = 1024,
                           .n_mels = 80,
                           .fmin_hz = 0,
                           .fmax_hz = 8000,
                           .mel_scale = TD_MEL_SLANEY,
                           .area_norm = true,
                           .power = false,
                           .floor = 1e-5f,
                           .mean = -5.6f,
                           .scale = 3,
                           .pitch_min_hz = 60,
                           .pitch_max_hz = 500};
}

td_mel_config td_mel_config_torch(void)
{
    td_mel_config c = td_mel_config_default();
    c.mel_scale = TD_MEL_HTK;
    c.power = true;
    c.mean = 0;
    c.scale = 1;
    return c;
}

/* A comparison with NaN is false, so that each is written as what must hold. */
td_status td_mel_config_check(const td_mel_config *c)
{
    TD_REFUSE_IF(c->rate < 1000 || c->rate > 384000, TD_ERR_CONFIG,
                 "mel: rate is %u but must be 1000 to 384000", c->rate);
    TD_REFUSE_IF(c->n_fft != 512 && c->n_fft != 1024 && c->n_fft != 2048, TD_ERR_CONFIG,
                 "mel: n_fft is %u but must be 512, 1024 or 2048", c->n_fft);
    TD_REFUSE_IF(c->win_samples < 2 || c->win_samples > c->n_fft, TD_ERR_CONFIG,
                 "mel: win_samples is %u but must be 2 to n_fft, %u", c->win_samples, c->n_fft);
    TD_REFUSE_IF(c->hop_samples < 1 || c->hop_samples > c->win_samples, TD_ERR_CONFIG,
                 "mel: hop_samples is %u but must be 1 to win_samples, %u", c->hop_samples, c->win_samples);
    TD_REFUSE_IF(c->n_mels < 1 || c->n_mels > TD_MEL_MAX_BANDS, TD_ERR_CONFIG,
                 "mel: n_mels is %u but must be 1 to %u", c->n_mels, TD_MEL_MAX_BANDS);
    TD_REFUSE_IF(!(c->fmin_hz >= 0 && c->fmin_hz < c->fmax_hz && c->fmax_hz <= 0.5f * (float)c->rate),
                 TD_ERR_CONFIG,
                 "mel: bands from %g to %g Hz, but it must be 0 <= fmin_hz < fmax_hz <= rate / 2, %g",
                 (double)c->fmin_hz, (double)c->fmax_hz, 0.5 * c->rate);
    TD_REFUSE_IF(!(c->floor >= 1e-30f && c->floor <= 1), TD_ERR_CONFIG,
                 "mel: floor is %g but must be 1e-30 to 1", (double)c->floor);
    TD_REFUSE_IF(!(fabsf(c->mean) <= 1e6f), TD_ERR_CONFIG, "mel: mean is %g but must be -1e6 to 1e6",
                 (double)c->mean);
    TD_REFUSE_IF(!(c->scale >= 1e-6f && c->scale <= 1e6f), TD_ERR_CONFIG,
                 "mel: scale is %g but must be 1e-6 to 1e6", (double)c->scale);
    TD_REFUSE_IF(!(c->pitch_min_hz < c->pitch_max_hz && c->pitch_max_hz <= 0.25f * (float)c->rate &&
                   c->pitch_min_hz * (float)(TD_PITCH_MAX_LAG - 1) > (float)c->rate),
                 TD_ERR_CONFIG, "mel: pitch from %g to %g Hz, but it must be above %g and at most rate / 4",
                 (double)c->pitch_min_hz, (double)c->pitch_max_hz, (double)c->rate / (TD_PITCH_MAX_LAG - 1));
    return TD_OK;
}

/* ---------------------------------------------------------------- text */

static void format_value(const td_mel_config *config, const key *k, char out[TD_TEXT_FORMAT_BYTES])
{
    const char *at = (const char *)config + k->offset;
    switch (k->kind) {
    case KIND_UINT:
        snprintf(out, TD_TEXT_FORMAT_BYTES, "%u", *(const uint32_t *)(const void *)at);
        break;
    case KIND_FLOAT:
        snprintf(out, TD_TEXT_FORMAT_BYTES, "%.9g", (double)*(const float *)(const void *)at);
        break;
    case KIND_BOOL:
        snprintf(out, TD_TEXT_FORMAT_BYTES, "%s", *(const bool *)at ? "true" : "false");
        break;
    case KIND_SCALE:
        snprintf(out, TD_TEXT_FORMAT_BYTES, "%s", config->mel_scale == TD_MEL_HTK ? "htk" : "slaney");
        break;
    }
}

void td_mel_config_format(const td_mel_config *config, char out[TD_MEL_CONFIG_TEXT_BYTES])
{
    size_t used = 0;
    out[0] = 0;
    for (size_t i = 0; i < N_KEYS; i++) {
        char value[TD_TEXT_FORMAT_BYTES];
        format_value(config, &KEYS[i], value);
        used += (size_t)snprintf(out + used, TD_MEL_CONFIG_TEXT_BYTES - used, "%s=%s\n", KEYS[i].name, value);
    }
}

static td_status parse_value(td_mel_config *config, const key *k, const char *text)
{
    char *at = (char *)config + k->offset;
    uint64_t whole = 0;
    double number = 0;
    switch (k->kind) {
    case KIND_UINT:
        TD_CHECK(td_text_parse_u64(text, &whole));
        TD_REFUSE_IF(whole > UINT32_MAX, TD_ERR_CONFIG, "%s is too large", text);
        *(uint32_t *)(void *)at = (uint32_t)whole;
        break;
    case KIND_FLOAT:
        TD_CHECK(td_text_parse_double(text, &number));
        TD_REFUSE_IF(!(fabs(number) <= 1e30), TD_ERR_CONFIG, "%s is too large", text);
        *(float *)(void *)at = (float)number;
        break;
    case KIND_BOOL:
        TD_REFUSE_IF(strcmp(text, "true") != 0 && strcmp(text, "false") != 0, TD_ERR_CONFIG,
                     "%s is neither true nor false", text);
        *(bool *)at = text[0] == 't';
        break;
    case KIND_SCALE:
        TD_REFUSE_IF(strcmp(text, "slaney") != 0 && strcmp(text, "htk") != 0, TD_ERR_CONFIG,
                     "%s is neither slaney nor htk", text);
        config->mel_scale = text[0] == 'h' ? TD_MEL_HTK : TD_MEL_SLANEY;
        break;
    }
    return TD_OK;
}

static td_status parse_line(td_mel_config *config, char *line, bool *is_known)
{
    char *value = strchr(line, '=');
    td_status status = TD_OK;
    TD_FAIL_IF(!value, TD_ERR_CONFIG, "\"%s\" is not key=value", line);
    *value++ = 0;
    for (size_t i = 0; i < N_KEYS; i++) {
        if (strcmp(KEYS[i].name, line) != 0) continue;
        TD_FAIL_IF(is_known[i], TD_ERR_CONFIG, "%s is given twice", line);
        is_known[i] = true;
        status = parse_value(config, &KEYS[i], value);
        return status == TD_OK ? TD_OK : td_error_context("%s", line);
    }
    status = TD_FAIL(TD_ERR_CONFIG, "unknown key \"%s\"", line);
fail:
    return status;
}

td_status td_mel_config_parse(const char *text, td_mel_config *out)
{
    bool is_known[N_KEYS] = {false};
    td_mel_config config = {0};
    td_status status = TD_OK;
    for (size_t number = 1; *text; number++) {
        const size_t length = strcspn(text, "\n");
        char line[128];
        TD_FAIL_IF(length >= sizeof line, TD_ERR_CONFIG, "mel settings, line %zu is too long", number);
        memcpy(line, text, length);
        line[length] = 0;
        text += length + (text[length] != 0);
        if (length == 0) continue;
        status = parse_line(&config, line, is_known);
        if (status != TD_OK) return td_error_context("mel settings, line %zu", number);
    }
    for (size_t i = 0; i < N_KEYS; i++)
        TD_FAIL_IF(!is_known[i], TD_ERR_CONFIG, "mel settings: %s is missing", KEYS[i].name);
    TD_TRY(td_mel_config_check(&config));
    *out = config;
fail:
    return status;
}

bool td_mel_config_differ(const td_mel_config *a, const td_mel_config *b,
                          char a_line[TD_MEL_CONFIG_LINE_BYTES], char b_line[TD_MEL_CONFIG_LINE_BYTES])
{
    char a_text[TD_MEL_CONFIG_TEXT_BYTES], b_text[TD_MEL_CONFIG_TEXT_BYTES];
    size_t at = 0;
    td_mel_config_format(a, a_text);
    td_mel_config_format(b, b_text);
    if (strcmp(a_text, b_text) == 0) return false;
    while (a_text[at] == b_text[at])
        at++;
    while (at > 0 && a_text[at - 1] != '\n')
        at--;
    snprintf(a_line, TD_MEL_CONFIG_LINE_BYTES, "%.*s", (int)strcspn(a_text + at, "\n"), a_text + at);
    snprintf(b_line, TD_MEL_CONFIG_LINE_BYTES, "%.*s", (int)strcspn(b_text + at, "\n"), b_text + at);
    return true;
}

/* ---------------------------------------------------------------- what follows from it */

uint32_t td_mel_frames(const td_mel_config *config, uint64_t samples)
{
    return samples > 0 ? (uint32_t)(1 + samples / config->hop_samples) : 0;
}

float td_mel_pad_value(const td_mel_config *config)
{
    return (logf(config->floor) - config->mean) / config->scale;
}
