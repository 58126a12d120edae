/* The vocoder family: it learns on crops and goes on to the same bytes; crops are cut in line with their
 * spectrograms; what it voices while a piece is still being made is the whole to the bit; silence, odd pitches, one
 * frame and long spectrograms give finite samples of the right count; a voice that holds it. Its losses and
 * gradients are judged by tests/model/test_model_golden.c. */
#include "run.h"
#include "table.h"

#include "audio/mel_clip.h"
#include "audio/mel_tables.h"
#include "base/rng.h"
#include "data/data.h"
#include "device/blocking.h"
#include "families/vocoder/vocoder.h"
#include "synth/sound.h"

static void test_its_table_holds(void **state)
{
    (void)state;
    check_table(td_family_find("vocoder"));
}

static td_train_settings change_run(td_train_settings s, const char *const (*values)[2])
{
    for (; (*values)[0]; values++)
        check(td_model_config_put(&s.model, (*values)[0], (*values)[1]));
    return s;
}

static const char *const PULSE[][2] = {{NULL, NULL}};
static const char *const HIFIGAN[][2] = {{"generator", "hifigan"}, {NULL, NULL}};
static const char *const ADVERSARIAL[][2] = {
    {"discriminators", "true"}, {"discriminator_width", "2"}, {"adversarial_start", "2"}, {NULL, NULL}};

static void learn_and_go_on(const char *const (*values)[2])
{
    run_losses losses = {0};
    td_train_settings s = change_run(run_small_vocoder("whole", 12), values);
    s.tell = run_keep_loss;
    s.context = &losses;
    const td_train_result whole = run_train(&s);
    assert_int_equal(losses.count, 12);
    assert_true(losses.values[10] + losses.values[11] < 0.9 * (losses.values[0] + losses.values[1]));
    s.run_dir = temp_path("parts");
    s.max_steps = 6;
    run_train(&s);
    s.max_steps = 12;
    const td_train_result second = run_train(&s);
    assert_true(run_is_same(whole.checkpoint, second.checkpoint));
}

static void test_it_learns_and_goes_on(void **state)
{
    (void)state;
    learn_and_go_on(PULSE);
}

static void test_hifigan_learns_and_goes_on(void **state)
{
    (void)state;
    learn_and_go_on(HIFIGAN);
}

/* Both learners, of which the second has a state of its own. */
static void test_discriminators_learn_and_go_on(void **state)
{
    (void)state;
    char metrics[1 << 14];
    learn_and_go_on(ADVERSARIAL);
    run_read("whole/metrics.jsonl", metrics, sizeof metrics);
    assert_non_null(strstr(metrics, "\"discriminator.loss.made\""));
    assert_non_null(strstr(metrics, "\"vocoder.loss.features\""));
    const double first = strtod(strstr(metrics, "\"discriminator.loss\":") + 21, NULL);
    char *last = metrics, *next;
    while ((next = strstr(last + 1, "\"discriminator.loss\":")) != NULL)
        last = next;
    assert_true(strtod(last + 21, NULL) < first); /* it tells them apart better than by chance */
}

static void test_sizes_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    td_model_config c = change_run(run_small_vocoder("unused", 1), HIFIGAN).model;
    check(td_model_config_check(&c));
    check(td_model_config_put(&c, "width", "24"));
    refuse(TD_ERR_CONFIG, "multiple of 16", td_model_config_check(&c));
    check(td_model_config_put(&c, "generator", "pulse"));
    check(td_model_config_check(&c));
}

/* ---------------------------------------------------------------- crops */

/* The batch's mel against the front end's of the samples that the batch has, item by item. */
static void compare_mels(const td_data *data, const td_batch *batch, const float *samples, size_t count)
{
    const td_feature *mel = td_batch_find(batch, "mel");
    const size_t n = mel->span.bytes / 4 / batch->count;
    float *got = malloc(mel->span.bytes), *own = malloc(n * sizeof *own);
    check(td_blocking_read(run_rig.memory, mel->span, batch->ready, got));
    for (uint32_t item = 0; item < batch->count; item++) {
        td_mel_clip copy;
        check(td_mel_clip_make(data->mel, run_rig.memory, samples + item * count, count, &copy));
        assert_int_equal(copy.mel.bytes, n * sizeof *own);
        check(td_blocking_read(run_rig.memory, copy.mel, (td_point){0}, own));
        for (size_t i = 0; i < n; i++)
            assert_true(fabsf(got[item * n + i] - own[i]) <= 1e-6f);
        td_mel_clip_free(run_rig.memory, &copy);
    }
    free(got);
    free(own);
}

