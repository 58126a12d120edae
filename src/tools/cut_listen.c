/* Goes through the recordings once: levels of loudness, and what the aligner hears, step by step, into a file that a call
 * which was interrupted goes on with. The file: a digest of aligner and recordings, then [steps, classes] of fp16. See
 * cut_internal.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audio/stream.h"
#include "base/error.h"
#include "base/half.h"
#include "base/hash.h"
#include "tools/cut_internal.h"

enum { CHUNK = 32768, HEADER_BYTES = sizeof(td_digest) };

#define EMPHASIS 0.95f

/* A recording that is being listened to. */
typedef struct listener {
    td_cut *cut;
    const td_cut_recording *recording;
    td_audio_stream *stream;
    float *samples; /* those from `first` on; owned */
    int64_t first;
    size_t count, capacity;
    bool is_done;
    float before;    /* the sample before, for levels */
    double power;    /* of the level under way, */
    size_t in_level; /* which has so many samples, */
    uint64_t heard;  /* of so many in all */
    FILE *file;
} listener;

static size_t heard_bytes(const td_cut *cut)
{
    return 2 * td_aligner_classes(cut->aligner);
}

/* ---------------------------------------------------------------- samples */

static td_status measure(listener *l, const float *samples, size_t count)
{
    const uint32_t rate = td_aligner_rate(l->cut->aligner);
    for (size_t i = 0; i < count; i++) {
        const float x = samples[i] - EMPHASIS * l->before;
        l->before = samples[i];
        l->power += (double)x * (double)x;
        l->in_level++;
        l->heard++;
        /* The n-th level ends with sample n * rate / 100, so that they do not drift. */
        if (l->heard * 100 / rate == (l->heard - 1) * 100 / rate) continue;
        TD_CHECK(
            td_cut_levels_push(&l->cut->levels, (float)(10 * log10(l->power / (double)l->in_level + 1e-12))));
        l->power = 0;
        l->in_level = 0;
    }
    return TD_OK;
}

/* Reads on, and forgets what lies before `first`. */
static td_status read_on(listener *l, int64_t first)
{
    size_t got;
    if (first > l->first && l->count > 0) {
        const size_t gone = (uint64_t)(first - l->first) < l->count ? (size_t)(first - l->first) : l->count;
        memmove(l->samples, l->samples + gone, (l->count - gone) * sizeof *l->samples);
        l->first += (int64_t)gone;
        l->count -= gone;
    }
    TD_CHECK(td_alloc_grow(&l->samples, &l->capacity, l->count + CHUNK, sizeof *l->samples));
    TD_CHECK(td_audio_stream_read(l->stream, l->samples + l->count, CHUNK, &got));
    TD_CHECK(measure(l, l->samples + l->count, got));
    l->count += got;
    l->is_done = got < CHUNK;
    return TD_OK;
}

static td_status read_samples(void *context, int64_t first, size_t count, float *to)
{
    listener *l = context;
    while (!l->is_done && l->first + (int64_t)l->count < first + (int64_t)count)
        TD_CHECK(read_on(l, first));
    for (size_t i = 0; i < count; i++) {
        const int64_t at = first + (int64_t)i - l->first;
        to[i] = at < 0 || (uint64_t)at >= l->count ? 0 : l->samples[at];
    }
    return TD_OK;
}

static td_status take_steps(void *context, const float *values, size_t steps)
{
    listener *l = context;
    const td_cut *cut = l->cut;
    const size_t words = steps * td_aligner_classes(cut->aligner);
    uint16_t halves[256];
    for (size_t i = 0; i < words;) {
        size_t n = 0;
        while (n < sizeof halves / sizeof *halves && i < words)
            halves[n++] = td_fp16_from_float(values[i++]);
        TD_REFUSE_IF(fwrite(halves, sizeof *halves, n, l->file) != n, TD_ERR_IO,
                     "cut.heard cannot be written; is the disk full?");
    }
    TD_REFUSE_IF(fflush(l->file) != 0, TD_ERR_IO, "cut.heard cannot be written; is the disk full?");
    const double done_s =
        (double)((uint64_t)ftell(l->file) - HEADER_BYTES) / (double)heard_bytes(cut) * cut->step_s;
    return cut->settings->tell(cut->settings->context, TD_CUT_LISTENING, (uint64_t)done_s,
                               (uint64_t)((double)cut->steps * cut->step_s));
}

/* ---------------------------------------------------------------- recordings */

/* `done`: steps of it that the file has. */
static td_status listen_to(td_cut *cut, td_cut_recording *r, size_t done, FILE *file)
{
    listener l = {.cut = cut, .recording = r, .file = file};
    td_status status = TD_OK;
    r->first_level = cut->levels.count;
    TD_TRY(td_audio_stream_open(r->path, td_aligner_rate(cut->aligner), &l.stream));
    TD_TRY(td_aligner_listen_long(
        cut->aligner,
        &(td_listening){
            .read = read_samples, .take = take_steps, .context = &l, .first_step = done, .steps = r->steps}));
    while (!l.is_done) { /* levels alone: all of it had been heard */
        l.count = 0;
        TD_TRY(read_on(&l, l.first));
    }
    r->levels = cut->levels.count - r->first_level;
fail:
    td_audio_stream_close(l.stream);
    free(l.samples);
    return status;
}

