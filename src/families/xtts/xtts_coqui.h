/* Coqui's files: their names, and what config.json says. Reading is xtts_import.c, writing xtts_export.c. */
#ifndef TD_FAMILIES_XTTS_COQUI_H
#define TD_FAMILIES_XTTS_COQUI_H

#include <cJSON.h>

#include "families/importer.h"
#include "families/xtts/xtts_config.h"

#define TD_COQUI_MODEL "model.pth"
#define TD_COQUI_CONFIG "config.json"
#define TD_COQUI_VOCAB "vocab.json"
#define TD_COQUI_DVAE "dvae.pth"
#define TD_COQUI_MEL_STATS "mel_stats.pth"
#define TD_COQUI_SPEAKERS "speakers_xtts.pth"

/* Keys of a voice's metadata. */
#define TD_COQUI_KEY_CONFIG "config_json"   /* config.json as it was */
#define TD_COQUI_KEY_VOCAB "tokenizer_json" /* vocab.json as it was */
#define TD_COQUI_KEY_LANGUAGES "languages"  /* codes, one a line */

/* Tensors of a speaker: "speakers.NAME" and these. */
#define TD_COQUI_SPEAKERS_PREFIX "speakers."
#define TD_COQUI_LATENT ".gpt_cond_latent"
#define TD_COQUI_EMBEDDING ".speaker_embedding"

/* JSON as Python writes it: with Infinity and NaN, which are taken as null. *out: owned, cJSON_Delete(); NULL if it cannot
 * be read or is no object, which is TD_ERR_FORMAT. */
td_status td_coqui_parse_config(const char *text, size_t bytes, cJSON **out);

/* Values that the file has, in place of those that `config` has. TD_ERR_FORMAT names the key that cannot be. */
td_status td_coqui_read_config(const cJSON *json, td_model_config *config);

/* Whether config.json has a number for a key of model_args, and which. */
bool td_coqui_find_number(const cJSON *json, const char *key, double *out);

/* The codes of its languages, one a line, "" if it has none. *out lives as long as the arena. */
td_status td_coqui_read_languages(const cJSON *json, td_arena *arena, char **out);

/* A config.json for a model that did not come with one. *out: owned, free(). */
td_status td_coqui_make_config(const td_model_config *config, const char *languages, char **out);

extern const td_importer td_coqui_importer;
td_status td_coqui_import(td_import *import);
bool td_coqui_recognises(const char *source);
td_status td_coqui_export(const td_checkpoint *voice, const char *folder);

#endif