static void test_crops_are_cut_in_line(void **state)
{
    (void)state;
    enum { FRAMES = 17 };
    td_train_settings s = run_small_vocoder("crops", 1);
    td_data_settings settings = s.data;
    td_data data;
    td_sampler *sampler;
    td_loader *loader;
    td_batch batch;
    settings.crop_frames = FRAMES;
    check(td_data_want(&settings, "mel"));
    check(td_data_want(&settings, "pitch"));
    check(td_data_want(&settings, "wave"));
    check(td_data_open(run_rig.memory, &settings, &data));
    const td_data_rows rows = {.rows = data.dataset->train, .n_rows = data.dataset->n_train};
    check(td_data_open_sampler(&data, &rows, &sampler));
    assert_int_equal(td_sampler_shape_count(sampler), 1);
    check(td_data_open_loader(&data, &rows, sampler, &loader));
    for (int number = 0; number < 3; number++) {
        check(td_loader_next(loader, &batch));
        const td_feature *wave = td_batch_find(&batch, "wave"), *mel = td_batch_find(&batch, "mel");
        const uint32_t hop = td_mel_get_config(data.mel)->hop_samples;
        assert_int_equal(wave->shape.dims[1], (FRAMES - 1) * hop);
        assert_int_equal(mel->shape.dims[1], FRAMES);
        float *samples = malloc(wave->span.bytes);
        check(td_blocking_read(run_rig.memory, wave->span, batch.ready, samples));
        float loudest = 0;
        for (size_t i = 0; i < wave->span.bytes / 4; i++)
            loudest = fmaxf(loudest, fabsf(samples[i]));
        assert_true(loudest > 0.05f && loudest <= 1); /* tones, not silence */
        compare_mels(&data, &batch, samples, wave->shape.dims[1]);
        free(samples);
        td_loader_release(loader, &batch, (td_point){0});
    }
    td_loader_destroy(loader);
    td_sampler_destroy(sampler);
    settings.crop_frames = data.settings.crop_frames = 0;
    check(td_data_open_sampler(&data, &rows, &sampler));
    refuse(TD_ERR_ARGUMENT, "'wave' is made of crops alone",
           td_data_open_loader(&data, &rows, sampler, &loader));
    td_sampler_destroy(sampler);
    td_data_close(&data);
}

/* bands * inverse = 1 where a band has bins of its own. */
static void test_the_filterbank_is_inverted(void **state)
{
    (void)state;
    const td_mel_config c = td_mel_config_default();
    const uint32_t bins = c.n_fft / 2 + 1;
    float *bands = malloc(sizeof *bands * bins * c.n_mels),
          *inverse = malloc(sizeof *inverse * bins * c.n_mels);
    check(td_mel_filterbank(&c, false, bands));
    check(td_mel_filterbank(&c, true, inverse));
    for (uint32_t a = 0; a < c.n_mels; a++)
        for (uint32_t b = 0; b < c.n_mels; b++) {
            double sum = 0;
            for (uint32_t k = 0; k < bins; k++)
                sum += (double)inverse[(size_t)a * bins + k] * (double)bands[(size_t)k * c.n_mels + b];
            assert_true(fabs(sum - (a == b)) <= 1e-5);
        }
    free(bands);
    free(inverse);
}

/* ---------------------------------------------------------------- sound */

/* A vocoder with weights of its first step, on the rig's device. */
typedef struct sound {
    td_model_config model;
    td_store *store;
    td_mel *mel;
    td_vocoder *vocoder;
} sound;

static void sound_open(sound *out, const char *const (*values)[2])
{
    const td_mel_config config = td_mel_config_default();
    const td_train_settings s = change_run(run_small_vocoder("unused", 1), values);
    *out = (sound){.model = s.model};
    check(td_mel_create(run_rig.memory, &config, &out->mel));
    check(td_family_store(run_rig.memory, &out->model, NULL, &(td_store_options){0}, &out->store));
    check(td_store_init(out->store, 3));
    check(out->model.family->vocode->open(run_rig.memory, out->store, &out->model, out->mel, &out->vocoder));
    check(td_store_init_constants(out->store));
}

static void sound_close(sound *s)
{
    td_vocoder_destroy(s->vocoder);
    td_store_destroy(s->store);
    td_mel_destroy(s->mel);
}

typedef struct heard {
    float *samples;
    size_t count, calls;
} heard;

static td_status hear(void *context, uint32_t item, const float *samples, size_t count)
{
    heard *h = context;
    assert_int_equal(item, 0);
    memcpy(h->samples + h->count, samples, count * sizeof *samples);
    h->count += count;
    h->calls++;
    return TD_OK;
}

