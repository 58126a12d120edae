/* Opening datasets (dataset.h): read the table, use the cache or build, look at the recordings, save what is
 * new, judge the bad rows. */
#include "data/dataset.h"

#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "data/prepare.h"

enum { CHUNK_CLIPS = 64, LOGGED_PROBLEMS = 10 };

/* ---------------------------------------------------------------- the table and its cache */

static td_status find_table(const td_dataset_settings *settings, td_dataset *d)
{
    const td_source_request request = {.path = settings->dir,
                                       .table = settings->metadata,
                                       .layout = settings->layout,
                                       .validates = settings->validates};
    TD_CHECK(td_source_find(&request, &d->source));
    d->dir = d->source.dir;
    d->metadata_path = d->source.path;
    return TD_OK;
}

void td_dataset_tell_layout(const td_dataset *d)
{
    const td_layout *layout = d->source.layout;
    if (d->source.is_recognised)
        td_log_info("%s: recognised as layout %s (%s)", d->metadata_path, layout->name, layout->shape);
}

/* The cache of a table is found by the table's place, so that an old one serves the next build. */
static void set_cache_path(const td_dataset_settings *settings, td_dataset *d)
{
    char real[PATH_MAX + TD_FILE_PATH_BYTES], slug[40];
    if (settings->cache_dir == NULL) return;
    if (realpath(d->metadata_path, real) == NULL || d->source.layout->text_ending != NULL) {
        if (realpath(d->dir, real) == NULL) snprintf(real, sizeof real, "%s", d->dir);
        snprintf(real + strlen(real), TD_FILE_PATH_BYTES, "/%s", d->source.table);
    }
    char *end = strrchr(real, '/');
    *end = '\0';
    const char *folder = strrchr(real, '/');
    td_text_slug(folder != NULL ? folder : real, slug, sizeof slug);
    *end = '/';
    const int length =
        snprintf(d->origin.cache_path, sizeof d->origin.cache_path, "%s/data/%s-%016" PRIx64 ".tddata",
                 settings->cache_dir, slug, td_hash64(real, strlen(real)));
    if (length >= TD_FILE_PATH_BYTES) {
        td_log_warn("no cache: paths under '%s' are too long", settings->cache_dir);
        d->origin.cache_path[0] = '\0';
    }
}

static bool is_same(td_digest a, td_digest b)
{
    return a.low == b.low && a.high == b.high;
}

static td_status fail_for_bad_rows(const td_dataset_settings *settings, const td_dataset *d, size_t n_bad,
                                   size_t n_all, uint32_t line, const char *first)
{
    char place[TD_FILE_PATH_BYTES + 16];
    td_dataset_place(d, line, place);
    if (n_all == 0)
        return TD_FAIL(TD_ERR_FORMAT, "%s has no row; layout %s is: %s", d->metadata_path,
                       d->source.layout->name, d->source.layout->shape);
    if (n_bad == n_all)
        return TD_FAIL(TD_ERR_FORMAT, "all %zu rows are bad; the first is %s: %s", n_all, place, first);
    if ((double)n_bad <= settings->max_bad_fraction * (double)n_all) return TD_OK;
    return TD_FAIL(
        TD_ERR_FORMAT,
        "%zu of %zu rows are bad, more than data.max_bad_fraction = %g allows; the first is %s: %s", n_bad,
        n_all, settings->max_bad_fraction, place, first);
}

/* Takes over `text`. */
static td_status build_block(const td_dataset_settings *settings, const td_metadata_settings *form,
                             td_pool *pool, td_dataset *d, char *text, size_t bytes, td_digest metadata,
                             td_digest digest, td_data_block *old, const td_block_view *old_view)
{
    td_status status = TD_OK;
    td_metadata *table = NULL;
    TD_TRY(td_metadata_parse(text, bytes, d->metadata_path, form, &table));
    const td_problems *bad = &table->problems;
    TD_TRY(fail_for_bad_rows(settings, d, bad->total, table->n_rows + bad->total,
                             bad->count > 0 ? bad->items[0].line : 0,
                             bad->count > 0 ? bad->items[0].message : ""));
    TD_TRY(td_prepare_build(table, settings, pool, old->data != NULL ? old_view : NULL, metadata, digest,
                            &d->block, &d->origin.n_normalised));
    const char *reason = td_block_open(d->block.data, d->block.bytes, &d->view);
    TD_FAIL_IF(reason != NULL, TD_ERR_FORMAT, "what was prepared cannot be used: %s", reason);
fail:
    td_metadata_destroy(table);
    return status;
}

