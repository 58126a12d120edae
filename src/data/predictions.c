/* See predictions.h. */
#include "data/predictions.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

typedef struct prediction {
    float *values, *vector; /* owned; NULL: none */
    uint32_t n;
} prediction;

struct td_predictions {
    prediction *rows; /* owned */
    size_t n_rows, count;
    uint32_t width, vector_width;
    double factors[TD_STRETCH_STAGES];
};

td_status td_predictions_create(size_t n_rows, uint32_t width, td_predictions **out)
{
    td_status status = TD_OK;
    TD_TRY(TD_NEW(out));
    **out = (td_predictions){.n_rows = n_rows, .width = width, .factors = {1, 1, 1}};
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
    for (size_t i = 0; p->rows != NULL && i < p->n_rows; ++i) {
        free(p->rows[i].values);
        free(p->rows[i].vector);
    }
    free(p->rows);
    free(p);
}

void td_predictions_stretch(td_predictions *p, const double factors[TD_STRETCH_STAGES])
{
    memcpy(p->factors, factors, sizeof p->factors);
}

td_status td_predictions_put(td_predictions *p, uint32_t row, uint32_t n, const float *values)
{
    prediction *to = &p->rows[row];
    if (to->values != NULL) return TD_OK;
    TD_CHECK(TD_NEW_ARRAY(&to->values, (size_t)n * p->width + 1));
    memcpy(to->values, values, sizeof *values * n * p->width);
    to->n = n;
    ++p->count;
    return TD_OK;
}

td_status td_predictions_put_vector(td_predictions *p, uint32_t row, const float *vector, uint32_t width)
{
    prediction *to = &p->rows[row];
    TD_REFUSE_IF(p->vector_width > 0 && p->vector_width != width, TD_ERR_ARGUMENT, "vectors of %u and %u",
                 p->vector_width, width);
    p->vector_width = width;
    if (to->vector != NULL) return TD_OK;
    TD_CHECK(TD_NEW_ARRAY(&to->vector, width));
    memcpy(to->vector, vector, sizeof *vector * width);
    return TD_OK;
}

void td_predictions_get_vector(const td_predictions *p, uint32_t row, float *to)
{
    const float *vector = p->rows[row].vector;
    for (uint32_t i = 0; i < p->vector_width; ++i)
        to[i] = vector != NULL ? vector[i] : 0;
}

uint32_t td_predictions_width(const td_predictions *p)
{
    return p->width;
}

uint32_t td_predictions_vector_width(const td_predictions *p)
{
    return p->vector_width;
}

size_t td_predictions_count(const td_predictions *p)
{
    return p->count;
}

bool td_predictions_cut(const td_predictions *p, uint32_t row, uint32_t first, uint32_t count, float pad,
                        float *to)
{
    const prediction *from = &p->rows[row];
    const td_stretch s = td_stretch_make(from->n, p->width, p->factors);
    const size_t all = s.counts[TD_STRETCH_STAGES], left = first < all ? all - first : 0;
    const size_t used = left < count ? left : count;
    for (size_t i = 0; i < used; ++i)
        td_stretch_row(&s, from->values, first + i, to + i * p->width);
    for (size_t i = used * p->width; i < (size_t)count * p->width; ++i)
        to[i] = pad;
    return from->values != NULL;
}
