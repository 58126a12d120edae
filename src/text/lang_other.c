/* Turkish, Hungarian and Arabic: the words the normaliser says (lang.h). Data only. */
#include "text/lang.h"

static const td_lang_word tr_words[] = {
    {"dr.", "doktor", TD_WHEN_ALWAYS},  {"prof.", "profesör", TD_WHEN_ALWAYS},
    {"doç.", "doçent", TD_WHEN_ALWAYS}, {"av.", "avukat", TD_WHEN_ALWAYS},
    {"sn.", "sayın", TD_WHEN_ALWAYS},   {"cad.", "caddesi", TD_WHEN_ALWAYS},
    {"sok.", "sokak", TD_WHEN_ALWAYS},  {"vb.", "ve benzeri", TD_WHEN_ALWAYS},
    {"vs.", "vesaire", TD_WHEN_ALWAYS}, {"örn.", "örneğin", TD_WHEN_ALWAYS},
    {"yy.", "yüzyıl", TD_WHEN_ALWAYS},  {"no.", "numara", TD_WHEN_BEFORE_NUMBER},
    {"#", "diyez", TD_WHEN_ALWAYS},     {"&", "ve", TD_WHEN_ALWAYS},
    {"@", "et", TD_WHEN_ALWAYS},        {"+", "artı", TD_WHEN_ALWAYS},
    {"=", "eşittir", TD_WHEN_ALWAYS},   {"%", "yüzde", TD_WHEN_ALWAYS},
    {"°", "derece", TD_WHEN_ALWAYS},    {"×", "çarpı", TD_WHEN_ALWAYS},
    {NULL, NULL, TD_WHEN_ALWAYS},
};

static const td_lang_unit tr_units[] = {
    {"km/s", {"kilometre bölü saat", 0}},
    {"km/h", {"kilometre bölü saat", 0}},
    {"km2", {"kilometrekare", 0}},
    {"m2", {"metrekare", 0}},
    {"km", {"kilometre", 0}},
    {"cm", {"santimetre", 0}},
    {"mm", {"milimetre", 0}},
    {"m", {"metre", 0}},
    {"kg", {"kilogram", 0}},
    {"g", {"gram", 0}},
    {"ml", {"mililitre", 0}},
    {"l", {"litre", 0}},
    {"°c", {"santigrat derece", 0}},
    {"°", {"derece", 0}},
    {"hz", {"hertz", 0}},
    {"kw", {"kilovat", 0}},
    {"mb", {"megabayt", 0}},
    {"gb", {"gigabayt", 0}},
    {"dk", {"dakika", 0}},
    {NULL, {NULL, 0}},
};

static const td_lang_money tr_money[] = {
    {"₺ tl try", {"lira", 0}, {"kuruş", 0}},
    {"$ us$ usd", {"dolar", 0}, {"sent", 0}},
    {"€ eur", {"avro", 0}, {"sent", 0}},
    {"£ gbp", {"sterlin", 0}, {"peni", 0}},
    {NULL, {NULL, 0}, {NULL, 0}},
};

static const td_lang_ordinal tr_suffix_ordinals[] = {
    {"'inci", "%spellout-ordinal"},
    {"'ıncı", "%spellout-ordinal"},
    {"'uncu", "%spellout-ordinal"},
    {"'üncü", "%spellout-ordinal"},
    {"'nci", "%spellout-ordinal"},
    {"'ncı", "%spellout-ordinal"},
    {"inci", "%spellout-ordinal"},
    {"ıncı", "%spellout-ordinal"},
    {"uncu", "%spellout-ordinal"},
    {"üncü", "%spellout-ordinal"},
    {"nci", "%spellout-ordinal"},
    {"ncı", "%spellout-ordinal"},
    {NULL, NULL},
};

static const td_lang_ordinal tr_dot_ordinals[] = {{"*", "%spellout-ordinal"}, {NULL, NULL}};

