/* See xtts_coqui.h: what config.json says, and how one is made. Covered by tests/families/test_xtts_import.c and
 * tests/fuzz/fuzz_coqui_config.c. */
#include "families/xtts/xtts_coqui.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "families/xtts/lora.h"

enum { MAX_LANGUAGES = 256, MAX_CODE_BYTES = 32 };

/* ---------------------------------------------------------------- reading */

/* The word at `text` that Python's JSON has and others have not; 0: none. */
static size_t match_word(const char *text, size_t bytes)
{
    static const char *const WORDS[] = {"-Infinity", "Infinity", "NaN"};
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        const size_t length = strlen(WORDS[i]);
        if (bytes >= length && memcmp(text, WORDS[i], length) == 0) return length;
    }
    return 0;
}

td_status td_coqui_parse_config(const char *text, size_t bytes, cJSON **out)
{
    td_status status = TD_OK;
    char *copy = NULL;
    size_t used = 0;
    bool in_string = false;
    *out = NULL;
    TD_TRY(TD_NEW_ARRAY(&copy, 2 * bytes + 1)); /* "null" for "NaN" */
    for (size_t at = 0; at < bytes;) {
        const size_t word = in_string ? 0 : match_word(text + at, bytes - at);
        const size_t length = word > 0 ? word : in_string && text[at] == '\\' && at + 1 < bytes ? 2 : 1;
        if (text[at] == '"') in_string = !in_string;
        memcpy(copy + used, word > 0 ? "null" : text + at, word > 0 ? 4 : length);
        used += word > 0 ? 4 : length;
        at += length;
    }
    *out = cJSON_ParseWithLength(copy, used);
    TD_FAIL_IF(!cJSON_IsObject(*out), TD_ERR_FORMAT, "it is no JSON object");
    free(copy);
    return TD_OK;
fail:
    cJSON_Delete(*out);
    *out = NULL;
    free(copy);
    return status;
}

/* Keys that are not of `model_args` stand at the top. */
static bool is_of_speaking(const char *key)
{
    static const char *const NAMES[] = {
#define NAME(type, key, ...) #key,
        TD_XTTS_SPEAK_KEYS(NAME)
#undef NAME
    };
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strcmp(key, NAMES[i]) == 0) return true;
    return false;
}

static const cJSON *find_value(const cJSON *json, const char *key)
{
    const cJSON *group = is_of_speaking(key) ? json : cJSON_GetObjectItemCaseSensitive(json, "model_args");
    return cJSON_GetObjectItemCaseSensitive(group, key);
}

bool td_coqui_find_number(const cJSON *json, const char *key, double *out)
{
    const cJSON *value = find_value(json, key);
    if (!cJSON_IsNumber(value)) return false;
    *out = value->valuedouble;
    return true;
}

td_status td_coqui_read_config(const cJSON *json, td_model_config *config)
{
    TD_REFUSE_IF(!cJSON_IsObject(json), TD_ERR_FORMAT, "it is no JSON object");
    for (size_t i = 0; i < TD_XTTS_KEY_COUNT; i++) {
        const td_model_key *key = &td_xtts_keys[i];
        const cJSON *value = find_value(json, key->name);
        char text[TD_TEXT_FORMAT_BYTES] = "";
        if (value == NULL || cJSON_IsNull(value)) continue;
        if (key->type == TD_KEY_FLAG && cJSON_IsBool(value))
            snprintf(text, sizeof text, "%s", cJSON_IsTrue(value) ? "true" : "false");
        else if (key->type != TD_KEY_FLAG && cJSON_IsNumber(value))
            td_text_format_double(value->valuedouble, text);
        else
            TD_REFUSE_IF(true, TD_ERR_FORMAT, "its key %s is no %s", key->name,
                         key->type == TD_KEY_FLAG ? "true or false" : "number");
        TD_CHECK(td_model_config_put(config, key->name, text));
    }
    return TD_OK;
}

td_status td_coqui_read_languages(const cJSON *json, td_arena *arena, char **out)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(json, "languages"), *item;
    char text[MAX_LANGUAGES * (MAX_CODE_BYTES + 1)] = "";
    size_t used = 0, n = 0;
    cJSON_ArrayForEach(item, list)
    {
        const char *code = cJSON_GetStringValue(item);
        TD_REFUSE_IF(code == NULL || code[0] == '\0' || strlen(code) > MAX_CODE_BYTES ||
                         strchr(code, '\n') != NULL || ++n > MAX_LANGUAGES,
                     TD_ERR_FORMAT, "its languages are no list of short codes");
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used > 0 ? "\n" : "", code);
    }
    return td_arena_strdup(arena, text, out);
}

/* ---------------------------------------------------------------- making one */

static void put_key(td_json *json, const td_model_config *config, size_t i)
{
    char text[TD_MODEL_VALUE_BYTES];
    double number = 0;
    td_model_config_get(config, i, text);
    if (td_xtts_keys[i].type == TD_KEY_FLAG)
        td_json_put_bool(json, td_xtts_keys[i].name, strcmp(text, "true") == 0);
    else if (td_text_parse_double(text, &number) == TD_OK)
        td_json_put_double(json, td_xtts_keys[i].name, number);
}

enum {
#define ONE(...) +1
    N_ARGS = 0 TD_XTTS_ARG_KEYS(ONE),
    N_SPEAKING = 0 TD_XTTS_SPEAK_KEYS(ONE),
#undef ONE
};

static void put_languages(td_json *json, const char *languages)
{
    td_json_put_array(json, "languages");
    for (const char *at = languages; *at != '\0';) {
        char code[MAX_CODE_BYTES + 1];
        const size_t bytes = strcspn(at, "\n");
        snprintf(code, sizeof code, "%.*s", (int)bytes, at);
        td_json_string(json, code);
        at += bytes + (at[bytes] == '\n');
    }
    td_json_end_array(json);
}

td_status td_coqui_make_config(const td_model_config *config, const char *languages, char **out)
{
    td_status status = TD_OK;
    td_json *json = NULL;
    const char *text;
    *out = NULL;
    TD_TRY(td_json_create(NULL, 4, &json));
    td_json_begin_object(json);
    td_json_put_string(json, "model", "xtts");
    for (size_t i = N_ARGS; i < N_ARGS + N_SPEAKING; i++)
        put_key(json, config, i);
    put_languages(json, languages);
    td_json_put_object(json, "model_args");
    for (size_t i = 0; i < N_ARGS; i++)
        put_key(json, config, i);
    td_json_put_bool(json, "gpt_use_perceiver_resampler", true);
    td_json_end_object(json);
    td_json_end_object(json);
    TD_TRY(td_json_finish(json, &text));
    *out = strdup(text);
    TD_FAIL_IF(*out == NULL, TD_ERR_HOST_MEMORY, "no memory for config.json");
fail:
    td_json_destroy(json);
    return status;
}

/* ---------------------------------------------------------------- the table */

/* The matrices of the GPT's blocks. */
static const char *const BYTES[] = {"gpt.gpt.h.*.c_*.weight", NULL};

const td_importer td_coqui_importer = {
    .format = "coqui",
    .files = "a folder with " TD_COQUI_MODEL " (or model.safetensors), " TD_COQUI_CONFIG
             " and " TD_COQUI_VOCAB ", or the file of a model beside them",
    .bytes = BYTES,
    .recognises = td_coqui_recognises,
    .import = td_coqui_import,
    .export = td_coqui_export,
    .adapter_format = "peft",
    .export_adapters = td_xtts_lora_export,
    .attach_adapters = td_xtts_lora_attach,
};
