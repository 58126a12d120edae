/* See train_options.h. */
#include "cli/train_options.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "cli/load_options.h"

static const td_option_value *get(const td_cli *cli, const char *key)
{
    return td_options_get(cli->options, key);
}

static uint64_t get_count(const td_cli *cli, const char *key)
{
    return (uint64_t)get(cli, key)->integer;
}

static float get_float(const td_cli *cli, const char *key)
{
    return (float)get(cli, key)->real;
}

/* ---------------------------------------------------------------- model */

/* The preset's values become options of little authority; then what came out on top is the model. */
static td_status read_model(td_cli *cli, td_model_config *out)
{
    td_status status = TD_OK;
    char place[64], name[64], value[TD_MODEL_VALUE_BYTES];
    const char *size = get(cli, "model.model_size")->text;
    const bool steps = strcmp(get(cli, "model.decoder_strategy")->text, "autoregressive") == 0;
    const td_strategy strategy = steps ? TD_AUTOREGRESSIVE : TD_NON_AUTOREGRESSIVE;
    TD_TRY(td_model_preset(size, strategy, out));
    snprintf(place, sizeof place, "preset %s", size);
    for (size_t i = 0; i < td_model_key_count(); ++i) {
        snprintf(name, sizeof name, "model.%s", td_model_key_name(i));
        td_model_config_get(out, i, value);
        TD_TRY(td_options_assign(cli->options, name, value, TD_ORIGIN_PRESET, place));
        const td_option_value *chosen = get(cli, name);
        if (td_model_config_put(out, td_model_key_name(i), chosen->text) == TD_OK) continue;
        TD_FAIL_IF(true, TD_ERR_CONFIG, "%s: %s", chosen->place, td_error_last()->message);
    }
fail:
    return status;
}

/* Simple: what the alignment and the spectrogram are learnt from, and nothing that a table of weights says.
 */
static void read_losses(const td_cli *cli, td_model_losses *out)
{
    char name[64];
    const char *kind = get(cli, "training.mel_loss")->text;
    const bool simple = get(cli, "training.simple_loss")->truth;
    *out = td_model_losses_default();
    out->weights[TD_TERM_supervision] = 0.3F; /* what docs/model.md tells of as having trained well */
    out->weights[TD_TERM_guided] = 5;
    out->mel_kind = strcmp(kind, "l1") == 0    ? TD_LOSS_L1
                    : strcmp(kind, "mse") == 0 ? TD_LOSS_MSE
                                               : TD_LOSS_HUBER;
    for (int i = 0; i < TD_MODEL_TERM_COUNT; ++i) {
        snprintf(name, sizeof name, "training.loss_%s", td_model_term_name((td_model_term)i));
        if (get(cli, name)->text != NULL) out->weights[i] = get_float(cli, name);
    }
    if (!simple) return;
    static const td_model_term EXTRA[] = {TD_TERM_pitch, TD_TERM_energy, TD_TERM_guided};
    for (size_t i = 0; i < sizeof EXTRA / sizeof EXTRA[0]; ++i)
        out->weights[EXTRA[i]] = 0;
}

/* ---------------------------------------------------------------- sizes */

/* What a device of this memory usually bears. */
static td_status choose_batch_size(td_cli *cli, const td_device_info *device, td_train_settings *out)
{
    td_status status = TD_OK;
    const td_option_value *value = get(cli, "training.batch_size");
    const double gigabytes = (double)device->caps.memory_bytes / (double)(UINT64_C(1) << 30);
    char text[16];
    if (value->origin == TD_ORIGIN_DEFAULT) {
        snprintf(text, sizeof text, "%d", gigabytes < 12 ? 16 : gigabytes < 24 ? 32 : 48);
        TD_TRY(
            td_options_assign(cli->options, "training.batch_size", text, TD_ORIGIN_PRESET, "device memory"));
        value = get(cli, "training.batch_size");
    }
    out->auto_batch = value->integer == 0;
    out->feed.batch_size = out->auto_batch ? 4 : (uint32_t)value->integer;
fail:
    return status;
}

static void read_limits(const td_cli *cli, td_train_settings *out)
{
    if (!get(cli, "pipeline.enable_memory_isolation")->truth) return;
    out->data_limit_bytes = get(cli, "pipeline.data_gpu_memory")->bytes;
    out->model_limit_bytes = get(cli, "pipeline.model_gpu_memory")->bytes;
}

/* ---------------------------------------------------------------- the rest */

