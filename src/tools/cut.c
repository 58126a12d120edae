/* See cut.h: the text and its sentences, the order of the work, and the verdict. */
#include "tools/cut.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "synth/split.h"
#include "text/unicode.h"
#include "tools/cut_internal.h"

enum {
    TEXT_MOST_BYTES = 64 << 20,
    SEARCH_STEPS = 512,
    MOST_CHARACTERS =
        300 /* of a sentence; a longer one is several, which share a row where there is no pause */
};

#define LEAST_AUDIO_S 1.0
#define LEAST_SPEECH 0.01 /* share of a recording in which somebody speaks */

const char *td_cut_reason_text(td_cut_reason reason)
{
    static const char *const TEXTS[] = {
#define TD_CUT_TEXT(name, text) text,
        TD_CUT_REASONS(TD_CUT_TEXT)
#undef TD_CUT_TEXT
    };
    return TEXTS[reason];
}

td_status td_cut_path(const char *folder, const char *name, char out[TD_FILE_PATH_BYTES])
{
    const int length = snprintf(out, TD_FILE_PATH_BYTES, "%s/%s", folder, name);
    TD_REFUSE_IF(length < 0 || length >= TD_FILE_PATH_BYTES, TD_ERR_CONFIG, "the path '%s' is too long",
                 folder);
    return TD_OK;
}

/* ---------------------------------------------------------------- sentences */

static td_status copy_text(const char *text, size_t bytes, char **out)
{
    TD_CHECK(TD_NEW_ARRAY(out, bytes + 1));
    memcpy(*out, text, bytes);
    return TD_OK;
}

/* Whether most lines end as sentences do: then a line is a paragraph of its own. */
static bool has_whole_lines(const char *text)
{
    size_t lines = 0, whole = 0;
    while (*text) {
        size_t bytes = strcspn(text, "\n");
        const size_t next = bytes + (text[bytes] != 0);
        while (bytes > 0 && strchr(" \t\r\"')", text[bytes - 1]))
            bytes--;
        if (bytes > 0) {
            lines++;
            whole += strchr(".!?:;", text[bytes - 1]) != NULL;
        }
        text += next;
    }
    return whole * 5 >= lines * 4;
}

/* One sentence: what is told of it, and how it is read. */
static td_status add_sentence(td_cut *cut, const char *text, size_t bytes)
{
    td_cut_sentence s = {0};
    const char *normal;
    td_status status = TD_OK;
    TD_TRY(td_normalizer_run(cut->normalizer, text, bytes, &normal));
    TD_TRY(td_alloc_grow(&cut->sentences, &cut->sentence_capacity, cut->n_sentences + 1,
                         sizeof *cut->sentences));
    TD_TRY(copy_text(text, bytes, &s.text));
    TD_TRY(copy_text(normal, strlen(normal), &s.normal));
    for (char *c = s.text; *c; c++)
        if (*c == '|' || (unsigned char)*c < ' ') *c = ' '; /* a table's marks */
    cut->sentences[cut->n_sentences++] = s;
    return TD_OK;
fail:
    free(s.text);
    free(s.normal);
    return status;
}

static td_status split_paragraph(td_cut *cut, const char *text, size_t bytes)
{
    char *copy = NULL;
    size_t at = 0;
    td_piece piece;
    td_status status = TD_OK;
    TD_TRY(copy_text(text, bytes, &copy));
    while (td_split_next(copy, cut->lang, MOST_CHARACTERS, &at, &piece))
        TD_TRY(add_sentence(cut, copy + piece.first, piece.bytes));
fail:
    free(copy);
    return status;
}

static td_status split_text(td_cut *cut, const char *text)
{
    const bool by_line = has_whole_lines(text);
    while (*text) {
        const char *end = by_line ? strchr(text, '\n') : strstr(text, "\n\n");
        const char *crlf = by_line ? NULL : strstr(text, "\r\n\r\n");
        if (crlf && (!end || crlf < end)) end = crlf;
        const size_t bytes = end ? (size_t)(end - text) : strlen(text);
        TD_CHECK(split_paragraph(cut, text, bytes));
        text += bytes + (end != NULL);
    }
    return TD_OK;
}

