/* See align.h: opening an aligner, the letters of texts, and what is heard of sound. */
#include "align/align.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audio/mel.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "device/blocking.h"
#include "families/checkpoint.h"
#include "graph/plan.h"
#include "text/normalize.h"
#include "text/unicode.h"

enum { EDGE_FRAMES = 4 }; /* that a window at the end of a piece reaches into, at most */

struct td_aligner {
    td_memory *memory;
    td_checkpoint *checkpoint;
    const td_checkpoint_info *info; /* the checkpoint's */
    td_symbols *symbols;
    td_tokenizer *tokenizer;
    td_normalizer *normalizers[TD_LANG_COUNT]; /* those that were needed */
    td_lang lang;
    uint16_t *class_of; /* [n_symbols]: 0 for what is no letter */
    size_t n_symbols, n_classes;
    td_mel *mel;
    td_store *store;
    td_graph *graph;
    td_plan *plan;
    td_tensor logits;
    uint32_t frames_per_step, around; /* around: frames at each side of a piece */
    td_span host, pcm, ranges, bands;
    td_list *list; /* samples to spectrogram */
    float *room;   /* [steps of a plan, n_symbols], then of a piece's values */
};

/* ---------------------------------------------------------------- opening */

td_status td_aligner_usual_path(const char *cache_dir, char *out, size_t capacity)
{
    char folder[TD_FILE_PATH_BYTES];
    TD_CHECK(td_file_cache_dir(cache_dir, folder));
    const int length = snprintf(out, capacity, "%s/aligner.safetensors", folder);
    TD_REFUSE_IF(length < 0 || (size_t)length >= capacity, TD_ERR_LIMIT, "the path of the cache is too long");
    return TD_OK;
}

static td_status read_checkpoint(td_aligner *a, const char *path)
{
    TD_REFUSE_IF(
        !td_file_exists(path), TD_ERR_NOT_FOUND,
        "there is no aligner at '%s'; scripts/make_aligner.sh trains one in minutes, or name another with "
        "cut.aligner",
        path);
    TD_CHECK(td_checkpoint_open(path, &a->checkpoint));
    a->info = td_checkpoint_get_info(a->checkpoint);
    TD_REFUSE_IF(!a->info->model.family->classify, TD_ERR_CONFIG,
                 "'%s' is of family %s, which does not tell what is said when; scripts/make_aligner.sh makes "
                 "an aligner",
                 path, a->info->model.family->name);
    TD_REFUSE_IF(a->info->token_kind == TD_TOKENS_BPE, TD_ERR_UNSUPPORTED,
                 "'%s' has byte pairs for tokens; an aligner needs letters or phonemes", path);
    const td_model_facts facts = td_model_describe(&a->info->model);
    a->n_symbols = facts.n_symbols;
    a->frames_per_step = facts.frames_per_step ? facts.frames_per_step : 1;
    a->around =
        (facts.reach + EDGE_FRAMES + a->frames_per_step - 1) / a->frames_per_step * a->frames_per_step;
    TD_CHECK(td_lang_parse(a->info->language, &a->lang));
    TD_CHECK(td_symbols_parse(a->info->symbols, &a->symbols));
    TD_REFUSE_IF(td_symbols_count(a->symbols) != a->n_symbols || facts.n_mels != a->info->mel.n_mels,
                 TD_ERR_FORMAT,
                 "'%s': its net does not fit its symbols or its front end; the checkpoint is damaged", path);
    return td_tokenizer_create(a->info->token_kind, a->symbols, &a->tokenizer);
}

/* Letters of an alphabet or of phonemes; not marks of stress, length and tone. */
static bool is_heard(uint32_t codepoint)
{
    const bool is_modifier = codepoint >= 0x2b0 && codepoint <= 0x36f;
    return td_unicode_is_letter(codepoint) && !is_modifier;
}

static td_status find_classes(td_aligner *a)
{
    const char *text = td_symbols_text(a->symbols);
    const size_t bytes = strlen(text);
    TD_CHECK(TD_NEW_ARRAY(&a->class_of, a->n_symbols));
    a->n_classes = 1;
    for (size_t at = 0, id = TD_SYMBOL_FIRST; at < bytes && id < a->n_symbols; id++) {
        uint32_t codepoint;
        at += td_text_utf8_next(text + at, bytes - at, &codepoint);
        if (is_heard(codepoint)) a->class_of[id] = (uint16_t)a->n_classes++;
    }
    TD_REFUSE_IF(a->n_classes < 2, TD_ERR_FORMAT, "the aligner '%s' knows no letters",
                 td_checkpoint_path(a->checkpoint));
    return TD_OK;
}

static uint32_t plan_frames(const td_aligner *a)
{
    return TD_ALIGN_PIECE * a->frames_per_step + 2 * a->around;
}

static uint64_t plan_samples(const td_aligner *a)
{
    return (uint64_t)(plan_frames(a) - 1) * a->info->mel.hop_samples;
}

