/* See read.h. */
#include "settings/read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "families/checkpoint.h"
#include "text/phonemes.h"

static const td_option_value *get(const td_options *options, const char *key)
{
    return td_options_get(options, key);
}

static uint64_t get_count(const td_options *options, const char *key)
{
    return (uint64_t)get(options, key)->integer;
}

static float get_float(const td_options *options, const char *key)
{
    return (float)get(options, key)->real;
}

static const char *get_text(const td_options *options, const char *key)
{
    return get(options, key)->text;
}

/* ---------------------------------------------------------------- devices and data */

td_status td_settings_open_registry(const td_options *options, td_registry **out)
{
    td_registry_options settings;
    td_registry_options_from_env(&settings);
    const char *cache_dir = get(options, "data.cache_dir")->text;
    if (cache_dir) settings.cache_dir = cache_dir;
    return td_registry_open(&settings, out);
}

td_status td_settings_open_cluster(const td_options *options, td_cluster **out)
{
    static const char *const NAMES[] = {"auto", "none", "mpi"};
    td_cluster_kind kind = TD_CLUSTER_AUTO;
    for (int i = 0; i < 3; ++i)
        if (strcmp(get_text(options, "cluster.kind"), NAMES[i]) == 0) kind = (td_cluster_kind)i;
    return td_cluster_open(kind, out);
}

td_status td_settings_resolve_roles(const td_options *options, const td_registry *registry, td_roles *out)
{
    return td_settings_resolve_rank(options, registry, 0, out);
}

td_status td_settings_resolve_rank(const td_options *options, const td_registry *registry,
                                   uint32_t local_rank, td_roles *out)
{
    const td_roles_request request = {
        .data_device = get(options, "devices.data")->text,
        .model_device = get(options, "devices.model")->text,
        .allow_same = get(options, "devices.allow_same_device")->truth,
        .local_rank = local_rank,
    };
    return td_roles_resolve(registry, &request, out);
}

/* Whether espeak-ng is there, and reads the language if one is named. */
static bool can_phonemes(const char *language)
{
    td_lang lang;
    if (td_phonemes_check() != TD_OK) return false;
    const bool is_named = language != NULL && strcmp(language, "auto") != 0 && strcmp(language, "each") != 0;
    return !is_named || (td_lang_parse(language, &lang) == TD_OK && *td_phonemes_inventory(lang) != '\0');
}

td_status td_settings_dataset(const td_options *options, char cache_dir[TD_FILE_PATH_BYTES],
                              td_dataset_settings *out)
{
    const char *chosen = get_text(options, "data.cache_dir");
    const td_option_value *wish = get(options, "data.phonemes");
    const bool is_auto = strcmp(wish->text, "auto") == 0;
    const bool phonemes = wish->truth || (is_auto && can_phonemes(get_text(options, "data.language")));
    *out = (td_dataset_settings){
        .table = {.columns = get_text(options, "data.columns"),
                  .speaker_pattern = get_text(options, "data.speaker_pattern")},
        .layout = get_text(options, "data.layout"),
        .language = get_text(options, "data.language"),
        .tokens = phonemes ? TD_TOKENS_PHONEMES : TD_TOKENS_CHARACTERS,
        .is_auto = is_auto,
        .bpe_path = get_text(options, "data.tokenizer"),
        .val_fraction = get(options, "data.val_fraction")->real,
        .max_bad_fraction = get(options, "data.max_bad_fraction")->real,
        .listen = get(options, "data.listen")->truth,
        .seed = (uint64_t)get(options, "training.seed")->integer,
    };
    if (out->bpe_path != NULL && wish->truth)
        return TD_FAIL(TD_ERR_CONFIG, "data.phonemes and data.tokenizer exclude each other; keep one");
    if (out->bpe_path != NULL) out->tokens = TD_TOKENS_BPE;
    if (!get(options, "data.cache")->truth) return TD_OK;
    out->cache_dir = cache_dir;
    return td_file_cache_dir(chosen != NULL ? chosen : getenv("TANDEM_CACHE_DIR"), cache_dir);
}

