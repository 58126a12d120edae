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
static td_mel *mel, *other_mel;
static td_dataset *dataset;

static const char *const ALL[] = {"token_ids", "token_counts", "frame_counts",  "speakers",        "mel",
                                  "energy",    "pitch",        "reference_mel", "reference_counts"};

/* What a test may change. */
static td_loader_settings settings;
static td_sampler_settings plan;

static int open_device(void **state)
{
    (void)state;
    const td_device_info *info;
    const td_mel_config config = td_mel_config_default();
    td_mel_config other = config; /* other frames and bands */
    other.hop_samples = 200;
    other.win_samples = other.n_fft = 512;
    other.n_mels = 40;
    td_registry_options options;
    td_registry_options_from_env(&options);
    if (td_registry_open(&options, &registry) != TD_OK ||
        td_registry_select(registry, "cpu", &info) != TD_OK ||
        td_device_open(registry, info, &device) != TD_OK ||
        td_memory_create(device, "data", 0, &memory) != TD_OK ||
        td_mel_create(memory, &config, &mel) != TD_OK || td_mel_create(memory, &other, &other_mel) != TD_OK) {
        print_message("%s\n", td_error_last()->message);
        return -1;
    }
    return 0;
}

static int close_device(void **state)
{
    (void)state;
    td_mel_destroy(mel);
    td_mel_destroy(other_mel);
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
                                    .features = ALL,
                                    .n_features = sizeof ALL / sizeof ALL[0],
                                    .n_ready = 2,
                                    .reference_s = 0.5,
                                    .max_bad_fraction = 0.1,
                                    .seed = 3,
                                    .n_batches = N_BATCHES};
    plan = (td_sampler_settings){.batch_size = BATCH, .n_buckets = 3, .round_frames = 8, .seed = 3};
    logged[0] = '\0';
    listen_to(keep_log, NULL, TD_LOG_INFO);
    return status == TD_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    listen_to(NULL, NULL, TD_LOG_ERROR);
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

static void *fetch_feature(const td_batch *batch, const char *name)
{
    const td_feature *feature = td_batch_find(batch, name);
    assert_non_null(feature);
    assert_int_equal(feature->span.bytes, 4 * td_shape_size(feature->shape));
    return fetch(feature->span, batch->ready);
}

