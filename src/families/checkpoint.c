/* See checkpoint.h. */
#include "families/checkpoint.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "families/carried.h"
#include "torch/convert.h"

#define FORMAT "tandem checkpoint 3"
#define FORMAT_WITHOUT_FAMILY "tandem checkpoint 2"
#define FORMAT_WITHOUT_HASH "tandem checkpoint 1"
#define HEADER_HASH "header.hash"
#define VOCODER "vocoder."

enum { NAME_BYTES = TD_SAFETENSORS_MAX_NAME_BYTES + 8, HASH_BYTES = 17 };

static const char *const KINDS[] = {"characters", "phonemes", "bpe"};
static const char *const PREFIXES[TD_BLOCK_COUNT] = {
    [TD_BLOCK_WEIGHT] = "param.",
    [TD_BLOCK_MOMENT1] = "moment1.",
    [TD_BLOCK_MOMENT2] = "moment2.",
    [TD_BLOCK_AVERAGE] = "average.",
};

struct td_checkpoint {
    td_safetensors *file;
    td_checkpoint_info info;
    char *path;               /* owned */
    td_safetensors *adapters; /* or NULL */
    const char *within; /* before the names of its tensors and of its keys: "", or VOCODER of a voice's own */
};

/* ---------------------------------------------------------------- opening */

static const char *find_text(const td_checkpoint *c, const char *key)
{
    char full[NAME_BYTES];
    snprintf(full, sizeof full, "%s%s", c->within, key);
    return td_safetensors_metadata_find(c->file, full);
}

/* Imported voices have no prefixes before what they compute with. */
static const td_safetensors_tensor *find_tensor(const td_checkpoint *c, const char *prefix, const char *name)
{
    char full[NAME_BYTES];
    const bool is_used = strcmp(prefix, "param.") == 0 || strcmp(prefix, "state.") == 0;
    snprintf(full, sizeof full, "%s%s%s", c->within, prefix, name);
    const td_safetensors_tensor *t = td_safetensors_find(c->file, full);
    return t == NULL && is_used && *c->within == '\0' ? td_safetensors_find(c->file, name) : t;
}

static td_status need_text(const td_checkpoint *c, const char *key, const char **out)
{
    *out = find_text(c, key);
    if (*out == NULL)
        return TD_FAIL(TD_ERR_FORMAT, "there is no '%s', so it is no whole checkpoint; use another one", key);
    return TD_OK;
}

static bool is_model_key(const td_model_key *key)
{
    return strcmp(key->section, "training") != 0;
}

/* Version 0.1 told the family by the strategy of its decoder. */
static td_status read_model(td_checkpoint *c)
{
    const char *name;
    const bool has_family = find_text(c, "family") != NULL;
    TD_CHECK(need_text(c, has_family ? "family" : "model.decoder_strategy", &name));
    const td_family *family = td_family_find(name);
    TD_REFUSE_IF(family == NULL, TD_ERR_FORMAT, "its family is '%.40s', which this program does not have",
                 name);
    TD_CHECK(td_model_preset(family, "pico", &c->info.model));
    for (size_t i = 0; i < family->n_keys; ++i) {
        char key[64];
        const char *value;
        if (!is_model_key(&family->keys[i])) continue;
        snprintf(key, sizeof key, "model.%s", family->keys[i].name);
        if (family->keys[i].may_lack && td_safetensors_metadata_find(c->file, key) == NULL) continue;
        TD_CHECK(need_text(c, key, &value));
        TD_CHECK(td_model_config_put(&c->info.model, family->keys[i].name, value));
    }
    return td_model_config_check(&c->info.model);
}

/* What is no tensor of the model. */
static bool is_header_hash(const td_safetensors_tensor *t)
{
    return strcmp(t->name, HEADER_HASH) == 0;
}