td_status td_settings_open_pool(const td_options *options, td_pool **out)
{
    return td_pool_create((size_t)get(options, "pipeline.num_workers")->integer, out);
}

static td_mel_cache_kind find_kind(const char *name)
{
    for (td_mel_cache_kind kind = TD_MEL_CACHE_AUTO; kind < TD_MEL_CACHE_DISK; ++kind)
        if (strcmp(td_mel_cache_kind_name(kind), name) == 0) return kind;
    return TD_MEL_CACHE_DISK;
}

/* What is loaded for no model in particular. */
static td_status want_usual(const td_options *options, td_data_settings *out)
{
    static const char *const USUAL[] = {"token_ids", "token_counts", "frame_counts",
                                        "speakers",  "mel",          "energy"};
    for (size_t i = 0; i < sizeof USUAL / sizeof USUAL[0]; ++i)
        TD_CHECK(td_data_want(out, USUAL[i]));
    if (get(options, "data.pitch")->truth) TD_CHECK(td_data_want(out, "pitch"));
    if (out->reference_s > 0) TD_CHECK(td_data_want(out, "reference_mel"));
    if (out->reference_s > 0) TD_CHECK(td_data_want(out, "reference_counts"));
    return TD_OK;
}

td_status td_settings_load(const td_options *options, char cache_dir[TD_FILE_PATH_BYTES],
                           td_data_settings *out)
{
    *out = (td_data_settings){
        .batch_size = (uint32_t)get(options, "training.batch_size")->integer,
        .max_mel_frames = (uint32_t)get(options, "data.max_mel_frames")->integer,
        .max_text_length = (uint32_t)get(options, "data.max_text_length")->integer,
        .mel_cache = find_kind(get(options, "data.mel_cache")->text),
        .mel_cache_bytes = get(options, "data.mel_cache_size")->bytes,
        .reference_s = (double)get(options, "data.reference_seconds")->integer,
    };
    TD_CHECK(want_usual(options, out));
    TD_CHECK(td_settings_dataset(options, cache_dir, &out->dataset));
    out->dataset.dir = get(options, "data.train_data")->text;
    out->dataset.listen = false; /* what is to be measured decodes by itself */
    return TD_OK;
}

/* ---------------------------------------------------------------- model */

const td_family *td_settings_family(const td_options *options)
{
    const td_option_value *strategy = get(options, "model.decoder_strategy");
    const td_option_value *family = get(options, "model.family");
    return td_family_find(family->origin >= strategy->origin ? family->text : strategy->text);
}

/* Whichever of its two names was given, both tell it. */
static td_status name_family(td_options *options, const td_family *family)
{
    const char *names[] = {family->name, family->alias};
    static const char *const KEYS[] = {"model.family", "model.decoder_strategy"};
    for (int i = 0; i < 2; ++i)
        if (names[i] != NULL && strcmp(get(options, KEYS[i])->text, names[i]) != 0)
            TD_CHECK(td_options_assign(options, KEYS[i], names[i], TD_ORIGIN_PRESET, KEYS[1 - i]));
    return TD_OK;
}

static bool has_key(const td_family *family, const td_model_key *key)
{
    for (size_t i = 0; i < family->n_keys; ++i)
        if (strcmp(family->keys[i].section, key->section) == 0 &&
            strcmp(family->keys[i].name, key->name) == 0)
            return true;
    return false;
}

/* Puts an option's text into the config. */
static td_status put_key(const td_options *options, const td_model_key *key, td_model_config *out)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%s", key->section, key->name);
    const td_option_value *chosen = get(options, name);
    if (td_model_config_put(out, key->name, chosen->text) == TD_OK) return TD_OK;
    return TD_FAIL(TD_ERR_CONFIG, "%s: %s", chosen->place, td_error_last()->message);
}

