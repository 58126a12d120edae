/* Languages that no one has written rules for: ICU spells their numbers out and lowers their letters, and signs of percent
 * and minus are said. Abbreviations, dates, times, money and measures stay as they were written, so texts should say them in
 * words. See lang.h. */
#include "text/lang.h"

static const td_lang_money no_money[] = {{NULL, {NULL, 0}, {NULL, 0}}};

/* ICU has the older letter, and an apostrophe of its own. */
static const char *const ro_repairs[] = {"ş", "ș", NULL};
static const char *const uk_repairs[] = {"ʼ", "'", NULL};

/* What is said for the mark before decimals, for a minus and for %; ICU's slips. Decimals stand after a comma, which
 * leaves spaces for groups of thousands. */
#define PLAIN(code_, point_, minus_, percent_, repairs_)                                                     \
    static const td_lang_word code_##_words[] = {{"%", percent_, TD_WHEN_ALWAYS}, {NULL, NULL, 0}};          \
    static const td_lang_unit code_##_units[] = {{"%", {percent_, 0}}, {NULL, {NULL, 0}}};                   \
    const td_lang_rules td_lang_##code_ = {.decimal = ',',                                                   \
                                           .space_groups = true,                                             \
                                           .point = point_,                                                  \
                                           .minus = minus_,                                                  \
                                           .repairs = repairs_,                                              \
                                           .clock = "{h} {m}",                                               \
                                           .clock_hour = "{h}",                                              \
                                           .words = code_##_words,                                           \
                                           .units = code_##_units,                                           \
                                           .money = no_money};

PLAIN(sv, "komma", "minus", "procent", NULL)
PLAIN(da, "komma", "minus", "procent", NULL)
PLAIN(nb, "komma", "minus", "prosent", NULL)
PLAIN(fi, "pilkku", "miinus", "prosenttia", NULL)
PLAIN(et, "koma", "miinus", "protsenti", NULL)
PLAIN(lv, "komats", "mīnus", "procenti", NULL)
PLAIN(lt, "kablelis", "minus", "procentų", NULL)
PLAIN(el, "κόμμα", "μείον", "τοις εκατό", NULL)
PLAIN(ro, "virgulă", "minus", "la sută", ro_repairs)
PLAIN(ca, "coma", "menys", "per cent", NULL)
PLAIN(uk, "кома", "мінус", "відсотків", uk_repairs)
PLAIN(bg, "запетая", "минус", "процента", NULL)
PLAIN(hr, "zarez", "minus", "posto", NULL)
PLAIN(sk, "čiarka", "mínus", "percent", NULL)
PLAIN(vi, "phẩy", "âm", "phần trăm", NULL)
PLAIN(id, "koma", "minus", "persen", NULL)
