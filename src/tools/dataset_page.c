/* The page of a dataset's findings: each row with its text, what is wrong, a spectrogram and a player. See
 * dataset_check.h.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "audio/decode.h"
#include "audio/encode.h"
#include "audio/spectrum.h"
#include "base/error.h"
#include "base/json.h"
#include "tools/dataset_check.h"
#include "tools/page.h"
#include "train/picture.h"

enum {
    RATE_HZ = 22050,
    N_FFT = 512,
    HOP = 220,
    PICTURE_ROWS = N_FFT / 4, /* two bins each */
    MAX_COLUMNS = 1200,       /* what is longer is shown as far as this */
};

static const float DARKEST_DB = -80; /* below the loudest */

/* pages/dataset.html, as bytes. */
static const unsigned char PAGE[] = {
#include "page_dataset.inc"
};

/* ---------------------------------------------------------------- pictures and sounds */

/* Levels in dB below the loudest, [columns, PICTURE_ROWS]. */
static td_status make_levels(const td_audio *audio, size_t columns, float *levels)
{
    td_status status = TD_OK;
    td_spectrum *spectrum = NULL;
    float scratch[2 * N_FFT], power[N_FFT / 2 + 1], piece[N_FFT], most = -HUGE_VALF;
    TD_TRY(td_spectrum_create(N_FFT, &spectrum));
    for (size_t x = 0; x < columns; ++x) {
        const size_t left = audio->count - x * HOP, n = left < N_FFT ? left : N_FFT;
        memcpy(piece, audio->samples + x * HOP, n * sizeof *piece);
        memset(piece + n, 0, (N_FFT - n) * sizeof *piece);
        td_spectrum_run(spectrum, piece, scratch, power);
        for (size_t y = 0; y < PICTURE_ROWS; ++y) {
            const float level = 10 * log10f(power[2 * y] + power[2 * y + 1] + 1e-9f);
            levels[x * PICTURE_ROWS + y] = level;
            most = level > most ? level : most;
        }
    }
    for (size_t i = 0; i < columns * PICTURE_ROWS; ++i)
        levels[i] -= most;
fail:
    td_spectrum_destroy(spectrum);
    return status;
}

static td_status put_picture(td_json *json, const td_audio *audio, size_t *bytes)
{
    td_status status = TD_OK;
    td_picture picture = {0};
    float *levels = NULL;
    char *url = NULL;
    const size_t all = (audio->count + HOP - 1) / HOP, columns = all < MAX_COLUMNS ? all : MAX_COLUMNS;
    TD_TRY(TD_NEW_ARRAY(&levels, columns * PICTURE_ROWS));
    TD_TRY(make_levels(audio, columns, levels));
    const td_heat heat = {.values = levels,
                          .columns = (uint32_t)columns,
                          .rows = PICTURE_ROWS,
                          .column_step = PICTURE_ROWS,
                          .row_step = 1,
                          .low = DARKEST_DB};
    TD_TRY(td_picture_encode(&heat, &picture));
    TD_TRY(td_page_data_url("image/png", picture.png, picture.bytes, &url));
    td_json_put_string(json, "picture", url);
    *bytes += picture.bytes;
fail:
    free(url);
    free(picture.png);
    free(levels);
    return status;
}

static td_status put_sound(td_json *json, const td_audio *audio, size_t *bytes)
{
    td_status status = TD_OK;
    char *data = NULL, *url = NULL;
    size_t size;
    TD_TRY(td_audio_encode_memory("row.flac", audio->samples, audio->count, audio->rate, &data, &size));
    TD_TRY(td_page_data_url("audio/flac", data, size, &url));
    td_json_put_string(json, "sound", url);
    *bytes += size;
fail:
    free(url);
    free(data);
    return status;
}

