/* XTTS as a voice: from a text and recordings to samples through the public calls, against the public package; what a
 * dump holds; speakers by name; and tokens of six languages. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "fixture.h"
#include "support/temp_dir.h"
#include "synth/script.h"
#include "synth/voice.h"

static bool open_voice(rig *r, golden *g, const char *name, td_voice **voice)
{
    if (!rig_open(r, RIG_CL_CPU, 0)) return false;
    golden_open(g, name);
    check(td_voice_open_on(r->memory, g->voice, voice));
    return true;
}

static void close_voice(rig *r, golden *g, td_voice *voice)
{
    td_voice_close(voice);
    golden_close(g);
    rig_close(r);
}

static const void *find(const td_safetensors *file, const char *name, size_t *count)
{
    const td_safetensors_tensor *t = td_safetensors_find(file, name);
    if (!t) fail_msg("the dump has no %s", name);
    *count = (size_t)t->bytes / 4;
    return t->data;
}

/* The dump against the package: everything from tokens to samples. */
static void check_dump(const golden *g, td_voice *voice)
{
    char path[300];
    td_safetensors *file;
    size_t n;
    snprintf(path, sizeof path, "%s/dump.safetensors", g->folder);
    check(td_voice_save_parts(voice, path));
    check(td_safetensors_open(path, &file));
    const void *tokens = find(file, "synth.tokens", &n);
    assert_memory_equal(tokens, golden_values(g, "tokens", n), 4 * n);
    golden_compare(g, "mel", find(file, "synth.reference_mel", &n), golden_count(g, "mel"), 5e-6);
    golden_compare(g, "cond_latents", find(file, "synth.cond_latents", &n), golden_count(g, "cond_latents"),
                   2e-5);
    golden_compare(g, "speaker_embedding_exact", find(file, "synth.speaker_embedding", &n),
                   golden_count(g, "speaker_embedding_exact"), 5e-6);
    const int32_t *codes = find(file, "synth.codes", &n), *expected = golden_values(g, "codes", 0);
    const size_t all = golden_count(g, "codes");
    assert_int_equal(n, all - (expected[all - 1] == (int32_t)g->c.gpt_stop_audio_token));
    assert_memory_equal(codes, expected, 4 * n);
    const size_t rows = n;
    const float *latents = find(file, "synth.latents", &n);
    assert_int_equal(n, rows * g->c.gpt_n_model_channels);
    assert_true(relative_error(latents, golden_values(g, "latents", 0), n) <= 2e-5);
    const float *wave = find(file, "synth.wave", &n);
    golden_compare_strided(g, "wave", wave, n, 1e-4); /* the package's speaker vector is off by as much */
    td_safetensors_close(file);
}

static void test_a_text_sounds_as_by_the_package(void **state)
{
    (void)state;
    for (size_t k = 0; k < GOLDEN_CASES; k++) {
        rig r;
        golden g;
        td_voice *voice;
        float *samples;
        size_t count;
        char references[700];
        if (!open_voice(&r, &g, golden_cases[k], &voice)) skip();
        snprintf(references, sizeof references, "%s%s%s", g.paths[0], g.n_references > 1 ? "\n" : "",
                 g.n_references > 1 ? g.paths[1] : "");
        const td_speak_options o = {.size = sizeof o,
                                    .reference = references,
                                    .language = golden_text(&g, "language"),
                                    .greedy = true};
        check(td_voice_speak(voice, golden_text(&g, "text"), &o, &samples, &count));
        assert_int_equal(count, *(const int32_t *)golden_values(&g, "wave_samples", 2));
        golden_compare_strided(&g, "wave", samples, count, 1e-4);
        check_dump(&g, voice);
        td_voice_free_samples(samples);
        close_voice(&r, &g, voice);
    }
}

typedef struct heard {
    float samples[65536];
    size_t count, n_calls;
} heard;

static bool hear(void *context, const float *samples, size_t count)
{
    heard *h = context;
    assert_true(h->count + count <= 65536);
    memcpy(h->samples + h->count, samples, count * sizeof *samples);
    h->count += count;
    h->n_calls++;
    return true;
}

static void test_a_speaker_by_name_streams_what_it_says(void **state)
{
    static heard h;
    rig r;
    golden g;
    td_voice *voice;
    td_voice_info info = {.size = sizeof info};
    float *samples;
    size_t count;
    (void)state;
    if (!open_voice(&r, &g, "a", &voice)) skip();
    td_speak_options o = {.size = sizeof o, .speaker = "Ana", .language = "en", .greedy = true};
    check(td_voice_get_info(voice, &info));
    assert_int_equal(info.rate, 24000);
    assert_string_equal(info.speakers, "Ana");
    check(td_voice_speak(voice, golden_text(&g, "text"), &o, &samples, &count));
    golden_compare_strided(&g, "wave", samples, count, 1e-5);
    check(td_voice_stream(voice, golden_text(&g, "text"), &o, hear, &h));
    assert_true(h.n_calls >= 2);
    assert_int_equal(h.count, count);
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(h.samples[i] - samples[i]) <= 1e-5f)) fail_msg("sample %zu differs", i);
    td_voice_free_samples(samples);
    o.speaker = "Bea";
    refuse(TD_ERR_CONFIG, "'Bea': the voice knows 1: Ana",
           td_voice_speak(voice, "hello", &o, &samples, &count));
    o.speaker = "Anna";
    refuse(TD_ERR_CONFIG, "'Anna': did you mean 'Ana'?",
           td_voice_speak(voice, "hello", &o, &samples, &count));
    o.speaker = NULL;
    refuse(TD_ERR_CONFIG, "reference|speakers", td_voice_speak(voice, "hello", &o, &samples, &count));
    o.reference = g.paths[0];
    o.speaker = "Ana";
    refuse(TD_ERR_CONFIG, "one of them", td_voice_speak(voice, "hello", &o, &samples, &count));
    close_voice(&r, &g, voice);
}