static td_status check_header(const td_checkpoint *c)
{
    const td_safetensors_tensor *t = td_safetensors_find(c->file, HEADER_HASH);
    TD_REFUSE_IF(t == NULL || t->dtype != TD_SAFETENSORS_U32 || t->bytes != sizeof(uint64_t),
                 TD_ERR_INTEGRITY,
                 "its header is damaged: tensor " HEADER_HASH " is not there; use another checkpoint");
    const uint32_t *words = t->data;
    const uint64_t kept = words[0] | (uint64_t)words[1] << 32, hash = td_safetensors_header_hash(c->file);
    TD_REFUSE_IF(kept != hash, TD_ERR_INTEGRITY,
                 "its header is damaged: it is not what was written (hash %016" PRIx64 ", not %016" PRIx64
                 "); use another checkpoint",
                 hash, kept);
    return TD_OK;
}

static td_status read_front_ends(td_checkpoint *c)
{
    const td_family *family = c->info.model.family;
    for (size_t i = 0; i < family->n_front_ends; ++i) {
        char key[64];
        const char *text;
        snprintf(key, sizeof key, "front_end.%s", family->front_ends[i].name);
        TD_CHECK(need_text(c, key, &text));
        TD_CHECK(td_mel_config_parse(text, &c->info.front_ends[i]));
    }
    return TD_OK;
}

/* Of the same shape, in a format that a store can be filled from. */
static bool fits(const td_safetensors_tensor *t, td_shape shape)
{
    bool same = t->rank == shape.n_dims && td_convert_can(t->dtype, TD_SAFETENSORS_F32);
    for (size_t d = 0; same && d < t->rank; ++d)
        same = t->dims[d] == shape.dims[d];
    return same;
}

bool td_checkpoint_has_shape(const td_safetensors_tensor *t, td_shape shape)
{
    return t->dtype == TD_SAFETENSORS_F32 && fits(t, shape);
}

/* Destroys the graph. */
static td_status check_parameters(const td_checkpoint *c, td_graph *graph)
{
    td_status status = TD_OK;
    td_tensor p = TD_NO_TENSOR;
    while ((p = td_graph_next_param(graph, p)).id != 0) {
        const char *name = td_graph_name(graph, p);
        const td_safetensors_tensor *t = find_tensor(c, PREFIXES[TD_BLOCK_WEIGHT], name);
        TD_FAIL_IF(t == NULL, TD_ERR_FORMAT,
                   "it has no tensor %sparam.%s, which its metadata tells of; use another checkpoint",
                   c->within, name);
        TD_FAIL_IF(!fits(t, td_graph_shape(graph, p)), TD_ERR_FORMAT,
                   "tensor %sparam.%s has another shape than its metadata tells; use another checkpoint",
                   c->within, name);
    }
fail:
    td_graph_destroy(graph);
    return status;
}

/* Before anything is made from what the metadata tells: graphs of the smallest batch know every parameter's
 * shape and hold none of their values, so that a small file cannot ask for a large model. Voices of other programs need
 * not be such as can be trained: who speaks with them or trains them looks at each tensor. */
static td_status check_model(const td_checkpoint *c)
{
    td_graph *graph;
    td_tensor output;
    const td_family *family = c->info.model.family;
    if (family->carries) return TD_OK; /* voices need not be complete to speak: who loads a part checks it */
    for (uint32_t i = 0; i < td_model_learners(&c->info.model); ++i) {
        TD_CHECK(td_family_least_graph(&c->info.model, i, NULL, &graph));
        TD_CHECK(check_parameters(c, graph));
    }
    for (size_t i = 0; i < family->n_frozen; ++i) {
        TD_CHECK(td_family_frozen_graph(&c->info.model, i, NULL, &graph, &output));
        TD_CHECK(check_parameters(c, graph));
    }
    return TD_OK;
}