/* The letters of all sentences, as the aligner knows them. */
td_status td_cut_read_letters(td_cut *cut)
{
    td_letters_free(&cut->letters);
    for (size_t i = 0; i < cut->n_sentences; i++) {
        const char *normal = cut->sentences[i].normal;
        TD_CHECK(td_aligner_read(cut->aligner, cut->lang, normal, strlen(normal), &cut->letters));
        cut->firsts[i + 1] = cut->letters.count;
    }
    return TD_OK;
}

static td_status read_text(td_cut *cut)
{
    const char *path = cut->settings->text;
    char *text = NULL;
    size_t bytes;
    td_status status = TD_OK;
    TD_TRY(td_file_read(path, TEXT_MOST_BYTES, &text, &bytes));
    status = td_unicode_check(text, bytes, NULL);
    TD_FAIL_IF(status != TD_OK, TD_ERR_FORMAT, "%s: %s", path, td_error_last()->message);
    TD_TRY(td_normalizer_create(cut->lang, &cut->normalizer));
    TD_TRY(split_text(cut, text + (strncmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0)));
    TD_TRY(TD_NEW_ARRAY(&cut->firsts, cut->n_sentences + 1));
    TD_TRY(td_cut_read_letters(cut));
    TD_FAIL_IF(cut->letters.count == 0, TD_ERR_CONFIG,
               "%s: has nothing that the aligner can read; is it text, and is --language right?", path);
fail:
    free(text);
    return status;
}

/* ---------------------------------------------------------------- the work */

/* Hints of steps by loudness: whether somebody speaks in the middle of each, and whether a pause is near. */
static void find_hints(const td_cut *cut, size_t first, size_t count, unsigned char *to)
{
    size_t r = 0;
    for (size_t i = 0; i < count; i++) {
        while (r + 1 < cut->settings->n_recordings && first + i >= cut->recordings[r + 1].first_step)
            r++;
        const td_cut_recording *own = &cut->recordings[r];
        const double at_s = ((double)(first + i - own->first_step) + 0.5) * cut->step_s;
        const size_t at = own->first_level + (size_t)(at_s / TD_CUT_LEVEL_S);
        to[i] = td_cut_is_speech(&cut->levels, at) ? TD_PATH_SPEECH : 0;
        if (td_cut_is_near_pause(&cut->levels, at)) to[i] |= TD_PATH_NEAR_PAUSE;
    }
}

td_status td_cut_search(td_cut *cut, const td_path_prices *prices, td_found **found, size_t *n_found)
{
    const td_cut_settings *s = cut->settings;
    const td_path_text text = {cut->letters.classes, cut->firsts, cut->n_sentences};
    const size_t classes = td_aligner_classes(cut->aligner);
    td_path *path = NULL;
    float *heard = NULL;
    unsigned char hints[SEARCH_STEPS];
    td_status status = TD_OK;
    TD_TRY(td_path_create(&text, classes, prices, &path));
    TD_TRY(TD_NEW_ARRAY(&heard, SEARCH_STEPS * classes));
    for (size_t at = 0; at < cut->steps; at += SEARCH_STEPS) {
        const size_t left = cut->steps - at, count = left < SEARCH_STEPS ? left : SEARCH_STEPS;
        td_cut_get_heard(cut, at, count, heard);
        find_hints(cut, at, count, hints);
        TD_TRY(td_path_push(path, heard, hints, count));
        TD_TRY(s->tell(s->context, TD_CUT_SEARCHING, (uint64_t)((double)(at + count) * cut->step_s),
                       (uint64_t)((double)cut->steps * cut->step_s)));
    }
    TD_TRY(td_path_finish(path, found, n_found));
fail:
    td_path_destroy(path);
    free(heard);
    return status;
}

/* A folder with a dataset that is not ours is left alone. */
static td_status open_output(const char *folder)
{
    char table[TD_FILE_PATH_BYTES], own[TD_FILE_PATH_BYTES], wavs[TD_FILE_PATH_BYTES];
    TD_CHECK(td_cut_path(folder, "metadata.csv", table));
    TD_CHECK(td_cut_path(folder, "cut.csv", own));
    TD_CHECK(td_cut_path(folder, "wavs", wavs));
    TD_REFUSE_IF(td_file_exists(table) && !td_file_exists(own), TD_ERR_CONFIG,
                 "'%s' has a dataset already, which cut has not made; name another folder", folder);
    return td_file_make_dirs(wavs);
}

