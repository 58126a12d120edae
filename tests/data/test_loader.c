/* The loader: the sampler's batches in its order, the same bits for any number of threads, from the cache and
 * after a restart; bad recordings replaced and told; bounded, and ended at any moment. */
#include "data/fixture.h"

#include <math.h>

#include "audio/decode.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "data/loader.h"
#include "text/symbols.h"

enum { N_ROWS = 43, BATCH = 8, N_BATCHES = 14 }; /* 6 batches an epoch, so more than two epochs */

static td_registry *registry;
static td_device *device;
static td_memory *memory;
static td_mel *mel;
static td_dataset *dataset;

/* What a test may change. */
static td_loader_settings settings;
static td_sampler_settings plan;

static int open_device(void **state)
{
    (void)state;
    const td_device_info *info;
    const td_mel_config config = td_mel_config_default();
    td_registry_options options;
    td_registry_options_from_env(&options);
    if (td_registry_open(&options, &registry) != TD_OK ||
        td_registry_select(registry, "cpu", &info) != TD_OK ||
        td_device_open(registry, info, &device) != TD_OK ||
        td_memory_create(device, "data", 0, &memory) != TD_OK ||
        td_mel_create(memory, &config, &mel) != TD_OK) {
        print_message("%s\n", td_error_last()->message);
        return -1;
    }
    return 0;
}

static int close_device(void **state)
{
    (void)state;
    td_mel_destroy(mel);
    td_memory_destroy(memory);
    td_device_close(device);
    td_registry_close(registry);
    return 0;
}

static int set_up(void **state)
{
    char text[4096], name[32];
    size_t used = 0;
    td_pool *pool = NULL;
    if (temp_dir_make(state) != 0) return -1;
    make_folder("wavs");
    for (size_t i = 0; i < N_ROWS; ++i) {
        used += (size_t)snprintf(text + used, sizeof text - used, "r%02zu|%c|%.*s\n", i, "ab"[i % 2],
                                 (int)(3 + i % 9), "abcdefghijklm");
        snprintf(name, sizeof name, "wavs/r%02zu.wav", i);
        /* one in four is of another rate */
        write_wav(temp_path(name), i % 4 == 3 ? 16000 : 22050, 1,
                  (sf_count_t)(3000 + 700 * (i * 7 % N_ROWS)));
    }
    write_text(temp_path("metadata.csv"), text);
    const td_dataset_settings data = {
        .dir = temp_dir, .language = "en", .table = {.columns = "id|speaker|text"}};
    if (td_pool_create(1, &pool) != TD_OK) return -1;
    const td_status status = td_dataset_open(&data, pool, &dataset);
    if (status != TD_OK) print_message("%s\n", td_error_last()->message);
    td_pool_destroy(pool);
    settings = (td_loader_settings){.dataset = dataset,
                                    .rows = dataset->train,
                                    .n_rows = dataset->n_train,
                                    .batch_size = BATCH,
                                    .memory = memory,
                                    .mel = mel,
                                    .with_pitch = true,
                                    .n_ready = 2,
                                    .reference_s = 0.5,
                                    .max_bad_fraction = 0.1,
                                    .seed = 3,
                                    .n_batches = N_BATCHES};
    plan = (td_sampler_settings){.batch_size = BATCH, .n_buckets = 3, .round_frames = 8, .seed = 3};
    logged[0] = '\0';
    td_log_set_sink(keep_log, NULL, TD_LOG_INFO);
    return status == TD_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    td_log_set_sink(NULL, NULL, TD_LOG_ERROR);
    td_dataset_close(dataset);
    return temp_dir_remove(state);
}

/* ---------------------------------------------------------------- help */

typedef struct running {
    td_pool *pool;
    td_sampler *sampler;
    td_loader *loader;
} running;

static td_sampler *open_sampler(void)
{
    td_sampler *sampler = NULL;
    td_sampler_row rows[N_ROWS];
    td_loader_lengths(dataset, dataset->train, dataset->n_train, td_mel_get_config(mel), rows);
    assert_int_equal(td_sampler_create(&plan, rows, dataset->n_train, &sampler), TD_OK);
    return sampler;
}

static running start(size_t workers)
{
    running r = {.sampler = open_sampler()};
    assert_int_equal(td_pool_create(workers, &r.pool), TD_OK);
    td_loader_settings with = settings;
    with.pool = r.pool;
    with.sampler = r.sampler;
    if (td_loader_create(&with, &r.loader) != TD_OK) fail_msg("%s", td_error_last()->message);
    return r;
}

