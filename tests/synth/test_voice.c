/* A voice with drawn weights says nonsense, but of the right length: both decoders, batches, seeds, speed,
 * pitch and energy, references and speakers; and what it refuses. */
#include "fixture.h"

#include <math.h>
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audio/encode.h"
#include "base/file.h"
#include "synth/voice.h"

static const td_speak_options USUAL = {.size = sizeof USUAL, .seed = 1};

/* Samples with the spectrogram that they are made of. */
typedef struct speech {
    float *samples, *mel; /* owned */
    size_t count, frames, n_mels;
} speech;

static void say(td_voice *voice, const char *text, const td_speak_options *options, speech *out)
{
    check(td_voice_speak(voice, text, options, &out->samples, &out->count));
    assert_int_equal(td_voice_error(voice)->status, TD_OK);
    const td_speech *last = td_voice_last(voice);
    *out = (speech){out->samples, NULL, out->count, last->frames, last->n_mels};
    out->mel = malloc(last->frames * last->n_mels * sizeof(float));
    assert_non_null(out->mel);
    memcpy(out->mel, last->mel, last->frames * last->n_mels * sizeof(float));
}

static void free_speech(speech *s)
{
    td_voice_free_samples(s->samples);
    free(s->mel);
}

/* A call that fails, with these words in the voice's own record. */
static void refuse_speech(td_voice *voice, td_status status, const char *words,
                          const td_speak_options *options)
{
    float *samples;
    size_t count;
    refuse(status, words, td_voice_speak(voice, "hello world", options, &samples, &count));
    assert_null(samples);
    assert_int_equal(td_voice_error(voice)->status, status);
    assert_non_null(strstr(td_voice_error(voice)->message, words));
}

static td_voice *open_voice(const rig *r, const td_checkpoint_info *info)
{
    td_voice *voice;
    write_voice(r, temp_path("v.safetensors"), info);
    check(td_voice_open_on(r->memory, temp_path("v.safetensors"), &voice));
    td_voice_keep_mel(voice);
    return voice;
}

static double mean_of(const speech *a, const speech *b)
{
    double sum = 0;
    for (size_t i = 0; i < a->frames * a->n_mels; i++)
        sum += fabs((double)a->mel[i] - (double)b->mel[i]);
    return sum / (double)(a->frames * a->n_mels);
}

static void test_parallel(void **state)
{
    const td_checkpoint_info info = make_info("parallel");
    td_speak_options options = USUAL;
    speech first, again, other;
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
    free_speech(&other);
    options = (td_speak_options){.size = sizeof options, .pitch_shift = 12, .seed = 1};
    say(voice, "Hello world, how are you?", &options, &other);
    assert_int_equal(other.frames, first.frames);
    assert_true(mean_of(&first, &other) > 1e-4);
    free_speech(&other);
    options = (td_speak_options){.size = sizeof options, .energy = 3, .seed = 1};
    say(voice, "Hello world, how are you?", &options, &other);
    assert_true(mean_of(&first, &other) > 1e-4);
    free_speech(&other);
    options = (td_speak_options){.size = sizeof options, .speed = 0.25, .seed = 1};
    say(voice, "Hello world, how are you?", &options, &other);
    assert_true(other.frames > first.frames);
    check(td_speech_save_mel(td_voice_last(voice), &td_voice_checkpoint(voice)->mel,
                             temp_path("mel.safetensors")));
    free_speech(&other);
    free_speech(&first);
    free_speech(&again);
    td_voice_close(voice);
    rig_close(&r);
}

/* Where a file has averages, they speak. */
static void test_finding_02_averages_speak(void **state)
{
    const td_checkpoint_info info = make_info("parallel");
    td_voice *averaged;
    speech expected, got;
    rig r;
    (void)state;
    rig_open_on(&r, "cpu", false, 0);
    td_voice *voice = open_voice(&r, &info);
    write_averaged_voice(&r, temp_path("a.safetensors"), &info);
    check(td_voice_open_on(r.memory, temp_path("a.safetensors"), &averaged));
    td_voice_keep_mel(averaged);
    say(voice, "hello world", &USUAL, &expected);
    say(averaged, "hello world", &USUAL, &got);
    assert_int_equal(got.count, expected.count);
    assert_memory_equal(got.samples, expected.samples, got.count * sizeof(float));
    free_speech(&got);
    free_speech(&expected);
    td_voice_close(averaged);
    td_voice_close(voice);
    rig_close(&r);
}

