/* Clusters of cepstra, and what a row has of each (row_fit.h): k-means from evenly spread frames. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tools/row_fit.h"

enum { ROUNDS = 10 };

static size_t find_nearest(const td_fit_book *book, const float cepstra[TD_SOUND_CEPSTRA])
{
    size_t best = 0;
    float least = INFINITY;
    for (size_t k = 0; k < TD_FIT_SOUNDS; ++k) {
        float sum = 0;
        for (size_t c = 0; c < TD_SOUND_CEPSTRA; ++c) {
            const float d = cepstra[c] * book->scale[c] - book->centres[k][c];
            sum += d * d;
        }
        if (sum >= least) continue;
        least = sum;
        best = k;
    }
    return best;
}

static void set_scale(float (*cepstra)[TD_SOUND_CEPSTRA], size_t count, td_fit_book *book)
{
    for (size_t c = 0; c < TD_SOUND_CEPSTRA; ++c) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < count; ++i) {
            sum += cepstra[i][c];
            squares += (double)cepstra[i][c] * cepstra[i][c];
        }
        const double mean = sum / (double)count, variance = squares / (double)count - mean * mean;
        book->scale[c] = variance > 1e-12 ? (float)(1 / sqrt(variance)) : 1;
    }
}

td_status td_fit_book_make(float (*cepstra)[TD_SOUND_CEPSTRA], size_t count, td_fit_book *out)
{
    double(*sums)[TD_SOUND_CEPSTRA + 1];
    TD_CHECK(TD_NEW_ARRAY(&sums, TD_FIT_SOUNDS));
    set_scale(cepstra, count, out);
    for (size_t k = 0; k < TD_FIT_SOUNDS; ++k)
        for (size_t c = 0; c < TD_SOUND_CEPSTRA; ++c)
            out->centres[k][c] = cepstra[k * count / TD_FIT_SOUNDS][c] * out->scale[c];
    for (size_t round = 0; round < ROUNDS; ++round) {
        memset(sums, 0, TD_FIT_SOUNDS * sizeof *sums);
        for (size_t i = 0; i < count; ++i) {
            double *sum = sums[find_nearest(out, cepstra[i])];
            for (size_t c = 0; c < TD_SOUND_CEPSTRA; ++c)
                sum[c] += (double)cepstra[i][c] * out->scale[c];
            sum[TD_SOUND_CEPSTRA] += 1;
        }
        for (size_t k = 0; k < TD_FIT_SOUNDS; ++k) /* a cluster that lost all its frames stays where it is */
            for (size_t c = 0; c < TD_SOUND_CEPSTRA && sums[k][TD_SOUND_CEPSTRA] > 0; ++c)
                out->centres[k][c] = (float)(sums[k][c] / sums[k][TD_SOUND_CEPSTRA]);
    }
    free((void *)sums);
    return TD_OK;
}

void td_fit_bag_fill(const td_fit_book *book, const td_sound_frames *frames, td_fit_bag *out)
{
    *out = (td_fit_bag){0};
    for (size_t i = 0; i < frames->count; ++i) {
        const size_t sound = find_nearest(book, frames->cepstra[i]);
        const double at = ((double)i + 0.5) / (double)frames->count;
        for (size_t p = 0; p < TD_FIT_PARTS; ++p)
            out->counts[p][sound] += (float)td_fit_weight(p, at);
    }
}
