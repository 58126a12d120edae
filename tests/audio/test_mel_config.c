/* Settings of the front end: text and back, and every value that cannot be. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void test_text(void **state)
{
    td_mel_config config = td_mel_config_default(), again;
    char text[TD_MEL_CONFIG_TEXT_BYTES], second[TD_MEL_CONFIG_TEXT_BYTES];
    (void)state;
    config.fmin_hz = 0.1f;
    config.floor = 1.0f / 3;
    config.mel_scale = TD_MEL_HTK;
    config.area_norm = false;
    config.power = true;
    td_mel_config_format(&config, text);
    check(td_mel_config_parse(text, &again));
    td_mel_config_format(&again, second);
    assert_string_equal(text, second);
    assert_true(again.fmin_hz == config.fmin_hz && again.floor == config.floor &&
                again.scale == config.scale);
    assert_true(again.mel_scale == TD_MEL_HTK && !again.area_norm && again.power);
}

/* `change` in place of the line that has its key. */
static void refuse_change(const char *change, const char *word)
{
    const td_mel_config config = td_mel_config_default();
    char text[TD_MEL_CONFIG_TEXT_BYTES], changed[2 * TD_MEL_CONFIG_TEXT_BYTES], key[64];
    td_mel_config out = {.rate = 5};
    td_mel_config_format(&config, text);
    snprintf(key, sizeof key, "%.*s=", (int)strcspn(change, "="), change);
    const char *at = strstr(text, key);
    assert_non_null(at);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, change, at + strcspn(at, "\n"));
    refuse(TD_ERR_CONFIG, word, td_mel_config_parse(changed, &out));
    assert_int_equal(out.rate, 5);
}

static void test_refused(void **state)
{
    (void)state;
    refuse_change("rate=0", "rate");
    refuse_change("rate=99999999999", "too large");
    refuse_change("n_fft=1000", "512, 1024 or 2048");
    refuse_change("hop_samples=0", "hop_samples");
    refuse_change("hop_samples=2000", "hop_samples");
    refuse_change("win_samples=1025", "win_samples");
    refuse_change("n_mels=129", "n_mels");
    refuse_change("fmax_hz=12000", "fmax_hz");
    refuse_change("fmin_hz=9000", "fmin_hz");
    refuse_change("fmin_hz=nan", "line 6");
    refuse_change("mel_scale=bark", "slaney");
    refuse_change("power=yes", "true");
    refuse_change("floor=0", "floor");
    refuse_change("scale=0", "scale");
    refuse_change("pitch_min_hz=20", "pitch");
    refuse_change("mean=", "line 12");
    refuse_change("mean=1\nmean=1", "twice");
    refuse_change("mean=1\nnone=1", "unknown key");
    refuse_change("mean=1\nnothing", "key=value");
}

static void test_missing(void **state)
{
    td_mel_config out;
    (void)state;
    assert_int_equal(td_mel_config_parse("rate=22050\n", &out), TD_ERR_CONFIG);
    assert_non_null(strstr(td_error_last()->message, "n_fft is missing"));
}

static void test_numbers(void **state)
{
    const td_mel_config config = td_mel_config_default();
    (void)state;
    assert_int_equal(td_mel_frames(&config, 0), 0);
    assert_int_equal(td_mel_frames(&config, 1), 1);
    assert_int_equal(td_mel_frames(&config, 255), 1);
    assert_int_equal(td_mel_frames(&config, 256), 2);
    assert_true(fabsf(td_mel_pad_value(&config) + 1.971f) < 1e-3f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_text), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_missing), cmocka_unit_test(test_numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
