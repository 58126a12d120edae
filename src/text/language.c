/* Language detection (language.h). A classifier of libexttextcat serves one thread at a time, so the detector
 * keeps a stack of them and opens another when all are busy.
 */
#include "text/language.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <textcat.h>
#include <unicode/uscript.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "text/unicode.h"

enum {
    MAX_IDLE = 64,
    MAX_SAMPLE_BYTES = 2000, /* more text makes the answer slower, not better */
    MAX_PATH = 512,
    LETTER_POINTS = 3,
    WORD_POINTS = 2,
    OTHER_SCRIPT = 100,
    FAR_BEHIND = 6, /* libexttextcat names only those within 3 % of the nearest; a point for each % */
};

static const char *const usual_folders[] = {
    "/usr/share/libexttextcat",
    "/usr/local/share/libexttextcat",
    "/opt/homebrew/share/libexttextcat",
};

/* The languages in Latin letters: their fingerprints, the letters that speak for them and the small words
 * that sentences of theirs are full of. A letter or word counts against each language that does not list it.
 */
static const struct {
    td_lang lang;
    const char *letters;
    const char *words;
} latin[] = {
    {TD_LANG_EN, "", " the of and to is was it he she you that with for not his her they this are "},
    {TD_LANG_ES, "ñáíóúéü¿¡", " el la los las de que y en un una por con para se del es no lo su al está "},
    {TD_LANG_FR, "çéèêëàâîïôûùœ",
     " le la les des de et est un une que qui dans pour pas il elle nous vous je au du "},
    {TD_LANG_DE, "äöüß",
     " der die das und ist nicht ein eine zu den mit von sich auf für wir ich sie im dem "},
    {TD_LANG_IT, "àèéìòù", " il lo la gli le di che e è un una per con non del della si sono nel al i "},
    {TD_LANG_PT, "ãõáâçéêíóôúà",
     " o a os as de que e em um uma do da dos das por com para não se no na é ao "},
    {TD_LANG_PL, "ąćęłńóśźż", " i w na z się nie do to że jest jak po o od za przez ale przed dla "},
    {TD_LANG_TR, "çğıöşü", " ve bir bu için çok ile da de ne daha her gibi kadar sonra mi ama "},
    {TD_LANG_NL, "ëïé", " de het een en van is niet dat in op te met voor zijn ik je hij ze we aan er naar "},
    {TD_LANG_CS, "ěščřžýáíéúůťďňó", " a v na se je že to s z do o k ve pro jsem jsou by ale si po "},
    {TD_LANG_HU, "áéíóöőúüű", " a az és hogy nem egy is van meg de ez el volt csak már mint ki "},
};
enum { N_LATIN = sizeof latin / sizeof latin[0] };

struct td_detector {
    char folder[MAX_PATH];
    pthread_mutex_t lock;
    void *idle[MAX_IDLE]; /* classifiers, guarded by lock */
    size_t n_idle;
};

/* libexttextcat reads the list of fingerprints from a file: one in memory names just those that are needed.
 */
