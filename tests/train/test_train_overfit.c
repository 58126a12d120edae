/* When a run is told that it learns its rows by heart: by curves of losses, and at a run that does. */
#include "families/run.h"

#include "train/overfit.h"

/* Validations until it was told, of two losses each; 0: never. */
static int count_until_told(const double (*curve)[2], int n)
{
    td_overfit o = {0};
    int told = 0;
    for (int i = 0; i < n; ++i) {
        td_overfit_learn(&o, curve[i][0] - 0.5);
        td_overfit_learn(&o, curve[i][0] + 0.5);
        if (!td_overfit_judge(&o, curve[i][1])) continue;
        assert_int_equal(told, 0); /* once */
        told = i + 1;
    }
    return told;
}

#define COUNT(curve) count_until_told(curve, (int)(sizeof(curve) / sizeof *(curve)))

static void test_curves(void **state)
{
    (void)state;
    const double by_heart[][2] = {{5, 5}, {4, 4}, {3, 4.1}, {2, 4.2}, {1, 4.4}, {0.9, 5}, {0.8, 6}};
    assert_int_equal(COUNT(by_heart), 5);
    const double better_between[][2] = {{5, 5}, {4, 4}, {3, 4.1}, {2, 4.2}, {1.5, 3.9}, {1, 4.2}, {0.9, 4.3}};
    assert_int_equal(COUNT(better_between), 0);
    const double falling[][2] = {{5, 5}, {4, 4}, {3, 3}, {2, 2}, {1, 1.5}, {0.9, 1.4}};
    assert_int_equal(COUNT(falling), 0);
    const double away[][2] = {{5, 5}, {4, 4}, {4.5, 5}, {5, 6}, {6, 7}, {7, 8}}; /* training rises too */
    assert_int_equal(COUNT(away), 0);
    const double level[][2] = {{5, 5}, {4, 4}, {3, 4.01}, {2, 4.02}, {1, 4.01}, {0.9, 4.02}};
    assert_int_equal(COUNT(level), 0);
    const double no_number[][2] = {{5, 5}, {4, NAN}, {3, NAN}, {2, NAN}, {1, NAN}, {0.9, NAN}};
    assert_int_equal(COUNT(no_number), 0);
}

typedef struct warned {
    size_t count;
    char text[512];
} warned;

static void keep_warning(void *context, const td_train_event *event)
{
    warned *kept = context;
    if (event->kind != TD_TRAIN_WARNING || strstr(event->text, "by heart") == NULL) return;
    ++kept->count;
    snprintf(kept->text, sizeof kept->text, "%s", event->text);
}

/* Noise that is kept back cannot be learnt from the noise that trains. */
static void test_a_run_is_told(void **state)
{
    (void)state;
    warned kept = {0};
    td_train_settings s = run_settings("parallel", "by_heart", 400);
    s.val_every = 10;
    s.save_every = 0;
    s.schedule.lr = 2e-2;
    s.tell = keep_warning;
    s.context = &kept;
    const td_train_result result = run_train(&s);
    assert_int_equal(kept.count, 1);
    assert_non_null(strstr(kept.text, "best.safetensors"));
    assert_true(result.step == 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_curves),
        cmocka_unit_test_setup_teardown(test_a_run_is_told, run_set_up, temp_dir_remove),
    };
    return cmocka_run_group_tests(tests, run_open, run_close);
}