static void read_schedule(const td_cli *cli, td_schedule *out)
{
    static const char *const NAMES[] = {"noam", "cosine", "exponential", "constant"};
    const double lr = get(cli, "training.lr")->real;
    *out = (td_schedule){.lr = lr,
                         .min_lr = lr * get(cli, "training.min_lr_share")->real,
                         .warmup_steps = get_count(cli, "training.warmup_steps"),
                         .decay_steps = get_count(cli, "training.decay_steps"),
                         .decay_rate = get(cli, "training.decay_rate")->real};
    for (int i = 0; i < TD_SCHEDULE_COUNT; ++i)
        if (strcmp(NAMES[i], get(cli, "training.scheduler")->text) == 0) out->kind = (td_schedule_kind)i;
}

td_dtype td_cli_precision(const char *name)
{
    if (strcmp(name, "bf16") == 0) return TD_BF16;
    return strcmp(name, "fp16") == 0 ? TD_F16 : TD_F32;
}

/* What is kept in 16 bits, if anything. */
static td_dtype read_half(const td_cli *cli)
{
    if (!get(cli, "training.mixed_precision")->truth) return TD_F32;
    return td_cli_precision(get(cli, "training.mixed_format")->text);
}

static void read_training(const td_cli *cli, td_train_settings *out)
{
    out->optimizer = (td_optimizer_options){.beta1 = get_float(cli, "training.beta1"),
                                            .beta2 = get_float(cli, "training.beta2"),
                                            .eps = get_float(cli, "training.eps"),
                                            .decay = get_float(cli, "training.weight_decay"),
                                            .max_norm = get_float(cli, "training.grad_clip"),
                                            .average_decay = get_float(cli, "training.average_decay")};
    out->average = out->optimizer.average_decay > 0;
    out->plan = (td_plan_options){.checkpoint = get(cli, "model.gradient_checkpointing")->truth,
                                  .half = read_half(cli)};
    if (out->plan.half == TD_F16) out->optimizer.scale_growth_steps = TD_SCALE_GROWTH_STEPS;
    out->epochs = get_count(cli, "training.epochs");
    out->max_steps = get_count(cli, "training.max_steps");
    out->max_minutes = get(cli, "training.max_minutes")->real;
    out->grad_accum = (uint32_t)get_count(cli, "training.grad_accum");
    out->save_every = get_count(cli, "training.save_every");
    out->val_every = get_count(cli, "training.val_every");
    out->sample_every = get_count(cli, "training.sample_every");
    out->log_every = get_count(cli, "logging.log_every");
    out->patience = get_count(cli, "training.early_stopping_patience");
    out->max_bad_steps = (uint32_t)get_count(cli, "training.max_bad_steps");
    out->supervision_start = get_count(cli, "training.supervision_start");
    out->seed = get_count(cli, "training.seed");
    out->keep = get_count(cli, "training.keep_checkpoints");
    out->run_dir = get(cli, "training.checkpoint_dir")->text;
    out->resume = get(cli, "training.resume")->text;
    out->reset = get(cli, "training.reset_training")->truth;
    out->init_from = get(cli, "training.init_from")->text;
    out->freeze = get(cli, "training.freeze")->text;
    out->val_dir = get(cli, "data.val_data")->text;
    out->events_dir = get(cli, "logging.tensorboard_log_dir")->text;
    out->dump_step = get(cli, "logging.dump_step")->text;
}

td_status td_cli_plan_settings(td_cli *cli, const td_device_info *device, char cache_dir[TD_FILE_PATH_BYTES],
                               td_train_settings *out)
{
    td_status status = TD_OK;
    *out = (td_train_settings){0};
    TD_TRY(td_cli_load_options(cli, cache_dir, &out->feed));
    out->feed.workers = get_count(cli, "pipeline.num_workers");
    out->feed.n_buckets = get(cli, "pipeline.enable_static_shapes")->truth ? 1 : 0;
    TD_TRY(read_model(cli, &out->model));
    read_losses(cli, &out->losses);
    read_schedule(cli, &out->schedule);
    read_training(cli, out);
    read_limits(cli, out);
    out->buffer_size = (uint32_t)get_count(cli, "pipeline.buffer_size");
    out->prefetch_size = (uint32_t)get_count(cli, "pipeline.prefetch_buffer_size");
    out->depth = (uint32_t)get_count(cli, "pipeline.pipeline_depth");
    out->start_delay_s = get(cli, "pipeline.model_start_delay")->real;
    out->auto_tune = get(cli, "pipeline.auto_tune")->truth;
    TD_TRY(choose_batch_size(cli, device, out));
fail:
    return status;
}

td_status td_cli_train_settings(td_cli *cli, const td_device_info *device, char cache_dir[TD_FILE_PATH_BYTES],
                                td_train_settings *out)
{
    td_status status = TD_OK;
    TD_TRY(td_cli_plan_settings(cli, device, cache_dir, out));
    TD_FAIL_IF(out->feed.dataset.dir == NULL, TD_ERR_CONFIG, "no dataset was named; add --train-data DIR");
fail:
    return status;
}
