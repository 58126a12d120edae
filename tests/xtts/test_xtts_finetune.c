/* Whole runs that fine-tune a shrunk voice, of which the DVAE makes the codes: what is learnt, what stays, that the
 * checkpoint speaks and goes on to the same bits, whole and with adapters, on one device and on two, with samples and
 * without; that adapters are merged. */
#include "families/run.h"

#include <string.h>

#include "families/importer.h"
#include "families/xtts/engine.h"
#include "families/xtts/load.h"
#include "families/xtts/xtts_coqui.h"
#include "families/xtts/xtts_layout.h"
#include "fixture.h"

#define VOCAB GOLDEN_DIR "/xtts_vocab.json"
enum { MOST = 1024 };

/* ---------------------------------------------------------------- a voice with a DVAE */

typedef struct tensors {
    td_checkpoint_tensor_data at[MOST];
    char names[MOST][TD_XTTS_NAME_BYTES];
    size_t count;
    const char *as_bytes; /* the name of one that is stored so; "": none is */
} tensors;

static td_status add_tensor(void *context, const td_xtts_tensor *t)
{
    tensors *all = context;
    size_t n = 1;
    assert_true(all->count < MOST);
    td_checkpoint_tensor_data *out = &all->at[all->count];
    snprintf(all->names[all->count], sizeof all->names[0], "%s", t->name);
    *out = (td_checkpoint_tensor_data){.prefix = "",
                                       .name = all->names[all->count++],
                                       .dtype = t->is_integer ? TD_SAFETENSORS_I64 : TD_SAFETENSORS_F32,
                                       .rank = t->rank};
    for (size_t d = 0; d < t->rank; d++)
        n *= (size_t)(out->dims[d] = t->dims[d]);
    if (strcmp(t->name, all->as_bytes) == 0) out->dtype = TD_SAFETENSORS_I8;
    out->bytes = td_safetensors_dtype_bytes(out->dtype) * n;
    float *values = calloc(1, (size_t)out->bytes);
    assert_non_null(values);
    out->data = values;
    if (out->dtype == TD_SAFETENSORS_F32) golden_fill(t->name, out, values);
    return TD_OK;
}

static char voice_path[512];

/* As small as a model can be that has all parts. */
static void make_voice(td_model_config *model, const char *as_bytes)
{
    static const char *const values[][2] = {{"gpt_number_text_tokens", "90"}, {"gpt_start_text_token", "5"},
                                            {"gpt_num_audio_tokens", "34"},   {"gpt_start_audio_token", "32"},
                                            {"gpt_stop_audio_token", "33"},   {"gpt_max_audio_tokens", "60"},
                                            {"gpt_max_text_tokens", "40"},    {"decoder_channels", "16"},
                                            {"d_vector_dim", "16"},           {"dvae_hidden", "8"},
                                            {"dvae_codebook_dim", "8"}};
    static tensors all;
    char *vocab;
    size_t bytes;
    check(td_model_preset(td_family_find("xtts"), "pico", model));
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        check(td_model_config_put(model, values[i][0], values[i][1]));
    const td_xtts c = td_xtts_get(model);
    all.count = 0;
    all.as_bytes = as_bytes;
    check(td_xtts_walk(&c, add_tensor, &all));
    check(td_file_read(VOCAB, 1 << 20, &vocab, &bytes));
    const td_checkpoint_info info = {.model = *model,
                                     .mel = td_xtts_conditioning_mel(&c),
                                     .front_ends = {td_xtts_dvae_mel(&c)},
                                     .token_kind = TD_TOKENS_BPE,
                                     .symbols = "",
                                     .tokenizer = "",
                                     .language = "en",
                                     .speakers = ""};
    const td_safetensors_pair pairs[] = {{"licence", "mine"}, {TD_COQUI_KEY_VOCAB, vocab}};
    snprintf(voice_path, sizeof voice_path, "%s", temp_path("voice.safetensors"));
    check(td_checkpoint_write(voice_path, &info, pairs, 2, all.at, all.count));
    for (size_t i = 0; i < all.count; i++)
        free((void *)(uintptr_t)all.at[i].data);
    free(vocab);
}

