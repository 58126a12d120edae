/* How values begin: td_store_init() and td_store_init_constants() of plan.h. Each value is a function of the
 * seed, a name and the element's index alone. Covered by tests/model/test_model_init.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/rng.h"
#include "graph/store.h"

static void fill_positions(const td_placed_entry *e, float *values)
{
    const uint32_t rows = e->entry.shape.dims[0], width = e->entry.shape.dims[1];
    const double rate = (double)e->init.scale;
    for (uint32_t i = 0; i < width / 2; i++) {
        const double frequency = exp(-2.0 * i * log(10000.0) / width);
        for (uint32_t p = 0; p < rows; p++) {
            float *at = values + (size_t)p * width + (size_t)2 * i;
            at[0] = (float)sin(p * rate * frequency);
            at[1] = (float)cos(p * rate * frequency);
        }
    }
}

static td_status fill_values(const td_placed_entry *e, uint64_t seed, float *values)
{
    const char *like = e->init.like ? e->init.like : e->entry.name;
    const uint64_t stream = td_hash64(like, strlen(like)), n = td_shape_size(e->entry.shape);
    switch (e->init.rule) {
    case TD_INIT_ZERO:
        break; /* as it was allocated */
    case TD_INIT_ONE:
        for (uint64_t i = 0; i < n; i++)
            values[i] = 1;
        break;
    case TD_INIT_UNIFORM:
        for (uint64_t i = 0; i < n; i++)
            values[i] = e->init.scale * (2 * td_rng_float(seed, stream, i) - 1);
        break;
    case TD_INIT_NORMAL:
        for (uint64_t i = 0; i < n; i++)
            values[i] = e->init.scale * td_rng_normal(seed, stream, i);
        break;
    case TD_INIT_POSITIONS:
        fill_positions(e, values);
        break;
    case TD_INIT_MADE:
        return e->init.make(e->init.words, e->entry.shape, values);
    }
    return TD_OK;
}

static td_status fill_entry(td_store *store, size_t i, uint64_t seed)
{
    float *values = NULL;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&values, td_shape_size(store->entries[i].entry.shape)));
    TD_TRY(fill_values(&store->entries[i], seed, values));
    TD_TRY(td_store_write(store, i, TD_BLOCK_WEIGHT, values));
fail:
    free(values);
    return status;
}

td_status td_store_init(td_store *store, uint64_t seed)
{
    for (size_t i = 0; i < store->n_entries; i++)
        if (store->entries[i].entry.role == TD_TENSOR_PARAMETER) TD_CHECK(fill_entry(store, i, seed));
    return td_store_init_constants(store);
}

td_status td_store_init_constants(td_store *store)
{
    for (size_t i = 0; i < store->n_entries; i++) {
        const td_store_entry *e = &store->entries[i].entry;
        if (e->role == TD_TENSOR_STATE && e->state_kind == TD_STATE_CONSTANT)
            TD_CHECK(fill_entry(store, i, 0));
    }
    return TD_OK;
}
