/* What XTTS learns from, made by the data device: codes, conditioning slices and texts, against what the public package
 * makes of the same recordings (tests/oracle/make_xtts_dvae_golden.py). Loaders have ragged batches, the package had
 * each recording by itself. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "audio/decode.h"
#include "audio/mel_clip.h"
#include "data/data.h"
#include "device/blocking.h"
#include "families/xtts/xtts_layout.h"
#include "fixture.h"
#include "support/temp_dir.h"
#include "train/frozen.h"

enum { MOST_CLIPS = 4, MOST_TENSORS = 512, RATE = 22050 };

#define VOCAB GOLDEN_DIR "/xtts_vocab.json"

static const char *const CASES[] = {"a", "b", "c"};
enum { N_CASES = sizeof CASES / sizeof CASES[0] };

/* A shrunk voice with a DVAE, recordings, and loaders of both. */
typedef struct lesson {
    rig r;
    golden g; /* its file alone */
    const char *name;
    td_model_config model;
    td_checkpoint *voice;
    td_frozen *frozen;
    td_data data;
    size_t n_clips;
    long samples[MOST_CLIPS];
} lesson;

/* ---------------------------------------------------------------- the voice */

typedef struct tensors {
    const lesson *l;
    td_checkpoint_tensor_data at[MOST_TENSORS];
    char names[MOST_TENSORS][TD_XTTS_NAME_BYTES];
    size_t count;
} tensors;

static td_status add_tensor(void *context, const td_xtts_tensor *t)
{
    tensors *all = context;
    char name[TD_XTTS_NAME_BYTES + 4];
    const bool is_stats = strcmp(t->name, "mel_stats") == 0;
    if (strncmp(t->name, "hifigan_decoder.", 16) == 0) return TD_OK; /* is not trained with */
    assert_true(all->count < MOST_TENSORS);
    td_checkpoint_tensor_data *out = &all->at[all->count];
    size_t n = 1;
    snprintf(all->names[all->count], sizeof all->names[0], "%s", t->name);
    *out = (td_checkpoint_tensor_data){
        .prefix = "", .name = all->names[all->count++], .dtype = TD_SAFETENSORS_F32, .rank = t->rank};
    for (size_t d = 0; d < t->rank; d++)
        n *= (size_t)(out->dims[d] = t->dims[d]);
    float *values = calloc(n, sizeof *values);
    assert_non_null(values);
    out->data = values;
    out->bytes = 4 * n;
    snprintf(name, sizeof name, "%s:%s", all->l->name, t->name);
    if (strcmp(t->name, "dvae.codebook.embed") == 0)
        memcpy(values, golden_values(&all->l->g, "codebook", n), 4 * n);
    else
        golden_fill(is_stats ? t->name : name, out, values);
    return TD_OK;
}

static void write_voice(lesson *l)
{
    static tensors all;
    const td_checkpoint_info info = {.model = l->model,
                                     .mel = td_xtts_conditioning_mel(&l->g.c),
                                     .front_ends = {td_xtts_dvae_mel(&l->g.c)},
                                     .token_kind = TD_TOKENS_BPE,
                                     .symbols = "",
                                     .tokenizer = VOCAB,
                                     .language = "en",
                                     .speakers = ""};
    all = (tensors){.l = l};
    check(td_xtts_walk(&l->g.c, add_tensor, &all));
    check(td_checkpoint_write(temp_path("voice.safetensors"), &info, NULL, 0, all.at, all.count));
    for (size_t i = 0; i < all.count; i++)
        free((void *)(uintptr_t)all.at[i].data);
}

/* ---------------------------------------------------------------- the recordings */

static void write_clips(lesson *l)
{
    static const char *const TEXTS[] = {"hello there", "dear friend.", "the camera was left under the bridge",
                                        "we see"};
    FILE *table = fopen(temp_path("metadata.csv"), "w");
    char *rest, *text = strdup(golden_text(&l->g, "clips"));
    assert_non_null(table);
    assert_int_equal(mkdir(temp_path("wavs"), 0700), 0);
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        long seed;
        char name[32];
        assert_int_equal(sscanf(line, "%ld %ld", &l->samples[l->n_clips], &seed), 2);
        snprintf(name, sizeof name, "wavs/%zu.wav", l->n_clips);
        golden_record(temp_path(name), RATE, 1, l->samples[l->n_clips], seed);
        fprintf(table, "%zu|%s\n", l->n_clips, TEXTS[l->n_clips]);
        ++l->n_clips;
    }
    fclose(table);
    free(text);
}

