/* Batches as a consumer takes them: what a second device gets is what the data device made, feature by
 * feature, those of a further front end and of a frozen part too. */
#include "data/fixture.h"

#include "base/error.h"
#include "device/support.h"
#include "pipeline/batches.h"

enum { N_ROWS = 21, BATCH = 4, WIDTH = 3, N_BATCHES = 8 };

static td_data_settings settings;

static int set_up(void **state)
{
    char text[1024], name[32];
    size_t used = 0;
    if (temp_dir_make(state) != 0) return -1;
    make_folder("wavs");
    for (size_t i = 0; i < N_ROWS; ++i) {
        used += (size_t)snprintf(text + used, sizeof text - used, "r%02zu|%.*s\n", i, (int)(3 + i % 9),
                                 "abcdefghijklm");
        snprintf(name, sizeof name, "wavs/r%02zu.wav", i);
        write_wav(temp_path(name), 22050, 1, (sf_count_t)(3000 + 1100 * (i * 5 % N_ROWS)));
    }
    write_text(temp_path("metadata.csv"), text);
    settings = (td_data_settings){.dataset = {.dir = temp_dir, .language = "en", .seed = 5},
                                  .workers = 2,
                                  .batch_size = BATCH,
                                  .n_buckets = 3,
                                  .mel_cache = TD_MEL_CACHE_NONE,
                                  .front_ends = {{.name = "coarse", .config = td_mel_config_default()}},
                                  .n_front_ends = 1};
    settings.front_ends[0].config.hop_samples = 512;
    settings.front_ends[0].config.n_mels = 20;
    return 0;
}

/* coarse [B, T', 20] times a parameter. */
static td_status build(void *context, const td_batch_shape *shape, td_graph **graph, td_tensor *output)
{
    const td_mel_config *config = context;
    const uint64_t samples = (uint64_t)shape->frames * td_mel_config_default().hop_samples - 1;
    const td_status status = td_graph_create(0, graph);
    if (status != TD_OK) return status;
    const td_shape frames = td_dims(shape->items, td_mel_frames(config, samples), config->n_mels);
    const td_tensor in = td_graph_input(*graph, "coarse", frames, TD_F32);
    const td_tensor w = td_graph_param(*graph, "w", td_dims(config->n_mels, WIDTH), TD_PARAM_DECAY);
    *output = td_graph_matmul(*graph, in, w);
    td_graph_output(*graph, *output, "content");
    return TD_OK;
}

static td_store *make_store(td_memory *memory)
{
    td_mel_config *config = &settings.front_ends[0].config;
    float weights[20 * WIDTH];
    td_graph *graph;
    td_tensor output;
    td_store *store;
    for (size_t i = 0; i < 20 * WIDTH; ++i)
        weights[i] = (float)(i % 11) - 5;
    check(build(config, &(td_batch_shape){.items = 1, .frames = 4}, &graph, &output));
    check(td_store_create(memory, graph, &(td_store_options){0}, &store));
    check(td_store_write(store, 0, TD_BLOCK_WEIGHT, weights));
    td_graph_destroy(graph);
    return store;
}

static void *read_feature(const bed *b, size_t device, const td_batch *batch, const char *name,
                          uint64_t *bytes)
{
    const td_feature *feature = td_batch_find(batch, name);
    assert_non_null(feature);
    *bytes = feature->span.bytes;
    assert_int_equal(*bytes, 4 * td_shape_size(feature->shape));
    void *values = malloc(*bytes);
    assert_non_null(values);
    await(batch->ready);
    read_span(b, device, feature->span, values);
    return values;
}

static void expect_same(const bed *b, size_t i, const td_batch *here, size_t j, const td_batch *there,
                        const char *name)
{
    uint64_t n_here, n_there;
    float *x = read_feature(b, i, here, name, &n_here), *y = read_feature(b, j, there, name, &n_there);
    assert_int_equal(n_here, n_there);
    assert_memory_equal(x, y, n_here);
    free(x);
    free(y);
}

static void compare(const bed *b, size_t i, size_t j, const td_data *data)
{
    const td_data_rows rows = {.rows = data->dataset->train,
                               .n_rows = data->dataset->n_train,
                               .last = TD_LAST_KEEP,
                               .n_batches = N_BATCHES};
    td_batches here, there;
    td_batch one, other;
    check(td_batches_open(data, &rows, &here));
    check(td_batches_start(&here, &(td_batches_way){0}));
    check(td_batches_open(data, &rows, &there));
    check(td_batches_start(&there, &(td_batches_way){.model = b->memory[j], .verify = true}));
    assert_null(here.transfer);
    assert_non_null(there.transfer);
    for (size_t n = 0; n < N_BATCHES; ++n) {
        check(td_batches_next(&here, &one));
        check(td_batches_next(&there, &other));
        assert_int_equal(one.number, other.number);
        assert_int_equal(one.n_features, data->settings.n_features);
        for (size_t k = 0; k < one.n_features; ++k)
            expect_same(b, i, &one, j, &other, data->settings.features[k]);
        td_batches_release(&here, &one, (td_point){0});
        td_batches_release(&there, &other, (td_point){0});
    }
    assert_int_equal(td_batches_next(&there, &other), TD_ERR_NOT_FOUND);
    td_batches_close(&there);
    td_batches_close(&here);
}

static void test_a_second_device_gets_the_same(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"token_ids", "frame_counts",  "mel",
                                        "coarse",    "coarse_counts", "content"};
    bed b;
    td_data data;
    bed_open(&b, NULL);
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; ++i)
        check(td_data_want(&settings, NAMES[i]));
    check(td_data_open(b.memory[0], &settings, &data));
    assert_false(td_data_knows(&data, "content"));
    td_store *store = make_store(b.memory[0]);
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const td_frozen_part part = {.name = "content",
                                 .store = store,
                                 .lock = &lock,
                                 .build = build,
                                 .context = &settings.front_ends[0].config};
    data.parts = &part;
    data.n_parts = 1;
    assert_true(td_data_knows(&data, "content"));
    for (size_t j = 1; j < b.count; ++j)
        if (is_new_pair(&b, 0, j) && announce_pair(&b, 0, j)) compare(&b, 0, j, &data);
    td_store_destroy(store);
    td_data_close(&data);
    bed_close(&b);
}

static void test_features_are_wanted_once(void **state)
{
    (void)state;
    char name[TD_FEATURE_NAME_BYTES + 1] = "";
    for (int i = 0; i < TD_BATCH_FEATURES; ++i) {
        snprintf(name, sizeof name, "f%d", i);
        check(td_data_want(&settings, name));
        check(td_data_want(&settings, name));
        assert_int_equal(settings.n_features, i + 1);
    }
    refuse(TD_ERR_LIMIT, "one more", td_data_want(&settings, "one more"));
    settings.n_features = 0;
    memset(name, 'x', TD_FEATURE_NAME_BYTES);
    refuse(TD_ERR_LIMIT, "xxx", td_data_want(&settings, name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_second_device_gets_the_same, set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_features_are_wanted_once, set_up, temp_dir_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
