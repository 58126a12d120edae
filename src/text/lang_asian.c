/* Chinese, Japanese, Korean and Hindi: the words the normaliser says (lang.h). Data only. */
#include "text/lang.h"

static const td_lang_word zh_words[] = {
    {"#", "井号", TD_WHEN_ALWAYS}, {"&", "和", TD_WHEN_ALWAYS},   {"@", "艾特", TD_WHEN_ALWAYS},
    {"+", "加", TD_WHEN_ALWAYS},   {"=", "等于", TD_WHEN_ALWAYS}, {"%", "百分号", TD_WHEN_ALWAYS},
    {"°", "度", TD_WHEN_ALWAYS},   {"×", "乘", TD_WHEN_ALWAYS},   {NULL, NULL, TD_WHEN_ALWAYS},
};

static const td_lang_unit zh_units[] = {
    {"km/h", {"公里每小时", 0}}, {"km2", {"平方公里", 0}}, {"m2", {"平方米", 0}}, {"km", {"公里", 0}},
    {"cm", {"厘米", 0}},         {"mm", {"毫米", 0}},      {"m", {"米", 0}},      {"kg", {"公斤", 0}},
    {"mg", {"毫克", 0}},         {"g", {"克", 0}},         {"ml", {"毫升", 0}},   {"l", {"升", 0}},
    {"°c", {"摄氏度", 0}},       {"°f", {"华氏度", 0}},    {"°", {"度", 0}},      {"hz", {"赫兹", 0}},
    {"kw", {"千瓦", 0}},         {"mb", {"兆字节", 0}},    {"gb", {"吉字节", 0}}, {NULL, {NULL, 0}},
};

static const td_lang_money zh_money[] = {
    {"¥ rmb cny", {"元", 0}, {NULL, 0}}, {"$ us$ usd", {"美元", 0}, {NULL, 0}},
    {"€ eur", {"欧元", 0}, {NULL, 0}},   {"£ gbp", {"英镑", 0}, {NULL, 0}},
    {NULL, {NULL, 0}, {NULL, 0}},
};

static const td_lang_ordinal zh_years_after[] = {{"年", "%spellout-numbering-year"}, {NULL, NULL}};

const td_lang_rules td_lang_zh = {
    .decimal = '.',
    .joined = true,
    .numbers = "%spellout-cardinal",
    .year = "%spellout-numbering-year",
    .years_after = zh_years_after,
    .point = "点",
    .minus = "负",
    .range = "到",
    .over = "比",
    .percent_before = "百分之",
    .money_joint = "",
    .scales = "万 亿",
    .clock = "{h}点{m}分",
    .clock_hour = "{h}点",
    .words = zh_words,
    .units = zh_units,
    .money = zh_money,
};

static const td_lang_word ja_words[] = {
    {"#", "シャープ", TD_WHEN_ALWAYS}, {"&", "アンド", TD_WHEN_ALWAYS},   {"@", "アット", TD_WHEN_ALWAYS},
    {"+", "プラス", TD_WHEN_ALWAYS},   {"=", "イコール", TD_WHEN_ALWAYS}, {"%", "パーセント", TD_WHEN_ALWAYS},
    {"°", "度", TD_WHEN_ALWAYS},       {"×", "かける", TD_WHEN_ALWAYS},   {NULL, NULL, TD_WHEN_ALWAYS},
};

static const td_lang_unit ja_units[] = {
    {"km/h", {"キロメートル毎時", 0}},
    {"km2", {"平方キロメートル", 0}},
    {"m2", {"平方メートル", 0}},
    {"km", {"キロメートル", 0}},
    {"cm", {"センチメートル", 0}},
    {"mm", {"ミリメートル", 0}},
    {"m", {"メートル", 0}},
    {"kg", {"キログラム", 0}},
    {"mg", {"ミリグラム", 0}},
    {"g", {"グラム", 0}},
    {"ml", {"ミリリットル", 0}},
    {"l", {"リットル", 0}},
    {"°c", {"度", 0}},
    {"°", {"度", 0}},
    {"hz", {"ヘルツ", 0}},
    {"kw", {"キロワット", 0}},
    {"mb", {"メガバイト", 0}},
    {"gb", {"ギガバイト", 0}},
    {"%", {"パーセント", 0}},
    {NULL, {NULL, 0}},
};