static td_status read_info(td_checkpoint *c)
{
    td_status status = TD_OK;
    const char *text;
    const char *format = td_safetensors_metadata_find(c->file, "format");
    const bool is_known =
        format != NULL && (strcmp(format, FORMAT) == 0 || strcmp(format, FORMAT_WITHOUT_FAMILY) == 0 ||
                           strcmp(format, FORMAT_WITHOUT_HASH) == 0);
    TD_FAIL_IF(!is_known, TD_ERR_FORMAT,
               "no checkpoint of this program: its format is '%s', not '" FORMAT
               "'; `tandem train` writes one",
               format != NULL ? format : "not told");
    if (strcmp(format, FORMAT_WITHOUT_HASH) != 0) TD_TRY(check_header(c));
    TD_TRY(read_model(c));
    TD_TRY(check_model(c));
    TD_TRY(need_text(c, "mel", &text));
    TD_TRY(td_mel_config_parse(text, &c->info.mel));
    TD_TRY(read_front_ends(c));
    if (c->within[0]) goto fail; /* what else there is belongs to the voice around it */
    TD_TRY(need_text(c, "symbols", &c->info.symbols));
    c->info.unseen = td_safetensors_metadata_find(c->file, "symbols_unseen");
    if (c->info.unseen == NULL) c->info.unseen = ""; /* files of earlier versions */
    TD_TRY(need_text(c, "tokenizer", &c->info.tokenizer));
    c->info.tokenizer_json = td_checkpoint_text(c, "tokenizer_json");
    TD_TRY(need_text(c, "language", &c->info.language));
    TD_TRY(need_text(c, "speakers", &c->info.speakers));
    TD_TRY(need_text(c, "token_kind", &text));
    int kind = 0;
    while (kind < 3 && strcmp(KINDS[kind], text) != 0)
        ++kind;
    TD_FAIL_IF(kind == 3, TD_ERR_FORMAT, "tokens of kind '%s' are not known here", text);
    c->info.token_kind = (td_token_kind)kind;
fail:
    if (status == TD_OK) return TD_OK;
    td_error error = *td_error_last();
    if (status != TD_ERR_INTEGRITY)
        error.status =
            TD_ERR_FORMAT; /* whatever is wrong is wrong with the file, not with the user's settings */
    (void)td_error_adopt(&error);
    return td_error_context("'%s'", c->path);
}

static td_status open_within(const char *path, const char *within, td_checkpoint **out)
{
    td_status status = TD_OK;
    td_checkpoint *c = NULL;
    *out = NULL;
    TD_TRY(TD_NEW(&c));
    c->within = within;
    c->info = (td_checkpoint_info){.symbols = "", .tokenizer = "", .language = "", .speakers = ""};
    TD_TRY(TD_NEW_ARRAY(&c->path, strlen(path) + 1));
    memcpy(c->path, path, strlen(path) + 1);
    TD_TRY(td_safetensors_open(path, &c->file));
    if (!within[0] || find_text(c, "family") != NULL) {
        TD_TRY(read_info(c));
        *out = c;
        return TD_OK;
    }
fail:
    td_checkpoint_close(c);
    return status;
}

td_status td_checkpoint_open(const char *path, td_checkpoint **out)
{
    return open_within(path, "", out);
}

td_status td_checkpoint_open_vocoder(const char *path, td_checkpoint **out)
{
    return open_within(path, VOCODER, out);
}

void td_checkpoint_close(td_checkpoint *c)
{
    if (c == NULL) return;
    td_safetensors_close(c->adapters);
    td_safetensors_close(c->file);
    free(c->path);
    free(c);
}

const td_checkpoint_info *td_checkpoint_get_info(const td_checkpoint *c)
{
    return &c->info;
}

const char *td_checkpoint_path(const td_checkpoint *c)
{
    return c->path;
}

const char *td_checkpoint_text(const td_checkpoint *c, const char *key)
{
    return td_safetensors_metadata_find(c->file, key);
}

void td_checkpoint_set_adapters(td_checkpoint *c, td_safetensors *adapters)
{
    td_safetensors_close(c->adapters);
    c->adapters = adapters;
}

const td_safetensors *td_checkpoint_adapters(const td_checkpoint *c)
{
    return c->adapters;
}

const td_safetensors *td_checkpoint_file(const td_checkpoint *c)
{
    return c->file;
}

