/* Text preprocessing (prepare.h). Rows are worked on in chunks, each by whichever thread is free; a thread
 * borrows a workspace with normalisers of its own, because opening one costs milliseconds. Results are put
 * together in the order of the rows. */
#include "data/prepare.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unicode/uversion.h>

#include "base/error.h"
#include "base/text.h"
#include "data/assemble.h"
#include "text/alphabet.h"
#include "text/language.h"
#include "text/normalize.h"
#include "text/romanize.h"
#include "text/unicode.h"

enum { CHUNK_ROWS = 64, SAMPLE_ROWS = 200, SPLIT_STREAM = 0x5b117 };

/* What one thread needs. */
typedef struct workspace {
    struct workspace *next;
    td_normalizer *normalizers[TD_LANG_COUNT];
    td_romanizer *romanizers[TD_LANG_COUNT];
    td_tokens tokens;
} workspace;

typedef struct build {
    const td_metadata *table;
    const td_dataset_settings *settings;
    td_pool *pool;
    td_detector *detector; /* NULL unless languages are to be found out */
    td_lang usual;         /* of rows that do not tell; TD_LANG_COUNT: each by itself */
    const td_assemble_index *old;
    td_prepared_row *rows; /* of the table */
    td_prepared_chunk *chunks;
    size_t n_chunks;
    td_tokenizer *tokenizer;
    td_symbols *symbols;
    pthread_mutex_t lock; /* guards what follows */
    workspace *idle;
    size_t n_normalised;
    size_t n_done;
} build;

/* ---------------------------------------------------------------- keys */

td_status td_prepare_digest(const td_dataset_settings *settings, const td_metadata_settings *form,
                            td_digest *out)
{
    UVersionInfo icu;
    td_hasher hasher;
    char *bpe = NULL;
    size_t bpe_bytes = 0;
    u_getVersion(icu);
    td_hasher_init(&hasher);
    const uint64_t numbers[] = {TD_BLOCK_VERSION,           TD_NORMALIZE_VERSION,
                                (uint64_t)settings->tokens, settings->seed,
                                settings->symbols != NULL,  (uint64_t)(unsigned char)form->separator,
                                form->has_no_header,        TD_ALPHABET_VERSION};
    td_hasher_bytes(&hasher, numbers, sizeof numbers);
    td_hasher_bytes(&hasher, icu, sizeof icu);
    td_hasher_bytes(&hasher, &settings->val_fraction, sizeof settings->val_fraction);
    td_hasher_string(&hasher, form->columns);
    td_hasher_string(&hasher, form->speaker_pattern);
    td_hasher_string(&hasher, form->speakers);
    td_hasher_string(&hasher, settings->language);
    td_hasher_string(&hasher, settings->symbols);
    if (settings->bpe_json != NULL) {
        td_hasher_string(&hasher, settings->bpe_json);
    } else if (settings->tokens == TD_TOKENS_BPE) {
        const td_status status = td_file_read(settings->bpe_path, 1 << 30, &bpe, &bpe_bytes);
        if (status != TD_OK) return status;
        td_hasher_bytes(&hasher, bpe, bpe_bytes);
        free(bpe);
    }
    if (settings->romanizes) td_hasher_string(&hasher, "romanized");
    if (settings->refuses_unknown) td_hasher_string(&hasher, "known");
    *out = td_hasher_digest(&hasher);
    return TD_OK;
}

/* What decides a row's text, and its language where that is found out. Half of it is of what the table says
 * alone, which is the same in later versions of the rules (train/same_data.h). */
static td_digest make_text_key(const build *b, const td_metadata_row *row, td_lang lang)
{
    UVersionInfo icu;
    td_hasher hasher;
    u_getVersion(icu);
    const uint64_t numbers[] = {TD_NORMALIZE_VERSION, b->settings->tokens == TD_TOKENS_PHONEMES,
                                (uint64_t)lang};
    td_hasher_init(&hasher);
    td_hasher_bytes(&hasher, numbers, sizeof numbers);
    td_hasher_bytes(&hasher, icu, sizeof icu);
    td_hasher_bytes(&hasher, row->text, row->text_bytes);
    if (b->settings->romanizes) td_hasher_string(&hasher, "romanized");
    return (td_digest){.low = td_hash64(row->text, row->text_bytes), .high = td_hasher_digest(&hasher).high};
}

