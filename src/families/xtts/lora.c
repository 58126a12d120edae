/* See lora.h. */
#include "families/xtts/lora.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "families/xtts/load.h"
#include "ops/decode.h"

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

/* How PEFT calls a tensor of the GPT: names are relative to what Coqui calls gpt. */
#define PEFT "base_model.model."
#define ADAPTERS "adapter_model.safetensors"

/* NULL: there is no such matrix, in the voice or in the file of adapters that it was given. */
static td_status find_matrix(const td_checkpoint *voice, const char *name, const char *which,
                             const td_safetensors_tensor **out)
{
    static const char end[] = ".weight", gpt[] = "gpt.";
    const td_safetensors *adapters = td_checkpoint_adapters(voice);
    const size_t length = strlen(name);
    char whole[NAME_BYTES], prefixed[NAME_BYTES];
    *out = NULL;
    if (length < sizeof end || strcmp(name + length - (sizeof end - 1), end) != 0) return TD_OK;
    if (snprintf(whole, sizeof whole, "%.*s.lora_%s%s", (int)(length - (sizeof end - 1)), name, which, end) >=
        (int)sizeof whole - (int)sizeof PEFT)
        return TD_OK;
    if (adapters) {
        if (strncmp(whole, gpt, sizeof gpt - 1) != 0) return TD_OK;
        snprintf(prefixed, sizeof prefixed, PEFT "%.*s", (int)(sizeof prefixed - sizeof PEFT),
                 whole + sizeof gpt - 1);
        *out = td_safetensors_find(adapters, prefixed);
        if (!*out) return TD_OK;
    } else {
        snprintf(prefixed, sizeof prefixed, "param.%.*s", (int)(sizeof prefixed - 8), whole);
        if (!td_safetensors_find(td_checkpoint_file(voice), prefixed)) return TD_OK;
        TD_CHECK(td_checkpoint_tensor(voice, "param.", whole, out));
    }
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

/* Rank and alpha of a file of adapters. */
static td_status read_metadata(const td_safetensors *file, double *rank, double *alpha)
{
    const char *of_rank = td_safetensors_metadata_find(file, "r"),
               *of_alpha = td_safetensors_metadata_find(file, "lora_alpha");
    *rank = of_rank ? strtod(of_rank, NULL) : 0;
    *alpha = of_alpha ? strtod(of_alpha, NULL) : 0;
    TD_REFUSE_IF(
        !(*rank >= 1) || !isfinite(*alpha) || *alpha == 0, TD_ERR_FORMAT,
        "the file of adapters does not tell their r and lora_alpha; make it with `tandem export --format "
        "peft`");
    return TD_OK;
}

/* The matrix that an adapter is beside, to compare shapes with. */
static const td_safetensors_tensor *find_base(const td_checkpoint *voice, const char *name)
{
    char prefixed[NAME_BYTES];
    const td_safetensors_tensor *t = td_safetensors_find(td_checkpoint_file(voice), name);
    snprintf(prefixed, sizeof prefixed, "param.%.*s", (int)(sizeof prefixed - 8), name);
    return t ? t : td_safetensors_find(td_checkpoint_file(voice), prefixed);
}

td_status td_xtts_lora_merge(const td_checkpoint *voice, const char *name, float *values)
{
    const td_safetensors_tensor *a, *b;
    const td_xtts c = td_xtts_get(&td_checkpoint_get_info(voice)->model);
    const td_safetensors *adapters = td_checkpoint_adapters(voice);
    double rank = c.lora_rank, alpha = (double)c.lora_alpha;
    if (!adapters && c.tune != TD_XTTS_LORA) return TD_OK;
    if (adapters) TD_CHECK(read_metadata(adapters, &rank, &alpha));
    TD_CHECK(find_matrix(voice, name, "A", &a));
    TD_CHECK(find_matrix(voice, name, "B", &b));
    if (!a || !b) return TD_OK;
    TD_REFUSE_IF(a->dims[0] != b->dims[1] || (double)a->dims[0] != rank, TD_ERR_FORMAT,
                 "the adapter of %s has not the rank %g that is told", name, rank);
    const td_safetensors_tensor *base = find_base(voice, name);
    TD_REFUSE_IF(!base || base->rank != 2 || base->dims[0] != a->dims[1] || base->dims[1] != b->dims[0],
                 TD_ERR_FORMAT, "the adapter of %s is for a matrix of another size", name);
    return add_product(values, a, b, alpha / rank);
}

/* ---------------------------------------------------------------- in a file of their own */

/* PEFT's name of a tensor of a checkpoint; false: it is of no adapter. */
static bool name_for_peft(const char *name, char out[NAME_BYTES])
{
    static const char before[] = "param.gpt.";
    if (!td_xtts_lora_has(name) || strncmp(name, before, sizeof before - 1) != 0) return false;
    snprintf(out, NAME_BYTES, PEFT "%.*s", (int)(NAME_BYTES - sizeof PEFT), name + sizeof before - 1);
    return true;
}

static td_status write_adapters(const td_checkpoint *voice, const td_xtts *c, const char *path)
{
    const td_safetensors *file = td_checkpoint_file(voice);
    td_safetensors_writer *writer = NULL;
    char name[NAME_BYTES], number[32];
    td_status status = TD_OK;
    TD_TRY(td_safetensors_writer_open(path, &writer));
    TD_TRY(td_safetensors_writer_add_metadata(writer, "format", "pt"));
    snprintf(number, sizeof number, "%.9g", (double)c->lora_alpha);
    TD_TRY(td_safetensors_writer_add_metadata(writer, "lora_alpha", number));
    snprintf(number, sizeof number, "%u", c->lora_rank);
    TD_TRY(td_safetensors_writer_add_metadata(writer, "r", number));
    for (size_t i = 0; i < td_safetensors_count(file); i++) {
        const td_safetensors_tensor *t = td_safetensors_at(file, i);
        if (name_for_peft(t->name, name))
            TD_TRY(td_safetensors_writer_add_tensor(writer, name, t->dtype, t->rank, t->dims));
    }
    for (size_t i = 0; i < td_safetensors_count(file); i++) {
        const td_safetensors_tensor *t = td_safetensors_at(file, i);
        if (name_for_peft(t->name, name))
            TD_TRY(td_safetensors_writer_write(writer, name, t->data, (size_t)t->bytes));
    }
    TD_TRY(td_safetensors_writer_commit(writer));
fail:
    td_safetensors_writer_close(writer);
    return status;
}

td_status td_xtts_lora_export(const td_checkpoint *voice, const char *folder)
{
    static const char *const targets[] = {"c_attn", "c_proj", "c_fc"};
    const td_xtts c = td_xtts_get(&td_checkpoint_get_info(voice)->model);
    char path[TD_FILE_PATH_BYTES], text[512], names[64] = "";
    TD_REFUSE_IF(c.tune != TD_XTTS_LORA, TD_ERR_UNSUPPORTED,
                 "'%.200s' has no adapters: it was not trained with xtts.tune = lora",
                 td_checkpoint_path(voice));
    for (uint32_t i = 0; i < 3; i++) {
        const size_t used = strlen(names);
        if (c.lora_targets >> i & 1)
            snprintf(names + used, sizeof names - used, "%s\"%s\"", used ? ", " : "", targets[i]);
    }
    snprintf(text, sizeof text,
             "{\"peft_type\": \"LORA\", \"r\": %u, \"lora_alpha\": %.9g, \"lora_dropout\": 0.0, \"bias\": "
             "\"none\", \"fan_in_fan_out\": true, \"target_modules\": [%s], \"inference_mode\": true}\n",
             c.lora_rank, (double)c.lora_alpha, names);
    const int bytes = snprintf(path, sizeof path, "%s/" ADAPTERS, folder);
    TD_REFUSE_IF(bytes < 0 || (size_t)bytes >= sizeof path, TD_ERR_IO, "the path '%.200s' is too long",
                 folder);
    TD_CHECK(write_adapters(voice, &c, path));
    snprintf(path, sizeof path, "%.*s/adapter_config.json", (int)(sizeof path - 32), folder);
    return td_file_write_atomic(path, text, strlen(text));
}

td_status td_xtts_lora_attach(td_checkpoint *voice, const char *path)
{
    td_safetensors *file = NULL;
    double rank, alpha;
    size_t n_known = 0;
    td_status status = TD_OK;
    TD_FAIL_IF(
        td_xtts_stored_format(voice) != TD_FORMAT_FP32, TD_ERR_UNSUPPORTED,
        "'%.200s' has weights in fewer bits, to which no adapters can be added; import it with fp32 weights",
        td_checkpoint_path(voice));
    TD_TRY(td_safetensors_open(path, &file));
    TD_TRY(read_metadata(file, &rank, &alpha));
    for (size_t i = 0; i < td_safetensors_count(file); i++) {
        const char *name = td_safetensors_at(file, i)->name, *at = strstr(name, ".lora_A.weight");
        char base[NAME_BYTES];
        if (!at || strncmp(name, PEFT, sizeof PEFT - 1) != 0) continue;
        snprintf(base, sizeof base, "gpt.%.*s.weight", (int)(at - name - (ptrdiff_t)(sizeof PEFT - 1)),
                 name + sizeof PEFT - 1);
        TD_FAIL_IF(!find_base(voice, base), TD_ERR_FORMAT,
                   "'%.200s' has an adapter of %s, which the voice has not", path, base);
        ++n_known;
    }
    TD_FAIL_IF(n_known == 0, TD_ERR_FORMAT, "'%.200s' has no adapters of a GPT in it", path);
    td_checkpoint_set_adapters(voice, file);
    return TD_OK;
fail:
    td_safetensors_close(file);
    return status;
}