/* Samples of a piece to its spectrogram, which the plan reads. */
static td_status record_mel(td_aligner *a)
{
    const uint64_t bytes = 4 * plan_samples(a), bands = UINT64_C(4) * plan_frames(a) * a->info->mel.n_mels;
    const uint32_t range[] = {0, (uint32_t)plan_samples(a)};
    TD_CHECK(td_memory_alloc(a->memory, TD_MEMORY_HOST, bytes, &a->host));
    TD_CHECK(td_memory_alloc(a->memory, TD_MEMORY_DEVICE, bytes, &a->pcm));
    TD_CHECK(td_memory_alloc(a->memory, TD_MEMORY_DEVICE, sizeof range, &a->ranges));
    TD_CHECK(td_memory_alloc(a->memory, TD_MEMORY_DEVICE, bands, &a->bands));
    TD_CHECK(td_blocking_write(a->memory, td_span_part(a->ranges, 0, sizeof range), range));
    TD_CHECK(td_list_create(td_memory_device(a->memory), TD_QUEUE_COMPUTE, &a->list));
    TD_CHECK(td_list_copy(a->list, td_span_part(a->pcm, 0, bytes), td_span_part(a->host, 0, bytes)));
    return td_mel_record(a->mel, a->list,
                         &(td_mel_args){.items = 1,
                                        .max_frames = plan_frames(a),
                                        .pcm = td_span_part(a->pcm, 0, bytes),
                                        .ranges = td_span_part(a->ranges, 0, sizeof range),
                                        .mel = td_span_part(a->bands, 0, bands)});
}

static td_status load(td_aligner *a)
{
    const td_batch_shape shape = {.items = 1, .tokens = 1, .frames = plan_frames(a)};
    const uint64_t bands = UINT64_C(4) * plan_frames(a) * a->info->mel.n_mels;
    TD_CHECK(td_mel_create(a->memory, &a->info->mel, &a->mel));
    TD_CHECK(td_family_store(a->memory, &a->info->model, NULL, &(td_store_options){0}, &a->store));
    TD_CHECK(td_checkpoint_load_voice(a->checkpoint, a->store));
    TD_CHECK(td_family_classify_graph(&a->info->model, &shape, &a->graph, &a->logits));
    TD_CHECK(td_plan_create(a->store, a->graph,
                            &(td_plan_options){.forward_only = true, .averaged = true, .slots = 1},
                            &a->plan));
    TD_CHECK(record_mel(a));
    TD_CHECK(
        td_plan_bind(a->plan, 0, td_graph_find_input(a->graph, "mel"), td_span_part(a->bands, 0, bands)));
    return TD_NEW_ARRAY(&a->room,
                        (size_t)plan_frames(a) / a->frames_per_step * (a->n_symbols + a->n_classes));
}

td_status td_aligner_open(td_memory *memory, const char *path, td_aligner **out)
{
    td_aligner *a = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(TD_NEW(&a));
    a->memory = memory;
    TD_TRY(read_checkpoint(a, path));
    TD_TRY(find_classes(a));
    TD_TRY(load(a));
    *out = a;
    return TD_OK;
fail:
    td_aligner_close(a);
    return status;
}

void td_aligner_close(td_aligner *a)
{
    if (!a) return;
    td_plan_destroy(a->plan);
    td_graph_destroy(a->graph);
    td_store_destroy(a->store);
    td_list_destroy(a->list);
    td_memory_free(a->memory, a->host);
    td_memory_free(a->memory, a->pcm);
    td_memory_free(a->memory, a->ranges);
    td_memory_free(a->memory, a->bands);
    td_mel_destroy(a->mel);
    for (size_t i = 0; i < TD_LANG_COUNT; i++)
        td_normalizer_destroy(a->normalizers[i]);
    td_tokenizer_destroy(a->tokenizer);
    td_symbols_destroy(a->symbols);
    td_checkpoint_close(a->checkpoint);
    free(a->class_of);
    free(a->room);
    free(a);
}

uint32_t td_aligner_rate(const td_aligner *a)
{
    return a->info->mel.rate;
}

uint32_t td_aligner_step_samples(const td_aligner *a)
{
    return a->info->mel.hop_samples * a->frames_per_step;
}

size_t td_aligner_classes(const td_aligner *a)
{
    return a->n_classes;
}

td_lang td_aligner_lang(const td_aligner *a)
{
    return a->lang;
}

const char *td_aligner_path(const td_aligner *a)
{
    return td_checkpoint_path(a->checkpoint);
}

const td_checkpoint_info *td_aligner_info(const td_aligner *a)
{
    return a->info;
}

/* ---------------------------------------------------------------- texts */

static td_status push_letter(td_letters *letters, uint16_t class_)
{
    TD_CHECK(
        td_alloc_grow(&letters->classes, &letters->capacity, letters->count + 1, sizeof *letters->classes));
    letters->classes[letters->count++] = class_;
    return TD_OK;
}

