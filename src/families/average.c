/* See average.h. */
#include "families/average.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* ---------------------------------------------------------------- what must be alike */

static td_status differ(const td_checkpoint *a, const td_checkpoint *b, const char *what)
{
    return TD_FAIL(TD_ERR_CONFIG,
                   "'%s' and '%s' cannot be averaged: they differ in %s; take voices that were fine-tuned "
                   "from one voice on the same data",
                   td_checkpoint_path(a), td_checkpoint_path(b), what);
}

static td_status compare(const td_checkpoint *a, const td_checkpoint *b)
{
    const td_checkpoint_info *x = td_checkpoint_get_info(a), *y = td_checkpoint_get_info(b);
    char own[TD_MEL_CONFIG_LINE_BYTES], other[TD_MEL_CONFIG_LINE_BYTES];
    char value[TD_MODEL_VALUE_BYTES], wanted[TD_MODEL_VALUE_BYTES];
    const td_family *family = x->model.family;
    if (family != y->model.family) return differ(a, b, "family");
    for (size_t i = 0; i < family->n_keys; i++) {
        td_model_config_get(&x->model, i, wanted);
        td_model_config_get(&y->model, i, value);
        if (strcmp(value, wanted) != 0) return differ(a, b, family->keys[i].name);
    }
    if (x->token_kind != y->token_kind || strcmp(x->symbols, y->symbols) != 0) return differ(a, b, "symbols");
    if (strcmp(x->speakers, y->speakers) != 0) return differ(a, b, "speakers");
    if (td_mel_config_differ(&x->mel, &y->mel, own, other)) return differ(a, b, own);
    return TD_OK;
}

/* ---------------------------------------------------------------- the mean */

static bool is_alike(const td_safetensors_tensor *a, const td_safetensors_tensor *b)
{
    return b->dtype == TD_SAFETENSORS_F32 && b->rank == a->rank &&
           memcmp(b->dims, a->dims, a->rank * sizeof *a->dims) == 0;
}

/* As the voice speaks with it: the average of a parameter where there is one. */
static td_status find(const td_checkpoint *voice, const char *prefix, const char *name,
                      const td_safetensors_tensor **out)
{
    td_status status = TD_ERR_NOT_FOUND;
    if (strcmp(prefix, "param.") == 0) status = td_checkpoint_tensor(voice, "average.", name, out);
    return status == TD_ERR_NOT_FOUND ? td_checkpoint_tensor(voice, prefix, name, out) : status;
}

/* `t` is the first voice's tensor; `prefix` and `name` are its name. */
static td_status sum(td_checkpoint *const *voices, size_t n, const td_safetensors_tensor *t,
                     const char *prefix, const char *name, double *sums)
{
    const uint64_t count = t->bytes / sizeof(float);
    memset(sums, 0, (size_t)count * sizeof *sums);
    for (size_t i = 0; i < n; i++) {
        const td_safetensors_tensor *from = NULL;
        TD_CHECK(find(voices[i], prefix, name, &from));
        if (!is_alike(t, from)) return differ(voices[0], voices[i], t->name);
        for (uint64_t k = 0; k < count; k++)
            sums[k] += (double)((const float *)from->data)[k];
    }
    return TD_OK;
}

/* Of a voice's tensor: owned numbers in `out->data`. */
static td_status average(td_checkpoint *const *voices, size_t n, const td_safetensors_tensor *t,
                         td_checkpoint_tensor_data *out)
{
    const char *prefix = strncmp(t->name, "state.", 6) == 0 ? "state." : "param.";
    const char *name = t->name + strlen(prefix);
    const uint64_t count = t->bytes / sizeof(float);
    td_status status = TD_OK;
    double *sums = NULL;
    float *values = NULL;
    TD_TRY(TD_NEW_ARRAY(&sums, count));
    TD_TRY(TD_NEW_ARRAY(&values, count));
    TD_TRY(sum(voices, n, t, prefix, name, sums));
    for (uint64_t k = 0; k < count; k++)
        values[k] = (float)(sums[k] / (double)n);
    *out = (td_checkpoint_tensor_data){.prefix = prefix,
                                       .name = name,
                                       .dtype = t->dtype,
                                       .rank = t->rank,
                                       .data = values,
                                       .bytes = t->bytes};
    memcpy(out->dims, t->dims, sizeof out->dims);
    values = NULL;
fail:
    free(values);
    free(sums);
    return status;
}

td_status td_average_write(td_checkpoint *const *voices, size_t n, const char *path)
{
    const td_safetensors *file = td_checkpoint_file(voices[0]);
    td_safetensors_pair *pairs = NULL;
    td_checkpoint_tensor_data *tensors = NULL;
    size_t n_pairs, n_tensors = 0;
    td_status status = TD_OK;
    for (size_t i = 1; i < n; i++)
        TD_TRY(compare(voices[0], voices[i]));
    TD_TRY(td_checkpoint_list_kept(voices[0], &pairs, &n_pairs));
    TD_TRY(TD_NEW_ARRAY(&tensors, td_safetensors_count(file) + 1));
    for (size_t i = 0; i < td_safetensors_count(file); i++) {
        const td_safetensors_tensor *t = td_safetensors_at(file, i);
        if (!td_checkpoint_is_spoken(t, t->name)) continue;
        TD_FAIL_IF(t->dtype != TD_SAFETENSORS_F32 ||
                       (strncmp(t->name, "param.", 6) != 0 && strncmp(t->name, "state.", 6) != 0),
                   TD_ERR_CONFIG, "'%s' was imported; only voices of `tandem train` can be averaged",
                   td_checkpoint_path(voices[0]));
        TD_TRY(average(voices, n, t, &tensors[n_tensors]));
        n_tensors++;
    }
    TD_TRY(td_checkpoint_write(path, td_checkpoint_get_info(voices[0]), pairs, n_pairs, tensors, n_tensors));
fail:
    for (size_t i = 0; i < n_tensors; i++)
        free((void *)tensors[i].data);
    free(tensors);
    free(pairs);
    return status;
}