static void stop(running *r)
{
    td_loader_destroy(r->loader);
    td_sampler_destroy(r->sampler);
    td_pool_destroy(r->pool);
}

static void next(running *r, td_batch *out)
{
    if (td_loader_next(r->loader, out) != TD_OK) fail_msg("%s", td_error_last()->message);
}

/* The bytes of a span, owned. */
static void *fetch(td_span span, td_point after)
{
    td_list *list = NULL;
    td_span host;
    td_point done;
    assert_int_equal(td_memory_alloc(memory, TD_MEMORY_HOST, span.bytes, &host), TD_OK);
    assert_int_equal(td_list_create(device, TD_QUEUE_COMPUTE, &list), TD_OK);
    assert_int_equal(td_list_copy(list, td_span_part(host, 0, span.bytes), span), TD_OK);
    assert_int_equal(td_list_finish(list), TD_OK);
    const td_submission work = {.list = list, .waits = &after, .n_waits = 1};
    assert_int_equal(td_queue_submit(td_device_queue(device, TD_QUEUE_COMPUTE), &work, &done), TD_OK);
    assert_int_equal(td_point_wait(done, TD_WAIT_FOREVER), TD_OK);
    void *copy = malloc(span.bytes);
    assert_non_null(copy);
    memcpy(copy, td_span_host(host), span.bytes);
    td_list_destroy(list);
    td_memory_free(memory, host);
    return copy;
}

static uint64_t hash_batch(const td_batch *b)
{
    const td_span spans[] = {
        b->token_ids, b->token_counts, b->frame_counts, b->speakers,      b->languages,
        b->mel,       b->energy,       b->pitch,        b->reference_mel, b->reference_counts};
    uint64_t parts[12] = {b->count, b->frames};
    for (size_t i = 0; i < 10; ++i) {
        if (spans[i].bytes == 0) continue;
        void *bytes = fetch(spans[i], b->ready);
        parts[i + 2] = td_hash64(bytes, spans[i].bytes);
        free(bytes);
    }
    return td_hash64(parts, sizeof parts);
}

static void hash_all(size_t workers, size_t n, uint64_t *out)
{
    running r = start(workers);
    for (size_t i = 0; i < n; ++i) {
        td_batch batch;
        next(&r, &batch);
        out[i] = hash_batch(&batch);
        td_loader_release(r.loader, &batch, (td_point){0});
    }
    stop(&r);
}

/* ---------------------------------------------------------------- tests */

static void batches_are_the_samplers_in_its_order(void **state)
{
    (void)state;
    running r = start(3);
    td_sampler *expected = open_sampler();
    for (size_t i = 0; i < N_BATCHES; ++i) {
        td_batch batch;
        td_batch_plan want;
        td_sampler_next(expected, &want);
        next(&r, &batch);
        assert_int_equal(batch.number, i);
        assert_int_equal(batch.epoch, want.epoch);
        assert_int_equal(batch.count, want.count);
        assert_int_equal(batch.n_fresh, want.n_fresh);
        assert_int_equal(batch.frames, want.frames);
        assert_int_equal(batch.tokens, want.tokens);
        assert_memory_equal(batch.rows, want.rows, want.count * sizeof *want.rows);
        const td_sampler_state after = td_sampler_get_state(expected);
        assert_int_equal(batch.after.epoch, after.epoch);
        assert_int_equal(batch.after.position, after.position);
        td_loader_release(r.loader, &batch, (td_point){0});
    }
    td_batch batch;
    assert_int_equal(td_loader_next(r.loader, &batch), TD_ERR_NOT_FOUND);
    assert_int_equal(td_loader_count(r.loader).n_items, N_BATCHES * BATCH);
    td_sampler_destroy(expected);
    stop(&r);
}