/* ---------------------------------------------------------------- reading */

static void format_hash(const void *data, uint64_t bytes, char out[HASH_BYTES])
{
    snprintf(out, HASH_BYTES, "%016" PRIx64, td_hash64(data, bytes));
}

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* A tensor of another program's, under its name there. */
static bool is_imported(const td_safetensors_tensor *t)
{
    static const char *const OWN[] = {"param.",   "moment1.", "moment2.",   "scale1.", "scale2.",
                                      "average.", "state.",   "optimizer.", "data.",   VOCODER};
    for (size_t i = 0; i < sizeof OWN / sizeof *OWN; ++i)
        if (starts_with(t->name, OWN[i])) return false;
    return !is_header_hash(t);
}

bool td_checkpoint_is_spoken(const td_safetensors_tensor *t, const char *name)
{
    return starts_with(name, "param.") || starts_with(name, "state.") || is_imported(t);
}

/* Moments may overflow and training goes on; what a model computes with may not. */
static td_status check_numbers(const td_checkpoint *c, const td_safetensors_tensor *t)
{
    const char *name = t->name + (starts_with(t->name, VOCODER) ? strlen(VOCODER) : 0);
    if (!(starts_with(name, "param.") || starts_with(name, "state.") || starts_with(name, "average.") ||
          is_imported(t)))
        return TD_OK;
    const uint64_t at = td_safetensors_find_broken(t);
    if (at == t->bytes / td_safetensors_dtype_bytes(t->dtype)) return TD_OK;
    return TD_FAIL(TD_ERR_INTEGRITY,
                   "'%s' is damaged: value %" PRIu64 " of tensor %s is not finite; use another checkpoint",
                   c->path, at, t->name);
}

static td_status check_tensor(const td_checkpoint *c, const td_safetensors_tensor *t)
{
    char key[NAME_BYTES], hash[HASH_BYTES];
    snprintf(key, sizeof key, "hash.%s", t->name);
    const char *kept = td_safetensors_metadata_find(c->file, key);
    format_hash(t->data, t->bytes, hash);
    if (kept == NULL || strcmp(kept, hash) != 0)
        return TD_FAIL(TD_ERR_INTEGRITY,
                       "'%s' is damaged: tensor %s is not what was written (hash %s, not %s)", c->path,
                       t->name, hash, kept != NULL ? kept : "told");
    return check_numbers(c, t);
}

td_status td_checkpoint_tensor(const td_checkpoint *c, const char *prefix, const char *name,
                               const td_safetensors_tensor **out)
{
    *out = find_tensor(c, prefix, name);
    if (*out == NULL)
        return TD_FAIL(TD_ERR_NOT_FOUND, "'%s' has no tensor %s%s%s", c->path, c->within, prefix, name);
    return check_tensor(c, *out);
}

uint64_t td_checkpoint_part_size(const td_checkpoint *c, size_t part)
{
    const td_family *family = c->info.model.family;
    uint64_t n = 0;
    for (size_t i = 0; i < td_safetensors_count(c->file); ++i) {
        const td_safetensors_tensor *t = td_safetensors_at(c->file, i);
        if (!starts_with(t->name, c->within)) continue;
        const char *name = t->name + strlen(c->within);
        const bool is_param = starts_with(name, "param.");
        name += is_param ? strlen("param.") : 0;
        if ((is_param || (is_imported(t) && !td_family_is_buffer(family, name))) &&
            td_family_find_part(family, name) == part)
            n += t->bytes / td_safetensors_dtype_bytes(t->dtype);
    }
    return n;
}

td_status td_checkpoint_verify(const td_checkpoint *c)
{
    for (size_t i = 0; i < td_safetensors_count(c->file); ++i)
        if (!is_header_hash(td_safetensors_at(c->file, i)))
            TD_CHECK(check_tensor(c, td_safetensors_at(c->file, i)));
    return TD_OK;
}