/* More pieces than a batch takes; each is what it is alone. */
static void test_batches(void **state)
{
    const td_checkpoint_info info = make_info("parallel");
    static const char TEXT[] =
        "one. two three. four. five six seven. eight. nine. ten. eleven. twelve thirteen.";
    static const char *const PIECES[] = {"one.",  "two three.", "four.",   "five six seven.", "eight.",
                                         "nine.", "ten.",       "eleven.", "twelve thirteen."};
    speech all, one;
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
        free_speech(&one);
    }
    assert_int_equal(at, all.frames);
    assert_true(all.count > (all.frames - 9) * 256); /* pauses */
    free_speech(&all);
    td_voice_close(voice);
    rig_close(&r);
}

/* What a receiver sees of a stream. */
typedef struct watcher {
    td_voice *voice;
    td_device *device;
    float *samples; /* owned */
    size_t count, n_calls;
    size_t ends_at, cancels_at; /* number of the call that does so; 0: none */
    uint64_t submitted;         /* when the last call came */
} watcher;

static uint64_t count_submissions(td_device *device)
{
    td_point point;
    check(td_queue_submit(td_device_queue(device, TD_QUEUE_COMPUTE), &(td_submission){0}, &point));
    return point.value;
}

static bool watch(void *context, const float *samples, size_t count)
{
    watcher *w = context;
    assert_true(count > 0);
    w->samples = realloc(w->samples, (w->count + count) * sizeof *samples);
    assert_non_null(w->samples);
    memcpy(w->samples + w->count, samples, count * sizeof *samples);
    w->count += count;
    w->submitted = count_submissions(w->device);
    if (++w->n_calls == w->cancels_at) td_voice_cancel(w->voice);
    return w->n_calls != w->ends_at;
}

/* Samples leave while others are not made yet, the same as all at once; what is ended leaves the rest undone.
 */
static void stream(const char *family, const char *text, size_t calls)
{
    const td_checkpoint_info info = make_info(family);
    speech whole;
    rig r;
    rig_open_on(&r, "cpu", false, 0);
    td_voice *voice = open_voice(&r, &info);
    watcher all = {.voice = voice, .device = r.device}, first = all, cancelled = all;
    say(voice, text, &USUAL, &whole);
    check(td_voice_stream(voice, text, &USUAL, watch, &all));
    assert_int_equal(all.n_calls, calls);
    assert_int_equal(all.count, whole.count);
    assert_memory_equal(all.samples, whole.samples, whole.count * sizeof(float));
    first.ends_at = 1;
    refuse(TD_ERR_CANCELLED, "receiver", td_voice_stream(voice, text, &USUAL, watch, &first));
    assert_int_equal(first.n_calls, 1);
    assert_int_equal(count_submissions(r.device), first.submitted + 1);
    assert_memory_equal(first.samples, whole.samples, first.count * sizeof(float));
    cancelled.cancels_at = 2;
    refuse(TD_ERR_CANCELLED, "cancelled", td_voice_stream(voice, text, &USUAL, watch, &cancelled));
    assert_int_equal(cancelled.n_calls, 2);
    assert_int_equal(count_submissions(r.device), cancelled.submitted + 1);
    free(all.samples);
    free(first.samples);
    free(cancelled.samples);
    free_speech(&whole);
    td_voice_close(voice);
    rig_close(&r);
}

static void test_stream(void **state)
{
    (void)state;
    stream("parallel", "one. two. three. four. five. six. seven. eight. nine. ten.",
           5); /* of 1, 2, 4 and 1, then the second batch */
    stream("autoregressive", "one. two. three. four.", 3);
}