static td_train_settings begin(const char *run, uint64_t steps, bool lora)
{
    td_train_settings s = run_settings("xtts", run, steps);
    make_voice(&s.model, "");
    check(td_model_config_put(&s.model, "tune", lora ? "lora" : "full"));
    check(td_model_config_put(&s.model, "lora_rank", "2"));
    s.init_from = voice_path;
    s.data.max_mel_frames = 60;
    s.schedule.lr = 1e-3;
    s.optimizer.max_norm = 0;
    return s;
}

/* ---------------------------------------------------------------- tests */

static td_registry *registry;
static td_device *devices[2]; /* of one kind */

static int open_devices(void **state)
{
    static const char *const SELECTORS[] = {"cl:0.0", "cl:0.1"};
    const td_device_info *infos[2];
    td_registry_options options;
    setenv("POCL_DEVICES", "pthread pthread", 1); /* two OpenCL devices on any computer */
    td_registry_options_from_env(&options);
    check(td_registry_open(&options, &registry));
    for (size_t i = 0; i < 2; i++)
        check(td_registry_select(registry, SELECTORS[i], &infos[i]));
    check(td_devices_open(registry, infos, 2, devices));
    return run_open(state);
}

static int close_devices(void **state)
{
    for (size_t i = 2; i-- > 0;)
        td_device_close(devices[i]);
    td_registry_close(registry);
    return run_close(state);
}

/* A run and the samples that it made. */
typedef struct heard {
    run_losses losses;
    size_t n_samples, n_warnings;
} heard;

static void keep_heard(void *context, const td_train_event *event)
{
    heard *kept = context;
    run_keep_loss(&kept->losses, event);
    kept->n_samples += event->kind == TD_TRAIN_SAMPLED;
    if (event->kind == TD_TRAIN_WARNING) print_message("%s\n", event->text);
    kept->n_warnings += event->kind == TD_TRAIN_WARNING;
}

static uint64_t sample_bytes(const char *run, const char *name)
{
    char path[TD_FILE_PATH_BYTES];
    uint64_t bytes = 0;
    snprintf(path, sizeof path, "%s/samples/%s", temp_path(run), name);
    check(td_file_size(path, &bytes));
    return bytes;
}

/* On one device, with samples on the way; and on two, in two parts, of which the first has its moments on the host. As
 * in real runs gradients are not cut, so parameters are updated in the backward pass. */
static void check_run(bool lora)
{
    heard kept = {0};
    char whole[TD_FILE_PATH_BYTES];
    td_train_settings s = begin("whole", 6, lora);
    s.tell = keep_heard;
    s.context = &kept;
    s.val_every = s.sample_every = 3;
    td_train_result result = run_train(&s);
    assert_int_equal(result.step, 6);
    assert_int_equal(kept.losses.count, 6);
    assert_true(isfinite(kept.losses.values[5]));
    assert_int_equal(kept.n_samples, 2);
    assert_int_equal(kept.n_warnings, 0);
    assert_true(sample_bytes("whole", "step-3-0.wav") > 1000 && sample_bytes("whole", "step-6-1.wav") > 1000);
    snprintf(whole, sizeof whole, "%s", result.checkpoint);

    s = begin("parts", 3, lora);
    s.val_every = 3;
    s.host_moments = true;
    check(td_train_run(devices[1], devices[0], &s, &result));
    s.host_moments = false;
    s.max_steps = 6;
    s.init_from = NULL;
    check(td_train_run(devices[1], devices[0], &s, &result));
    assert_true(run_is_same(whole, result.checkpoint));
}

static void test_a_run_goes_on_to_the_same_bits(void **state)
{
    (void)state;
    check_run(false);
}

static void test_a_run_of_adapters_goes_on_to_the_same_bits(void **state)
{
    (void)state;
    check_run(true);
}

