/* From a table to a block: languages, normalised or phonetic texts, split, symbol table and tokens, in
 * parallel and the same for any number of threads. Texts that an old block holds under the same key are taken
 * over. Used by dataset.c alone. Covered by tests/data/test_dataset.c.
 */
#ifndef TD_DATA_PREPARE_H
#define TD_DATA_PREPARE_H

#include "data/dataset.h"

/* Of everything but the table that shapes a block: versions of our own rules and of ICU, and the settings.
 * `form`: how the table is parsed. */
td_status td_prepare_digest(const td_dataset_settings *settings, const td_metadata_settings *form,
                            td_digest *out);

/* *out: owned, td_block_release(); its recordings are those `old` knows under the same id, or UNKNOWN. `old`
 * may be NULL. *n_normalised: rows whose text was not in `old`. */
td_status td_prepare_build(const td_metadata *table, const td_dataset_settings *settings, td_pool *pool,
                           const td_block_view *old, td_digest metadata, td_digest digest, td_data_block *out,
                           size_t *n_normalised);

#endif
