/* Which sentences of a text that is still coming can be spoken already. */
#include <string.h>

#include "serve/wyoming.h"
#include "support/expect.h"

static void test_whole_sentences(void **state)
{
    static const struct {
        const char *text, *whole;
    } CASES[] = {
        {"", ""},
        {"Good morning", ""},
        {"Good morning.", ""}, /* it may go on: "morning.com" */
        {"Good morning. ", "Good morning."},
        {"Good morning.\nHow are you? I am", "Good morning.\nHow are you?"},
        {"I saw Dr. Smith", ""},
        {"It is 3.5 metres. Or", "It is 3.5 metres."},
        {"Go! e.g. now", "Go!"},
        {"Das war sch\u00f6n. Und", "Das war sch\u00f6n."},
        {"\u0441\u0442\u0440. 5", ""}, /* an abbreviation of three letters in six bytes */
        {"\u4f60\u597d\u3002\u6211", "\u4f60\u597d\u3002"},
        {"<speak>Good morning. And", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const size_t bytes = strlen(CASES[i].text);
        const size_t whole = td_wyoming_count_whole(CASES[i].text, bytes);
        if (whole != strlen(CASES[i].whole)) fail_msg("'%s': %zu bytes", CASES[i].text, whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_whole_sentences)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
