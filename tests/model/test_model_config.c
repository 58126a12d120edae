/* Keys and presets of models: values there and back as text, what is refused and how, sizes of the presets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "model/model.h"

static const char *const names[] = {"pico", "nano", "tiny", "small", "base", "big"};

static td_model_config preset(const char *name, td_strategy strategy)
{
    td_model_config c;
    assert_int_equal(td_model_preset(name, strategy, &c), TD_OK);
    return c;
}

static void test_presets(void **state)
{
    (void)state;
    for (size_t i = 0; i < 6; i++) {
        for (int s = 0; s < TD_STRATEGIES; s++) {
            const td_model_config c = preset(names[i], (td_strategy)s);
            uint64_t n = 0;
            assert_int_equal(td_model_config_check(&c), TD_OK);
            assert_int_equal(td_model_count(&c, &n), TD_OK);
            if (i == 0) assert_in_range(n, 20000, 99999);
            if (i > 1) assert_in_range(n, 10000000, 5000000000);
        }
    }
    td_model_config nano = preset("nano", TD_NON_AUTOREGRESSIVE);
    uint64_t n = 0;
    nano.n_symbols = 30;
    assert_int_equal(td_model_count(&nano, &n), TD_OK);
    assert_int_equal(n, 1308961); /* of the conv-only recipe */
    const td_model_config normal = preset("normal", TD_NON_AUTOREGRESSIVE);
    const td_model_config base = preset("base", TD_NON_AUTOREGRESSIVE);
    assert_int_equal(td_model_config_differ(&normal, &base), td_model_key_count());
    td_model_config c;
    assert_int_equal(td_model_preset("huge", TD_NON_AUTOREGRESSIVE, &c), TD_ERR_CONFIG);
    assert_non_null(strstr(td_error_last()->message, "pico"));
}

static void test_text(void **state)
{
    (void)state;
    const td_model_config from = preset("tiny", TD_AUTOREGRESSIVE);
    td_model_config to = preset("pico", TD_NON_AUTOREGRESSIVE);
    for (size_t i = 0; i < td_model_key_count(); i++) {
        char value[TD_MODEL_VALUE_BYTES];
        td_model_config_get(&from, i, value);
        assert_int_equal(td_model_config_put(&to, td_model_key_name(i), value), TD_OK);
        assert_true(strlen(td_model_key_help(i)) > 5);
    }
    assert_memory_equal(&from, &to, sizeof from);
    to.dropout = 0.3f; /* no matter for parameters */
    assert_int_equal(td_model_config_differ(&from, &to), td_model_key_count());
    to.text_layers++;
    assert_string_equal(td_model_key_name(td_model_config_differ(&from, &to)), "text_layers");
}

static void refuse(td_model_config *c, const char *key, const char *value, const char *word)
{
    assert_int_equal(td_model_config_put(c, key, value), TD_ERR_CONFIG);
    assert_non_null(strstr(td_error_last()->message, word));
}

static void test_refusals(void **state)
{
    (void)state;
    td_model_config c = preset("pico", TD_NON_AUTOREGRESSIVE);
    refuse(&c, "text_widht", "64", "text_width");
    refuse(&c, "text_width", "wide", "wide");
    refuse(&c, "text_width", "4", "from 8");
    refuse(&c, "pitch_predictor", "yes", "true or false");
    refuse(&c, "decoder_strategy", "both", "autoregressive");
    refuse(&c, "dropout", "1.5", "dropout");
    c.text_heads = 3;
    assert_int_equal(td_model_config_check(&c), TD_ERR_CONFIG);
    assert_non_null(strstr(td_error_last()->message, "text_heads"));
    c.text_heads = 1;
    c.kernel = 4;
    assert_int_equal(td_model_config_check(&c), TD_ERR_CONFIG);
    c.kernel = 3;
    c.decoder_strategy = TD_AUTOREGRESSIVE;
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
