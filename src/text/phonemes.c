/* Phonemes by espeak-ng (phonemes.h). The text is cut at punctuation here, because the library drops it. */
#include "text/phonemes.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/error.h"

/* The part of espeak-ng's interface that is used; the values are those of its speak_lib.h. */
enum {
    ESPEAK_SYNCHRONOUS = 2,    /* AUDIO_OUTPUT_SYNCHRONOUS: no sound device */
    ESPEAK_DONT_EXIT = 0x8000, /* espeakINITIALIZE_DONT_EXIT */
    ESPEAK_UTF8 = 1,           /* espeakCHARS_UTF8 */
    ESPEAK_IPA = 2,            /* espeakPHONEMES_IPA */
    MAX_CLAUSE_BYTES = 600,    /* longer ones are cut at a space: the library has fixed buffers */
};

typedef struct espeak {
    int (*initialize)(int output, int buffer_ms, const char *path, int options);
    int (*set_voice)(const char *name);
    const char *(*to_phonemes)(const void **text, int text_mode, int phoneme_mode);
} espeak;

/* One library, one state of it: both live as long as the process. Guarded by `lock`. */
static struct {
    pthread_mutex_t lock;
    bool tried;
    bool ready;
    const char *reason; /* why it is not ready */
    td_lang voice;      /* in force; TD_LANG_COUNT = none */
    espeak api;
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER, .voice = TD_LANG_COUNT};

/* Without Chinese and Japanese: espeak-ng names the letters of pinyin, and says "Chinese letter" for kanji.
 */
static const char *const voices[TD_LANG_COUNT] = {
    [TD_LANG_EN] = "en-us",   [TD_LANG_ES] = "es",    [TD_LANG_FR] = "fr", [TD_LANG_DE] = "de",
    [TD_LANG_IT] = "it",      [TD_LANG_PT] = "pt-br", [TD_LANG_PL] = "pl", [TD_LANG_TR] = "tr",
    [TD_LANG_RU] = "ru",      [TD_LANG_NL] = "nl",    [TD_LANG_CS] = "cs", [TD_LANG_AR] = "ar",
    [TD_LANG_HU] = "hu",      [TD_LANG_KO] = "ko",    [TD_LANG_HI] = "hi",
#define VOICE(name, code) [TD_LANG_##name] = #code,
    TD_LANG_PLAIN_LIST(VOICE)
#undef VOICE
};

/* What espeak-ng 1.51 makes of the 12,000 most frequent words of each language, without marks. */
static const char *const inventories[TD_LANG_COUNT] = {
    [TD_LANG_EN] = "abdefhijklmnopstuvwxzæðŋɐɑɔəɚɛɜɡɪɹɾʃʊʌʒʔˈˌː̩θᵻ",
    [TD_LANG_ES] = "abdefhijklmnoprstuwxðŋəɛɡɣɪɲɾʃʊʎʒʝˈˌːβθ",
    [TD_LANG_FR] = "abdefhijklmnopstuvwxyzðøŋœɐɑɒɔəɛɜɡɪɲɹʁʃʊʌʒˈˌː̃θ",
    [TD_LANG_DE] = "abdefhijklmnoprstuvwxyzçðøŋœɐɑɒɔəɛɜɡɪɹɾʃʊʌʒˈˌː̃θ",
    [TD_LANG_IT] = "abdefhijklmnoprstuvwxzŋɒɔəɛɜɡɪɲɹɾʃʊʌʎʒˈˌː̪",
    [TD_LANG_PT] = "abcdefhijklmnoprstuvwxyzæŋɐɔəɛɡɪɲɹɾʃʊʎʒˈˌː̃",
    [TD_LANG_PL] = "abcdefhijklmnprstuvwxzçŋɔɕɛɡɨɪɲɹʃʑʒʲˈˌː̃",
    [TD_LANG_TR] = "abcdefhijklmnoprstuvwyzæøœɔɛɟɡɪɫɯɾʃʊʒˈˌː",
    [TD_LANG_RU] = "abdefijklmnoprstuvwxyzðŋɐɑɒɔɕəɛɜɡɪɭɵɹʃʊʌʑʒʲˈˌːθ",
    [TD_LANG_NL] = "abdefhijklmnoprstuvwxyzðøŋœɑɒɔəɛɜɡɣɪɲɵɹɾʃʊʋʌʒʲˈˌː̃",
    [TD_LANG_CS] = "abcdefhijklmnoprstuvxzŋɟɡɪɲʃʊʑʒˈˌː̝̩̊",
    [TD_LANG_AR] = "abdefhijklmnpqrstuvwxzðħɐɑɒɔəɛɜɡɣɪɹʃʊʌʒʔʕˈˌːˤ̪θχ",
    [TD_LANG_HU] = "abcdefhijklmnoprstuvyzçøɑɛɟɡɪɲʃʎʒˈˌː",
    [TD_LANG_KO] = "abdefhijklmnopqrstuvwzðŋɐɑɒɔɕəɛɜɡɪɫɯɹɾʃʊʌʑʒˈˌːθ",
    [TD_LANG_HI] = "abcdefhijklmnopqrstuvwxzðŋɐɑɒɔɖəɛɜɟɡɣɪɲɳɹɾʂʃʈʊʋʌʒʰˈˌː̃θχ",
};