/* A recording that is gone by now is shown without both. */
static td_status put_media(const td_dataset_check *c, td_json *json, size_t at, size_t *bytes)
{
    char path[TD_FILE_PATH_BYTES];
    td_audio audio;
    const td_decode_options options = {.rate = RATE_HZ};
    TD_CHECK(td_dataset_clip_path(c->dataset, c->rows[at].row, path));
    if (td_audio_decode(path, &options, &audio) != TD_OK) return TD_OK;
    td_status status = put_picture(json, &audio, bytes);
    if (status == TD_OK) status = put_sound(json, &audio, bytes);
    td_audio_free(&audio);
    return status;
}

/* ---------------------------------------------------------------- rows */

static void put_findings(const td_dataset_check *c, td_json *json, size_t at)
{
    td_json_put_array(json, "findings");
    for (size_t i = 0; i < c->n_findings; ++i) {
        char message[TD_FINDING_BYTES];
        if (c->findings[i].at != at) continue;
        td_dataset_check_describe(c, &c->findings[i], message);
        td_json_begin_object(json);
        td_json_put_uint(json, "check", c->findings[i].check);
        td_json_put_string(json, "message", message);
        td_json_end_object(json);
    }
    td_json_end_array(json);
}

/* Rows in the order of their worst finding; pictures and sounds as far as they fit. */
static td_status put_rows(const td_dataset_check *c, td_json *json)
{
    td_status status = TD_OK;
    size_t bytes = 0, n_shown = 0;
    bool *is_shown = NULL;
    TD_TRY(TD_NEW_ARRAY(&is_shown, c->n_rows + 1));
    td_json_put_array(json, "rows");
    for (size_t i = 0; i < c->n_findings && n_shown < TD_DATASET_PAGE_ROWS; ++i) {
        char file[TD_FILE_PATH_BYTES];
        const uint32_t at = c->findings[i].at, row = c->rows[at].row;
        if (is_shown[at]) continue;
        is_shown[at] = true;
        ++n_shown;
        td_json_begin_object(json);
        td_json_put_string(json, "id", td_dataset_id(c->dataset, row));
        td_json_put_uint(json, "line",
                         td_source_file(&c->dataset->source, c->dataset->view.rows[row].line, file));
        td_json_put_string(json, "text", c->rows[at].text);
        td_json_put_bool(json, "out", c->is_out[at]);
        put_findings(c, json, at);
        if (bytes < TD_DATASET_PAGE_BYTES) TD_TRY(put_media(c, json, at, &bytes));
        td_json_end_object(json);
    }
    td_json_end_array(json);
fail:
    free(is_shown);
    return status;
}

static void put_checks(const td_dataset_check *c, td_json *json)
{
    td_json_put_array(json, "checks");
    for (size_t k = 0; k < td_row_check_count(); ++k) {
        const td_row_check *check = td_row_check_at(k);
        td_json_begin_object(json);
        td_json_put_string(json, "name", check->name);
        td_json_put_string(json, "what", check->what);
        td_json_put_string(json, "advice", check->advice);
        td_json_put_uint(json, "count", c->counts[k]);
        td_json_put_string(json, "remark", td_dataset_check_is_poor(c, k) ? check->remark : NULL);
        td_json_end_object(json);
    }
    td_json_end_array(json);
}

td_status td_dataset_check_write_page(const td_dataset_check *check, const char *path)
{
    td_status status = TD_OK;
    td_json *json = NULL;
    TD_TRY(td_json_create(NULL, 0, &json));
    td_json_begin_object(json);
    td_json_put_string(json, "dataset", check->dataset->metadata_path);
    td_json_put_uint(json, "n_rows", check->n_rows);
    td_json_put_uint(json, "n_accused", check->n_accused);
    td_json_put_uint(json, "n_out", check->n_out);
    put_checks(check, json);
    TD_TRY(put_rows(check, json));
    td_json_end_object(json);
    TD_TRY(td_page_write(path, PAGE, sizeof PAGE, json));
fail:
    td_json_destroy(json);
    return status;
}
