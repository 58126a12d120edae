/* From Coqui's files to a voice: which file has what, names as they were in older versions, and a configuration that
 * follows from config.json, vocab.json and the shapes of tensors. See importer.h. Covered by
 * tests/families/test_xtts_import.c.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "families/xtts/xtts_coqui.h"
#include "families/xtts/xtts_layout.h"
#include "text/bpe.h"
#include "torch/convert.h"
#include "torch/pickle_json.h"

enum { CONFIG_MAX_BYTES = 4 << 20, MAX_SPEAKERS = 1024 };

#define ORIGIN "Coqui's XTTS format"
#define LICENCE                                                                                              \
    "weights that come from Coqui's XTTS-v2 are under the Coqui Public Model License 1.0.0 (CPML): "         \
    "non-commercial "                                                                                        \
    "use only, of the model and of what it speaks"

/* A tensor under the name that it will have. */
typedef struct found {
    const char *name;
    td_torch_file *file;
    const td_torch_tensor *tensor;
    bool is_used;
} found;

typedef struct source {
    td_import *import;
    char folder[TD_FILE_PATH_BYTES], model[TD_FILE_PATH_BYTES];
    td_torch_file *model_file;
    found *tensors; /* sorted by name */
    size_t n_tensors, capacity;
    cJSON *config;
    char *config_text, *vocab_text;
    uint32_t known_tokens; /* rows of the model's own tables of texts */
    td_bpe *bpe;
    size_t n_absent;
    char absent[TD_XTTS_NAME_BYTES]; /* the first that is needed and not there */
} source;

/* ---------------------------------------------------------------- which files */

static bool is_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

static bool join_path(const char *folder, const char *name, char out[TD_FILE_PATH_BYTES])
{
    const int bytes = snprintf(out, TD_FILE_PATH_BYTES, "%s/%s", folder, name);
    return bytes > 0 && bytes < TD_FILE_PATH_BYTES;
}

/* The model's file and the folder that the others are in. */
static bool find_model(const char *from, char folder[TD_FILE_PATH_BYTES], char model[TD_FILE_PATH_BYTES])
{
    static const char *const NAMES[] = {TD_COQUI_MODEL, "model.safetensors", "best_model.pth"};
    if (strlen(from) >= TD_FILE_PATH_BYTES) return false;
    if (is_file(from)) {
        const char *slash = strrchr(from, '/');
        snprintf(model, TD_FILE_PATH_BYTES, "%s", from);
        snprintf(folder, TD_FILE_PATH_BYTES, "%.*s", slash != NULL ? (int)(slash - from) : 1,
                 slash != NULL ? from : ".");
        if (folder[0] == '\0') snprintf(folder, TD_FILE_PATH_BYTES, "/");
        return true;
    }
    snprintf(folder, TD_FILE_PATH_BYTES, "%s", from);
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (join_path(folder, NAMES[i], model) && is_file(model)) return true;
    return false;
}

bool td_coqui_recognises(const char *from)
{
    char folder[TD_FILE_PATH_BYTES], model[TD_FILE_PATH_BYTES];
    return find_model(from, folder, model);
}

/* Whether the folder has a file; then *path is it. */
static bool has_file(const source *s, const char *name, char path[TD_FILE_PATH_BYTES])
{
    return join_path(s->folder, name, path) && td_file_exists(path);
}

/* ---------------------------------------------------------------- tensors under their names */

/* Trainers put "xtts." before names; weight norm had other names before PyTorch 2.1. */
static td_status make_name(source *s, const char *prefix, const char *name, char **out)
{
    static const char *const BEFORE[] = {"model.", "xtts."};
    static const char *const OLD[][2] = {{".weight_g", ".parametrizations.weight.original0"},
                                         {".weight_v", ".parametrizations.weight.original1"}};
    for (size_t i = 0; i < sizeof BEFORE / sizeof *BEFORE; i++)
        if (strncmp(name, BEFORE[i], strlen(BEFORE[i])) == 0) name += strlen(BEFORE[i]);
    const size_t bytes = strlen(name);
    for (size_t i = 0; i < sizeof OLD / sizeof *OLD; i++) {
        const size_t ending = strlen(OLD[i][0]);
        if (bytes > ending && strcmp(name + bytes - ending, OLD[i][0]) == 0)
            return td_arena_printf(s->import->arena, out, "%s%.*s%s", prefix, (int)(bytes - ending), name,
                                   OLD[i][1]);
    }
    return td_arena_printf(s->import->arena, out, "%s%s", prefix, name);
}

