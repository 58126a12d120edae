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
    char own[TD_MEL_CONFIG_LINE_BYTES], other[TD_MEL_CONFIG_LINE_BYTES];
    if (!td_mel_config_differ(&td_checkpoint_get_info(vocoder)->mel, mel, own, other)) return TD_OK;
    return TD_FAIL(
        TD_ERR_CONFIG,
        "the vocoder '%s' is for another front end: it has %s, and '%s' has %s; train a vocoder with the "
        "voice's own recordings",
        td_checkpoint_path(vocoder), own, voice, other);
}

static td_status open_model(td_memory *memory, const td_mel *mel, td_sound *out)
{
    const td_model_config *model = out->model = &td_checkpoint_get_info(out->checkpoint)->model;
    TD_CHECK(td_family_store(memory, model, NULL, &(td_store_options){0}, &out->store));
    TD_CHECK(td_checkpoint_load_voice(out->checkpoint, out->store));
    TD_CHECK(model->family->vocode->open(memory, out->store, model, mel, &out->vocoder));
    TD_CHECK(td_store_init_constants(out->store)); /* those that the plans brought along */
    return TD_OK;
}

td_status td_sound_open(td_memory *memory, const td_mel *mel, const char *voice, const char *wanted,
                        td_sound *out)
{
    *out = (td_sound){0};
    if (wanted && strcmp(wanted, GRIFFIN_LIM) != 0)
        TD_CHECK(td_sound_find(wanted, &out->checkpoint));
    else if (!wanted && voice)
        TD_CHECK(td_checkpoint_open_vocoder(voice, &out->checkpoint));
    if (!out->checkpoint) return td_vocoder_open(GRIFFIN_LIM, mel, memory, NULL, &out->vocoder);
    TD_CHECK(td_sound_check(out->checkpoint, td_mel_get_config(mel),
                            voice ? voice : "the recording's spectrogram"));
    return open_model(memory, mel, out);
}

td_status td_sound_share(td_memory *memory, const td_mel *mel, const td_sound *lender, td_sound *out)
{
    *out = (td_sound){0};
    if (!lender->store) return td_vocoder_open(GRIFFIN_LIM, mel, memory, NULL, &out->vocoder);
    out->model = lender->model;
    TD_CHECK(td_store_borrow(lender->store, &out->store));
    return out->model->family->vocode->open(memory, out->store, out->model, mel, &out->vocoder);
}

void td_sound_close(td_sound *sound)
{
    td_vocoder_destroy(sound->vocoder);
    td_store_destroy(sound->store);
    td_checkpoint_close(sound->checkpoint);
    *sound = (td_sound){0};
}
