/* See clones.h. */
#include "serve/clones.h"

#include <cJSON.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audio/decode.h"
#include "audio/encode.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"

#define LEAST_S 0.5
#define MOST_S 300.0
#define LEAST_RMS 1e-3 /* -60 dB */
#define TRIM_DB 40.0
#define LIST "voices.json"

enum { HASH_DIGITS = 32, MOST_LIST = 1 << 20 };

typedef struct entry {
    char name[TD_VOICE_NAME], base[TD_VOICE_NAME];
    char hash[HASH_DIGITS + 1]; /* of what was sent: the name of its file */
} entry;

struct td_clones {
    char folder[TD_FILE_PATH_BYTES];
    pthread_mutex_t lock;
    entry *at;
    size_t count, capacity;
};

bool td_voice_is_name(const char *name)
{
    const size_t bytes = strlen(name);
    if (bytes == 0 || bytes >= TD_VOICE_NAME || strpbrk(name, ":/\\\"<>&")) return false;
    for (size_t at = 0; at < bytes;) {
        uint32_t sign;
        const size_t n = td_text_utf8_next(name + at, bytes - at, &sign);
        if (n == 0 || sign == 0xfffd || td_text_is_control(sign)) return false;
        at += n;
    }
    return true;
}

static td_status make_path(const td_clones *clones, const char *file, const char *ending, char *out,
                           size_t capacity)
{
    const int n = snprintf(out, capacity, "%s/%s%s", clones->folder, file, ending);
    TD_REFUSE_IF(n < 0 || (size_t)n >= capacity, TD_ERR_LIMIT, "%s: the path is too long", clones->folder);
    return TD_OK;
}

static entry *find(const td_clones *clones, const char *name)
{
    for (size_t i = 0; i < clones->count; i++)
        if (strcmp(clones->at[i].name, name) == 0) return &clones->at[i];
    return NULL;
}

/* ---------------------------------------------------------------- the list */

static bool is_hash(const char *text)
{
    return strlen(text) == HASH_DIGITS && strspn(text, "0123456789abcdef") == HASH_DIGITS;
}

static td_status read_clone(td_clones *clones, const cJSON *item)
{
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "name"));
    const char *base = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "voice"));
    const char *hash = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, "recording"));
    TD_REFUSE_IF(!name || !base || !hash || !td_voice_is_name(name) || !td_voice_is_name(base) ||
                     !is_hash(hash) || find(clones, name),
                 TD_ERR_FORMAT, "%s/" LIST ": entry %zu is not a name, a voice and a recording",
                 clones->folder, clones->count);
    TD_CHECK(td_alloc_grow(&clones->at, &clones->capacity, clones->count + 1, sizeof *clones->at));
    entry *c = &clones->at[clones->count++];
    snprintf(c->name, sizeof c->name, "%s", name);
    snprintf(c->base, sizeof c->base, "%s", base);
    snprintf(c->hash, sizeof c->hash, "%s", hash);
    return TD_OK;
}

static td_status read_list(td_clones *clones)
{
    char path[TD_FILE_PATH_BYTES], *text = NULL;
    size_t bytes;
    cJSON *list = NULL;
    const cJSON *item;
    td_status status = TD_OK;
    TD_TRY(make_path(clones, LIST, "", path, sizeof path));
    if (!td_file_exists(path)) return TD_OK;
    TD_TRY(td_file_read(path, MOST_LIST, &text, &bytes));
    list = strlen(text) == bytes ? cJSON_ParseWithOpts(text, NULL, true) : NULL;
    TD_FAIL_IF(!cJSON_IsArray(list), TD_ERR_FORMAT, "%s: not a list in JSON; mend it, or move it away", path);
    cJSON_ArrayForEach(item, list) TD_TRY(read_clone(clones, item));
fail:
    cJSON_Delete(list);
    free(text);
    return status;
}

static td_status write_list(const td_clones *clones)
{
    char path[TD_FILE_PATH_BYTES];
    const char *text;
    td_json *json = NULL;
    td_status status = TD_OK;
    TD_TRY(make_path(clones, LIST, "", path, sizeof path));
    TD_TRY(td_json_create(NULL, 2, &json));
    td_json_begin_array(json);
    for (size_t i = 0; i < clones->count; i++) {
        td_json_begin_object(json);
        td_json_put_string(json, "name", clones->at[i].name);
        td_json_put_string(json, "voice", clones->at[i].base);
        td_json_put_string(json, "recording", clones->at[i].hash);
        td_json_end_object(json);
    }
    td_json_end_array(json);
    TD_TRY(td_json_finish(json, &text));
    TD_TRY(td_file_write_atomic(path, text, strlen(text)));
fail:
    td_json_destroy(json);
    return status;
}

/* ---------------------------------------------------------------- recordings */

