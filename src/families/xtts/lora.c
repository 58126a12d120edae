/* See lora.h. */
#include "families/xtts/lora.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define NAME_BYTES TD_SAFETENSORS_MAX_NAME_BYTES

/* ---------------------------------------------------------------- learning */

/* "attn.c_proj" and "mlp.c_proj" are both called c_proj. */
static bool is_target(const td_xtts *c, const char *name)
{
    static const char *const ends[] = {"c_attn", "c_proj", "c_fc"};
    const char *end = strchr(name, '.') + 1;
    for (uint32_t i = 0; i < 3; i++)
        if (strcmp(end, ends[i]) == 0) return c->tune == TD_XTTS_LORA && (c->lora_targets >> i & 1);
    return false;
}

/* Weight decay does not pull on adapters. */
static td_tensor make_matrix(td_nn *nn, const char *name, const char *which, td_shape shape, td_init init)
{
    static const char *const all[] = {""};
    const td_nn_trained others = nn->trained;
    char whole[TD_NN_NAME_BYTES];
    snprintf(whole, sizeof whole, "%s.lora_%s.weight", name, which);
    nn->trained.prefixes = all;
    nn->trained.n_prefixes = 1;
    const td_tensor made = td_nn_param(nn, whole, shape, TD_PARAM_NO_DECAY, init);
    nn->trained = others;
    return made;
}

td_tensor td_xtts_train_layer(td_nn *nn, const td_xtts *c, const char *name, td_tensor x, uint32_t width)
{
    td_graph *g = nn->graph;
    const td_tensor y = td_nn_linear(nn, name, x, width);
    if (!is_target(c, name)) return y;
    const uint32_t in = td_graph_shape(g, x).dims[2];
    const td_tensor a =
        make_matrix(nn, name, "A", td_dims(c->lora_rank, in),
                    (td_init){.rule = TD_INIT_UNIFORM, .scale = 1 / sqrtf(in ? (float)in : 1)});
    const td_tensor b =
        make_matrix(nn, name, "B", td_dims(width, c->lora_rank), (td_init){.rule = TD_INIT_ZERO});
    const td_tensor low = td_graph_matmul_nt(g, x, a);
    return td_graph_add_scaled(g, y, td_graph_matmul_nt(g, low, b), c->lora_alpha / (float)c->lora_rank);
}

/* ---------------------------------------------------------------- merging */

bool td_xtts_lora_has(const char *name)
{
    return strstr(name, ".lora_A.") != NULL || strstr(name, ".lora_B.") != NULL;
}

/* NULL: the voice has no such matrix. */
static td_status find_matrix(const td_checkpoint *voice, const char *name, const char *which,
                             const td_safetensors_tensor **out)
{
    static const char end[] = ".weight";
    const size_t length = strlen(name);
    char whole[NAME_BYTES], prefixed[NAME_BYTES];
    *out = NULL;
    if (length < sizeof end || strcmp(name + length - (sizeof end - 1), end) != 0) return TD_OK;
    if (snprintf(whole, sizeof whole, "%.*s.lora_%s%s", (int)(length - (sizeof end - 1)), name, which, end) >=
        (int)sizeof whole - 8)
        return TD_OK;
    snprintf(prefixed, sizeof prefixed, "param.%.*s", (int)(sizeof prefixed - 8), whole);
    if (!td_safetensors_find(td_checkpoint_file(voice), prefixed)) return TD_OK;
    TD_CHECK(td_checkpoint_tensor(voice, "param.", whole, out));
    TD_REFUSE_IF((*out)->dtype != TD_SAFETENSORS_F32 || (*out)->rank != 2, TD_ERR_FORMAT,
                 "tensor %s is no matrix of 32-bit numbers", prefixed);
    return TD_OK;
}

/* w [in, out] += scale (b a)', summed in double. */
static td_status add_product(float *w, const td_safetensors_tensor *a, const td_safetensors_tensor *b,
                             double scale)
{
    const size_t rank = (size_t)a->dims[0], in = (size_t)a->dims[1], out = (size_t)b->dims[0];
    const float *of_a = a->data, *of_b = b->data;
    double *columns = NULL, *row;
    td_status status = TD_OK;
    TD_TRY(
        TD_NEW_ARRAY(&columns, (rank + 1) * out)); /* of b, one after the other; then a row of the product */
    row = columns + rank * out;
    for (size_t i = 0; i < rank * out; i++)
        columns[i] = (double)of_b[i % out * rank + i / out];
    for (size_t i = 0; i < in; i++) {
        memset(row, 0, out * sizeof *row);
        for (size_t r = 0; r < rank; r++) {
            const double factor = (double)of_a[r * in + i];
            for (size_t o = 0; o < out; o++)
                row[o] += factor * columns[r * out + o];
        }
        for (size_t o = 0; o < out; o++)
            w[i * out + o] = (float)((double)w[i * out + o] + scale * row[o]);
    }
fail:
    free(columns);
    return status;
}

td_status td_xtts_lora_merge(const td_checkpoint *voice, const char *name, float *values)
{
    const td_safetensors_tensor *a, *b;
    const td_xtts c = td_xtts_get(&td_checkpoint_get_info(voice)->model);
    if (c.tune != TD_XTTS_LORA) return TD_OK;
    TD_CHECK(find_matrix(voice, name, "A", &a));
    TD_CHECK(find_matrix(voice, name, "B", &b));
    if (!a || !b) return TD_OK;
    TD_REFUSE_IF(a->dims[0] != b->dims[1] || a->dims[0] != c.lora_rank, TD_ERR_FORMAT,
                 "the adapter of %s has not the rank %u that the voice says", name, c.lora_rank);
    return add_product(values, a, b, (double)c.lora_alpha / c.lora_rank);
}
