/* The small SSML: what parts a text has, and where a malformed one is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/ssml.h"

/* Each part as "text|rate|pause|end", one a line. */
static void expect(const char *text, const char *parts)
{
    td_ssml ssml;
    char got[1024] = "";
    assert_int_equal(td_ssml_read(text, strlen(text), &ssml), TD_OK);
    for (size_t i = 0; i < ssml.count; i++) {
        const td_ssml_part *p = &ssml.parts[i];
        const size_t used = strlen(got);
        snprintf(got + used, sizeof got - used, "%s|%g|%g|%d\n", p->text, p->rate, p->pause_s, (int)p->end);
    }
    assert_string_equal(got, parts);
    td_ssml_free(&ssml);
}

static void expect_ignored(const char *text, const char *ignored)
{
    td_ssml ssml;
    assert_int_equal(td_ssml_read(text, strlen(text), &ssml), TD_OK);
    assert_string_equal(ssml.ignored, ignored);
    td_ssml_free(&ssml);
}

static void refuse(const char *text, const char *place, const char *what)
{
    td_ssml ssml;
    assert_true(td_ssml_is(text, strlen(text)));
    assert_int_equal(td_ssml_read(text, strlen(text), &ssml), TD_ERR_FORMAT);
    if (!strstr(td_error_last()->message, what) || !strstr(td_error_last()->message, place))
        print_message("%s: %s\n", text, td_error_last()->message);
    assert_non_null(strstr(td_error_last()->message, place));
    assert_non_null(strstr(td_error_last()->message, what));
    assert_int_equal(ssml.count, 0);
}

static void test_what_is(void **state)
{
    static const char *const SSML[] = {"<speak>a</speak>", " \n<speak version=\"1.0\">", "<speak/>",
                                       "\xEF\xBB\xBF<?xml version=\"1.0\"?>\n<speak>"};
    static const char *const PLAIN[] = {
        "", "a <speak>b</speak>", "<speaker>", "< speak>", "<break/>", "<Speak>", "<?xml"};
    (void)state;
    for (size_t i = 0; i < sizeof SSML / sizeof SSML[0]; i++)
        assert_true(td_ssml_is(SSML[i], strlen(SSML[i])));
    for (size_t i = 0; i < sizeof PLAIN / sizeof PLAIN[0]; i++)
        assert_false(td_ssml_is(PLAIN[i], strlen(PLAIN[i])));
}

static void test_parts(void **state)
{
    (void)state;
    expect("<speak>one</speak>", "one|1|-1|0\n");
    expect("<speak>a<break time=\"300ms\"/>b<break time='1.5s'/></speak>\n", "a|1|0.3|0\nb|1|1.5|0\n");
    expect("<speak><break strength=\"strong\"/>a<break/><break time=\"1s\"/>b</speak>",
           "|1|0.5|0\na|1|1.2|0\nb|1|-1|0\n");
    expect("<speak>a <prosody rate=\"80%\">b <prosody rate=\"slow\">c</prosody></prosody> d</speak>",
           "a |1|-1|0\nb |0.8|-1|0\nc|0.6|-1|0\n d|1|-1|0\n");
    expect("<speak><prosody rate=\"1.2\">a</prosody><prosody rate=\"+50%\">b</prosody>"
           "<prosody rate=\"-50%\">c</prosody></speak>",
           "a|1.2|-1|0\nb|1.5|-1|0\nc|0.5|-1|0\n");
    expect("<speak><p>a</p><p><s>b</s><s>c</s></p></speak>", "a|1|-1|2\nb|1|-1|1\nc|1|-1|2\n");
    expect("<speak>a\n\n b<!-- <x> -->c<![CDATA[<d>]]></speak><!-- e -->", "a   bc<d>|1|-1|0\n");
    expect("<speak>&lt;&amp;&gt;&quot;&apos;&#228;&#x6F22;</speak>", "<&>\"'ä漢|1|-1|0\n");
    expect("<speak/>", "");
    expect("<speak> </speak>", "");
}

static void test_ignored(void **state)
{
    (void)state;
    expect("<speak>a<emphasis level=\"strong\">b</emphasis>c<mark name=\"x\"/></speak>", "abc|1|-1|0\n");
    expect_ignored(
        "<speak xml:lang=\"en\"><voice>b</voice> <voice/><prosody pitch=\"high\">c</prosody></speak>",
        "<voice>, <prosody pitch>");
    expect_ignored("<speak>a<break time=\"1s\" strength=\"weak\"/></speak>", "");
}

static void test_malformed(void **state)
{
    (void)state;
    refuse("<speak>a\nb <break time=\"3\"/></speak>", "line 2, column 16", "'3' is not a time");
    refuse("<speak><break time=\"61s\"/></speak>", "column 21", "at most 60s");
    refuse("<speak><break time=\"-1s\"/></speak>", "column 21", "not a time");
    refuse("<speak><break strength=\"big\"/></speak>", "column 25", "not a strength");
    refuse("<speak><prosody rate=\"quick\">a</prosody></speak>", "column 23", "'quick' is not a rate");
    refuse("<speak><prosody rate=\"900%\">a</prosody></speak>", "column 23", "a rate of 9");
    refuse("<speak><prosody rate=\"x-slow\"><prosody rate=\"x-slow\"><prosody rate=\"slow\">a", "column 69",
           "0.25");
    refuse("<speak>\xC3\xA4<b>c</d></speak>", "line 1, column 13", "</d> where </b> is due");
    refuse("<speak>a & b</speak>", "column 10", "&amp;");
    refuse("<speak>&nbsp;</speak>", "column 8", "'&nbsp;' is not known");
    refuse("<speak>&#0;</speak>", "column 8", "'&#0;' is not known");
    refuse("<speak>&#xD800;</speak>", "column 8", "is not known");
    refuse("<speak>3 < 4</speak>", "column 10", "&lt;");
    refuse("<speak>a", "column 2", "</speak> is missing");
    refuse("<speak>a<b", "column 10", "a '>' is missing");
    refuse("<speak><break time=3s/></speak>", "column 20", "not in quotes");
    refuse("<speak><break time/></speak>", "column 19", "has no value");
    refuse("<speak><break time=\"3s/></speak>", "column 21", "does not end");
    refuse("<speak>a</speak> b", "column 18", "behind </speak>");
    refuse("<speak><speak>a</speak></speak>", "column 8", "inside <speak>");
    refuse("<speak><!DOCTYPE a></speak>", "column 8", "DTD");
    refuse("<speak><!-- a</speak>", "column 8", "comment");
    refuse("<speak><![CDATA[ a</speak>", "column 8", "CDATA");
    refuse("<speak><a><a><a><a><a><a><a><a><a><a>b", "column 35", "more than 10");
    refuse("<speak>\xFF</speak>", "byte 7", "UTF-8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_is), cmocka_unit_test(test_parts),
                                       cmocka_unit_test(test_ignored), cmocka_unit_test(test_malformed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