/* Keys that are of other families alone are checked, and otherwise not read: a file may be for several. */
static td_status check_unread(const td_options *options, const td_family *family, const char *size)
{
    char unread[512] = "", name[64];
    for (size_t f = 0; f < td_family_count(); ++f) {
        const td_family *other = td_family_at(f);
        td_model_config config;
        TD_CHECK(td_model_preset(other, size, &config));
        for (size_t i = 0; i < other->n_keys; ++i) {
            const td_model_key *key = &other->keys[i];
            const size_t used = strlen(unread);
            snprintf(name, sizeof name, "%s.%s", key->section, key->name);
            if (has_key(family, key) || get(options, name)->origin <= TD_ORIGIN_PRESET) continue;
            TD_CHECK(put_key(options, key, &config));
            if (strstr(unread, name) == NULL)
                snprintf(unread + used, sizeof unread - used, "%s%s", used > 0 ? ", " : "", name);
        }
    }
    if (unread[0] != '\0') td_log_warn("%s: without effect on a model of family %s", unread, family->name);
    return TD_OK;
}

/* Whether training takes the value of a key from the data, whatever is set. */
static bool is_from_data(const td_model_config *config, size_t key)
{
    static const td_data_facts FACTS[] = {
        {.n_symbols = 40, .n_speakers = 1, .n_mels = 40, .max_tokens = 100, .max_frames = 100},
        {.n_symbols = 80, .n_speakers = 1, .n_mels = 80, .max_tokens = 900, .max_frames = 900}};
    char values[2][TD_MODEL_VALUE_BYTES];
    for (size_t i = 0; i < 2; ++i) {
        td_model_config fitted = *config;
        fitted.family->fit(&FACTS[i], NULL, &fitted.values);
        td_model_config_get(&fitted, key, values[i]);
    }
    return strcmp(values[0], values[1]) != 0;
}

/* `preset` is the value that was in its place; config.ini of a run has that. */
static void warn_lost(const td_option_value *given, const char *name, const char *preset,
                      const td_model_config *config, size_t key)
{
    if (given->origin > TD_ORIGIN_PRESET && strcmp(given->text, preset) != 0 && is_from_data(config, key))
        td_log_warn("%s: %s = %s changes nothing: it is set from the data, whose lengths data.max_mel_frames "
                    "and data.max_text_length limit",
                    given->place, name, given->text);
}

/* A voice that a run begins from says what it is, unless the user does. */
static td_status begin_model(td_options *options, td_model_config *out, char place[64])
{
    td_status status = TD_OK;
    td_checkpoint *voice = NULL;
    const char *from = get(options, "training.init_from")->text;
    const char *size = get(options, "model.model_size")->text;
    const td_family *family = td_settings_family(options);
    const bool is_told = get(options, "model.model_size")->origin > TD_ORIGIN_DEFAULT ||
                         get(options, "model.family")->origin > TD_ORIGIN_DEFAULT ||
                         get(options, "model.decoder_strategy")->origin > TD_ORIGIN_DEFAULT;
    snprintf(place, 64, "preset %s", size);
    TD_TRY(td_model_preset(family, size, out));
    if (from == NULL || (is_told && !family->carries)) goto fail;
    TD_TRY(td_checkpoint_open(from, &voice));
    const td_model_config *model = &td_checkpoint_get_info(voice)->model;
    if (!model->family->carries || (is_told && model->family != family)) goto fail;
    snprintf(place, 64, "%.60s", "the voice");
    TD_TRY(td_model_preset(model->family, size, out));
    for (size_t i = 0; i < model->family->n_keys; ++i) {
        char value[TD_MODEL_VALUE_BYTES];
        if (strcmp(model->family->keys[i].section, "model") != 0) continue;
        td_model_config_get(model, i, value);
        TD_TRY(td_model_config_put(out, model->family->keys[i].name, value));
    }
    if (!is_told)
        TD_TRY(td_options_assign(options, "model.family", model->family->name, TD_ORIGIN_PRESET, place));
fail:
    td_checkpoint_close(voice);
    return status;
}

/* What a family is usually trained with, where the user says nothing. */
static td_status assign_usual(td_options *options, const td_model_config *model)
{
    if (model->family->usual == NULL) return TD_OK;
    for (const td_usual *row = model->family->usual(&model->values); row->key != NULL; ++row)
        TD_CHECK(td_options_assign(options, row->key, row->value, TD_ORIGIN_PRESET, model->family->name));
    return TD_OK;
}

