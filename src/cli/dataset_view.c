/* Datasets as the commands open and show them: options to settings, progress, the summary for people and for
 * programs. Covered by tests/cli/test_data.py.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/progress.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/dataset_view.h"

enum { BAR_COLUMNS = 40, QUICK_NS = 500000000 };

/* ---------------------------------------------------------------- progress */

/* A stage that is over in no time shows nothing. */
void td_cli_show_progress(void *context, const char *stage, uint64_t done, uint64_t total)
{
    td_cli_progress *shown = context;
    if (shown->stage != stage) {
        td_cli_end_progress(shown);
        *shown = (td_cli_progress){.stage = stage, .start_ns = td_clock_ns()};
    }
    const bool is_slow = td_clock_ns() - shown->start_ns > QUICK_NS;
    if (shown->bar == NULL && is_slow && td_progress_create(stderr, stage, total, 2.0, &shown->bar) != TD_OK)
        return;
    if (shown->bar != NULL) td_progress_update(shown->bar, done, "%s", "");
}

void td_cli_end_progress(td_cli_progress *shown)
{
    td_progress_destroy(shown->bar);
    *shown = (td_cli_progress){0};
}

/* ---------------------------------------------------------------- for people */

static void print_rows(const td_dataset *d, const char *what, const td_summary_rows *rows)
{
    if (rows->count == 0) return;
    td_printf("look at        %zu %s:", rows->count, what);
    for (size_t i = 0; i < rows->count && i < 3; ++i)
        td_printf("%s %s (line %u)", i > 0 ? "," : "", td_dataset_id(d, rows->first[i]),
                  d->view.rows[rows->first[i]].line);
    td_printf("%s\n", rows->count > 3 ? ", ..." : "");
}

static void print_audio(const td_summary *s)
{
    size_t most = 1, last = 0;
    if (s->seconds.max <= 0) return;
    td_printf("audio          %.2f h; %.1f, %.1f, %.1f s (shortest, median, longest), 99 %% up to %.1f s\n",
              s->hours, s->seconds.min, s->seconds.median, s->seconds.max, s->p99_seconds);
    td_printf("rates          ");
    for (size_t i = 0; i < TD_SUMMARY_RATES && s->rates[i].n_rows > 0; ++i)
        td_printf("%s%u Hz: %zu", i > 0 ? ", " : "", s->rates[i].rate_hz, s->rates[i].n_rows);
    if (s->n_not_mono > 0) td_printf("; %zu with several channels", s->n_not_mono);
    td_printf("\nspeech         %.1f characters per second (median)", s->characters_per_second);
    if (s->n_heard > 0) td_printf("; %.2f s of silence around it (mean)", s->silence_s);
    putchar('\n');
    for (size_t i = 0; i < TD_SUMMARY_BINS; ++i) {
        most = s->bins[i] > most ? s->bins[i] : most;
        if (s->bins[i] > 0) last = i;
    }
    for (size_t i = (size_t)s->seconds.min < last ? (size_t)s->seconds.min : last; i <= last; ++i) {
        static const char BAR[BAR_COLUMNS + 1] = "########################################";
        const int length = (int)((s->bins[i] * BAR_COLUMNS + most - 1) / most);
        td_printf("  %2zu%s s %8zu %.*s\n", i, i + 1 < TD_SUMMARY_BINS ? " " : "+", s->bins[i], length, BAR);
    }
}

static void print_origin(const td_dataset *d)
{
    char size[TD_TEXT_FORMAT_BYTES];
    td_text_format_bytes(d->block.bytes, size);
    td_printf("dataset        %s, layout %s%s\n", d->metadata_path, d->source.layout->name,
              d->source.is_recognised ? "" : " as told");
    if (d->origin.from_cache) {
        td_printf("texts          from the cache");
    } else {
        td_printf("texts          %zu normalised%s%s", d->origin.n_normalised, d->origin.why[0] ? ": " : "",
                  d->origin.why);
    }
    td_printf("; %zu recordings opened, %zu listened to\n", d->origin.n_clips_read, d->origin.n_clips_heard);
    td_printf("cache          %s (%s)\n", d->origin.cache_path[0] ? d->origin.cache_path : "none", size);
}

void td_cli_print_dataset(const td_dataset *d, const td_summary *s)
{
    const td_block_view *view = &d->view;
    print_origin(d);
    td_printf("rows           %zu to train, %zu to validate, %zu bad\n", s->n_train, s->n_val, s->n_bad);
    td_printf("text           %.0f, %.0f, %.0f characters (shortest, median, longest); tokens up to %.0f, "
              "99 %% up to %.0f\n",
              s->characters.min, s->characters.median, s->characters.max, s->tokens.max, s->p99_tokens);
    td_printf("symbols        %u: %s\n", view->header->vocab_size,
              td_block_string(view, view->header->symbols));
    if (s->n_unknown > 0) td_printf("               %zu characters are not among them\n", s->n_unknown);
    td_printf("languages     ");
    for (int lang = 0; lang < TD_LANG_COUNT; ++lang)
        if (s->languages[lang] > 0) td_printf(" %s: %zu", td_lang_code((td_lang)lang), s->languages[lang]);
    td_printf("\nspeakers       %zu", view->n_speakers);
    for (size_t i = 0; i < view->n_speakers && i < 8 && view->n_speakers > 1; ++i)
        td_printf("%s %s: %zu", i > 0 ? "," : ";", td_block_string(view, view->speakers[i]), s->speakers[i]);
    td_printf("%s\n", view->n_speakers > 8 ? ", ..." : "");
    print_audio(s);
    print_rows(d, "texts that an earlier row has", &s->duplicates);
    print_rows(d, "texts far too long for their recording", &s->hurried);
    print_rows(d, "texts far too short for their recording", &s->slow);
    print_rows(d, "recordings at full scale (clipped)", &s->clipped);
    print_rows(d, "recordings with hardly any sound", &s->silent);
    print_rows(d, "recordings off centre (DC offset)", &s->off_centre);
}

