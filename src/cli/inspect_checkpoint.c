/* `tandem inspect CHECKPOINT`: the model, the symbols and, with --verbose, every tensor, checked by their hashes;
 * --slim writes a copy that can only speak. Covered by tests/cli/test_train.py.
 */
#include "cli/inspect_checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "families/checkpoint.h"

static void format_shape(const td_safetensors_tensor *t, char *out, size_t capacity)
{
    size_t used = (size_t)snprintf(out, capacity, "[");
    for (size_t d = 0; d < t->rank && used < capacity; ++d)
        used += (size_t)snprintf(out + used, capacity - used, "%s%" PRIu64, d > 0 ? ", " : "", t->dims[d]);
    if (used < capacity) snprintf(out + used, capacity - used, "]");
}

/* Metadata that is worth a line: not the hashes, nor whole files. */
static bool is_shown(const char *key)
{
    const size_t bytes = strlen(key);
    return strncmp(key, "hash.", 5) != 0 && (bytes < 5 || strcmp(key + bytes - 5, "_json") != 0);
}

static uint64_t sum_parts(const td_checkpoint *c)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < td_checkpoint_get_info(c)->model.family->n_parts; ++i)
        sum += td_checkpoint_part_size(c, i);
    return sum;
}

/* Of a family whose voices need not be complete, and of a vocoder inside (NULL: none), what is in the file counts. */
static td_status count_parameters(const td_checkpoint *c, const td_checkpoint *vocoder, uint64_t *out)
{
    if (td_checkpoint_get_info(c)->model.family->carries)
        *out = sum_parts(c);
    else
        TD_CHECK(td_family_parameters(&td_checkpoint_get_info(c)->model, out));
    *out += vocoder ? sum_parts(vocoder) : 0;
    return TD_OK;
}

static void print_tensors(const td_safetensors *file)
{
    char shape[128];
    for (size_t i = 0; i < td_safetensors_count(file); ++i) {
        const td_safetensors_tensor *t = td_safetensors_at(file, i);
        format_shape(t, shape, sizeof shape);
        td_printf("%-48s %s %s\n", t->name, td_safetensors_dtype_name(t->dtype), shape);
    }
}

static size_t count_lines(const char *text)
{
    size_t n = *text != '\0';
    for (; *text != '\0'; ++text)
        n += *text == '\n';
    return n;
}

/* What most people want to know, before all the rest. */
static void print_summary(const td_checkpoint *c)
{
    static const char *const KINDS[] = {"characters", "phonemes", "byte pairs"};
    const td_checkpoint_info *info = td_checkpoint_get_info(c);
    const char *step = td_checkpoint_text(c, "train.step"), *loss = td_checkpoint_text(c, "train.val_loss");
    const size_t n_speakers = count_lines(info->speakers);
    td_printf("voice          family %s, language %s, %zu speaker%s, %u %s, %u Hz\n",
              info->model.family->name, info->language, n_speakers > 0 ? n_speakers : 1,
              n_speakers > 1 ? "s" : "", td_model_describe(&info->model).n_symbols, KINDS[info->token_kind],
              info->mel.rate);
    if (step != NULL)
        td_printf("training       step %s%s%s; goes on from here\n", step,
                  loss != NULL ? ", validation loss " : "", loss != NULL ? loss : "");
    else
        td_printf("training       over: the file is slim, and can only speak\n");
}

static void print_checkpoint(const td_checkpoint *c, const td_checkpoint *vocoder, uint64_t parameters)
{
    const td_safetensors *file = td_checkpoint_file(c);
    const td_family *family = td_checkpoint_get_info(c)->model.family;
    td_printf("checkpoint     %s: whole, %zu tensors, %" PRIu64 " parameters\n", td_checkpoint_path(c),
              td_safetensors_count(file), parameters);
    print_summary(c);
    for (size_t i = 0; i < family->n_parts; ++i)
        if (td_checkpoint_part_size(c, i) > 0)
            td_printf("part           %s: %" PRIu64 " parameters\n", family->parts[i].name,
                      td_checkpoint_part_size(c, i));
    if (vocoder) td_printf("part           vocoder: %" PRIu64 " parameters\n", sum_parts(vocoder));
    for (size_t i = 0; i < td_safetensors_metadata_count(file); ++i) {
        const td_safetensors_pair *pair = td_safetensors_metadata_at(file, i);
        if (!is_shown(pair->key)) continue;
        td_printf("%-24s%s", pair->key, strlen(pair->key) >= 24 ? " " : "");
        for (const char *at = pair->value; *at != '\0'; at += *at == '\n') {
            const size_t bytes = strcspn(at, "\n");
            td_printf("%.*s%s", (int)bytes, at, at[bytes] == '\n' ? " " : "");
            at += bytes;
        }
        putchar('\n');
    }
}

