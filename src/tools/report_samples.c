/* Pictures and sounds of a run, for its report: samples/step-STEP-ITEM-KIND.png and
 * samples/step-STEP-ITEM.wav as data: addresses, the sentence of samples/step-STEP-ITEM.txt as it is. Of many
 * steps a few are shown, evenly spread, with the first and the last; of those that do not fit the limit fewer.
 * The sentence, and what the recording itself looks and sounds like, are the same at each step and shown once.
 * See report.h. Covered by tests/cli/test_report.py.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tools/page.h"
#include "tools/report_internal.h"

enum { NAME_BYTES = 96, KIND_BYTES = 32, MAX_FILES = 100000 };

typedef struct sample {
    uint64_t step, bytes;
    unsigned item;
    char kind[KIND_BYTES]; /* "audio", "spectrogram" ...; of the sentence: "text", "target", "target_audio" */
    char name[NAME_BYTES]; /* of the file */
} sample;

typedef struct sample_list {
    sample *samples; /* owned; by step, item, kind */
    size_t count, capacity;
    uint64_t *steps; /* owned; rising, each once */
    size_t n_steps;
} sample_list;

/* ---------------------------------------------------------------- finding */

/* Besides pictures, which are "-KIND.png". */
static const struct {
    const char *ending, *kind;
} ENDINGS[] = {{".wav", "audio"}, {"-target.wav", "target_audio"}, {".txt", "text"}};

static bool parse_name(const char *name, sample *out)
{
    int used = 0;
    char suffix[8] = "";
    if (strlen(name) >= NAME_BYTES || strncmp(name, "step-", 5) != 0) return false;
    if (sscanf(name, "step-%" SCNu64 "-%u%n", &out->step, &out->item, &used) != 2) return false;
    snprintf(out->name, NAME_BYTES, "%.*s", NAME_BYTES - 1, name);
    for (size_t i = 0; i < sizeof ENDINGS / sizeof ENDINGS[0]; ++i) {
        if (strcmp(name + used, ENDINGS[i].ending) != 0) continue;
        snprintf(out->kind, KIND_BYTES, "%s", ENDINGS[i].kind);
        return true;
    }
    return sscanf(name + used, "-%31[a-z_].%7s", out->kind, suffix) == 2 && strcmp(suffix, "png") == 0;
}

static int compare_samples(const void *a, const void *b)
{
    const sample *l = a, *r = b;
    if (l->step != r->step) return l->step < r->step ? -1 : 1;
    if (l->item != r->item) return l->item < r->item ? -1 : 1;
    return strcmp(l->kind, r->kind);
}

static td_status add_file(td_report_state *state, sample_list *list, const char *name)
{
    char path[TD_FILE_PATH_BYTES], inner[NAME_BYTES + 16];
    sample found = {0};
    if (!parse_name(name, &found) || list->count == MAX_FILES) return TD_OK;
    snprintf(inner, sizeof inner, "samples/%s", found.name);
    TD_CHECK(td_report_path(state, inner, path));
    if (td_file_size(path, &found.bytes) != TD_OK) {
        td_report_note(state, "%s is left out: %s", inner, td_error_last()->message);
        return TD_OK;
    }
    TD_CHECK(td_alloc_grow(&list->samples, &list->capacity, list->count + 1, sizeof *list->samples));
    list->samples[list->count++] = found;
    return TD_OK;
}

static td_status find_samples(td_report_state *state, sample_list *list)
{
    td_status status = TD_OK;
    char path[TD_FILE_PATH_BYTES];
    td_file_names names = {0};
    TD_TRY(td_report_path(state, "samples", path));
    status = td_file_list(path, &names);
    if (status == TD_ERR_NOT_FOUND) return TD_OK;
    TD_TRY(status);
    for (size_t i = 0; i < names.count; ++i)
        TD_TRY(add_file(state, list, names.at[i]));
    if (list->count == 0) goto fail;
    qsort(list->samples, list->count, sizeof *list->samples, compare_samples);
    TD_TRY(TD_NEW_ARRAY(&list->steps, list->count));
    for (size_t i = 0; i < list->count; ++i)
        if (i == 0 || list->samples[i].step != list->samples[i - 1].step)
            list->steps[list->n_steps++] = list->samples[i].step;
fail:
    td_file_names_free(&names);
    return status;
}

