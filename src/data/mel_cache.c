/* See mel_cache.h. An entry is one block of floats: mel, then energy and pitch if they are kept. In memory a
 * row has a pointer that is set once; on disk, a blob. */
#include "data/mel_cache.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/blob_cache.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

enum { ENTRY_VERSION = 1, FILE_OVERHEAD_BYTES = 4096 };

static const char BLOB_KIND[] = "mel";

struct td_mel_cache {
    const td_dataset *dataset;
    uint32_t n_mels, hop_samples, rate;
    bool has_energy, has_pitch;
    td_digest *keys;      /* of each row */
    td_blob_cache *blobs; /* on disk */
    pthread_mutex_t lock; /* guards what follows */
    float **entries;      /* in memory; of each row, NULL: none. What they point to never changes. */
    uint32_t *n_frames;   /* of each entry */
    bool *is_kept;        /* of each row: its entry was written, or is being written */
    td_mel_cache_stats stats;
};

static size_t count_floats(const td_mel_cache *c, uint32_t n_frames)
{
    return (size_t)n_frames * (c->n_mels + c->has_energy + c->has_pitch);
}

/* ---------------------------------------------------------------- keys and files */

static td_status make_keys(td_mel_cache *c, const td_mel_cache_settings *settings)
{
    char config[TD_MEL_CONFIG_TEXT_BYTES];
    td_hasher common;
    const uint32_t tracks = settings->has_pitch + (settings->has_energy ? 0U : 2U); /* energy: the usual */
    const uint32_t numbers[] = {ENTRY_VERSION, tracks};
    td_mel_config_format(&settings->config, config);
    td_hasher_init(&common);
    td_hasher_bytes(&common, numbers, sizeof numbers);
    td_hasher_string(&common, config);
    td_hasher_string(&common, settings->device);
    TD_CHECK(TD_NEW_ARRAY(&c->keys, c->dataset->view.n_rows + 1));
    for (size_t i = 0; i < c->dataset->view.n_rows; ++i) {
        const td_clip *clip = &c->dataset->view.rows[i].clip;
        char path[TD_FILE_PATH_BYTES];
        td_hasher hasher = common;
        TD_CHECK(td_dataset_clip_path(c->dataset, i, path));
        td_hasher_string(&hasher, path);
        td_hasher_bytes(&hasher, &clip->file_bytes, sizeof clip->file_bytes);
        td_hasher_bytes(&hasher, &clip->mtime_ns, sizeof clip->mtime_ns);
        c->keys[i] = td_hasher_digest(&hasher);
    }
    return TD_OK;
}

/* The folder of this dataset's entries. */
static td_status make_folder_path(const td_mel_cache *c, const char *cache_dir, char out[TD_FILE_PATH_BYTES])
{
    char real[TD_FILE_PATH_BYTES], slug[64];
    if (realpath(c->dataset->dir, real) == NULL) snprintf(real, sizeof real, "%s", c->dataset->dir);
    const char *name = strrchr(real, '/');
    td_text_slug(name != NULL ? name : real, slug, sizeof slug);
    const int length = snprintf(out, TD_FILE_PATH_BYTES, "%s/mel/%s-%016" PRIx64, cache_dir, slug,
                                td_hash64(real, strlen(real)));
    if (length < TD_FILE_PATH_BYTES) return TD_OK;
    return TD_FAIL(TD_ERR_LIMIT, "paths under '%s' are too long; choose another data.cache_dir", cache_dir);
}

static int compare_keys(const void *a, const void *b)
{
    const td_digest *x = a, *y = b;
    if (x->high != y->high) return x->high < y->high ? -1 : 1;
    return (x->low > y->low) - (x->low < y->low);
}

/* Removes entries that belong to no row as it is now, and adds up the others. */
static td_status tidy_folder(td_mel_cache *c, const char *folder)
{
    td_digest *sorted = NULL;
    const size_t n_rows = c->dataset->view.n_rows;
    char path[TD_FILE_PATH_BYTES];
    td_file_names names;
    td_status status = td_file_list(folder, &names);
    if (status == TD_ERR_NOT_FOUND) return TD_OK; /* nothing there yet */
    if (status == TD_ERR_IO) {                    /* no reason to end a run, which can do without */
        td_log_warn("what lies in the mel cache is not known: %s", td_error_last()->message);
        return TD_OK;
    }
    TD_TRY(status);
    TD_TRY(TD_NEW_ARRAY(&sorted, n_rows + 1));
    memcpy(sorted, c->keys, n_rows * sizeof *sorted);
    qsort(sorted, n_rows, sizeof *sorted, compare_keys);
    for (size_t i = 0; i < names.count; ++i) {
        const char *name = names.at[i];
        td_digest key;
        uint64_t bytes;
        int end = 0;
        if (sscanf(name, "mel-%16" SCNx64 "%16" SCNx64 ".blob%n", &key.high, &key.low, &end) != 2 ||
            end == 0 || name[end] != '\0')
            continue; /* another process's unfinished file, say */
        if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) continue;
        if (bsearch(&key, sorted, n_rows, sizeof *sorted, compare_keys) == NULL)
            unlink(path);
        else if (td_file_size(path, &bytes) == TD_OK)
            c->stats.used_bytes += bytes + FILE_OVERHEAD_BYTES;
    }