/* ---------------------------------------------------------------- languages */

typedef struct sample {
    const build *build;
    size_t rows[SAMPLE_ROWS];
    td_lang langs[SAMPLE_ROWS];
    size_t count;
} sample;

static td_status detect_sample(void *context, size_t index)
{
    sample *s = context;
    const td_metadata_row *row = &s->build->table->rows[s->rows[index]];
    return td_detector_run(s->build->detector, row->text, row->text_bytes, TD_LANG_EN, &s->langs[index]);
}

/* The language that most of a sample look like; of equals the first of the list. */
static td_status find_usual(build *b, size_t n_silent)
{
    sample s = {.build = b};
    size_t votes[TD_LANG_COUNT] = {0};
    const size_t step = n_silent / SAMPLE_ROWS + 1;
    for (size_t i = 0, silent = 0; i < b->table->n_rows; ++i) {
        if (b->table->rows[i].lang != (td_lang)TD_METADATA_NO_LANG) continue;
        if (silent++ % step == 0) s.rows[s.count++] = i;
    }
    const td_status status = td_pool_map(b->pool, s.count, detect_sample, &s);
    if (status != TD_OK) return status;
    for (size_t i = 0; i < s.count; ++i)
        ++votes[s.langs[i]];
    b->usual = TD_LANG_EN;
    for (int lang = 0; lang < TD_LANG_COUNT; ++lang)
        if (votes[lang] > votes[b->usual]) b->usual = (td_lang)lang;
    return TD_OK;
}

static td_status choose_language(build *b)
{
    const char *wanted = b->settings->language != NULL ? b->settings->language : "auto";
    const bool each = strcmp(wanted, "each") == 0;
    size_t n_silent = 0;
    b->usual = TD_LANG_EN;
    for (size_t i = 0; i < b->table->n_rows; ++i)
        n_silent += b->table->rows[i].lang == (td_lang)TD_METADATA_NO_LANG;
    if (!each && strcmp(wanted, "auto") != 0) return td_lang_parse(wanted, &b->usual);
    if (n_silent == 0) return TD_OK;
    TD_CHECK(td_detector_create(NULL, &b->detector));
    if (each)
        b->usual = TD_LANG_COUNT;
    else
        TD_CHECK(find_usual(b, n_silent));
    return TD_OK;
}

/* ---------------------------------------------------------------- workspaces */

static td_status borrow_workspace(build *b, workspace **out)
{
    pthread_mutex_lock(&b->lock);
    *out = b->idle;
    if (*out != NULL) b->idle = (*out)->next;
    pthread_mutex_unlock(&b->lock);
    return *out != NULL ? TD_OK : TD_NEW(out);
}

static void return_workspace(build *b, workspace *w, const char *stage, size_t n_rows, size_t n_normalised)
{
    const td_dataset_settings *settings = b->settings;
    pthread_mutex_lock(&b->lock);
    w->next = b->idle;
    b->idle = w;
    b->n_normalised += n_normalised;
    b->n_done += n_rows;
    if (settings->report != NULL && stage != NULL)
        settings->report(settings->report_context, stage, b->n_done, b->table->n_rows);
    pthread_mutex_unlock(&b->lock);
}

static void destroy_workspaces(workspace *w)
{
    while (w != NULL) {
        workspace *next = w->next;
        for (int lang = 0; lang < TD_LANG_COUNT; ++lang)
            td_normalizer_destroy(w->normalizers[lang]);
        for (int lang = 0; lang < TD_LANG_COUNT; ++lang)
            td_romanizer_destroy(w->romanizers[lang]);
        td_tokens_free(&w->tokens);
        free(w);
        w = next;
    }
}

/* ---------------------------------------------------------------- texts */

