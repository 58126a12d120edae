/* A GPT from nothing that learns from the codes of a DVAE that came from nothing too: what it takes over, what a batch
 * holds, and the same batches when another device prepares them; and its vocoder, on what the GPT thinks. */
#include "families/run.h"

#include "base/file.h"
#include "families/importer.h"
#include "families/xtts/engine.h"
#include "families/xtts/hear.h"

#define VOCAB GOLDEN_DIR "/xtts_vocab.json"

static void put_all(td_model_config *model, const char *const (*values)[2], size_t n)
{
    for (size_t i = 0; i < n; ++i)
        check(td_model_config_put(model, values[i][0], values[i][1]));
}

/* The vocabulary in a file that can be removed; static. */
static const char *copy_vocabulary(void)
{
    static char path[TD_FILE_PATH_BYTES];
    char *text;
    size_t bytes;
    check(td_file_read(VOCAB, 1 << 20, &text, &bytes));
    snprintf(path, sizeof path, "%s", temp_path("vocab.json"));
    write_text(path, text);
    free(text);
    return path;
}

/* The checkpoint of a small DVAE; static. */
static const char *train_dvae(const char *codes)
{
    static char path[TD_FILE_PATH_BYTES];
    const char *const values[][2] = {{"hidden", "8"}, {"codebook_dim", "6"}, {"codes", codes}};
    td_train_settings s = run_settings("dvae", "dvae", 2);
    s.reset = true;
    put_all(&s.model, values, 3);
    const td_train_result result = run_train(&s);
    snprintf(path, sizeof path, "%s", result.checkpoint);
    return path;
}

static td_train_settings make_settings(const char *run, uint64_t steps, const char *dvae)
{
    static const char *const VALUES[][2] = {
        {"gpt_start_text_token", "5"},  {"gpt_num_audio_tokens", "18"}, {"gpt_start_audio_token", "16"},
        {"gpt_stop_audio_token", "17"}, {"gpt_max_audio_tokens", "60"}, {"gpt_max_text_tokens", "40"},
        {"conditioning_blocks", "1"},   {"perceiver_layers", "1"},      {"dvae_hidden", "8"},
        {"dvae_codebook_dim", "6"},     {"perceiver_heads", "1"}};
    td_train_settings s = run_settings("xtts", run, steps);
    put_all(&s.model, VALUES, sizeof VALUES / sizeof VALUES[0]);
    s.data.dataset.tokens = TD_TOKENS_BPE;
    s.data.dataset.bpe_path = VOCAB;
    s.init_from = dvae;
    s.schedule.lr = 1e-3;
    return s;
}

static void check_codebook(const char *a_path, const char *b_path)
{
    td_checkpoint *a, *b;
    const td_safetensors_tensor *x, *y;
    check(td_checkpoint_open(a_path, &a));
    check(td_checkpoint_open(b_path, &b));
    check(td_checkpoint_tensor(a, "state.", "dvae.codebook.embed", &x));
    check(td_checkpoint_tensor(b, "state.", "dvae.codebook.embed", &y));
    assert_int_equal(x->bytes, y->bytes);
    assert_memory_equal(x->data, y->data, x->bytes);
    td_checkpoint_close(a);
    td_checkpoint_close(b);
}

static void test_it_begins_with_the_dvae(void **state)
{
    (void)state;
    run_losses losses = {0};
    const char *dvae = train_dvae("16");
    td_train_settings s = make_settings("gpt", 6, dvae);
    s.data.dataset.bpe_path = copy_vocabulary();
    s.val_every = 6;
    s.tell = run_keep_loss;
    s.context = &losses;
    const td_train_result whole = run_train(&s);
    assert_int_equal(losses.count, 6);
    assert_true(losses.values[5] < losses.values[0] && losses.validation > 0);
    check_codebook(dvae, whole.checkpoint);
    assert_int_equal(run_count_changed(dvae, whole.checkpoint, "param.dvae.encoder."), 0);
    assert_int_equal(run_count_changed(dvae, whole.checkpoint, "param.mel_stats"), 0);
    s.run_dir = temp_path("parts");
    s.max_steps = 3;
    run_train(&s);
    assert_int_equal(remove(s.data.dataset.bpe_path), 0); /* its checkpoints hold it */
    s.max_steps = 6;
    const td_train_result second = run_train(&s);
    assert_true(run_is_same(whole.checkpoint, second.checkpoint));
}

