/* `tandem import SOURCE -o VOICE`: a voice of another program's model (families/importer.h). Covered by
 * tests/cli/test_import.py.
 */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/cli.h"
#include "families/importer.h"

enum { IGNORED_SHOWN = 5 };

static void put_list(td_json *json, const char *key, const td_import_list *list)
{
    td_json_put_array(json, key);
    for (size_t i = 0; i < list->n; ++i)
        td_json_string(json, list->at[i]);
    td_json_end_array(json);
}

static int print_json(const td_cli *cli, const td_import *import, const char *path, uint64_t bytes)
{
    td_json *json;
    const td_family *family = import->info.model.family;
    if (td_cli_begin_json(&json) != TD_OK) return td_cli_fail(cli, NULL);
    td_json_put_string(json, "family", family->name);
    td_json_put_object(json, "parts");
    for (size_t i = 0; i < family->n_parts; ++i)
        if (td_import_part_size(import, i) > 0)
            td_json_put_uint(json, family->parts[i].name, td_import_part_size(import, i));
    td_json_end_object(json);
    put_list(json, "ignored", &import->ignored);
    put_list(json, "missing", &import->missing);
    if (import->n_grown > 0) td_json_put_uint(json, "new_tokens", import->n_grown);
    td_json_put_string(json, "output", path);
    td_json_put_uint(json, "bytes", bytes);
    return td_cli_print_json(cli, json, TD_EXIT_DONE);
}

static void print_import(const td_import *import, const char *path, uint64_t bytes)
{
    const td_family *family = import->info.model.family;
    char size[TD_TEXT_FORMAT_BYTES];
    td_text_format_bytes(bytes, size);
    td_printf("voice          %s: %s, family %s\n", path, size, family->name);
    for (size_t i = 0; i < family->n_parts; ++i)
        if (td_import_part_size(import, i) > 0)
            td_printf("part           %s: %" PRIu64 " parameters\n", family->parts[i].name,
                      td_import_part_size(import, i));
    if (import->n_grown > 0)
        td_printf("new tokens     %" PRIu64 ", which say nothing until they are trained\n", import->n_grown);
    for (size_t i = 0; i < import->missing.n; ++i)
        td_printf("missing        %s\n", import->missing.at[i]);
    for (size_t i = 0; i < import->ignored.n && i < IGNORED_SHOWN; ++i)
        td_printf("ignored        %s\n", import->ignored.at[i]);
    if (import->ignored.n > IGNORED_SHOWN)
        td_printf("ignored        %zu more; --json lists them\n", import->ignored.n - IGNORED_SHOWN);
    for (size_t i = 0; i < import->n_pairs; ++i)
        if (strcmp(import->pairs[i].key, "licence") == 0)
            td_printf("licence        %s\n", import->pairs[i].value);
}

int td_cmd_import(td_cli *cli)
{
    td_status status = TD_OK;
    td_import *import = NULL;
    size_t count;
    uint64_t bytes;
    int code = TD_EXIT_DONE;
    const char *source = td_options_arguments(cli->options, &count)[0];
    const char *path = td_cli_text(cli, "output"), *weights = td_cli_text(cli, "weights");
    const td_safetensors_dtype dtype = strcmp(weights, "bf16") == 0   ? TD_SAFETENSORS_BF16
                                       : strcmp(weights, "fp16") == 0 ? TD_SAFETENSORS_F16
                                       : strcmp(weights, "int8") == 0 ? TD_SAFETENSORS_I8
                                                                      : TD_SAFETENSORS_F32;
    TD_FAIL_IF(path == NULL, TD_ERR_CONFIG,
               "where the voice goes is not told; name it with -o VOICE.safetensors");
    TD_TRY(td_import_open(source, td_cli_is_on(cli, "grow"), &import));
    TD_TRY(td_import_write(import, path, dtype));
    TD_TRY(td_file_size(path, &bytes));
    if (cli->json)
        code = print_json(cli, import, path, bytes);
    else
        print_import(import, path, bytes);
fail:
    if (status != TD_OK) code = td_cli_fail(cli, NULL);
    td_import_close(import);
    return code;
}
