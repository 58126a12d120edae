/* Reads the model string of the simulated devices against the key table of sim_model.h. It knows nothing of
 * what the numbers do. Covered by tests/device/test_sim.c.
 */
#include "device/sim/sim_model.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

typedef struct model_key {
    const char *name;
    size_t offset;
    bool whole; /* uint64_t, else double */
    double least, most;
} model_key;

enum { IS_WHOLE_double = false, IS_WHOLE_uint64_t = true };

static const model_key KEYS[] = {
#define SIM_MODEL_ROW(type, key, value, least, most)                                                         \
    {#key, offsetof(sim_model, key), IS_WHOLE_##type, (double)(least), (double)(most)},
    SIM_MODEL_KEYS(SIM_MODEL_ROW)
#undef SIM_MODEL_ROW
};

static const char *const KEY_NAMES[] = {
#define SIM_MODEL_NAME(type, key, value, least, most) #key,
    SIM_MODEL_KEYS(SIM_MODEL_NAME)
#undef SIM_MODEL_NAME
};

static const char KEY_LIST[] =
#define SIM_MODEL_WORD(type, key, value, least, most) " " #key
    SIM_MODEL_KEYS(SIM_MODEL_WORD)
#undef SIM_MODEL_WORD
    ;

enum { KEY_COUNT = sizeof KEYS / sizeof *KEYS, ITEM_BYTES = 64 };

static const model_key *find_key(const char *name)
{
    for (size_t i = 0; i < KEY_COUNT; ++i)
        if (strcmp(KEYS[i].name, name) == 0) return &KEYS[i];
    return NULL;
}

static td_status refuse_key(const char *name)
{
    const char *nearest = td_text_nearest(name, KEY_NAMES, KEY_COUNT);
    return TD_FAIL(TD_ERR_CONFIG, "sim model: there is no key '%s'%s%s%s; the keys are%s", name,
                   nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "", KEY_LIST);
}

static td_status store_value(const model_key *key, const char *text, sim_model *model)
{
    uint64_t whole = 0;
    double value = 0;
    td_status status = key->whole ? td_text_parse_u64(text, &whole) : td_text_parse_double(text, &value);
    if (key->whole) value = (double)whole;
    if (status != TD_OK || value < key->least || value > key->most) {
        return TD_FAIL(TD_ERR_CONFIG,
                       "sim model: %s=%s is wrong: give a %s between %g and %g; the keys are%s", key->name,
                       text, key->whole ? "whole number" : "number", key->least, key->most, KEY_LIST);
    }
    char *field = (char *)model + key->offset;
    if (key->whole)
        memcpy(field, &whole, sizeof whole);
    else
        memcpy(field, &value, sizeof value);
    return TD_OK;
}

static td_status parse_item(char *item, bool seen[KEY_COUNT], sim_model *model)
{
    char *equals = strchr(item, '=');
    if (!equals)
        return TD_FAIL(TD_ERR_CONFIG, "sim model: '%s' is not key=value; the keys are%s", item, KEY_LIST);
    *equals = '\0';
    const model_key *key = find_key(item);
    if (!key) return refuse_key(item);
    if (seen[key - KEYS])
        return TD_FAIL(TD_ERR_CONFIG, "sim model: %s is given twice; keep one of them", item);
    seen[key - KEYS] = true;
    return store_value(key, equals + 1, model);
}

td_status td_sim_model_parse(const char *text, sim_model *out)
{
    *out = (sim_model){
#define SIM_MODEL_DEFAULT(type, key, value, least, most) .key = (value),
        SIM_MODEL_KEYS(SIM_MODEL_DEFAULT)
#undef SIM_MODEL_DEFAULT
    };
    if (!text || !*text) return TD_OK;
    bool seen[KEY_COUNT] = {false};
    for (;;) {
        size_t length = strcspn(text, ",");
        char item[ITEM_BYTES];
        snprintf(item, sizeof item, "%.*s", (int)(length < ITEM_BYTES ? length : ITEM_BYTES), text);
        if (length >= ITEM_BYTES)
            return TD_FAIL(TD_ERR_CONFIG, "sim model: '%s...' is too long for key=value; the keys are%s",
                           item, KEY_LIST);
        td_status status = parse_item(item, seen, out);
        if (status != TD_OK || text[length] == '\0') return status;
        text += length + 1;
    }
}