/* The tensors of a value of a file, with a prefix before their names. */
static td_status collect(source *s, td_torch_file *file, td_pickle_id root, size_t depth, const char *prefix)
{
    const td_torch_tensor *tensors;
    size_t n;
    TD_CHECK(td_import_tensors(s->import, file, root, depth, &tensors, &n));
    TD_CHECK(td_alloc_grow(&s->tensors, &s->capacity, s->n_tensors + n, sizeof *s->tensors));
    for (size_t i = 0; i < n; i++) {
        char *name;
        TD_CHECK(make_name(s, prefix, tensors[i].name, &name));
        s->tensors[s->n_tensors++] = (found){name, file, &tensors[i], false};
    }
    return TD_OK;
}

static int compare_found(const void *a, const void *b)
{
    return strcmp(((const found *)a)->name, ((const found *)b)->name);
}

static found *find_tensor(const source *s, const char *name)
{
    const found key = {.name = name};
    if (s->n_tensors == 0) return NULL;
    return bsearch(&key, s->tensors, s->n_tensors, sizeof key, compare_found);
}

/* The whole file, or its "model", and where it has none the DVAE and mel_stats of files of their own. */
static td_status collect_all(source *s)
{
    char path[TD_FILE_PATH_BYTES];
    td_torch_file *file;
    const td_pickle *p = td_torch_pickle(s->model_file);
    const td_pickle_id root = p != NULL ? td_pickle_root(p) : 0;
    const td_pickle_id model = p != NULL ? td_pickle_find(p, root, "model") : 0;
    TD_CHECK(collect(s, s->model_file, model != 0 ? model : root, 1, ""));
    qsort(s->tensors, s->n_tensors, sizeof *s->tensors, compare_found);
    const bool has_dvae = find_tensor(s, "dvae.codebook.embed") != NULL;
    const bool has_stats = find_tensor(s, "mel_stats") != NULL;
    if (!has_dvae && has_file(s, TD_COQUI_DVAE, path)) {
        TD_CHECK(td_import_file(s->import, path, &file));
        p = td_torch_pickle(file);
        TD_CHECK(collect(s, file, p != NULL ? td_pickle_root(p) : 0, 1, "dvae."));
    } else if (!has_dvae) {
        TD_CHECK(td_import_lack(s->import, TD_COQUI_DVAE));
    }
    if (!has_stats && has_file(s, TD_COQUI_MEL_STATS, path)) {
        TD_CHECK(td_import_file(s->import, path, &file));
        p = td_torch_pickle(file);
        TD_CHECK(collect(s, file, p != NULL ? td_pickle_root(p) : 0, 0, "mel_stats"));
    }
    qsort(s->tensors, s->n_tensors, sizeof *s->tensors, compare_found);
    for (size_t i = 1; i < s->n_tensors; i++)
        TD_REFUSE_IF(compare_found(&s->tensors[i - 1], &s->tensors[i]) == 0, TD_ERR_FORMAT,
                     "'%.200s' has tensor %s under two names", s->model, s->tensors[i].name);
    return TD_OK;
}

/* ---------------------------------------------------------------- config.json and vocab.json */

/* Adds the file to the last failure. What is wrong with a configuration is the file's fault, not that of the user's
 * settings. */
static td_status blame(const char *path)
{
    td_error error = *td_error_last();
    if (error.status == TD_ERR_CONFIG) error.status = TD_ERR_FORMAT;
    (void)td_error_adopt(&error);
    return td_error_context("'%.200s'", path);
}

/* Some models have their configuration in the file itself: an object, a dict, or JSON. */
static td_status read_inner_config(source *s)
{
    const td_pickle *p = td_torch_pickle(s->model_file);
    const td_pickle_id id = p != NULL ? td_pickle_find(p, td_pickle_root(p), "config") : 0;
    TD_REFUSE_IF(id == 0, TD_ERR_NOT_FOUND,
                 "'%.200s' has no " TD_COQUI_CONFIG ", and the model's file none inside", s->folder);
    const td_pickle_value *value = td_pickle_get(p, id);
    if (value->kind == TD_PICKLE_TEXT)
        TD_CHECK(td_coqui_parse_config((const char *)value->as.bytes, value->n, &s->config));
    else
        TD_CHECK(td_pickle_to_json(p, id, &s->config));
    s->config_text = s->config != NULL ? cJSON_Print(s->config) : NULL;
    TD_REFUSE_IF(s->config_text == NULL, TD_ERR_FORMAT, "'%.200s' has a configuration that cannot be read",
                 s->model);
    return TD_OK;
}