/* ---------------------------------------------------------------- choosing */

/* Whether the step is shown if `n_shown` of all are: evenly spread from the first to the last; of one, the
 * last. */
static bool is_step_shown(const sample_list *list, size_t n_shown, uint64_t step)
{
    for (size_t i = 0; i < n_shown; ++i) {
        const size_t at = n_shown > 1 ? i * (list->n_steps - 1) / (n_shown - 1) : list->n_steps - 1;
        if (list->steps[at] == step) return true;
    }
    return false;
}

static bool is_shown(const sample_list *list, size_t n_shown, const sample *s)
{
    if (strncmp(s->kind, "target", 6) == 0 || strcmp(s->kind, "text") == 0)
        return s->step == list->steps[list->n_steps - 1];
    return is_step_shown(list, n_shown, s->step);
}

static size_t choose_steps(const sample_list *list)
{
    size_t n_shown = list->n_steps < TD_REPORT_SAMPLE_STEPS ? list->n_steps : TD_REPORT_SAMPLE_STEPS;
    for (; n_shown > 1; --n_shown) {
        uint64_t bytes = 0;
        for (size_t i = 0; i < list->count; ++i)
            bytes += is_shown(list, n_shown, &list->samples[i]) ? list->samples[i].bytes : 0;
        if (bytes <= TD_REPORT_MEDIA_BYTES) break;
    }
    return n_shown;
}

/* ---------------------------------------------------------------- telling */

static td_status put_sample(td_report_state *state, const sample *s)
{
    td_status status = TD_OK;
    char path[TD_FILE_PATH_BYTES], inner[NAME_BYTES + 16];
    char *data = NULL, *text = NULL;
    size_t bytes = 0;
    const bool is_audio = strstr(s->kind, "audio") != NULL, is_text = strcmp(s->kind, "text") == 0;
    snprintf(inner, sizeof inner, "samples/%s", s->name);
    TD_TRY(td_report_path(state, inner, path));
    if (td_file_read(path, (size_t)(TD_REPORT_MEDIA_BYTES - state->run->media_bytes), &data, &bytes) !=
        TD_OK) {
        td_report_note(state, "%s is left out: %s", inner, td_error_last()->message);
        return TD_OK;
    }
    if (!is_text) TD_TRY(td_page_data_url(is_audio ? "audio/wav" : "image/png", data, bytes, &text));
    state->run->media_bytes += bytes;
    td_json_begin_object(state->json);
    td_json_put_uint(state->json, "step", s->step);
    td_json_put_uint(state->json, "item", s->item);
    td_json_put_string(state->json, "kind", s->kind);
    td_json_put_string(state->json, "data", is_text ? data : text);
    td_json_end_object(state->json);
fail:
    free(data);
    free(text);
    return status;
}

td_status td_report_put_samples(td_report_state *state)
{
    td_status status = TD_OK;
    sample_list list = {0};
    td_report_run *run = state->run;
    TD_TRY(find_samples(state, &list));
    run->n_sample_steps = list.n_steps;
    run->n_sample_steps_shown = list.n_steps > 0 ? choose_steps(&list) : 0;
    td_json_key(state->json, "samples");
    td_json_begin_array(state->json);
    for (size_t i = 0; i < list.count; ++i)
        if (is_shown(&list, run->n_sample_steps_shown, &list.samples[i]))
            TD_TRY(put_sample(state, &list.samples[i]));
    td_json_end_array(state->json);
    td_json_put_uint(state->json, "media_bytes", run->media_bytes);
    td_json_put_uint(state->json, "sample_steps", list.n_steps);
    td_json_put_uint(state->json, "sample_steps_shown", run->n_sample_steps_shown);
    if (list.n_steps == 0)
        td_report_note(state, "There are no pictures and sounds yet: training.sample_every says when.");
fail:
    free(list.samples);
    free(list.steps);
    return status;
}
