/* A dataset ready to be used: a folder of a known layout (source.h) becomes rows with tokens, speakers, languages, a
 * split and what is known of the recordings. The result is kept in the cache and mapped next time; a change
 * of the metadata, a setting or a recording redoes what depends on it and nothing else. The same for any
 * number of threads. Decoding is not done here. Covered by tests/data/test_dataset.c.
 */
#ifndef TD_DATA_DATASET_H
#define TD_DATA_DATASET_H

#include "base/file.h"
#include "base/pool.h"
#include "data/block.h"
#include "data/metadata.h"
#include "data/recordings.h"
#include "data/source.h"
#include "text/tokenizer.h"

/* Called from any thread, never from two at once; `done` rises to `total`. `stage` is borrowed forever. */
typedef void (*td_dataset_report)(void *context, const char *stage, uint64_t done, uint64_t total);

typedef struct td_dataset_settings {
    const char *dir;      /* a folder, or a table with its recordings beside it */
    const char *metadata; /* name of the table inside it; NULL: what `dir` names, or the layout has */
    const char *layout;   /* NULL or "auto": by what is there */
    bool validates;       /* rather the layout's table of validation rows, where it has one */
    td_metadata_settings table;
    const char *language; /* a code for rows that do not tell; "auto" (or NULL): the one language most of
                           * the rows look like; "each": every row by itself */
    td_token_kind tokens;
    bool is_auto;            /* letters or phonemes: a model that is gone on with decides */
    const char *bpe_path;    /* of TD_TOKENS_BPE */
    const char *bpe_json;    /* what is in such a file; NULL: bpe_path is read */
    bool romanizes;          /* texts are spelled as text/romanize.h writes them */
    bool refuses_unknown;    /* of TD_TOKENS_BPE: a row is bad whose language has no tag, or whose text has a
                              * character without a token */
    const char *symbols;     /* td_symbols_text() to use unchanged; NULL: those of the training rows and
                              * their languages */
    double val_fraction;     /* share of the rows that validates; the seed and the ids decide which */
    double max_bad_fraction; /* more bad rows than this end it */
    uint64_t seed;
    const char *cache_dir;    /* NULL: no cache */
    bool listen;              /* decode every recording once, to find flaws */
    bool without_audio;       /* the recordings are not looked at */
    td_dataset_report report; /* may be NULL */
    void *report_context;
} td_dataset_settings;

/* How it came about. */
typedef struct td_dataset_origin {
    bool from_cache;      /* no text was worked on */
    size_t n_normalised;  /* rows whose text was worked on */
    size_t n_clips_heard; /* recordings that were decoded */
    size_t n_clips_read;  /* recordings that were opened */
    char why[160];        /* why the cache was not used as it was; "" if it was, or there is none */
    char cache_path[TD_FILE_PATH_BYTES]; /* "" without a cache */
} td_dataset_origin;

/* Immutable once open, so any number of threads may read it. */
typedef struct td_dataset {
    td_block_view view;    /* rows whose text is good */
    td_problems problems;  /* bad rows, of the text and of the recordings; total counts them all */
    uint32_t *train, *val; /* rows whose recording is good too, ascending; owned */
    size_t n_train, n_val;
    td_recordings *recordings; /* owned; NULL without audio */
    td_recording *files;       /* of each row; owned; NULL without audio */
    td_source source;          /* owned */
    const char *dir;           /* borrowed from it */
    const char *metadata_path; /* the same */
    td_dataset_origin origin;
    td_data_block block; /* owned */
} td_dataset;

/* *out: owned, td_dataset_close(). `pool` is borrowed until it returns. TD_ERR_NOT_FOUND for a folder or
 * table that is not there, TD_ERR_FORMAT for too many bad rows (the first is named); a cache that cannot be
 * used is rebuilt with one line in the log saying why, one that cannot be written is a warning. */
td_status td_dataset_open(const td_dataset_settings *settings, td_pool *pool, td_dataset **out);
void td_dataset_close(td_dataset *dataset);

/* Borrowed until close. */
static inline const char *td_dataset_id(const td_dataset *dataset, size_t row)
{
    return td_block_string(&dataset->view, dataset->view.rows[row].id);
}

static inline const char *td_dataset_text(const td_dataset *dataset, size_t row)
{
    return td_block_string(&dataset->view, dataset->view.rows[row].text);
}

static inline const int32_t *td_dataset_tokens(const td_dataset *dataset, size_t row)
{
    return dataset->view.tokens + dataset->view.rows[row].first_token;
}

/* Says in the log which layout was recognised; nothing if it was told. */
void td_dataset_tell_layout(const td_dataset *dataset);

/* "FILE:LINE" of a line, for messages. */
static inline void td_dataset_place(const td_dataset *dataset, uint32_t line,
                                    char out[TD_FILE_PATH_BYTES + 16])
{
    td_source_place(&dataset->source, line, out);
}

/* The path of the row's recording. */
td_status td_dataset_clip_path(const td_dataset *dataset, size_t row, char out[TD_FILE_PATH_BYTES]);

#endif
