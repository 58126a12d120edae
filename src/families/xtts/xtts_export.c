/* From a voice to Coqui's files: model.pth with a plain state dict under "model", which Coqui's loader and
 * torch.load(weights_only=True) take, and the others where the voice has something for them. Weights that were trained
 * here lie under param., imported ones under their own names. Covered by tests/families/test_xtts_import.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "families/xtts/load.h"
#include "families/xtts/lora.h"
#include "families/xtts/xtts_coqui.h"
#include "families/xtts/xtts_layout.h"
#include "ops/decode.h"
#include "torch/torch_write.h"

typedef struct output {
    const td_checkpoint *voice;
    const td_safetensors *file;
    const char *folder;
    bool is_adapted;
} output;

/* Which tensors a file gets, and how they are called there; NULL: not in this file. */
typedef const char *choice(const char *name);

/* ---------------------------------------------------------------- names */

static const char *skip(const char *name, const char *prefix)
{
    const size_t bytes = strlen(prefix);
    return strncmp(name, prefix, bytes) == 0 ? name + bytes : NULL;
}

/* Coqui's name of a tensor of the voice; NULL for what is of training alone. */
static const char *find_name(const char *name)
{
    static const char *const TRAINING[] = {"moment1.", "moment2.",   "scale1.", "scale2.",
                                           "average.", "optimizer.", "data.",   "header.hash"};
    for (size_t i = 0; i < sizeof TRAINING / sizeof *TRAINING; i++)
        if (skip(name, TRAINING[i]) != NULL) return NULL;
    const char *param = skip(name, "param."), *state = skip(name, "state.");
    if (td_xtts_lora_has(name)) return NULL; /* is merged */
    return param != NULL ? param : state != NULL ? state : name;
}

static const char *choose_model(const char *name)
{
    return skip(name, "dvae.") != NULL || skip(name, TD_COQUI_SPEAKERS_PREFIX) != NULL ? NULL : name;
}

static const char *choose_dvae(const char *name)
{
    return skip(name, "dvae.");
}

static const char *choose_speakers(const char *name)
{
    return skip(name, TD_COQUI_SPEAKERS_PREFIX);
}

static const char *choose_stats(const char *name)
{
    return strcmp(name, "mel_stats") == 0 ? name : NULL;
}

/* ---------------------------------------------------------------- files of tensors */

/* The name that a tensor gets in a file; NULL: it is not in it. */
static const char *choose(const td_safetensors_tensor *t, choice *chooses)
{
    const char *name = find_name(t->name);
    return name != NULL ? chooses(name) : NULL;
}

static size_t count_chosen(const output *o, choice *chooses)
{
    size_t n = 0;
    for (size_t i = 0; i < td_safetensors_count(o->file); i++)
        n += choose(td_safetensors_at(o->file, i), chooses) != NULL;
    return n;
}

static td_status open_writer(const output *o, const char *name, td_torch_writer **out)
{
    char path[TD_FILE_PATH_BYTES], prefix[64];
    const int bytes = snprintf(path, sizeof path, "%s/%s", o->folder, name);
    *out = NULL;
    TD_REFUSE_IF(bytes < 0 || (size_t)bytes >= sizeof path, TD_ERR_IO, "the path '%.200s' is too long",
                 o->folder);
    snprintf(prefix, sizeof prefix, "%.*s", (int)strcspn(name, "."), name);
    return td_torch_writer_open(path, prefix, out);
}

/* With what adapters have learnt beside it; of another format than fp32 there are none. */
static td_status write_tensor(const output *o, const td_safetensors_tensor *t, td_torch_writer *w)
{
    td_status status = TD_OK;
    float *merged = NULL;
    const bool is_merged = o->is_adapted && t->dtype == TD_SAFETENSORS_F32 && t->rank == 2;
    if (!is_merged) return td_torch_writer_write(w, t->data, t->bytes);
    TD_TRY(TD_NEW_ARRAY(&merged, t->bytes / sizeof *merged));
    memcpy(merged, t->data, t->bytes);
    TD_TRY(td_xtts_lora_merge(o->voice, find_name(t->name), merged));
    TD_TRY(td_torch_writer_write(w, merged, t->bytes));
fail:
    free(merged);
    return status;
}