/* Samples of so many frames of one value, or drawn. *out: owned. */
static size_t voice(const sound *s, uint32_t frames, float value, bool drawn, heard *h, float **out)
{
    const size_t n = (size_t)frames * 80;
    float *mel = malloc(n * sizeof *mel);
    size_t firsts[2];
    for (size_t i = 0; i < n; i++)
        mel[i] = drawn ? 2 * td_rng_float(1, 2, i) - 1 : value;
    const td_vocoder_batch batch = {.items = 1,
                                    .count = 1,
                                    .max_frames = frames,
                                    .frames = &frames,
                                    .seed = 9,
                                    .emit = h ? hear : NULL,
                                    .context = h};
    check(td_vocoder_run_host(s->vocoder, &batch, mel, out, firsts));
    free(mel);
    for (size_t i = 0; i < firsts[1]; i++)
        if (!isfinite((*out)[i])) fail();
    return firsts[1];
}

static void voice_in_parts(const char *const (*values)[2])
{
    enum { FRAMES = 200 };
    sound s;
    float *whole, *again;
    heard h = {.samples = calloc(FRAMES, 256 * sizeof *h.samples)};
    sound_open(&s, values);
    const size_t count = voice(&s, FRAMES, 0, true, &h, &whole);
    assert_int_equal(count, (FRAMES - 1) * 256);
    assert_int_equal(h.count, count);
    assert_true(h.calls > 2);
    assert_memory_equal(h.samples, whole, count * sizeof *whole);
    assert_int_equal(voice(&s, FRAMES, 0, true, NULL, &again), count);
    assert_memory_equal(again, whole, count * sizeof *whole);
    free(again);
    /* what lies further ahead than the net sees changes nothing */
    assert_int_equal(voice(&s, FRAMES + 50, 0, true, NULL, &again), (FRAMES + 49) * 256);
    assert_memory_equal(again, whole, (size_t)(FRAMES - 80) * 256 * sizeof *whole);
    free(again);
    free(whole);
    free(h.samples);
    sound_close(&s);
}

static void test_parts_are_the_whole(void **state)
{
    (void)state;
    voice_in_parts(PULSE);
    voice_in_parts(HIFIGAN);
}

static void test_any_spectrogram_is_voiced(void **state)
{
    (void)state;
    static const uint32_t LENGTHS[] = {2, 3, 64, 65, 66, 700};
    static const float VALUES[] = {-1.97f, 0, 4, 30, -1e30f, 1e30f};
    sound s;
    float *out;
    sound_open(&s, PULSE);
    assert_int_equal(voice(&s, 1, 0, false, NULL, &out), 0);
    free(out);
    for (size_t i = 0; i < sizeof LENGTHS / sizeof *LENGTHS; i++) {
        assert_int_equal(voice(&s, LENGTHS[i], 0, true, NULL, &out), (LENGTHS[i] - 1) * 256);
        free(out);
    }
    for (size_t i = 0; i < sizeof VALUES / sizeof *VALUES; i++) {
        assert_int_equal(voice(&s, 20, VALUES[i], false, NULL, &out), 19 * 256);
        free(out);
    }
    sound_close(&s);
}

/* One second at a level, with a pitch of its own for each frame. *out: owned. */
static size_t voice_at(const sound *s, uint32_t frames, const float *pitch, float **out)
{
    const size_t n = (size_t)frames * 80;
    float *mel = calloc(n, sizeof *mel);
    size_t firsts[2];
    td_span room;
    check(td_memory_alloc(run_rig.memory, TD_MEMORY_DEVICE, UINT64_C(4) * frames, &room));
    const td_vocoder_batch batch = {.items = 1,
                                    .count = 1,
                                    .max_frames = frames,
                                    .frames = &frames,
                                    .pitch = td_span_part(room, 0, UINT64_C(4) * frames),
                                    .seed = 9};
    check(td_blocking_write(run_rig.memory, batch.pitch, pitch));
    check(td_vocoder_run_host(s->vocoder, &batch, mel, out, firsts));
    td_memory_free(run_rig.memory, room);
    free(mel);
    for (size_t i = 0; i < firsts[1]; i++)
        if (!isfinite((*out)[i])) fail();
    return firsts[1];
}

/* How alike a signal is to itself so many samples later. */
static double repeats(const float *x, size_t count, size_t lag)
{
    double with = 0, alone = 0;
    for (size_t i = 0; i + lag < count; i++) {
        with += (double)x[i] * (double)x[i + lag];
        alone += (double)x[i] * (double)x[i];
    }
    return with / alone;
}

