/* See split.h. */
#include "synth/split.h"

#include <string.h>

#include "base/text.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

static bool is_in(char c, const char *marks)
{
    return c != 0 && strchr(marks, c) != NULL;
}

/* Behind a run of marks and closing quotes at text[at]. */
static size_t skip_marks(const char *text, size_t at)
{
    while (is_in(text[at], ".!?\"')"))
        at++;
    return at;
}

/* Whether a sentence ends with the mark at text[at]; *behind: where the next may begin. Languages without
 * spaces need none behind it. */
static bool ends_sentence(const char *text, size_t at, bool is_joined, size_t *behind)
{
    if (!is_in(text[at], ".!?")) return false;
    *behind = skip_marks(text, at);
    return is_joined || text[*behind] == 0 || is_space(text[*behind]);
}

typedef struct cuts {
    size_t clause, space, any; /* where the piece may end at the latest; 0: nowhere yet */
} cuts;

static size_t choose_cut(const cuts *c, size_t first, td_piece_end *end)
{
    const size_t least = first + (c->any - first) / 3; /* a cut far too early makes a stump */
    *end = c->clause > least ? TD_PIECE_CLAUSE : TD_PIECE_WITHIN;
    return c->clause > least ? c->clause : c->space > first ? c->space : c->any;
}

static size_t find_end(const char *text, size_t first, bool is_joined, size_t max_characters,
                       td_piece_end *end)
{
    const size_t bytes = strlen(text + first) + first;
    cuts c = {0};
    size_t at = first, behind;
    for (size_t n = 0; at < bytes; n++) {
        uint32_t codepoint;
        const size_t step = td_text_utf8_next(text + at, bytes - at, &codepoint);
        if (n == max_characters) return choose_cut(&c, first, end);
        if (ends_sentence(text, at, is_joined, &behind) && n + (behind - at) <= max_characters) {
            *end = TD_PIECE_SENTENCE;
            return behind;
        }
        if (is_space(text[at]) && at > first) c.space = at;
        at += step;
        if (is_in(text[at - 1], ",;:") && (is_joined || is_space(text[at]))) c.clause = at;
        c.any = at;
    }
    *end = TD_PIECE_SENTENCE; /* the text's end is a sentence's too */
    return at;
}

bool td_split_next(const char *text, td_lang lang, size_t max_characters, size_t *at, td_piece *out)
{
    const bool is_joined = td_lang_get_rules(lang)->joined;
    size_t first = *at;
    while (is_space(text[first]))
        first++;
    *at = first;
    if (text[first] == 0) return false;
    *at = find_end(text, first, is_joined, max_characters, &out->end);
    out->first = first;
    out->bytes = *at - first;
    while (is_space(text[first + out->bytes - 1]))
        out->bytes--;
    return true;
}

/* Moves a cut if `at` is nearer to the middle. */
static void move_cut(size_t *cut, size_t at, size_t middle)
{
    const size_t now = *cut > middle ? *cut - middle : middle - *cut;
    const size_t then = at > middle ? at - middle : middle - at;
    if (*cut == 0 || then < now) *cut = at;
}

size_t td_split_middle(const char *text, td_lang lang, td_piece_end *end)
{
    const bool is_joined = td_lang_get_rules(lang)->joined;
    const size_t bytes = strlen(text), middle = bytes / 2;
    cuts c = {0};
    for (size_t at = 0; at < bytes;) {
        uint32_t codepoint;
        if (is_space(text[at])) move_cut(&c.space, at, middle);
        at += td_text_utf8_next(text + at, bytes - at, &codepoint);
        if (at == bytes) break;
        move_cut(&c.any, at, middle);
        if (is_in(text[at - 1], ",;:") && (is_joined || is_space(text[at]))) move_cut(&c.clause, at, middle);
    }
    const bool at_clause = c.clause > bytes / 4 && c.clause < bytes - bytes / 4;
    *end = at_clause ? TD_PIECE_CLAUSE : TD_PIECE_WITHIN;
    return at_clause ? c.clause : c.space ? c.space : c.any;
}
