/* A vocoder that learns from what a voice predicts: predictions are those of the voice's own training graph; crops of
 * them lie where crops of the recording do; the run learns and goes on to the same bytes; voices that cannot or do not
 * fit are refused. */
#include "run.h"

#include "data/data.h"
#include "device/blocking.h"
#include "train/predict.h"

/* The path of a small voice. */
static const char *make_voice(const char *family)
{
    static char path[TD_FILE_PATH_BYTES];
    const td_train_settings s = run_settings(family, family, 3);
    snprintf(path, sizeof path, "%s", run_train(&s).checkpoint);
    return path;
}

/* A loader of these features, of the training rows in order. */
typedef struct reading {
    td_data_rows rows;
    td_sampler *sampler;
    td_loader *loader;
} reading;

static void open_reading(reading *r, td_data *data, uint32_t crop_frames, const char *const *features)
{
    data->settings.n_features = 0;
    data->settings.crop_frames = crop_frames;
    for (; *features; features++)
        check(td_data_want(&data->settings, *features));
    *r = (reading){
        .rows = {.rows = data->dataset->train, .n_rows = data->dataset->n_train, .last = TD_LAST_KEEP}};
    check(td_data_open_sampler(data, &r->rows, &r->sampler));
    check(td_data_open_loader(data, &r->rows, r->sampler, &r->loader));
}

static void close_reading(reading *r)
{
    td_loader_destroy(r->loader);
    td_sampler_destroy(r->sampler);
}

static float *read_feature(const td_batch *batch, const char *name)
{
    const td_feature *f = td_batch_find(batch, name);
    float *values = malloc(f->span.bytes);
    assert_non_null(values);
    check(td_blocking_read(run_rig.memory, f->span, batch->ready, values));
    return values;
}

/* ---------------------------------------------------------------- what is predicted */

/* The batch through the voice's training graph, [B, T, n_mels]. */
static float *run_training_graph(const td_checkpoint *voice, const td_batch *batch)
{
    const td_model_config *model = &td_checkpoint_get_info(voice)->model;
    td_graph *graph;
    td_store *store;
    td_plan *plan;
    check(td_family_build(&(td_build){.config = model, .shape = batch->shape}, &graph));
    check(td_store_create(run_rig.memory, graph, &(td_store_options){0}, &store));
    check(td_store_init(store, 0));
    check(td_checkpoint_load_voice(voice, store));
    check(td_plan_create(store, graph, &(td_plan_options){.forward_only = true}, &plan));
    for (size_t i = 0; i < td_graph_input_count(graph); i++) {
        const td_tensor input = td_graph_input_at(graph, i);
        check(td_plan_bind(plan, 0, input, td_batch_find(batch, td_graph_name(graph, input))->span));
    }
    check(td_plan_run(plan, &(td_run){.waits = &batch->ready, .n_waits = 1}, NULL));
    const td_tensor made = td_graph_find_output(graph, "predicted_mel");
    float *values = calloc(td_shape_size(td_graph_shape(graph, made)), sizeof *values);
    check(td_plan_read(plan, made, values));
    td_plan_destroy(plan);
    td_store_destroy(store);
    td_graph_destroy(graph);
    return values;
}

static void test_they_are_what_the_voice_makes(void **state)
{
    (void)state;
    static const char *const FEATURES[] = {
        "token_ids", "token_counts", "frame_counts", "mel", "pitch", "energy", NULL};
    td_checkpoint *voice;
    td_data data;
    td_predictions *predictions;
    reading r;
    td_batch batch;
    td_train_settings s = run_small_vocoder("unused", 1);
    check(td_checkpoint_open(make_voice("parallel"), &voice));
    td_predict_tokens(voice, &s.data.dataset);
    check(td_data_open(run_rig.memory, &s.data, &data));
    check(td_predict_rows(voice, &data, &predictions));
    assert_int_equal(td_predictions_count(predictions), data.dataset->n_train + data.dataset->n_val);
    open_reading(&r, &data, 0, FEATURES);
    for (int number = 0; number < 3; number++) {
        check(td_loader_next(r.loader, &batch));
        const size_t row = (size_t)batch.shape.frames * 80;
        float *expected = run_training_graph(voice, &batch), *got = malloc(row * sizeof *got);
        uint32_t *counts = (uint32_t *)read_feature(&batch, "frame_counts");
        for (uint32_t i = 0; i < batch.count; i++) {
            assert_true(td_predictions_cut(predictions, batch.rows[i], 0, batch.shape.frames, -99, got));
            for (size_t k = 0; k < row; k++)
                assert_true(k < (size_t)counts[i] * 80 ? fabsf(got[k] - expected[i * row + k]) <= 1e-4f
                                                       : got[k] == -99);
        }
        free(expected);
        free(got);
        free(counts);
        td_loader_release(r.loader, &batch, (td_point){0});
    }
    close_reading(&r);
    td_predictions_free(predictions);
    td_data_close(&data);
    td_checkpoint_close(voice);
}

/* ---------------------------------------------------------------- where crops of it lie */

