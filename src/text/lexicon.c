/* See lexicon.h. Entries lie sorted by their folded words, so that the words that begin as the text does at some
 * place are a range, which each further character narrows. */
#include "text/lexicon.h"

#include <stdlib.h>
#include <string.h>

#include <unicode/uchar.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "text/unicode.h"

enum {
    MAX_FILE_BYTES = 1 << 26,
    MAX_WORD = 100, /* characters */
    /* Letters that stand for phonemes are ideographs of Unicode's second plane: letters without case or other forms,
     * which no language that espeak-ng reads is written with. */
    FIRST_LETTER = 0x20000,
    N_LETTERS = 0xA000,
    REPLACEMENT = 0xFFFD,
};

typedef struct entry {
    uint32_t *word; /* owned: folded code points */
    size_t length;
    const char *said;
    bool is_phonemes;
    size_t number; /* of those with phonemes */
    size_t line;
} entry;

struct td_lexicon {
    char *data; /* owned: the file, its fields ended by zeros */
    entry *entries;
    size_t count, capacity;
    const char **phonemes; /* of the letters that stand for them */
    size_t n_phonemes, phonemes_capacity;
};

static uint32_t fold(uint32_t codepoint)
{
    return (uint32_t)u_foldCase((UChar32)codepoint, U_FOLD_CASE_DEFAULT);
}

static bool is_word_part(uint32_t codepoint)
{
    return td_unicode_is_letter(codepoint) || u_isdigit((UChar32)codepoint);
}

/* ---------------------------------------------------------------- reading */

/* *out: owned, the folded code points of a word. */
static td_status fold_word(const char *word, entry *out)
{
    const size_t bytes = strlen(word);
    TD_CHECK(TD_NEW_ARRAY(&out->word, bytes + 1));
    for (size_t at = 0; at < bytes;) {
        uint32_t codepoint;
        at += td_text_utf8_next(word + at, bytes - at, &codepoint);
        out->word[out->length++] = fold(codepoint);
    }
    return TD_OK;
}

/* Without the spaces at its ends. */
static char *trim(char *text)
{
    size_t n;
    text += strspn(text, " \r");
    n = strlen(text);
    while (n > 0 && strchr(" \r", text[n - 1]))
        text[--n] = 0;
    return text;
}

/* What is said for a word: phonemes between bars, else letters. */
static td_status read_said(const char *place, size_t line, char *said, entry *e)
{
    const size_t n = strlen(said);
    e->said = said;
    e->is_phonemes = said[0] == '/';
    if (!e->is_phonemes) return TD_OK;
    TD_REFUSE_IF(n < 3 || said[n - 1] != '/' || memchr(said + 1, '/', n - 2), TD_ERR_FORMAT,
                 "%s:%zu: phonemes stand between two bars: /təmˈɑːtoʊ/", place, line);
    said[n - 1] = 0;
    e->said = trim(said + 1);
    TD_REFUSE_IF(!*e->said, TD_ERR_FORMAT, "%s:%zu: no phonemes between the bars", place, line);
    return TD_OK;
}

static td_status add_entry(td_lexicon *l, const char *place, size_t line, char *text)
{
    entry e = {.line = line};
    char *tab = strchr(text, '\t');
    td_status status = TD_OK;
    TD_FAIL_IF(!tab, TD_ERR_FORMAT, "%s:%zu: no tab between a word and how it is said", place, line);
    *tab = 0;
    const char *word = trim(text);
    char *said = trim(tab + 1);
    TD_FAIL_IF(!*word, TD_ERR_FORMAT, "%s:%zu: no word before the tab", place, line);
    TD_FAIL_IF(!*said, TD_ERR_FORMAT, "%s:%zu: nothing behind the tab", place, line);
    TD_FAIL_IF(strchr(said, '\t'), TD_ERR_FORMAT, "%s:%zu: more than one tab", place, line);
    TD_TRY(read_said(place, line, said, &e));
    TD_FAIL_IF(e.is_phonemes && l->n_phonemes == N_LETTERS, TD_ERR_LIMIT,
               "%s:%zu: more than %d words with phonemes", place, line, N_LETTERS);
    TD_TRY(fold_word(word, &e));
    TD_FAIL_IF(e.length > MAX_WORD, TD_ERR_FORMAT, "%s:%zu: a word of %zu characters; at most %d", place,
               line, e.length, MAX_WORD);
    TD_TRY(td_alloc_grow(&l->entries, &l->capacity, l->count + 1, sizeof *l->entries));
    l->n_phonemes += e.is_phonemes;
    l->entries[l->count++] = e;
    return TD_OK;
fail:
    free(e.word);
    return status;
}

static int compare(const entry *a, const entry *b)
{
    for (size_t i = 0; i < a->length && i < b->length; i++)
        if (a->word[i] != b->word[i]) return a->word[i] < b->word[i] ? -1 : 1;
    return (a->length > b->length) - (a->length < b->length);
}

static int compare_entries(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    const int order = compare(x, y);
    return order != 0 ? order : (x->line > y->line) - (x->line < y->line);
}

static td_status sort_entries(td_lexicon *l, const char *place)
{
    if (l->count > 0) qsort(l->entries, l->count, sizeof *l->entries, compare_entries);
    for (size_t i = 1; i < l->count; i++)
        TD_REFUSE_IF(compare(&l->entries[i - 1], &l->entries[i]) == 0, TD_ERR_FORMAT,
                     "%s:%zu: the word has a line already: %zu; keep one", place, l->entries[i].line,
                     l->entries[i - 1].line);
    TD_CHECK(TD_NEW_ARRAY(&l->phonemes, l->n_phonemes + 1));
    l->n_phonemes = 0;
    for (size_t i = 0; i < l->count; i++) {
        l->entries[i].number = l->n_phonemes;
        if (l->entries[i].is_phonemes) l->phonemes[l->n_phonemes++] = l->entries[i].said;
    }
    return TD_OK;
}

