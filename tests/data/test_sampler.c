/* Batches: every row once, shapes that hold their rows, the same order after a restart. */
#include "data/fixture.h"

#include "base/rng.h"
#include "data/sampler.h"

enum { N_ROWS = 1000 };

static td_sampler_row rows[N_ROWS];

static void make_rows(void)
{
    for (uint32_t i = 0; i < N_ROWS; ++i)
        rows[i] = (td_sampler_row){.row = 3 * i,
                                   .frames = 100 + td_rng_u32(1, 1, i) % 700,
                                   .tokens = 10 + td_rng_u32(1, 2, i) % 150};
}

static td_sampler *open_sampler(td_sampler_settings settings, size_t n_rows)
{
    td_sampler *s = NULL;
    assert_int_equal(td_sampler_create(&settings, rows, n_rows, &s), TD_OK);
    return s;
}

static const td_sampler_settings USUAL = {
    .batch_size = 16, .n_buckets = 8, .round_frames = 32, .max_frames = 800, .max_tokens = 200, .seed = 7};

/* Walks one epoch; counts[i]: how often row 3 * i was fresh. Returns the number of batches. */
static size_t walk_epoch(td_sampler *s, unsigned counts[N_ROWS], uint32_t batch_size, size_t *n_short,
                         size_t *n_filled)
{
    const uint64_t epoch = td_sampler_get_state(s).epoch;
    const size_t n = td_sampler_batches_per_epoch(s);
    memset(counts, 0, N_ROWS * sizeof *counts);
    *n_short = *n_filled = 0;
    for (size_t i = 0; i < n; ++i) {
        td_batch_rows plan;
        uint32_t frames, tokens;
        td_sampler_next(s, &plan);
        assert_int_equal(plan.position, i);
        assert_true(plan.epoch == epoch || i == 0);
        assert_in_range(plan.count, 1, batch_size);
        *n_short += plan.count < batch_size;
        *n_filled += plan.count - plan.n_fresh;
        td_sampler_shape(s, plan.bucket, &frames, &tokens);
        assert_int_equal(frames, plan.frames);
        assert_int_equal(tokens, plan.tokens);
        for (uint32_t k = 0; k < plan.count; ++k) {
            const td_sampler_row *row = &rows[plan.rows[k] / 3];
            assert_in_range(row->frames, 1, plan.frames);
            assert_in_range(row->tokens, 1, plan.tokens);
            if (k < plan.n_fresh) ++counts[plan.rows[k] / 3];
        }
    }
    return n;
}

static void every_row_comes_once_in_an_epoch(void **state)
{
    (void)state;
    static const td_sampler_last POLICIES[] = {TD_LAST_FILL, TD_LAST_KEEP};
    unsigned counts[N_ROWS];
    for (size_t p = 0; p < 2; ++p) {
        td_sampler_settings settings = USUAL;
        size_t n_short, n_filled, once = 0;
        settings.last = POLICIES[p];
        td_sampler *s = open_sampler(settings, N_ROWS);
        const size_t n = walk_epoch(s, counts, 16, &n_short, &n_filled);
        for (size_t i = 0; i < N_ROWS; ++i) {
            assert_true(counts[i] <= 1);
            once += counts[i];
        }
        /* 1000 = 62 * 16 + 8 */
        assert_int_equal(n, 63);
        assert_int_equal(once, 1000);
        assert_int_equal(n_short, POLICIES[p] == TD_LAST_KEEP);
        assert_int_equal(n_filled, POLICIES[p] == TD_LAST_FILL ? 8 : 0);
        td_sampler_destroy(s);
    }
}

static void buckets_are_few_even_and_save_padding(void **state)
{
    (void)state;
    td_sampler_settings one = USUAL;
    uint64_t padded[2] = {0}, real = 0;
    one.n_buckets = 1;
    for (int k = 0; k < 2; ++k) {
        td_sampler *s = open_sampler(k == 0 ? one : USUAL, N_ROWS);
        if (k == 0) {
            uint32_t frames, tokens;
            assert_int_equal(td_sampler_shape_count(s), 1);
            td_sampler_shape(s, 0, &frames, &tokens);
            assert_int_equal(frames, 800);
            assert_int_equal(tokens, 200);
        } else {
            assert_int_equal(td_sampler_shape_count(s), 8);
        }
        for (size_t i = 0; i < td_sampler_batches_per_epoch(s); ++i) {
            td_batch_rows plan;
            td_sampler_next(s, &plan);
            padded[k] += (uint64_t)plan.frames * plan.count;
            for (uint32_t r = 0; r < plan.count && k == 1; ++r)
                real += rows[plan.rows[r] / 3].frames;
        }
        td_sampler_destroy(s);
    }
    assert_true((double)padded[1] < 1.2 * (double)real);
    assert_true((double)padded[0] > 1.5 * (double)real);
}