/* Counts characters; false if none of them is spoken. */
static bool count_characters(const char *text, size_t bytes, uint32_t *count)
{
    bool spoken = false;
    *count = 0;
    for (size_t at = 0; at < bytes; ++*count) {
        uint32_t codepoint = 0;
        at += td_text_utf8_next(text + at, bytes - at, &codepoint);
        spoken = spoken || td_unicode_is_letter(codepoint);
    }
    return spoken;
}

static td_status spell(build *b, workspace *w, const td_metadata_row *row, td_lang lang, td_buffer *out)
{
    const char *text = NULL;
    if (w->normalizers[lang] == NULL) TD_CHECK(td_normalizer_create(lang, &w->normalizers[lang]));
    TD_CHECK(td_normalizer_run(w->normalizers[lang], row->text, row->text_bytes, &text));
    if (b->settings->romanizes) {
        if (w->romanizers[lang] == NULL) TD_CHECK(td_romanizer_create(lang, &w->romanizers[lang]));
        return td_romanizer_run(w->romanizers[lang], text, strlen(text), out);
    }
    return td_tokenizer_spell(b->settings->tokens, lang, text, strlen(text), out);
}

/* Fills in the row and appends its text to the chunk. A text that cannot be used makes the row bad. */
static td_status prepare_row(build *b, workspace *w, size_t index, td_buffer *texts, bool *was_known)
{
    td_status status = TD_OK;
    const td_metadata_row *row = &b->table->rows[index];
    td_prepared_row *out = &b->rows[index];
    const bool is_given = row->lang != (td_lang)TD_METADATA_NO_LANG;
    td_lang lang = is_given ? row->lang : b->usual;
    out->text_key = make_text_key(b, row, lang);
    out->text_at = texts->size;
    const td_block_row *known = td_assemble_find_text(b->old, out->text_key);
    *was_known = known != NULL;
    if (known != NULL) {
        lang = (td_lang)known->lang;
        TD_TRY(td_buffer_append(texts, td_block_string(b->old->view, known->text), known->text.bytes));
    } else {
        if (lang == TD_LANG_COUNT)
            TD_TRY(td_detector_run(b->detector, row->text, row->text_bytes, TD_LANG_EN, &lang));
        status = spell(b, w, row, lang, texts);
        if (status == TD_ERR_FORMAT) {
            out->reason = strdup(td_error_last()->message);
            return out->reason != NULL ? TD_OK : TD_FAIL(TD_ERR_HOST_MEMORY, "no memory left for a message");
        }
        TD_TRY(status);
    }
    out->lang = lang;
    out->text_bytes = texts->size - out->text_at;
    if (!count_characters(texts->data + out->text_at, out->text_bytes, &out->n_characters)) {
        out->reason = strdup("the text has no word in it");
        TD_FAIL_IF(out->reason == NULL, TD_ERR_HOST_MEMORY, "no memory left for a message");
    }
fail:
    return status;
}

static size_t end_of_chunk(const build *b, size_t chunk)
{
    const size_t end = (chunk + 1) * CHUNK_ROWS;
    return end < b->table->n_rows ? end : b->table->n_rows;
}

static td_status prepare_chunk(void *context, size_t chunk)
{
    build *b = context;
    workspace *w = NULL;
    td_status status = borrow_workspace(b, &w);
    size_t n_normalised = 0;
    if (status != TD_OK) return status;
    const size_t first = chunk * CHUNK_ROWS, end = end_of_chunk(b, chunk);
    for (size_t i = first; i < end && status == TD_OK; ++i) {
        bool was_known = false;
        status = prepare_row(b, w, i, &b->chunks[chunk].texts, &was_known);
        n_normalised += !was_known;
        if (status != TD_OK) (void)td_error_context("line %u", b->table->rows[i].line);
    }
    return_workspace(b, w, "text", end - first, n_normalised);
    return status;
}

/* ---------------------------------------------------------------- split, symbols, tokens */

typedef struct ranked {
    td_digest rank;
    size_t row;
} ranked;

static int compare_ranks(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->rank.high != y->rank.high) return x->rank.high < y->rank.high ? -1 : 1;
    if (x->rank.low != y->rank.low) return x->rank.low < y->rank.low ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

