/* The files of a dataset that was cut: recordings, tables, the page; and choices applied to them. See cut.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audio/encode.h"
#include "audio/mel_clip.h"
#include "audio/stream.h"
#include "base/error.h"
#include "base/json.h"
#include "device/blocking.h"
#include "tools/cut_internal.h"
#include "tools/page.h"

static const unsigned char PAGE[] = {
#include "page_cut.inc"
};

enum {
    ID_BYTES = 24,
    PICTURE_BANDS = 48,
    PICTURES_PER_SECOND = 25,
    CHOICES_MOST_BYTES = 16 << 20,
    TEXT_MOST = 1 << 28
};

#define FULL_SCALE 0.999f
#define CLIPPED_SHARE 0.0005

static void name_row(size_t i, char out[ID_BYTES])
{
    snprintf(out, ID_BYTES, "%05zu", i + 1);
}

/* ---------------------------------------------------------------- recordings */

typedef struct writer {
    td_cut *cut;
    td_audio_stream *stream; /* of the recording under way */
    uint32_t recording;      /* which one; valid with a stream */
    td_mel *mel;             /* for pictures, at its rate */
    td_json *page;           /* the rows for the page */
    FILE *lines;             /* cut.jsonl */
    td_buffer table, all;    /* metadata.csv, cut.csv */
} writer;

static td_status open_recording(writer *w, uint32_t recording)
{
    const td_cut_recording *r = &w->cut->recordings[recording];
    td_mel_config config = td_mel_config_default();
    if (w->stream && w->recording == recording) return TD_OK;
    td_audio_stream_close(w->stream);
    td_mel_destroy(w->mel);
    w->stream = NULL;
    w->mel = NULL;
    w->recording = recording;
    TD_CHECK(td_audio_stream_open(r->path, 0, &w->stream));
    config.rate = r->rate;
    config.n_fft = r->rate > 30000 ? 2048 : 1024;
    config.win_samples = config.n_fft;
    config.hop_samples = r->rate / PICTURES_PER_SECOND;
    config.n_mels = PICTURE_BANDS;
    if (config.fmax_hz * 2 > (float)r->rate) config.fmax_hz = (float)r->rate / 2;
    return td_mel_create(w->cut->settings->memory, &config, &w->mel);
}

/* The share of samples at full scale next to another one. */
static double measure_clipping(const float *samples, size_t count)
{
    size_t clipped = 0;
    for (size_t i = 1; i < count; i++)
        clipped += fabsf(samples[i]) >= FULL_SCALE && fabsf(samples[i - 1]) >= FULL_SCALE;
    return count ? (double)clipped / (double)count : 0;
}

static td_status read_row(writer *w, const td_cut_row *row, float **samples, size_t *count)
{
    const td_cut_recording *r = &w->cut->recordings[row->recording];
    const uint64_t first = (uint64_t)(row->start_s * r->rate), end = (uint64_t)(row->end_s * r->rate);
    *samples = NULL;
    TD_CHECK(open_recording(w, row->recording));
    TD_CHECK(TD_NEW_ARRAY(samples, (size_t)(end - first) + 1));
    TD_CHECK(td_audio_stream_seek(w->stream, first));
    return td_audio_stream_read(w->stream, *samples, (size_t)(end - first), count);
}

/* ---------------------------------------------------------------- the page */