static const td_lang_money ja_money[] = {
    {"¥ jpy", {"円", 0}, {NULL, 0}},
    {"$ us$ usd", {"ドル", 0}, {"セント", 0}},
    {"€ eur", {"ユーロ", 0}, {"セント", 0}},
    {"£ gbp", {"ポンド", 0}, {"ペンス", 0}},
    {NULL, {NULL, 0}, {NULL, 0}},
};

const td_lang_rules td_lang_ja = {
    .decimal = '.',
    .joined = true,
    .point = "点",
    .minus = "マイナス",
    .range = "から",
    .over = "対",
    .money_joint = "",
    .scales = "万 億",
    .clock = "{h}時{m}分",
    .clock_hour = "{h}時",
    .words = ja_words,
    .units = ja_units,
    .money = ja_money,
};

static const td_lang_word ko_words[] = {
    {"#", "샵", TD_WHEN_ALWAYS},     {"&", "앤드", TD_WHEN_ALWAYS},   {"@", "골뱅이", TD_WHEN_ALWAYS},
    {"+", "플러스", TD_WHEN_ALWAYS}, {"=", "는", TD_WHEN_ALWAYS},     {"%", "퍼센트", TD_WHEN_ALWAYS},
    {"°", "도", TD_WHEN_ALWAYS},     {"×", "곱하기", TD_WHEN_ALWAYS}, {NULL, NULL, TD_WHEN_ALWAYS},
};

static const td_lang_unit ko_units[] = {
    {"km/h", {"킬로미터 매 시", 0}},
    {"km2", {"제곱킬로미터", 0}},
    {"m2", {"제곱미터", 0}},
    {"km", {"킬로미터", 0}},
    {"cm", {"센티미터", 0}},
    {"mm", {"밀리미터", 0}},
    {"m", {"미터", 0}},
    {"kg", {"킬로그램", 0}},
    {"mg", {"밀리그램", 0}},
    {"g", {"그램", 0}},
    {"ml", {"밀리리터", 0}},
    {"l", {"리터", 0}},
    {"°c", {"도", 0}},
    {"°", {"도", 0}},
    {"hz", {"헤르츠", 0}},
    {"kw", {"킬로와트", 0}},
    {"mb", {"메가바이트", 0}},
    {"gb", {"기가바이트", 0}},
    {"%", {"퍼센트", 0}},
    {NULL, {NULL, 0}},
};

static const td_lang_money ko_money[] = {
    {"₩ krw", {"원", 0}, {NULL, 0}},     {"$ us$ usd", {"달러", 0}, {"센트", 0}},
    {"€ eur", {"유로", 0}, {"센트", 0}}, {"£ gbp", {"파운드", 0}, {"펜스", 0}},
    {"¥ jpy", {"엔", 0}, {NULL, 0}},     {NULL, {NULL, 0}, {NULL, 0}},
};

static const td_lang_ordinal ko_suffix_ordinals[] = {
    {"번째", "%spellout-ordinal-native-count"},
    {NULL, NULL},
};

const td_lang_rules td_lang_ko = {
    .decimal = '.',
    .joined = true,
    .point = "점",
    .minus = "마이너스",
    .range = "에서",
    .over = "대",
    .money_joint = " ",
    .scales = "만 억",
    .clock = "{h} 시 {m} 분",
    .clock_hour = "{h} 시",
    .clock_ruleset = "%spellout-cardinal-native-attributive",
    .clock_tail = "시",
    .suffix_ordinals = ko_suffix_ordinals,
    .words = ko_words,
    .units = ko_units,
    .money = ko_money,
};

