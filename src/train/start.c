/* Where a run begins: the newest whole checkpoint of its folder, one that the user names, the tensors of
 * another model, or nothing. See train.h. Covered by tests/train/test_train_run.c. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "train/hear.h"
#include "train/train_internal.h"

enum { MAX_LISTED_BYTES = 700 };

/* ---------------------------------------------------------------- finding */

static td_status open_whole(const char *path, td_checkpoint **out)
{
    td_status status = TD_OK;
    TD_TRY(td_checkpoint_open(path, out));
    TD_TRY(td_checkpoint_verify(*out));
    return TD_OK;
fail:
    td_checkpoint_close(*out);
    *out = NULL;
    return status;
}

/* After a damaged checkpoint that the user named: which one of the folder was written before it. */
static td_status offer_older(const td_trainer *t, const char *path)
{
    const td_error error = *td_error_last();
    uint64_t *steps = NULL;
    size_t count;
    char older[TD_FILE_PATH_BYTES] = "";
    td_checkpoint *checkpoint;
    if (td_run_dir_list(t->run, &steps, &count) == TD_OK) {
        for (size_t i = 0; i < count && older[0] == '\0'; ++i) {
            if (td_run_dir_checkpoint(t->run, steps[i], older) != TD_OK || strcmp(older, path) == 0 ||
                open_whole(older, &checkpoint) != TD_OK)
                older[0] = '\0';
            else
                td_checkpoint_close(checkpoint);
        }
    }
    free(steps);
    if (older[0] == '\0') return td_error_adopt(&error);
    return TD_FAIL(error.status, "%s; the one before it is whole: training.resume = %s", error.message,
                   older);
}

static td_status find_newest(td_trainer *t)
{
    td_status status = TD_OK;
    uint64_t *steps = NULL;
    size_t count;
    char path[TD_FILE_PATH_BYTES];
    TD_TRY(td_run_dir_list(t->run, &steps, &count));
    for (size_t i = 0; i < count && t->from == NULL; ++i) {
        TD_TRY(td_run_dir_checkpoint(t->run, steps[i], path));
        if (open_whole(path, &t->from) == TD_OK) continue;
        td_log_warn("%s; %s", td_error_last()->message,
                    i + 1 < count ? "going on from the one before it" : "no other is left in the folder");
        TD_FAIL_IF(i + 1 == count, TD_ERR_INTEGRITY,
                   "no checkpoint in '%s' is whole; start over with training.reset_training",
                   td_run_dir_name(t->run));
    }
fail:
    free(steps);
    return status;
}

/* A voice that lacks what would be trained, or what that hears by, gets it from the seed, in a file of the run. Rank 0
 * goes ahead, so that the others find it. */
static td_status complete_voice(td_trainer *t)
{
    const td_listener_class *listener = t->s.model.family->listener;
    char path[TD_FILE_PATH_BYTES];
    bool is_made = false;
    TD_REFUSE_IF(
        t->from == NULL || td_checkpoint_get_info(t->from)->model.family != t->s.model.family, TD_ERR_CONFIG,
        "a vocoder learns what the other parts of its voice make of recordings: begin with a voice of "
        "family %s (training.init_from)",
        t->s.model.family->name);
    if (t->resumes) return TD_OK;
    TD_CHECK(td_run_dir_path(t->run, "begun.safetensors", path));
    if (t->rank == 0)
        TD_CHECK(listener->complete(t->from, t->s.seed, path, &is_made));
    else
        is_made = td_file_exists(path);
    if (!is_made) return TD_OK;
    td_checkpoint_close(t->from);
    t->from = NULL;
    return open_whole(path, &t->from);
}

td_status td_trainer_find_start(td_trainer *t)
{
    TD_REFUSE_IF(t->s.resume != NULL && t->s.init_from != NULL, TD_ERR_CONFIG,
                 "training.resume and training.init_from exclude each other: the one goes on with a run, the "
                 "other begins one");
    if (t->s.resume != NULL) {
        if (open_whole(t->s.resume, &t->from) != TD_OK) return offer_older(t, t->s.resume);
        t->resumes = !t->s.reset;
    } else if (!t->s.reset) {
        TD_CHECK(find_newest(t));
        t->resumes = t->from != NULL;
        if (t->resumes && t->s.init_from != NULL)
            td_log_warn("training.init_from is not used: the run in '%s' goes on from its own checkpoint",
                        td_run_dir_name(t->run));
    }
    if (t->from == NULL && t->s.init_from != NULL) TD_CHECK(open_whole(t->s.init_from, &t->from));
    return td_hears(&t->s.model) ? complete_voice(t) : TD_OK;
}

