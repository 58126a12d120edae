/* Characters, phonemes and BPE behind one interface, and tokenizer files that must be refused
 * (src/text/tokenizer.c, bpe.c, bpe_json.c, phonemes.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/file.h"
#include "base/pool.h"
#include "support/temp_dir.h"
#include "text/bpe.h"
#include "text/phonemes.h"
#include "text/tokenizer.h"

#define HEAD "\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"Whitespace\"},"
#define ADDED                                                                                                \
    "\"added_tokens\":[{\"id\":0,\"content\":\"[STOP]\"},{\"id\":1,\"content\":\"[UNK]\"},"                  \
    "{\"id\":2,\"content\":\"[SPACE]\"},{\"id\":30,\"content\":\"[en]\"},{\"id\":31,\"content\":\"[zh-cn]"   \
    "\"}],"
#define VOCAB                                                                                                \
    "\"vocab\":{\"[UNK]\":1,\"l\":3,\"o\":4,\"w\":5,\"e\":6,\"r\":7,\"lo\":8,\"low\":9,\"er\":10,"           \
    "\"ow\":11,\"é\":12,\"!\":13,\"!!\":14,\"a\":15,\"aa\":16,\"aaaa\":17,\"_\":18,\"wl\":19}"
#define GOOD                                                                                                 \
    "{" HEAD ADDED "\"model\":{\"type\":\"BPE\",\"unk_token\":\"[UNK]\",\"fuse_unk\":false," VOCAB           \
    ",\"merges\":[\"l o\",\"e r\",[\"lo\",\"w\"],\"o w\",\"! !\",\"a a\",\"aa aa\",\"w l\"]}}"

static td_bpe *parse(const char *json)
{
    td_bpe *bpe = NULL;
    td_status status = td_bpe_parse(json, strlen(json), "test", &bpe);
    if (status != TD_OK) fail_msg("%s", td_error_last()->message);
    return bpe;
}

static void assert_ids(const td_tokens *tokens, const int32_t *ids, size_t count)
{
    assert_int_equal(tokens->count, count);
    assert_memory_equal(tokens->ids, ids, count * sizeof *ids);
}

#define ASSERT_BPE(bpe, text, ...)                                                                           \
    do {                                                                                                     \
        const int32_t expected[] = {__VA_ARGS__};                                                            \
        td_tokens found = {0};                                                                               \
        assert_int_equal(td_bpe_encode(bpe, text, strlen(text), &found), TD_OK);                             \
        assert_ids(&found, expected, sizeof expected / sizeof expected[0]);                                  \
        td_tokens_free(&found);                                                                              \
    } while (0)

static void test_bpe(void **state)
{
    (void)state;
    td_bpe *bpe = parse(GOOD);
    assert_int_equal(td_bpe_vocab_size(bpe), 32);
    assert_int_equal(td_bpe_find(bpe, "[en]"), 30);
    assert_int_equal(td_bpe_find(bpe, "low"), 9);
    assert_int_equal(td_bpe_find(bpe, "nothing"), -1);
    assert_int_equal(td_bpe_find(bpe, ""), -1);
    ASSERT_BPE(bpe, "low", 9);
    ASSERT_BPE(bpe, "lower", 9, 10);
    ASSERT_BPE(bpe, "ower", 11, 10); /* "o w" after "e r" */
    ASSERT_BPE(bpe, "lo w", 8, 5);   /* never across a space */
    ASSERT_BPE(bpe, "low!!", 9, 14); /* nor from a word to marks */
    ASSERT_BPE(bpe, "wlo", 5, 8);    /* "w l" comes too late */
    ASSERT_BPE(bpe, "aaa", 16, 15);  /* the leftmost first */
    ASSERT_BPE(bpe, "aaaaaaa", 17, 16, 15);
    ASSERT_BPE(bpe, "low[SPACE]er[en]!", 9, 2, 10, 30, 13);
    ASSERT_BPE(bpe, "é_", 12, 18);
    ASSERT_BPE(bpe, "lxyo", 3, 1, 1, 4); /* each unknown by itself */
    td_tokens none = {0};
    assert_int_equal(td_bpe_encode(bpe, " \t\n", 3, &none), TD_OK);
    assert_int_equal(none.count, 0);
    td_bpe_destroy(bpe);
    td_bpe_destroy(NULL);
}