/* More shapes than a speaker keeps plans of, then the first again. */
static void test_many_shapes(void **state)
{
    const td_checkpoint_info info = make_info("parallel");
    char text[200] = "";
    speech first, again, other;
    rig r;
    (void)state;
    rig_open_on(&r, "cpu", false, 0);
    td_voice *voice = open_voice(&r, &info);
    say(voice, "a", &USUAL, &first);
    for (size_t i = 0; i < 10; i++) { /* two plans each */
        memset(text + 15 * i, 'b', 15);
        say(voice, text, &USUAL, &other);
        free_speech(&other);
    }
    say(voice, "a", &USUAL, &again);
    assert_int_equal(first.count, again.count);
    assert_memory_equal(first.samples, again.samples, first.count * sizeof(float));
    free_speech(&first);
    free_speech(&again);
    td_voice_close(voice);
    rig_close(&r);
}

static void test_steps(void **state)
{
    const td_checkpoint_info info = make_info("autoregressive");
    td_speak_options options = USUAL;
    speech first, again;
    rig r;
    (void)state;
    rig_open_on(&r, "cpu", false, 0);
    td_voice *voice = open_voice(&r, &info);
    say(voice, "Hello. Yes.", &USUAL, &first);
    say(voice, "Hello. Yes.", &USUAL, &again);
    assert_true(first.frames > 0 && first.frames % td_acoustic_get(&info.model).reduction == 0);
    assert_int_equal(first.count, again.count);
    assert_memory_equal(first.samples, again.samples, first.count * sizeof(float));
    options.speed = 2;
    refuse_speech(voice, TD_ERR_CONFIG, "speed", &options);
    free_speech(&first);
    free_speech(&again);
    td_voice_close(voice);
    rig_close(&r);
}

/* What the voice has no frames for is said in more pieces, the same whether samples leave early or not. */
static void test_long_steps(void **state)
{
    static const char TEXT[] =
        "one. two. three. four. five. six. seven. eight. nine, hello world, how are you all?";
    td_checkpoint_info info = make_info("autoregressive");
    speech whole, part;
    rig r;
    (void)state;
    rig_open_on(&r, "cpu", false, 0);
    set_key(&info, "max_frames", "24");
    td_voice *voice = open_voice(&r, &info);
    watcher all = {.voice = voice, .device = r.device};
    say(voice, "how are you all?", &USUAL, &part);
    assert_true(part.frames > 24);
    assert_true(td_voice_last(voice)->n_pieces > 1);
    say(voice, TEXT, &USUAL, &whole);
    assert_true(td_voice_last(voice)->n_pieces > 10);
    check(td_voice_stream(voice, TEXT, &USUAL, watch, &all));
    assert_int_equal(all.count, whole.count);
    assert_memory_equal(all.samples, whole.samples, whole.count * sizeof(float));
    free(all.samples);
    free_speech(&part);
    free_speech(&whole);
    td_voice_close(voice);
    rig_close(&r);
}

/* Pauses and rates of SSML, between pieces and before the first. */
static void test_ssml(void **state)
{
    const td_checkpoint_info info = make_info("parallel");
    speech one, two, both;
    rig r;
    (void)state;
    rig_open_on(&r, "cpu", false, 0);
    td_voice *voice = open_voice(&r, &info);
    say(voice, "hello", &USUAL, &one);
    say(voice, "<speak><prosody rate=\"50%\">world</prosody></speak>", &USUAL, &two);
    say(voice,
        "<speak><break time=\"1s\"/>hello<break time=\"2s\"/><prosody rate=\"50%\">world<break time=\"3s\"/>"
        "</prosody></speak>",
        &USUAL, &both);
    assert_int_equal(both.frames, one.frames + two.frames);
    assert_int_equal(both.count, one.count + two.count + 6 * 22050);
    for (size_t i = 0; i < 22050; i++)
        assert_true(both.samples[i] == 0);
    free_speech(&two);
    say(voice, "world", &USUAL, &two);
    assert_true(both.frames > one.frames + two.frames);
    free_speech(&one);
    free_speech(&two);
    free_speech(&both);
    td_voice_close(voice);
    rig_close(&r);
}