/* Says in one line why the cache is not used, if there was one. */
static void tell_why(td_dataset *d, const char *reason, bool was_whole)
{
    snprintf(d->origin.why, sizeof d->origin.why, "%s", reason);
    if (*reason == '\0') return;
    td_log(was_whole ? TD_LOG_INFO : TD_LOG_WARN, "cache '%s' is rebuilt: %s", d->origin.cache_path, reason);
}

static td_status load_or_build(const td_dataset_settings *settings, td_pool *pool, td_dataset *d)
{
    td_status status = TD_OK;
    td_digest metadata, digest;
    td_data_block old = {0};
    td_block_view view;
    const char *reason = "";
    char *text = NULL;
    size_t bytes = 0;
    td_metadata_settings form = settings->table;
    TD_TRY(td_source_read(&d->source, &form, &text, &bytes));
    TD_TRY(td_prepare_digest(settings, &form, &digest));
    metadata = td_hash128(text, bytes);
    if (d->origin.cache_path[0] != '\0') td_block_map(d->origin.cache_path, &old, &view, &reason);
    if (old.data != NULL) {
        reason = !is_same(view.header->settings, digest)     ? "it was made with other settings"
                 : !is_same(view.header->metadata, metadata) ? "the metadata has changed"
                                                             : NULL;
        if (reason == NULL) {
            d->block = old;
            d->view = view;
            d->origin.from_cache = true;
            old = (td_data_block){0};
            goto fail;
        }
    }
    tell_why(d, reason, old.data != NULL);
    char *taken = text;
    text = NULL;
    TD_TRY(build_block(settings, &form, pool, d, taken, bytes, metadata, digest, &old, &view));
fail:
    free(text);
    td_block_release(&old);
    return status;
}

/* ---------------------------------------------------------------- recordings */

typedef struct clip_work {
    const td_dataset_settings *settings;
    const td_dataset *dataset;
    td_clip *clips;      /* of each row */
    uint32_t *file_keys; /* likewise */
    pthread_mutex_t lock;
    size_t n_done, n_changed, n_read, n_heard; /* guarded by it */
} clip_work;

td_status td_dataset_clip_path(const td_dataset *dataset, size_t row, char out[TD_FILE_PATH_BYTES])
{
    const char *file = dataset->files != NULL ? dataset->files[row].file : NULL;
    const int length = file != NULL ? snprintf(out, TD_FILE_PATH_BYTES, "%s/%s", dataset->dir, file)
                                    : snprintf(out, TD_FILE_PATH_BYTES, "%s/wavs/%s.wav", dataset->dir,
                                               td_dataset_id(dataset, row));
    if (length < TD_FILE_PATH_BYTES) return TD_OK;
    return TD_FAIL(TD_ERR_LIMIT, "the path of recording '%s' is too long", td_dataset_id(dataset, row));
}

/* Looks for the files of all rows. */
static td_status find_files(td_dataset *d)
{
    const td_layout *layout = d->source.layout;
    TD_CHECK(td_recordings_open(d->dir, layout, &d->recordings));
    TD_CHECK(TD_NEW_ARRAY(&d->files, d->view.n_rows + 1));
    for (size_t i = 0; i < d->view.n_rows; ++i)
        TD_CHECK(td_recordings_add(d->recordings, td_dataset_id(d, i)));
    TD_REFUSE_IF(!td_recordings_has_any(d->recordings) && !td_recordings_has_place(d->recordings),
                 TD_ERR_NOT_FOUND, "'%s/%.*s' is not there; layout %s is: %s", d->dir,
                 (int)strcspn(layout->places[0], "/"), layout->places[0], layout->name, layout->shape);
    for (size_t i = 0; i < d->view.n_rows; ++i)
        TD_CHECK(td_recordings_find(d->recordings, td_dataset_id(d, i), &d->files[i]));
    return TD_OK;
}

