/* `tandem advise`: shows what tools/advise.h found, as a configuration that is ready to use; the reasons
 * stand in its comments. Covered by tests/cli/test_advise.py.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/cli.h"
#include "settings/read.h"
#include "tools/advise.h"

/* As in the configurations that are shipped: a limit that a voice seldom needs. */
enum { MAX_STEPS = 100000 };

typedef struct adviser {
    td_cli *cli;
    td_registry *registry, *data_registry; /* owned */
    const td_device_info *data, *model;
    bool is_stand_in;
    td_train_settings settings;
    td_lengths longest;
    char cache_dir[TD_FILE_PATH_BYTES];
    td_advice advice;
} adviser;

/* ---------------------------------------------------------------- asking */

static td_status find_devices(adviser *a)
{
    const char *model = td_cli_text(a->cli, "simulate-device"),
               *data = td_cli_text(a->cli, "simulate-data-device");
    td_roles roles;
    TD_REFUSE_IF(data && !model, TD_ERR_CONFIG,
                 "--simulate-data-device needs --simulate-device, which is the model device");
    a->is_stand_in = model != NULL;
    if (model) {
        TD_CHECK(td_cli_open_stand_in(model, &a->registry, &a->model));
        a->data = a->model;
        if (data) TD_CHECK(td_cli_open_stand_in(data, &a->data_registry, &a->data));
    } else {
        TD_CHECK(td_settings_open_registry(a->cli->options, &a->registry));
        TD_CHECK(td_settings_resolve_roles(a->cli->options, a->registry, &roles));
        a->data = roles.data;
        a->model = roles.model;
    }
    return TD_OK;
}

static td_status ask(adviser *a)
{
    const td_option_value *batch;
    TD_CHECK(find_devices(a));
    batch = td_options_get(a->cli->options, "training.batch_size");
    uint32_t wanted = batch->origin == TD_ORIGIN_DEFAULT ? 0 : (uint32_t)batch->integer;
    TD_CHECK(td_settings_plan(a->cli->options, a->model, a->cache_dir, &a->settings));
    const char *usual = td_planner_usual(&a->settings.model, "training.batch_size");
    if (wanted == 0 && usual != NULL) wanted = (uint32_t)strtoul(usual, NULL, 10);
    if (a->settings.data.dataset.dir) TD_CHECK(td_planner_measure(&a->settings.data, &a->longest));
    return td_advise(&(td_advice_request){.settings = &a->settings,
                                          .data = a->data,
                                          .model = a->model,
                                          .longest = a->longest,
                                          .wanted_batch = wanted},
                     &a->advice);
}

/* ---------------------------------------------------------------- the configuration */

static const char *name_way(const td_advice_way *way)
{
    static const char *const NAMES[] = {"plain", "mixed_precision", "gradient_checkpointing",
                                        "both of these"};
    return NAMES[way->bf16 + 2 * way->checkpoint];
}

static void describe_device(const adviser *a, const td_device_info *info, const char *option, char out[320])
{
    char memory[TD_TEXT_FORMAT_BYTES];
    td_text_format_bytes(info->caps.memory_bytes, memory);
    if (a->is_stand_in)
        (void)snprintf(out, 320, "%s (simulated)", td_cli_text(a->cli, option));
    else
        (void)snprintf(out, 320, "%s, %s, %s", info->selector, info->name, memory);
}

static void write_reasons(const adviser *a, FILE *file)
{
    const td_advice *v = &a->advice;
    char device[320], need[TD_TEXT_FORMAT_BYTES], item[TD_TEXT_FORMAT_BYTES];
    describe_device(a, a->model, "simulate-device", device);
    fprintf(file, "; %s on %s\n", td_cli_text(a->cli, "model.model_size"), device);
    if (!v->is_single) {
        describe_device(a, a->data, a->data_registry ? "simulate-data-device" : "simulate-device", device);
        fprintf(file, "; data on %s\n", device);
    }
    fprintf(file, "; rows of at most %u tokens and %u frames%s. From the real plan:\n;\n", v->shape.tokens,
            v->shape.frames, a->longest.frames > 0 ? ", as in the data" : "");
    fprintf(file, ";   %-24s %13s %12s %12s\n", "", "largest batch", "model alone", "each row");
    for (size_t i = 0; i < TD_ADVICE_WAYS; ++i) {
        const td_advice_way *way = &v->ways[i];
        td_text_format_bytes(td_need_bytes(&way->need, 0), need);
        td_text_format_bytes((uint64_t)way->need.item_bytes, item);
        fprintf(file, "; %s %-24s %13u %12s %12s\n", i == v->chosen ? "*" : " ", name_way(way),
                way->largest_batch, need, item);
    }
    td_text_format_bytes(v->model_bytes, need);
    fprintf(file, ";\n; * is set below; the model role then needs %s.\n", need);
}