static void test_speakers(void **state)
{
    td_checkpoint_info info = make_info("parallel");
    td_speak_options options = USUAL;
    speech first, second, third;
    rig r;
    (void)state;
    rig_open_on(&r, "cpu", false, 0);
    set_key(&info, "n_speakers", "2");
    info.speakers = "anna\nbert\n";
    td_voice *voice = open_voice(&r, &info);
    say(voice, "hello", &options, &first);
    options.speaker = "bert";
    say(voice, "hello", &options, &second);
    assert_true(first.frames != second.frames || mean_of(&first, &second) > 1e-5);
    options.speaker = "1";
    say(voice, "hello", &options, &third);
    assert_int_equal(second.count, third.count);
    assert_memory_equal(second.samples, third.samples, second.count * sizeof(float));
    options.speaker = "carl";
    refuse_speech(voice, TD_ERR_CONFIG, "anna bert", &options);
    options.speaker = "2";
    refuse_speech(voice, TD_ERR_CONFIG, "anna bert", &options);
    options.speaker = NULL;
    options.reference = "x.wav";
    refuse_speech(voice, TD_ERR_CONFIG, "reference", &options);
    free_speech(&third);
    free_speech(&first);
    free_speech(&second);
    td_voice_close(voice);
    rig_close(&r);
}

static void write_nan(const char *path)
{
    static float samples[44100];
    SF_INFO info = {.samplerate = 22050, .channels = 1, .format = SF_FORMAT_WAV | SF_FORMAT_FLOAT};
    for (size_t i = 0; i < 44100; i++)
        samples[i] = NAN;
    SNDFILE *file = sf_open(path, SFM_WRITE, &info);
    assert_non_null(file);
    assert_int_equal(sf_writef_float(file, samples, 44100), 44100);
    assert_int_equal(sf_close(file), 0);
}

static void test_references(void **state)
{
    td_checkpoint_info info = make_info("parallel");
    td_speak_options options = USUAL;
    char path[TD_FILE_PATH_BYTES];
    speech first, second;
    float *sound = calloc(44100, sizeof *sound);
    rig r;
    (void)state;
    assert_non_null(sound);
    rig_open_on(&r, "cpu", false, 0);
    set_key(&info, "speaker_encoder", "true");
    td_voice *voice = open_voice(&r, &info);
    refuse_speech(voice, TD_ERR_CONFIG, "reference", &options);
    check(td_audio_encode(temp_path("a.wav"), sound, 44100, 22050));
    options.reference = path;
    snprintf(path, sizeof path, "%s", temp_path("a.wav"));
    refuse_speech(voice, TD_ERR_FORMAT, "silent", &options);
    write_nan(path); /* finding 18: this was called silent */
    refuse_speech(voice, TD_ERR_FORMAT, "44100 samples are not finite (NaN", &options);
    for (size_t i = 0; i < 44100; i++)
        sound[i] = 0.3f * sinf(0.05f * (float)i);
    check(td_audio_encode(path, sound, 2205, 22050));
    refuse_speech(voice, TD_ERR_FORMAT, "0.10 s", &options);
    check(td_audio_encode(path, sound, 44100, 22050));
    say(voice, "hello", &options, &first);
    for (size_t i = 0; i < 44100; i++)
        sound[i] = 0.3f * sinf(0.4f * (float)i) * (i / 4000 % 2 ? 1.0f : 0.1f);
    check(td_audio_encode(path, sound, 44100, 22050));
    say(voice, "hello", &options, &second);
    assert_true(first.frames != second.frames || mean_of(&first, &second) > 1e-5);
    snprintf(path, sizeof path, "%s", temp_path("none.wav"));
    refuse_speech(voice, TD_ERR_NOT_FOUND, "none.wav", &options);
    free_speech(&first);
    free_speech(&second);
    td_voice_close(voice);
    free(sound);
    rig_close(&r);
}