/* The mel of one recording made by itself. */
static float *make_alone(uint32_t row, uint32_t *n_frames)
{
    char path[TD_FILE_PATH_BYTES];
    td_audio audio;
    td_span pcm, places, out;
    td_list *list = NULL;
    td_point done;
    const uint32_t bands = td_mel_get_config(mel)->n_mels;
    assert_int_equal(td_dataset_clip_path(dataset, row, path), TD_OK);
    assert_int_equal(td_audio_decode(path, &(td_decode_options){.rate = 22050}, &audio), TD_OK);
    *n_frames = td_mel_frames(td_mel_get_config(mel), audio.count);
    assert_int_equal(td_memory_alloc(memory, TD_MEMORY_HOST, 4 * audio.count, &pcm), TD_OK);
    assert_int_equal(td_memory_alloc(memory, TD_MEMORY_HOST, 8, &places), TD_OK);
    assert_int_equal(td_memory_alloc(memory, TD_MEMORY_DEVICE, 4 * *n_frames * bands, &out), TD_OK);
    memcpy(td_span_host(pcm), audio.samples, 4 * audio.count);
    memcpy(td_span_host(places), (uint32_t[]){0, (uint32_t)audio.count}, 8);
    assert_int_equal(td_list_create(device, TD_QUEUE_COMPUTE, &list), TD_OK);
    const td_mel_args args = {.items = 1, .max_frames = *n_frames, .pcm = pcm, .ranges = places, .mel = out};
    assert_int_equal(td_mel_record(mel, list, &args), TD_OK);
    assert_int_equal(td_list_finish(list), TD_OK);
    assert_int_equal(
        td_queue_submit(td_device_queue(device, TD_QUEUE_COMPUTE), &(td_submission){.list = list}, &done),
        TD_OK);
    float *values = fetch(td_span_part(out, 0, 4 * *n_frames * bands), done);
    td_list_destroy(list);
    td_memory_free(memory, pcm);
    td_memory_free(memory, places);
    td_memory_free(memory, out);
    td_audio_free(&audio);
    return values;
}

static void check_item(const td_batch *batch, uint32_t k, const float *mels, const uint32_t *frames,
                       const int32_t *tokens, const uint32_t *n_tokens)
{
    const uint32_t row = batch->rows[k], bands = td_mel_get_config(mel)->n_mels;
    const size_t item_floats = (size_t)batch->frames * bands;
    const float pad = td_mel_pad_value(td_mel_get_config(mel));
    uint32_t n_frames;
    float *alone = make_alone(row, &n_frames);
    assert_int_equal(frames[k], n_frames);
    assert_memory_equal(mels + k * item_floats, alone, 4 * n_frames * bands);
    for (size_t i = n_frames * bands; i < item_floats; ++i)
        assert_true(mels[k * item_floats + i] == pad);
    free(alone);
    const td_block_row *about = &dataset->view.rows[row];
    assert_int_equal(n_tokens[k], about->n_tokens);
    assert_memory_equal(tokens + k * batch->tokens, td_dataset_tokens(dataset, row), 4 * about->n_tokens);
    for (uint32_t i = about->n_tokens; i < batch->tokens; ++i)
        assert_int_equal(tokens[k * batch->tokens + i], TD_SYMBOL_PAD);
}

static void items_hold_their_rows(void **state)
{
    (void)state;
    running r = start(2);
    for (size_t i = 0; i < 6; ++i) {
        td_batch batch;
        next(&r, &batch);
        float *mels = fetch(batch.mel, batch.ready);
        uint32_t *frames = fetch(batch.frame_counts, batch.ready),
                 *speakers = fetch(batch.speakers, batch.ready);
        int32_t *tokens = fetch(batch.token_ids, batch.ready);
        uint32_t *n_tokens = fetch(batch.token_counts, batch.ready);
        uint32_t *references = fetch(batch.reference_counts, batch.ready);
        for (uint32_t k = 0; k < batch.count; ++k) {
            check_item(&batch, k, mels, frames, tokens, n_tokens);
            assert_int_equal(speakers[k], dataset->view.rows[batch.rows[k]].speaker);
            assert_in_range(references[k], 1, batch.reference_frames);
        }
        free(mels);
        free(frames);
        free(speakers);
        free(tokens);
        free(n_tokens);
        free(references);
        td_loader_release(r.loader, &batch, (td_point){0});
    }
    stop(&r);
}

static void any_number_of_threads_gives_the_same_bits(void **state)
{
    (void)state;
    uint64_t one[N_BATCHES], many[N_BATCHES];
    hash_all(1, N_BATCHES, one);
    for (size_t workers = 2; workers <= 7; workers += 5) {
        hash_all(workers, N_BATCHES, many);
        assert_memory_equal(one, many, sizeof one);
    }
    for (size_t i = 1; i < N_BATCHES; ++i)
        assert_true(one[i] != one[i - 1]);
}