/* 110.25 Hz are 200 samples. */
static void test_the_given_pitch_is_followed(void **state)
{
    (void)state;
    enum { FRAMES = 80 };
    static const float HERTZ[] = {110.25f, 0, -5, 1000, 1e9f, INFINITY, NAN};
    sound s;
    float *out, pitch[FRAMES];
    sound_open(&s, PULSE);
    for (size_t k = 0; k < sizeof HERTZ / sizeof *HERTZ; k++) {
        for (size_t i = 0; i < FRAMES; i++)
            pitch[i] = HERTZ[k];
        const size_t count = voice_at(&s, FRAMES, pitch, &out);
        assert_int_equal(count, (FRAMES - 1) * 256);
        const double alike = repeats(out, count, 200);
        assert_true(k == 0 ? alike > 0.7 : alike < 0.3);
        free(out);
    }
    for (size_t i = 0; i < FRAMES; i++)
        pitch[i] = HERTZ[i % (sizeof HERTZ / sizeof *HERTZ)];
    assert_int_equal(voice_at(&s, FRAMES, pitch, &out), (FRAMES - 1) * 256);
    free(out);
    sound_close(&s);
}

/* In pieces of the same size, whatever the length. */
static void test_ten_minutes_are_voiced(void **state)
{
    (void)state;
    enum { FRAMES = 600 * 22050 / 256 };
    sound s;
    float *out;
    td_memory_stats before, after;
    sound_open(&s, PULSE);
    td_memory_get_stats(run_rig.memory, &before);
    assert_int_equal(voice(&s, FRAMES, 0, false, NULL, &out), (FRAMES - 1) * 256);
    td_memory_get_stats(run_rig.memory, &after);
    assert_true(after.peak_used_bytes < before.peak_used_bytes + UINT64_C(4) * 81 * FRAMES + (1 << 20));
    free(out);
    sound_close(&s);
}

/* ---------------------------------------------------------------- in a voice */

static void test_a_voice_holds_it(void **state)
{
    (void)state;
    td_checkpoint *voice_file, *vocoder, *held;
    td_train_settings s = run_settings("parallel", "voice", 1);
    const td_train_result acoustic = run_train(&s);
    s = run_small_vocoder("vocoder", 1);
    const td_train_result net = run_train(&s);
    char bundle[512], slim[512];
    snprintf(bundle, sizeof bundle, "%s", temp_path("bundle.safetensors"));
    snprintf(slim, sizeof slim, "%s", temp_path("slim.safetensors"));
    check(td_checkpoint_open(acoustic.checkpoint, &voice_file));
    refuse(TD_ERR_CONFIG, "holds no vocoder", td_sound_find(acoustic.checkpoint, &vocoder));
    check(td_sound_find(net.checkpoint, &vocoder));
    td_mel_config other = td_mel_config_default();
    check(td_sound_check(vocoder, &other, "it"));
    other.hop_samples = 128;
    refuse(TD_ERR_CONFIG, "hop_samples=128", td_sound_check(vocoder, &other, "it"));
    check(td_checkpoint_write_bundle(voice_file, vocoder, bundle));
    td_checkpoint_close(voice_file);
    check(td_checkpoint_open(bundle, &voice_file));
    check(td_checkpoint_verify(voice_file));
    check(td_checkpoint_write_slim(voice_file, slim));
    assert_true(run_is_same(bundle, slim));
    check(td_checkpoint_open_vocoder(slim, &held));
    assert_non_null(held);
    assert_ptr_equal(td_checkpoint_get_info(held)->model.family, td_family_find("vocoder"));
    td_checkpoint_close(held);
    check(td_checkpoint_open_vocoder(acoustic.checkpoint, &held));
    assert_null(held);
    td_checkpoint_close(voice_file);
    td_checkpoint_close(vocoder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_its_table_holds),
        cmocka_unit_test_setup_teardown(test_it_learns_and_goes_on, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_hifigan_learns_and_goes_on, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_discriminators_learn_and_go_on, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_sizes_that_do_not_fit_are_refused, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_crops_are_cut_in_line, run_set_up, temp_dir_remove),
        cmocka_unit_test(test_the_filterbank_is_inverted),
        cmocka_unit_test_setup_teardown(test_parts_are_the_whole, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_any_spectrogram_is_voiced, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_the_given_pitch_is_followed, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_ten_minutes_are_voiced, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_a_voice_holds_it, run_set_up, temp_dir_remove),
    };
    return cmocka_run_group_tests(tests, run_open, run_close);
}
