/* Values of a family's keys: as text and back, in range, alike. See family.h. Covered by
 * tests/model/test_model_config.c. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "families/family.h"

enum { MAX_KEYS = 96 };

/* ---------------------------------------------------------------- values */

static double get_number(const td_model_config *config, const td_model_key *key)
{
    const unsigned char *at = config->values.bytes + key->offset;
    uint32_t count;
    float number;
    bool flag;
    switch (key->type) {
    case TD_KEY_NUMBER:
        memcpy(&number, at, sizeof number);
        return (double)number;
    case TD_KEY_FLAG:
        memcpy(&flag, at, sizeof flag);
        return flag ? 1 : 0;
    case TD_KEY_COUNT:
    case TD_KEY_CHOICE:
    case TD_KEY_SET:
        break;
    }
    memcpy(&count, at, sizeof count);
    return (double)count;
}

static void put_number(td_model_config *config, const td_model_key *key, double value)
{
    unsigned char *at = config->values.bytes + key->offset;
    const uint32_t count = key->type == TD_KEY_NUMBER ? 0 : (uint32_t)value;
    const float number = (float)value;
    const bool flag = value != 0;
    switch (key->type) {
    case TD_KEY_NUMBER:
        memcpy(at, &number, sizeof number);
        break;
    case TD_KEY_FLAG:
        memcpy(at, &flag, sizeof flag);
        break;
    case TD_KEY_COUNT:
    case TD_KEY_CHOICE:
    case TD_KEY_SET:
        memcpy(at, &count, sizeof count);
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

/* Choice i of "a|b|c"; its bytes, 0 behind the last. */
static size_t find_choice(const char *choices, uint32_t i, const char **out)
{
    while (i > 0 && *choices) {
        choices += strcspn(choices, "|");
        choices += *choices == '|';
        i--;
    }
    *out = choices;
    return strcspn(choices, "|");
}

/* "a,c" of "a|b|c" and the bits 1 and 4. */
static void format_set(const char *choices, uint32_t bits, char out[TD_MODEL_VALUE_BYTES])
{
    const char *word;
    size_t bytes, used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; (bytes = find_choice(choices, i, &word)) > 0 && used < TD_MODEL_VALUE_BYTES; i++)
        if (bits >> i & 1)
            used += (size_t)snprintf(out + used, TD_MODEL_VALUE_BYTES - used, "%s%.*s", used ? "," : "",
                                     (int)bytes, word);
}

void td_model_config_get(const td_model_config *config, size_t i, char out[TD_MODEL_VALUE_BYTES])
{
    const td_model_key *key = &config->family->keys[i];
    const double value = get_number(config, key);
    const char *word = value != 0 ? "true" : "false";
    size_t bytes = strlen(word);
    switch (key->type) {
    case TD_KEY_COUNT:
        snprintf(out, TD_MODEL_VALUE_BYTES, "%.0f", value);
        return;
    case TD_KEY_NUMBER:
        format_float(value, out);
        return;
    case TD_KEY_SET:
        format_set(key->choices, (uint32_t)value, out);
        return;
    case TD_KEY_CHOICE:
        bytes = find_choice(key->choices, (uint32_t)value, &word);
        break;
    case TD_KEY_FLAG:
        break;
    }
    snprintf(out, TD_MODEL_VALUE_BYTES, "%.*s", (int)bytes, word);
}

static td_status find_key(const td_family *family, const char *name, const td_model_key **out)
{
    const char *names[MAX_KEYS];
    for (size_t i = 0; i < family->n_keys; i++) {
        names[i] = family->keys[i].name;
        *out = &family->keys[i];
        if (strcmp(name, names[i]) == 0) return TD_OK;
    }
    const char *nearest = td_text_nearest(name, names, family->n_keys);
    return TD_FAIL(TD_ERR_CONFIG, "a model of family %s has no key \"%.60s\"%s%s", family->name, name,
                   nearest ? "; did you mean " : "", nearest ? nearest : "");
}

static td_status check_range(const td_model_key *key, double value)
{
    TD_REFUSE_IF(!(value >= key->least && value <= key->most), TD_ERR_CONFIG,
                 "%s.%s is %g, but can be from %g to %g (%s)", key->section, key->name, value, key->least,
                 key->most, key->help);
    return TD_OK;
}

static bool parse_choice(const char *choices, const char *text, double *out)
{
    const char *word;
    size_t bytes;
    for (uint32_t i = 0; (bytes = find_choice(choices, i, &word)) > 0; i++) {
        *out = i;
        if (strlen(text) == bytes && strncmp(text, word, bytes) == 0) return true;
    }
    return false;
}

/* Words of the choices, separated by commas; at least one. */
static bool parse_set(const char *choices, const char *text, double *out)
{
    uint32_t bits = 0;
    do {
        char word[TD_MODEL_VALUE_BYTES];
        double which;
        text += strspn(text, " ");
        const size_t bytes = strcspn(text, ", ");
        snprintf(word, sizeof word, "%.*s", (int)bytes, text);
        if (!parse_choice(choices, word, &which)) return false;
        bits |= UINT32_C(1) << (uint32_t)which;
        text += bytes;
        text += strspn(text, " ");
        if (*text != ',' && *text != '\0') return false;
    } while (*text++ == ',');
    *out = bits;
    return true;
}

static td_status parse_value(const td_model_key *key, const char *text, double *out)
{
    const bool is_flag = key->type == TD_KEY_FLAG;
    uint64_t whole = 0;
    switch (key->type) {
    case TD_KEY_COUNT:
        TD_REFUSE_IF(td_text_parse_u64(text, &whole) != TD_OK, TD_ERR_CONFIG,
                     "%s.%s is \"%.40s\", but must be a whole number from %g to %g", key->section, key->name,
                     text, key->least, key->most);
        *out = (double)whole;
        break;
    case TD_KEY_NUMBER:
        TD_REFUSE_IF(td_text_parse_double(text, out) != TD_OK, TD_ERR_CONFIG,
                     "%s.%s is \"%.40s\", but must be a number from %g to %g", key->section, key->name, text,
                     key->least, key->most);
        break;
    case TD_KEY_SET:
        TD_REFUSE_IF(!parse_set(key->choices, text, out), TD_ERR_CONFIG,
                     "%s.%s is \"%.40s\", but can be any of %s, separated by commas", key->section, key->name,
                     text, key->choices);
        break;
    case TD_KEY_FLAG:
    case TD_KEY_CHOICE:
        TD_REFUSE_IF(!parse_choice(is_flag ? "false|true" : key->choices, text, out), TD_ERR_CONFIG,
                     "%s.%s is \"%.40s\", but can be %s", key->section, key->name, text,
                     is_flag ? "true or false" : key->choices);
    }
    return TD_OK;
}

td_status td_model_config_put(td_model_config *config, const char *name, const char *text)
{
    const td_model_key *key = NULL;
    double value = 0;
    TD_CHECK(find_key(config->family, name, &key));
    TD_CHECK(parse_value(key, text, &value));
    if (!key->choices) TD_CHECK(check_range(key, value));
    put_number(config, key, value);
    return TD_OK;
}

/* ---------------------------------------------------------------- whole configs */

size_t td_model_config_differ(const td_model_config *a, const td_model_config *b)
{
    const td_family *family = a->family;
    size_t i = 0;
    while (i < family->n_keys &&
           (!family->keys[i].is_shape || get_number(a, &family->keys[i]) == get_number(b, &family->keys[i])))
        i++;
    return i;
}

td_status td_model_config_check(const td_model_config *config)
{
    const td_family *family = config->family;
    for (size_t i = 0; i < family->n_keys; i++) {
        if (!family->keys[i].choices)
            TD_CHECK(check_range(&family->keys[i], get_number(config, &family->keys[i])));
    }
    if (family->check) TD_CHECK(family->check(&config->values));
    return TD_OK;
}

td_status td_model_preset(const td_family *family, const char *name, td_model_config *out)
{
    static const char *const NAMES[] = {"pico", "nano", "tiny", "small", "base", "big"};
    const char *wanted = strcmp(name, "normal") == 0 ? "base" : name;
    *out = (td_model_config){.family = family};
    for (uint32_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        if (strcmp(NAMES[i], wanted) != 0) continue;
        family->preset(i, &out->values);
        return TD_OK;
    }
    return TD_FAIL(TD_ERR_CONFIG,
                   "there is no model size \"%.40s\"; choose pico, nano, tiny, small, base or big", name);
}