/* What came is decoded as the recordings of a dataset are, and written as a plain WAV file. */
static td_status keep_recording(const td_clones *clones, const char *hash, const void *data, size_t bytes)
{
    const td_decode_options options = {.trim_db = TRIM_DB, .margin_s = 0.1, .max_s = MOST_S, .finite = true};
    char sent[TD_FILE_PATH_BYTES], kept[TD_FILE_PATH_BYTES];
    td_audio audio = {0};
    td_status status = TD_OK;
    TD_CHECK(make_path(clones, hash, ".sent", sent, sizeof sent));
    TD_CHECK(make_path(clones, hash, ".wav", kept, sizeof kept));
    TD_TRY(td_file_write_atomic(sent, data, bytes));
    status = td_audio_decode(sent, &options, &audio);
    TD_FAIL_IF(status == TD_ERR_LIMIT, TD_ERR_LIMIT, "the recording is longer than %.0f s", MOST_S);
    TD_FAIL_IF(status != TD_OK, TD_ERR_FORMAT,
               "the recording cannot be read; send WAV, FLAC, OGG or MP3 in one piece");
    TD_FAIL_IF(!(audio.report.rms >= LEAST_RMS), TD_ERR_FORMAT, "the recording is silent (RMS %.1e)",
               audio.report.rms);
    TD_FAIL_IF((double)audio.count < LEAST_S * audio.rate, TD_ERR_FORMAT,
               "the recording has %.2f s of sound and needs %.1f s, better 5",
               (double)audio.count / audio.rate, LEAST_S);
    TD_TRY(td_audio_encode(kept, audio.samples, audio.count, audio.rate));
fail:
    td_audio_free(&audio);
    unlink(sent);
    return status;
}

static void drop_recording(const td_clones *clones, const char *hash)
{
    char path[TD_FILE_PATH_BYTES];
    for (size_t i = 0; i < clones->count; i++)
        if (strcmp(clones->at[i].hash, hash) == 0) return; /* another name has it too */
    if (make_path(clones, hash, ".wav", path, sizeof path) == TD_OK) unlink(path);
}

/* ---------------------------------------------------------------- calls */

td_status td_clones_open(const char *folder, td_clones **out)
{
    td_clones *clones = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(TD_NEW(&clones));
    pthread_mutex_init(&clones->lock, NULL);
    TD_FAIL_IF(snprintf(clones->folder, sizeof clones->folder, "%s", folder) >=
                   (int)sizeof clones->folder - 64,
               TD_ERR_CONFIG, "serve.voices_dir: the path is too long");
    TD_TRY(td_file_make_dirs(folder));
    TD_TRY(read_list(clones));
    *out = clones;
    return TD_OK;
fail:
    td_clones_close(clones);
    return status;
}

void td_clones_close(td_clones *clones)
{
    if (!clones) return;
    pthread_mutex_destroy(&clones->lock);
    free(clones->at);
    free(clones);
}

/* The lock is held. */
static td_status add(td_clones *clones, const entry *new, const void *data, size_t bytes)
{
    TD_REFUSE_IF(find(clones, new->name), TD_ERR_CONFIG, "a voice is called '%s' already; remove it first",
                 new->name);
    TD_REFUSE_IF(clones->count == TD_MOST_CLONES, TD_ERR_LIMIT, "%d voices are the most; remove one",
                 TD_MOST_CLONES);
    TD_CHECK(td_alloc_grow(&clones->at, &clones->capacity, clones->count + 1, sizeof *clones->at));
    TD_CHECK(keep_recording(clones, new->hash, data, bytes));
    clones->at[clones->count++] = *new;
    const td_status status = write_list(clones);
    if (status == TD_OK) return TD_OK;
    clones->count--;
    drop_recording(clones, new->hash);
    return status;
}

td_status td_clones_add(td_clones *clones, const char *name, const char *base, const void *data, size_t bytes)
{
    const td_digest digest = td_hash128(data, bytes);
    entry new = {.name = ""};
    TD_REFUSE_IF(!td_voice_is_name(name), TD_ERR_CONFIG,
                 "a voice cannot be called so; use up to 64 letters, digits, - and _");
    snprintf(new.name, sizeof new.name, "%s", name);
    snprintf(new.base, sizeof new.base, "%s", base);
    snprintf(new.hash, sizeof new.hash, "%016llx%016llx", (unsigned long long)digest.high,
             (unsigned long long)digest.low);
    pthread_mutex_lock(&clones->lock);
    const td_status status = add(clones, &new, data, bytes);
    pthread_mutex_unlock(&clones->lock);
    return status;
}

/* The lock is held. */
static td_status take_out(td_clones *clones, const char *name)
{
    entry *c = find(clones, name);
    TD_REFUSE_IF(!c, TD_ERR_NOT_FOUND, "there is no voice '%.100s' that was brought", name);
    const entry old = *c;
    const size_t at = (size_t)(c - clones->at);
    clones->count--;
    memmove(c, c + 1, (clones->count - at) * sizeof *c);
    const td_status status = write_list(clones);
    if (status == TD_OK) {
        drop_recording(clones, old.hash);
    } else {
        memmove(c + 1, c, (clones->count - at) * sizeof *c);
        *c = old;
        clones->count++;
    }
    return status;
}

td_status td_clones_remove(td_clones *clones, const char *name)
{
    pthread_mutex_lock(&clones->lock);
    const td_status status = take_out(clones, name);
    pthread_mutex_unlock(&clones->lock);
    return status;
}

bool td_clones_find(td_clones *clones, const char *name, char base[TD_VOICE_NAME], char *path,
                    size_t capacity)
{
    pthread_mutex_lock(&clones->lock);
    const entry *c = find(clones, name);
    const bool is_found = c && make_path(clones, c->hash, ".wav", path, capacity) == TD_OK;
    if (is_found) memcpy(base, c->base, sizeof c->base);
    pthread_mutex_unlock(&clones->lock);
    return is_found;
}

bool td_clones_get(td_clones *clones, size_t i, char name[TD_VOICE_NAME], char base[TD_VOICE_NAME])
{
    pthread_mutex_lock(&clones->lock);
    const bool is_there = i < clones->count;
    if (is_there) {
        memcpy(name, clones->at[i].name, TD_VOICE_NAME);
        memcpy(base, clones->at[i].base, TD_VOICE_NAME);
    }
    pthread_mutex_unlock(&clones->lock);
    return is_there;
}