static void put_tensors(td_json *json, const td_safetensors *file)
{
    td_json_put_array(json, "tensors");
    for (size_t i = 0; i < td_safetensors_count(file); ++i) {
        const td_safetensors_tensor *t = td_safetensors_at(file, i);
        td_json_begin_object(json);
        td_json_put_string(json, "name", t->name);
        td_json_put_string(json, "dtype", td_safetensors_dtype_name(t->dtype));
        td_json_put_array(json, "shape");
        for (size_t d = 0; d < t->rank; ++d)
            td_json_uint(json, t->dims[d]);
        td_json_end_array(json);
        td_json_end_object(json);
    }
    td_json_end_array(json);
}

static int print_json(const td_cli *cli, const td_checkpoint *c, const td_checkpoint *vocoder,
                      uint64_t parameters)
{
    td_json *json;
    const td_safetensors *file = td_checkpoint_file(c);
    if (td_cli_begin_json(&json) != TD_OK) return td_cli_fail(cli, NULL);
    td_json_put_string(json, "kind", "checkpoint");
    td_json_put_string(json, "path", td_checkpoint_path(c));
    td_json_put_uint(json, "parameters", parameters);
    const td_family *family = td_checkpoint_get_info(c)->model.family;
    td_json_put_string(json, "family", family->name);
    td_json_put_object(json, "parts");
    for (size_t i = 0; i < family->n_parts; ++i)
        td_json_put_uint(json, family->parts[i].name, td_checkpoint_part_size(c, i));
    if (vocoder) td_json_put_uint(json, "vocoder", sum_parts(vocoder));
    td_json_end_object(json);
    td_json_put_object(json, "metadata");
    for (size_t i = 0; i < td_safetensors_metadata_count(file); ++i) {
        const td_safetensors_pair *pair = td_safetensors_metadata_at(file, i);
        if (!is_shown(pair->key)) continue;
        td_json_put_string(json, pair->key, pair->value);
    }
    td_json_end_object(json);
    put_tensors(json, file);
    return td_cli_print_json(cli, json, TD_EXIT_DONE);
}

int td_cli_inspect_checkpoint(const td_cli *cli, const char *path)
{
    td_status status = TD_OK;
    td_checkpoint *c = NULL, *vocoder = NULL;
    uint64_t parameters;
    int code = TD_EXIT_DONE;
    const char *slim = td_cli_text(cli, "slim");
    TD_TRY(td_checkpoint_open(path, &c));
    TD_TRY(td_checkpoint_verify(c));
    TD_TRY(td_checkpoint_open_vocoder(path, &vocoder));
    TD_TRY(count_parameters(c, vocoder, &parameters));
    if (slim != NULL) TD_TRY(td_checkpoint_write_slim(c, slim));
    if (cli->json) {
        code = print_json(cli, c, vocoder, parameters);
    } else {
        print_checkpoint(c, vocoder, parameters);
        if (slim != NULL) td_printf("slim           %s\n", slim);
        if (td_cli_is_on(cli, "verbose"))
            print_tensors(td_checkpoint_file(c));
        else
            td_printf("tensors        %zu; --verbose lists them\n",
                      td_safetensors_count(td_checkpoint_file(c)));
    }
fail:
    if (status != TD_OK) code = td_cli_fail(cli, NULL);
    td_checkpoint_close(vocoder);
    td_checkpoint_close(c);
    return code;
}