const td_lang_rules td_lang_tr = {
    .decimal = ',',
    .months = "ocak şubat mart nisan mayıs haziran temmuz ağustos eylül ekim kasım aralık",
    .point = "virgül",
    .minus = "eksi",
    .range = "ila",
    .over = "bölü",
    .percent_before = "yüzde",
    .money_joint = "",
    .scales = "bin milyon milyar",
    .clock = "{h} {m}",
    .clock_hour = "{h}",
    .suffix_ordinals = tr_suffix_ordinals,
    .dot_ordinals = tr_dot_ordinals,
    .words = tr_words,
    .units = tr_units,
    .money = tr_money,
};

static const td_lang_word hu_words[] = {
    {"dr.", "doktor", TD_WHEN_ALWAYS},
    {"prof.", "professzor", TD_WHEN_ALWAYS},
    {"özv.", "özvegy", TD_WHEN_ALWAYS},
    {"ifj.", "ifjabb", TD_WHEN_ALWAYS},
    {"pl.", "például", TD_WHEN_ALWAYS},
    {"stb.", "satöbbi", TD_WHEN_ALWAYS},
    {"ill.", "illetve", TD_WHEN_ALWAYS},
    {"kb.", "körülbelül", TD_WHEN_ALWAYS},
    {"ún.", "úgynevezett", TD_WHEN_ALWAYS},
    {"i.e.", "időszámításunk előtt", TD_WHEN_ALWAYS},
    {"u.", "utca", TD_WHEN_BEFORE_NUMBER},
    {"#", "kettőskereszt", TD_WHEN_ALWAYS},
    {"&", "és", TD_WHEN_ALWAYS},
    {"@", "kukac", TD_WHEN_ALWAYS},
    {"+", "plusz", TD_WHEN_ALWAYS},
    {"=", "egyenlő", TD_WHEN_ALWAYS},
    {"%", "százalék", TD_WHEN_ALWAYS},
    {"°", "fok", TD_WHEN_ALWAYS},
    {"§", "paragrafus", TD_WHEN_ALWAYS},
    {"×", "szor", TD_WHEN_ALWAYS},
    {NULL, NULL, TD_WHEN_ALWAYS},
};

static const td_lang_unit hu_units[] = {
    {"km/h", {"kilométer per óra", 0}},
    {"km2", {"négyzetkilométer", 0}},
    {"m2", {"négyzetméter", 0}},
    {"km", {"kilométer", 0}},
    {"cm", {"centiméter", 0}},
    {"mm", {"milliméter", 0}},
    {"m", {"méter", 0}},
    {"kg", {"kilogramm", 0}},
    {"dkg", {"dekagramm", 0}},
    {"g", {"gramm", 0}},
    {"ml", {"milliliter", 0}},
    {"dl", {"deciliter", 0}},
    {"l", {"liter", 0}},
    {"°c", {"celsius-fok", 0}},
    {"°", {"fok", 0}},
    {"hz", {"hertz", 0}},
    {"kw", {"kilowatt", 0}},
    {"mb", {"megabájt", 0}},
    {"gb", {"gigabájt", 0}},
    {"%", {"százalék", 0}},
    {NULL, {NULL, 0}},
};

static const td_lang_money hu_money[] = {
    {"ft huf", {"forint", 0}, {NULL, 0}},
    {"€ eur", {"euró", 0}, {"cent", 0}},
    {"$ us$ usd", {"dollár", 0}, {"cent", 0}},
    {"£ gbp", {"font", 0}, {"penny", 0}},
    {NULL, {NULL, 0}, {NULL, 0}},
};

static const td_lang_ordinal hu_suffix_ordinals[] = {
    {"-ik", "%spellout-ordinal"},
    {"-dik", "%spellout-ordinal"},
    {NULL, NULL},
};