static td_status look_at_clips(void *context, size_t chunk)
{
    clip_work *w = context;
    const td_dataset *d = w->dataset;
    const size_t first = chunk * CHUNK_CLIPS;
    const size_t end = first + CHUNK_CLIPS < d->view.n_rows ? first + CHUNK_CLIPS : d->view.n_rows;
    size_t n_changed = 0, n_read = 0, n_heard = 0;
    for (size_t i = first; i < end; ++i) {
        char path[TD_FILE_PATH_BYTES];
        const td_status status = td_dataset_clip_path(d, i, path);
        if (status != TD_OK) return status;
        const td_clip *known = &d->view.rows[i].clip;
        const uint32_t file_key = (uint32_t)td_hash64(d->files[i].file, strlen(d->files[i].file));
        const bool is_renamed = d->view.rows[i].file_key != file_key;
        td_clip now = d->files[i].twin != NULL ? (td_clip){.state = TD_CLIP_TWICE} : td_clip_stamp(path);
        if (!is_renamed && td_clip_is_current(known, &now)) {
            now = *known;
        } else {
            n_read += now.state == TD_CLIP_UNKNOWN;
            td_clip_read(path, &now);
        }
        if (w->settings->listen && now.state == TD_CLIP_GOOD && !now.is_listened) {
            td_clip_listen(path, &now);
            ++n_heard;
        }
        n_changed += is_renamed || memcmp(known, &now, sizeof now) != 0;
        w->clips[i] = now;
        w->file_keys[i] = file_key;
    }
    pthread_mutex_lock(&w->lock);
    w->n_done += end - first;
    w->n_changed += n_changed;
    w->n_read += n_read;
    w->n_heard += n_heard;
    if (w->settings->report != NULL)
        w->settings->report(w->settings->report_context, "recordings", w->n_done, d->view.n_rows);
    pthread_mutex_unlock(&w->lock);
    return TD_OK;
}

/* Brings what the block knows of the recordings up to date; *changed if it was not. */
static td_status refresh_clips(const td_dataset_settings *settings, td_pool *pool, td_dataset *d,
                               bool *changed)
{
    td_status status = TD_OK;
    clip_work w = {.settings = settings, .dataset = d};
    pthread_mutex_init(&w.lock, NULL);
    TD_TRY(find_files(d));
    TD_TRY(TD_NEW_ARRAY(&w.clips, d->view.n_rows + 1));
    TD_TRY(TD_NEW_ARRAY(&w.file_keys, d->view.n_rows + 1));
    TD_TRY(td_pool_map(pool, (d->view.n_rows + CHUNK_CLIPS - 1) / CHUNK_CLIPS, look_at_clips, &w));
    d->origin.n_clips_read = w.n_read;
    d->origin.n_clips_heard = w.n_heard;
    if (w.n_changed > 0) {
        *changed = true;
        TD_TRY(td_block_make_writable(&d->block, &d->view));
        td_block_header *header = d->block.data;
        td_block_row *rows = (td_block_row *)((char *)d->block.data + header->rows.at);
        for (size_t i = 0; i < d->view.n_rows; ++i) {
            rows[i].clip = w.clips[i];
            rows[i].file_key = w.file_keys[i];
        }
        td_block_seal(d->block.data, d->block.bytes);
    }
fail:
    free(w.clips);
    free(w.file_keys);
    pthread_mutex_destroy(&w.lock);
    return status;
}

/* ---------------------------------------------------------------- bad rows */