static uint64_t hash_batches(td_sampler *s, size_t n)
{
    uint64_t hash = 1469598103934665603U;
    for (size_t i = 0; i < n; ++i) {
        td_batch_rows plan;
        td_sampler_next(s, &plan);
        for (uint32_t k = 0; k < plan.count; ++k)
            hash = (hash ^ plan.rows[k]) * 1099511628211U;
        hash = (hash ^ plan.frames) * 1099511628211U;
    }
    return hash;
}

static void a_stored_state_goes_on_exactly(void **state)
{
    (void)state;
    static const size_t STOPS[] = {0, 1, 37, 62, 63, 64, 100, 126, 200};
    for (size_t i = 0; i < sizeof STOPS / sizeof STOPS[0]; ++i) {
        td_sampler *s = open_sampler(USUAL, N_ROWS);
        (void)hash_batches(s, STOPS[i]);
        const td_sampler_state stored = td_sampler_get_state(s);
        const uint64_t expected = hash_batches(s, 150);
        td_sampler_destroy(s);
        td_sampler *again = open_sampler(USUAL, N_ROWS);
        assert_int_equal(td_sampler_set_state(again, stored), TD_OK);
        assert_true(hash_batches(again, 150) == expected);
        td_sampler_destroy(again);
    }
}

static void seed_and_epoch_change_the_order_and_the_table_does_not(void **state)
{
    (void)state;
    td_sampler_settings other = USUAL;
    other.seed = 8;
    td_sampler *a = open_sampler(USUAL, N_ROWS), *b = open_sampler(other, N_ROWS);
    const uint64_t first = hash_batches(a, 63);
    assert_true(first != hash_batches(a, 63));
    assert_true(first != hash_batches(b, 63));
    td_sampler_destroy(a);
    td_sampler_destroy(b);
    td_sampler_row kept[N_ROWS];
    memcpy(kept, rows, sizeof kept);
    td_rng_shuffle(3, 3, rows, N_ROWS, sizeof rows[0]);
    td_sampler *c = open_sampler(USUAL, N_ROWS);
    assert_true(hash_batches(c, 63) == first);
    td_sampler_destroy(c);
    memcpy(rows, kept, sizeof kept);
}

/* What a batch has of a sum, times the batches of the sum. */
static float share_of(uint64_t own, uint64_t sum, uint32_t n)
{
    return (float)((double)own * n / (double)sum);
}

/* Samplers that share an order give together what one alone gives, each batch once, also where an epoch ends
 * in the middle of a group, and where their parts are unlike; each knows where all are when the group is done, and
 * what its batches weigh in it. */
