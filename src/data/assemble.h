/* Putting a block together from what the threads made, and finding rows of an old block again. Used by
 * prepare.c and pair.c. Covered by tests/data/test_dataset.c.
 */
#ifndef TD_DATA_ASSEMBLE_H
#define TD_DATA_ASSEMBLE_H

#include "data/block.h"
#include "data/metadata.h"
#include "text/buffer.h"
#include "text/tokenizer.h"

/* The rows of a block by text and by id. Starts as {0}, which holds none. */
typedef struct td_assemble_index {
    const td_block_view *view; /* borrowed */
    uint32_t *by_text, *by_id; /* owned; open addressing: row + 1, 0 = free */
    size_t n_slots;            /* of each; a power of two */
} td_assemble_index;

/* `view` is borrowed until td_assemble_index_free(). */
td_status td_assemble_index_make(const td_block_view *view, td_assemble_index *out);
void td_assemble_index_free(td_assemble_index *index);

/* NULL if there is none. */
const td_block_row *td_assemble_find_text(const td_assemble_index *index, td_digest key);
const td_block_row *td_assemble_find_id(const td_assemble_index *index, const char *id);

/* What became of a row of the table. */
typedef struct td_prepared_row {
    td_digest text_key;
    size_t text_at, text_bytes; /* in its chunk's texts */
    size_t n_tokens, n_unknown;
    uint32_t n_characters;
    td_lang lang;
    bool is_validation;
    char *reason; /* owned; not NULL: the row is bad, and the rest of it is not valid */
} td_prepared_row;

typedef struct td_prepared_chunk {
    td_buffer texts;
    td_buffer tokens; /* int32_t of its good rows, one after another */
} td_prepared_chunk;

/* All borrowed. */
typedef struct td_prepared {
    const td_metadata *table;
    const td_prepared_row *rows; /* one for each row of the table */
    const td_prepared_chunk *chunks;
    size_t chunk_rows;
    const char *symbols;
    td_token_kind token_kind;
    size_t vocab_size;
    td_digest metadata, settings;
} td_prepared;

/* *out: owned, td_block_release(). TD_ERR_LIMIT if texts or tokens are more than 32 bits can count. */
td_status td_assemble_block(const td_prepared *prepared, const td_assemble_index *old, td_data_block *out);

#endif