/* Elements, in the order in which they were described. */
static td_status write_chosen(const output *o, choice *chooses, td_torch_writer *w)
{
    for (size_t i = 0; i < td_safetensors_count(o->file); i++) {
        const td_safetensors_tensor *t = td_safetensors_at(o->file, i);
        if (choose(t, chooses) != NULL) TD_CHECK(write_tensor(o, t, w));
    }
    return td_torch_writer_commit(w);
}

static td_status describe(td_torch_writer *w, const char *key, const td_safetensors_tensor *t)
{
    if (key != NULL) TD_CHECK(td_torch_writer_key(w, key));
    return td_torch_writer_tensor(w, t->dtype, t->rank, t->dims);
}

/* A dict of tensors, under `key` of another one if there is a key. */
static td_status write_dict(const output *o, const char *name, const char *key, choice *chooses)
{
    td_status status = TD_OK;
    td_torch_writer *w = NULL;
    TD_TRY(open_writer(o, name, &w));
    if (key != NULL) {
        TD_TRY(td_torch_writer_begin_dict(w));
        TD_TRY(td_torch_writer_key(w, key));
    }
    TD_TRY(td_torch_writer_begin_dict(w));
    for (size_t i = 0; i < td_safetensors_count(o->file); i++) {
        const td_safetensors_tensor *t = td_safetensors_at(o->file, i);
        const char *chosen = choose(t, chooses);
        if (chosen != NULL) TD_TRY(describe(w, chosen, t));
    }
    TD_TRY(td_torch_writer_end_dict(w));
    if (key != NULL) TD_TRY(td_torch_writer_end_dict(w));
    TD_TRY(write_chosen(o, chooses, w));
fail:
    td_torch_writer_close(w);
    return status;
}

/* One tensor and nothing else. */
static td_status write_stats(const output *o)
{
    td_status status = TD_OK;
    td_torch_writer *w = NULL;
    const td_safetensors_tensor *t = NULL;
    for (size_t i = 0; i < td_safetensors_count(o->file) && t == NULL; i++)
        if (choose(td_safetensors_at(o->file, i), choose_stats) != NULL) t = td_safetensors_at(o->file, i);
    if (t == NULL) return TD_OK;
    TD_TRY(open_writer(o, TD_COQUI_MEL_STATS, &w));
    TD_TRY(describe(w, NULL, t));
    TD_TRY(write_chosen(o, choose_stats, w));
fail:
    td_torch_writer_close(w);
    return status;
}

/* A dict of dicts: speaker `i` of the voice's tensors, and both of its tensors. */
typedef struct speaker {
    char name[TD_SAFETENSORS_MAX_NAME_BYTES];
    const td_safetensors_tensor *latent, *embedding;
} speaker;

/* Whether tensor i begins a speaker. */
static bool find_speaker(const output *o, size_t i, speaker *out)
{
    char name[TD_SAFETENSORS_MAX_NAME_BYTES + 32];
    out->latent = td_safetensors_at(o->file, i);
    const char *chosen = choose(out->latent, choose_speakers);
    const size_t bytes = chosen != NULL ? strlen(chosen) : 0, ending = strlen(TD_COQUI_LATENT);
    if (bytes <= ending || strcmp(chosen + bytes - ending, TD_COQUI_LATENT) != 0) return false;
    snprintf(out->name, sizeof out->name, "%.*s", (int)(bytes - ending), chosen);
    snprintf(name, sizeof name, "%.*s" TD_COQUI_EMBEDDING, (int)(strlen(out->latent->name) - ending),
             out->latent->name);
    out->embedding = td_safetensors_find(o->file, name);
    return out->embedding != NULL;
}

static td_status describe_speaker(td_torch_writer *w, const speaker *s)
{
    TD_CHECK(td_torch_writer_key(w, s->name));
    TD_CHECK(td_torch_writer_begin_dict(w));
    TD_CHECK(describe(w, &TD_COQUI_LATENT[1], s->latent));
    TD_CHECK(describe(w, &TD_COQUI_EMBEDDING[1], s->embedding));
    return td_torch_writer_end_dict(w);
}

