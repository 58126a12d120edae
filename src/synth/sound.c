/* See sound.h. */
#include "synth/sound.h"

#include <string.h>

#include "base/error.h"
#include "families/vocode.h"

#define GRIFFIN_LIM "griffin-lim"

static bool is_vocoder(const td_checkpoint *c)
{
    return td_checkpoint_get_info(c)->model.family->vocode != NULL;
}

td_status td_sound_find(const char *path, td_checkpoint **out)
{
    td_status status = TD_OK;
    TD_TRY(td_checkpoint_open(path, out));
    if (is_vocoder(*out)) return TD_OK;
    const char *family = td_checkpoint_get_info(*out)->model.family->name;
    td_checkpoint_close(*out);
    TD_TRY(td_checkpoint_open_vocoder(path, out));
    TD_FAIL_IF(*out == NULL || !is_vocoder(*out), TD_ERR_CONFIG,
               "'%s' is a voice of family %s and holds no vocoder", path, family);
    return TD_OK;
fail:
    td_checkpoint_close(*out);
    *out = NULL;
    return status;
}

td_status td_sound_check(const td_checkpoint *vocoder, const td_mel_config *mel, const char *voice)
{
    char own[TD_MEL_CONFIG_TEXT_BYTES], other[TD_MEL_CONFIG_TEXT_BYTES];
    td_mel_config_format(&td_checkpoint_get_info(vocoder)->mel, own);
    td_mel_config_format(mel, other);
    const char *a = own, *b = other;
    while (*a && *b) {
        const size_t n = strcspn(a, "\n"), m = strcspn(b, "\n");
        if (n != m || strncmp(a, b, n) != 0)
            return TD_FAIL(
                TD_ERR_CONFIG,
                "the vocoder '%s' is for another front end: it has %.*s, and '%s' has %.*s; train a "
                "vocoder with the voice's own recordings",
                td_checkpoint_path(vocoder), (int)n, a, voice, (int)m, b);
        a += n + (a[n] == '\n');
        b += m + (b[m] == '\n');
    }
    return TD_OK;
}

static td_status open_model(td_memory *memory, const td_mel *mel, td_sound *out)
{
    const td_model_config *model = &td_checkpoint_get_info(out->checkpoint)->model;
    td_status status = TD_OK;
    TD_TRY(td_family_store(memory, model, NULL, &(td_store_options){0}, &out->store));
    TD_TRY(td_checkpoint_load_voice(out->checkpoint, out->store));
    TD_TRY(model->family->vocode->open(memory, out->store, model, mel, &out->vocoder));
    TD_TRY(td_store_init_constants(out->store)); /* those that the plans brought along */
fail:
    return status;
}

td_status td_sound_open(td_memory *memory, const td_mel *mel, const char *voice, const char *wanted,
                        td_sound *out)
{
    td_status status = TD_OK;
    *out = (td_sound){0};
    if (wanted && strcmp(wanted, GRIFFIN_LIM) != 0)
        TD_TRY(td_sound_find(wanted, &out->checkpoint));
    else if (!wanted && voice)
        TD_TRY(td_checkpoint_open_vocoder(voice, &out->checkpoint));
    if (!out->checkpoint) return td_vocoder_open(GRIFFIN_LIM, mel, memory, NULL, &out->vocoder);
    TD_TRY(td_sound_check(out->checkpoint, td_mel_get_config(mel),
                          voice ? voice : "the recording's spectrogram"));
    TD_TRY(open_model(memory, mel, out));
fail:
    return status;
}

void td_sound_close(td_sound *sound)
{
    td_vocoder_destroy(sound->vocoder);
    td_store_destroy(sound->store);
    td_checkpoint_close(sound->checkpoint);
    *sound = (td_sound){0};
}