static td_status open_classifier(const td_detector *detector, void **out)
{
    td_status status = TD_OK;
    char path[64];
    char prefix[MAX_PATH + 2];
    int file = memfd_create("tandem-languages", 0);
    TD_FAIL_IF(file < 0, TD_ERR_IO, "no memory file for the list of languages");
    for (int i = 0; i < N_LATIN; ++i) {
        const char *code = td_lang_code(latin[i].lang);
        TD_FAIL_IF(dprintf(file, "%s.lm %s--utf8\n", code, code) < 0, TD_ERR_IO, "cannot list the languages");
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    snprintf(prefix, sizeof prefix, "%s/", detector->folder);
    *out = special_textcat_Init(path, prefix);
    TD_FAIL_IF(
        *out == NULL, TD_ERR_NOT_FOUND,
        "libexttextcat cannot read its fingerprints in %s: install libexttextcat-data, or name their folder",
        detector->folder);
fail:
    if (file >= 0) close(file);
    return status;
}

static td_status find_folder(const char *wanted, char out[MAX_PATH])
{
    char probe[MAX_PATH + 8];
    for (size_t i = 0; i < sizeof usual_folders / sizeof usual_folders[0]; ++i) {
        const char *folder = wanted != NULL ? wanted : usual_folders[i];
        snprintf(probe, sizeof probe, "%s/en.lm", folder);
        if (snprintf(out, MAX_PATH, "%s", folder) < MAX_PATH && td_file_exists(probe)) return TD_OK;
    }
    return TD_FAIL(TD_ERR_NOT_FOUND,
                   "no fingerprints of libexttextcat in %s: install libexttextcat-data, or name the language",
                   wanted != NULL ? wanted : usual_folders[0]);
}

static void put_classifier(td_detector *detector, void *classifier)
{
    pthread_mutex_lock(&detector->lock);
    bool kept = detector->n_idle < MAX_IDLE;
    if (kept) detector->idle[detector->n_idle++] = classifier;
    pthread_mutex_unlock(&detector->lock);
    if (!kept) textcat_Done(classifier);
}

static td_status get_classifier(td_detector *detector, void **out)
{
    pthread_mutex_lock(&detector->lock);
    *out = detector->n_idle > 0 ? detector->idle[--detector->n_idle] : NULL;
    pthread_mutex_unlock(&detector->lock);
    return *out != NULL ? TD_OK : open_classifier(detector, out);
}

td_status td_detector_create(const char *fingerprints, td_detector **out)
{
    td_status status = TD_OK;
    td_detector *detector = NULL;
    void *classifier = NULL;
    TD_TRY(TD_NEW(&detector));
    pthread_mutex_init(&detector->lock, NULL);
    TD_TRY(find_folder(fingerprints, detector->folder));
    TD_TRY(open_classifier(detector, &classifier));
    put_classifier(detector, classifier);
    *out = detector;
    detector = NULL;
fail:
    td_detector_destroy(detector);
    return status;
}

void td_detector_destroy(td_detector *detector)
{
    if (detector == NULL) return;
    for (size_t i = 0; i < detector->n_idle; ++i)
        textcat_Done(detector->idle[i]);
    pthread_mutex_destroy(&detector->lock);
    free(detector);
}

typedef struct census {
    size_t hangul, kana, han, arabic, devanagari, cyrillic, latin;
} census;

static void count_letter(census *seen, uint32_t codepoint)
{
    if (codepoint < 0x250) { /* Basic Latin to Latin Extended-B */
        seen->latin += td_unicode_is_letter(codepoint);
        return;
    }
    UErrorCode error = U_ZERO_ERROR;
    switch (uscript_getScript((UChar32)codepoint, &error)) {
    case USCRIPT_HANGUL:
        ++seen->hangul;
        break;
    case USCRIPT_HIRAGANA:
    case USCRIPT_KATAKANA:
        ++seen->kana;
        break;
    case USCRIPT_HAN:
        ++seen->han;
        break;
    case USCRIPT_ARABIC:
        ++seen->arabic;
        break;
    case USCRIPT_DEVANAGARI:
        ++seen->devanagari;
        break;
    case USCRIPT_CYRILLIC:
        ++seen->cyrillic;
        break;
    case USCRIPT_LATIN:
        ++seen->latin;
        break;
    default:
        break;
    }
}

/* The language that the script settles, TD_LANG_EN for Latin letters, TD_LANG_COUNT for none at all. A sign
 * of Han or kana says about as much as two letters; some kana make a Han text Japanese. */
static td_lang judge_script(const census *seen)
{
    size_t east = seen->kana + seen->han;
    bool japanese = seen->kana * 10 >= east;
    const struct {
        size_t weight;
        td_lang lang;
    } verdicts[] = {
        {seen->latin, TD_LANG_EN},    {seen->hangul * 2, TD_LANG_KO},
        {seen->arabic, TD_LANG_AR},   {seen->devanagari, TD_LANG_HI},
        {seen->cyrillic, TD_LANG_RU}, {east * 2, japanese ? TD_LANG_JA : TD_LANG_ZH},
    };
    size_t best = 0;
    for (size_t i = 1; i < sizeof verdicts / sizeof verdicts[0]; ++i)
        if (verdicts[i].weight > verdicts[best].weight) best = i;
    return verdicts[best].weight > 0 ? verdicts[best].lang : TD_LANG_COUNT;
}

/* Points for each language whose letter or small word this is. */
static void add_points(int points[N_LATIN], const char *token, size_t bytes, bool word)
{
    char key[40];
    if (bytes == 0 || bytes + 2 >= sizeof key) return;
    size_t at = 0;
    if (word) key[at++] = ' ';
    memcpy(key + at, token, bytes);
    at += bytes;
    if (word) key[at++] = ' ';
    key[at] = '\0';
    for (int i = 0; i < N_LATIN; ++i)
        if (strstr(word ? latin[i].words : latin[i].letters, key) != NULL)
            points[i] += word ? WORD_POINTS : LETTER_POINTS;
}

/* What letters and small words of lower-case text say. */
static void count_points(const char *text, size_t bytes, int points[N_LATIN])
{
    size_t start = 0;
    for (size_t at = 0, step = 0; at <= bytes; at += step) {
        uint32_t codepoint = ' ';
        step = at < bytes ? td_text_utf8_next(text + at, bytes - at, &codepoint) : 1;
        if (codepoint >= 0x80) add_points(points, text + at, step, false);
        if (td_unicode_is_letter(codepoint)) continue;
        add_points(points, text + start, at - start, true);
        start = at + step;
    }
}

/* The best of the points; *lead: how far it is before the next. */
static int choose_best(const int points[N_LATIN], int *lead)
{
    int best = 0;
    int second = INT_MIN;
    for (int i = 1; i < N_LATIN; ++i) {
        if (points[i] > points[best]) {
            second = points[best];
            best = i;
        } else if (points[i] > second) {
            second = points[i];
        }
    }
    *lead = points[best] - second;
    return best;
}

/* Takes off points for the distance of the n-grams. */
static td_status compare_fingerprints(td_detector *detector, const td_buffer *lower, int points[N_LATIN])
{
    void *classifier = NULL;
    candidate_t found[N_LATIN];
    td_status status = get_classifier(detector, &classifier);
    if (status != TD_OK) return status;
    int n_found = textcat_ClassifyFull(classifier, lower->data, lower->size, found);
    for (int k = 0; k < N_LATIN; ++k) {
        int behind = FAR_BEHIND;
        for (int i = 0; i < n_found; ++i) {
            if (strncmp(found[i].name, td_lang_code(latin[k].lang), 2) != 0) continue;
            behind = (int)((int64_t)(found[i].score - found[0].score) * 100 / (found[0].score + 1));
        }
        points[k] -= behind;
    }
    put_classifier(detector, classifier);
    return TD_OK;
}

/* Latin letters. A lead that n-grams cannot make up for needs no n-grams. *before_told: how far the answer is before
 * the language `told`. */
static td_status judge_latin(td_detector *detector, const td_buffer *lower, td_lang told, td_lang *out,
                             int *before_told)
{
    td_status status = TD_OK;
    int points[N_LATIN] = {0};
    int lead = 0;
    count_points(lower->data, lower->size, points);
    int best = choose_best(points, &lead);
    if (lead <= FAR_BEHIND) {
        status = compare_fingerprints(detector, lower, points);
        best = choose_best(points, &lead);
    }
    *out = latin[best].lang;
    for (int i = 0; i < N_LATIN; ++i)
        if (latin[i].lang == told) *before_told = points[best] - points[i];
    return status;
}

/* *out: TD_LANG_COUNT for a text without letters. */
static td_status detect(td_detector *detector, const char *text, size_t bytes, td_lang told, td_lang *out,
                        int *before_told)
{
    td_status status = TD_OK;
    td_buffer lower = {0};
    td_unicode unicode = {0};
    census seen = {0};
    TD_TRY(td_unicode_check(text, bytes, NULL));
    for (size_t at = 0; at < bytes;) {
        uint32_t codepoint = 0;
        if (at > MAX_SAMPLE_BYTES) bytes = at;
        if (at == bytes) break;
        at += td_text_utf8_next(text + at, bytes - at, &codepoint);
        count_letter(&seen, codepoint);
    }
    *out = judge_script(&seen);
    if (*out == TD_LANG_EN && seen.latin > 0) {
        TD_TRY(td_unicode_fold(&unicode, text, bytes, "", &lower));
        TD_TRY(judge_latin(detector, &lower, told, out, before_told));
    }
fail:
    td_unicode_free(&unicode);
    td_buffer_free(&lower);
    return status;
}

td_status td_detector_run(td_detector *detector, const char *text, size_t bytes, td_lang fallback,
                          td_lang *out)
{
    int lead;
    return td_detector_compare(detector, text, bytes, fallback, out, &lead);
}

td_status td_detector_compare(td_detector *detector, const char *text, size_t bytes, td_lang told,
                              td_lang *out, int *lead)
{
    td_lang answer = TD_LANG_COUNT;
    int before_told = OTHER_SCRIPT;
    TD_CHECK(detect(detector, text, bytes, told, &answer, &before_told));
    *out = answer == TD_LANG_COUNT ? told : answer;
    *lead = *out == told ? 0 : before_told;
    return TD_OK;
}
