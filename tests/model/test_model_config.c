/* Keys and presets of models: values there and back as text, what is refused and how, sizes of the presets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "families/acoustic.h"

static const char *const names[] = {"pico", "nano", "tiny", "small", "base", "big"};

static const td_family *parallel(void)
{
    return td_family_find("parallel");
}

static td_model_config preset(const char *name, const td_family *family)
{
    td_model_config c;
    assert_int_equal(td_model_preset(family, name, &c), TD_OK);
    return c;
}

static void test_presets(void **state)
{
    (void)state;
    for (size_t i = 0; i < 6; i++) {
        for (size_t f = 0; f < 2; f++) {
            const td_model_config c = preset(names[i], td_family_at(f));
            uint64_t n = 0;
            assert_int_equal(td_model_config_check(&c), TD_OK);
            assert_int_equal(td_family_parameters(&c, &n), TD_OK);
            if (i == 0) assert_in_range(n, 20000, 99999);
            if (i > 1) assert_in_range(n, 10000000, 5000000000);
        }
    }
    td_model_config nano = preset("nano", parallel());
    uint64_t n = 0;
    assert_int_equal(td_model_config_put(&nano, "n_symbols", "30"), TD_OK);
    assert_int_equal(td_family_parameters(&nano, &n), TD_OK);
    assert_int_equal(n, 1308961); /* of the conv-only recipe */
    const td_model_config normal = preset("normal", parallel());
    const td_model_config base = preset("base", parallel());
    assert_int_equal(td_model_config_differ(&normal, &base), base.family->n_keys);
    td_model_config c;
    assert_int_equal(td_model_preset(parallel(), "huge", &c), TD_ERR_CONFIG);
    assert_non_null(strstr(td_error_last()->message, "pico"));
}

static void test_text(void **state)
{
    (void)state;
    const td_model_config from = preset("tiny", td_family_find("autoregressive"));
    td_model_config to = preset("pico", from.family);
    for (size_t i = 0; i < from.family->n_keys; i++) {
        char value[TD_MODEL_VALUE_BYTES];
        td_model_config_get(&from, i, value);
        assert_int_equal(td_model_config_put(&to, from.family->keys[i].name, value), TD_OK);
        assert_true(strlen(from.family->keys[i].help) > 5);
    }
    char wanted[TD_MODEL_VALUE_BYTES], got[TD_MODEL_VALUE_BYTES];
    for (size_t i = 0; i < from.family->n_keys; i++) {
        td_model_config_get(&from, i, wanted);
        td_model_config_get(&to, i, got);
        assert_string_equal(got, wanted);
    }
    td_acoustic values = td_acoustic_get(&to);
    values.dropout = 0.3f; /* no matter for parameters */
    td_acoustic_put(&to, &values);
    assert_int_equal(td_model_config_differ(&from, &to), from.family->n_keys);
    values.text_layers++;
    td_acoustic_put(&to, &values);
    assert_string_equal(from.family->keys[td_model_config_differ(&from, &to)].name, "text_layers");
}

static void refuse(td_model_config *c, const char *key, const char *value, const char *word)
{
    assert_int_equal(td_model_config_put(c, key, value), TD_ERR_CONFIG);
    assert_non_null(strstr(td_error_last()->message, word));
}

static void test_refusals(void **state)
{
    (void)state;
    td_model_config c = preset("pico", parallel());
    refuse(&c, "text_widht", "64", "text_width");
    refuse(&c, "text_width", "wide", "wide");
    refuse(&c, "text_width", "4", "from 8");
    refuse(&c, "pitch_predictor", "yes", "true or false");
    refuse(&c, "mel_loss", "l3", "l1|mse|huber");
    refuse(&c, "reduction", "2", "family parallel");
    refuse(&c, "dropout", "1.5", "dropout");
    assert_int_equal(td_model_config_put(&c, "text_heads", "3"), TD_OK);
    assert_int_equal(td_model_config_check(&c), TD_ERR_CONFIG);
    assert_non_null(strstr(td_error_last()->message, "text_heads"));
    assert_int_equal(td_model_config_put(&c, "text_heads", "1"), TD_OK);
    assert_int_equal(td_model_config_put(&c, "kernel", "4"), TD_OK);
    assert_int_equal(td_model_config_check(&c), TD_ERR_CONFIG);
    assert_int_equal(td_model_config_put(&c, "kernel", "3"), TD_OK);
    c.family = td_family_find("autoregressive");
    assert_int_equal(td_model_config_check(&c), TD_ERR_CONFIG);
    assert_non_null(strstr(td_error_last()->message, "decoder_kernel"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_presets),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