static void parts_make_up_the_order_of_one(void **state)
{
    (void)state;
    enum { N_PARTS = 3, OF = 7, N_GROUPS = 40 }; /* 63 batches in an epoch */
    static const uint32_t COUNTS[N_PARTS] = {2, 1, 4};
    td_sampler *alone = open_sampler(USUAL, N_ROWS), *shared[N_PARTS];
    td_sampler_settings settings = USUAL;
    settings.frames_per_step = 5;
    for (uint32_t i = 0, first = 0; i < N_PARTS; first += COUNTS[i++]) {
        shared[i] = open_sampler(settings, N_ROWS);
        assert_int_equal(td_sampler_set_state(shared[i], (td_sampler_state){0, 5}), TD_OK);
        assert_int_equal(td_sampler_cut(shared[i], (td_sampler_part){first, COUNTS[i], OF}), TD_OK);
    }
    (void)hash_batches(alone, 5);
    for (uint32_t group = 0; group < N_GROUPS; ++group) {
        td_batch_rows one, parts[OF];
        uint64_t counts[TD_COUNT_KINDS][OF] = {{0}}, all[TD_COUNT_KINDS] = {0};
        for (uint32_t i = 0, k = 0; i < N_PARTS; ++i)
            for (uint32_t of_it = 0; of_it < COUNTS[i]; ++of_it, ++k) {
                td_sampler_next(alone, &one);
                td_sampler_next(shared[i], &parts[k]);
                assert_int_equal(parts[k].epoch, one.epoch);
                assert_int_equal(parts[k].position, one.position);
                assert_int_equal(parts[k].count, one.count);
                assert_memory_equal(parts[k].rows, one.rows, one.count * sizeof *one.rows);
                assert_true(one.shares[TD_COUNT_FRAMES] == 1 && one.shares[TD_COUNT_TOKENS] == 1);
                for (uint32_t r = 0; r < one.count; ++r) {
                    counts[TD_COUNT_FRAMES][k] += rows[one.rows[r] / 3].frames;
                    counts[TD_COUNT_TOKENS][k] += rows[one.rows[r] / 3].tokens;
                    counts[TD_COUNT_STEPS][k] += (rows[one.rows[r] / 3].frames + 4) / 5;
                }
                for (int kind = 0; kind < TD_COUNT_KINDS; ++kind)
                    all[kind] += counts[kind][k];
            }
        for (uint32_t k = 0; k < OF; ++k) {
            assert_memory_equal(&parts[k].after, &one.after, sizeof one.after);
            for (int kind = 0; kind < TD_COUNT_KINDS; ++kind)
                assert_true(parts[k].shares[kind] == share_of(counts[kind][k], all[kind], OF));
        }
        if (group == 20) /* from a stored state too */
            for (uint32_t i = 0; i < N_PARTS; ++i)
                assert_int_equal(td_sampler_set_state(shared[i], one.after), TD_OK);
    }
    assert_int_equal(td_sampler_cut(alone, (td_sampler_part){5, 3, 7}), TD_ERR_ARGUMENT);
    assert_int_equal(td_sampler_cut(alone, (td_sampler_part){0, 0, 7}), TD_ERR_ARGUMENT);
    for (uint32_t i = 0; i < N_PARTS; ++i)
        td_sampler_destroy(shared[i]);
    td_sampler_destroy(alone);
}

static void validation_is_the_same_in_every_epoch(void **state)
{
    (void)state;
    td_sampler_settings settings = USUAL;
    settings.in_order = true;
    settings.last = TD_LAST_KEEP;
    td_sampler *s = open_sampler(settings, 100);
    const size_t n = td_sampler_batches_per_epoch(s);
    const uint64_t first = hash_batches(s, n);
    assert_true(hash_batches(s, n) == first);
    td_sampler_destroy(s);
}

static void rows_past_the_limits_are_left_out(void **state)
{
    (void)state;
    td_sampler_settings settings = USUAL;
    size_t expected = 0;
    settings.max_frames = 500;
    settings.max_tokens = 100;
    for (size_t i = 0; i < N_ROWS; ++i)
        expected += rows[i].frames > 500 || rows[i].tokens > 100;
    td_sampler *s = open_sampler(settings, N_ROWS);
    assert_int_equal(td_sampler_left_out(s), expected);
    assert_true(expected > 100);
    td_sampler_destroy(s);
}

static void small_sets_and_wrong_settings(void **state)
{
    (void)state;
    td_sampler *s = open_sampler(USUAL, 1);
    td_batch_rows plan;
    td_sampler_next(s, &plan);
    assert_int_equal(plan.count, 16);
    assert_int_equal(plan.n_fresh, 1);
    assert_int_equal(td_sampler_batches_per_epoch(s), 1);
    assert_int_equal(td_sampler_set_state(s, (td_sampler_state){0, 2}), TD_ERR_FORMAT);
    td_sampler_destroy(s);
    td_sampler_settings settings = USUAL;
    settings.max_frames = 10;
    assert_int_equal(td_sampler_create(&settings, rows, N_ROWS, &s), TD_ERR_FORMAT);
    assert_null(s);
    assert_int_equal(td_sampler_create(&USUAL, rows, 0, &s), TD_ERR_FORMAT);
    settings = USUAL;
    settings.batch_size = 0;
    assert_int_equal(td_sampler_create(&settings, rows, 15, &s), TD_ERR_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_comes_once_in_an_epoch),
        cmocka_unit_test(buckets_are_few_even_and_save_padding),
        cmocka_unit_test(a_stored_state_goes_on_exactly),
        cmocka_unit_test(seed_and_epoch_change_the_order_and_the_table_does_not),
        cmocka_unit_test(parts_make_up_the_order_of_one),
        cmocka_unit_test(validation_is_the_same_in_every_epoch),
        cmocka_unit_test(rows_past_the_limits_are_left_out),
        cmocka_unit_test(small_sets_and_wrong_settings),
    };
    make_rows();
    return cmocka_run_group_tests_name("data_sampler", tests, NULL, NULL);
}
