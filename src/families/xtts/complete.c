/* See hear.h: a voice that was begun from nothing gets a vocoder and a speaker encoder, with which it can be heard and
 * trained. Nobody trains the speaker encoder: drawn weights still tell speakers apart, by less. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "audio/mel_tables.h"
#include "base/error.h"
#include "base/log.h"
#include "base/rng.h"
#include "families/carried.h"
#include "families/xtts/hear.h"
#include "families/xtts/xtts_layout.h"

#define PI 3.14159265358979323846
#define DECODER "hifigan_decoder."
#define EMPHASIS 0.97f
#define TOP_HZ 8000.0f

/* Tensors that are drawn. */
typedef struct drawing {
    const td_checkpoint *voice;
    const td_xtts *c;
    uint64_t seed;
    td_checkpoint_tensor_data *tensors; /* owned, and their names and data */
    size_t n, capacity;
} drawing;

static bool ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), k = strlen(end);
    return n >= k && strcmp(name + n - k, end) == 0;
}

static bool has_tensor(const td_checkpoint *voice, const char *name)
{
    char state[TD_XTTS_NAME_BYTES + 8];
    snprintf(state, sizeof state, "state.%s", name);
    return td_carried_has(voice, name) || td_safetensors_find(td_checkpoint_file(voice), state) != NULL;
}

/* ---------------------------------------------------------------- values */

/* The front end of the speaker encoder: a window of Hamming's over 16 kHz, bands of HTK's scale. */
static td_status fill_filters(const td_xtts *c, float *values)
{
    td_mel_config m = td_mel_config_torch();
    m.rate = TD_XTTS_SPEAKER_RATE;
    m.n_fft = TD_XTTS_SPEAKER_FFT;
    m.n_mels = c->speaker_mels;
    m.fmin_hz = 0;
    m.fmax_hz = TOP_HZ;
    m.area_norm = false;
    return td_mel_filterbank(&m, false, values);
}

static void fill_window(size_t n, float *values)
{
    for (size_t i = 0; i < n; i++)
        values[i] = (float)(0.54 - 0.46 * cos(2 * PI * (double)i / (double)n));
}

static void fill_all(size_t n, float value, float *values)
{
    for (size_t i = 0; i < n; i++)
        values[i] = value;
}

/* Uniform as the number of inputs asks for; sizes of weight norm are those of the vectors that are drawn so. */
static td_status fill(const drawing *d, const td_xtts_tensor *t, size_t n, float *values)
{
    const bool is_scale = t->rank == 1 && ends_with(t->name, ".weight");
    if (ends_with(t->name, "mel_scale.fb")) return fill_filters(d->c, values);
    if (ends_with(t->name, "spectrogram.window")) {
        fill_window(n, values);
    } else if (ends_with(t->name, "torch_spec.0.filter")) {
        values[0] = -EMPHASIS;
        values[n - 1] = 1;
    } else if (is_scale || ends_with(t->name, ".running_var")) {
        fill_all(n, 1, values);
    } else if (ends_with(t->name, ".original0")) {
        fill_all(n, 1 / sqrtf(3), values);
    } else if (t->rank > 1) {
        const float bound = 1 / sqrtf((float)n / (float)t->dims[0]);
        const uint64_t stream = td_hash64(t->name, strlen(t->name));
        for (size_t i = 0; i < n; i++)
            values[i] = bound * (2 * td_rng_float(d->seed, stream, i) - 1);
    } /* biases and means are 0 */
    return TD_OK;
}

/* ---------------------------------------------------------------- tensors */

static td_status draw(void *context, const td_xtts_tensor *t)
{
    drawing *d = context;
    char *name = NULL;
    void *values = NULL;
    size_t n = 1;
    td_status status = TD_OK;
    if (strncmp(t->name, DECODER, strlen(DECODER)) != 0 || has_tensor(d->voice, t->name)) return TD_OK;
    TD_TRY(td_alloc_grow(&d->tensors, &d->capacity, d->n + 1, sizeof *d->tensors));
    for (size_t i = 0; i < t->rank; i++)
        n *= (size_t)t->dims[i];
    const size_t bytes = n * (t->is_integer ? sizeof(int64_t) : sizeof(float));
    TD_TRY(TD_NEW_ARRAY((char **)&values, bytes));
    TD_TRY(TD_NEW_ARRAY(&name, strlen(t->name) + 1));
    memcpy(name, t->name, strlen(t->name) + 1);
    if (!t->is_integer) TD_TRY(fill(d, t, n, values));
    d->tensors[d->n] =
        (td_checkpoint_tensor_data){.prefix = "",
                                    .name = name,
                                    .dtype = t->is_integer ? TD_SAFETENSORS_I64 : TD_SAFETENSORS_F32,
                                    .rank = t->rank,
                                    .data = values,
                                    .bytes = bytes};
    memcpy(d->tensors[d->n++].dims, t->dims, sizeof t->dims);
    return TD_OK;
fail:
    free(values);
    free(name);
    return status;
}

td_status td_xtts_complete(const td_checkpoint *voice, uint64_t seed, const char *path, bool *is_made)
{
    const td_checkpoint_info *info = td_checkpoint_get_info(voice);
    const td_xtts c = td_xtts_get(&info->model);
    drawing d = {.voice = voice, .c = &c, .seed = seed};
    td_carried whole = {0};
    td_status status = TD_OK;
    *is_made = false;
    TD_TRY(td_xtts_walk(&c, draw, &d));
    if (d.n == 0) goto fail;
    whole = (td_carried){.tensors = d.tensors, .n_tensors = d.n};
    TD_TRY(td_carried_join(voice, &whole));
    TD_TRY(td_checkpoint_write(path, info, whole.pairs, whole.n_pairs, whole.tensors, whole.n_tensors));
    td_log_info(
        "'%s' has no vocoder that is whole: %zu tensors of it and of the speaker encoder come from the seed",
        td_checkpoint_path(voice), d.n);
    *is_made = true;
fail:
    td_carried_free(&whole);
    for (size_t i = 0; i < d.n; i++) {
        free((void *)(uintptr_t)d.tensors[i].name);
        free((void *)(uintptr_t)d.tensors[i].data);
    }
    free(d.tensors);
    return status;
}
