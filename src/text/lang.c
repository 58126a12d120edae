/* The list of languages: codes and their tables (lang.h). */
#include "text/lang.h"

#include <string.h>
#include <strings.h>

#include "base/error.h"

static const struct {
    const char *code;
    const td_lang_rules *rules;
} languages[] = {
#define TD_LANG_ROW(name, code) [TD_LANG_##name] = {#code, &td_lang_##code},
    TD_LANG_LIST(TD_LANG_ROW)
#undef TD_LANG_ROW
};

const char *td_lang_code(td_lang lang)
{
    return languages[lang].code;
}

const td_lang_rules *td_lang_get_rules(td_lang lang)
{
    return languages[lang].rules;
}

td_status td_lang_parse(const char *text, td_lang *out)
{
    size_t bytes = strcspn(text, "-_");
    for (int i = 0; i < TD_LANG_COUNT; ++i) {
        if (strlen(languages[i].code) == bytes && strncasecmp(text, languages[i].code, bytes) == 0) {
            *out = (td_lang)i;
            return TD_OK;
        }
    }
#define TD_LANG_NAME(name, code) " " #code
    return TD_FAIL(TD_ERR_CONFIG, "'%s' is not a known language: use one of" TD_LANG_LIST(TD_LANG_NAME),
                   text);
#undef TD_LANG_NAME
}