/* The preset's values become options of little authority; then what came out on top is the model. */
static td_status read_model(td_options *options, td_model_config *out)
{
    char place[64], name[64], value[TD_MODEL_VALUE_BYTES];
    TD_CHECK(begin_model(options, out, place));
    const td_family *family = out->family;
    TD_CHECK(name_family(options, family));
    TD_CHECK(check_unread(options, family, get(options, "model.model_size")->text));
    for (size_t i = 0; i < family->n_keys; ++i) {
        const td_model_key *key = &family->keys[i];
        snprintf(name, sizeof name, "%s.%s", key->section, key->name);
        td_model_config_get(out, i, value);
        TD_CHECK(td_options_assign(options, name, value, TD_ORIGIN_PRESET, place));
        TD_CHECK(put_key(options, key, out));
        warn_lost(get(options, name), name, value, out, i);
    }
    return assign_usual(options, out);
}

/* ---------------------------------------------------------------- sizes */

/* What a device of this memory usually bears. */
static td_status choose_batch_size(td_options *options, const td_device_info *device, td_train_settings *out)
{
    const td_option_value *value = get(options, "training.batch_size");
    const double gigabytes = (double)device->caps.memory_bytes / (double)(UINT64_C(1) << 30);
    char text[16];
    if (value->origin == TD_ORIGIN_DEFAULT) {
        snprintf(text, sizeof text, "%d", gigabytes < 12 ? 16 : gigabytes < 24 ? 32 : 48);
        TD_CHECK(td_options_assign(options, "training.batch_size", text, TD_ORIGIN_PRESET, "device memory"));
        value = get(options, "training.batch_size");
    }
    out->auto_batch = value->integer == 0;
    out->data.batch_size = out->auto_batch ? 4 : (uint32_t)value->integer;
    return TD_OK;
}

static void read_limits(const td_options *options, td_train_settings *out)
{
    if (!get(options, "pipeline.enable_memory_isolation")->truth) return;
    out->data_limit_bytes = get(options, "pipeline.data_gpu_memory")->bytes;
    out->model_limit_bytes = get(options, "pipeline.model_gpu_memory")->bytes;
}

/* ---------------------------------------------------------------- the rest */

static void read_schedule(const td_options *options, td_schedule *out)
{
    static const char *const NAMES[] = {"noam", "cosine", "exponential", "constant"};
    const double lr = get(options, "training.lr")->real;
    *out = (td_schedule){.lr = lr,
                         .min_lr = lr * get(options, "training.min_lr_share")->real,
                         .warmup_steps = get_count(options, "training.warmup_steps"),
                         .decay_steps = get_count(options, "training.decay_steps"),
                         .decay_rate = get(options, "training.decay_rate")->real};
    for (int i = 0; i < TD_SCHEDULE_COUNT; ++i)
        if (strcmp(NAMES[i], get(options, "training.scheduler")->text) == 0) out->kind = (td_schedule_kind)i;
}

td_dtype td_settings_precision(const char *name)
{
    if (strcmp(name, "bf16") == 0) return TD_BF16;
    return strcmp(name, "fp16") == 0 ? TD_F16 : TD_F32;
}

/* What is kept in 16 bits, if anything. */
static td_dtype read_half(const td_options *options)
{
    if (!get(options, "training.mixed_precision")->truth) return TD_F32;
    return td_settings_precision(get(options, "training.mixed_format")->text);
}

td_state_format td_settings_state(const char *name)
{
    if (strcmp(name, "fp32") == 0) return TD_STATE_FP32;
    return strcmp(name, "bf16") == 0 ? TD_STATE_BF16 : TD_STATE_INT8;
}