static void write_devices(const adviser *a, FILE *file)
{
    fprintf(file, "\n[devices]\n");
    if (a->is_stand_in) {
        if (!a->advice.is_single)
            fprintf(file, "data = 0 ; numbers of `tandem devices` on that computer\nmodel = 1\n");
        return;
    }
    if (!a->advice.is_single) fprintf(file, "data = %s\n", a->data->selector);
    fprintf(file, "model = %s\n", a->model->selector);
}

/* Keys of a section that the user chose, but for those that are written anyway. `written` ends with NULL. */
static void write_chosen(const adviser *a, const char *section, const char *const *written, FILE *file)
{
    char name[128];
    const td_option_table *table = td_options_table(a->cli->options);
    for (size_t i = 0; i < table->n_options; ++i) {
        const td_option *option = &table->options[i];
        const char *const *same = written;
        if (!option->section || strcmp(option->section, section) != 0) continue;
        if (td_option_find(table, section, option->key) != option) continue; /* another flag of the key */
        while (*same && strcmp(*same, option->key) != 0)
            ++same;
        (void)snprintf(name, sizeof name, "%s.%s", section, option->key);
        const td_option_value *value = td_options_get(a->cli->options, name);
        if (!*same && value->origin > TD_ORIGIN_PRESET) fprintf(file, "%s = %s\n", option->key, value->text);
    }
}

static void write_data(const adviser *a, FILE *file)
{
    const char *dir = td_cli_text(a->cli, "data.train_data");
    fprintf(file, "\n[data]\n");
    if (dir)
        fprintf(file, "train_data = %s\n", dir);
    else
        fprintf(file, "; train_data = DIR ; the folder with metadata.csv and wavs/\n");
    fprintf(file, "max_text_length = %" PRIi64 "\n", td_cli_count(a->cli, "data.max_text_length"));
    fprintf(file, "max_mel_frames = %" PRIi64 "\n", td_cli_count(a->cli, "data.max_mel_frames"));
    fprintf(file, a->advice.is_single
                      ? "mel_cache = auto ; mels are made once, so that the device can learn\n"
                      : "mel_cache = none ; the data device has nothing else to do\n");
    write_chosen(a, "data",
                 (const char *[]){"train_data", "max_text_length", "max_mel_frames", "mel_cache", NULL},
                 file);
}

static void write_pipeline(const adviser *a, FILE *file)
{
    const td_advice *v = &a->advice;
    fprintf(file, "\n[pipeline]\nnum_workers = 0 ; one thread per core\n");
    fprintf(file, "prefetch_buffer_size = %u ; batches ahead on the model device\n", v->prefetch_size);
    fprintf(file, "enable_memory_isolation = true ; the limits below are enforced, in MB\n");
    if (!v->is_single) {
        fprintf(file, "buffer_size = %u ; batches ahead on the data device\n", v->buffer_size);
        fprintf(file, "data_gpu_memory = %" PRIu64 "\n", v->data_limit_bytes >> 20);
    }
    fprintf(file, "model_gpu_memory = %" PRIu64 " ; nine tenths of the device\n", v->model_limit_bytes >> 20);
}

static void write_model(const adviser *a, FILE *file)
{
    const td_advice_way *way = &a->advice.ways[a->advice.chosen];
    fprintf(file, "\n[model]\nmodel_size = %s\n", td_cli_text(a->cli, "model.model_size"));
    fprintf(file, "family = %s\n", a->settings.model.family->name);
    fprintf(file, "gradient_checkpointing = %s\n", way->checkpoint ? "true" : "false");
    write_chosen(a, "model",
                 (const char *[]){"model_size", "family", "decoder_strategy", "gradient_checkpointing", NULL},
                 file);
}

/* What the user chose of the family's own. */
static void write_family(const adviser *a, FILE *file)
{
    char *text = NULL;
    size_t bytes;
    FILE *rows = open_memstream(&text, &bytes);
    if (rows == NULL) return;
    write_chosen(a, a->settings.model.family->name, (const char *[]){NULL}, rows);
    (void)fclose(rows);
    if (bytes > 0) fprintf(file, "\n[%s]\n%s", a->settings.model.family->name, text);
    free(text);
}

