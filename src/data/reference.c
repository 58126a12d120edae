/* See reference.h. Rows are kept sorted by speaker, so that a speaker's rows are neighbours. */
#include "data/reference.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/rng.h"

/* Streams of the generator: one per epoch and purpose, apart from the sampler's by the high bit. */
#define ROW_STREAM (UINT64_C(1) << 63)
#define PLACE_STREAM (UINT64_C(3) << 62)
#define SLICE_STREAM UINT64_C(0x736c696365000000) /* and the epoch */

typedef struct spoken {
    uint32_t speaker, row;
} spoken;

struct td_references {
    spoken *rows;    /* by speaker, then row */
    uint32_t *at;    /* of a row of the dataset: where it is in `rows`, or n_rows */
    uint32_t *first; /* of a speaker: where its rows begin; one more for the end */
    size_t n_rows, n_all;
};

static int compare_spoken(const void *a, const void *b)
{
    const spoken *x = a, *y = b;
    if (x->speaker != y->speaker) return x->speaker < y->speaker ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

td_status td_references_create(const td_dataset *dataset, const uint32_t *rows, size_t n_rows,
                               td_references **out)
{
    td_status status = TD_OK;
    td_references *r = NULL;
    *out = NULL;
    TD_TRY(TD_NEW(&r));
    r->n_rows = n_rows;
    r->n_all = dataset->view.n_rows;
    TD_TRY(TD_NEW_ARRAY(&r->rows, n_rows + 1));
    TD_TRY(TD_NEW_ARRAY(&r->at, r->n_all + 1));
    TD_TRY(TD_NEW_ARRAY(&r->first, dataset->view.n_speakers + 1));
    for (size_t i = 0; i < n_rows; ++i)
        r->rows[i] = (spoken){.speaker = dataset->view.rows[rows[i]].speaker, .row = rows[i]};
    qsort(r->rows, n_rows, sizeof *r->rows, compare_spoken);
    for (size_t i = 0; i < r->n_all; ++i)
        r->at[i] = (uint32_t)n_rows;
    for (size_t i = 0; i < n_rows; ++i) {
        r->at[r->rows[i].row] = (uint32_t)i;
        ++r->first[r->rows[i].speaker + 1];
    }
    for (size_t i = 0; i < dataset->view.n_speakers; ++i)
        r->first[i + 1] += r->first[i];
    *out = r;
    return TD_OK;
fail:
    td_references_destroy(r);
    return status;
}

void td_references_destroy(td_references *references)
{
    if (references == NULL) return;
    free(references->rows);
    free(references->at);
    free(references->first);
    free(references);
}

td_reference td_reference_choose(const td_references *references, uint64_t seed, uint64_t epoch, uint32_t row)
{
    const td_references *r = references;
    td_reference out = {.row = row, .is_own = true, .place = td_rng_float(seed, PLACE_STREAM | epoch, row)};
    const size_t at = row < r->n_all ? r->at[row] : r->n_rows;
    if (at == r->n_rows) return out;
    const uint32_t speaker = r->rows[at].speaker;
    const size_t first = r->first[speaker], end = r->first[speaker + 1];
    if (end - first < 2) return out;
    size_t drawn = first + (size_t)td_rng_below(seed, ROW_STREAM | epoch, row, end - first - 1);
    drawn += drawn >= at;
    out.row = r->rows[drawn].row;
    out.is_own = false;
    return out;
}

void td_reference_part(const td_reference *reference, size_t samples, size_t max_samples, size_t *first,
                       size_t *count)
{
    const size_t most = reference->is_own ? (samples + 1) / 2 : samples;
    *count = most < max_samples ? most : max_samples;
    *first = (size_t)((double)reference->place * (double)(samples - *count + 1));
}

void td_slice_choose(td_slice slice, bool is_fixed, uint64_t seed, uint64_t epoch, uint32_t row,
                     size_t samples, size_t *first, size_t *count)
{
    const uint64_t stream = SLICE_STREAM + epoch, more = slice.most - slice.least;
    const uint64_t at = 2 * (uint64_t)row; /* of its numbers: the length's, then the place's */
    *count = slice.least + (size_t)(is_fixed ? more / 2 : td_rng_below(seed, stream, at, more + 1));
    if (samples < *count) *count = samples / 2;
    *first = is_fixed ? 0 : (size_t)td_rng_below(seed, stream, at + 1, samples - *count + 1);
}