static td_status write_speakers(const output *o)
{
    td_status status = TD_OK;
    td_torch_writer *w = NULL;
    speaker s;
    TD_TRY(open_writer(o, TD_COQUI_SPEAKERS, &w));
    TD_TRY(td_torch_writer_begin_dict(w));
    for (size_t i = 0; i < td_safetensors_count(o->file); i++)
        if (find_speaker(o, i, &s)) TD_TRY(describe_speaker(w, &s));
    TD_TRY(td_torch_writer_end_dict(w));
    for (size_t i = 0; i < td_safetensors_count(o->file); i++) {
        if (!find_speaker(o, i, &s)) continue;
        TD_TRY(td_torch_writer_write(w, s.latent->data, s.latent->bytes));
        TD_TRY(td_torch_writer_write(w, s.embedding->data, s.embedding->bytes));
    }
    TD_TRY(td_torch_writer_commit(w));
fail:
    td_torch_writer_close(w);
    return status;
}

/* ---------------------------------------------------------------- the others */

static td_status write_text(const output *o, const char *name, const char *text)
{
    char path[TD_FILE_PATH_BYTES];
    const int bytes = snprintf(path, sizeof path, "%s/%s", o->folder, name);
    TD_REFUSE_IF(bytes < 0 || (size_t)bytes >= sizeof path, TD_ERR_IO, "the path '%.200s' is too long",
                 o->folder);
    return td_file_write_atomic(path, text, strlen(text));
}

static td_status write_config(const output *o)
{
    td_status status = TD_OK;
    char *made = NULL;
    const char *text = td_checkpoint_text(o->voice, TD_COQUI_KEY_CONFIG);
    const char *languages = td_checkpoint_text(o->voice, TD_COQUI_KEY_LANGUAGES);
    if (text == NULL)
        TD_TRY(td_coqui_make_config(&td_checkpoint_get_info(o->voice)->model,
                                    languages != NULL ? languages : "", &made));
    TD_TRY(write_text(o, TD_COQUI_CONFIG, text != NULL ? text : made));
fail:
    free(made);
    return status;
}

/* Coqui's loader takes a model with all of its tensors or none. */
static td_status check_tensor(void *context, const td_xtts_tensor *wanted)
{
    static const char *const PREFIXES[] = {"", "param.", "state."};
    const output *o = context;
    for (size_t i = 0; i < sizeof PREFIXES / sizeof *PREFIXES; i++) {
        char name[TD_XTTS_NAME_BYTES + 8];
        snprintf(name, sizeof name, "%s%s", PREFIXES[i], wanted->name);
        const td_safetensors_tensor *t = td_safetensors_find(o->file, name);
        if (t != NULL && t->rank == wanted->rank &&
            memcmp(t->dims, wanted->dims, t->rank * sizeof *t->dims) == 0)
            return TD_OK;
    }
    return TD_FAIL(TD_ERR_FORMAT, "'%.200s' has no tensor %s of the shape that its model has",
                   td_checkpoint_path(o->voice), wanted->name);
}

td_status td_coqui_export(const td_checkpoint *voice, const char *folder)
{
    const td_xtts c = td_xtts_get(&td_checkpoint_get_info(voice)->model);
    const output o = {.voice = voice,
                      .file = td_checkpoint_file(voice),
                      .folder = folder,
                      .is_adapted = c.tune == TD_XTTS_LORA};
    const char *vocab = td_checkpoint_text(voice, TD_COQUI_KEY_VOCAB);
    TD_REFUSE_IF(vocab == NULL, TD_ERR_FORMAT, "'%.200s' does not hold its " TD_COQUI_VOCAB,
                 td_checkpoint_path(voice));
    TD_REFUSE_IF(
        td_xtts_stored_format(voice) == TD_FORMAT_INT8, TD_ERR_UNSUPPORTED,
        "'%.200s' has weights as bytes, which are no longer the model's own; export a voice that was "
        "imported with fp32 weights",
        td_checkpoint_path(voice));
    TD_CHECK(td_xtts_walk(&c, check_tensor, (void *)&o));
    TD_CHECK(write_dict(&o, TD_COQUI_MODEL, "model", choose_model));
    if (count_chosen(&o, choose_dvae) > 0) TD_CHECK(write_dict(&o, TD_COQUI_DVAE, NULL, choose_dvae));
    if (count_chosen(&o, choose_speakers) > 0) TD_CHECK(write_speakers(&o));
    TD_CHECK(write_stats(&o));
    TD_CHECK(write_text(&o, TD_COQUI_VOCAB, vocab));
    return write_config(&o);
}
