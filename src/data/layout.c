/* See layout.h. */
#include "data/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "data/columns.h"
#include "data/source.h"
#include "data/texts.h"

static bool is_folder(const td_source *s, const char *name)
{
    char path[TD_FILE_PATH_BYTES];
    return snprintf(path, sizeof path, "%s/%s", s->dir, name) < TD_FILE_PATH_BYTES && td_file_is_folder(path);
}

/* ---------------------------------------------------------------- tables */

static td_status read_table(td_source *s, td_metadata_settings *form, char **text, size_t *bytes)
{
    (void)form;
    return td_file_read(s->path, TD_METADATA_MAX_BYTES, text, bytes);
}

static bool is_table(const td_source *s, const char *head)
{
    (void)s;
    (void)head;
    return true;
}

/* The first line that is not blank, without what follows; its bytes. */
static const char *find_line(const char *head, size_t *bytes)
{
    if (strncmp(head, "\xef\xbb\xbf", 3) == 0) head += 3;
    head += strspn(head, " \t\r\n");
    *bytes = strcspn(head, "\r\n");
    return head;
}

static bool begins_with(const char *head, const char *word)
{
    size_t bytes;
    const char *line = find_line(head, &bytes);
    return bytes > strlen(word) && strncmp(line, word, strlen(word)) == 0;
}

static bool is_coqui(const td_source *s, const char *head)
{
    (void)s;
    return begins_with(head, "audio_file|");
}

/* Tabs, and a header with the column `path`. */
static bool is_common_voice(const td_source *s, const char *head)
{
    size_t bytes;
    char line[1024], separator;
    (void)s;
    const char *first = find_line(head, &bytes);
    if (bytes >= sizeof line) return false;
    snprintf(line, sizeof line, "%.*s", (int)bytes, first);
    return td_columns_is_header(line, &separator) && separator == '\t' && strstr(line, "path") != NULL &&
           strstr(line, "sentence") != NULL;
}

/* ---------------------------------------------------------------- Piper */

enum { SPEAKER_BYTES = 64, SAMPLE_LINES = 500 };

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static size_t count_different(char **texts, size_t n)
{
    size_t n_different = n > 0;
    qsort((void *)texts, n, sizeof *texts, compare_texts);
    for (size_t i = 1; i < n; ++i)
        n_different += strcmp(texts[i], texts[i - 1]) != 0;
    return n_different;
}

/* Whether the second of three columns is rather a speaker than a text: the same few names again and again, or
 * words without a blank before texts with blanks. `head` is cut up. */
static bool has_speakers(char *head)
{
    char *seconds[SAMPLE_LINES], *thirds[SAMPLE_LINES], *rest = NULL;
    size_t n = 0, n_words = 0, n_texts = 0;
    for (char *line = strtok_r(head, "\r\n", &rest); line != NULL && n < SAMPLE_LINES;
         line = strtok_r(NULL, "\r\n", &rest)) {
        char *second = strchr(line, '|');
        char *third = second != NULL ? strchr(second + 1, '|') : NULL;
        if (third == NULL || third - second < 2 || third - second > SPEAKER_BYTES || third[1] == '\0')
            return false;
        *third = '\0';
        seconds[n] = second + 1;
        thirds[n] = third + 1;
        n_words += strchr(seconds[n], ' ') == NULL;
        n_texts += strchr(thirds[n], ' ') != NULL;
        ++n;
    }
    if (n < 2) return false;
    const size_t n_seconds = count_different(seconds, n), n_thirds = count_different(thirds, n);
    return 2 * n_seconds <= n ? n_thirds > n_seconds : n_words == n && 2 * n_texts > n;
}

static bool is_piper(const td_source *s, const char *head)
{
    if (is_folder(s, "wav") && !is_folder(s, "wavs")) return true;
    char *copy = strdup(head);
    const bool has = copy != NULL && has_speakers(copy);
    free(copy);
    return has;
}

/* Three columns are id|speaker|text, two are id|text. */
static td_status read_piper(td_source *s, td_metadata_settings *form, char **text, size_t *bytes)
{
    size_t line_bytes, n_bars = 0;
    const td_status status = read_table(s, form, text, bytes);
    if (status != TD_OK || form->columns != NULL) return status;
    const char *line = find_line(*text, &line_bytes);
    for (size_t i = 0; i < line_bytes; ++i)
        n_bars += line[i] == '|';
    if (n_bars >= 2) form->columns = "id|speaker|text";
    return TD_OK;
}

/* ---------------------------------------------------------------- a file for each text */

static bool is_vctk(const td_source *s, const char *head)
{
    (void)head;
    return td_texts_has_folder(s->dir, "wav");
}

static bool is_libritts(const td_source *s, const char *head)
{
    (void)head;
    return td_texts_has_any(s, ".normalized.txt");
}

/* ---------------------------------------------------------------- the table */

/* The first that fits is taken; ljspeech takes every table. */
static const td_layout LAYOUTS[] = {
    {.name = "common_voice",
     .shape = "train.tsv or validated.tsv with a header (path, sentence, client_id), recordings in clips/",
     .tables = {{"train.tsv", "dev.tsv"}, {"validated.tsv", NULL}},
     .places = {"clips/", ""},
     .fits = is_common_voice,
     .read = read_table},
    {.name = "coqui",
     .shape = "metadata.csv with the header audio_file|text|speaker_name, recordings as it names them",
     .tables = {{"metadata.csv", NULL}, {"metadata_train.csv", "metadata_eval.csv"}},
     .places = {"wavs/", ""},
     .fits = is_coqui,
     .read = read_table},
    {.name = "piper",
     .shape = "metadata.csv with lines id|text or id|speaker|text, recordings in wav/ or wavs/",
     .tables = {{"metadata.csv", NULL}},
     .places = {"wav/", "wavs/", ""},
     .fits = is_piper,
     .read = read_piper},
    {.name = "ljspeech",
     .shape = "metadata.csv with lines id|text, recordings in wavs/ or beside it",
     .tables = {{"metadata.csv", NULL}, {"metadata_train.csv", "metadata_eval.csv"}},
     .places = {"wavs/", ""},
     .fits = is_table,
     .read = read_table},
    {.name = "vctk",
     .shape = "txt/SPEAKER/ID.txt, recordings in wav48_silence_trimmed/SPEAKER/ID_mic1.flac or wav48/",
     .tables = {{"txt", NULL}},
     .places = {"wav48_silence_trimmed/", "wav48/", "wav*/"},
     .suffix = "_mic1",
     .text_ending = ".txt",
     .fits = is_vctk,
     .read = td_texts_read},
    {.name = "libritts",
     .shape = "SPEAKER/CHAPTER/ID.normalized.txt with the recording beside it, also below train-*/",
     .tables = {{"train*", "dev*"}, {".", NULL}},
     .places = {""},
     .text_ending = ".normalized.txt",
     .fits = is_libritts,
     .read = td_texts_read},
};

size_t td_layout_count(void)
{
    return sizeof LAYOUTS / sizeof LAYOUTS[0];
}

const td_layout *td_layout_at(size_t i)
{
    return &LAYOUTS[i];
}