/* ---------------------------------------------------------------- symbols */

/* The dataset's symbols and those of the model it goes on from, in one table. */
td_status td_trainer_join_symbols(td_trainer *t, bool *changed)
{
    td_status status = TD_OK;
    td_symbol_set *set = NULL;
    td_symbols *joined = NULL;
    const td_block_view *view = &t->data.dataset->view;
    const char *own = td_block_string(view, view->header->symbols);
    const char *old = td_checkpoint_get_info(t->from)->symbols;
    *changed = false;
    TD_TRY(td_symbol_set_create(&set));
    TD_TRY(td_symbol_set_add(set, own, strlen(own)));
    TD_TRY(td_symbol_set_add(set, old, strlen(old)));
    TD_TRY(td_symbols_create(set, &joined));
    if (strcmp(td_symbols_text(joined), own) == 0) goto fail;
    TD_TRY(TD_NEW_ARRAY(&t->symbols, strlen(td_symbols_text(joined)) + 1));
    memcpy(t->symbols, td_symbols_text(joined), strlen(td_symbols_text(joined)) + 1);
    *changed = true;
fail:
    td_symbols_destroy(joined);
    td_symbol_set_destroy(set);
    return status;
}

/* By their tokens: which symbols the training rows have. */
static void mark_seen(const td_dataset *d, bool *is_seen)
{
    for (size_t i = 0; i < d->n_train; ++i) {
        const td_block_row *row = &d->view.rows[d->train[i]];
        for (uint32_t k = 0; k < row->n_tokens; ++k)
            is_seen[d->view.tokens[row->first_token + k]] = true;
    }
}

td_status td_trainer_list_unseen(td_trainer *t)
{
    td_status status = TD_OK;
    bool *is_seen = NULL;
    td_symbols *old = NULL; /* that the model it goes on from has seen */
    td_buffer unseen = {0};
    const td_dataset *d = t->data.dataset;
    const char *text = td_block_string(&d->view, d->view.header->symbols);
    TD_TRY(TD_NEW_ARRAY(&is_seen, d->view.header->vocab_size));
    mark_seen(d, is_seen);
    if (t->from != NULL) {
        TD_TRY(td_symbols_parse(td_checkpoint_get_info(t->from)->symbols, &old));
        TD_TRY(td_symbols_hide(old, td_checkpoint_get_info(t->from)->unseen));
    }
    TD_TRY(td_buffer_append(&unseen, "", 0));
    for (size_t id = TD_SYMBOL_FIRST; *text != '\0'; ++id) {
        uint32_t codepoint;
        const size_t bytes = td_text_utf8_next(text, strlen(text), &codepoint);
        const bool was_seen = old != NULL && td_symbols_find(old, codepoint) != TD_SYMBOL_UNKNOWN;
        if (!is_seen[id] && !was_seen) TD_TRY(td_buffer_append(&unseen, text, bytes));
        text += bytes;
    }
    t->unseen = unseen.data;
    unseen.data = NULL;
fail:
    td_buffer_free(&unseen);
    td_symbols_destroy(old);
    free(is_seen);
    return status;
}

/* ---------------------------------------------------------------- tables whose rows have moved */

/* Row of the old table for each new one, or UINT32_MAX. */
static td_status map_symbols(const td_trainer *t, uint32_t *map)
{
    td_status status = TD_OK;
    td_symbols *old = NULL;
    uint32_t id = TD_SYMBOL_FIRST;
    const char *text = t->info.symbols;
    TD_TRY(td_symbols_parse(td_checkpoint_get_info(t->from)->symbols, &old));
    for (uint32_t i = 0; i < TD_SYMBOL_FIRST; ++i)
        map[i] = i;
    while (*text != '\0') {
        uint32_t codepoint;
        text += td_text_utf8_next(text, strlen(text), &codepoint);
        const int32_t at = td_symbols_find(old, codepoint);
        map[id++] = at == TD_SYMBOL_UNKNOWN ? UINT32_MAX : (uint32_t)at;
    }
fail:
    td_symbols_destroy(old);
    return status;
}

static size_t line_bytes(const char *text)
{
    return strcspn(text, "\n");
}