const char *td_phonemes_inventory(td_lang lang)
{
    return inventories[lang] != NULL ? inventories[lang] : "";
}

/* Stores a symbol of the library in *function, a function pointer of any type. */
static bool find_symbol(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* Called with the lock held. The library is never closed: it cannot be opened twice. */
static void open_library(void)
{
    shared.tried = true;
    void *library = dlopen("libespeak-ng.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        shared.reason = "libespeak-ng.so.1 is not installed: install espeak-ng (Debian: libespeak-ng1 and "
                        "espeak-ng-data)";
        return;
    }
    bool complete = find_symbol(library, "espeak_Initialize", &shared.api.initialize) &&
                    find_symbol(library, "espeak_SetVoiceByName", &shared.api.set_voice) &&
                    find_symbol(library, "espeak_TextToPhonemes", &shared.api.to_phonemes);
    if (!complete)
        shared.reason = "libespeak-ng.so.1 lacks a function that is needed: install espeak-ng 1.50 or later";
    else if (shared.api.initialize(ESPEAK_SYNCHRONOUS, 0, NULL, ESPEAK_DONT_EXIT) < 0)
        shared.reason = "espeak-ng does not find its data: install espeak-ng-data, or set ESPEAK_DATA_PATH";
    else
        shared.ready = true;
}

/* Called with the lock held. */
static td_status prepare(void)
{
    if (!shared.tried) open_library();
    return shared.ready ? TD_OK : TD_FAIL(TD_ERR_UNSUPPORTED, "%s", shared.reason);
}

/* Called with the lock held. */
static td_status choose_voice(td_lang lang)
{
    if (shared.voice == lang) return TD_OK;
    if (voices[lang] == NULL) {
        return TD_FAIL(TD_ERR_UNSUPPORTED, "espeak-ng cannot read '%s' well enough: use characters",
                       td_lang_code(lang));
    }
    int code = shared.api.set_voice(voices[lang]);
    if (code != 0) {
        return TD_FAIL(TD_ERR_UNSUPPORTED, "espeak-ng has no voice '%s' (code %d): install its full data",
                       voices[lang], code);
    }
    shared.voice = lang;
    return TD_OK;
}

td_status td_phonemes_check(void)
{
    pthread_mutex_lock(&shared.lock);
    td_status status = prepare();
    pthread_mutex_unlock(&shared.lock);
    return status;
}

static bool is_mark(char c)
{
    return c != '\0' && strchr(".,;:!?()\"", c) != NULL;
}

/* The end of the clause at `text`: the next mark or, where it is too long, the last space before the limit.
 */
static size_t measure_clause(const char *text, size_t bytes)
{
    size_t end = 0;
    size_t space = 0;
    while (end < bytes && !is_mark(text[end]) && end < MAX_CLAUSE_BYTES) {
        if (text[end] == ' ') space = end;
        ++end;
    }
    if (end < MAX_CLAUSE_BYTES || end == bytes) return end;
    if (space > 0) return space;
    while (end > 1 && ((unsigned char)text[end] & 0xC0) == 0x80)
        --end;
    return end;
}

/* Called with the lock held. A word of another language brings "(en)" marks, which are left out. */
static td_status append_clause(const char *text, size_t bytes, td_buffer *out)
{
    td_status status = TD_OK;
    char clause[MAX_CLAUSE_BYTES + 1];
    memcpy(clause, text, bytes);
    clause[bytes] = '\0';
    const void *rest = clause;
    while (rest != NULL && status == TD_OK) {
        const char *said = shared.api.to_phonemes(&rest, ESPEAK_UTF8, ESPEAK_IPA);
        if (said == NULL) break;
        said += strspn(said, " ");
        if (*said != '\0' && out->size > 0 && out->data[out->size - 1] != ' ')
            status = td_buffer_append(out, " ", 1);
        while (*said != '\0' && status == TD_OK) {
            size_t run = strcspn(said, "(");
            status = td_buffer_append(out, said, run);
            said += run;
            if (*said == '(') said += strcspn(said, ")");
            if (*said == ')') ++said;
        }
    }
    return status;
}

td_status td_phonemes_convert(td_lang lang, const char *text, size_t bytes, td_buffer *out)
{
    td_status status = TD_OK;
    pthread_mutex_lock(&shared.lock);
    TD_TRY(prepare());
    TD_TRY(choose_voice(lang));
    while (bytes > 0) {
        size_t run = measure_clause(text, bytes);
        if (run > 0) {
            if (strspn(text, " ") < run) TD_TRY(append_clause(text, run, out));
        } else {
            TD_TRY(td_buffer_append(out, text, 1));
            run = 1;
        }
        text += run;
        bytes -= run;
    }
fail:
    pthread_mutex_unlock(&shared.lock);
    return status;
}
