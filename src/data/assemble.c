/* Blocks from prepared rows (assemble.h). */
#include "data/assemble.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* ---------------------------------------------------------------- finding rows again */

static size_t hash_id(const char *id)
{
    return (size_t)td_hash64(id, strlen(id));
}

td_status td_assemble_index_make(const td_block_view *view, td_assemble_index *out)
{
    td_status status = TD_OK;
    *out = (td_assemble_index){.view = view, .n_slots = 64};
    while (out->n_slots < 2 * view->n_rows)
        out->n_slots *= 2;
    TD_TRY(TD_NEW_ARRAY(&out->by_text, out->n_slots));
    TD_TRY(TD_NEW_ARRAY(&out->by_id, out->n_slots));
    for (size_t i = 0; i < view->n_rows; ++i) {
        const size_t mask = out->n_slots - 1;
        size_t slot = (size_t)view->rows[i].text_key.low & mask;
        while (out->by_text[slot] != 0)
            slot = (slot + 1) & mask;
        out->by_text[slot] = (uint32_t)i + 1;
        slot = hash_id(td_block_string(view, view->rows[i].id)) & mask;
        while (out->by_id[slot] != 0)
            slot = (slot + 1) & mask;
        out->by_id[slot] = (uint32_t)i + 1;
    }
fail:
    if (status != TD_OK) td_assemble_index_free(out);
    return status;
}

void td_assemble_index_free(td_assemble_index *index)
{
    free(index->by_text);
    free(index->by_id);
    *index = (td_assemble_index){0};
}

const td_block_row *td_assemble_find_text(const td_assemble_index *index, td_digest key)
{
    if (index->n_slots == 0) return NULL;
    for (size_t slot = (size_t)key.low & (index->n_slots - 1);; slot = (slot + 1) & (index->n_slots - 1)) {
        if (index->by_text[slot] == 0) return NULL;
        const td_block_row *row = &index->view->rows[index->by_text[slot] - 1];
        if (row->text_key.low == key.low && row->text_key.high == key.high) return row;
    }
}

const td_block_row *td_assemble_find_id(const td_assemble_index *index, const char *id)
{
    if (index->n_slots == 0) return NULL;
    for (size_t slot = hash_id(id) & (index->n_slots - 1);; slot = (slot + 1) & (index->n_slots - 1)) {
        if (index->by_id[slot] == 0) return NULL;
        const td_block_row *row = &index->view->rows[index->by_id[slot] - 1];
        if (strcmp(td_block_string(index->view, row->id), id) == 0) return row;
    }
}

/* ---------------------------------------------------------------- writing a block */

/* The parts while they grow. */
typedef struct parts {
    td_buffer rows, problems, speakers, strings;
    size_t n_rows, n_problems, n_tokens;
    uint64_t n_bad;
} parts;

static td_status add_text(parts *p, const char *text, size_t bytes, td_block_text *out)
{
    if (bytes >= UINT32_MAX - p->strings.size)
        return TD_FAIL(TD_ERR_LIMIT, "the dataset's texts pass 4 GB; split it into several");
    *out = (td_block_text){.at = (uint32_t)p->strings.size, .bytes = (uint32_t)bytes};
    td_status status = td_buffer_append(&p->strings, text, bytes);
    return status == TD_OK ? td_buffer_append(&p->strings, "", 1) : status;
}

static td_status add_problem(parts *p, uint32_t line, const char *message)
{
    td_block_problem problem = {.line = line};
    ++p->n_bad;
    if (p->n_problems == TD_PROBLEMS_KEPT) return TD_OK;
    ++p->n_problems;
    const td_status status = add_text(p, message, strlen(message), &problem.message);
    return status == TD_OK ? td_buffer_append(&p->problems, &problem, sizeof problem) : status;
}