/* As if a voice predicted each recording's own spectrogram; none for the last training row. */
static td_predictions *predict_the_truth(td_data *data)
{
    static const char *const FEATURES[] = {"mel", "frame_counts", NULL};
    td_predictions *out;
    reading r;
    td_batch batch;
    check(td_predictions_create(data->dataset->view.n_rows, 80, &out));
    open_reading(&r, data, 0, FEATURES);
    const size_t n = td_sampler_batches_per_epoch(r.sampler);
    for (size_t number = 0; number < n; number++) {
        check(td_loader_next(r.loader, &batch));
        float *mel = read_feature(&batch, "mel");
        uint32_t *counts = (uint32_t *)read_feature(&batch, "frame_counts");
        for (uint32_t i = 0; i < batch.count; i++)
            if (batch.rows[i] != data->dataset->train[data->dataset->n_train - 1])
                check(td_predictions_put(out, batch.rows[i], counts[i],
                                         mel + (size_t)i * batch.shape.frames * 80));
        free(mel);
        free(counts);
        td_loader_release(r.loader, &batch, (td_point){0});
    }
    close_reading(&r);
    return out;
}

/* Frames of a crop before the silence behind its recording. */
static uint32_t count_sounding(const float *wave, uint32_t samples, uint32_t hop)
{
    while (samples > 0 && wave[samples - 1] == 0)
        samples--;
    return samples / hop;
}

/* Frames whose windows lie within the crop and the recording have the same values in the recording. */
static void test_crops_lie_in_line(void **state)
{
    (void)state;
    enum { FRAMES = 17, EDGE = 3 };
    static const char *const FEATURES[] = {"mel", "predicted_mel", "is_predicted", "wave", NULL};
    const td_train_settings s = run_small_vocoder("unused", 1);
    size_t n_known = 0, n_unknown = 0, n_behind = 0;
    td_data data;
    reading r;
    td_batch batch;
    check(td_data_open(run_rig.memory, &s.data, &data));
    td_predictions *predictions = predict_the_truth(&data);
    data.predictions = predictions;
    open_reading(&r, &data, FRAMES, FEATURES);
    for (int number = 0; number < 12; number++) {
        check(td_loader_next(r.loader, &batch));
        float *mel = read_feature(&batch, "mel"), *predicted = read_feature(&batch, "predicted_mel");
        float *known = read_feature(&batch, "is_predicted"), *wave = read_feature(&batch, "wave");
        const uint32_t hop = td_mel_get_config(data.mel)->hop_samples, samples = (FRAMES - 1) * hop;
        for (uint32_t i = 0; i < batch.count; i++) {
            const uint32_t sounding = count_sounding(wave + (size_t)i * samples, samples, hop);
            const size_t first = (size_t)i * FRAMES * 80;
            assert_true(known[i] == 0 || known[i] == 1);
            assert_true(sounding >= (FRAMES - 1) / 2);
            n_known += known[i] == 1;
            n_unknown += known[i] == 0;
            n_behind += sounding < FRAMES - 1;
            for (size_t k = first + EDGE * 80; known[i] == 1 && k < first + (sounding + 1 - EDGE) * 80; k++)
                assert_true(fabsf(mel[k] - predicted[k]) <= 1e-4f);
        }
        free(wave);
        free(mel);
        free(predicted);
        free(known);
        td_loader_release(r.loader, &batch, (td_point){0});
    }
    assert_true(n_known > 0 && n_unknown > 0 && n_behind > 0);
    close_reading(&r);
    data.predictions = NULL;
    check(td_data_open_sampler(&data, &r.rows, &r.sampler));
    refuse(TD_ERR_ARGUMENT, "from what a voice predicts",
           td_data_open_loader(&data, &r.rows, r.sampler, &r.loader));
    td_sampler_destroy(r.sampler);
    td_predictions_free(predictions);
    td_data_close(&data);
}

/* ---------------------------------------------------------------- runs */

static void test_it_learns_and_goes_on(void **state)
{
    (void)state;
    run_losses losses = {0};
    td_train_settings s = run_small_vocoder("whole", 12);
    s.acoustic = make_voice("parallel");
    s.tell = run_keep_loss;
    s.context = &losses;
    const td_train_result whole = run_train(&s);
    assert_true(losses.values[10] + losses.values[11] < 0.95 * (losses.values[0] + losses.values[1]));
    s.run_dir = temp_path("parts");
    s.max_steps = 6;
    run_train(&s);
    s.max_steps = 12;
    const td_train_result second = run_train(&s);
    assert_true(run_is_same(whole.checkpoint, second.checkpoint));
    s = run_small_vocoder("without", 12);
    const td_train_result without = run_train(&s);
    assert_false(run_is_same(whole.checkpoint, without.checkpoint));
}

static void refuse_run(const td_train_settings *s, td_status expected, const char *says)
{
    td_train_result result;
    refuse(expected, says, td_train_run(run_rig.device, run_rig.device, s, &result));
}

static void test_voices_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    td_train_settings s = run_small_vocoder("refused", 1);
    s.acoustic = temp_path("nothing.safetensors");
    refuse_run(&s, TD_ERR_NOT_FOUND, "nothing.safetensors");
    s.acoustic = make_voice("vocoder");
    refuse_run(&s, TD_ERR_CONFIG, "does not predict along a recording");
    td_train_settings other = run_settings("parallel", "other", 1);
    other.acoustic = make_voice("toy");
    refuse_run(&other, TD_ERR_CONFIG, "training.acoustic is for vocoders");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_they_are_what_the_voice_makes, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_crops_lie_in_line, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_it_learns_and_goes_on, run_set_up, temp_dir_remove),
        cmocka_unit_test_setup_teardown(test_voices_that_do_not_fit_are_refused, run_set_up, temp_dir_remove),
    };
    return cmocka_run_group_tests(tests, run_open, run_close);
}