static const td_lang_word hi_words[] = {
    {"डॉ.", "डॉक्टर", TD_WHEN_ALWAYS},    {"प्रो.", "प्रोफ़ेसर", TD_WHEN_ALWAYS},
    {"पं.", "पंडित", TD_WHEN_ALWAYS},      {"कु.", "कुमारी", TD_WHEN_ALWAYS},
    {"ई.पू.", "ईसा पूर्व", TD_WHEN_ALWAYS}, {"रु.", "रुपये", TD_WHEN_AFTER_NUMBER},
    {"#", "हैश", TD_WHEN_ALWAYS},         {"&", "और", TD_WHEN_ALWAYS},
    {"@", "ऐट", TD_WHEN_ALWAYS},         {"+", "जमा", TD_WHEN_ALWAYS},
    {"=", "बराबर", TD_WHEN_ALWAYS},      {"%", "प्रतिशत", TD_WHEN_ALWAYS},
    {"°", "डिग्री", TD_WHEN_ALWAYS},      {"×", "गुणा", TD_WHEN_ALWAYS},
    {NULL, NULL, TD_WHEN_ALWAYS},
};

static const td_lang_unit hi_units[] = {
    {"किमी/घंटा", {"किलोमीटर प्रति घंटा", 0}},
    {"किमी", {"किलोमीटर", 0}},
    {"सेमी", {"सेंटीमीटर", 0}},
    {"किग्रा", {"किलोग्राम", 0}},
    {"km/h", {"किलोमीटर प्रति घंटा", 0}},
    {"km", {"किलोमीटर", 0}},
    {"cm", {"सेंटीमीटर", 0}},
    {"mm", {"मिलीमीटर", 0}},
    {"m", {"मीटर", 0}},
    {"kg", {"किलोग्राम", 0}},
    {"g", {"ग्राम", 0}},
    {"ml", {"मिलीलीटर", 0}},
    {"l", {"लीटर", 0}},
    {"°c", {"डिग्री सेल्सियस", 0}},
    {"°", {"डिग्री", 0}},
    {"%", {"प्रतिशत", 0}},
    {NULL, {NULL, 0}},
};

static const td_lang_money hi_money[] = {
    {"₹ inr", {"रुपया|रुपये", 0}, {"पैसा|पैसे", 0}},
    {"$ us$ usd", {"डॉलर", 0}, {"सेंट", 0}},
    {"€ eur", {"यूरो", 0}, {"सेंट", 0}},
    {"£ gbp", {"पाउंड", 0}, {"पेंस", 0}},
    {NULL, {NULL, 0}, {NULL, 0}},
};

static const td_lang_ordinal hi_suffix_ordinals[] = {
    {"वां", "%spellout-ordinal-masculine"}, {"वाँ", "%spellout-ordinal-masculine"},
    {"ला", "%spellout-ordinal-masculine"}, {"रा", "%spellout-ordinal-masculine"},
    {"वीं", "%spellout-ordinal-feminine"},  {"ली", "%spellout-ordinal-feminine"},
    {"री", "%spellout-ordinal-feminine"},  {NULL, NULL},
};

const td_lang_rules td_lang_hi = {
    .decimal = '.',
    .indian_groups = true,
    .months = "जनवरी फरवरी मार्च अप्रैल मई जून जुलाई अगस्त सितंबर अक्टूबर नवंबर दिसंबर",
    .point = "दशमलव",
    .minus = "ऋण",
    .range = "से",
    .over = "बटा",
    .money_joint = "",
    .scales = "हज़ार लाख करोड़",
    .clock = "{h} बजकर {m} मिनट",
    .clock_hour = "{h} बजे",
    .clock_tail = "बजे",
    .suffix_ordinals = hi_suffix_ordinals,
    .words = hi_words,
    .units = hi_units,
    .money = hi_money,
};