/* ---------------------------------------------------------------- for programs */

static const char MEMBERS[] = "min mean median p95 max";

static void put_rows(td_json *json, const char *key, const td_dataset *d, const td_summary_rows *rows)
{
    td_json_put_object(json, key);
    td_json_put_uint(json, "count", rows->count);
    td_json_put_array(json, "first");
    for (size_t i = 0; i < rows->count && i < TD_SUMMARY_EXAMPLES; ++i) {
        td_json_begin_object(json);
        td_json_put_string(json, "id", td_dataset_id(d, rows->first[i]));
        td_json_put_uint(json, "line", d->view.rows[rows->first[i]].line);
        td_json_end_object(json);
    }
    td_json_end_array(json);
    td_json_end_object(json);
}

static void put_counts(td_json *json, const td_dataset *d, const td_summary *s)
{
    td_json_put_object(json, "languages");
    for (int lang = 0; lang < TD_LANG_COUNT; ++lang)
        if (s->languages[lang] > 0) td_json_put_uint(json, td_lang_code((td_lang)lang), s->languages[lang]);
    td_json_end_object(json);
    td_json_put_object(json, "speakers");
    for (size_t i = 0; i < d->view.n_speakers; ++i)
        td_json_put_uint(json, td_block_string(&d->view, d->view.speakers[i]), s->speakers[i]);
    td_json_end_object(json);
    td_json_put_array(json, "rates");
    for (size_t i = 0; i < TD_SUMMARY_RATES && s->rates[i].n_rows > 0; ++i) {
        td_json_begin_object(json);
        td_json_put_uint(json, "rate_hz", s->rates[i].rate_hz);
        td_json_put_uint(json, "rows", s->rates[i].n_rows);
        td_json_end_object(json);
    }
    td_json_end_array(json);
    td_json_put_array(json, "seconds_histogram");
    for (size_t i = 0; i < TD_SUMMARY_BINS; ++i)
        td_json_uint(json, s->bins[i]);
    td_json_end_array(json);
}

static void put_problems(td_json *json, const td_dataset *d)
{
    td_json_put_array(json, "bad_rows");
    for (size_t i = 0; i < d->problems.count; ++i) {
        char file[TD_FILE_PATH_BYTES];
        const uint32_t line = td_source_file(&d->source, d->problems.items[i].line, file);
        td_json_begin_object(json);
        td_json_put_string(json, "file", file);
        td_json_put_uint(json, "line", line);
        td_json_put_string(json, "message", d->problems.items[i].message);
        td_json_end_object(json);
    }
    td_json_end_array(json);
}

void td_cli_put_dataset(td_json *json, const td_dataset *d, const td_summary *s)
{
    const td_block_view *view = &d->view;
    td_json_begin_object(json);
    td_json_put_string(json, "metadata", d->metadata_path);
    td_json_put_string(json, "layout", d->source.layout->name);
    td_json_put_bool(json, "layout_recognised", d->source.is_recognised);
    td_json_put_string(json, "cache", d->origin.cache_path[0] ? d->origin.cache_path : NULL);
    td_json_put_bool(json, "from_cache", d->origin.from_cache);
    td_json_put_string(json, "why", d->origin.why);
    td_json_put_uint(json, "normalised", d->origin.n_normalised);
    td_json_put_uint(json, "recordings_read", d->origin.n_clips_read);
    td_json_put_uint(json, "recordings_heard", d->origin.n_clips_heard);
    td_json_put_uint(json, "rows", s->n_rows);
    td_json_put_uint(json, "train", s->n_train);
    td_json_put_uint(json, "val", s->n_val);
    td_json_put_uint(json, "bad", s->n_bad);
    td_json_put_double(json, "hours", s->hours);
    td_stats_put_json(json, "seconds", &s->seconds, MEMBERS);
    td_stats_put_json(json, "characters", &s->characters, MEMBERS);
    td_stats_put_json(json, "tokens", &s->tokens, MEMBERS);
    td_json_put_double(json, "characters_per_second", s->characters_per_second);
    td_json_put_uint(json, "vocab_size", view->header->vocab_size);
    td_json_put_string(json, "symbols", td_block_string(view, view->header->symbols));
    td_json_put_uint(json, "unknown_characters", s->n_unknown);
    td_json_put_uint(json, "not_mono", s->n_not_mono);
    put_counts(json, d, s);
    put_rows(json, "duplicate_texts", d, &s->duplicates);
    put_rows(json, "text_too_long", d, &s->hurried);
    put_rows(json, "text_too_short", d, &s->slow);
    td_json_put_uint(json, "heard", s->n_heard);
    td_json_put_double(json, "silence_s", s->silence_s);
    put_rows(json, "clipped", d, &s->clipped);
    put_rows(json, "silent", d, &s->silent);
    put_rows(json, "off_centre", d, &s->off_centre);
    put_problems(json, d);
    td_json_end_object(json);
}
