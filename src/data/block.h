/* A prepared dataset as one block of bytes: the content of the cache file, used as it lies in memory, mapped
 * or built, without being parsed. Every offset is checked when a block is opened, so readers need not. In the
 * machine's byte order; a foreign machine's file shows as another version. Covered by
 * tests/data/test_dataset.c and tests/fuzz/fuzz_dataset_cache.c.
 */
#ifndef TD_DATA_BLOCK_H
#define TD_DATA_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "data/clip.h"
#include "tandem/status.h"

enum { TD_BLOCK_VERSION = 3 };

/* A zero-terminated text in the strings of the block. */
typedef struct td_block_text {
    uint32_t at;
    uint32_t bytes; /* without the zero */
} td_block_text;

typedef struct td_block_row {
    td_digest text_key; /* of all that decides `text`; low: of what the table says alone */
    td_block_text id;
    td_block_text text;   /* what is spoken: normalised, or phonemes */
    uint32_t first_token; /* index into the tokens */
    uint32_t n_tokens;
    uint32_t n_characters; /* of `text` */
    uint32_t n_unknown;    /* of them not in the symbol table */
    uint32_t line;
    uint32_t speaker;
    uint16_t lang;
    uint16_t is_validation; /* 0 or 1 */
    uint32_t file_key;      /* hash of the recording's path in the dataset, which `clip` is of */
    td_clip clip;
} td_block_row;

typedef struct td_block_problem {
    uint32_t line;
    td_block_text message;
} td_block_problem;

typedef struct td_block_part {
    uint64_t at; /* byte offset from the start of the block, a multiple of 64 */
    uint64_t count;
} td_block_part;

typedef struct td_block_header {
    char magic[8];
    uint32_t version;
    uint32_t header_bytes;
    uint64_t block_bytes;
    uint64_t checksum; /* of all that follows this field */
    td_digest metadata;
    td_digest settings;
    td_block_part rows;     /* td_block_row */
    td_block_part tokens;   /* int32_t */
    td_block_part problems; /* td_block_problem */
    td_block_part speakers; /* td_block_text */
    td_block_part strings;  /* char */
    td_block_text symbols;  /* td_symbols_text(); empty for BPE */
    uint64_t n_bad;         /* rows that were left out; the problems are the first of them */
    uint32_t token_kind;    /* td_token_kind */
    uint32_t vocab_size;
} td_block_header;

/* Pointers into one block, valid as long as it is. */
typedef struct td_block_view {
    const td_block_header *header;
    const td_block_row *rows;
    const int32_t *tokens;
    const td_block_problem *problems;
    const td_block_text *speakers;
    const char *strings;
    size_t n_rows, n_tokens, n_problems, n_speakers;
} td_block_view;

/* Looks at every byte. NULL if the block is whole, with *view filled in; otherwise what is wrong with it, a
 * borrowed sentence such as "it is cut short". `data` is aligned to 8 bytes. */
const char *td_block_open(const void *data, size_t bytes, td_block_view *view);

/* Writes the checksum of the block's present content into its header. */
void td_block_seal(void *data, size_t bytes);

static inline const char *td_block_string(const td_block_view *view, td_block_text text)
{
    return view->strings + text.at;
}

/* A block that is owned: mapped from a file, or in memory. Starts as {0}; td_block_release(). */
typedef struct td_data_block {
    void *data;
    size_t bytes;
    bool is_mapped;
} td_data_block;

/* Maps the file. *reason is NULL if it is whole; otherwise *out stays empty and *reason says why ("" if there
 * is no file). */
void td_block_map(const char *path, td_data_block *out, td_block_view *view, const char **reason);

/* A mapped block becomes a copy in memory that can be changed; `view` is moved along. */
td_status td_block_make_writable(td_data_block *block, td_block_view *view);
void td_block_release(td_data_block *block);

#endif