/* Rows are ranked by a hash of seed and id, and the first are for validation: so neither the order of the
 * table nor other rows decide, and a new row moves at most one other. At least one row of each kind, where
 * there are two. */
static td_status split_rows(build *b)
{
    const size_t n_rows = b->table->n_rows;
    td_status status = TD_OK;
    ranked *ranks = NULL;
    size_t n_good = 0;
    TD_TRY(TD_NEW_ARRAY(&ranks, n_rows + 1));
    for (size_t i = 0; i < n_rows; ++i) {
        if (b->rows[i].reason != NULL) continue;
        td_hasher hasher;
        const uint64_t numbers[] = {b->settings->seed, SPLIT_STREAM};
        td_hasher_init(&hasher);
        td_hasher_bytes(&hasher, numbers, sizeof numbers);
        td_hasher_string(&hasher, b->table->rows[i].id);
        ranks[n_good++] = (ranked){.rank = td_hasher_digest(&hasher), .row = i};
    }
    qsort(ranks, n_good, sizeof *ranks, compare_ranks);
    size_t n_val = (size_t)llround((double)n_good * b->settings->val_fraction);
    if (b->settings->val_fraction > 0 && n_val == 0) n_val = 1;
    if (n_val >= n_good) n_val = n_good > 0 ? n_good - 1 : 0;
    for (size_t i = 0; i < n_val; ++i)
        b->rows[ranks[i].row].is_validation = true;
fail:
    free(ranks);
    return status;
}

/* What the training rows have, and all that their languages are written with. */
static td_status collect_symbols(build *b)
{
    bool has_lang[TD_LANG_COUNT] = {false};
    td_status status = TD_OK;
    td_symbol_set *set = NULL;
    TD_TRY(td_symbol_set_create(&set));
    for (size_t i = 0; i < b->table->n_rows; ++i) {
        const td_prepared_row *row = &b->rows[i];
        if (row->reason != NULL || row->is_validation) continue;
        has_lang[row->lang] = true;
        TD_TRY(td_symbol_set_add(set, b->chunks[i / CHUNK_ROWS].texts.data + row->text_at, row->text_bytes));
    }
    for (int lang = 0; lang < TD_LANG_COUNT; ++lang)
        if (has_lang[lang]) TD_TRY(td_alphabet_add(b->settings->tokens, (td_lang)lang, set));
    TD_TRY(td_symbols_create(set, &b->symbols));
fail:
    td_symbol_set_destroy(set);
    return status;
}

/* The texts are spelled already, so phonemes are encoded symbol by symbol as characters are. */
static td_status open_tokenizer(build *b)
{
    const td_dataset_settings *settings = b->settings;
    if (settings->bpe_json != NULL)
        return td_tokenizer_parse_bpe(settings->bpe_json, strlen(settings->bpe_json), settings->bpe_path,
                                      &b->tokenizer);
    if (settings->tokens == TD_TOKENS_BPE) return td_tokenizer_open_bpe(settings->bpe_path, &b->tokenizer);
    if (settings->symbols != NULL)
        TD_CHECK(td_symbols_parse(settings->symbols, &b->symbols));
    else
        TD_CHECK(collect_symbols(b));
    return td_tokenizer_create(TD_TOKENS_CHARACTERS, b->symbols, &b->tokenizer);
}

/* *reason: why a text cannot be learnt from; owned, NULL: it can. Tokens of no text, such as [STOP], cannot come about:
 * texts are lower-cased, and marks of a tag fall away. */
static td_status judge_tokens(const build *b, const td_prepared_row *row, const td_tokens *tokens,
                              char **reason)
{
    char text[160] = "";
    *reason = NULL;
    if (!b->settings->refuses_unknown) return TD_OK;
    if (tokens->n_unknown > 0)
        snprintf(text, sizeof text, "the text has U+%04X, for which the tokenizer has no token",
                 (unsigned)tokens->first_unknown);
    if (!td_tokenizer_has_language(b->tokenizer, row->lang))
        snprintf(text, sizeof text, "the tokenizer has no tag for language '%s'", td_lang_code(row->lang));
    if (text[0] == '\0') return TD_OK;
    *reason = strdup(text);
    return *reason != NULL ? TD_OK : TD_FAIL(TD_ERR_HOST_MEMORY, "no memory left for a message");
}

