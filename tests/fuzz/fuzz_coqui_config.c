/* libFuzzer target: any bytes as Coqui's config.json. What is taken must be a configuration whose tensors can be listed,
 * and that is read back from a config.json of our own. Start it with the files of tests/fuzz/corpus/coqui_config.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "families/xtts/xtts_coqui.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void demand(int holds)
{
    if (!holds) abort();
}

static void check_config(const td_model_config *config, const char *languages)
{
    td_model_config again = *config;
    cJSON *json = NULL;
    char *text = NULL;
    if (td_coqui_make_config(config, languages, &text) != TD_OK) return;
    demand(td_coqui_parse_config(text, strlen(text), &json) == TD_OK);
    demand(td_coqui_read_config(json, &again) == TD_OK);
    demand(memcmp(&again.values, &config->values, sizeof again.values) == 0);
    cJSON_Delete(json);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    cJSON *json = NULL;
    td_arena *arena = NULL;
    td_model_config config;
    char *languages = NULL;
    demand(td_model_preset(td_family_find("xtts"), "base", &config) == TD_OK);
    if (td_coqui_parse_config((const char *)data, bytes, &json) != TD_OK) {
        demand(json == NULL);
        return 0;
    }
    const int is_read = td_coqui_read_config(json, &config) == TD_OK;
    if (td_arena_create(0, &arena) == TD_OK && td_coqui_read_languages(json, arena, &languages) == TD_OK &&
        is_read)
        check_config(&config, languages);
    td_arena_destroy(arena);
    cJSON_Delete(json);
    return 0;
}
