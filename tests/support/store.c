/* See store.h. */
#include "support/store.h"

#include <stdlib.h>

#include "support/expect.h"

float *read_gradients(td_store *store, size_t *n)
{
    size_t total = 0;
    for (size_t i = 0; i < td_store_count(store); i++)
        total += (size_t)td_shape_size(td_store_get(store, i).shape);
    float *all = calloc(total + 1, sizeof *all);
    assert_non_null(all);
    *n = 0;
    for (size_t i = 0; i < td_store_count(store); i++) {
        if (!td_store_span(store, i, TD_BLOCK_GRADIENT).buffer) continue;
        check(td_store_read(store, i, TD_BLOCK_GRADIENT, all + *n));
        *n += (size_t)td_shape_size(td_store_get(store, i).shape);
    }
    return all;
}