/* A file as part of the key: by its path, its size and when it was written. */
static void add_file(td_hasher *key, const char *path)
{
    struct stat about = {0};
    td_hasher_string(key, path);
    if (stat(path, &about) != 0) return;
    td_hasher_bytes(key, &about.st_mtim, sizeof about.st_mtim);
    td_hasher_bytes(key, &about.st_size, sizeof about.st_size);
}

static td_status open_recordings(td_cut *cut, td_hasher *key)
{
    const td_cut_settings *s = cut->settings;
    const uint32_t rate = td_aligner_rate(cut->aligner);
    TD_CHECK(TD_NEW_ARRAY(&cut->recordings, s->n_recordings));
    for (size_t i = 0; i < s->n_recordings; i++) {
        td_cut_recording *r = &cut->recordings[i];
        td_audio_stream *stream;
        *r = (td_cut_recording){.path = s->recordings[i], .first_step = cut->steps};
        TD_CHECK(td_audio_stream_open(r->path, 0, &stream));
        r->rate = td_audio_stream_source_rate(stream);
        r->frames = td_audio_stream_source_frames(stream);
        td_audio_stream_close(stream);
        TD_REFUSE_IF(r->frames == 0, TD_ERR_FORMAT, "%s: holds no samples; record or copy it again", r->path);
        r->steps = td_aligner_steps(cut->aligner, (uint64_t)((double)r->frames * rate / r->rate));
        cut->steps += r->steps;
        add_file(key, r->path);
    }
    TD_REFUSE_IF(cut->steps > UINT32_MAX / 2, TD_ERR_LIMIT,
                 "the recordings are longer than a year; cut some of them at "
                 "a time");
    return TD_OK;
}

/* Opens the file behind what can be gone on with: *done steps of all. */
static td_status open_heard(const td_cut *cut, const char *path, td_digest key, FILE **file, size_t *done)
{
    td_digest found = {0};
    *done = 0;
    *file = fopen(path, "r+b");
    if (*file && fread(&found, sizeof found, 1, *file) == 1 && memcmp(&found, &key, sizeof key) == 0 &&
        fseek(*file, 0, SEEK_END) == 0) {
        *done = ((size_t)ftell(*file) - HEADER_BYTES) / heard_bytes(cut);
        return TD_OK;
    }
    if (*file) fclose(*file);
    *file = fopen(path, "w+b");
    TD_REFUSE_IF(!*file || fwrite(&key, sizeof key, 1, *file) != 1, TD_ERR_IO,
                 "%s: cannot be written; is the disk full, may you write there?", path);
    return TD_OK;
}

/* Steps of a recording that need not be heard again: whole pieces. */
static size_t keep_pieces(const td_cut_recording *r, size_t done)
{
    const size_t own = done <= r->first_step ? 0 : done - r->first_step;
    return own >= r->steps ? r->steps : own / TD_ALIGN_PIECE * TD_ALIGN_PIECE;
}

static td_status listen(td_cut *cut, const char *name)
{
    const td_cut_settings *s = cut->settings;
    char path[TD_FILE_PATH_BYTES];
    td_hasher key;
    FILE *file = NULL;
    size_t done;
    td_status status = TD_OK;
    td_hasher_init(&key);
    add_file(&key, td_aligner_path(cut->aligner));
    TD_TRY(open_recordings(cut, &key));
    TD_TRY(td_cut_path(s->output, name, path));
    TD_TRY(open_heard(cut, path, td_hasher_digest(&key), &file, &done));
    for (size_t i = 0; i < s->n_recordings; i++) {
        td_cut_recording *r = &cut->recordings[i];
        const size_t kept = keep_pieces(r, done);
        const size_t at = HEADER_BYTES + (r->first_step + kept) * heard_bytes(cut);
        TD_FAIL_IF(fseek(file, (long)at, SEEK_SET) != 0, TD_ERR_IO, "%s: cannot be read", path);
        TD_TRY(listen_to(cut, r, kept, file));
    }
    status = fclose(file) == 0 ? TD_OK : TD_FAIL(TD_ERR_IO, "%s: cannot be written; is the disk full?", path);
    file = NULL;
    TD_TRY(status);
    TD_TRY(td_cut_levels_judge(&cut->levels));
    TD_TRY(td_file_map(path, &cut->heard));
    TD_FAIL_IF(cut->heard.bytes < HEADER_BYTES + cut->steps * heard_bytes(cut), TD_ERR_INTEGRITY,
               "%s: is shorter than what was written; remove it and start again", path);
fail:
    if (file) fclose(file);
    return status;
}

td_status td_cut_listen(td_cut *cut)
{
    return listen(cut, "cut.heard");
}

td_status td_cut_listen_again(td_cut *cut)
{
    free(cut->recordings);
    free(cut->levels.db);
    free(cut->levels.noise);
    free(cut->levels.speech);
    cut->recordings = NULL;
    cut->levels = (td_cut_levels){0};
    cut->steps = 0;
    td_file_unmap(&cut->heard);
    return listen(cut, "cut.heard.own");
}

void td_cut_get_heard(const td_cut *cut, size_t first, size_t count, float *to)
{
    const size_t classes = td_aligner_classes(cut->aligner);
    const uint16_t *from =
        (const uint16_t *)(const void *)((const char *)cut->heard.data + HEADER_BYTES) + first * classes;
    for (size_t i = 0; i < count * classes; i++)
        to[i] = td_fp16_to_float(from[i]);
    td_file_forget(&cut->heard, from, count * classes * sizeof *from);
}