static td_status read_outer_config(source *s, const char *path)
{
    size_t bytes;
    TD_CHECK(td_file_read(path, CONFIG_MAX_BYTES, &s->config_text, &bytes));
    TD_REFUSE_IF(strlen(s->config_text) != bytes, TD_ERR_FORMAT, "it has zero bytes in it");
    return td_coqui_parse_config(s->config_text, bytes, &s->config);
}

static td_status read_config(source *s)
{
    td_status status = TD_OK;
    char path[TD_FILE_PATH_BYTES];
    const bool is_outer = has_file(s, TD_COQUI_CONFIG, path);
    TD_TRY(is_outer ? read_outer_config(s, path) : read_inner_config(s));
    TD_TRY(td_coqui_read_config(s->config, &s->import->info.model));
    return TD_OK;
fail:
    return blame(is_outer ? path : s->model);
}

static td_status read_vocab(source *s)
{
    char path[TD_FILE_PATH_BYTES];
    size_t bytes;
    TD_REFUSE_IF(!has_file(s, TD_COQUI_VOCAB, path), TD_ERR_NOT_FOUND,
                 "'%.200s' has no " TD_COQUI_VOCAB
                 ", without which no text becomes tokens; put the model's beside it",
                 s->folder);
    TD_CHECK(td_file_read(path, TD_BPE_MAX_FILE_BYTES, &s->vocab_text, &bytes));
    TD_REFUSE_IF(strlen(s->vocab_text) != bytes, TD_ERR_FORMAT, "'%.200s' has zero bytes in it", path);
    return td_bpe_parse(s->vocab_text, bytes, path, &s->bpe);
}

/* ---------------------------------------------------------------- the configuration */

/* Keys that the shape of a tensor tells: its axis, less or by a number. */
static const struct {
    size_t offset;
    const char *key, *tensor;
    uint32_t axis, less, by;
} TOLD[] = {
#define TOLD_BY(key_, tensor_, axis_, less_, by_)                                                            \
    {                                                                                                        \
        offsetof(td_xtts, key_), #key_, tensor_, axis_, less_, by_                                           \
    }
    TOLD_BY(gpt_n_model_channels, "gpt.text_embedding.weight", 1, 0, 1),
    TOLD_BY(gpt_number_text_tokens, "gpt.text_embedding.weight", 0, 0, 1),
    TOLD_BY(gpt_num_audio_tokens, "gpt.mel_embedding.weight", 0, 0, 1),
    TOLD_BY(gpt_max_audio_tokens, "gpt.mel_pos_embedding.emb.weight", 0, 3, 1),
    TOLD_BY(gpt_max_text_tokens, "gpt.text_pos_embedding.emb.weight", 0, 2, 1),
    TOLD_BY(n_mels, "gpt.conditioning_encoder.init.weight", 1, 0, 1),
    TOLD_BY(perceiver_latents, "gpt.conditioning_perceiver.latents", 0, 0, 1),
    TOLD_BY(perceiver_heads, "gpt.conditioning_perceiver.layers.0.0.to_q.weight", 0, 0,
            TD_XTTS_PERCEIVER_HEAD),
    TOLD_BY(decoder_input_dim, "hifigan_decoder.waveform_decoder.conv_pre.weight", 1, 0, 1),
    TOLD_BY(decoder_channels, "hifigan_decoder.waveform_decoder.conv_pre.weight", 0, 0, 1),
    TOLD_BY(d_vector_dim, "hifigan_decoder.waveform_decoder.cond_layer.weight", 1, 0, 1),
    TOLD_BY(speaker_mels, "hifigan_decoder.speaker_encoder.torch_spec.1.mel_scale.fb", 1, 0, 1),
    TOLD_BY(speaker_filters_1, "hifigan_decoder.speaker_encoder.layer1.0.conv1.weight", 0, 0, 1),
    TOLD_BY(speaker_filters_2, "hifigan_decoder.speaker_encoder.layer2.0.conv1.weight", 0, 0, 1),
    TOLD_BY(speaker_filters_3, "hifigan_decoder.speaker_encoder.layer3.0.conv1.weight", 0, 0, 1),
    TOLD_BY(speaker_filters_4, "hifigan_decoder.speaker_encoder.layer4.0.conv1.weight", 0, 0, 1),
    TOLD_BY(dvae_hidden, "dvae.encoder.0.0.weight", 0, 0, 1),
    TOLD_BY(dvae_codebook_dim, "dvae.codebook.embed", 0, 0, 1),
#undef TOLD_BY
};