static void test_bpe_long_word(void **state)
{
    (void)state;
    enum { BYTES = 1 << 20 };
    td_bpe *bpe = parse(GOOD);
    td_tokens tokens = {0};
    char *text = malloc(BYTES);
    memset(text, 'a', BYTES);
    assert_int_equal(td_bpe_encode(bpe, text, BYTES, &tokens), TD_OK);
    assert_int_equal(tokens.count, BYTES / 4);
    assert_int_equal(tokens.ids[0], 17);
    free(text);
    td_tokens_free(&tokens);
    td_bpe_destroy(bpe);
}

static void test_bpe_refused(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        td_status status;
        const char *message;
    } bad[] = {
        {"", TD_ERR_FORMAT, "JSON"},
        {"{", TD_ERR_FORMAT, "JSON"},
        {"[1,2]", TD_ERR_FORMAT, "no model"},
        {"{\"model\":{\"type\":\"Unigram\"}}", TD_ERR_UNSUPPORTED, "not BPE"},
        {"{\"model\":{\"type\":\"BPE\"}}", TD_ERR_UNSUPPORTED, "pre_tokenizer"},
        {"{\"normalizer\":{\"type\":\"NFC\"},\"model\":{}}", TD_ERR_UNSUPPORTED, "normalizer"},
        {"{" HEAD "\"model\":{\"byte_fallback\":true}}", TD_ERR_UNSUPPORTED, "byte_fallback"},
        {"{" HEAD "\"model\":{}}", TD_ERR_FORMAT, "model.vocab"},
        {"{" HEAD "\"model\":{\"vocab\":{\"a\":0}}}", TD_ERR_FORMAT, "model.merges"},
        {"{" HEAD "\"model\":{\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", TD_ERR_FORMAT, "id 0 twice"},
        {"{" HEAD "\"model\":{\"vocab\":{\"a\":0,\"a\":1},\"merges\":[]}}", TD_ERR_FORMAT, "piece twice"},
        {"{" HEAD "\"model\":{\"vocab\":{\"a\":-1},\"merges\":[]}}", TD_ERR_LIMIT, "outside"},
        {"{" HEAD "\"model\":{\"vocab\":{\"a\":1e300},\"merges\":[]}}", TD_ERR_LIMIT, "outside"},
        {"{" HEAD "\"model\":{\"vocab\":{\"a\":0.5},\"merges\":[]}}", TD_ERR_FORMAT, "not whole"},
        {"{" HEAD "\"model\":{\"vocab\":{\"a\":\"x\"},\"merges\":[]}}", TD_ERR_FORMAT, "not a number"},
        {"{" HEAD "\"model\":{\"vocab\":{\"\":0},\"merges\":[]}}", TD_ERR_FORMAT, "empty"},
        {"{" HEAD "\"model\":{\"vocab\":{\"\xFF\":0},\"merges\":[]}}", TD_ERR_FORMAT, "UTF-8"},
        {"{" HEAD "\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}", TD_ERR_FORMAT, "merge 0"},
        {"{" HEAD "\"model\":{\"vocab\":{\"a\":0,\"aa\":1},\"merges\":[\"a a\",\"a a\"]}}", TD_ERR_FORMAT,
         "merge 1"},
        {"{" HEAD "\"model\":{\"vocab\":{\"a\":0},\"merges\":[\"ab\"]}}", TD_ERR_FORMAT, "not a pair"},
        {"{" HEAD "\"model\":{\"vocab\":{\"a\":0},\"merges\":[[\"a\"]]}}", TD_ERR_FORMAT, "not a pair"},
        {"{" HEAD "\"model\":{\"unk_token\":\"?\",\"vocab\":{\"a\":0},\"merges\":[]}}", TD_ERR_FORMAT,
         "unk_token"},
        {"{" HEAD
         "\"added_tokens\":[{\"id\":0,\"content\":\"b\"}],\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}",
         TD_ERR_FORMAT, "id 0"},
        {"{" HEAD "\"added_tokens\":[{\"id\":5}],\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}",
         TD_ERR_FORMAT, "no content"},
        {"{" HEAD "\"added_tokens\":7,\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}", TD_ERR_FORMAT,
         "not a list"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        td_bpe *bpe = NULL;
        td_status status = td_bpe_parse(bad[i].json, strlen(bad[i].json), "bad.json", &bpe);
        if (status != bad[i].status) fail_msg("%s: %s", bad[i].json, td_status_name(status));
        if (strstr(td_error_last()->message, bad[i].message) == NULL ||
            strstr(td_error_last()->message, "bad.json") == NULL) {
            fail_msg("%s: %s", bad[i].json, td_error_last()->message);
        }
    }
}

