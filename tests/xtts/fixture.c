/* See fixture.h. */
#include "fixture.h"

#include <math.h>
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/temp_dir.h"

const char *const golden_cases[GOLDEN_CASES] = {"a", "b", "c"};

#define MOST_TENSORS 1024

/* ---------------------------------------------------------------- the file */

static void find_golden(const char *name, char *path, size_t capacity)
{
    snprintf(path, capacity, GOLDEN_DIR "/%s", name);
}

const void *golden_values(const golden *g, const char *name, size_t count)
{
    const td_safetensors_tensor *t = td_safetensors_find(g->file, name);
    if (!t) fail_msg("the golden file has no %s", name);
    if (count && t->bytes != 4 * count)
        fail_msg("%s has %zu values instead of %zu", name, (size_t)t->bytes / 4, count);
    return t->data;
}

size_t golden_count(const golden *g, const char *name)
{
    golden_values(g, name, 0);
    return (size_t)td_safetensors_find(g->file, name)->bytes / 4;
}

const char *golden_text(const golden *g, const char *key)
{
    const char *text = td_safetensors_metadata_find(g->file, key);
    if (!text) fail_msg("the golden file says nothing of %s", key);
    return text;
}

double golden_number(const golden *g, const char *key)
{
    return strtod(golden_text(g, key), NULL);
}

void golden_compare(const golden *g, const char *name, const float *got, size_t count, double tolerance)
{
    const double error = relative_error(got, golden_values(g, name, count), count);
    if (!(error <= tolerance)) fail_msg("%s is wrong by %.3g; %.3g is allowed", name, error, tolerance);
}

void golden_compare_strided(const golden *g, const char *name, const float *got, size_t count,
                            double tolerance)
{
    const size_t stride = (size_t)golden_number(g, "stride"), n = (count + stride - 1) / stride;
    float *some = calloc(n, sizeof *some);
    assert_non_null(some);
    for (size_t i = 0; i < n; i++)
        some[i] = got[i * stride];
    golden_compare(g, name, some, n, tolerance);
    free(some);
}

/* ---------------------------------------------------------------- weights */

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* As first_values() of the script. */
static float first_value(const char *name, const td_checkpoint_tensor_data *t, float v, float bound)
{
    if (ends_with(name, "running_var")) return 1 + 0.3f * v;
    if (ends_with(name, "running_mean") || ends_with(name, "bias")) return 0.1f * v;
    if (strcmp(name, "mel_stats") == 0) return 2 + 0.5f * v;
    if (ends_with(name, "original0")) return 0.75f + 0.25f * v;
    if (ends_with(name, "original1")) return v;
    if (t->rank == 1) return 1 + 0.1f * v;
    if (strstr(name, "embedding") || ends_with(name, "latents")) return 0.5f * v;
    return bound * v;
}

