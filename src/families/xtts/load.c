/* See load.h. */
#include "families/xtts/load.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "families/xtts/lora.h"
#include "nn/bytes.h"
#include "ops/decode.h"
#include "torch/convert.h"

#define NAME_BYTES TD_SAFETENSORS_MAX_NAME_BYTES

/* ---------------------------------------------------------------- numbers */

static td_status convert(const td_safetensors_tensor *t, float *out)
{
    if (!td_convert_can(t->dtype, TD_SAFETENSORS_F32))
        return TD_FAIL(TD_ERR_FORMAT, "tensor %s is %s; F32, F16 and BF16 can be spoken with", t->name,
                       td_safetensors_dtype_name(t->dtype));
    td_convert(t->data, t->dtype, TD_SAFETENSORS_F32, t->bytes / td_safetensors_dtype_bytes(t->dtype), out);
    return TD_OK;
}

/* A tensor that the voice cannot do without, or NULL where another spelling is tried next. */
static td_status find(const td_checkpoint *file, const char *name, const td_safetensors_tensor **out)
{
    static const char *const prefixes[] = {"", "param.", "state."}; /* imported; written here */
    *out = NULL;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        char whole[NAME_BYTES];
        snprintf(whole, sizeof whole, "%s%s", prefixes[i], name);
        if (!td_safetensors_find(td_checkpoint_file(file), whole)) continue;
        TD_CHECK(td_checkpoint_tensor(file, prefixes[i], name, out));
        break;
    }
    return TD_OK;
}

static td_status find_needed(const td_checkpoint *file, const char *name, const td_safetensors_tensor **out)
{
    TD_CHECK(find(file, name, out));
    TD_REFUSE_IF(!*out, TD_ERR_FORMAT, "'%s' has no tensor %s; import the model again",
                 td_checkpoint_path(file), name);
    return TD_OK;
}

/* ---------------------------------------------------------------- bytes */

static const char FIRST_MATRIX[] = "gpt.gpt.h.0.attn.c_attn.weight";

uint32_t td_xtts_stored_format(const td_checkpoint *checkpoint)
{
    const td_safetensors_tensor *t = td_safetensors_find(td_checkpoint_file(checkpoint), FIRST_MATRIX);
    if (!t) return TD_FORMAT_FP32; /* written here, or damaged, which loading will tell */
    return t->dtype == TD_SAFETENSORS_I8     ? TD_FORMAT_INT8
           : t->dtype == TD_SAFETENSORS_BF16 ? TD_FORMAT_BF16
                                             : TD_FORMAT_FP32;
}

td_status td_xtts_find_bytes(const td_checkpoint *checkpoint, const char *name, td_xtts_bytes *out)
{
    char scale[NAME_BYTES + sizeof TD_BYTES_SCALE];
    const td_safetensors_tensor *t, *scales;
    snprintf(scale, sizeof scale, "%s" TD_BYTES_SCALE, name);
    TD_CHECK(find_needed(checkpoint, name, &t));
    TD_CHECK(find_needed(checkpoint, scale, &scales));
    TD_REFUSE_IF(t->dtype != TD_SAFETENSORS_I8 || t->rank != 2 || scales->dtype != TD_SAFETENSORS_F32 ||
                     scales->rank != 1 || scales->dims[0] != t->dims[1],
                 TD_ERR_FORMAT, "tensor %s does not have one scale for each output; import the model again",
                 name);
    *out = (td_xtts_bytes){.bytes = t->data,
                           .scales = scales->data,
                           .in = (size_t)t->dims[0],
                           .out = (size_t)t->dims[1],
                           .tensor = t};
    return TD_OK;
}

static td_status widen(const td_checkpoint *checkpoint, const char *name, float *out)
{
    td_xtts_bytes b;
    TD_CHECK(td_xtts_find_bytes(checkpoint, name, &b));
    td_bytes_widen(b.bytes, b.in, b.out, b.scales, out);
    return TD_OK;
}

td_status td_xtts_read_tensor(const td_checkpoint *checkpoint, const char *name, float **out, size_t *count)
{
    const td_safetensors_tensor *t;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(find_needed(checkpoint, name, &t));
    *count = (size_t)(t->bytes / td_safetensors_dtype_bytes(t->dtype));
    TD_TRY(TD_NEW_ARRAY(out, *count));
    TD_TRY(t->dtype == TD_SAFETENSORS_I8 ? widen(checkpoint, name, *out) : convert(t, *out));
    TD_TRY(td_xtts_lora_merge(checkpoint, name, *out));
    td_safetensors_forget(td_checkpoint_file(checkpoint), t);
    return TD_OK;
fail:
    free(*out);
    *out = NULL;
    return status;
}

/* ---------------------------------------------------------------- weight norm */

/* Both tensors of a weight norm, in either spelling; NULL: there is none. */
static td_status find_norm(const td_checkpoint *file, const char *name, const td_safetensors_tensor *out[2])
{
    static const char *const spellings[][2] = {
        {".parametrizations.weight.original0", ".parametrizations.weight.original1"},
        {".weight_g", ".weight_v"}};
    const size_t stem = strlen(name) - strlen(".weight");
    out[0] = out[1] = NULL;
    for (size_t s = 0; s < 2 && !out[0]; s++) {
        for (size_t i = 0; i < 2; i++) {
            char part[NAME_BYTES];
            snprintf(part, sizeof part, "%.*s%s", (int)stem, name, spellings[s][i]);
            TD_CHECK(find(file, part, &out[i]));
        }
    }
    if (!out[1]) out[0] = NULL;
    return TD_OK;
}