static void a_restart_goes_on_where_it_was(void **state)
{
    (void)state;
    uint64_t all[N_BATCHES];
    td_batch batch;
    hash_all(2, N_BATCHES, all);
    running r = start(2);
    for (size_t i = 0; i < 8; ++i) {
        next(&r, &batch);
        td_loader_release(r.loader, &batch, (td_point){0});
    }
    const td_sampler_state kept = batch.after;
    stop(&r);
    running again = {.sampler = open_sampler()};
    assert_int_equal(td_sampler_set_state(again.sampler, kept), TD_OK);
    assert_int_equal(td_pool_create(2, &again.pool), TD_OK);
    td_loader_settings with = settings;
    with.pool = again.pool;
    with.sampler = again.sampler;
    assert_int_equal(td_loader_create(&with, &again.loader), TD_OK);
    for (size_t i = 8; i < N_BATCHES; ++i) {
        next(&again, &batch);
        assert_true(hash_batch(&batch) == all[i]);
        td_loader_release(again.loader, &batch, (td_point){0});
    }
    stop(&again);
}

static void the_cache_changes_no_bit(void **state)
{
    (void)state;
    static const td_mel_cache_kind KINDS[] = {TD_MEL_CACHE_RAM, TD_MEL_CACHE_DISK, TD_MEL_CACHE_RAM};
    uint64_t plain[N_BATCHES], cached[N_BATCHES];
    hash_all(2, N_BATCHES, plain);
    for (size_t i = 0; i < 3; ++i) {
        char folder[600];
        snprintf(folder, sizeof folder, "%s/cache", temp_dir);
        const td_mel_cache_settings cache = {.kind = KINDS[i],
                                             .max_bytes =
                                                 i == 2 ? 300000 : 0, /* a part fits: mixed batches */
                                             .cache_dir = folder,
                                             .config = *td_mel_get_config(mel),
                                             .has_pitch = true,
                                             .device = "test"};
        assert_int_equal(td_mel_cache_open(&cache, dataset, &settings.cache), TD_OK);
        for (int run = 0; run < 2; ++run) {
            hash_all(3, N_BATCHES, cached);
            assert_memory_equal(plain, cached, sizeof plain);
        }
        const td_mel_cache_stats stats = td_mel_cache_count(settings.cache);
        assert_true(stats.n_hits > N_BATCHES);
        assert_int_equal(stats.n_refused > 0, i == 2);
        if (i < 2) assert_int_equal(stats.n_stores, N_ROWS);
        td_mel_cache_close(settings.cache);
    }
}

static void without_pitch_and_references(void **state)
{
    (void)state;
    td_batch batch;
    settings.with_pitch = false;
    settings.reference_s = 0;
    running r = start(2);
    next(&r, &batch);
    assert_int_equal(batch.pitch.bytes, 0);
    assert_int_equal(batch.reference_mel.bytes, 0);
    assert_true(hash_batch(&batch) != 0);
    stop(&r);
}

static void the_last_batch_is_the_samplers(void **state)
{
    (void)state;
    td_batch batch;
    size_t n_short = 0;
    plan.last = TD_LAST_KEEP;
    settings.n_batches = 6;
    running r = start(2);
    for (size_t i = 0; i < 6; ++i) {
        next(&r, &batch);
        n_short += batch.count == N_ROWS % BATCH;
        assert_int_equal(batch.count, batch.n_fresh);
        assert_int_equal(batch.mel.bytes, 4 * (uint64_t)batch.count * batch.frames * 80);
        td_loader_release(r.loader, &batch, (td_point){0});
    }
    assert_int_equal(n_short, 1);
    stop(&r);
}

static void bad_recordings_are_told_and_replaced(void **state)
{
    (void)state;
    uint64_t one[N_BATCHES], many[N_BATCHES];
    write_text(temp_path("wavs/r05.wav"), "this is no recording");
    assert_int_equal(remove(temp_path("wavs/r12.wav")), 0);
    write_wav(temp_path("wavs/r20.wav"), 22050, 1, 12000); /* 10700 when it was prepared */
    hash_all(1, N_BATCHES, one);
    assert_non_null(strstr(logged, "metadata.csv:6: "));
    assert_non_null(strstr(logged, "metadata.csv:13: "));
    assert_non_null(strstr(logged, "metadata.csv:21: "));
    size_t n_lines = 0;
    for (const char *at = logged; (at = strstr(at, "takes its place")) != NULL; ++at)
        ++n_lines;
    assert_int_equal(n_lines, 3); /* once each, though more than two epochs ran */
    hash_all(4, N_BATCHES, many);
    assert_memory_equal(one, many, sizeof one);
    running r = start(3);
    for (size_t i = 0; i < N_BATCHES; ++i) {
        td_batch batch;
        next(&r, &batch);
        assert_int_equal(batch.count, BATCH);
        uint32_t *frames = fetch(batch.frame_counts, batch.ready);
        for (uint32_t k = 0; k < batch.count; ++k) {
            assert_true(batch.rows[k] != 5 && batch.rows[k] != 12 && batch.rows[k] != 20);
            assert_in_range(frames[k], 1, batch.frames);
        }
        free(frames);
        td_loader_release(r.loader, &batch, (td_point){0});
    }
    assert_int_equal(td_loader_count(r.loader).n_bad, 3);
    stop(&r);
}