/* Frozen parameters have no average, and runs without averages have none. */
static bool is_fallback_needed(const td_checkpoint *c, const char *prefix, const char *name)
{
    return strcmp(prefix, PREFIXES[TD_BLOCK_AVERAGE]) == 0 && find_tensor(c, prefix, name) == NULL;
}

/* Moments in 8 bits, with the largest magnitudes of their blocks. */
static td_status fill_packed(const td_checkpoint *c, td_store *store, size_t i, td_block block,
                             const td_safetensors_tensor *t)
{
    const td_store_entry entry = td_store_get(store, i);
    const uint64_t n = td_shape_size(entry.shape);
    const td_safetensors_tensor *scales;
    td_status status = TD_OK;
    float *values = NULL;
    TD_TRY(td_checkpoint_tensor(c, block == TD_BLOCK_MOMENT1 ? "scale1." : "scale2.", entry.name, &scales));
    TD_FAIL_IF(t->bytes != n || scales->dtype != TD_SAFETENSORS_F32 ||
                   scales->bytes != 4 * ((n + TD_STATE_BLOCK - 1) / TD_STATE_BLOCK),
               TD_ERR_FORMAT, "'%s': tensor %s has another size than this model's", c->path, t->name);
    TD_TRY(TD_NEW_ARRAY(&values, n));
    td_packed_decode(t->data, scales->data, n, block == TD_BLOCK_MOMENT2, values);
    TD_TRY(td_store_write(store, i, block, values));
fail:
    free(values);
    return status;
}

static td_status fill_entry(td_store *store, size_t i, td_block block, const td_safetensors_tensor *t)
{
    td_status status = TD_OK;
    float *values = NULL;
    if (t->dtype == TD_SAFETENSORS_F32) return td_store_write(store, i, block, t->data);
    const size_t n = (size_t)(t->bytes / td_safetensors_dtype_bytes(t->dtype));
    TD_TRY(TD_NEW_ARRAY(&values, n));
    td_convert(t->data, t->dtype, TD_SAFETENSORS_F32, n, values);
    TD_TRY(td_store_write(store, i, block, values));
fail:
    free(values);
    return status;
}

/* The tensors of block `from` in the file become block `block` of the store. */
static td_status load_block(const td_checkpoint *c, td_store *store, td_block block, td_block from)
{
    for (size_t i = 0; i < td_store_count(store); ++i) {
        const td_store_entry entry = td_store_get(store, i);
        const bool is_state = entry.role == TD_TENSOR_STATE;
        const td_safetensors_tensor *t;
        if (!td_store_has(store, i, block) || (is_state && entry.state_kind != TD_STATE_KEPT)) continue;
        const char *prefix = is_state ? "state." : PREFIXES[from];
        if (is_fallback_needed(c, prefix, entry.name)) prefix = PREFIXES[TD_BLOCK_WEIGHT];
        TD_CHECK(td_checkpoint_tensor(c, prefix, entry.name, &t));
        const bool is_moment = from == TD_BLOCK_MOMENT1 || from == TD_BLOCK_MOMENT2;
        if (is_moment && t->dtype == TD_SAFETENSORS_U8) {
            TD_CHECK(fill_packed(c, store, i, block, t));
            continue;
        }
        TD_REFUSE_IF(
            !fits(t, entry.shape), TD_ERR_FORMAT,
            "'%s': tensor %s has another shape than this model's; the checkpoint is of another model",
            c->path, t->name);
        TD_CHECK(fill_entry(store, i, block, t));
    }
    if (block == TD_BLOCK_WEIGHT) TD_CHECK(td_store_init_constants(store));
    return TD_OK;
}