td_status td_aligner_read(td_aligner *a, td_lang lang, const char *text, size_t bytes, td_letters *out)
{
    td_buffer spelled = {0};
    td_status status = TD_OK;
    TD_TRY(td_tokenizer_spell(a->info->token_kind, lang, text, bytes, &spelled));
    for (size_t at = 0; at < spelled.size;) {
        uint32_t codepoint;
        at += td_text_utf8_next(spelled.data + at, spelled.size - at, &codepoint);
        if (!is_heard(codepoint)) continue;
        const int32_t id = td_symbols_find(a->symbols, codepoint);
        if (id == TD_SYMBOL_UNKNOWN)
            out->n_unknown++;
        else
            TD_TRY(push_letter(out, a->class_of[id]));
    }
fail:
    td_buffer_free(&spelled);
    return status;
}

void td_letters_free(td_letters *letters)
{
    free(letters->classes);
    *letters = (td_letters){0};
}

/* ---------------------------------------------------------------- sound */

size_t td_aligner_steps(const td_aligner *a, uint64_t samples)
{
    return (size_t)(samples / td_aligner_step_samples(a)) + (samples > 0);
}

/* Logits of one step to values of the classes: those of symbols that are not heard belong to none. */
static void compare(const td_aligner *a, const float *logits, float *values)
{
    float most = logits[0], best = -INFINITY;
    double none = 0;
    for (size_t i = 1; i < a->n_symbols; i++)
        most = fmaxf(most, logits[i]);
    for (size_t i = 0; i < a->n_symbols; i++) {
        if (a->class_of[i])
            values[a->class_of[i]] = logits[i];
        else
            none += exp((double)(logits[i] - most));
    }
    values[0] = most + (float)log(none + 1e-30);
    for (size_t i = 0; i < a->n_classes; i++)
        best = fmaxf(best, values[i]);
    for (size_t i = 0; i < a->n_classes; i++)
        values[i] -= best;
}

static td_status listen_piece(td_aligner *a, const td_listening *l, size_t first)
{
    const uint32_t hop = a->info->mel.hop_samples, skip = a->around / a->frames_per_step;
    const size_t left = l->steps - first, steps = left < TD_ALIGN_PIECE ? left : TD_ALIGN_PIECE;
    float *values = a->room + (size_t)plan_frames(a) / a->frames_per_step * a->n_symbols;
    const int64_t frame = (int64_t)(first * a->frames_per_step) - a->around;
    TD_CHECK(l->read(l->context, frame * hop, (size_t)plan_samples(a), td_span_host(a->host)));
    TD_CHECK(td_blocking_run(a->list, NULL));
    TD_CHECK(td_plan_run(a->plan, &(td_run){0}, NULL));
    TD_CHECK(td_plan_read(a->plan, a->logits, a->room));
    for (size_t i = 0; i < steps; i++)
        compare(a, a->room + (skip + i) * a->n_symbols, values + i * a->n_classes);
    return l->take(l->context, values, steps);
}

td_status td_aligner_listen_long(td_aligner *a, const td_listening *l)
{
    for (size_t first = l->first_step; first < l->steps; first += TD_ALIGN_PIECE)
        TD_CHECK(listen_piece(a, l, first));
    return TD_OK;
}

typedef struct whole {
    const float *samples;
    size_t count, classes, at;
    float *to;
} whole;

static td_status read_whole(void *context, int64_t first, size_t count, float *to)
{
    const whole *w = context;
    for (size_t i = 0; i < count; i++) {
        const int64_t at = first + (int64_t)i;
        to[i] = at < 0 || (uint64_t)at >= w->count ? 0 : w->samples[at];
    }
    return TD_OK;
}

static td_status take_whole(void *context, const float *values, size_t steps)
{
    whole *w = context;
    memcpy(w->to + w->at * w->classes, values, steps * w->classes * sizeof *values);
    w->at += steps;
    return TD_OK;
}

td_status td_aligner_listen(td_aligner *a, const float *samples, size_t count, td_heard *out)
{
    whole w = {.samples = samples, .count = count, .classes = a->n_classes};
    td_status status = TD_OK;
    *out = (td_heard){.steps = td_aligner_steps(a, count)};
    TD_TRY(TD_NEW_ARRAY(&out->values, out->steps * a->n_classes + 1));
    w.to = out->values;
    TD_TRY(td_aligner_listen_long(
        a, &(td_listening){.read = read_whole, .take = take_whole, .context = &w, .steps = out->steps}));
    return TD_OK;
fail:
    free(out->values);
    *out = (td_heard){0};
    return status;
}

td_status td_aligner_fit(td_aligner *a, td_lang lang, const char *text, const float *samples, size_t count,
                         td_timing *out)
{
    td_letters letters = {0};
    td_heard heard = {0};
    const char *normal;
    td_status status = TD_OK;
    *out = (td_timing){0};
    if (!a->normalizers[lang]) TD_TRY(td_normalizer_create(lang, &a->normalizers[lang]));
    TD_TRY(td_normalizer_run(a->normalizers[lang], text, strlen(text), &normal));
    TD_TRY(td_aligner_read(a, lang, normal, strlen(normal), &letters));
    TD_TRY(td_aligner_listen(a, samples, count, &heard));
    TD_TRY(td_align_letters(heard.values, heard.steps, a->n_classes, letters.classes, letters.count, out));
fail:
    td_letters_free(&letters);
    free(heard.values);
    return status;
}