static void too_many_bad_ones_end_it(void **state)
{
    (void)state;
    size_t n_good[2] = {0};
    settings.max_bad_fraction = 0.03; /* one of 43 */
    assert_int_equal(remove(temp_path("wavs/r05.wav")), 0);
    assert_int_equal(remove(temp_path("wavs/r12.wav")), 0);
    for (size_t i = 0; i < 2; ++i) {
        td_status status;
        running r = start(1 + 3 * i);
        for (;; ++n_good[i]) {
            td_batch batch;
            status = td_loader_next(r.loader, &batch);
            if (status != TD_OK) break;
            td_loader_release(r.loader, &batch, (td_point){0});
        }
        assert_int_equal(status, TD_ERR_FORMAT);
        assert_non_null(strstr(td_error_last()->message, "max_bad_fraction"));
        td_batch batch;
        assert_int_equal(td_loader_next(r.loader, &batch), TD_ERR_FORMAT);
        stop(&r);
    }
    assert_int_equal(n_good[0], n_good[1]);
}

static void nothing_left_to_replace_with(void **state)
{
    (void)state;
    td_batch batch;
    char name[32];
    for (size_t i = 0; i < N_ROWS; ++i) {
        snprintf(name, sizeof name, "wavs/r%02zu.wav", i);
        assert_int_equal(remove(temp_path(name)), 0);
    }
    settings.max_bad_fraction = 1;
    running r = start(2);
    assert_int_equal(td_loader_next(r.loader, &batch), TD_ERR_FORMAT);
    assert_non_null(strstr(td_error_last()->message, "take its place"));
    stop(&r);
}

static void a_full_queue_sleeps(void **state)
{
    (void)state;
    td_batch batch;
    settings.n_batches = 0;
    settings.reference_s = 0;
    running r = start(2);
    next(&r, &batch);
    uint64_t n_decoded = 0; /* until nothing has moved for a while */
    for (size_t i = 0; i < 100 && n_decoded != td_loader_count(r.loader).n_decoded; ++i) {
        n_decoded = td_loader_count(r.loader).n_decoded;
        td_clock_sleep_until(td_clock_ns() + 300000000);
    }
    const uint64_t cpu_ns = td_clock_cpu_ns();
    td_clock_sleep_until(td_clock_ns() + 300000000);
    assert_int_equal(td_loader_count(r.loader).n_decoded, n_decoded);
    assert_true(td_clock_cpu_ns() - cpu_ns < 100000000);
    assert_in_range(n_decoded, 2 * BATCH, 6 * BATCH);
    td_loader_release(r.loader, &batch, (td_point){0});
    for (size_t i = 0; i < 10; ++i) {
        next(&r, &batch);
        td_loader_release(r.loader, &batch, (td_point){0});
    }
    stop(&r);
}

static void it_ends_at_any_moment(void **state)
{
    (void)state;
    settings.n_batches = 0;
    for (size_t n = 0; n < 12; ++n) {
        running r = start(1 + n % 4);
        for (size_t i = 0; i < n; ++i) {
            td_batch batch;
            next(&r, &batch);
            if (i + 1 < n || n % 2 == 0) td_loader_release(r.loader, &batch, batch.ready);
        }
        stop(&r);
    }
    td_loader_destroy(NULL);
}

static void wrong_settings_are_refused(void **state)
{
    (void)state;
    td_loader *loader = NULL;
    td_loader_settings wrong = settings;
    wrong.n_ready = 1;
    assert_int_equal(td_loader_create(&wrong, &loader), TD_ERR_ARGUMENT);
    assert_null(loader);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(batches_are_the_samplers_in_its_order),
        TEST(items_hold_their_rows),
        TEST(any_number_of_threads_gives_the_same_bits),
        TEST(a_restart_goes_on_where_it_was),
        TEST(the_cache_changes_no_bit),
        TEST(without_pitch_and_references),
        TEST(the_last_batch_is_the_samplers),
        TEST(bad_recordings_are_told_and_replaced),
        TEST(too_many_bad_ones_end_it),
        TEST(nothing_left_to_replace_with),
        TEST(a_full_queue_sleeps),
        TEST(it_ends_at_any_moment),
        TEST(wrong_settings_are_refused),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