static td_status add_row(parts *p, const td_prepared *prepared, size_t index, const td_assemble_index *old)
{
    const td_metadata_row *from = &prepared->table->rows[index];
    const td_prepared_row *made = &prepared->rows[index];
    if (made->reason != NULL) return add_problem(p, from->line, made->reason);
    const td_block_row *known = td_assemble_find_id(old, from->id);
    td_block_row row = {
        .text_key = made->text_key,
        .first_token = (uint32_t)p->n_tokens,
        .n_tokens = (uint32_t)made->n_tokens,
        .n_characters = made->n_characters,
        .n_unknown = (uint32_t)made->n_unknown,
        .line = from->line,
        .speaker = from->speaker,
        .lang = (uint16_t)made->lang,
        .is_validation = made->is_validation,
    };
    if (known != NULL) {
        row.clip = known->clip;
        row.file_key = known->file_key;
    }
    p->n_tokens += made->n_tokens;
    TD_REFUSE_IF(p->n_tokens > UINT32_MAX, TD_ERR_LIMIT,
                 "the dataset has more tokens than 32 bits count; split it into several");
    TD_CHECK(add_text(p, from->id, strlen(from->id), &row.id));
    TD_CHECK(add_text(p, prepared->chunks[index / prepared->chunk_rows].texts.data + made->text_at,
                      made->text_bytes, &row.text));
    TD_CHECK(td_buffer_append(&p->rows, &row, sizeof row));
    ++p->n_rows;
    return TD_OK;
}

/* Problems of the table come first: their rows never got this far. */
static td_status collect(const td_prepared *prepared, const td_assemble_index *old, parts *p,
                         td_block_text *symbols)
{
    const td_metadata *table = prepared->table;
    for (size_t i = 0; i < table->problems.count; ++i)
        TD_CHECK(add_problem(p, table->problems.items[i].line, table->problems.items[i].message));
    p->n_bad = table->problems.total;
    for (size_t i = 0; i < table->n_rows; ++i)
        TD_CHECK(add_row(p, prepared, i, old));
    for (size_t i = 0; i < table->n_speakers; ++i) {
        td_block_text name;
        TD_CHECK(add_text(p, table->speakers[i], strlen(table->speakers[i]), &name));
        TD_CHECK(td_buffer_append(&p->speakers, &name, sizeof name));
    }
    return add_text(p, prepared->symbols, strlen(prepared->symbols), symbols);
}

/* Gives the part its place after `end`, which moves on. */
static td_block_part place(size_t *end, size_t count, size_t item_bytes)
{
    const td_block_part part = {.at = (*end + 63) / 64 * 64, .count = count};
    *end = part.at + count * item_bytes;
    return part;
}

static void copy_part(char *base, td_block_part part, const td_buffer *from)
{
    if (from->size > 0) memcpy(base + part.at, from->data, from->size);
}

td_status td_assemble_block(const td_prepared *prepared, const td_assemble_index *old, td_data_block *out)
{
    td_status status = TD_OK;
    parts p = {0};
    td_block_header header = {.metadata = prepared->metadata,
                              .settings = prepared->settings,
                              .token_kind = (uint32_t)prepared->token_kind,
                              .vocab_size = (uint32_t)prepared->vocab_size};
    char *base = NULL;
    size_t end = sizeof header;
    TD_TRY(collect(prepared, old, &p, &header.symbols));
    header.n_bad = p.n_bad;
    header.rows = place(&end, p.n_rows, sizeof(td_block_row));
    header.tokens = place(&end, p.n_tokens, sizeof(int32_t));
    header.problems = place(&end, p.n_problems, sizeof(td_block_problem));
    header.speakers = place(&end, prepared->table->n_speakers, sizeof(td_block_text));
    header.strings = place(&end, p.strings.size, 1);
    TD_TRY(td_alloc_zeroed(1, end, (void *)&base));
    memcpy(base, &header, sizeof header);
    copy_part(base, header.rows, &p.rows);
    copy_part(base, header.problems, &p.problems);
    copy_part(base, header.speakers, &p.speakers);
    copy_part(base, header.strings, &p.strings);
    const size_t n_chunks = (prepared->table->n_rows + prepared->chunk_rows - 1) / prepared->chunk_rows;
    char *tokens = base + header.tokens.at;
    for (size_t i = 0; i < n_chunks; ++i) {
        const td_buffer *from = &prepared->chunks[i].tokens;
        if (from->size > 0) memcpy(tokens, from->data, from->size);
        tokens += from->size;
    }
    td_block_seal(base, end);
    *out = (td_data_block){.data = base, .bytes = end};
fail:
    td_buffer_free(&p.rows);
    td_buffer_free(&p.problems);
    td_buffer_free(&p.speakers);
    td_buffer_free(&p.strings);
    return status;
}
