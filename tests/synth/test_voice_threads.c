/* Voices as programs outside have them: what they tell of themselves, two at once in two threads, opened and
 * closed many times, and why one does not open. */
#include "fixture.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "synth/voice.h"
#include "tandem/voice.h"

enum { CYCLES = 100, ROUNDS = 2 };

static const char TEXT[] = "hello world. how are you?";
static char path[512], stepping_path[512];

static int make_file(void **state)
{
    const td_checkpoint_info info = make_info("parallel");
    td_checkpoint_info stepping = make_info("autoregressive");
    rig r;
    if (temp_dir_make(state) != 0) return -1;
    snprintf(path, sizeof path, "%s", temp_path("v.safetensors"));
    rig_open_on(&r, "cpu", false, 0);
    write_voice(&r, path, &info);
    snprintf(stepping_path, sizeof stepping_path, "%s", temp_path("s.safetensors"));
    set_key(&stepping, "max_frames", "2");
    write_voice(&r, stepping_path, &stepping);
    rig_close(&r);
    return 0;
}

static td_voice *open_voice(const char *file, td_log_sink log, void *context)
{
    const td_voice_options options = {.size = sizeof options,
                                      .path = file,
                                      .device = "cpu",
                                      .log = log,
                                      .log_context = context,
                                      .log_level = TD_LOG_DEBUG};
    td_error error;
    td_voice *voice;
    assert_int_equal(td_voice_open(&options, &voice, &error), TD_OK);
    assert_int_equal(error.status, TD_OK);
    return voice;
}

static void test_info(void **state)
{
    td_voice *voice = open_voice(path, NULL, NULL);
    td_voice_info info = {.size = sizeof info}, older = {.size = offsetof(td_voice_info, parameters)};
    (void)state;
    check(td_voice_get_info(voice, &info));
    assert_string_equal(info.family, "parallel");
    assert_string_equal(info.languages, "en");
    assert_string_equal(info.speakers, "");
    assert_int_equal(info.rate, 22050);
    assert_true(info.parameters > 10000);
    assert_true(info.has_speed && info.has_pitch && info.has_energy && !info.needs_reference);
    assert_true(info.device->usable);
    check(td_voice_get_info(voice, &older));
    assert_string_equal(older.languages, "en");
    assert_int_equal(older.parameters, 0);
    older.size = 0;
    refuse(TD_ERR_ARGUMENT, "size", td_voice_get_info(voice, &older));
    td_voice_close(voice);
}

static void test_cannot_open(void **state)
{
    td_voice_options options = {.size = sizeof options, .path = "none.safetensors", .device = "cpu"};
    td_voice *voice;
    td_error error;
    (void)state;
    assert_int_equal(td_voice_open(&options, &voice, &error), TD_ERR_NOT_FOUND);
    assert_non_null(strstr(error.message, "none.safetensors"));
    assert_null(voice);
    options.path = path;
    options.device = "name:no such device";
    assert_int_equal(td_voice_open(&options, &voice, &error), TD_ERR_CONFIG);
    assert_non_null(strstr(error.message, "no such device"));
    options.device = "sim";
    assert_int_equal(td_voice_open(&options, &voice, NULL), TD_ERR_UNSUPPORTED);
    options.size = 0;
    assert_int_equal(td_voice_open(&options, &voice, NULL), TD_ERR_ARGUMENT);
}

/* ---------------------------------------------------------------- log */

typedef struct lines {
    int count;
    char last[256];
} lines;

static void keep_line(void *context, td_log_level level, const char *message)
{
    lines *l = context;
    if (level > TD_LOG_WARN) return;
    l->count++;
    snprintf(l->last, sizeof l->last, "%s", message);
}