/* A file cut anywhere is refused, never a crash; so is deep nesting. */
static void test_bpe_cut(void **state)
{
    (void)state;
    td_bpe *bpe = NULL;
    for (size_t bytes = 0; bytes < strlen(GOOD); ++bytes) {
        assert_int_not_equal(td_bpe_parse(GOOD, bytes, "cut", &bpe), TD_OK);
    }
    enum { DEPTH = 1 << 20 };
    char *deep = malloc(DEPTH);
    memset(deep, '[', DEPTH);
    assert_int_equal(td_bpe_parse(deep, DEPTH, "deep", &bpe), TD_ERR_FORMAT);
    free(deep);
}

static void test_tokenizer_of_file(void **state)
{
    (void)state;
    const char *path = temp_path("vocab.json");
    assert_int_equal(td_file_write_atomic(path, GOOD, strlen(GOOD)), TD_OK);
    td_tokenizer *tokenizer = NULL;
    td_tokens tokens = {0};
    assert_int_equal(td_tokenizer_open_bpe(path, &tokenizer), TD_OK);
    assert_int_equal(td_tokenizer_vocab_size(tokenizer), 32);
    assert_int_equal(td_tokenizer_encode(tokenizer, TD_LANG_EN, "low er?", 7, &tokens), TD_OK);
    assert_ids(&tokens, (const int32_t[]){30, 9, 2, 10, 1}, 5);
    assert_int_equal(tokens.n_unknown, 1);
    assert_int_equal(tokens.first_unknown, '?');
    assert_int_equal(td_tokenizer_encode(tokenizer, TD_LANG_ZH, "a", 1, &tokens), TD_OK);
    assert_ids(&tokens, (const int32_t[]){31, 15}, 2);
    assert_int_equal(td_tokenizer_encode(tokenizer, TD_LANG_EN, "a\xFF", 2, &tokens), TD_ERR_FORMAT);
    td_tokens_free(&tokens);
    td_tokenizer_destroy(tokenizer);
    assert_int_equal(td_tokenizer_open_bpe("/nowhere/vocab.json", &tokenizer), TD_ERR_NOT_FOUND);
}

static void test_characters(void **state)
{
    (void)state;
    td_symbols *symbols = NULL;
    td_tokenizer *tokenizer = NULL;
    td_tokens tokens = {0};
    assert_int_equal(td_symbols_parse(" abé", &symbols), TD_OK);
    assert_int_equal(td_tokenizer_create(TD_TOKENS_CHARACTERS, symbols, &tokenizer), TD_OK);
    assert_int_equal(td_tokenizer_vocab_size(tokenizer), 8);
    assert_int_equal(td_tokenizer_encode(tokenizer, TD_LANG_EN, "ab éx字", strlen("ab éx字"), &tokens),
                     TD_OK);
    assert_ids(&tokens, (const int32_t[]){1, 5, 6, 4, 7, 3, 3, 2}, 8);
    assert_int_equal(tokens.n_unknown, 2);
    assert_int_equal(tokens.first_unknown, 'x');
    assert_int_equal(td_tokenizer_encode(tokenizer, TD_LANG_EN, "", 0, &tokens), TD_OK);
    assert_ids(&tokens, (const int32_t[]){1, 2}, 2);
    assert_int_equal(tokens.n_unknown, 0);
    td_tokens_free(&tokens);
    td_tokenizer_destroy(tokenizer);
    td_tokenizer_destroy(NULL);
    td_symbols_destroy(symbols);
}