static size_t count_zeros(const speech *s)
{
    size_t run = 0, longest = 0;
    for (size_t i = 0; i < s->count; i++) {
        run = s->samples[i] == 0 ? run + 1 : 0;
        if (run > longest) longest = run;
    }
    return longest;
}

/* A sentence of more frames than the voice makes is split until it fits, and joined with the ends of two fades alone
 * between the parts. */
static void test_finding_06_long_sentences(void **state)
{
    static const char TEXT[] = "many small words make a long line";
    td_speak_options slow = {.size = sizeof slow, .speed = 0.25, .seed = 1};
    td_checkpoint_info info = make_info("parallel");
    speech whole, parts, slower;
    char most[32];
    rig r;
    (void)state;
    rig_open_on(&r, "cpu", false, 0);
    td_voice *voice = open_voice(&r, &info);
    say(voice, TEXT, &USUAL, &whole);
    assert_int_equal(td_voice_last(voice)->n_pieces, 1);
    td_voice_close(voice);
    snprintf(most, sizeof most, "%zu", whole.frames * 3 / 4);
    set_key(&info, "max_frames", most);
    voice = open_voice(&r, &info);
    say(voice, TEXT, &USUAL, &parts);
    assert_int_equal(td_voice_last(voice)->n_pieces, 2);
    assert_true(parts.frames > whole.frames * 9 / 10);
    assert_true(count_zeros(&parts) <= 2);
    say(voice, TEXT, &slow, &slower);
    assert_true(td_voice_last(voice)->n_pieces > 2);
    assert_true(slower.frames > parts.frames * 3 / 2);
    free_speech(&whole);
    free_speech(&parts);
    free_speech(&slower);
    td_voice_close(voice);
    set_key(&info, "max_tokens", "20");
    voice = open_voice(&r, &info);
    say(voice, TEXT, &USUAL, &parts);
    assert_int_equal(td_voice_last(voice)->n_pieces, 2);
    free_speech(&parts);
    td_voice_close(voice);
    rig_close(&r);
}

static void test_refusals(void **state)
{
    td_checkpoint_info info = make_info("parallel");
    td_speak_options options = USUAL;
    td_voice *voice;
    rig r;
    (void)state;
    rig_open_on(&r, "cpu", false, 0);
    set_key(&info, "pitch_predictor", "false");
    set_key(&info, "energy_predictor", "false");
    set_key(&info, "max_frames", "2");
    voice = open_voice(&r, &info);
    options.pitch_shift = 1;
    refuse_speech(voice, TD_ERR_CONFIG, "pitch shift", &options);
    options = USUAL;
    options.energy = 2;
    refuse_speech(voice, TD_ERR_CONFIG, "energy", &options);
    options = USUAL;
    options.speed = -1;
    refuse_speech(voice, TD_ERR_CONFIG, "speed", &options);
    options.size = 0;
    refuse_speech(voice, TD_ERR_ARGUMENT, "size", &options);
    refuse_speech(voice, TD_ERR_LIMIT, "the voice makes 2", &USUAL);
    td_voice_close(voice);
    refuse(TD_ERR_NOT_FOUND, "none", td_voice_open_on(r.memory, temp_path("none.safetensors"), &voice));
    check(td_audio_encode(temp_path("a.wav"), (const float[]){0, 0}, 2, 22050));
    refuse(TD_ERR_LIMIT, "a.wav", td_voice_open_on(r.memory, temp_path("a.wav"), &voice));
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parallel),    cmocka_unit_test(test_batches),
        cmocka_unit_test(test_long_steps),  cmocka_unit_test(test_ssml),
        cmocka_unit_test(test_steps),       cmocka_unit_test(test_speakers),
        cmocka_unit_test(test_references),  cmocka_unit_test(test_finding_06_long_sentences),
        cmocka_unit_test(test_refusals),    cmocka_unit_test(test_stream),
        cmocka_unit_test(test_many_shapes), cmocka_unit_test(test_finding_02_averages_speak)};
    return cmocka_run_group_tests(tests, temp_dir_make, temp_dir_remove);
}
