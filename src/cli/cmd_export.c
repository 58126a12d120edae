/* `tandem export VOICE -o FOLDER`: a voice as the files of another program (families/importer.h). Covered by
 * tests/cli/test_import.py.
 */
#include "base/error.h"
#include "cli/cli.h"
#include "families/importer.h"

int td_cmd_export(td_cli *cli)
{
    td_status status = TD_OK;
    td_checkpoint *voice = NULL;
    td_json *json;
    size_t count;
    int code = TD_EXIT_DONE;
    const char *path = td_options_arguments(cli->options, &count)[0];
    const char *folder = td_cli_text(cli, "output"), *format = td_cli_text(cli, "format");
    TD_FAIL_IF(folder == NULL, TD_ERR_CONFIG, "where the files go is not told; name a folder with -o FOLDER");
    TD_TRY(td_checkpoint_open(path, &voice));
    TD_TRY(td_export_voice(voice, format, folder));
    if (cli->json) {
        TD_TRY(td_cli_begin_json(&json));
        td_json_put_string(json, "format", format);
        td_json_put_string(json, "output", folder);
        code = td_cli_print_json(cli, json, code);
    } else {
        td_printf("%-15s%s\n", format, folder);
    }
fail:
    if (status != TD_OK) code = td_cli_fail(cli, NULL);
    td_checkpoint_close(voice);
    return code;
}