td_status td_checkpoint_take(const td_checkpoint *c, td_store *store, size_t i, bool *taken)
{
    const td_store_entry entry = td_store_get(store, i);
    const td_safetensors_tensor *t;
    const char *prefix = entry.role == TD_TENSOR_STATE ? "state." : PREFIXES[TD_BLOCK_WEIGHT];
    const bool is_there = td_checkpoint_tensor(c, prefix, entry.name, &t) == TD_OK;
    TD_REFUSE_IF(is_there && t->dtype == TD_SAFETENSORS_I8, TD_ERR_UNSUPPORTED,
                 "'%s': %s is stored as bytes, too coarse to train; import the voice without int8 weights",
                 c->path, entry.name);
    *taken = is_there && fits(t, entry.shape);
    return *taken ? fill_entry(store, i, TD_BLOCK_WEIGHT, t) : TD_OK;
}

td_status td_checkpoint_load(const td_checkpoint *c, td_store *store, td_block block)
{
    return load_block(c, store, block, block);
}

td_status td_checkpoint_load_voice(const td_checkpoint *c, td_store *store)
{
    return load_block(c, store, TD_BLOCK_WEIGHT, TD_BLOCK_AVERAGE);
}

/* ---------------------------------------------------------------- writing */

static td_status add_text(td_safetensors_writer *writer, const char *within, const char *key,
                          const char *value)
{
    char full[NAME_BYTES];
    snprintf(full, sizeof full, "%s%s", within, key);
    return td_safetensors_writer_add_metadata(writer, full, value);
}

/* Family, config and front ends. */
static td_status add_model(td_safetensors_writer *writer, const char *within, const td_checkpoint_info *info)
{
    const td_family *family = info->model.family;
    char mel[TD_MEL_CONFIG_TEXT_BYTES], key[64], value[TD_MODEL_VALUE_BYTES];
    td_mel_config_format(&info->mel, mel);
    TD_CHECK(add_text(writer, within, "family", family->name));
    TD_CHECK(add_text(writer, within, "mel", mel));
    for (size_t i = 0; i < family->n_keys; ++i) {
        if (!is_model_key(&family->keys[i])) continue;
        snprintf(key, sizeof key, "model.%s", family->keys[i].name);
        td_model_config_get(&info->model, i, value);
        TD_CHECK(add_text(writer, within, key, value));
    }
    for (size_t i = 0; i < family->n_front_ends; ++i) {
        snprintf(key, sizeof key, "front_end.%s", family->front_ends[i].name);
        td_mel_config_format(&info->front_ends[i], mel);
        TD_CHECK(add_text(writer, within, key, mel));
    }
    return TD_OK;
}

/* What goes into the file besides the tensors' bytes. A value of NULL is left out. */
static td_status add_info(td_safetensors_writer *writer, const td_checkpoint_info *info)
{
    const td_safetensors_pair pairs[] = {{"format", FORMAT},
                                         {"symbols", info->symbols},
                                         {"symbols_unseen", info->unseen != NULL ? info->unseen : ""},
                                         {"token_kind", KINDS[info->token_kind]},
                                         {"tokenizer", info->tokenizer},
                                         {"tokenizer_json", info->tokenizer_json},
                                         {"language", info->language},
                                         {"speakers", info->speakers}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; ++i)
        if (pairs[i].value)
            TD_CHECK(td_safetensors_writer_add_metadata(writer, pairs[i].key, pairs[i].value));
    return add_model(writer, "", info);
}

static td_status add_hash(td_safetensors_writer *writer, const td_checkpoint_tensor_data *t)
{
    char key[NAME_BYTES + 8], hash[HASH_BYTES];
    snprintf(key, sizeof key, "hash.%s%s", t->prefix, t->name);
    format_hash(t->data, t->bytes, hash);
    return td_safetensors_writer_add_metadata(writer, key, hash);
}

/* The header is whole: all tensors were added. */
static td_status write_header_hash(td_safetensors_writer *writer)
{
    uint64_t hash;
    TD_CHECK(td_safetensors_writer_header_hash(writer, &hash));
    const uint32_t words[2] = {(uint32_t)hash, (uint32_t)(hash >> 32)};
    return td_safetensors_writer_write(writer, HEADER_HASH, words, sizeof words);
}