static uint64_t hash_batch(const td_batch *b)
{
    uint64_t parts[TD_BATCH_FEATURES + 2] = {b->count, b->shape.frames};
    for (size_t i = 0; i < b->n_features; ++i) {
        void *bytes = fetch(b->features[i].span, b->ready);
        parts[i + 2] = td_hash64(bytes, b->features[i].span.bytes);
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
        td_batch_rows want;
        td_sampler_next(expected, &want);
        next(&r, &batch);
        assert_int_equal(batch.number, i);
        assert_int_equal(batch.epoch, want.epoch);
        assert_int_equal(batch.count, want.count);
        assert_int_equal(batch.n_fresh, want.n_fresh);
        assert_int_equal(batch.shape.frames, want.frames);
        assert_int_equal(batch.shape.tokens, want.tokens);
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
static float *make_alone(const td_mel *with, uint32_t row, uint32_t *n_frames)
{
    char path[TD_FILE_PATH_BYTES];
    td_audio audio;
    td_span pcm, places, out;
    td_list *list = NULL;
    td_point done;
    const uint32_t bands = td_mel_get_config(with)->n_mels;
    assert_int_equal(td_dataset_clip_path(dataset, row, path), TD_OK);
    assert_int_equal(td_audio_decode(path, &(td_decode_options){.rate = 22050}, &audio), TD_OK);
    *n_frames = td_mel_frames(td_mel_get_config(with), audio.count);
    assert_int_equal(td_memory_alloc(memory, TD_MEMORY_HOST, 4 * audio.count, &pcm), TD_OK);
    assert_int_equal(td_memory_alloc(memory, TD_MEMORY_HOST, 8, &places), TD_OK);
    assert_int_equal(td_memory_alloc(memory, TD_MEMORY_DEVICE, 4 * *n_frames * bands, &out), TD_OK);
    memcpy(td_span_host(pcm), audio.samples, 4 * audio.count);
    memcpy(td_span_host(places), (uint32_t[]){0, (uint32_t)audio.count}, 8);
    assert_int_equal(td_list_create(device, TD_QUEUE_COMPUTE, &list), TD_OK);
    const td_mel_args args = {.items = 1, .max_frames = *n_frames, .pcm = pcm, .ranges = places, .mel = out};
    assert_int_equal(td_mel_record(with, list, &args), TD_OK);
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
    const size_t item_floats = (size_t)batch->shape.frames * bands;
    const float pad = td_mel_pad_value(td_mel_get_config(mel));
    uint32_t n_frames;
    float *alone = make_alone(mel, row, &n_frames);
    assert_int_equal(frames[k], n_frames);
    assert_memory_equal(mels + k * item_floats, alone, 4 * n_frames * bands);
    for (size_t i = n_frames * bands; i < item_floats; ++i)
        assert_true(mels[k * item_floats + i] == pad);
    free(alone);
    const td_block_row *about = &dataset->view.rows[row];
    assert_int_equal(n_tokens[k], about->n_tokens);
    assert_memory_equal(tokens + k * batch->shape.tokens, td_dataset_tokens(dataset, row),
                        4 * about->n_tokens);
    for (uint32_t i = about->n_tokens; i < batch->shape.tokens; ++i)
        assert_int_equal(tokens[k * batch->shape.tokens + i], TD_SYMBOL_PAD);
}

static void items_hold_their_rows(void **state)
{
    (void)state;
    running r = start(2);
    for (size_t i = 0; i < 6; ++i) {
        td_batch batch;
        next(&r, &batch);
        float *mels = fetch_feature(&batch, "mel");
        uint32_t *frames = fetch_feature(&batch, "frame_counts"),
                 *speakers = fetch_feature(&batch, "speakers");
        int32_t *tokens = fetch_feature(&batch, "token_ids");
        uint32_t *n_tokens = fetch_feature(&batch, "token_counts");
        uint32_t *references = fetch_feature(&batch, "reference_counts");
        for (uint32_t k = 0; k < batch.count; ++k) {
            check_item(&batch, k, mels, frames, tokens, n_tokens);
            assert_int_equal(speakers[k], dataset->view.rows[batch.rows[k]].speaker);
            assert_in_range(references[k], 1, batch.shape.reference_frames);
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
    static const td_mel_cache_kind KINDS[] = {TD_MEL_CACHE_RAM, TD_MEL_CACHE_DISK, TD_MEL_CACHE_RAM,
                                              TD_MEL_CACHE_DISK};
    static const char *const NO_ENERGY[] = {"token_ids", "mel", "pitch"};
    uint64_t plain[N_BATCHES], cached[N_BATCHES];
    hash_all(2, N_BATCHES, plain);
    for (size_t i = 0; i < 4; ++i) {
        char folder[600];
        snprintf(folder, sizeof folder, "%s/cache", temp_dir);
        if (i == 3) {
            settings.features = NO_ENERGY;
            settings.n_features = 3;
            settings.cache = NULL;
            hash_all(2, N_BATCHES, plain);
        }
        const td_mel_cache_settings cache = {.kind = KINDS[i],
                                             .max_bytes =
                                                 i == 2 ? 300000 : 0, /* a part fits: mixed batches */
                                             .cache_dir = folder,
                                             .config = *td_mel_get_config(mel),
                                             .has_energy = i < 3,
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
        if (i != 2) assert_int_equal(stats.n_stores, N_ROWS);
        td_mel_cache_close(settings.cache);
    }
}

/* Only what is wanted is there, in the same bits as among all, and no memory is taken for the rest. */
static void only_what_is_wanted_is_made(void **state)
{
    (void)state;
    static const char *const SOME[] = {"mel", "token_ids", "mel", "frame_counts"};
    td_batch all, some;
    td_memory_stats before, with_all, with_some;
    td_memory_get_stats(memory, &before);
    running r = start(2);
    td_memory_get_stats(memory, &with_all);
    settings.features = SOME;
    settings.n_features = 4;
    settings.reference_s = 0;
    running few = start(2);
    td_memory_get_stats(memory, &with_some);
    next(&r, &all);
    next(&few, &some);
    assert_int_equal(all.n_features, sizeof ALL / sizeof ALL[0]);
    assert_int_equal(some.n_features, 3);
    assert_int_equal(some.shape.reference_frames, 0);
    assert_true(with_some.used_bytes - with_all.used_bytes < with_all.used_bytes - before.used_bytes);
    assert_true(td_loader_batch_bytes(few.loader) < td_loader_batch_bytes(r.loader));
    for (size_t i = 0; i < 4; ++i) {
        void *a = fetch_feature(&all, SOME[i]), *b = fetch_feature(&some, SOME[i]);
        assert_memory_equal(a, b, td_batch_find(&all, SOME[i])->span.bytes);
        free(a);
        free(b);
    }
    assert_null(td_batch_find(&some, "energy"));
    stop(&r);
    stop(&few);
}

static void expect_same(const td_batch *batch, const td_batch *other, const char *name)
{
    void *a = fetch_feature(batch, name), *b = fetch_feature(other, name);
    assert_int_equal(td_batch_find(batch, name)->span.bytes, td_batch_find(other, name)->span.bytes);
    assert_memory_equal(a, b, td_batch_find(batch, name)->span.bytes);
    free(a);
    free(b);
}

/* What the other front end made of each item is what it makes of the recording by itself. */
static void check_other(const td_batch *batch)
{
    const uint32_t bands = td_mel_get_config(other_mel)->n_mels;
    const float pad = td_mel_pad_value(td_mel_get_config(other_mel));
    float *values = fetch_feature(batch, "other");
    uint32_t *counts = fetch_feature(batch, "other_counts");
    const td_shape shape = td_batch_find(batch, "other")->shape;
    assert_int_equal(shape.dims[2], bands);
    for (uint32_t k = 0; k < batch->count; ++k) {
        const float *item = values + (size_t)k * shape.dims[1] * bands;
        uint32_t n_frames;
        float *expected = make_alone(other_mel, batch->rows[k], &n_frames);
        assert_int_equal(counts[k], n_frames);
        assert_memory_equal(item, expected, 4 * (size_t)n_frames * bands);
        for (size_t i = (size_t)n_frames * bands; i < (size_t)shape.dims[1] * bands; ++i)
            assert_true(item[i] == pad);
        free(expected);
    }
    free(values);
    free(counts);
}

/* Two front ends in one loader, each in a loader of its own: the same bits; with a cache for what it keeps.
 */
static void front_ends_share_the_samples(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"other", "other_counts", "mel", "frame_counts"};
    const td_front_end other = {.name = "other", .mel = other_mel};
    const td_mel_cache_settings kept = {
        .kind = TD_MEL_CACHE_RAM, .config = *td_mel_get_config(mel), .device = "test"};
    assert_int_equal(td_mel_cache_open(&kept, dataset, &settings.cache), TD_OK);
    settings.front_ends = &other;
    settings.n_front_ends = 1;
    settings.features = NAMES;
    settings.n_features = 4;
    running both = start(2);
    settings.n_features = 2;
    running alone = start(2);
    settings.features = NAMES + 2;
    running usual = start(2);
    for (size_t n = 0; n < N_BATCHES; ++n) {
        td_batch batch, batch_alone, batch_usual;
        next(&both, &batch);
        next(&alone, &batch_alone);
        next(&usual, &batch_usual);
        for (size_t i = 0; i < 4; ++i)
            expect_same(&batch, i < 2 ? &batch_alone : &batch_usual, NAMES[i]);
        check_other(&batch);
        td_loader_release(both.loader, &batch, (td_point){0});
        td_loader_release(alone.loader, &batch_alone, (td_point){0});
        td_loader_release(usual.loader, &batch_usual, (td_point){0});
    }
    stop(&both);
    stop(&alone);
    stop(&usual);
    td_mel_cache_close(settings.cache);
}

enum { PART_WIDTH = 5 };

/* mel [B, T, n_mels] times a parameter. */
static td_status build_part(void *context, const td_batch_shape *shape, td_graph **graph, td_tensor *output)
{
    const uint32_t bands = td_mel_get_config(mel)->n_mels;
    const td_status status = td_graph_create(0, graph);
    if (status != TD_OK) return status;
    const td_tensor in = td_graph_input(*graph, context, td_dims(shape->items, shape->frames, bands), TD_F32);
    const td_tensor w = td_graph_param(*graph, "w", td_dims(bands, PART_WIDTH), TD_PARAM_DECAY);
    *output = td_graph_matmul(*graph, in, w);
    td_graph_output(*graph, *output, "projected");
    return TD_OK;
}

static td_store *make_store(float *weights)
{
    td_graph *graph;
    td_tensor output;
    td_store *store;
    const size_t n = (size_t)td_mel_get_config(mel)->n_mels * PART_WIDTH;
    for (size_t i = 0; i < n; ++i)
        weights[i] = (float)(i * 7 % 23) / 23 - 0.5F;
    assert_int_equal(build_part("mel", &(td_batch_shape){.items = 1, .frames = 1}, &graph, &output), TD_OK);
    assert_int_equal(td_store_create(memory, graph, &(td_store_options){0}, &store), TD_OK);
    assert_int_equal(td_store_write(store, 0, TD_BLOCK_WEIGHT, weights), TD_OK);
    td_graph_destroy(graph);
    return store;
}

static void check_projected(const td_batch *batch, const float *weights)
{
    const uint32_t bands = td_mel_get_config(mel)->n_mels;
    const size_t rows = (size_t)batch->count * batch->shape.frames;
    float *x = fetch_feature(batch, "mel"), *y = fetch_feature(batch, "projected");
    assert_int_equal(td_batch_find(batch, "projected")->span.bytes, 4 * rows * PART_WIDTH);
    for (size_t r = 0; r < rows; ++r) {
        for (size_t c = 0; c < PART_WIDTH; ++c) {
            double sum = 0;
            for (size_t b = 0; b < bands; ++b)
                sum += (double)x[r * bands + b] * (double)weights[b * PART_WIDTH + c];
            assert_true(fabs(sum - (double)y[r * PART_WIDTH + c]) < 1e-4);
        }
    }
    free(x);
    free(y);
}

static void a_frozen_part_makes_a_feature(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"projected", "mel"};
    float weights[80 * PART_WIDTH];
    td_store *store = make_store(weights);
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    td_frozen_part part = {
        .name = "projected", .store = store, .lock = &lock, .build = build_part, .context = "mel"};
    uint32_t shapes = 0;
    plan.last = TD_LAST_KEEP; /* the last batch of an epoch is shorter */
    settings.features = NAMES;
    settings.n_features = 2;
    settings.parts = &part;
    settings.n_parts = 1;
    running r = start(2);
    for (size_t n = 0; n < N_BATCHES; ++n) {
        td_batch batch;
        next(&r, &batch);
        check_projected(&batch, weights);
        shapes |= batch.count < BATCH ? 1U : 2U << batch.bucket;
        td_loader_release(r.loader, &batch, (td_point){0});
    }
    assert_int_equal(shapes, 15); /* all buckets, and a short batch */
    stop(&r);
    td_loader *loader;
    td_loader_settings wrong = settings;
    wrong.sampler = open_sampler();
    wrong.n_features = 1;
    assert_int_equal(td_loader_create(&wrong, &loader), TD_ERR_ARGUMENT);
    assert_non_null(strstr(td_error_last()->message, "'projected' is made from 'mel'"));
    td_sampler_destroy(wrong.sampler);
    td_store_destroy(store);
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
        assert_int_equal(td_batch_find(&batch, "mel")->span.bytes,
                         4 * (uint64_t)batch.count * batch.shape.frames * 80);
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
        uint32_t *frames = fetch_feature(&batch, "frame_counts");
        for (uint32_t k = 0; k < batch.count; ++k) {
            assert_true(batch.rows[k] != 5 && batch.rows[k] != 12 && batch.rows[k] != 20);
            assert_in_range(frames[k], 1, batch.shape.frames);
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
    settings.n_features = 7; /* no references */
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
    static const char *const WRONG[][2] = {{"mel", "languages"}, {"energy", "token_ids"}};
    static const char *const SAID[] = {"'languages'; there are token_ids, token_counts", "along with 'mel'"};
    for (size_t i = 0; i < 2; ++i) {
        wrong = settings;
        wrong.features = WRONG[i];
        wrong.n_features = 2;
        assert_int_equal(td_loader_create(&wrong, &loader), TD_ERR_ARGUMENT);
        assert_non_null(strstr(td_error_last()->message, SAID[i]));
    }
    wrong.n_features = 0;
    assert_int_equal(td_loader_create(&wrong, &loader), TD_ERR_ARGUMENT);
    const td_front_end taken = {.name = "frame", .mel = mel};
    wrong = settings;
    wrong.front_ends = &taken;
    wrong.n_front_ends = 1;
    assert_true(td_loader_knows(&settings, "mel") && !td_loader_knows(&settings, "frame"));
    assert_int_equal(td_loader_create(&wrong, &loader), TD_ERR_ARGUMENT);
    assert_non_null(strstr(td_error_last()->message, "'frame_counts'"));
    wrong = settings;
    wrong.sampler = open_sampler();
    wrong.reference_s = 0;
    assert_int_equal(td_loader_create(&wrong, &loader), TD_ERR_CONFIG);
    assert_non_null(strstr(td_error_last()->message, "too short"));
    td_sampler_destroy(wrong.sampler);
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
        TEST(only_what_is_wanted_is_made),
        TEST(front_ends_share_the_samples),
        TEST(a_frozen_part_makes_a_feature),
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