/* Tensors of two voices as they are spoken with. */
static double compare(const td_checkpoint *a, const td_checkpoint *b, const char *name)
{
    float *x, *y;
    size_t n_x, n_y;
    check(td_xtts_read_tensor(a, name, &x, &n_x));
    check(td_xtts_read_tensor(b, name, &y, &n_y));
    assert_int_equal(n_x, n_y);
    const double error = relative_error(x, y, n_x);
    free(x);
    free(y);
    return error;
}

/* What was learnt, what stayed, and that it can be spoken with. */
static void test_a_checkpoint_is_a_voice(void **state)
{
    td_checkpoint *voice, *tuned;
    td_xtts_engine *engine;
    (void)state;
    const td_train_settings s = begin("run", 3, false);
    const td_train_result result = run_train(&s);
    check(td_checkpoint_open(voice_path, &voice));
    check(td_checkpoint_open(result.checkpoint, &tuned));
    assert_string_equal(td_checkpoint_text(tuned, "licence"), "mine");
    assert_non_null(td_checkpoint_text(tuned, TD_COQUI_KEY_VOCAB));
    assert_true(compare(voice, tuned, "gpt.gpt.h.1.mlp.c_fc.weight") > 1e-4);
    assert_true(compare(voice, tuned, "gpt.conditioning_perceiver.latents") > 1e-4);
    assert_true(compare(voice, tuned, "hifigan_decoder.waveform_decoder.conv_pre.weight") == 0);
    assert_true(compare(voice, tuned, "dvae.codebook.embed") == 0 && compare(voice, tuned, "mel_stats") == 0);
    check(td_xtts_engine_open(run_rig.memory, run_rig.memory, tuned, 0, &engine));
    td_xtts_engine_close(engine);
    td_checkpoint_close(tuned);
    td_checkpoint_close(voice);
}

/* The vocoder of an imported voice: it alone changes, and is exported as Coqui's. */
static void test_a_tuned_vocoder_is_exported(void **state)
{
    static const char layer[] =
        "hifigan_decoder.waveform_decoder.resblocks.4.convs1.1.parametrizations.weight.";
    td_checkpoint *voice, *tuned, *back;
    td_import *import;
    char name[128];
    (void)state;
    td_train_settings s = begin("run", 3, false);
    check(td_model_config_put(&s.model, "tune", "vocoder"));
    check(td_model_config_put(&s.model, "crop", "12"));
    check(td_model_config_put(&s.model, "discriminators", "false"));
    const td_train_result result = run_train(&s);
    check(td_checkpoint_open(voice_path, &voice));
    check(td_checkpoint_open(result.checkpoint, &tuned));
    check(td_export_voice(tuned, "coqui", temp_path("coqui")));
    check(td_import_open(temp_path("coqui"), false, &import));
    check(td_import_write(import, temp_path("back.safetensors"), TD_SAFETENSORS_F32));
    td_import_close(import);
    check(td_checkpoint_open(temp_path("back.safetensors"), &back));
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%soriginal%d", layer, i);
        assert_true(compare(voice, tuned, name) > 1e-4);
        assert_true(compare(back, tuned, name) == 0);
    }
    assert_true(compare(voice, tuned, "gpt.gpt.h.1.mlp.c_fc.weight") == 0);
    assert_true(compare(voice, back, "hifigan_decoder.speaker_encoder.conv1.weight") == 0);
    td_checkpoint_close(back);
    td_checkpoint_close(tuned);
    td_checkpoint_close(voice);
}