fail:
    free(sorted);
    td_file_names_free(&names);
    return status;
}

/* ---------------------------------------------------------------- which kind */

static uint64_t find_free_memory(void)
{
    unsigned long long kib = 0;
    char line[128];
    FILE *file = fopen("/proc/meminfo", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1) break;
    if (file != NULL) fclose(file);
    if (kib > 0) return (uint64_t)kib * 1024;
    const long pages = sysconf(_SC_AVPHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

/* Of the file system that has `dir`, or will have it. */
static uint64_t find_free_disk(const char *dir)
{
    char path[TD_FILE_PATH_BYTES];
    struct statvfs about;
    if (dir == NULL) return 0;
    snprintf(path, sizeof path, "%s", dir);
    while (statvfs(path, &about) != 0) {
        char *slash = strrchr(path, '/');
        if (slash == NULL || slash == path) return 0;
        *slash = '\0';
    }
    return (uint64_t)about.f_bavail * about.f_frsize;
}

static uint64_t estimate_bytes(const td_mel_cache *c)
{
    double frames = 0;
    for (size_t i = 0; i < c->dataset->view.n_rows; ++i)
        frames += 1 + td_clip_seconds(&c->dataset->view.rows[i].clip) * c->rate / c->hop_samples;
    return (uint64_t)(frames * (double)count_floats(c, 1) * sizeof(float));
}

static void choose_kind(td_mel_cache *c, const td_mel_cache_settings *settings)
{
    char need_text[TD_TEXT_FORMAT_BYTES], bound_text[TD_TEXT_FORMAT_BYTES];
    const uint64_t need = estimate_bytes(c);
    const uint64_t ram = settings->max_bytes > 0 ? settings->max_bytes : find_free_memory() / 2;
    const uint64_t disk =
        settings->max_bytes > 0 ? settings->max_bytes : find_free_disk(settings->cache_dir) / 4;
    const bool is_auto = settings->kind == TD_MEL_CACHE_AUTO;
    const bool may_disk = settings->cache_dir != NULL;
    td_mel_cache_kind kind = settings->kind;
    const char *why = "as asked";
    if (is_auto && need <= ram && need <= find_free_memory() / 2) {
        kind = TD_MEL_CACHE_RAM;
        why = "all of it fits half of the free memory";
    } else if (is_auto && may_disk && need <= disk) {
        kind = TD_MEL_CACHE_DISK;
        why = "too much for memory, and a quarter of the free disk holds it";
    } else if (is_auto) {
        kind = TD_MEL_CACHE_NONE;
        why = "too much for memory and disk; data.mel_cache = ram keeps a part";
    }
    c->stats.kind = kind;
    c->stats.max_bytes = kind == TD_MEL_CACHE_RAM ? ram : kind == TD_MEL_CACHE_DISK ? disk : 0;
    td_text_format_bytes(need, need_text);
    td_text_format_bytes(c->stats.max_bytes, bound_text);
    if (kind == TD_MEL_CACHE_NONE) {
        td_log_info("mel cache: none, for %s of mels (%s)", need_text, why);
    } else {
        td_log_info("mel cache: %s, up to %s for %s of mels (%s)", td_mel_cache_kind_name(kind), bound_text,
                    need_text, why);
    }
}

/* ---------------------------------------------------------------- the interface */

td_status td_mel_cache_open(const td_mel_cache_settings *settings, const td_dataset *dataset,
                            td_mel_cache **out)
{
    td_status status = TD_OK;
    td_mel_cache *c = NULL;
    char folder[TD_FILE_PATH_BYTES];
    *out = NULL;
    TD_TRY(TD_NEW(&c));
    pthread_mutex_init(&c->lock, NULL);
    c->dataset = dataset;
    c->n_mels = settings->config.n_mels;
    c->hop_samples = settings->config.hop_samples;
    c->rate = settings->config.rate;
    c->has_energy = settings->has_energy;
    c->has_pitch = settings->has_pitch;
    TD_FAIL_IF(settings->kind == TD_MEL_CACHE_DISK && settings->cache_dir == NULL, TD_ERR_CONFIG,
               "data.mel_cache = disk needs a folder for caches; name one, or choose ram or none");
    choose_kind(c, settings);
    TD_TRY(TD_NEW_ARRAY(&c->is_kept, dataset->view.n_rows + 1));
    if (c->stats.kind == TD_MEL_CACHE_RAM) {
        TD_TRY(TD_NEW_ARRAY(&c->entries, dataset->view.n_rows + 1));
        TD_TRY(TD_NEW_ARRAY(&c->n_frames, dataset->view.n_rows + 1));
    }
    if (c->stats.kind == TD_MEL_CACHE_DISK) {
        TD_TRY(make_keys(c, settings));
        TD_TRY(make_folder_path(c, settings->cache_dir, folder));
        TD_TRY(tidy_folder(c, folder));
        TD_TRY(td_blob_cache_open(folder, &c->blobs));
    }
    *out = c;
    return TD_OK;
fail:
    td_mel_cache_close(c);
    return status;
}

void td_mel_cache_close(td_mel_cache *cache)
{
    if (cache == NULL) return;
    for (size_t i = 0; cache->entries != NULL && i < cache->dataset->view.n_rows; ++i)
        free(cache->entries[i]);
    free(cache->entries);
    free(cache->n_frames);
    free(cache->is_kept);
    free(cache->keys);
    td_blob_cache_close(cache->blobs);
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

static void count_read(td_mel_cache *c, bool is_hit)
{
    pthread_mutex_lock(&c->lock);
    c->stats.n_hits += is_hit;
    c->stats.n_misses += !is_hit;
    pthread_mutex_unlock(&c->lock);
}

bool td_mel_cache_read(td_mel_cache *cache, uint32_t row, uint32_t max_frames, float *mel, float *energy,
                       float *pitch, uint32_t *n_frames)
{
    td_mel_cache *c = cache;
    const float *entry = NULL;
    void *loaded = NULL;
    uint32_t frames = 0;
    if (c->stats.kind == TD_MEL_CACHE_RAM) {
        pthread_mutex_lock(&c->lock);
        entry = c->entries[row];
        frames = c->n_frames[row];
        pthread_mutex_unlock(&c->lock);
    } else if (c->stats.kind == TD_MEL_CACHE_DISK) {
        size_t bytes = 0;
        const size_t per_frame = count_floats(c, 1) * sizeof(float);
        if (td_blob_cache_load(c->blobs, BLOB_KIND, c->keys[row], &loaded, &bytes) &&
            bytes % per_frame == 0 && bytes / per_frame <= UINT32_MAX) {
            entry = loaded;
            frames = (uint32_t)(bytes / per_frame);
        }
    }
    const bool is_hit = entry != NULL && frames > 0 && frames <= max_frames;
    if (is_hit) {
        const float *energies = entry + (size_t)frames * c->n_mels;
        const float *pitches = energies + (c->has_energy ? frames : 0);
        memcpy(mel, entry, (size_t)frames * c->n_mels * sizeof *mel);
        if (c->has_energy) memcpy(energy, energies, frames * sizeof *energy);
        if (c->has_pitch) memcpy(pitch, pitches, frames * sizeof *pitch);
        *n_frames = frames;
    }
    free(loaded);
    if (c->stats.kind != TD_MEL_CACHE_NONE) count_read(c, is_hit);
    return is_hit;
}

/* Takes the room for an entry, unless there is none or the row has one. */
static bool take_room(td_mel_cache *c, uint32_t row, uint64_t bytes)
{
    bool is_taken = false;
    pthread_mutex_lock(&c->lock);
    if (!c->is_kept[row] && c->stats.used_bytes + bytes > c->stats.max_bytes) {
        ++c->stats.n_refused;
    } else if (!c->is_kept[row]) {
        c->stats.used_bytes += bytes;
        is_taken = c->is_kept[row] = true;
    }
    pthread_mutex_unlock(&c->lock);
    return is_taken;
}

void td_mel_cache_write(td_mel_cache *cache, uint32_t row, uint32_t n_frames, const float *mel,
                        const float *energy, const float *pitch)
{
    td_mel_cache *c = cache;
    const size_t bytes = count_floats(c, n_frames) * sizeof(float);
    const size_t mel_floats = (size_t)n_frames * c->n_mels;
    const bool on_disk = c->stats.kind == TD_MEL_CACHE_DISK;
    if (c->stats.kind == TD_MEL_CACHE_NONE || n_frames == 0) return;
    if (!take_room(c, row, bytes + (on_disk ? FILE_OVERHEAD_BYTES : 0))) return;
    float *block = malloc(bytes);
    if (block == NULL) return;
    memcpy(block, mel, mel_floats * sizeof *mel);
    float *track = block + mel_floats;
    if (c->has_energy) memcpy(track, energy, n_frames * sizeof *energy);
    if (c->has_pitch) memcpy(track + (c->has_energy ? n_frames : 0), pitch, n_frames * sizeof *pitch);
    if (on_disk) {
        td_blob_cache_store(c->blobs, BLOB_KIND, c->keys[row], block, bytes);
        free(block);
    }
    pthread_mutex_lock(&c->lock);
    ++c->stats.n_stores;
    if (!on_disk) {
        c->entries[row] = block;
        c->n_frames[row] = n_frames;
    }
    pthread_mutex_unlock(&c->lock);
}

td_mel_cache_stats td_mel_cache_count(td_mel_cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    const td_mel_cache_stats stats = cache->stats;
    pthread_mutex_unlock(&cache->lock);
    return stats;
}

const char *td_mel_cache_kind_name(td_mel_cache_kind kind)
{
    static const char *const NAMES[] = {"auto", "none", "ram", "disk"};
    return NAMES[kind];
}