/* What a file is made of. */
typedef struct content {
    const td_checkpoint_info *info;
    const td_checkpoint_info *vocoder; /* inside; may be NULL */
    const td_safetensors_pair *pairs;  /* further metadata */
    size_t n_pairs;
    const td_checkpoint_tensor_data *tensors;
    size_t n_tensors;
    td_checkpoint_load_tensor *load; /* NULL: their bytes are there */
    void *context;
} content;

/* Before which tensor the header's hash goes: behind all of four bytes and more, since nothing pads between tensors. */
static size_t find_hash_place(const td_checkpoint_tensor_data *tensors, size_t n)
{
    size_t i = 0;
    while (i < n && td_safetensors_dtype_bytes(tensors[i].dtype) >= sizeof(uint32_t))
        ++i;
    return i;
}

/* The hashes of the tensors, and the list of these. */
static td_status add_tensors(td_safetensors_writer *writer, const content *f)
{
    const size_t place = find_hash_place(f->tensors, f->n_tensors);
    char name[NAME_BYTES];
    for (size_t i = 0; i < f->n_tensors; ++i) {
        if (f->load != NULL) TD_CHECK(f->load(f->context, i));
        TD_CHECK(add_hash(writer, &f->tensors[i]));
    }
    for (size_t i = 0; i <= f->n_tensors; ++i) {
        const td_checkpoint_tensor_data *t = &f->tensors[i];
        if (i == place)
            TD_CHECK(td_safetensors_writer_add_tensor(writer, HEADER_HASH, TD_SAFETENSORS_U32, 1,
                                                      (uint64_t[]){2}));
        if (i == f->n_tensors) break;
        snprintf(name, sizeof name, "%s%s", t->prefix, t->name);
        TD_CHECK(td_safetensors_writer_add_tensor(writer, name, t->dtype, t->rank, t->dims));
    }
    return TD_OK;
}

static td_status write_file(const char *path, const content *f)
{
    td_status status = TD_OK;
    td_safetensors_writer *writer = NULL;
    const size_t place = find_hash_place(f->tensors, f->n_tensors);
    char name[NAME_BYTES];
    TD_TRY(td_safetensors_writer_open(path, &writer));
    TD_TRY(add_info(writer, f->info));
    if (f->vocoder) TD_TRY(add_model(writer, VOCODER, f->vocoder));
    for (size_t i = 0; i < f->n_pairs; ++i)
        TD_TRY(td_safetensors_writer_add_metadata(writer, f->pairs[i].key, f->pairs[i].value));
    TD_TRY(add_tensors(writer, f));
    for (size_t i = 0; i <= f->n_tensors; ++i) {
        if (i == place) TD_TRY(write_header_hash(writer));
        if (i == f->n_tensors) break;
        if (f->load != NULL) TD_TRY(f->load(f->context, i));
        snprintf(name, sizeof name, "%s%s", f->tensors[i].prefix, f->tensors[i].name);
        TD_TRY(td_safetensors_writer_write(writer, name, f->tensors[i].data, f->tensors[i].bytes));
    }
    TD_TRY(td_safetensors_writer_commit(writer));
fail:
    td_safetensors_writer_close(writer);
    return status;
}

td_status td_checkpoint_write_loaded(const char *path, const td_checkpoint_info *info,
                                     const td_safetensors_pair *pairs, size_t n_pairs,
                                     const td_checkpoint_tensor_data *tensors, size_t n_tensors,
                                     td_checkpoint_load_tensor *load, void *context)
{
    return write_file(path, &(content){info, NULL, pairs, n_pairs, tensors, n_tensors, load, context});
}

td_status td_checkpoint_write(const char *path, const td_checkpoint_info *info,
                              const td_safetensors_pair *pairs, size_t n_pairs,
                              const td_checkpoint_tensor_data *tensors, size_t n_tensors)
{
    td_status status = TD_OK;
    td_carried carried = {.pairs = pairs, .n_pairs = n_pairs, .tensors = tensors, .n_tensors = n_tensors};
    TD_TRY(td_carried_join(info->rest, &carried));
    TD_TRY(td_checkpoint_write_loaded(path, info, carried.pairs, carried.n_pairs, carried.tensors,
                                      carried.n_tensors, NULL, NULL));
fail:
    td_carried_free(&carried);
    return status;
}