/* Keys that count tensors whose names have a number, from `first` on. */
static const struct {
    size_t offset;
    const char *key, *before, *behind;
    uint32_t first;
} COUNTED[] = {
#define COUNTED_BY(key_, before_, behind_, first_)                                                           \
    {                                                                                                        \
        offsetof(td_xtts, key_), #key_, before_, behind_, first_                                             \
    }
    COUNTED_BY(gpt_layers, "gpt.gpt.h.", ".ln_1.weight", 0),
    COUNTED_BY(conditioning_blocks, "gpt.conditioning_encoder.attn.", ".norm.weight", 0),
    COUNTED_BY(perceiver_layers, "gpt.conditioning_perceiver.layers.", ".0.to_q.weight", 0),
    COUNTED_BY(speaker_blocks_1, "hifigan_decoder.speaker_encoder.layer1.", ".conv1.weight", 0),
    COUNTED_BY(speaker_blocks_2, "hifigan_decoder.speaker_encoder.layer2.", ".conv1.weight", 0),
    COUNTED_BY(speaker_blocks_3, "hifigan_decoder.speaker_encoder.layer3.", ".conv1.weight", 0),
    COUNTED_BY(speaker_blocks_4, "hifigan_decoder.speaker_encoder.layer4.", ".conv1.weight", 0),
    COUNTED_BY(dvae_blocks, "dvae.encoder.", ".net.0.weight", 2),
#undef COUNTED_BY
};

/* config.json must say the same, except for the table of text tokens, whose size Coqui too takes from vocab.json. */
static td_status put_told(source *s, td_xtts *c, size_t offset, const char *key, uint64_t value)
{
    double said;
    TD_REFUSE_IF(value == 0 || value > UINT32_MAX, TD_ERR_FORMAT, "'%.200s': its tensors tell no sensible %s",
                 s->model, key);
    TD_REFUSE_IF(td_coqui_find_number(s->config, key, &said) && said != (double)value &&
                     strcmp(key, "gpt_number_text_tokens") != 0,
                 TD_ERR_FORMAT, "'%.200s': %s is %" PRIu64 " by its tensors, but %g in " TD_COQUI_CONFIG,
                 s->model, key, value, said);
    const uint32_t number = (uint32_t)value;
    memcpy((unsigned char *)c + offset, &number, sizeof number);
    return TD_OK;
}

static td_status read_shapes(source *s, td_xtts *c)
{
    for (size_t i = 0; i < sizeof TOLD / sizeof *TOLD; i++) {
        const bool is_dvae = strncmp(TOLD[i].tensor, "dvae.", 5) == 0;
        const found *f = find_tensor(s, TOLD[i].tensor);
        if (f == NULL && is_dvae) continue;
        TD_REFUSE_IF(f == NULL, TD_ERR_FORMAT, "'%.200s' has no tensor %s; is it of XTTS-v2?", s->model,
                     TOLD[i].tensor);
        TD_REFUSE_IF(f->tensor->rank <= TOLD[i].axis || f->tensor->dims[TOLD[i].axis] < TOLD[i].less,
                     TD_ERR_FORMAT, "'%.200s': tensor %s has %zu dimensions, or too small ones", s->model,
                     TOLD[i].tensor, f->tensor->rank);
        TD_CHECK(put_told(s, c, TOLD[i].offset, TOLD[i].key,
                          (f->tensor->dims[TOLD[i].axis] - TOLD[i].less) / TOLD[i].by));
    }
    for (size_t i = 0; i < sizeof COUNTED / sizeof *COUNTED; i++) {
        char name[TD_XTTS_NAME_BYTES];
        uint32_t n = 0;
        do
            snprintf(name, sizeof name, "%s%u%s", COUNTED[i].before, COUNTED[i].first + n++,
                     COUNTED[i].behind);
        while (find_tensor(s, name) != NULL);
        if (n == 1 && strncmp(name, "dvae.", 5) == 0) continue;
        TD_REFUSE_IF(n == 1, TD_ERR_FORMAT, "'%.200s' has no tensor %s; is it of XTTS-v2?", s->model, name);
        TD_CHECK(put_told(s, c, COUNTED[i].offset, COUNTED[i].key, n - 1));
    }
    return TD_OK;
}

