/* References: of the same speaker, never the row itself where there is another, the same each time. */
#include "data/fixture.h"

#include "base/error.h"
#include "data/reference.h"

enum { N_ROWS = 40 };

static td_dataset *dataset;

/* Speakers a and b in turns, and one row of c. */
static int open_set(void **state)
{
    char text[4096];
    size_t used = 0;
    td_pool *pool = NULL;
    if (temp_dir_make(state) != 0) return -1;
    for (size_t i = 0; i < N_ROWS; ++i)
        used += (size_t)snprintf(text + used, sizeof text - used, "r%02zu|%c|word %c.\n", i,
                                 i == 7 ? 'c' : "ab"[i % 2], (char)('a' + i % 26));
    write_text(temp_path("metadata.csv"), text);
    const td_dataset_settings settings = {
        .dir = temp_dir, .language = "en", .table = {.columns = "id|speaker|text"}, .without_audio = true};
    if (td_pool_create(1, &pool) != TD_OK) return -1;
    const td_status status = td_dataset_open(&settings, pool, &dataset);
    if (status != TD_OK) print_message("%s\n", td_error_last()->message);
    td_pool_destroy(pool);
    return status == TD_OK ? 0 : -1;
}

static int close_set(void **state)
{
    td_dataset_close(dataset);
    return temp_dir_remove(state);
}

static td_references *open_references(void)
{
    td_references *r = NULL;
    assert_int_equal(td_references_create(dataset, dataset->train, dataset->n_train, &r), TD_OK);
    return r;
}

static void another_recording_of_the_speaker_is_taken(void **state)
{
    (void)state;
    td_references *r = open_references();
    unsigned seen[N_ROWS] = {0};
    assert_int_equal(dataset->n_train, N_ROWS);
    for (uint64_t epoch = 0; epoch < 200; ++epoch) {
        for (uint32_t row = 0; row < N_ROWS; ++row) {
            const td_reference got = td_reference_choose(r, 5, epoch, row);
            assert_int_equal(dataset->view.rows[got.row].speaker, dataset->view.rows[row].speaker);
            assert_int_equal(got.is_own, row == 7);
            assert_int_equal(got.row == row, row == 7);
            assert_true(got.place >= 0 && got.place < 1);
            ++seen[got.row];
        }
    }
    /* 200 each if all are drawn equally often */
    for (uint32_t row = 0; row < N_ROWS; ++row)
        assert_in_range(seen[row], 130, 270);
    td_references_destroy(r);
}

static void choice_depends_on_seed_epoch_and_row_alone(void **state)
{
    (void)state;
    td_references *r = open_references(), *again = open_references();
    size_t other_epoch = 0, other_seed = 0;
    for (uint32_t row = N_ROWS; row-- > 0;) {
        const td_reference a = td_reference_choose(r, 5, 3, row), b = td_reference_choose(again, 5, 3, row);
        assert_int_equal(a.row, b.row);
        assert_true(a.place == b.place);
        other_epoch += td_reference_choose(r, 5, 4, row).row != a.row;
        other_seed += td_reference_choose(r, 6, 3, row).row != a.row;
    }
    assert_true(other_epoch > N_ROWS / 2);
    assert_true(other_seed > N_ROWS / 2);
    td_references_destroy(r);
    td_references_destroy(again);
}

static void parts_lie_within_the_recording(void **state)
{
    (void)state;
    static const size_t SAMPLES[] = {1, 2, 3, 1000, 22050, 100000};
    size_t first, count;
    for (size_t i = 0; i < sizeof SAMPLES / sizeof SAMPLES[0]; ++i) {
        for (int own = 0; own < 2; ++own) {
            for (int place = 0; place <= 1; ++place) {
                const td_reference reference = {.is_own = own, .place = place ? 0x1.fffffep-1f : 0};
                td_reference_part(&reference, SAMPLES[i], 22050, &first, &count);
                assert_in_range(count, 1, 22050);
                assert_true(first + count <= SAMPLES[i]);
                assert_int_equal(place ? first + count : first, place ? SAMPLES[i] : 0);
                const size_t most = own ? (SAMPLES[i] + 1) / 2 : SAMPLES[i];
                assert_int_equal(count, most < 22050 ? most : 22050);
            }
        }
    }
}

static void a_row_that_is_not_listed_gets_its_own(void **state)
{
    (void)state;
    td_references *r = NULL;
    assert_int_equal(td_references_create(dataset, dataset->train, 4, &r), TD_OK);
    const td_reference got = td_reference_choose(r, 1, 1, 20);
    assert_true(got.is_own);
    assert_int_equal(got.row, 20);
    assert_in_range(td_reference_choose(r, 1, 1, 2).row, 0, 0);
    td_references_destroy(r);
    td_references_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_recording_of_the_speaker_is_taken),
        cmocka_unit_test(choice_depends_on_seed_epoch_and_row_alone),
        cmocka_unit_test(parts_lie_within_the_recording),
        cmocka_unit_test(a_row_that_is_not_listed_gets_its_own),
    };
    return cmocka_run_group_tests(tests, open_set, close_set);
}