/* A spectrogram as text: a character of 64 for each band of each column, low bands first. */
static td_status draw(writer *w, const float *samples, size_t count, char **out, uint32_t *columns)
{
    static const char LEVELS[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+-";
    td_mel_clip clip;
    float *values = NULL;
    td_status status = TD_OK;
    *out = NULL;
    *columns = 0;
    if (count == 0) return TD_OK;
    TD_CHECK(td_mel_clip_make(w->mel, w->cut->settings->memory, samples, count, &clip));
    const size_t n = (size_t)clip.frames * PICTURE_BANDS;
    TD_TRY(TD_NEW_ARRAY(&values, n));
    TD_TRY(TD_NEW_ARRAY(out, n + 1));
    TD_TRY(td_blocking_read(w->cut->settings->memory, clip.mel, (td_point){0}, values));
    float most = values[0];
    for (size_t i = 0; i < n; i++)
        most = fmaxf(most, values[i]);
    for (size_t i = 0; i < n; i++) {
        const float level = 63 + (values[i] - most) * 24; /* 63 levels are about 70 dB */
        (*out)[i] = LEVELS[level > 0 ? (int)level : 0];
    }
    *columns = clip.frames;
fail:
    td_mel_clip_free(w->cut->settings->memory, &clip);
    free(values);
    return status;
}

static void put_row(td_json *json, const td_cut *cut, const td_cut_row *row, const char *id)
{
    td_json_put_string(json, "id", id);
    td_json_put_string(json, "recording", cut->recordings[row->recording].path);
    td_json_put_double(json, "start_s", round(row->start_s * 1e4) / 1e4);
    td_json_put_double(json, "end_s", round(row->end_s * 1e4) / 1e4);
    td_json_put_string(json, "text", row->text);
    td_json_put_double(json, "score", round(row->score * 1e4) / 1e4);
    td_json_put_double(json, "snr_db", round(row->snr_db * 10) / 10);
    td_json_put_double(json, "letters_per_s", round(row->letters_per_s * 10) / 10);
    td_json_put_double(json, "clipped_share", row->clipped);
    td_json_put_bool(json, "kept", row->reason == TD_CUT_KEPT);
    td_json_put_string(json, "reason", row->reason == TD_CUT_KEPT ? "" : td_cut_reason_text(row->reason));
}

static td_status put_line(writer *w, const td_cut_row *row, const char *id, const char *text)
{
    td_json *json = NULL;
    const char *line;
    td_status status = TD_OK;
    TD_TRY(td_json_create(NULL, 0, &json));
    td_json_begin_object(json);
    if (row) {
        put_row(json, w->cut, row, id);
    } else {
        td_json_put_string(json, "text", text);
        td_json_put_bool(json, "kept", false);
        td_json_put_string(json, "reason", td_cut_reason_text(TD_CUT_UNHEARD));
    }
    td_json_end_object(json);
    TD_TRY(td_json_finish(json, &line));
    TD_FAIL_IF(fprintf(w->lines, "%s\n", line) < 0, TD_ERR_IO,
               "cut.jsonl cannot be written; is the disk full?");
fail:
    td_json_destroy(json);
    return status;
}

/* ---------------------------------------------------------------- rows */

static td_status append(td_buffer *to, const char *const *parts)
{
    for (; *parts; parts++)
        TD_CHECK(td_buffer_append(to, *parts, strlen(*parts)));
    return TD_OK;
}

static td_status write_row(writer *w, size_t i)
{
    td_cut_row *row = &w->cut->rows[i];
    char id[ID_BYTES], name[64], path[TD_FILE_PATH_BYTES], *picture = NULL;
    float *samples = NULL;
    size_t count;
    uint32_t columns;
    td_status status = TD_OK;
    name_row(i, id);
    snprintf(name, sizeof name, "wavs/%s.wav", id);
    TD_TRY(td_cut_path(w->cut->settings->output, name, path));
    TD_TRY(read_row(w, row, &samples, &count));
    row->clipped = measure_clipping(samples, count);
    if (row->reason == TD_CUT_KEPT && row->clipped > CLIPPED_SHARE) row->reason = TD_CUT_CLIPPED;
    TD_TRY(td_audio_encode(path, samples, count, w->cut->recordings[row->recording].rate));
    TD_TRY(draw(w, samples, count, &picture, &columns));
    TD_TRY(put_line(w, row, id, NULL));
    td_json_begin_object(w->page);
    put_row(w->page, w->cut, row, id);
    td_json_put_uint(w->page, "columns", columns);
    td_json_put_string(w->page, "picture", picture ? picture : "");
    td_json_end_object(w->page);
    if (row->reason == TD_CUT_KEPT)
        TD_TRY(append(&w->table, (const char *const[]){id, "|", row->text, "|", row->normal, "\n", NULL}));
    TD_TRY(append(&w->all, (const char *const[]){id, "|", td_cut_reason_text(row->reason), "|", row->text,
                                                 "|", row->normal, "\n", NULL}));
fail:
    free(samples);
    free(picture);
    return status;
}

static td_status write_rows(writer *w)
{
    const td_cut_settings *s = w->cut->settings;
    for (size_t i = 0; i < w->cut->n_rows; i++) {
        TD_CHECK(write_row(w, i));
        TD_CHECK(s->tell(s->context, TD_CUT_WRITING, i + 1, w->cut->n_rows));
    }
    return TD_OK;
}

/* Sentences that were not found, as lines of their own. */
static td_status write_unheard(writer *w, const td_found *found, size_t n_found)
{
    size_t at = 0;
    for (size_t i = 0; i < w->cut->n_sentences; i++) {
        if (at < n_found && found[at].sentence == i)
            at++;
        else
            TD_CHECK(put_line(w, NULL, NULL, w->cut->sentences[i].text));
    }
    return TD_OK;
}

static td_status write_tables(const writer *w)
{
    const char *folder = w->cut->settings->output;
    char path[TD_FILE_PATH_BYTES];
    TD_CHECK(td_cut_path(folder, "cut.csv", path));
    TD_CHECK(td_file_write_atomic(path, w->all.data ? w->all.data : "", w->all.size));
    TD_CHECK(td_cut_path(folder, "cut.html", path));
    TD_CHECK(td_page_write(path, PAGE, sizeof PAGE, w->page));
    TD_CHECK(td_cut_path(folder, "metadata.csv", path)); /* last, so that a folder that has it is complete */
    return td_file_write_atomic(path, w->table.data ? w->table.data : "", w->table.size);
}

td_status td_cut_write(td_cut *cut, const td_found *found, size_t n_found)
{
    writer w = {.cut = cut};
    char path[TD_FILE_PATH_BYTES];
    td_status status = TD_OK;
    TD_TRY(td_cut_path(cut->settings->output, "cut.jsonl", path));
    w.lines = fopen(path, "w");
    TD_FAIL_IF(!w.lines, TD_ERR_IO, "%s: cannot be written; is the disk full, may you write there?", path);
    TD_TRY(td_json_create(NULL, 0, &w.page));
    td_json_begin_object(w.page);
    td_json_put_uint(w.page, "bands", PICTURE_BANDS);
    td_json_put_array(w.page, "rows");
    TD_TRY(write_rows(&w));
    td_json_end_array(w.page);
    td_json_end_object(w.page);
    TD_TRY(write_unheard(&w, found, n_found));
    const bool is_closed = fclose(w.lines) == 0;
    w.lines = NULL;
    TD_FAIL_IF(!is_closed, TD_ERR_IO, "%s: cannot be written; is the disk full?", path);
    TD_TRY(write_tables(&w));
fail:
    if (w.lines) fclose(w.lines);
    td_audio_stream_close(w.stream);
    td_mel_destroy(w.mel);
    td_json_destroy(w.page);
    td_buffer_free(&w.table);
    td_buffer_free(&w.all);
    return status;
}

/* ---------------------------------------------------------------- choices */

enum { NO_CHOICE, KEEP, DROP };

/* The end of a line, and where the next one begins. */
static char *cut_line(char *text, char **next)
{
    char *end = text + strcspn(text, "\n");
    *next = end + (*end != 0);
    *end = 0;
    if (end > text && end[-1] == '\r') end[-1] = 0;
    return text;
}

/* What the choices say of a row; marks the choice as used. */
static int find_choice(char *choices, size_t bytes, const char *id)
{
    const size_t length = strlen(id);
    for (char *line = choices; line < choices + bytes; line += strlen(line) + 1) {
        if (strncmp(line, id, length) != 0 || line[length] != ' ') continue;
        const int choice = strcmp(line + length + 1, "drop") == 0 ? DROP : KEEP;
        memset(line, ' ', strlen(line));
        return choice;
    }
    return NO_CHOICE;
}

/* Lines end with 0 from here on; each is empty or "ID keep", "ID drop". */
static td_status read_choices(const char *path, char **out, size_t *bytes)
{
    char *line, *next;
    size_t number = 1;
    TD_CHECK(td_file_read(path, CHOICES_MOST_BYTES, out, bytes));
    for (char *at = *out; at < *out + *bytes; at = next, number++) {
        line = cut_line(at, &next);
        const char *space = strchr(line, ' ');
        if (!*line) continue;
        TD_REFUSE_IF(!space || (strcmp(space, " keep") != 0 && strcmp(space, " drop") != 0), TD_ERR_FORMAT,
                     "%s, line %zu: '%.40s' is no choice; lines are 'ID keep' or 'ID drop'", path, number,
                     line);
    }
    return TD_OK;
}

/* A line of cut.csv to the table, if the row is kept. */
static td_status apply_row(char *line, int choice, td_buffer *table, size_t *n_kept)
{
    char *reason = strchr(line, '|'), *text = reason ? strchr(reason + 1, '|') : NULL;
    TD_REFUSE_IF(!text, TD_ERR_FORMAT, "cut.csv is damaged: '%.40s' is no row; run cut again", line);
    *reason++ = *text++ = 0;
    if (choice == DROP || (choice == NO_CHOICE && strcmp(reason, td_cut_reason_text(TD_CUT_KEPT)) != 0))
        return TD_OK;
    ++*n_kept;
    return append(table, (const char *const[]){line, "|", text, "\n", NULL});
}

td_status td_cut_apply(const char *folder, const char *path, size_t *n_kept, size_t *n_rows)
{
    char *choices = NULL, *rows = NULL, *next, name[TD_FILE_PATH_BYTES];
    size_t bytes, row_bytes;
    td_buffer table = {0};
    td_status status = TD_OK;
    *n_kept = *n_rows = 0;
    TD_TRY(td_cut_path(folder, "cut.csv", name));
    TD_FAIL_IF(!td_file_exists(name), TD_ERR_NOT_FOUND,
               "'%s' has no cut.csv; it is not a folder that cut has made", folder);
    TD_TRY(td_file_read(name, TEXT_MOST, &rows, &row_bytes));
    TD_TRY(read_choices(path, &choices, &bytes));
    for (char *line = rows; line < rows + row_bytes; line = next) {
        char id[ID_BYTES] = "";
        cut_line(line, &next);
        snprintf(id, sizeof id, "%.*s", (int)strcspn(line, "|"), line);
        TD_TRY(apply_row(line, find_choice(choices, bytes, id), &table, n_kept));
        ++*n_rows;
    }
    for (char *line = choices; line < choices + bytes; line += strlen(line) + 1)
        TD_FAIL_IF(*line && *line != ' ', TD_ERR_FORMAT,
                   "%s: '%s' has no row %.*s; are these choices of another folder?", path, folder,
                   (int)strcspn(line, " "), line);
    TD_TRY(td_cut_path(folder, "metadata.csv", name));
    TD_TRY(td_file_write_atomic(name, table.data ? table.data : "", table.size));
fail:
    free(choices);
    free(rows);
    td_buffer_free(&table);
    return status;
}