/* What Coqui's loader takes of a voice that was named its vocabulary once, at its beginning. */
static void check_export(const char *path)
{
    td_checkpoint *voice;
    char *made, *given;
    size_t n_made, n_given;
    check(td_checkpoint_open(path, &voice));
    check(td_export_voice(voice, "coqui", temp_path("coqui")));
    td_checkpoint_close(voice);
    check(td_file_read(temp_path("coqui/vocab.json"), 1 << 20, &made, &n_made));
    check(td_file_read(VOCAB, 1 << 20, &given, &n_given));
    assert_int_equal(n_made, n_given);
    assert_memory_equal(made, given, n_made);
    free(made);
    free(given);
}

static void test_another_dvae_is_refused(void **state)
{
    (void)state;
    td_train_result result;
    const td_train_settings s = make_settings("gpt", 1, train_dvae("32"));
    refuse(TD_ERR_CONFIG, "dvae.codebook.embed", td_train_run(run_rig.device, run_rig.device, &s, &result));
}

/* ---------------------------------------------------------------- its vocoder */

/* A GPT of a few steps; static. */
static const char *train_gpt(void)
{
    static char path[TD_FILE_PATH_BYTES];
    const td_train_settings s = make_settings("thinker", 2, train_dvae("16"));
    const td_train_result result = run_train(&s);
    snprintf(path, sizeof path, "%s", result.checkpoint);
    return path;
}

static td_train_settings make_vocoder_settings(const char *run, uint64_t steps, const char *voice)
{
    static const char *const VALUES[][2] = {
        {"tune", "vocoder"}, {"crop", "12"}, {"discriminator_width", "2"}, {"adversarial_start", "2"}};
    td_train_settings s = make_settings(run, steps, voice);
    td_checkpoint *from;
    check(td_checkpoint_open(voice, &from));
    s.model = td_checkpoint_get_info(from)->model;
    td_checkpoint_close(from);
    put_all(&s.model, VALUES, sizeof VALUES / sizeof VALUES[0]);
    s.schedule.lr = 2e-3;
    return s;
}

static double mean_of_three(const double *values)
{
    return (values[0] + values[1] + values[2]) / 3;
}

/* A GPT's run has no vocoder, so one is drawn; it learns, and goes on to the same bits with its discriminators; nothing else
 * changes, and a voice comes out that is heard. */
static void test_its_vocoder_learns(void **state)
{
    (void)state;
    enum { STEPS = 12 };
    run_losses losses = {0};
    char begun[TD_FILE_PATH_BYTES];
    const char *gpt = train_gpt();
    td_train_settings s = make_vocoder_settings("sound", STEPS, gpt);
    s.val_every = 6;
    s.tell = run_keep_loss;
    s.context = &losses;
    const td_train_result whole = run_train(&s);
    assert_int_equal(losses.count, STEPS);
    assert_true(mean_of_three(losses.values + STEPS - 3) < 0.9 * mean_of_three(losses.values));
    assert_true(losses.validation > 0);
    snprintf(begun, sizeof begun, "%s", temp_path("sound/begun.safetensors"));
    assert_true(run_count_changed(gpt, begun, "param.") == 0);
    assert_true(run_count_changed(gpt, whole.checkpoint, "param.gpt.") == 0);
    assert_true(run_count_changed(begun, whole.checkpoint, "hifigan_decoder.speaker_encoder.") == 0);
    s.run_dir = temp_path("sound_parts");
    s.max_steps = STEPS / 2;
    run_train(&s);
    s.max_steps = STEPS;
    s.init_from = NULL;
    const td_train_result second = run_train(&s);
    assert_true(run_is_same(whole.checkpoint, second.checkpoint));
    check_export(second.checkpoint);
}

static float largest_difference(const float *a, const float *b, size_t n)
{
    float most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(a[i] - b[i]));
    return most;
}