static void open_data(lesson *l)
{
    static char cache[300];
    static const char *const FEATURES[] = {"text_ids",    "text_counts", "codes",     "code_counts",
                                           "wave_counts", "cond_mel",    "cond_range"};
    static const char *const INNER[] = {"dvae_mel", "dvae_mel_counts", "reference_mel", "wave_counts"};
    snprintf(cache, sizeof cache, "%s/cache", temp_dir);
    td_data_settings s = {.dataset = {.dir = temp_dir,
                                      .language = "en",
                                      .tokens = TD_TOKENS_BPE,
                                      .bpe_path = VOCAB,
                                      .romanizes = true,
                                      .refuses_unknown = true,
                                      .cache_dir = cache,
                                      .seed = 7},
                          .workers = 2,
                          .batch_size = (uint32_t)l->n_clips,
                          .n_buckets = 1,
                          .mel = td_xtts_conditioning_mel(&l->g.c),
                          .n_front_ends = 1,
                          .slice = td_model_describe(&l->model).slice};
    s.front_ends[0].name = "dvae_mel";
    s.front_ends[0].config = td_xtts_dvae_mel(&l->g.c);
    for (size_t i = 0; i < sizeof FEATURES / sizeof FEATURES[0]; i++)
        check(td_data_want(&s, FEATURES[i]));
    for (size_t i = 0; i < sizeof INNER / sizeof INNER[0]; i++)
        check(td_data_want_inner(&s, INNER[i]));
    check(td_data_open(l->r.memory, &s, &l->data));
    assert_int_equal(l->data.dataset->n_train, l->n_clips);
}

static bool open_lesson(lesson *l, rig_kind kind, const char *name)
{
    char path[300];
    *l = (lesson){.name = name};
    if (!rig_open(&l->r, kind, 0)) return false;
    assert_int_equal(temp_dir_make(NULL), 0);
    snprintf(path, sizeof path, GOLDEN_DIR "/xtts_dvae_%s.safetensors", name);
    check(td_safetensors_open(path, &l->g.file));
    check(td_model_preset(td_family_find("xtts"), "pico", &l->model));
    for (size_t i = 0; i < td_safetensors_metadata_count(l->g.file); i++) {
        const td_safetensors_pair *pair = td_safetensors_metadata_at(l->g.file, i);
        if (strncmp(pair->key, "model.", 6) == 0)
            check(td_model_config_put(&l->model, pair->key + 6, pair->value));
    }
    l->g.c = td_xtts_get(&l->model);
    write_voice(l);
    write_clips(l);
    open_data(l);
    check(td_checkpoint_open(temp_path("voice.safetensors"), &l->voice));
    check(td_frozen_open(l->r.memory, &l->model, 1, l->voice, false, &l->frozen));
    check(td_frozen_join(l->frozen, &l->data));
    return true;
}

static void close_lesson(lesson *l)
{
    td_data_close(&l->data);
    td_frozen_close(l->frozen);
    td_checkpoint_close(l->voice);
    td_safetensors_close(l->g.file);
    rig_close(&l->r);
    assert_int_equal(temp_dir_remove(NULL), 0);
}

/* ---------------------------------------------------------------- batches */

typedef struct running {
    lesson *l;
    td_sampler *sampler;
    td_loader *loader;
    td_batch batch;
} running;

static running start(lesson *l, bool in_order, td_sampler_state state)
{
    running r = {.l = l};
    const td_data_rows rows = {.rows = l->data.dataset->train,
                               .n_rows = l->n_clips,
                               .in_order = in_order,
                               .state = state,
                               .n_batches = 3};
    check(td_data_open_sampler(&l->data, &rows, &r.sampler));
    check(td_data_open_loader(&l->data, &rows, r.sampler, &r.loader));
    check(td_loader_next(r.loader, &r.batch));
    return r;
}

static void go_on(running *r)
{
    td_loader_release(r->loader, &r->batch, (td_point){0});
    check(td_loader_next(r->loader, &r->batch));
}

static void end(running *r)
{
    td_loader_destroy(r->loader);
    td_sampler_destroy(r->sampler);
}