static void check_merged(const td_checkpoint *voice, const td_checkpoint *tuned, const char *layer)
{
    char name[96];
    float *w, *got, *a, *b;
    size_t n, n_a, n_b;
    const char *ends[] = {".weight", ".lora_A.weight", ".lora_B.weight"};
    float **to[] = {&w, &a, &b};
    size_t *counts[] = {&n, &n_a, &n_b};
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s%s", layer, ends[i]);
        check(td_xtts_read_tensor(i ? tuned : voice, name, to[i], counts[i]));
    }
    snprintf(name, sizeof name, "%s.weight", layer);
    check(td_xtts_read_tensor(tuned, name, &got, &n));
    const size_t in = n_a / 2, out = n_b / 2;
    double changed = 0;
    assert_int_equal(in * out, n);
    for (size_t i = 0; i < in; i++) {
        for (size_t o = 0; o < out; o++) {
            const double more =
                16.0 * ((double)a[i] * (double)b[o * 2] + (double)a[in + i] * (double)b[o * 2 + 1]);
            const double expected = (double)w[i * out + o] + more;
            if (!(fabs((double)got[i * out + o] - expected) <= 1e-6)) fail_msg("%s is not merged", layer);
            changed += fabs(more);
        }
    }
    assert_true(changed > 0);
    free(w);
    free(a);
    free(b);
    free(got);
}

/* alpha 32, rank 2. */
static void test_adapters_are_merged_to_speak_and_to_export(void **state)
{
    td_checkpoint *voice, *tuned, *back;
    td_import *import;
    (void)state;
    const td_train_settings s = begin("run", 3, true);
    const td_train_result result = run_train(&s);
    check(td_checkpoint_open(voice_path, &voice));
    check(td_checkpoint_open(result.checkpoint, &tuned));
    check_merged(voice, tuned, "gpt.gpt.h.0.attn.c_attn");
    check_merged(voice, tuned, "gpt.gpt.h.1.mlp.c_proj");
    assert_true(compare(voice, tuned, "gpt.conditioning_perceiver.latents") == 0);
    check(td_export_voice(tuned, "coqui", temp_path("coqui")));
    check(td_import_open(temp_path("coqui"), false, &import));
    check(td_import_write(import, temp_path("back.safetensors"), TD_SAFETENSORS_F32));
    td_import_close(import);
    check(td_checkpoint_open(temp_path("back.safetensors"), &back));
    assert_true(compare(back, tuned, "gpt.gpt.h.1.attn.c_proj.weight") == 0);
    assert_true(compare(back, tuned, "gpt.mel_head.weight") == 0);
    td_checkpoint_close(back);
    check(td_export_voice(tuned, "peft", temp_path("adapters")));
    char path[TD_FILE_PATH_BYTES];
    uint64_t bytes = 0, of_voice = 0;
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", temp_path("adapters"));
    check(td_file_size(path, &bytes));
    check(td_file_size(voice_path, &of_voice));
    assert_true(bytes < of_voice / 4);
    check(td_import_attach(voice, path));
    assert_true(compare(voice, tuned, "gpt.gpt.h.0.attn.c_attn.weight") == 0);
    assert_true(compare(voice, tuned, "gpt.gpt.h.1.mlp.c_proj.weight") == 0);
    refuse(TD_ERR_FORMAT, "r and lora_alpha", td_import_attach(voice, voice_path));
    refuse(TD_ERR_UNSUPPORTED, "no adapters", td_export_voice(voice, "peft", temp_path("adapters")));
    td_checkpoint_close(tuned);
    td_checkpoint_close(voice);
}

static void test_weights_as_bytes_are_not_trained(void **state)
{
    td_train_result result;
    (void)state;
    td_train_settings s = begin("bytes", 1, true);
    make_voice(&s.model, "gpt.gpt.h.0.attn.c_attn.weight");
    refuse(TD_ERR_UNSUPPORTED, "attn.c_attn.weight is stored as bytes",
           td_train_run(run_rig.device, run_rig.device, &s, &result));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_run_goes_on_to_the_same_bits, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_a_run_of_adapters_goes_on_to_the_same_bits, run_set_up,
                                        temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_a_checkpoint_is_a_voice, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_a_tuned_vocoder_is_exported, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_adapters_are_merged_to_speak_and_to_export, run_set_up,
                                        temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_weights_as_bytes_are_not_trained, run_set_up, temp_dir_remove),
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