/* What is heard of a recording is what the voice would think in speaking the same codes, one after the other. */
static void test_latents_are_those_of_speech(void **state)
{
    (void)state;
    enum { TOKENS = 3, SAMPLES_PER_CODE = 1024 };
    static const uint32_t tokens[TOKENS] = {7, 9, 8};
    const char *path = temp_path("set/wavs/s9.wav");
    bool is_made;
    td_checkpoint *gpt, *voice;
    td_listener *listener;
    td_heard heard;
    td_xtts_engine *engine;
    td_xtts_timbre timbre;
    td_xtts_thought thought;
    check(td_checkpoint_open(train_gpt(), &gpt));
    check(td_xtts_listener.complete(gpt, 1, temp_path("whole.safetensors"), &is_made));
    assert_true(is_made);
    check(td_checkpoint_open(temp_path("whole.safetensors"), &voice));
    check(td_xtts_listener.complete(voice, 1, temp_path("again.safetensors"), &is_made));
    assert_false(is_made);
    check(td_xtts_listener.open(run_rig.memory, voice, &listener));
    check(td_xtts_listener.hear(listener, &(td_hearing){path, tokens, TOKENS}, &heard));
    assert_int_equal(heard.n, (6000 + 500 * 9 + SAMPLES_PER_CODE - 1) / SAMPLES_PER_CODE);
    check(td_xtts_engine_open(run_rig.memory, run_rig.memory, voice, 0, &engine));
    check(td_xtts_clone(engine, &path, 1, &timbre));
    const uint32_t width = td_xtts_engine_config(engine)->gpt_n_model_channels;
    check(td_xtts_begin(engine, 0, &timbre, tokens, TOKENS, &thought));
    for (uint32_t i = 0; i < heard.n; i++) {
        const float *latent = heard.latents + (size_t)i * width;
        assert_true(largest_difference(latent, thought.latent, width) <= 1e-4f);
        if (i + 1 < heard.n) check(td_xtts_next(engine, &(td_xtts_chosen){0, heard.codes[i]}, 1, &thought));
    }
    assert_true(largest_difference(heard.vector, timbre.embedding, listener->vector_width) == 0);
    td_xtts_timbre_free(&timbre);
    td_xtts_engine_close(engine);
    td_xtts_listener.close(listener);
    free(heard.latents);
    free(heard.vector);
    free(heard.codes);
    td_checkpoint_close(voice);
    td_checkpoint_close(gpt);
}

static void test_a_vocoder_needs_a_voice(void **state)
{
    (void)state;
    td_train_result result;
    td_train_settings s = make_vocoder_settings("alone", 1, train_gpt());
    s.init_from = NULL;
    refuse(TD_ERR_CONFIG, "training.init_from", td_train_run(run_rig.device, run_rig.device, &s, &result));
}

/* ---------------------------------------------------------------- two devices */

static td_safetensors *dump_step(td_device *data, td_device *model, const char *dvae, const char *name)
{
    td_safetensors *file;
    td_train_result result;
    char path[512];
    td_train_settings s = make_settings("dumped", 1, dvae);
    snprintf(path, sizeof path, "%s", temp_path(name));
    s.dump_step = path;
    s.verify_transfers = true;
    check(td_train_run(data, model, &s, &result));
    check(td_safetensors_open(path, &file));
    return file;
}

static const td_safetensors_tensor *find_tensor(const td_safetensors *file, const char *name)
{
    const td_safetensors_tensor *tensor = td_safetensors_find(file, name);
    if (tensor == NULL) fail_msg("there is no %s", name);
    return tensor;
}

static void test_two_devices(void **state)
{
    (void)state;
    static const char *const SELECTORS[] = {POCL_SELECTOR, LAVAPIPE_SELECTOR};
    static const char *const NAMES[] = {"batch.text_ids",    "batch.text_counts", "batch.codes",
                                        "batch.code_counts", "batch.wave_counts", "batch.cond_mel",
                                        "batch.cond_range"};
    td_registry *registry;
    td_registry_options options;
    const td_device_info *infos[2];
    td_device *devices[2];
    const char *dvae = train_dvae("16");
    td_registry_options_from_env(&options);
    check(td_registry_open(&options, &registry));
    for (size_t i = 0; i < 2; ++i)
        check(td_registry_select(registry, SELECTORS[i], &infos[i]));
    check(td_devices_open(registry, infos, 2, devices));
    td_safetensors *one = dump_step(devices[0], devices[0], dvae, "one.safetensors");
    td_safetensors *two = dump_step(devices[0], devices[1], dvae, "two.safetensors");
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; ++i) {
        const td_safetensors_tensor *a = find_tensor(one, NAMES[i]), *b = find_tensor(two, NAMES[i]);
        assert_int_equal(a->bytes, b->bytes);
        assert_memory_equal(a->data, b->data, a->bytes);
    }
    assert_int_equal(find_tensor(one, "batch.codes")->dtype, TD_SAFETENSORS_I32);
    assert_null(td_safetensors_find(one, "batch.dvae_mel")); /* stays where it was made */
    assert_null(td_safetensors_find(two, "batch.dvae_mel"));
    const float here = *(const float *)find_tensor(one, "loss.total")->data;
    const float there = *(const float *)find_tensor(two, "loss.total")->data;
    assert_true(here > 0 && fabsf(here - there) < 1e-4f * here);
    td_safetensors_close(one);
    td_safetensors_close(two);
    for (size_t i = 2; i-- > 0;)
        td_device_close(devices[i]);
    td_registry_close(registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_it_begins_with_the_dvae, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_another_dvae_is_refused, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_its_vocoder_learns, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_latents_are_those_of_speech, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_a_vocoder_needs_a_voice, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_two_devices, run_set_up, temp_dir_remove),
    };
    return cmocka_run_group_tests(tests, run_open, run_close);
}