/* Owned. */
static void *fetch(const running *r, const char *name)
{
    const td_feature *f = td_batch_find(&r->batch, name);
    if (f == NULL) fail_msg("a batch has no %s", name);
    void *values = malloc(f->span.bytes);
    assert_non_null(values);
    check(td_blocking_read(r->l->r.memory, f->span, r->batch.ready, values));
    return values;
}

/* The recording that an item is of. */
static size_t find_clip(const running *r, size_t item)
{
    return (size_t)atoi(td_dataset_id(r->l->data.dataset, r->batch.rows[item]));
}

static uint32_t count_axis(const running *r, const char *name)
{
    return td_batch_find(&r->batch, name)->shape.dims[1];
}

/* ---------------------------------------------------------------- tests */

static void check_codes(const running *r)
{
    uint32_t *codes = fetch(r, "codes"), *counts = fetch(r, "code_counts"),
             *samples = fetch(r, "wave_counts");
    const uint32_t room = count_axis(r, "codes");
    assert_int_equal(td_batch_find(&r->batch, "codes")->dtype, TD_U32);
    for (size_t i = 0; i < r->l->n_clips; i++) {
        char name[16];
        const size_t clip = find_clip(r, i);
        snprintf(name, sizeof name, "codes.%zu", clip);
        const size_t n = golden_count(&r->l->g, name);
        const uint32_t *expected = golden_values(&r->l->g, name, n);
        assert_int_equal(samples[i], r->l->samples[clip]);
        assert_int_equal(counts[i], (r->l->samples[clip] + 1023) / 1024);
        assert_in_range(n, counts[i], room);
        for (size_t k = 0; k < room; k++)
            if (codes[i * room + k] != (k < n ? expected[k] : 0))
                fail_msg("case %s: code %zu of recording %zu is %u", r->l->name, k, clip,
                         codes[i * room + k]);
    }
    free(codes);
    free(counts);
    free(samples);
}

static void check_case(rig_kind kind, const char *name)
{
    lesson l;
    if (!open_lesson(&l, kind, name)) skip();
    running r = start(&l, true, (td_sampler_state){0});
    check_codes(&r);
    assert_true(td_batch_find(&r.batch, "dvae_mel")->is_inner);
    assert_false(td_batch_find(&r.batch, "wave_counts")->is_inner);
    assert_int_equal(r.batch.n_made,
                     1 + 3 * 4); /* front ends, and three parts with their copies are measured */
    end(&r);
    close_lesson(&l);
}

static void test_codes_are_the_package_s(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_CASES; i++)
        check_case(RIG_CL_CPU, CASES[i]);
}

static void test_codes_on_other_devices(void **state)
{
    (void)state;
    check_case(RIG_CL_GPU, "b");
    check_case(RIG_VK, "c");
}

/* Validation: always the same slice, and nothing is masked. */
static void test_slices_of_validation_are_the_package_s(void **state)
{
    (void)state;
    lesson l;
    if (!open_lesson(&l, RIG_CL_CPU, "a")) skip();
    running r = start(&l, true, (td_sampler_state){0});
    float *mel = fetch(&r, "cond_mel");
    uint32_t *range = fetch(&r, "cond_range");
    const size_t n = (size_t)517 * l.g.c.n_mels;
    assert_int_equal(count_axis(&r, "cond_mel"), 517);
    for (size_t i = 0; i < l.n_clips; i++) {
        char name[16];
        snprintf(name, sizeof name, "cond_mel.%zu", find_clip(&r, i));
        golden_compare_strided(&l.g, name, mel + i * n, n, 5e-6);
        assert_int_equal(range[2 * i] + range[2 * i + 1], 0);
    }
    free(mel);
    free(range);
    end(&r);
    close_lesson(&l);
}

