/* `tandem bundle`: a voice and a vocoder in one file (synth/sound.h). Covered by tests/cli/test_vocoder.py. */
#include "base/error.h"
#include "cli/cli.h"
#include "synth/sound.h"

static td_status join(const char *voice_path, const char *vocoder_path, const char *output)
{
    td_checkpoint *voice = NULL, *vocoder = NULL;
    td_status status = TD_OK;
    TD_FAIL_IF(!output, TD_ERR_CONFIG, "no file for the voice was named; add -o VOICE.safetensors");
    TD_TRY(td_checkpoint_open(voice_path, &voice));
    TD_FAIL_IF(td_checkpoint_get_info(voice)->model.family->speaker == NULL, TD_ERR_CONFIG,
               "'%s' is of family %s, which does not speak; the voice comes first, then its vocoder",
               voice_path, td_checkpoint_get_info(voice)->model.family->name);
    TD_TRY(td_sound_find(vocoder_path, &vocoder));
    TD_TRY(td_sound_check(vocoder, &td_checkpoint_get_info(voice)->mel, voice_path));
    TD_TRY(td_checkpoint_write_bundle(voice, vocoder, output));
fail:
    td_checkpoint_close(voice);
    td_checkpoint_close(vocoder);
    return status;
}

int td_cmd_bundle(td_cli *cli)
{
    size_t count;
    const char *const *paths = td_options_arguments(cli->options, &count);
    const char *output = td_cli_text(cli, "output");
    td_json *json;
    if (join(paths[0], paths[1], output) != TD_OK) return td_cli_fail(cli, NULL);
    if (!cli->json) {
        td_printf("voice          %s\n", output);
        return TD_EXIT_DONE;
    }
    if (td_cli_begin_json(&json) != TD_OK) return td_cli_fail(cli, NULL);
    td_json_put_string(json, "output", output);
    return td_cli_print_json(cli, json, TD_EXIT_DONE);
}