static double sum_speech(const td_cut *cut, size_t first, size_t end)
{
    size_t speech = 0;
    for (size_t i = first; i < end; i++)
        speech += td_cut_is_speech(&cut->levels, i);
    return (double)speech * TD_CUT_LEVEL_S;
}

static void sum_up(td_cut *cut)
{
    td_cut_result *r = cut->result;
    double rows_s = 0;
    r->audio_s = (double)cut->steps * cut->step_s;
    r->n_sentences = cut->n_sentences;
    r->speech_s = sum_speech(cut, 0, cut->levels.count);
    for (size_t i = 0; i < cut->n_rows; i++) {
        const td_cut_row *row = &cut->rows[i];
        r->counts[row->reason]++;
        r->n_heard += row->n_sentences;
        const size_t first = cut->recordings[row->recording].first_level;
        rows_s += sum_speech(cut, first + (size_t)(row->start_s / TD_CUT_LEVEL_S),
                             first + (size_t)(row->end_s / TD_CUT_LEVEL_S));
        if (row->reason == TD_CUT_KEPT) r->kept_s += row->end_s - row->start_s;
    }
    r->n_rows = cut->n_rows;
    r->counts[TD_CUT_UNHEARD] = r->n_sentences - r->n_heard;
    r->unwritten_s = r->speech_s > rows_s ? r->speech_s - rows_s : 0;
}

static void judge(td_cut *cut)
{
    td_cut_result *r = cut->result;
    char *out = r->verdict;
    const size_t room = sizeof r->verdict;
    if (r->counts[TD_CUT_KEPT] > 0) return;
    if (r->audio_s < LEAST_AUDIO_S)
        snprintf(out, room, "the recording has only %.1f s; nothing can be cut from it", r->audio_s);
    else if (r->speech_s < LEAST_SPEECH * r->audio_s)
        snprintf(out, room, "nobody speaks in the recording: %.0f s of silence or steady sound", r->audio_s);
    else if (r->n_rows == 0 || r->counts[TD_CUT_SCORE] * 2 >= r->n_rows)
        snprintf(out, room,
                 "what is heard is not this text (%zu of %zu sentences were found, the median score is "
                 "%.2f); is it the "
                 "right text, and in the language %s?",
                 r->n_heard, r->n_sentences, r->median_score, td_lang_code(cut->lang));
    else
        snprintf(out, room, "none of %zu rows is good enough; the table of reasons says why", r->n_rows);
}

static td_status work(td_cut *cut)
{
    const td_cut_settings *s = cut->settings;
    td_found *found = NULL;
    size_t n_found = 0;
    td_status status = TD_OK;
    TD_TRY(td_aligner_open(s->memory, s->aligner, &cut->aligner));
    cut->lang = td_aligner_lang(cut->aligner);
    if (s->language && strcmp(s->language, "auto") != 0) TD_TRY(td_lang_parse(s->language, &cut->lang));
    cut->step_s = (double)td_aligner_step_samples(cut->aligner) / td_aligner_rate(cut->aligner);
    TD_TRY(read_text(cut));
    TD_TRY(open_output(s->output));
    TD_TRY(td_cut_listen(cut));
    TD_TRY(td_cut_adapt(cut));
    TD_TRY(td_cut_search(cut, &TD_PATH_USUAL, &found, &n_found));
    TD_TRY(td_cut_make_rows(cut, found, n_found));
    TD_TRY(td_cut_write(cut, found, n_found));
    sum_up(cut);
    judge(cut);
    TD_TRY(td_cut_remove_work(cut));
fail:
    free(found);
    return status;
}

static void close_cut(td_cut *cut)
{
    for (size_t i = 0; i < cut->n_sentences; i++) {
        free(cut->sentences[i].text);
        free(cut->sentences[i].normal);
    }
    td_cut_clear_rows(cut);
    free(cut->rows);
    free(cut->sentences);
    free(cut->firsts);
    free(cut->recordings);
    free(cut->levels.db);
    free(cut->levels.noise);
    free(cut->levels.speech);
    td_file_unmap(&cut->heard);
    td_letters_free(&cut->letters);
    td_normalizer_destroy(cut->normalizer);
    td_aligner_close(cut->aligner);
}

td_status td_cut_run(const td_cut_settings *settings, td_cut_result *out)
{
    td_cut cut = {.settings = settings, .result = out};
    *out = (td_cut_result){0};
    const td_status status = work(&cut);
    close_cut(&cut);
    return status;
}