static td_status phonemize(void *ctx, size_t index)
{
    static const struct {
        td_lang lang;
        const char *text;
    } texts[] = {{TD_LANG_EN, "hello, world!"}, {TD_LANG_DE, "guten tag"}, {TD_LANG_FR, "bonjour"}};
    char **results = ctx;
    td_buffer out = {0};
    td_status status = td_phonemes_convert(texts[index % 3].lang, texts[index % 3].text,
                                           strlen(texts[index % 3].text), &out);
    results[index] = out.data;
    return status;
}

static void test_phonemes(void **state)
{
    (void)state;
    if (td_phonemes_check() != TD_OK) {
        assert_int_equal(td_error_last()->status, TD_ERR_UNSUPPORTED);
        print_message("%s\n", td_error_last()->message);
        skip();
    }
    enum { N_TEXTS = 300 };
    char *results[N_TEXTS] = {NULL};
    td_pool *pool = NULL;
    assert_int_equal(td_pool_create(4, &pool), TD_OK);
    assert_int_equal(td_pool_map(pool, N_TEXTS, phonemize, results), TD_OK);
    td_pool_destroy(pool);
    assert_string_equal(results[0], "həlˈoʊ, wˈɜːld!");
    for (int i = 3; i < N_TEXTS; ++i) {
        assert_string_equal(results[i], results[i % 3]);
        free(results[i]);
    }
    for (int i = 0; i < 3; ++i) {
        free(results[i]);
    }
    td_buffer out = {0};
    for (int i = 0; i < TD_LANG_COUNT; ++i) {
        bool left_out = i == TD_LANG_ZH || i == TD_LANG_JA;
        td_buffer_clear(&out);
        assert_int_equal(td_phonemes_convert((td_lang)i, "radio", 5, &out),
                         left_out ? TD_ERR_UNSUPPORTED : TD_OK);
        if (!left_out) assert_true(out.size > 0);
    }
    td_buffer_free(&out);
}

static void test_phonemes_of_long_text(void **state)
{
    (void)state;
    if (td_phonemes_check() != TD_OK) skip();
    enum { BYTES = 5000 };
    char text[BYTES];
    td_buffer out = {0};
    for (int i = 0; i < BYTES; ++i) {
        text[i] = i % 4 == 3 ? ' ' : 'a';
    }
    assert_int_equal(td_phonemes_convert(TD_LANG_EN, text, BYTES, &out), TD_OK);
    assert_true(out.size > BYTES / 2);
    memset(text, 'a', BYTES); /* no place to cut */
    assert_int_equal(td_phonemes_convert(TD_LANG_EN, text, BYTES, &out), TD_OK);
    td_buffer_clear(&out);
    assert_int_equal(td_phonemes_convert(TD_LANG_EN, "... !", 5, &out), TD_OK);
    td_buffer_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bpe),
        cmocka_unit_test(test_bpe_long_word),
        cmocka_unit_test(test_bpe_refused),
        cmocka_unit_test(test_bpe_cut),
        cmocka_unit_test(test_tokenizer_of_file),
        cmocka_unit_test(test_characters),
        cmocka_unit_test(test_phonemes),
        cmocka_unit_test(test_phonemes_of_long_text),
    };
    return cmocka_run_group_tests(tests, temp_dir_make, temp_dir_remove);
}