uint64_t golden_hash(const char *name, size_t i)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char *c = name; *c; c++)
        hash = (hash ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
    uint64_t x = hash + (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

void golden_fill(const char *name, const td_checkpoint_tensor_data *t, float *values)
{
    const size_t n = (size_t)t->bytes / 4;
    const double inputs = strstr(name, ".c_") ? (double)t->dims[0] : (double)n / (double)t->dims[0];
    const float bound = (float)((ends_with(name, "mel_head.weight") ? 4 : 1) * sqrt(3 / inputs));
    for (size_t i = 0; i < n; i++)
        values[i] = first_value(name, t, (float)(golden_hash(name, i) >> 40) * 0x1p-23f - 1, bound);
}

/* The front end of the speaker encoder, which is part of its state. */
static void fill_front_end(const golden *g, const char *name, float *values, size_t n)
{
    const int32_t *at = golden_values(g, "filter_at", 0);
    const float *filters = golden_values(g, "filters", 0);
    if (ends_with(name, "filter")) memcpy(values, (const float[]){-0.97f, 1}, 8);
    if (ends_with(name, "window")) memcpy(values, golden_values(g, "window", n), 4 * n);
    for (size_t i = 0; ends_with(name, "fb") && i < golden_count(g, "filters"); i++)
        values[at[i]] = filters[i];
}

/* Reads "NAME DIM DIM ..". */
static void read_tensor(const golden *g, char *line, td_checkpoint_tensor_data *out)
{
    char *rest;
    char *name = strtok_r(line, " ", &rest);
    size_t n = 1;
    *out = (td_checkpoint_tensor_data){.prefix = "", .name = name, .dtype = TD_SAFETENSORS_F32};
    for (const char *dim = strtok_r(NULL, " ", &rest); dim; dim = strtok_r(NULL, " ", &rest)) {
        assert_true(out->rank < 4);
        out->dims[out->rank] = strtoull(dim, NULL, 10);
        n *= (size_t)out->dims[out->rank++];
    }
    float *values = calloc(n, sizeof *values);
    assert_non_null(values);
    out->data = values;
    out->bytes = n * sizeof *values;
    if (strstr(name, "torch_spec"))
        fill_front_end(g, name, values, n);
    else
        golden_fill(name, out, values);
    if (strcmp(name, "gpt.mel_head.bias") == 0) {
        values[n - 1] += (float)golden_number(g, "stop_bias");
        values[g->biased_code] += g->bias;
    }
    if (g->change) g->change(name, values, n);
}

/* ---------------------------------------------------------------- the voice */

static void read_config(golden *g, td_model_config *out)
{
    check(td_model_preset(td_family_find("xtts"), "base", out));
    for (size_t i = 0; i < td_safetensors_metadata_count(g->file); i++) {
        const td_safetensors_pair *pair = td_safetensors_metadata_at(g->file, i);
        if (strncmp(pair->key, "model.", 6) == 0) check(td_model_config_put(out, pair->key + 6, pair->value));
    }
    check(td_model_config_check(out));
    g->c = td_xtts_get(out);
}

/* A speaker that the voice knows by name: the one that the package knew the recordings as. */
static void add_speaker(const golden *g, td_checkpoint_tensor_data *out)
{
    static const char *const from[] = {"cond_latents", "speaker_embedding"};
    static const char *const names[] = {"speakers.Ana.gpt_cond_latent", "speakers.Ana.speaker_embedding"};
    for (size_t i = 0; i < 2; i++) {
        const size_t n = golden_count(g, from[i]), width = g->c.gpt_n_model_channels;
        float *values = calloc(n, sizeof *values);
        assert_non_null(values);
        memcpy(values, golden_values(g, from[i], n), 4 * n);
        out[i] = (td_checkpoint_tensor_data){.prefix = "",
                                             .name = names[i],
                                             .dtype = TD_SAFETENSORS_F32,
                                             .rank = 3,
                                             .dims = {1, i ? n : n / width, i ? 1 : width},
                                             .data = values,
                                             .bytes = 4 * n};
    }
}

static void write_voice(golden *g)
{
    static td_checkpoint_tensor_data tensors[MOST_TENSORS];
    const td_safetensors_tensor *list = td_safetensors_find(g->file, "tensors");
    char tokenizer[300], *rest, *text = strndup(list->data, (size_t)list->bytes);
    td_checkpoint_info info = {.token_kind = TD_TOKENS_BPE,
                               .symbols = "",
                               .tokenizer = tokenizer,
                               .language = "en",
                               .speakers = "Ana"};
    size_t n = 0;
    find_golden("xtts_vocab.json", tokenizer, sizeof tokenizer);
    read_config(g, &info.model);
    info.mel = td_xtts_conditioning_mel(&g->c);
    info.front_ends[0] = td_xtts_dvae_mel(&g->c);
    for (char *line = strtok_r(text, ";", &rest); line; line = strtok_r(NULL, ";", &rest)) {
        assert_true(n + 2 < MOST_TENSORS);
        read_tensor(g, line, &tensors[n++]);
    }
    add_speaker(g, &tensors[n]);
    n += 2;
    snprintf(g->voice, sizeof g->voice, "%s/voice.safetensors", g->folder);
    check(td_checkpoint_write(g->voice, &info, NULL, 0, tensors, n));
    for (size_t i = 0; i < n; i++)
        free((void *)(uintptr_t)tensors[i].data);
    free(text);
}

/* ---------------------------------------------------------------- recordings */

/* As recording() of the script. */
static int16_t record(int64_t i, int64_t rate, int64_t channel, int64_t seed)
{
    const int64_t periods[] = {rate / (110 + 13 * seed), rate / (420 + 31 * channel),
                               rate / (1900 + 170 * seed)};
    int64_t s = 0;
    for (int k = 0; k < 3; k++)
        s += llabs(2 * (i % periods[k]) - periods[k]) * (9000 >> k) / periods[k] - (4500 >> k);
    const int64_t noise = (((i + 977 * channel) * 1103515245 + 12345 * seed) >> 7) % 2048 - 1024;
    const int64_t product = s * (40 + llabs(i % 9000 - 4500) / 25);
    return (int16_t)((product >= 0 ? product / 256 : -((-product + 255) / 256)) + noise);
}

void golden_record(const char *path, long rate, long channels, long samples, long seed)
{
    SF_INFO info = {
        .samplerate = (int)rate, .channels = (int)channels, .format = SF_FORMAT_WAV | SF_FORMAT_PCM_16};
    int16_t *values = calloc((size_t)(samples * channels), sizeof *values);
    assert_non_null(values);
    for (long i = 0; i < samples * channels; i++)
        values[i] = record(i / channels, rate, i % channels, seed);
    SNDFILE *file = sf_open(path, SFM_WRITE, &info);
    assert_non_null(file);
    assert_int_equal(sf_writef_short(file, values, samples), samples);
    sf_close(file);
    free(values);
}

static void write_reference(golden *g, const char *line)
{
    long rate, channels, samples, seed;
    char *path = g->references[g->n_references];
    assert_int_equal(sscanf(line, "%ld %ld %ld %ld", &rate, &channels, &samples, &seed), 4);
    snprintf(path, sizeof g->references[0], "%s/reference-%zu.wav", g->folder, g->n_references);
    golden_record(path, rate, channels, samples, seed);
    g->paths[g->n_references++] = path;
}

void golden_open_numbers(golden *out, const char *name, td_model_config *config)
{
    char path[300], file[64];
    *out = (golden){0};
    snprintf(file, sizeof file, "xtts_%s.safetensors", name);
    find_golden(file, path, sizeof path);
    check(td_safetensors_open(path, &out->file));
    read_config(out, config);
}

void golden_open(golden *out, const char *name)
{
    golden_open_biased(out, name, 0, 0);
}

void golden_open_biased(golden *out, const char *name, size_t code, float bias)
{
    golden_open_changed(out, name, code, bias, NULL);
}

void golden_open_changed(golden *out, const char *name, size_t code, float bias,
                         void (*change)(const char *name, float *values, size_t n))
{
    td_model_config config;
    char *rest;
    golden_open_numbers(out, name, &config);
    out->biased_code = code;
    out->bias = bias;
    out->change = change;
    assert_int_equal(temp_dir_make(NULL), 0);
    snprintf(out->folder, sizeof out->folder, "%s", temp_dir);
    write_voice(out);
    char *text = strdup(golden_text(out, "references"));
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        write_reference(out, line);
    free(text);
}

void golden_close(golden *g)
{
    td_safetensors_close(g->file);
    if (g->folder[0]) assert_int_equal(temp_dir_remove(NULL), 0);
}