static void read_training(const td_options *options, td_train_settings *out)
{
    out->optimizer = (td_optimizer_options){.beta1 = get_float(options, "training.beta1"),
                                            .beta2 = get_float(options, "training.beta2"),
                                            .eps = get_float(options, "training.eps"),
                                            .decay = get_float(options, "training.weight_decay"),
                                            .max_norm = get_float(options, "training.grad_clip"),
                                            .average_decay = get_float(options, "training.average_decay")};
    out->average = out->optimizer.average_decay > 0;
    out->state = td_settings_state(get_text(options, "training.optimizer_state"));
    out->host_moments = strcmp(get_text(options, "training.optimizer_device"), "host") == 0;
    out->plan = (td_plan_options){.checkpoint = get(options, "model.gradient_checkpointing")->truth,
                                  .half = read_half(options)};
    if (out->plan.half == TD_F16) out->optimizer.scale_growth_steps = TD_SCALE_GROWTH_STEPS;
    out->epochs = get_count(options, "training.epochs");
    out->max_steps = get_count(options, "training.max_steps");
    out->max_minutes = get(options, "training.max_minutes")->real;
    out->grad_accum = (uint32_t)get_count(options, "training.grad_accum");
    out->save_every = get_count(options, "training.save_every");
    out->val_every = get_count(options, "training.val_every");
    out->best_by_distance = strcmp(get(options, "training.best_by")->text, "free_running") == 0;
    out->sample_every = get_count(options, "training.sample_every");
    out->sample_reference = get(options, "training.sample_reference")->text;
    out->log_every = get_count(options, "logging.log_every");
    out->patience = get_count(options, "training.early_stopping_patience");
    out->max_bad_steps = (uint32_t)get_count(options, "training.max_bad_steps");
    out->seed = get_count(options, "training.seed");
    out->keep = get_count(options, "training.keep_checkpoints");
    out->run_dir = get(options, "training.checkpoint_dir")->text;
    out->resume = get(options, "training.resume")->text;
    out->reset = get(options, "training.reset_training")->truth;
    out->init_from = get(options, "training.init_from")->text;
    out->acoustic = get(options, "training.acoustic")->text;
    out->freeze = get(options, "training.freeze")->text;
    out->val_dir = get(options, "data.val_data")->text;
    out->events_dir = get(options, "logging.tensorboard_log_dir")->text;
    out->dump_step = get(options, "logging.dump_step")->text;
    out->shard_optimizer = get(options, "cluster.shard_optimizer")->truth;
    out->balances = strcmp(get_text(options, "cluster.balance"), "measured") == 0;
    out->bucket_bytes = (uint64_t)(1e6 * get(options, "cluster.bucket_mb")->real);
    if (strcmp(get_text(options, "cluster.reduce_format"), "bf16") == 0) out->reduce_format = TD_WIRE_BF16;
}

td_status td_settings_plan(td_options *options, const td_device_info *device,
                           char cache_dir[TD_FILE_PATH_BYTES], td_train_settings *out)
{
    *out = (td_train_settings){0};
    TD_CHECK(td_settings_load(options, cache_dir, &out->data));
    out->data.workers = get_count(options, "pipeline.num_workers");
    out->data.n_buckets = get(options, "pipeline.enable_static_shapes")->truth ? 1 : 0;
    TD_CHECK(read_model(options, &out->model));
    out->data.max_mel_frames =
        (uint32_t)get_count(options, "data.max_mel_frames"); /* families have usual ones */
    if (out->data.reference_s > 0 && !td_model_describe(&out->model).takes_reference)
        td_log_warn("data.reference_seconds changes nothing: the model takes no reference; set "
                    "model.speaker_encoder = true");
    read_schedule(options, &out->schedule);
    read_training(options, out);
    read_limits(options, out);
    out->buffer_size = (uint32_t)get_count(options, "pipeline.buffer_size");
    out->prefetch_size = (uint32_t)get_count(options, "pipeline.prefetch_buffer_size");
    out->depth = (uint32_t)get_count(options, "pipeline.pipeline_depth");
    out->start_delay_s = get(options, "pipeline.model_start_delay")->real;
    out->auto_tune = get(options, "pipeline.auto_tune")->truth;
    return choose_batch_size(options, device, out);
}

td_status td_settings_train(td_options *options, const td_device_info *device,
                            char cache_dir[TD_FILE_PATH_BYTES], td_train_settings *out)
{
    TD_CHECK(td_settings_plan(options, device, cache_dir, out));
    TD_REFUSE_IF(out->data.dataset.dir == NULL, TD_ERR_CONFIG, "no dataset was named; set data.train_data");
    return TD_OK;
}