/* w = g v / |v|, for each of the first axis. */
static td_status fold(const td_safetensors_tensor *const norm[2], float *out)
{
    const size_t rows = (size_t)norm[1]->dims[0];
    const size_t n = (size_t)(norm[1]->bytes / td_safetensors_dtype_bytes(norm[1]->dtype));
    float *scales = NULL;
    td_status status = TD_OK;
    TD_FAIL_IF(norm[0]->bytes / td_safetensors_dtype_bytes(norm[0]->dtype) != rows, TD_ERR_FORMAT,
               "tensor %s does not have one number for each of %zu rows", norm[0]->name, rows);
    TD_TRY(TD_NEW_ARRAY(&scales, rows));
    TD_TRY(convert(norm[0], scales));
    TD_TRY(convert(norm[1], out));
    for (size_t r = 0; r < rows; r++) {
        float *row = out + r * (n / rows);
        double square = 0;
        for (size_t i = 0; i < n / rows; i++)
            square += (double)row[i] * (double)row[i];
        for (size_t i = 0; i < n / rows; i++)
            row[i] = (float)((double)row[i] * (double)scales[r] / sqrt(square));
    }
fail:
    free(scales);
    return status;
}

/* ---------------------------------------------------------------- layout */

static bool is_reversed(const char *name, td_shape shape)
{
    return shape.n_dims >= 3 && strncmp(name, "hifigan_decoder.", 16) == 0;
}

static bool fits(const char *name, td_shape shape, const td_safetensors_tensor *t)
{
    const size_t n = shape.n_dims;
    if (t->rank != n) return false;
    for (size_t d = 0; d < n; d++)
        if (t->dims[d] != shape.dims[is_reversed(name, shape) ? n - 1 - d : d]) return false;
    return true;
}

/* The tensor that a parameter is read from; norm: both of its weight norm, or NULL. */
static td_status find_parameter(const td_checkpoint *file, const char *name,
                                const td_safetensors_tensor *norm[2], const td_safetensors_tensor **out)
{
    const size_t length = strlen(name);
    norm[0] = norm[1] = NULL;
    if (length > 7 && strcmp(name + length - 7, ".weight") == 0) TD_CHECK(find_norm(file, name, norm));
    if (!norm[0]) return find_needed(file, name, out);
    *out = norm[1];
    return TD_OK;
}

td_status td_xtts_check_parameters(const td_checkpoint *checkpoint, const char *prefix, const td_graph *graph)
{
    td_tensor p = TD_NO_TENSOR;
    while ((p = td_graph_next_param(graph, p)).id != 0) {
        const uint64_t n = td_shape_size(td_graph_shape(graph, p));
        char name[NAME_BYTES];
        const td_safetensors_tensor *norm[2], *t;
        snprintf(name, sizeof name, "%s%s", prefix, td_graph_name(graph, p));
        TD_CHECK(find_parameter(checkpoint, name, norm, &t));
        TD_REFUSE_IF(
            t->bytes / td_safetensors_dtype_bytes(t->dtype) != n, TD_ERR_FORMAT,
            "tensor %s has not the %llu numbers that the model's keys ask for; import the model again",
            t->name, (unsigned long long)n);
    }
    return TD_OK;
}

/* to[i, j, k ..] = from[.., k, j, i], both row by row; `shape` is that of `to`. */
static void reverse_axes(td_shape shape, const float *from, float *to)
{
    const size_t n = (size_t)td_shape_size(shape);
    for (size_t i = 0; i < n; i++) {
        size_t rest = i, at = 0;
        for (size_t d = shape.n_dims; d-- > 0;) {
            at = at * shape.dims[d] + rest % shape.dims[d];
            rest /= shape.dims[d];
        }
        /* `at` counts from the last axis to the first: it is the index in the reversed tensor */
        to[i] = from[at];
    }
}

static td_status load_entry(const td_checkpoint *file, td_store *store, size_t i)
{
    const td_store_entry entry = td_store_get(store, i);
    const size_t n = (size_t)td_shape_size(entry.shape);
    const td_safetensors_tensor *norm[2], *t;
    float *values = NULL, *reversed = NULL;
    td_status status = TD_OK;
    TD_TRY(find_parameter(file, entry.name, norm, &t));
    TD_FAIL_IF(!fits(entry.name, entry.shape, t), TD_ERR_FORMAT,
               "tensor %s has not the shape that the model's keys ask for", t->name);
    TD_TRY(TD_NEW_ARRAY(&values, n));
    TD_TRY(norm[0] ? fold(norm, values) : convert(t, values));
    if (is_reversed(entry.name, entry.shape)) {
        TD_TRY(TD_NEW_ARRAY(&reversed, n));
        reverse_axes(entry.shape, values, reversed);
    }
    TD_TRY(td_store_write(store, i, TD_BLOCK_WEIGHT, reversed ? reversed : values));
    td_safetensors_forget(td_checkpoint_file(file),
                          t); /* else the file would stay in memory beside the store */
fail:
    free(values);
    free(reversed);
    return status;
}

td_status td_xtts_load(const td_checkpoint *checkpoint, td_store *store)
{
    for (size_t i = 0; i < td_store_count(store); i++) {
        const td_store_entry entry = td_store_get(store, i);
        if (entry.role == TD_TENSOR_STATE && entry.state_kind != TD_STATE_KEPT) continue;
        TD_CHECK(load_entry(checkpoint, store, i));
    }
    return TD_OK;
}