static td_status collect_problems(td_dataset *d, bool without_audio)
{
    for (size_t i = 0; i < d->view.n_problems; ++i) {
        const td_block_problem *problem = &d->view.problems[i];
        TD_CHECK(
            td_problems_add(&d->problems, problem->line, "%s", td_block_string(&d->view, problem->message)));
    }
    d->problems.total = (size_t)d->view.header->n_bad;
    for (size_t i = 0; i < d->view.n_rows && !without_audio; ++i) {
        char reason[160];
        const td_block_row *row = &d->view.rows[i];
        if (row->clip.state == TD_CLIP_GOOD) continue;
        td_clip_describe(&row->clip, reason, sizeof reason);
        const td_recording *r = &d->files[i];
        TD_CHECK(td_problems_add(&d->problems, row->line, "%s%s%s %s", r->file,
                                 r->twin != NULL ? " and " : "", r->twin != NULL ? r->twin : "", reason));
    }
    return TD_OK;
}

static void log_problems(const td_dataset *d)
{
    const size_t n = d->problems.count < LOGGED_PROBLEMS ? d->problems.count : LOGGED_PROBLEMS;
    for (size_t i = 0; i < n; ++i) {
        char place[TD_FILE_PATH_BYTES + 16];
        td_dataset_place(d, d->problems.items[i].line, place);
        td_log_warn("%s: %s; the row is left out", place, d->problems.items[i].message);
    }
    if (d->problems.total > n)
        td_log_warn("%s: %zu more bad rows; `tandem inspect %s --json` lists them", d->metadata_path,
                    d->problems.total - n, d->dir);
}

static td_status list_rows(td_dataset *d, bool without_audio)
{
    TD_CHECK(TD_NEW_ARRAY(&d->train, d->view.n_rows + 1));
    TD_CHECK(TD_NEW_ARRAY(&d->val, d->view.n_rows + 1));
    for (size_t i = 0; i < d->view.n_rows; ++i) {
        const td_block_row *row = &d->view.rows[i];
        if (!without_audio && row->clip.state != TD_CLIP_GOOD) continue;
        if (row->is_validation)
            d->val[d->n_val++] = (uint32_t)i;
        else
            d->train[d->n_train++] = (uint32_t)i;
    }
    return TD_OK;
}

/* ---------------------------------------------------------------- all of it */

static void save(const td_dataset *d)
{
    char folder[TD_FILE_PATH_BYTES];
    if (d->origin.cache_path[0] == '\0') return;
    snprintf(folder, sizeof folder, "%s", d->origin.cache_path);
    *strrchr(folder, '/') = '\0';
    if (td_file_make_dirs(folder) != TD_OK ||
        td_file_write_atomic(d->origin.cache_path, d->block.data, d->block.bytes) != TD_OK)
        td_log_warn("the prepared dataset is not kept: %s", td_error_last()->message);
}

td_status td_dataset_open(const td_dataset_settings *settings, td_pool *pool, td_dataset **out)
{
    td_status status = TD_OK;
    td_dataset *d = NULL;
    bool changed = false;
    *out = NULL;
    TD_TRY(TD_NEW(&d));
    TD_TRY(find_table(settings, d));
    set_cache_path(settings, d);
    TD_TRY(load_or_build(settings, pool, d));
    changed = !d->origin.from_cache;
    if (!settings->without_audio) TD_TRY(refresh_clips(settings, pool, d, &changed));
    if (changed) save(d);
    TD_TRY(collect_problems(d, settings->without_audio));
    const td_problems *bad = &d->problems;
    const size_t n_all = d->view.n_rows + (size_t)d->view.header->n_bad;
    TD_TRY(fail_for_bad_rows(settings, d, bad->total, n_all, bad->count > 0 ? bad->items[0].line : 0,
                             bad->count > 0 ? bad->items[0].message : ""));
    log_problems(d);
    TD_TRY(list_rows(d, settings->without_audio));
    *out = d;
    return TD_OK;
fail:
    td_dataset_close(d);
    return status;
}

void td_dataset_close(td_dataset *dataset)
{
    if (dataset == NULL) return;
    td_problems_free(&dataset->problems);
    td_block_release(&dataset->block);
    td_recordings_close(dataset->recordings);
    free(dataset->files);
    free(dataset->train);
    free(dataset->val);
    td_source_free(&dataset->source);
    free(dataset);
}