td_status td_checkpoint_list_kept(const td_checkpoint *c, td_safetensors_pair **out, size_t *n)
{
    static const char *const OTHERS[] = {"format",      "family",   "mel",      "symbols*",
                                         "token*",      "language", "speakers", "model.*",
                                         "front_end.*", "hash.*",   "train.*",  "vocoder.*"};
    *n = 0;
    TD_CHECK(TD_NEW_ARRAY(out, td_safetensors_metadata_count(c->file) + 1));
    for (size_t i = 0; i < td_safetensors_metadata_count(c->file); ++i) {
        const td_safetensors_pair *pair = td_safetensors_metadata_at(c->file, i);
        size_t k = 0;
        while (k < sizeof OTHERS / sizeof *OTHERS && fnmatch(OTHERS[k], pair->key, 0) != 0)
            ++k;
        if (k == sizeof OTHERS / sizeof *OTHERS) (*out)[(*n)++] = *pair;
    }
    return TD_OK;
}

/* What speaks of a checkpoint, behind the *n tensors that there are: averages for parameters where it has them. */
static td_status list_slim(const td_checkpoint *c, const char *prefix, td_checkpoint_tensor_data *tensors,
                           size_t *n)
{
    for (size_t i = 0; i < td_safetensors_count(c->file); ++i) {
        const td_safetensors_tensor *t = td_safetensors_at(c->file, i);
        if (!starts_with(t->name, c->within)) continue;
        const char *name = t->name + strlen(c->within);
        if (!td_checkpoint_is_spoken(t, name)) continue;
        const td_safetensors_tensor *average =
            starts_with(name, "param.") ? find_tensor(c, "average.", name + 6) : NULL;
        const td_safetensors_tensor *from = average != NULL ? average : t;
        TD_CHECK(check_tensor(c, from));
        tensors[*n] = (td_checkpoint_tensor_data){.prefix = prefix,
                                                  .name = name,
                                                  .dtype = t->dtype,
                                                  .rank = t->rank,
                                                  .data = from->data,
                                                  .bytes = from->bytes};
        memcpy(tensors[(*n)++].dims, t->dims, sizeof tensors[0].dims);
    }
    return TD_OK;
}

td_status td_checkpoint_write_bundle(const td_checkpoint *c, const td_checkpoint *vocoder, const char *path)
{
    td_status status = TD_OK;
    td_checkpoint_tensor_data *tensors = NULL;
    td_safetensors_pair *pairs = NULL;
    size_t n = 0, n_pairs;
    const size_t most = td_safetensors_count(c->file) + (vocoder ? td_safetensors_count(vocoder->file) : 0);
    TD_TRY(td_checkpoint_list_kept(c, &pairs, &n_pairs));
    TD_TRY(TD_NEW_ARRAY(&tensors, most + 1));
    TD_TRY(list_slim(c, "", tensors, &n));
    if (vocoder) TD_TRY(list_slim(vocoder, VOCODER, tensors, &n));
    TD_TRY(write_file(path, &(content){.info = &c->info,
                                       .vocoder = vocoder ? &vocoder->info : NULL,
                                       .pairs = pairs,
                                       .n_pairs = n_pairs,
                                       .tensors = tensors,
                                       .n_tensors = n}));
fail:
    free(pairs);
    free(tensors);
    return status;
}

td_status td_checkpoint_write_slim(const td_checkpoint *c, const char *path)
{
    td_status status = TD_OK;
    td_checkpoint *vocoder = NULL;
    TD_TRY(td_checkpoint_open_vocoder(c->path, &vocoder));
    TD_TRY(td_checkpoint_write_bundle(c, vocoder, path));
fail:
    td_checkpoint_close(vocoder);
    return status;
}