/* Line by line of l->data. */
static td_status read_lines(td_lexicon *l, const char *name)
{
    size_t line = 0;
    for (char *text = l->data, *next; text; text = next) {
        const size_t n = strcspn(text, "\n");
        next = text[n] ? text + n + 1 : NULL;
        text[n] = 0;
        line++;
        if (td_unicode_check(text, n, NULL) != TD_OK) return td_error_context("%s:%zu", name, line);
        if (text[strspn(text, " \t\r")] == 0 || text[0] == '#') continue;
        TD_CHECK(add_entry(l, name, line, text));
    }
    return TD_OK;
}

td_status td_lexicon_parse(const char *data, size_t bytes, const char *name, td_lexicon **out)
{
    static const char MARK[] = "\xEF\xBB\xBF";
    td_lexicon *l = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_FAIL_IF(bytes > 0 && memchr(data, 0, bytes), TD_ERR_FORMAT, "%s: a zero byte; is it a text?", name);
    TD_TRY(TD_NEW(&l));
    TD_TRY(TD_NEW_ARRAY(&l->data, bytes + 1));
    const size_t skipped = bytes >= 3 && memcmp(data, MARK, 3) == 0 ? 3 : 0;
    if (bytes > skipped) memcpy(l->data, data + skipped, bytes - skipped);
    TD_TRY(read_lines(l, name));
    TD_TRY(sort_entries(l, name));
    *out = l;
    l = NULL;
fail:
    td_lexicon_destroy(l);
    return status;
}

td_status td_lexicon_open(const char *path, td_lexicon **out)
{
    char *data = NULL;
    size_t bytes;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(td_file_read(path, MAX_FILE_BYTES, &data, &bytes));
    TD_TRY(td_lexicon_parse(data, bytes, path, out));
fail:
    free(data);
    return status;
}

void td_lexicon_destroy(td_lexicon *lexicon)
{
    if (!lexicon) return;
    for (size_t i = 0; i < lexicon->count; i++)
        free(lexicon->entries[i].word);
    free(lexicon->entries);
    free(lexicon->phonemes);
    free(lexicon->data);
    free(lexicon);
}

/* ---------------------------------------------------------------- finding */

/* Of a sorted range whose words are equal before `at`: the first entry whose character there is not below `c`. */
static size_t find_first(const td_lexicon *l, size_t low, size_t high, size_t at, uint32_t c)
{
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const entry *e = &l->entries[middle];
        if (e->length <= at || e->word[at] < c)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest word of the lexicon at the beginning of a text, or NULL; *taken: its bytes. */
static const entry *find_entry(const td_lexicon *l, const char *text, size_t bytes, size_t *taken)
{
    const entry *best = NULL;
    size_t low = 0, high = l->count, at = 0;
    for (size_t i = 0; i < MAX_WORD && at < bytes && low < high; i++) {
        uint32_t codepoint, next = 0;
        at += td_text_utf8_next(text + at, bytes - at, &codepoint);
        const uint32_t c = fold(codepoint);
        low = find_first(l, low, high, i, c);
        high = find_first(l, low, high, i, c + 1);
        if (low == high || l->entries[low].length != i + 1) continue;
        if (at < bytes) td_text_utf8_next(text + at, bytes - at, &next);
        if (is_word_part(codepoint) && is_word_part(next)) continue;
        best = &l->entries[low];
        *taken = at;
    }
    return best;
}

static bool is_stand_in(const td_lexicon *l, uint32_t codepoint)
{
    return codepoint >= FIRST_LETTER && codepoint - FIRST_LETTER < l->n_phonemes;
}

td_status td_lexicon_apply(const td_lexicon *lexicon, bool takes_phonemes, const char *text, size_t bytes,
                           td_buffer *out, size_t *n_stayed)
{
    bool is_inside = false; /* of a word */
    TD_CHECK(td_buffer_append(out, "", 0));
    for (size_t at = 0; at < bytes;) {
        uint32_t codepoint;
        size_t taken = td_text_utf8_next(text + at, bytes - at, &codepoint);
        const entry *e =
            is_inside && is_word_part(codepoint) ? NULL : find_entry(lexicon, text + at, bytes - at, &taken);
        if (e && !e->is_phonemes)
            TD_CHECK(td_buffer_append(out, e->said, strlen(e->said)));
        else if (e && takes_phonemes)
            TD_CHECK(td_unicode_append(out, FIRST_LETTER + (uint32_t)e->number));
        else if (!e && takes_phonemes && is_stand_in(lexicon, codepoint))
            TD_CHECK(td_unicode_append(out, REPLACEMENT)); /* one of the text's own */
        else
            TD_CHECK(td_buffer_append(out, text + at, taken));
        *n_stayed += e && e->is_phonemes && !takes_phonemes;
        at += taken;
        is_inside = is_word_part(td_unicode_before(text, at));
    }
    return TD_OK;
}

const char *td_lexicon_phonemes(const td_lexicon *lexicon, uint32_t codepoint)
{
    return is_stand_in(lexicon, codepoint) ? lexicon->phonemes[codepoint - FIRST_LETTER] : NULL;
}
