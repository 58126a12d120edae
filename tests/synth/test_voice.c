/* A voice with drawn weights says nonsense, but of the right length: both decoders, batches, seeds, speed,
 * pitch and energy, references and speakers; and what it refuses. */
#include "fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "audio/encode.h"
#include "synth/voice.h"

static const td_speak_options USUAL = {.speed = 1, .energy = 1, .seed = 1};

static void say(td_voice *voice, const char *text, const td_speak_options *options, td_speech *out)
{
    td_script script;
    check(td_script_make(td_voice_info(voice), NULL, text, strlen(text), &script));
    check(td_voice_speak(voice, &script, options, out));
    td_script_free(&script);
}

static td_voice *open_voice(const rig *r, const td_checkpoint_info *info)
{
    td_voice *voice;
    write_voice(r, temp_path("v.safetensors"), info);
    check(td_voice_open(r->memory, temp_path("v.safetensors"), &voice));
    return voice;
}

static double mean_of(const td_speech *a, const td_speech *b)
{
    double sum = 0;
    for (size_t i = 0; i < a->frames * a->n_mels; i++)
        sum += fabs((double)a->mel[i] - (double)b->mel[i]);
    return sum / (double)(a->frames * a->n_mels);
}

static void test_parallel(void **state)
{
    const td_checkpoint_info info = make_info(TD_NON_AUTOREGRESSIVE);
    td_speak_options options = USUAL;
    td_speech first, again, other;
    rig r;
    (void)state;
    rig_open_on(&r, "cpu", false, 0);
    td_voice *voice = open_voice(&r, &info);
    say(voice, "Hello world, how are you?", &USUAL, &first);
    say(voice, "Hello world, how are you?", &USUAL, &again);
    assert_true(first.frames >= 27 && first.n_mels == 80);
    assert_int_equal(first.count, (first.frames - 1) * 256);
    assert_int_equal(first.count, again.count);
    assert_memory_equal(first.samples, again.samples, first.count * sizeof(float));
    options.seed = 2;
    say(voice, "Hello world, how are you?", &options, &other);
    assert_memory_equal(first.mel, other.mel, first.frames * 80 * sizeof(float));
    assert_memory_not_equal(first.samples, other.samples, first.count * sizeof(float));
    td_speech_free(&other);
    options = (td_speak_options){.speed = 1, .energy = 1, .pitch_shift = 12, .seed = 1};
    say(voice, "Hello world, how are you?", &options, &other);
    assert_int_equal(other.frames, first.frames);
    assert_true(mean_of(&first, &other) > 1e-4);
    td_speech_free(&other);
    options = (td_speak_options){.speed = 1, .energy = 3, .seed = 1};
    say(voice, "Hello world, how are you?", &options, &other);
    assert_true(mean_of(&first, &other) > 1e-4);
    td_speech_free(&other);
    options = (td_speak_options){.speed = 0.25, .energy = 1, .seed = 1};
    say(voice, "Hello world, how are you?", &options, &other);
    assert_true(other.frames > first.frames);
    check(td_speech_save_mel(&other, &td_voice_info(voice)->mel, temp_path("mel.safetensors")));
    td_speech_free(&other);
    td_speech_free(&first);
    td_speech_free(&again);
    td_voice_close(voice);
    rig_close(&r);
}

/* More pieces than a batch takes; each is what it is alone. */
static void test_batches(void **state)
{
    const td_checkpoint_info info = make_info(TD_NON_AUTOREGRESSIVE);
    static const char TEXT[] =
        "one. two three. four. five six seven. eight. nine. ten. eleven. twelve thirteen.";
    static const char *const PIECES[] = {"one.",  "two three.", "four.",   "five six seven.", "eight.",
                                         "nine.", "ten.",       "eleven.", "twelve thirteen."};
    td_speech all, one;
    size_t at = 0;
    rig r;
    (void)state;
    rig_open_on(&r, "cpu", false, 0);
    td_voice *voice = open_voice(&r, &info);
    say(voice, TEXT, &USUAL, &all);
    for (size_t i = 0; i < 9; i++) {
        say(voice, PIECES[i], &USUAL, &one);
        assert_true(at + one.frames <= all.frames);
        for (size_t k = 0; k < one.frames * 80; k++)
            assert_true(fabsf(one.mel[k] - all.mel[at * 80 + k]) < 1e-4f);
        at += one.frames;
        td_speech_free(&one);
    }
    assert_int_equal(at, all.frames);
    assert_true(all.count > (all.frames - 9) * 256); /* pauses */
    td_speech_free(&all);
    td_voice_close(voice);
    rig_close(&r);
}

static void test_steps(void **state)
{
    const td_checkpoint_info info = make_info(TD_AUTOREGRESSIVE);
    td_speak_options options = USUAL;
    td_speech first, again;
    rig r;
    (void)state;
    rig_open_on(&r, "cpu", false, 0);
    td_voice *voice = open_voice(&r, &info);
    say(voice, "Hello. Yes.", &USUAL, &first);
    say(voice, "Hello. Yes.", &USUAL, &again);
    assert_true(first.frames > 0 && first.frames % info.model.reduction == 0);
    assert_int_equal(first.count, again.count);
    assert_memory_equal(first.samples, again.samples, first.count * sizeof(float));
    options.speed = 2;
    refuse(TD_ERR_CONFIG, "--speed", td_voice_check_options(voice, &options));
    td_speech_free(&first);
    td_speech_free(&again);
    td_voice_close(voice);
    rig_close(&r);
}

