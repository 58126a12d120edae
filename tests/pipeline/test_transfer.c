/* Batches sent from every device to every other arrive whole, in order and in bounded room; what fails before
 * or in between is told after the batches before it; and a transfer ends in the middle without loss or hang.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "device/support.h"
#include "pipeline/transfer.h"

enum { MEL_WORDS = 1000, TOKEN_WORDS = 77, BATCHES = 12 };

/* Batches of known words on one device. Called from the transfer's thread, so it checks nothing itself. */
typedef struct fake {
    bed *b;
    size_t device;
    td_span mel[BATCHES], tokens[BATCHES];
    uint64_t first, fails_at;
    uint64_t n_given, n_released, n_disordered;
} fake;

static td_status give(void *context, td_batch *out)
{
    fake *f = context;
    const uint64_t n = f->n_given;
    if (n == f->fails_at) return TD_FAIL(TD_ERR_IO, "the disk is gone");
    *out = (td_batch){
        .number = f->first + n,
        .count = 1,
        .features = {{.name = "mel", .span = td_span_part(f->mel[n % BATCHES], 0, 4 * (MEL_WORDS - n % 5))},
                     {.name = "token_ids", .span = f->tokens[n % BATCHES]}},
        .n_features = 2};
    ++f->n_given;
    return TD_OK;
}

static void take_back(void *context, const td_batch *batch, td_point used)
{
    fake *f = context;
    (void)used;
    f->n_disordered += batch->number != f->first + f->n_released;
    ++f->n_released;
}

static fake new_fake(bed *b, size_t device, uint64_t fails_at)
{
    fake f = {.b = b, .device = device, .first = 40, .fails_at = fails_at};
    uint32_t words[MEL_WORDS];
    for (size_t i = 0; i < BATCHES; ++i) {
        f.mel[i] = take(b->memory[device], TD_MEMORY_DEVICE, 4 * MEL_WORDS);
        f.tokens[i] = take(b->memory[device], TD_MEMORY_DEVICE, 4 * TOKEN_WORDS);
        f.tokens[i].bytes = UINT64_C(4) * TOKEN_WORDS;
        fill_words(words, MEL_WORDS, i);
        write_span(b, device, td_span_part(f.mel[i], 0, sizeof words), words);
        fill_words(words, TOKEN_WORDS, 1000 + i);
        write_span(b, device, f.tokens[i], words);
    }
    return f;
}

static void free_fake(fake *f)
{
    for (size_t i = 0; i < BATCHES; ++i) {
        td_memory_free(f->b->memory[f->device], f->mel[i]);
        td_memory_free(f->b->memory[f->device], f->tokens[i]);
    }
}

static td_transfer *start(fake *f, size_t to, td_monitor *monitor)
{
    td_transfer *transfer;
    check(td_transfer_create(&(td_transfer_settings){.next = give,
                                                     .release = take_back,
                                                     .context = f,
                                                     .data = f->b->memory[f->device],
                                                     .model = f->b->memory[to],
                                                     .batch_bytes = 8192,
                                                     .n_ready = 2,
                                                     .verify = true,
                                                     .monitor = monitor},
                             &transfer));
    return transfer;
}

static void expect_batch(bed *b, size_t device, const td_batch *batch, uint64_t n)
{
    uint32_t expected[MEL_WORDS], got[MEL_WORDS];
    assert_int_equal(batch->number, 40 + n);
    const td_feature *mel = td_batch_find(batch, "mel"), *tokens = td_batch_find(batch, "token_ids");
    assert_non_null(mel);
    assert_non_null(tokens);
    assert_null(td_batch_find(batch, "pitch"));
    assert_int_equal(batch->n_features, 2);
    assert_int_equal(mel->span.bytes, 4 * (MEL_WORDS - n % 5));
    await(batch->ready);
    fill_words(expected, MEL_WORDS, n);
    read_span(b, device, mel->span, got);
    assert_memory_equal(got, expected, mel->span.bytes);
    fill_words(expected, TOKEN_WORDS, 1000 + n);
    read_span(b, device, tokens->span, got);
    assert_memory_equal(got, expected, tokens->span.bytes);
}

static void test_batches_arrive(void **state)
{
    (void)state;
    bed b;
    bed_open(&b, NULL);
    for (size_t i = 0; i < b.count; ++i) {
        for (size_t j = 0; j < b.count; ++j) {
            if (i == j || !is_new_pair(&b, i, j) || !announce_pair(&b, i, j)) continue;
            fake f = new_fake(&b, i, BATCHES);
            td_monitor *monitor;
            check(td_monitor_create(16, false, &monitor));
            td_transfer *transfer = start(&f, j, monitor);
            td_batch batch;
            for (uint64_t n = 0; n < BATCHES; ++n) {
                check(td_transfer_next(transfer, &batch));
                expect_batch(&b, j, &batch, n);
                td_transfer_release(transfer, &batch, (td_point){0});
            }
            refuse(TD_ERR_IO, "the disk is gone", td_transfer_next(transfer, &batch));
            refuse(TD_ERR_IO, "the disk is gone", td_transfer_next(transfer, &batch));
            assert_int_equal(f.n_released, BATCHES);
            assert_int_equal(f.n_disordered, 0);
            assert_int_equal(td_transfer_count(transfer).n_batches, BATCHES);
            td_monitor_collect(monitor);
            td_transfer_destroy(transfer);
            td_monitor_destroy(monitor);
            free_fake(&f);
        }
    }
    bed_close(&b);
}

/* With nothing released, no more batches are asked for than there is room; destroying does not wait for more.
 */
static void test_room_is_bounded(void **state)
{
    (void)state;
    bed b;
    td_batch batches[2];
    bed_open(&b, NULL);
    fake f = new_fake(&b, b.sim, UINT64_MAX);
    td_transfer *transfer = start(&f, b.sim + 1, NULL);
    for (int i = 0; i < 2; ++i)
        check(td_transfer_next(transfer, &batches[i]));
    td_transfer_destroy(transfer);
    assert_int_equal(f.n_given, 2);
    free_fake(&f);
    bed_close(&b);
}

static void test_too_large_a_batch(void **state)
{
    (void)state;
    bed b;
    td_batch batch;
    td_transfer *transfer;
    bed_open(&b, NULL);
    fake f = new_fake(&b, b.sim, UINT64_MAX);
    check(td_transfer_create(&(td_transfer_settings){.next = give,
                                                     .release = take_back,
                                                     .context = &f,
                                                     .data = b.memory[b.sim],
                                                     .model = b.memory[b.sim + 1],
                                                     .batch_bytes = 4096},
                             &transfer));
    refuse(TD_ERR_LIMIT, "batch 40|4096", td_transfer_next(transfer, &batch));
    td_transfer_destroy(transfer);
    free_fake(&f);
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batches_arrive),
        cmocka_unit_test(test_room_is_bounded),
        cmocka_unit_test(test_too_large_a_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