/* [START] and [STOP] are those of the vocabulary; config.json counts where it has none. */
static td_status read_tokens(source *s, td_xtts *c)
{
    const int32_t start = td_bpe_find(s->bpe, "[START]"), stop = td_bpe_find(s->bpe, "[STOP]");
    double said;
    if (start >= 0) c->gpt_start_text_token = (uint32_t)start;
    if (stop >= 0) c->gpt_stop_text_token = (uint32_t)stop;
    TD_REFUSE_IF((start < 0 && !td_coqui_find_number(s->config, "gpt_start_text_token", &said)) ||
                     (stop < 0 && !td_coqui_find_number(s->config, "gpt_stop_text_token", &said)),
                 TD_ERR_FORMAT,
                 "'%.200s': neither " TD_COQUI_VOCAB " nor " TD_COQUI_CONFIG
                 " tells the tokens [START] and [STOP]",
                 s->folder);
    s->known_tokens = c->gpt_number_text_tokens;
    if (td_bpe_vocab_size(s->bpe) <= c->gpt_number_text_tokens) return TD_OK;
    TD_REFUSE_IF(
        !s->import->grows, TD_ERR_FORMAT,
        "'%.200s': " TD_COQUI_VOCAB
        " has %zu tokens, but the model %u: they are not of the same model, or tokens were added, for which "
        "--grow makes room",
        s->folder, td_bpe_vocab_size(s->bpe), c->gpt_number_text_tokens);
    TD_REFUSE_IF(td_bpe_vocab_size(s->bpe) > UINT32_MAX, TD_ERR_LIMIT, "'%.200s': too many tokens",
                 s->folder);
    s->import->n_grown = td_bpe_vocab_size(s->bpe) - c->gpt_number_text_tokens;
    c->gpt_number_text_tokens = (uint32_t)td_bpe_vocab_size(s->bpe);
    return TD_OK;
}

static td_status make_config(source *s)
{
    td_status status = TD_OK;
    td_model_config *config = &s->import->info.model;
    td_xtts c = td_xtts_get(config);
    c.dvae_hidden = 0;
    TD_TRY(read_shapes(s, &c));
    TD_TRY(read_tokens(s, &c));
    td_xtts_put(config, &c);
    TD_TRY(td_model_config_check(config));
fail:
    return status == TD_ERR_CONFIG ? blame(s->model) : status;
}

/* ---------------------------------------------------------------- taking */

static void format_dims(const uint64_t *dims, size_t rank, char out[96])
{
    size_t used = (size_t)snprintf(out, 96, "[");
    for (size_t d = 0; d < rank && used < 96; d++)
        used += (size_t)snprintf(out + used, 96 - used, "%s%" PRIu64, d > 0 ? ", " : "", dims[d]);
    if (used < 96) snprintf(out + used, 96 - used, "]");
}

static td_status check_shape(const found *f, size_t rank, const uint64_t *dims)
{
    char is[96], wanted[96];
    if (f->tensor->rank == rank && memcmp(f->tensor->dims, dims, rank * sizeof *dims) == 0) return TD_OK;
    format_dims(f->tensor->dims, f->tensor->rank, is);
    format_dims(dims, rank, wanted);
    return TD_FAIL(TD_ERR_FORMAT, "'%.200s': tensor %s is %s, but the model's others ask for %s",
                   td_torch_name(f->file), f->name, is, wanted);
}

/* Tables with a row for each token of texts. */
static bool is_of_tokens(const char *name)
{
    static const char *const NAMES[] = {"gpt.text_embedding.weight", "gpt.text_head.weight",
                                        "gpt.text_head.bias"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strcmp(name, NAMES[i]) == 0) return true;
    return false;
}

