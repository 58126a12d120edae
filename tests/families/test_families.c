/* The list of families: what must hold of each table, the rows that a program adds when it is linked, and
 * graphs whose inputs nobody fills. */
#include "run.h"
#include "table.h"

#include "base/error.h"

/* ---------------------------------------------------------------- a family of this program */

typedef struct spare {
    uint32_t width;
} spare;

static void preset(uint32_t size, void *values)
{
    *(spare *)values = (spare){.width = 4 + size};
}

static td_tensor build(td_nn *nn, const td_build *build)
{
    const td_shape shape = td_dims(build->shape.items, build->shape.frames, 3);
    const spare *c = (const spare *)&build->config->values;
    if (c->width == 13) (void)td_graph_input(nn->graph, "luck", td_dims(1), TD_F32);
    const td_tensor x = td_graph_input(nn->graph, "mel", shape, TD_F32);
    const td_tensor counts = td_graph_input(nn->graph, "frame_counts", td_dims(build->shape.items), TD_U32);
    return td_graph_loss(nn->graph, TD_LOSS_L1, td_nn_linear(nn, "out", x, 3), x, counts, 0);
}

static void describe(const void *values, td_model_facts *out)
{
    (void)values;
    out->n_mels = 3;
}

static void fit(const td_data_facts *facts, const void *old, void *values)
{
    (void)facts, (void)old, (void)values;
}

static const td_model_key keys[] = {TD_MODEL_KEY(spare, COUNT, width, 1, 64, false, "channels")};
static const td_learner_row learners[] = {{.name = "only"}};

static const td_family spare_family = {.name = "spare",
                                       .help = "for this test alone",
                                       .alias = "leftover",
                                       .keys = keys,
                                       .n_keys = 1,
                                       .learners = learners,
                                       .n_learners = 1,
                                       .preset = preset,
                                       .describe = describe,
                                       .fit = fit,
                                       .build = build};

const td_family *const td_more_families[] = {&spare_family, NULL};

/* ---------------------------------------------------------------- tests */

static void test_all_tables_hold(void **state)
{
    (void)state;
    for (size_t i = 0; i < td_family_count(); i++) {
        print_message("%s\n", td_family_at(i)->name);
        check_table(td_family_at(i));
    }
}

static void test_names_differ(void **state)
{
    (void)state;
    for (size_t i = 0; i < td_family_count(); i++) {
        for (size_t j = 0; j < i; j++) {
            const td_family *a = td_family_at(i), *b = td_family_at(j);
            assert_string_not_equal(a->name, b->name);
            if (a->alias) assert_string_not_equal(a->alias, b->name);
            if (a->alias && b->alias) assert_string_not_equal(a->alias, b->alias);
        }
    }
    assert_null(td_family_find("no such family"));
}

/* The program's own come behind the library's. */
static void test_a_program_adds_its_own(void **state)
{
    (void)state;
    const size_t n = td_family_count();
    size_t own = 0;
#define FAMILY(name) own++;
#include "families/families.def"
#undef FAMILY
    assert_true(own > 0);
    assert_int_equal(n, own + 1);
    assert_ptr_equal(td_family_at(own), &spare_family);
    assert_ptr_equal(td_family_find("spare"), &spare_family);
    assert_ptr_equal(td_family_find("leftover"), &spare_family);
}

static void test_inputs_that_nobody_fills_are_refused(void **state)
{
    (void)state;
    td_train_result result;
    td_train_settings s = run_settings("spare", "run", 1);
    check(td_model_config_put(&s.model, "width", "13"));
    refuse(TD_ERR_ARGUMENT, "family spare|'luck'", td_train_run(run_rig.device, run_rig.device, &s, &result));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_tables_hold),
        cmocka_unit_test(test_names_differ),
        cmocka_unit_test(test_a_program_adds_its_own),
        cmocka_unit_test_setup_teardown(test_inputs_that_nobody_fills_are_refused, run_set_up,
                                        temp_dir_remove),
    };
    return cmocka_run_group_tests(tests, run_open, run_close);
}