static const td_lang_ordinal hu_dot_ordinals[] = {
    {"a", "%spellout-ordinal"},
    {"az", "%spellout-ordinal"},
    {"", "%spellout-ordinal"},
    {NULL, NULL},
};

const td_lang_rules td_lang_hu = {
    .decimal = ',',
    .space_groups = true,
    .numbers = "%spellout-cardinal",
    .months =
        "január február március április május június július augusztus szeptember október november december",
    .point = "egész",
    .minus = "mínusz",
    .over = "per",
    .money_joint = "",
    .scales = "ezer millió milliárd",
    .clock = "{h} óra {m} perc",
    .clock_hour = "{h} óra",
    .clock_tail = "óra",
    .suffix_ordinals = hu_suffix_ordinals,
    .dot_ordinals = hu_dot_ordinals,
    .words = hu_words,
    .units = hu_units,
    .money = hu_money,
};

static const td_lang_word ar_words[] = {
    {"د.", "دكتور", TD_WHEN_ALWAYS},
    {"أ.د.", "أستاذ دكتور", TD_WHEN_ALWAYS},
    {"ص.", "صفحة", TD_WHEN_BEFORE_NUMBER},
    {"ق.م.", "قبل الميلاد", TD_WHEN_ALWAYS},
    {"إلخ.", "إلى آخره", TD_WHEN_ALWAYS},
    {"#", "رقم", TD_WHEN_ALWAYS},
    {"&", "و", TD_WHEN_ALWAYS},
    {"@", "آت", TD_WHEN_ALWAYS},
    {"+", "زائد", TD_WHEN_ALWAYS},
    {"=", "يساوي", TD_WHEN_ALWAYS},
    {"%", "بالمائة", TD_WHEN_ALWAYS},
    {"°", "درجة", TD_WHEN_ALWAYS},
    {"×", "ضرب", TD_WHEN_ALWAYS},
    {NULL, NULL, TD_WHEN_ALWAYS},
};

static const td_lang_unit ar_units[] = {
    {"كم/س", {"كيلومتر في الساعة", 'm'}},
    {"كم", {"كيلومتر", 'm'}},
    {"سم", {"سنتيمتر", 'm'}},
    {"كغ", {"كيلوغرام", 'm'}},
    {"كجم", {"كيلوغرام", 'm'}},
    {"km/h", {"كيلومتر في الساعة", 'm'}},
    {"km", {"كيلومتر", 'm'}},
    {"cm", {"سنتيمتر", 'm'}},
    {"m", {"متر", 'm'}},
    {"kg", {"كيلوغرام", 'm'}},
    {"g", {"غرام", 'm'}},
    {"°c", {"درجة مئوية", 'f'}},
    {"°م", {"درجة مئوية", 'f'}},
    {"°", {"درجة", 'f'}},
    {"%", {"بالمائة", 0}},
    {NULL, {NULL, 0}},
};

static const td_lang_money ar_money[] = {
    {"$ us$ usd", {"دولار", 'm'}, {"سنت", 'm'}},
    {"€ eur", {"يورو", 'm'}, {"سنت", 'm'}},
    {"£ gbp", {"جنيه", 'm'}, {"بنس", 'm'}},
    {NULL, {NULL, 0}, {NULL, 0}},
};

const td_lang_rules td_lang_ar = {
    .decimal = '.',
    .masculine = "%spellout-cardinal-masculine",
    .feminine = "%spellout-cardinal-feminine",
    .months = "يناير فبراير مارس أبريل مايو يونيو يوليو أغسطس سبتمبر أكتوبر نوفمبر ديسمبر",
    .point = "فاصلة",
    .minus = "ناقص",
    .range = "إلى",
    .over = "على",
    .money_joint = "و",
    .scales = "ألف مليون مليار",
    .clock = "{h} و {m} دقيقة",
    .clock_hour = "{h}",
    .clock_ruleset = "%spellout-ordinal-feminine",
    .words = ar_words,
    .units = ar_units,
    .money = ar_money,
};