/* Where the run is and when it ends are for the user to choose; what stands here makes it one that trains. */
static void write_training(const adviser *a, FILE *file)
{
    const td_train_settings *s = &a->settings;
    fprintf(file, "\n[training]\nbatch_size = %u\n", a->advice.batch_size);
    if (a->advice.grad_accum > 1)
        fprintf(file, "grad_accum = %u ; together as many rows as one would want\n", a->advice.grad_accum);
    fprintf(file, "mixed_precision = %s\n", a->advice.ways[a->advice.chosen].bf16 ? "true" : "false");
    if (a->advice.state != s->state) fprintf(file, "optimizer_state = int8 ; fp32 and bf16 do not fit\n");
    if (a->advice.host_moments && !s->host_moments)
        fprintf(file, "optimizer_device = host ; moments do not fit beside the model\n");
    if (!td_cli_text(a->cli, "training.checkpoint_dir"))
        fprintf(file, "checkpoint_dir = run ; the folder for all that the run leaves\n");
    if (s->max_steps == 0 && s->epochs == 0 && !(s->max_minutes > 0))
        fprintf(file,
                "max_steps = %d ; updates until it ends and the learning rate has fallen; epochs or "
                "max_minutes end it too\n",
                MAX_STEPS);
    const bool is_state_set = a->advice.state != s->state,
               is_place_set = a->advice.host_moments && !s->host_moments;
    write_chosen(a, "training",
                 (const char *[]){"batch_size", "grad_accum", "mixed_precision",
                                  is_state_set ? "optimizer_state" : "batch_size",
                                  is_place_set ? "optimizer_device" : "batch_size", NULL},
                 file);
}

static td_status write_config(const adviser *a, char **text)
{
    size_t bytes;
    FILE *file = open_memstream(text, &bytes);
    if (!file) return TD_FAIL(TD_ERR_HOST_MEMORY, "no memory for the configuration");
    write_reasons(a, file);
    write_devices(a, file);
    write_data(a, file);
    write_pipeline(a, file);
    write_model(a, file);
    write_family(a, file);
    write_training(a, file);
    if (fclose(file) != 0) return TD_FAIL(TD_ERR_HOST_MEMORY, "no memory for the configuration");
    return TD_OK;
}

/* ---------------------------------------------------------------- showing */

static void put_ways(td_json *json, const td_advice *v)
{
    td_json_put_array(json, "ways");
    for (size_t i = 0; i < TD_ADVICE_WAYS; ++i) {
        const td_advice_way *way = &v->ways[i];
        td_json_begin_object(json);
        td_json_put_bool(json, "mixed_precision", way->bf16);
        td_json_put_bool(json, "gradient_checkpointing", way->checkpoint);
        td_json_put_uint(json, "largest_batch", way->largest_batch);
        td_json_put_double(json, "fixed_bytes", way->need.fixed_bytes);
        td_json_put_double(json, "row_bytes", way->need.item_bytes);
        td_json_end_object(json);
    }
    td_json_end_array(json);
}

static int print_json(const adviser *a, const char *config)
{
    const td_advice *v = &a->advice;
    td_json *json;
    if (td_cli_begin_json(&json) != TD_OK) return td_cli_fail(a->cli, NULL);
    td_json_put_string(json, "model_size", td_cli_text(a->cli, "model.model_size"));
    td_json_put_string(json, "mode", v->is_single ? "single-device" : "two-device");
    td_json_put_bool(json, "simulated", a->is_stand_in);
    put_ways(json, v);
    td_json_put_uint(json, "chosen", v->chosen);
    td_json_put_string(json, "optimizer_state",
                       v->state == TD_STATE_FP32   ? "fp32"
                       : v->state == TD_STATE_BF16 ? "bf16"
                                                   : "int8");
    td_json_put_string(json, "optimizer_device", v->host_moments ? "host" : "model");
    td_json_put_uint(json, "batch_size", v->batch_size);
    td_json_put_uint(json, "grad_accum", v->grad_accum);
    td_json_put_uint(json, "buffer_size", v->buffer_size);
    td_json_put_uint(json, "prefetch_buffer_size", v->prefetch_size);
    td_json_put_uint(json, "model_bytes", v->model_bytes);
    td_json_put_uint(json, "data_bytes", v->data_bytes);
    td_json_put_string(json, "config", config);
    return td_cli_print_json(a->cli, json, TD_EXIT_DONE);
}

int td_cmd_advise(td_cli *cli)
{
    adviser a = {.cli = cli};
    const char *output = td_cli_text(cli, "output");
    char *config = NULL;
    int code = TD_EXIT_DONE;
    td_status status = TD_OK;
    TD_TRY(ask(&a));
    TD_TRY(write_config(&a, &config));
    if (output) TD_TRY(td_file_write_atomic(output, config, strlen(config)));
    if (cli->json)
        code = print_json(&a, config);
    else if (output)
        td_printf("%s: written; `tandem check-config %s` judges it\n", output, output);
    else
        td_printf("%s", config);
fail:
    if (status != TD_OK) code = td_cli_fail(cli, a.model ? NULL : a.registry);
    free(config);
    td_registry_close(a.registry);
    td_registry_close(a.data_registry);
    return code;
}
