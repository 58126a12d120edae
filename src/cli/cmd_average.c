/* `tandem average`: one voice of several (families/average.h). Covered by tests/cli/test_average.py. */
#include <stdlib.h>

#include "base/error.h"
#include "cli/cli.h"
#include "families/average.h"

static td_status average(const char *const *paths, size_t n, const char *output)
{
    td_checkpoint **voices = NULL;
    size_t n_open = 0;
    td_status status = TD_OK;
    TD_FAIL_IF(!output, TD_ERR_CONFIG, "no file for the voice was named; add -o VOICE.safetensors");
    TD_TRY(TD_NEW_ARRAY(&voices, n));
    for (; n_open < n; n_open++)
        TD_TRY(td_checkpoint_open(paths[n_open], &voices[n_open]));
    TD_TRY(td_average_write(voices, n, output));
fail:
    for (size_t i = 0; i < n_open; i++)
        td_checkpoint_close(voices[i]);
    free(voices);
    return status;
}

int td_cmd_average(td_cli *cli)
{
    size_t count;
    const char *const *paths = td_options_arguments(cli->options, &count);
    const char *output = td_cli_text(cli, "output");
    td_json *json;
    if (average(paths, count, output) != TD_OK) return td_cli_fail(cli, NULL);
    if (!cli->json) {
        td_printf("voice          %s, the mean of %zu\n", output, count);
        return TD_EXIT_DONE;
    }
    if (td_cli_begin_json(&json) != TD_OK) return td_cli_fail(cli, NULL);
    td_json_put_string(json, "output", output);
    td_json_put_uint(json, "voices", count);
    return td_cli_print_json(cli, json, TD_EXIT_DONE);
}