static void test_texts_have_the_packages_tokens(void **state)
{
    static const char *const languages[] = {"en", "de", "fr", "pl", "nl", "tr"};
    golden g;
    td_checkpoint *voice;
    (void)state;
    golden_open(&g, "a");
    check(td_checkpoint_open(g.voice, &voice));
    for (size_t i = 0; i < sizeof languages / sizeof *languages; i++) {
        char key[32];
        td_script script;
        snprintf(key, sizeof key, "text.%s", languages[i]);
        const char *text = golden_text(&g, key);
        const td_script_options options = {.language = languages[i]};
        check(td_script_make(td_checkpoint_get_info(voice), &options, text, strlen(text), &script));
        snprintf(key, sizeof key, "tokens.%s", languages[i]);
        const td_tokens *made = &script.pieces[0].tokens;
        if (script.count != 1 || made->count != golden_count(&g, key) ||
            memcmp(made->ids, golden_values(&g, key, 0), 4 * made->count) != 0)
            fail_msg("%s: '%s' has other tokens", languages[i], text);
        td_script_free(&script);
    }
    td_checkpoint_close(voice);
    golden_close(&g);
}

/* On the same weights, also while the first goes on. */
static void test_a_second_handle_says_the_same(void **state)
{
    rig r;
    golden g;
    td_voice *voice, *second;
    float *samples, *again;
    size_t count, n_again;
    td_memory_stats before, after;
    (void)state;
    if (!open_voice(&r, &g, "a", &voice)) skip();
    const td_speak_options o = {.size = sizeof o, .speaker = "Ana", .language = "en", .greedy = true};
    td_memory_get_stats(r.memory, &before);
    check(td_voice_share(voice, &second, NULL));
    td_memory_get_stats(r.memory, &after);
    assert_true(after.used_bytes - before.used_bytes < before.used_bytes / 2);
    check(td_voice_speak(voice, golden_text(&g, "text"), &o, &samples, &count));
    check(td_voice_speak(second, golden_text(&g, "text"), &o, &again, &n_again));
    assert_int_equal(count, n_again);
    assert_memory_equal(samples, again, count * sizeof *samples);
    td_voice_free_samples(samples);
    td_voice_free_samples(again);
    td_voice_close(second);
    close_voice(&r, &g, voice);
}

static td_status make_script(const td_checkpoint_info *info, const char *language, const char *text,
                             td_script *out)
{
    return td_script_make(info, &(td_script_options){.language = language}, text, strlen(text), out);
}

/* As long as the other. */
static void replace_all(char *text, size_t bytes, const char *from, const char *to)
{
    for (size_t i = 0; i + strlen(from) <= bytes; i++)
        if (memcmp(text + i, from, strlen(from)) == 0) memcpy(text + i, to, strlen(to));
}

/* Sentences share a piece that has room for them; Korean becomes Latin letters; kanji are refused, as is a language
 * without a token. */
static void test_texts_are_written_for_the_model(void **state)
{
    golden g;
    td_checkpoint *voice;
    td_script script, latin;
    (void)state;
    golden_open(&g, "a");
    check(td_checkpoint_open(g.voice, &voice));
    td_checkpoint_info info = *td_checkpoint_get_info(voice);
    check(make_script(&info, "en", "We left. The end! \"No.\" It is the bridge, dear.", &script));
    assert_int_equal(script.count, 2);
    assert_string_equal(script.pieces[0].text, "we left. the end! \"no.\"");
    assert_string_equal(script.pieces[1].text, "it is the bridge, dear.");
    td_script_free(&script);
    refuse(TD_ERR_CONFIG, "'ko'|speaks en es fr de pl tr nl", make_script(&info, "ko", "hello", &script));
    char *json;
    size_t bytes;
    check(td_file_read(info.tokenizer, 1 << 20, &json, &bytes));
    replace_all(json, bytes, "[tr]", "[ko]");
    replace_all(json, bytes, "[nl]", "[ja]");
    info.tokenizer_json = json;
    check(make_script(&info, "ko", "안녕, 물엿.", &script));
    check(make_script(&info, "ko", "annyeong, mul-yeos.", &latin));
    assert_int_equal(script.pieces[0].tokens.count, latin.pieces[0].tokens.count);
    assert_memory_equal(script.pieces[0].tokens.ids, latin.pieces[0].tokens.ids,
                        4 * latin.pieces[0].tokens.count);
    td_script_free(&script);
    td_script_free(&latin);
    refuse(TD_ERR_FORMAT, "kanji|kana", make_script(&info, "ja", "今日", &script));
    free(json);
    td_checkpoint_close(voice);
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_text_sounds_as_by_the_package),
                                       cmocka_unit_test(test_a_speaker_by_name_streams_what_it_says),
                                       cmocka_unit_test(test_a_second_handle_says_the_same),
                                       cmocka_unit_test(test_texts_have_the_packages_tokens),
                                       cmocka_unit_test(test_texts_are_written_for_the_model)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