static td_status encode_chunk(void *context, size_t chunk)
{
    build *b = context;
    td_prepared_chunk *c = &b->chunks[chunk];
    workspace *w = NULL;
    td_status status = borrow_workspace(b, &w);
    if (status != TD_OK) return status;
    for (size_t i = chunk * CHUNK_ROWS; i < end_of_chunk(b, chunk) && status == TD_OK; ++i) {
        td_prepared_row *row = &b->rows[i];
        if (row->reason != NULL) continue;
        status = td_tokenizer_encode(b->tokenizer, row->lang, c->texts.data + row->text_at, row->text_bytes,
                                     &w->tokens);
        if (status == TD_OK) status = judge_tokens(b, row, &w->tokens, &row->reason);
        if (status != TD_OK) break;
        if (row->reason != NULL) continue;
        row->n_tokens = w->tokens.count;
        row->n_unknown = w->tokens.n_unknown;
        status = td_buffer_append(&c->tokens, w->tokens.ids, w->tokens.count * sizeof *w->tokens.ids);
    }
    return_workspace(b, w, NULL, 0, 0);
    return status;
}

/* Symbols are those of the training rows; byte pairs are given, and tell first which rows are good. */
static td_status divide_and_encode(build *b)
{
    const bool is_given = b->settings->tokens == TD_TOKENS_BPE;
    if (!is_given) TD_CHECK(split_rows(b));
    TD_CHECK(open_tokenizer(b));
    TD_CHECK(td_pool_map(b->pool, b->n_chunks, encode_chunk, b));
    return is_given ? split_rows(b) : TD_OK;
}

/* ---------------------------------------------------------------- all of it */

static void release(build *b)
{
    for (size_t i = 0; b->rows != NULL && i < b->table->n_rows; ++i)
        free(b->rows[i].reason);
    for (size_t i = 0; b->chunks != NULL && i < b->n_chunks; ++i) {
        td_buffer_free(&b->chunks[i].texts);
        td_buffer_free(&b->chunks[i].tokens);
    }
    free(b->rows);
    free(b->chunks);
    td_tokenizer_destroy(b->tokenizer);
    td_symbols_destroy(b->symbols);
    td_detector_destroy(b->detector);
    destroy_workspaces(b->idle);
    pthread_mutex_destroy(&b->lock);
}

td_status td_prepare_build(const td_metadata *table, const td_dataset_settings *settings, td_pool *pool,
                           const td_block_view *old, td_digest metadata, td_digest digest, td_data_block *out,
                           size_t *n_normalised)
{
    td_status status = TD_OK;
    td_assemble_index index = {0};
    build b = {.table = table, .settings = settings, .pool = pool, .old = &index};
    pthread_mutex_init(&b.lock, NULL);
    b.n_chunks = (table->n_rows + CHUNK_ROWS - 1) / CHUNK_ROWS;
    if (old != NULL) TD_TRY(td_assemble_index_make(old, &index));
    TD_TRY(TD_NEW_ARRAY(&b.rows, table->n_rows + 1));
    TD_TRY(TD_NEW_ARRAY(&b.chunks, b.n_chunks + 1));
    TD_TRY(choose_language(&b));
    TD_TRY(td_pool_map(pool, b.n_chunks, prepare_chunk, &b));
    TD_TRY(divide_and_encode(&b));
    const td_prepared prepared = {
        .table = table,
        .rows = b.rows,
        .chunks = b.chunks,
        .chunk_rows = CHUNK_ROWS,
        .symbols = b.symbols != NULL ? td_symbols_text(b.symbols) : "",
        .token_kind = settings->tokens,
        .vocab_size = td_tokenizer_vocab_size(b.tokenizer),
        .metadata = metadata,
        .settings = digest,
    };
    TD_TRY(td_assemble_block(&prepared, &index, out));
    *n_normalised = b.n_normalised;
fail:
    release(&b);
    td_assemble_index_free(&index);
    return status;
}