static void map_speakers(const td_trainer *t, uint32_t n_new, uint32_t *map)
{
    const char *name = t->info.speakers;
    for (uint32_t id = 0; id < n_new; ++id) {
        uint32_t at = 0;
        const char *old = td_checkpoint_get_info(t->from)->speakers;
        map[id] = UINT32_MAX;
        for (; *old != '\0'; ++at) {
            if (line_bytes(old) == line_bytes(name) && strncmp(old, name, line_bytes(name)) == 0)
                map[id] = at;
            old += line_bytes(old);
            old += *old == '\n';
        }
        name += line_bytes(name);
        name += *name == '\n';
    }
}

/* Whether the entry is a table with a row per symbol or speaker, and where its rows were. */
static td_status map_rows(const td_trainer *t, const td_store_entry *entry, const td_safetensors_tensor *old,
                          uint32_t **map)
{
    td_status status = TD_OK;
    const td_family *family = t->info.model.family;
    const td_model_facts now = td_model_describe(&t->info.model);
    const td_model_facts then = td_model_describe(&td_checkpoint_get_info(t->from)->model);
    const bool symbols = family->symbol_table != NULL && strcmp(entry->name, family->symbol_table) == 0;
    const bool speakers = family->speaker_table != NULL && strcmp(entry->name, family->speaker_table) == 0;
    *map = NULL;
    if ((!symbols && !speakers) || old->rank != 2 || entry->shape.n_dims != 2 ||
        old->dims[1] != entry->shape.dims[1] ||
        old->dims[0] != (symbols ? then.n_symbols : then.n_speakers) ||
        entry->shape.dims[0] != (symbols ? now.n_symbols : now.n_speakers))
        return TD_OK;
    if (symbols && t->info.token_kind == TD_TOKENS_BPE) return TD_OK;
    TD_TRY(TD_NEW_ARRAY(map, entry->shape.dims[0]));
    if (symbols)
        TD_TRY(map_symbols(t, *map));
    else
        map_speakers(t, now.n_speakers, *map);
    return TD_OK;
fail:
    free(*map);
    *map = NULL;
    return status;
}

/* ---------------------------------------------------------------- loading */

static td_status take_rows(td_trainer *t, size_t i, const td_store_entry *entry,
                           const td_safetensors_tensor *old, const uint32_t *map)
{
    td_status status = TD_OK;
    float *values = NULL;
    const uint64_t width = entry->shape.dims[1];
    TD_TRY(TD_NEW_ARRAY(&values, td_shape_size(entry->shape)));
    TD_TRY(td_store_read(t->store, i, TD_BLOCK_WEIGHT, values)); /* what was initialised stays in new rows */
    for (uint32_t row = 0; row < entry->shape.dims[0]; ++row)
        if (map[row] != UINT32_MAX && map[row] < old->dims[0])
            memcpy(values + row * width, (const float *)old->data + map[row] * width, 4 * width);
    TD_TRY(td_store_write(t->store, i, TD_BLOCK_WEIGHT, values));
fail:
    free(values);
    return status;
}

static void add_name(char *list, const char *name)
{
    const size_t used = strlen(list);
    snprintf(list + used, MAX_LISTED_BYTES - used, "%s%s", used > 0 ? ", " : "", name);
}

/* Matching tensors from another model; the rest keeps what it was initialised with. */
static td_status take_matching(td_trainer *t)
{
    td_status status = TD_OK;
    char taken[MAX_LISTED_BYTES] = "", made[MAX_LISTED_BYTES] = "";
    size_t n_taken = 0, n_made = 0;
    uint32_t *map = NULL;
    for (size_t i = 0; i < td_store_count(t->store); ++i) {
        const td_store_entry entry = td_store_get(t->store, i);
        const td_safetensors_tensor *old;
        if (entry.role != TD_TENSOR_PARAMETER) continue;
        if (td_checkpoint_tensor(t->from, "param.", entry.name, &old) != TD_OK) old = NULL;
        free(map);
        map = NULL;
        if (old != NULL) TD_TRY(map_rows(t, &entry, old, &map));
        bool is_taken = map != NULL;
        if (is_taken)
            TD_TRY(take_rows(t, i, &entry, old, map));
        else
            TD_TRY(td_checkpoint_take(t->from, t->store, i, &is_taken));
        add_name(is_taken ? taken : made, entry.name);
        n_taken += is_taken;
        n_made += !is_taken;
    }
    TD_FAIL_IF(n_taken == 0 && td_frozen_taken(t->frozen) == 0, TD_ERR_CONFIG,
               "no tensor of '%s' fits this model; choose the model it was made with",
               td_checkpoint_path(t->from));
    td_log_info("%zu tensors come from '%s': %s", n_taken, td_checkpoint_path(t->from), taken);
    td_log_info("%zu tensors start from the seed%s%s", n_made, n_made > 0 ? ": " : "", made);
fail:
    free(map);
    return status;
}