static td_status take(void *context, const td_xtts_tensor *t)
{
    source *s = context;
    found *f = find_tensor(s, t->name);
    if (f == NULL) {
        if (s->n_absent++ == 0) snprintf(s->absent, sizeof s->absent, "%s", t->name);
        return TD_OK;
    }
    uint64_t dims[4];
    const bool grows = s->import->n_grown > 0 && is_of_tokens(t->name);
    memcpy(dims, t->dims, sizeof dims);
    if (grows) dims[0] = s->known_tokens;
    TD_CHECK(check_shape(f, t->rank, dims));
    TD_REFUSE_IF(td_convert_is_float(f->tensor->dtype) == t->is_integer, TD_ERR_FORMAT,
                 "'%.200s': tensor %s is %s, not %s", td_torch_name(f->file), t->name,
                 td_safetensors_dtype_name(f->tensor->dtype),
                 t->is_integer ? "whole numbers" : "floating-point");
    f->is_used = true;
    TD_CHECK(td_import_add(s->import, t->name, f->file, f->tensor));
    if (grows) s->import->tensors[s->import->n_tensors - 1].rows = t->dims[0];
    return TD_OK;
}

static td_status take_model(source *s)
{
    const td_xtts c = td_xtts_get(&s->import->info.model);
    TD_CHECK(td_xtts_walk(&c, take, s));
    TD_REFUSE_IF(s->n_absent > 0, TD_ERR_FORMAT, "'%.200s' has no tensor %s, and %zu others are missing",
                 s->model, s->absent, s->n_absent - 1);
    for (size_t i = 0; i < s->n_tensors; i++)
        if (!s->tensors[i].is_used) TD_CHECK(td_import_ignore(s->import, s->tensors[i].tensor->name));
    return TD_OK;
}

/* ---------------------------------------------------------------- speakers */

static bool ends_with(const char *text, const char *ending)
{
    const size_t bytes = strlen(text), n = strlen(ending);
    return bytes > n && strcmp(text + bytes - n, ending) == 0;
}

/* NAME.gpt_cond_latent and NAME.speaker_embedding, both of each. */
static td_status take_speaker(source *s, td_torch_file *file, const td_torch_tensor *latent,
                              const td_torch_tensor *embedding, char **names)
{
    const td_xtts c = td_xtts_get(&s->import->info.model);
    const uint64_t latent_dims[] = {1, c.perceiver_latents, c.gpt_n_model_channels};
    const uint64_t embedding_dims[] = {1, c.d_vector_dim, 1};
    const size_t bytes = strlen(latent->name) - strlen(TD_COQUI_LATENT);
    char name[TD_SAFETENSORS_MAX_NAME_BYTES];
    TD_REFUSE_IF(embedding == NULL, TD_ERR_FORMAT,
                 "'%.200s': %s is without its other half, " TD_COQUI_EMBEDDING, td_torch_name(file),
                 latent->name);
    TD_REFUSE_IF(bytes > 200 || memchr(latent->name, '\n', bytes) != NULL, TD_ERR_FORMAT,
                 "'%.200s': the name of a speaker is too long, or more than one line", td_torch_name(file));
    const found halves[] = {{latent->name, file, latent, true}, {embedding->name, file, embedding, true}};
    TD_CHECK(check_shape(&halves[0], 3, latent_dims));
    TD_CHECK(check_shape(&halves[1], 3, embedding_dims));
    for (size_t i = 0; i < 2; i++) {
        snprintf(name, sizeof name, TD_COQUI_SPEAKERS_PREFIX "%s", halves[i].name);
        TD_REFUSE_IF(!td_convert_is_float(halves[i].tensor->dtype), TD_ERR_FORMAT,
                     "'%.200s': %s is not floating-point", td_torch_name(file), halves[i].name);
        TD_CHECK(td_import_add(s->import, name, file, halves[i].tensor));
    }
    return td_arena_printf(s->import->arena, names, "%s%s%.*s", *names, (*names)[0] != '\0' ? "\n" : "",
                           (int)bytes, latent->name);
}

