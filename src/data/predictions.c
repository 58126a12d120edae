/* See predictions.h. */
#include "data/predictions.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

typedef struct prediction {
    float *mel; /* owned; NULL: none */
    uint32_t n_frames;
} prediction;

struct td_predictions {
    prediction *rows; /* owned */
    size_t n_rows, count;
    uint32_t n_mels;
};

td_status td_predictions_create(size_t n_rows, uint32_t n_mels, td_predictions **out)
{
    td_status status = TD_OK;
    TD_TRY(TD_NEW(out));
    **out = (td_predictions){.n_rows = n_rows, .n_mels = n_mels};
    TD_TRY(TD_NEW_ARRAY(&(*out)->rows, n_rows + 1));
    return TD_OK;
fail:
    td_predictions_free(*out);
    *out = NULL;
    return status;
}

void td_predictions_free(td_predictions *p)
{
    if (p == NULL) return;
    for (size_t i = 0; p->rows != NULL && i < p->n_rows; ++i)
        free(p->rows[i].mel);
    free(p->rows);
    free(p);
}

td_status td_predictions_put(td_predictions *p, uint32_t row, uint32_t n_frames, const float *mel)
{
    prediction *to = &p->rows[row];
    if (to->mel != NULL) return TD_OK;
    TD_CHECK(TD_NEW_ARRAY(&to->mel, (size_t)n_frames * p->n_mels + 1));
    memcpy(to->mel, mel, sizeof *mel * n_frames * p->n_mels);
    to->n_frames = n_frames;
    ++p->count;
    return TD_OK;
}

size_t td_predictions_count(const td_predictions *p)
{
    return p->count;
}

bool td_predictions_cut(const td_predictions *p, uint32_t row, uint32_t first, uint32_t count, float pad,
                        float *to)
{
    const prediction *from = &p->rows[row];
    const uint32_t left = from->mel != NULL && first < from->n_frames ? from->n_frames - first : 0;
    const size_t used = (size_t)(left < count ? left : count) * p->n_mels, all = (size_t)count * p->n_mels;
    if (used > 0) memcpy(to, from->mel + (size_t)first * p->n_mels, used * sizeof *to);
    for (size_t i = used; i < all; ++i)
        to[i] = pad;
    return from->mel != NULL;
}