/* Features that another front end makes are others, though the parameters fit. The first line that differs
 * says which it is. */
static td_status check_front_ends(const td_trainer *t)
{
    const td_checkpoint_info *then = td_checkpoint_get_info(t->from);
    const td_family *family = t->info.model.family;
    for (size_t i = 0; i < family->n_front_ends; ++i) {
        char now[TD_MEL_CONFIG_LINE_BYTES], old[TD_MEL_CONFIG_LINE_BYTES];
        if (!td_mel_config_differ(&t->info.front_ends[i], &then->front_ends[i], now, old)) continue;
        return TD_FAIL(TD_ERR_CONFIG, "'%s' was made with another front end %s: its %s is %s here",
                       td_checkpoint_path(t->from), family->front_ends[i].name, old, now);
    }
    return TD_OK;
}

/* What cannot be gone on with exactly. */
static td_status check_model(const td_trainer *t)
{
    const td_checkpoint_info *then = td_checkpoint_get_info(t->from);
    const td_family *family = t->info.model.family;
    const char *what = "family";
    char now[TD_MODEL_VALUE_BYTES], old[TD_MODEL_VALUE_BYTES];
    if (then->model.family == family) {
        const size_t key = td_model_config_differ(&t->info.model, &then->model);
        if (key == family->n_keys) return TD_OK;
        what = family->keys[key].name;
        td_model_config_get(&t->info.model, key, now);
        td_model_config_get(&then->model, key, old);
    } else {
        snprintf(now, sizeof now, "%s", family->name);
        snprintf(old, sizeof old, "%s", then->model.family->name);
    }
    return TD_FAIL(TD_ERR_CONFIG,
                   "'%s' is of another model: its %s is %s, here it is %s; choose the same model, another "
                   "training.checkpoint_dir, or training.init_from to take what fits",
                   td_checkpoint_path(t->from), what, old, now);
}

static td_status go_on(td_trainer *t)
{
    TD_CHECK(check_model(t));
    TD_CHECK(check_front_ends(t));
    TD_CHECK(td_snapshot_load(t->from, t->store, t->shards, &t->state));
    snprintf(t->result->checkpoint, sizeof t->result->checkpoint, "%s", td_checkpoint_path(t->from));
    if (t->state.seed != t->s.seed || t->state.batch_size != t->s.data.batch_size) {
        td_log_warn("seed or batch size are others than before: the epoch starts over");
        t->state.sampler.position = 0;
    }
    if (t->state.best_by_distance != t->s.best_by_distance) {
        td_log_warn("training.best_by is another than before: the best one so far is forgotten");
        t->state.best_loss = NAN;
        t->state.best_by_distance = t->s.best_by_distance;
    }
    td_log_info("going on from '%s', step %" PRIu64, td_checkpoint_path(t->from), t->state.step);
    return TD_OK;
}

/* A running average begins with what it is the average of. */
static td_status begin_average(td_trainer *t)
{
    td_status status = TD_OK;
    float *values = NULL;
    for (size_t i = 0; i < td_store_count(t->store); ++i) {
        if (td_store_span(t->store, i, TD_BLOCK_AVERAGE).buffer == NULL) continue;
        free(values);
        TD_TRY(TD_NEW_ARRAY(&values, td_shape_size(td_store_get(t->store, i).shape)));
        TD_TRY(td_store_read(t->store, i, TD_BLOCK_WEIGHT, values));
        TD_TRY(td_store_write(t->store, i, TD_BLOCK_AVERAGE, values));
    }
fail:
    free(values);
    return status;
}

td_status td_trainer_load_start(td_trainer *t)
{
    TD_CHECK(td_store_init(t->store, t->s.seed));
    if (t->resumes) return go_on(t);
    if (t->from != NULL) TD_CHECK(take_matching(t));
    return begin_average(t);
}
