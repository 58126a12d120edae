/* The languages Tandem speaks, and what the normaliser knows of each: words, marks and rule-set names, as
 * data. The numbers themselves are ICU's. One file of tables per family: lang_germanic.c, lang_romance.c,
 * lang_slavic.c, lang_asian.c, lang_other.c, lang_plain.c. Covered by tests/text/test_normalize.c.
 */
#ifndef TD_TEXT_LANG_H
#define TD_TEXT_LANG_H

#include <stdbool.h>
#include <stddef.h>

#include "tandem/status.h"

/* Those with tables of their own; and those with what ICU knows of them (lang_plain.c). */
#define TD_LANG_FULL_LIST(X)                                                                                 \
    X(EN, en)                                                                                                \
    X(ES, es)                                                                                                \
    X(FR, fr)                                                                                                \
    X(DE, de)                                                                                                \
    X(IT, it)                                                                                                \
    X(PT, pt)                                                                                                \
    X(PL, pl)                                                                                                \
    X(TR, tr)                                                                                                \
    X(RU, ru)                                                                                                \
    X(NL, nl)                                                                                                \
    X(CS, cs)                                                                                                \
    X(AR, ar)                                                                                                \
    X(ZH, zh)                                                                                                \
    X(HU, hu)                                                                                                \
    X(KO, ko)                                                                                                \
    X(JA, ja)                                                                                                \
    X(HI, hi)

#define TD_LANG_PLAIN_LIST(X)                                                                                \
    X(SV, sv)                                                                                                \
    X(DA, da)                                                                                                \
    X(NB, nb)                                                                                                \
    X(FI, fi)                                                                                                \
    X(ET, et)                                                                                                \
    X(LV, lv)                                                                                                \
    X(LT, lt)                                                                                                \
    X(EL, el)                                                                                                \
    X(RO, ro)                                                                                                \
    X(CA, ca)                                                                                                \
    X(UK, uk)                                                                                                \
    X(BG, bg)                                                                                                \
    X(HR, hr)                                                                                                \
    X(SK, sk)                                                                                                \
    X(VI, vi)                                                                                                \
    X(ID, id)

#define TD_LANG_LIST(X) TD_LANG_FULL_LIST(X) TD_LANG_PLAIN_LIST(X)

typedef enum td_lang {
#define TD_LANG_ENUM(name, code) TD_LANG_##name,
    TD_LANG_LIST(TD_LANG_ENUM)
#undef TD_LANG_ENUM
        TD_LANG_COUNT
} td_lang;

/* "en", "zh", ... Borrowed forever. */
const char *td_lang_code(td_lang lang);

/* "de", "DE", "zh-cn", "pt_BR": the part before the first '-' or '_' decides. TD_ERR_CONFIG names the text
 * and the languages there are. */
td_status td_lang_parse(const char *text, td_lang *out);

/* Below: the tables. All text is lower case and NFC. "Words" are separated by one space. */

/* When a word of the table counts. */
typedef enum td_lang_when {
    TD_WHEN_ALWAYS,
    TD_WHEN_BEFORE_NUMBER, /* "no. 5", not "he said no." */
    TD_WHEN_AFTER_NUMBER,  /* "1999 г.", not "г." elsewhere */
} td_lang_when;

/* An abbreviation or a sign, and what is said for it. */
typedef struct td_lang_word {
    const char *key; /* after each inner dot the text may have a space: "z.b." also stands for "z. b." */
    const char *said;
    td_lang_when when;
} td_lang_word;

/* A noun that is counted. Forms are separated by '|': one form for all numbers; "one|other"; or
 * "one|few|many|fraction". The gender is 'm', 'f' or 'n' where number words follow it, else 0. */
typedef struct td_lang_noun {
    const char *forms;
    char gender;
} td_lang_noun;

/* What a mark right after a number, or one space later, means: "km", "%". */
typedef struct td_lang_unit {
    const char *key;
    td_lang_noun noun;
} td_lang_unit;

typedef struct td_lang_money {
    const char *symbols; /* words: "$ us$ usd" */
    td_lang_noun major;
    td_lang_noun minor; /* forms NULL: there is none, decimals are read as decimals */
} td_lang_money;

/* A suffix that makes a number an ordinal ("st", "º"); in `dot_ordinals` the word before a number with a dot
 * ("am 3. Mai"; "" = any word, before a month; "*" = whatever is around); in `years_after` a word after a year; and ICU's rule set for it, NULL for own
 * `ordinals`. */
typedef struct td_lang_ordinal {
    const char *mark;
    const char *ruleset;
} td_lang_ordinal;

/* Each table ends with a row whose first field is NULL; a table may be NULL. */
typedef struct td_lang_rules {
    char decimal;        /* '.' or ',' */
    bool space_groups;   /* 1 000 000 */
    bool indian_groups;  /* 12,34,567 */
    bool joined;         /* written without spaces */
    const char *numbers; /* rule set of plain numbers; NULL = ICU's default */
    const char *masculine, *feminine, *neuter;
    const char *year;                   /* rule set of years; NULL = as numbers */
    const char *year_before;            /* words before 1999 that make it a year */
    const td_lang_ordinal *years_after; /* words after 1999 that do, with the rule set they ask for */
    bool decades;                       /* "1990s" */
    const char *months;
    bool day_ordinals; /* a day before a month is an ordinal without a dot: "3 maja" */
    const char *point, *minus, *over;
    const char *range;           /* NULL: the hyphen stays */
    const char *percent_before;  /* said before the number instead of after it */
    const char *money_joint;     /* between dollars and cents */
    const char *scales;          /* words: "million billion" */
    const char *scale_joint;     /* "5 millones DE dólares" */
    const char *clock;           /* "{h} uhr {m}"; forms of a noun that the hour counts: "[heure|heures]" */
    const char *clock_hour;      /* on the hour: "{h} uhr" */
    const char *clock_ruleset;   /* of the hour */
    const char *clock_zero;      /* said before minutes 1 to 9 */
    const char *clock_tail;      /* words that repeat what `clock` says */
    const char *const *ordinals; /* 1 to 19, then 20, 30 to 90, where ICU has none */
    const char *const *repairs;  /* pairs: what ICU says wrongly, what is right; ended by NULL */
    const td_lang_ordinal *suffix_ordinals;
    const td_lang_ordinal *dot_ordinals;
    const td_lang_word *words;
    const td_lang_unit *units;
    const td_lang_money *money;
} td_lang_rules;

/* Borrowed forever. */
const td_lang_rules *td_lang_get_rules(td_lang lang);

#define TD_LANG_DECLARE(name, code) extern const td_lang_rules td_lang_##code;
TD_LANG_LIST(TD_LANG_DECLARE)
#undef TD_LANG_DECLARE

#endif