/* What the front end makes of one slice and the silence behind it. */
static void check_slice(const lesson *l, size_t clip, const uint32_t range[2], const float *got)
{
    const uint32_t most = 6 * RATE;
    float *samples = calloc(most, sizeof *samples), *mel, *stats;
    char name[32];
    td_audio audio = {0};
    td_mel_clip made;
    const td_safetensors_tensor *t;
    snprintf(name, sizeof name, "wavs/%zu.wav", clip);
    check(td_audio_decode(temp_path(name), &(td_decode_options){0}, &audio));
    assert_true(range[1] <= audio.count && range[0] < range[1]);
    memcpy(samples, audio.samples + range[0], 4 * (size_t)(range[1] - range[0]));
    check(td_mel_clip_make(l->data.mel, l->r.memory, samples, most, &made));
    const size_t bands = l->g.c.n_mels, n = made.frames * bands;
    mel = malloc(4 * n);
    check(td_blocking_read(l->r.memory, td_span_part(made.mel, 0, 4 * n), (td_point){0}, mel));
    check(td_checkpoint_tensor(l->voice, "param.", "mel_stats", &t));
    stats = (float *)(uintptr_t)t->data;
    for (size_t i = 0; i < n; i++)
        mel[i] /= stats[i % bands];
    assert_true(relative_error(got, mel, n) <= 1e-6);
    td_memory_free(l->r.memory, made.mel);
    td_audio_free(&audio);
    free(samples);
    free(mel);
}

/* Training: another slice in each epoch, of the length that the rule allows, and the same one after a restart. */
static void test_slices_of_training_are_drawn_and_come_back(void **state)
{
    (void)state;
    lesson l;
    if (!open_lesson(&l, RIG_CL_CPU, "a")) skip();
    running r = start(&l, false, (td_sampler_state){0});
    uint32_t *first = fetch(&r, "cond_range");
    float *mel = fetch(&r, "cond_mel");
    size_t clips[MOST_CLIPS];
    for (size_t i = 0; i < l.n_clips; i++) {
        const size_t clip = clips[i] = find_clip(&r, i);
        const uint32_t *range = first + 2 * i, length = range[1] - range[0];
        if (l.samples[clip] < 3 * RATE)
            assert_int_equal(length, l.samples[clip] / 2);
        else
            assert_in_range(length, 3 * RATE, 6 * RATE);
        check_slice(&l, clip, range, mel + i * 517 * l.g.c.n_mels);
    }
    go_on(&r); /* the next epoch */
    const td_sampler_state after = {.epoch = 1};
    uint32_t *second = fetch(&r, "cond_range");
    for (size_t i = 0; i < l.n_clips; i++) {
        size_t k = 0;
        while (find_clip(&r, k) != clips[i])
            ++k;
        assert_memory_not_equal(first + 2 * i, second + 2 * k, 8);
    }
    running again = start(&l, false, after);
    uint32_t *third = fetch(&again, "cond_range");
    assert_memory_equal(second, third, 8 * l.n_clips);
    free(first);
    free(second);
    free(third);
    free(mel);
    end(&r);
    end(&again);
    close_lesson(&l);
}

/* A second loader finds the codes on the disk, by the samples. */
static void test_codes_are_kept(void **state)
{
    (void)state;
    lesson l;
    if (!open_lesson(&l, RIG_CL_CPU, "b")) skip();
    running r = start(&l, true, (td_sampler_state){0});
    assert_int_equal(td_loader_count(r.loader).n_kept, 0);
    go_on(&r);
    go_on(&r);
    end(&r);
    r = start(&l, true, (td_sampler_state){0});
    assert_true(td_loader_count(r.loader).n_kept >= l.n_clips);
    check_codes(&r);
    end(&r);
    close_lesson(&l);
}

/* A voice without a DVAE is refused, and so is one that lacks a tensor of it. */
static void test_a_voice_without_dvae_is_refused(void **state)
{
    (void)state;
    lesson l;
    td_frozen *frozen;
    td_model_config without;
    if (!open_lesson(&l, RIG_CL_CPU, "c")) skip();
    without = l.model;
    check(td_model_config_put(&without, "dvae_hidden", "0"));
    refuse(TD_ERR_ARGUMENT, "dvae.pth", td_frozen_open(l.r.memory, &without, 1, l.voice, false, &frozen));
    without = l.model;
    check(td_model_config_put(&without, "dvae_blocks", "2"));
    refuse(TD_ERR_CONFIG, "dvae.encoder.3", td_frozen_open(l.r.memory, &without, 1, l.voice, false, &frozen));
    close_lesson(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes_are_the_package_s),
        cmocka_unit_test(test_codes_on_other_devices),
        cmocka_unit_test(test_slices_of_validation_are_the_package_s),
        cmocka_unit_test(test_slices_of_training_are_drawn_and_come_back),
        cmocka_unit_test(test_codes_are_kept),
        cmocka_unit_test(test_a_voice_without_dvae_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