/* A voice that has no room to end tells its own receiver. */
static void test_log(void **state)
{
    lines mine = {0}, other = {0};
    td_voice *voice = open_voice(stepping_path, keep_line, &mine),
             *silent = open_voice(path, keep_line, &other);
    float *samples;
    size_t count;
    (void)state;
    check(td_voice_speak(voice, "hello", NULL, &samples, &count));
    td_voice_free_samples(samples);
    assert_int_equal(mine.count, 1);
    assert_non_null(strstr(mine.last, "cut off"));
    check(td_voice_speak(silent, "hello", NULL, &samples, &count));
    td_voice_free_samples(samples);
    assert_int_equal(mine.count, 1);
    assert_int_equal(other.count, 0);
    td_voice_close(silent);
    td_voice_close(voice);
}

/* ---------------------------------------------------------------- threads */

typedef struct speaker {
    td_voice *voice; /* that it speaks with; NULL: one of its own */
    pthread_t thread;
    float *samples; /* owned */
    size_t count;
    char error[1024]; /* "": it has spoken */
} speaker;

static void *speak(void *context)
{
    speaker *s = context;
    td_voice *voice = open_voice(path, NULL, NULL);
    assert_int_equal(td_voice_speak(voice, TEXT, NULL, &s->samples, &s->count), TD_OK);
    td_voice_close(voice);
    return NULL;
}

static void test_two_at_once(void **state)
{
    speaker alone = {0}, both[2] = {{0}};
    (void)state;
    speak(&alone);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&both[i].thread, NULL, speak, &both[i]), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(both[i].thread, NULL), 0);
        assert_int_equal(both[i].count, alone.count);
        assert_memory_equal(both[i].samples, alone.samples, alone.count * sizeof(float));
        td_voice_free_samples(both[i].samples);
    }
    td_voice_free_samples(alone.samples);
}

static void *speak_on(void *context)
{
    speaker *s = context;
    for (int i = 0; i < ROUNDS; i++) {
        td_voice_free_samples(s->samples);
        if (td_voice_speak(s->voice, TEXT, NULL, &s->samples, &s->count) != TD_OK)
            snprintf(s->error, sizeof s->error, "%s", td_voice_error(s->voice)->message);
    }
    return NULL;
}

static uint64_t count_used(const td_voice *voice)
{
    td_memory_stats stats;
    td_memory_get_stats(td_voice_memory(voice), &stats);
    return stats.used_bytes;
}

/* Two handles on the same weights, at once: the bits of one alone, and without weights of its own. */
static void check_shared(const char *file)
{
    td_voice *voice = open_voice(file, NULL, NULL);
    speaker alone = {.voice = voice}, both[2] = {{.voice = voice}, {0}};
    td_voice_info info = {.size = sizeof info};
    const uint64_t before = count_used(voice);
    assert_int_equal(td_voice_share(voice, &both[1].voice, NULL), TD_OK);
    check(td_voice_get_info(both[1].voice, &info));
    assert_true(count_used(voice) - before <= before - 4 * info.parameters); /* all but the weights */
    speak_on(&alone);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&both[i].thread, NULL, speak_on, &both[i]), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(both[i].thread, NULL), 0);
        assert_string_equal(both[i].error, "");
        assert_int_equal(both[i].count, alone.count);
        assert_memory_equal(both[i].samples, alone.samples, alone.count * sizeof(float));
        td_voice_free_samples(both[i].samples);
    }
    td_voice_free_samples(alone.samples);
    td_voice_close(both[1].voice);
    td_voice_close(voice);
}

static void test_shared(void **state)
{
    (void)state;
    check_shared(path);
    check_shared(stepping_path);
}

static void test_cycles(void **state)
{
    (void)state;
    for (int i = 0; i < CYCLES; i++)
        td_voice_close(open_voice(path, NULL, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_info),   cmocka_unit_test(test_cannot_open),
                                       cmocka_unit_test(test_log),    cmocka_unit_test(test_two_at_once),
                                       cmocka_unit_test(test_shared), cmocka_unit_test(test_cycles)};
    return cmocka_run_group_tests(tests, make_file, temp_dir_remove);
}
