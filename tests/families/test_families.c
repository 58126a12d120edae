/* The list of families: what must hold of each table, and the rows that a program adds when it is linked. */
#include <stdlib.h>
#include <string.h>

#include "table.h"

#include "base/error.h"

/* ---------------------------------------------------------------- a family of this program */

typedef struct spare {
    uint32_t width;
} spare;

static td_status preset(const char *name, void *values)
{
    if (strcmp(name, "huge") == 0) return TD_FAIL(TD_ERR_CONFIG, "there is no preset huge; put pico");
    *(spare *)values = (spare){.width = 4};
    return TD_OK;
}

static td_tensor build(td_nn *nn, const td_build *build)
{
    const td_shape shape = td_dims(build->shape.items, build->shape.frames, 3);
    const td_tensor x = td_graph_input(nn->graph, "mel", shape, TD_F32);
    const td_tensor counts = td_graph_input(nn->graph, "frame_counts", td_dims(build->shape.items), TD_U32);
    return td_graph_loss(nn->graph, TD_LOSS_L1, td_nn_linear(nn, "out", x, 3), x, counts, 0);
}

static const td_model_key keys[] = {
    {.section = "model", .name = "width", .help = "channels", .type = TD_KEY_COUNT, .least = 1, .most = 64}};
static const td_learner_row learners[] = {{.name = "only"}};

static const td_family spare_family = {.name = "spare",
                                       .help = "for this test alone",
                                       .alias = "leftover",
                                       .keys = keys,
                                       .n_keys = 1,
                                       .learners = learners,
                                       .n_learners = 1,
                                       .preset = preset,
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_tables_hold),
        cmocka_unit_test(test_names_differ),
        cmocka_unit_test(test_a_program_adds_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