static void test_speakers(void **state)
{
    td_checkpoint_info info = make_info(TD_NON_AUTOREGRESSIVE);
    td_speak_options options = USUAL;
    td_speech first, second;
    rig r;
    (void)state;
    rig_open_on(&r, "cpu", false, 0);
    info.model.n_speakers = 2;
    info.speakers = "anna\nbert\n";
    td_voice *voice = open_voice(&r, &info);
    check(td_voice_find_speaker(voice, NULL, &options.speaker));
    assert_int_equal(options.speaker, 0);
    say(voice, "hello", &options, &first);
    check(td_voice_find_speaker(voice, "1", &options.speaker));
    assert_int_equal(options.speaker, 1);
    check(td_voice_find_speaker(voice, "bert", &options.speaker));
    assert_int_equal(options.speaker, 1);
    say(voice, "hello", &options, &second);
    assert_true(first.frames != second.frames || mean_of(&first, &second) > 1e-5);
    refuse(TD_ERR_CONFIG, "anna bert", td_voice_find_speaker(voice, "carl", &options.speaker));
    refuse(TD_ERR_CONFIG, "anna bert", td_voice_find_speaker(voice, "2", &options.speaker));
    refuse(TD_ERR_CONFIG, "--reference", td_voice_set_reference(voice, "x.wav"));
    td_speech_free(&first);
    td_speech_free(&second);
    td_voice_close(voice);
    rig_close(&r);
}

static void test_references(void **state)
{
    td_checkpoint_info info = make_info(TD_NON_AUTOREGRESSIVE);
    td_speech first, second;
    float *sound = calloc(44100, sizeof *sound);
    rig r;
    (void)state;
    assert_non_null(sound);
    rig_open_on(&r, "cpu", false, 0);
    info.model.speaker_encoder = true;
    td_voice *voice = open_voice(&r, &info);
    refuse(TD_ERR_CONFIG, "--reference", td_voice_set_reference(voice, NULL));
    check(td_audio_encode(temp_path("silent.wav"), sound, 44100, 22050));
    refuse(TD_ERR_FORMAT, "silent", td_voice_set_reference(voice, temp_path("silent.wav")));
    for (size_t i = 0; i < 44100; i++)
        sound[i] = 0.3f * sinf(0.05f * (float)i);
    check(td_audio_encode(temp_path("short.wav"), sound, 2205, 22050));
    refuse(TD_ERR_FORMAT, "0.10 s", td_voice_set_reference(voice, temp_path("short.wav")));
    refuse(TD_ERR_NOT_FOUND, "none.wav", td_voice_set_reference(voice, temp_path("none.wav")));
    check(td_audio_encode(temp_path("a.wav"), sound, 44100, 22050));
    for (size_t i = 0; i < 44100; i++)
        sound[i] = 0.3f * sinf(0.4f * (float)i) * (i / 4000 % 2 ? 1.0f : 0.1f);
    check(td_audio_encode(temp_path("b.wav"), sound, 44100, 22050));
    check(td_voice_set_reference(voice, temp_path("a.wav")));
    say(voice, "hello", &USUAL, &first);
    check(td_voice_set_reference(voice, temp_path("b.wav")));
    say(voice, "hello", &USUAL, &second);
    assert_true(first.frames != second.frames || mean_of(&first, &second) > 1e-5);
    td_speech_free(&first);
    td_speech_free(&second);
    td_voice_close(voice);
    free(sound);
    rig_close(&r);
}

static void test_refusals(void **state)
{
    td_checkpoint_info info = make_info(TD_NON_AUTOREGRESSIVE);
    td_speak_options options = USUAL;
    td_script script;
    td_speech speech;
    td_voice *voice;
    rig r;
    (void)state;
    rig_open_on(&r, "cpu", false, 0);
    info.model.pitch_predictor = info.model.energy_predictor = false;
    info.model.max_frames = 8;
    voice = open_voice(&r, &info);
    options.pitch_shift = 1;
    refuse(TD_ERR_CONFIG, "--pitch-shift", td_voice_check_options(voice, &options));
    options = USUAL;
    options.energy = 2;
    refuse(TD_ERR_CONFIG, "--energy", td_voice_check_options(voice, &options));
    check(td_script_make(td_voice_info(voice), NULL, "hello world", 11, &script));
    refuse(TD_ERR_LIMIT, "frames", td_voice_speak(voice, &script, &USUAL, &speech));
    assert_null(speech.samples);
    td_script_free(&script);
    td_voice_close(voice);
    refuse(TD_ERR_NOT_FOUND, "none", td_voice_open(r.memory, temp_path("none.safetensors"), &voice));
    check(td_audio_encode(temp_path("a.wav"), (const float[]){0, 0}, 2, 22050));
    refuse(TD_ERR_LIMIT, "a.wav", td_voice_open(r.memory, temp_path("a.wav"), &voice));
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_parallel),   cmocka_unit_test(test_batches),
                                       cmocka_unit_test(test_steps),      cmocka_unit_test(test_speakers),
                                       cmocka_unit_test(test_references), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, temp_dir_make, temp_dir_remove);
}