/* The other half of a speaker; NULL if it is not there. `tensors` are sorted by name. */
static const td_torch_tensor *find_embedding(const td_torch_tensor *tensors, size_t n,
                                             const td_torch_tensor *latent)
{
    const size_t bytes = strlen(latent->name) - strlen(TD_COQUI_LATENT);
    char name[TD_SAFETENSORS_MAX_NAME_BYTES + sizeof TD_COQUI_EMBEDDING];
    snprintf(name, sizeof name, "%.*s" TD_COQUI_EMBEDDING, (int)bytes, latent->name);
    for (size_t low = 0, high = n; low < high;) {
        const size_t middle = (low + high) / 2;
        const int order = strcmp(name, tensors[middle].name);
        if (order == 0) return &tensors[middle];
        if (order > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static td_status take_speakers(source *s)
{
    char path[TD_FILE_PATH_BYTES], *names;
    td_torch_file *file;
    const td_torch_tensor *tensors;
    size_t n;
    TD_CHECK(td_arena_strdup(s->import->arena, "", &names));
    s->import->info.speakers = names;
    if (!has_file(s, TD_COQUI_SPEAKERS, path)) return td_import_lack(s->import, TD_COQUI_SPEAKERS);
    TD_CHECK(td_import_file(s->import, path, &file));
    const td_pickle *p = td_torch_pickle(file);
    TD_CHECK(td_import_tensors(s->import, file, p != NULL ? td_pickle_root(p) : 0, 2, &tensors, &n));
    TD_REFUSE_IF(n > (size_t)2 * MAX_SPEAKERS, TD_ERR_LIMIT,
                 "'%.200s' has %zu tensors; at most %d speakers can be imported", path, n, MAX_SPEAKERS);
    for (size_t i = 0; i < n; i++) {
        if (ends_with(tensors[i].name, TD_COQUI_LATENT))
            TD_CHECK(take_speaker(s, file, &tensors[i], find_embedding(tensors, n, &tensors[i]), &names));
        else if (!ends_with(tensors[i].name, TD_COQUI_EMBEDDING))
            TD_CHECK(td_import_ignore(s->import, tensors[i].name));
    }
    s->import->info.speakers = names;
    return TD_OK;
}

/* ---------------------------------------------------------------- all of it */

/* What XTTS-v2 was published with. */
#define LANGUAGES "en\nes\nfr\nde\nit\npt\npl\ntr\nru\nnl\ncs\nar\nzh-cn\nhu\nko\nja\nhi"

static td_status tell(source *s)
{
    td_checkpoint_info *info = &s->import->info;
    char *languages, *first;
    TD_CHECK(td_coqui_read_languages(s->config, s->import->arena, &languages));
    if (languages[0] == '\0') {
        TD_CHECK(td_import_lack(s->import, "languages of " TD_COQUI_CONFIG));
        TD_CHECK(td_arena_strdup(s->import->arena, LANGUAGES, &languages));
    }
    TD_CHECK(td_arena_printf(s->import->arena, &first, "%.*s", (int)strcspn(languages, "\n"), languages));
    info->mel = td_xtts_conditioning_mel(&info->model.values);
    info->front_ends[0] = td_xtts_dvae_mel(&info->model.values);
    info->token_kind = TD_TOKENS_BPE;
    info->symbols = info->tokenizer = "";
    info->language = first;
    /* in the order of their keys, as copies of the voice have them */
    TD_CHECK(td_import_pair(s->import, TD_COQUI_KEY_CONFIG, s->config_text));
    TD_CHECK(td_import_pair(s->import, TD_COQUI_KEY_LANGUAGES, languages));
    TD_CHECK(td_import_pair(s->import, "licence", LICENCE));
    TD_CHECK(td_import_pair(s->import, "origin", ORIGIN));
    char *vocab;
    TD_CHECK(td_arena_strdup(s->import->arena, s->vocab_text, &vocab));
    info->tokenizer_json = vocab;
    return TD_OK;
}

td_status td_coqui_import(td_import *import)
{
    td_status status = TD_OK;
    source *s = NULL;
    TD_TRY(TD_NEW(&s));
    s->import = import;
    TD_FAIL_IF(!find_model(import->source, s->folder, s->model), TD_ERR_NOT_FOUND, "'%.200s' has no model",
               import->source);
    TD_TRY(td_import_file(import, s->model, &s->model_file));
    TD_TRY(collect_all(s));
    TD_TRY(read_config(s));
    TD_TRY(read_vocab(s));
    TD_TRY(make_config(s));
    TD_TRY(take_model(s));
    TD_TRY(take_speakers(s));
    TD_TRY(tell(s));
fail:
    if (s != NULL) {
        td_bpe_destroy(s->bpe);
        cJSON_Delete(s->config);
        free(s->config_text);
        free(s->vocab_text);
        free(s->tensors);
    }
    free(s);
    return status;
}
