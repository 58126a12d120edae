/* Entries of a store that are kept in fewer bits than 32, from and to floats of the host. See store.h. Covered by
 * tests/graph/test_packed.c. */
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "device/blocking.h"
#include "graph/store.h"
#include "torch/convert.h"

/* Moments of an entry in fewer bits, on the host. */
typedef struct packed_entry {
    uint8_t *bytes; /* owned, as is the next */
    float *scales;
    td_span span, scale_span;
    uint64_t n;
} packed_entry;

static td_status open_packed(const td_store *store, size_t i, td_block block, packed_entry *out)
{
    *out = (packed_entry){.span = td_store_span(store, i, block),
                          .scale_span = td_store_scales(store, i, block),
                          .n = td_shape_size(store->entries[i].entry.shape)};
    TD_CHECK(TD_NEW_ARRAY(&out->bytes, out->span.bytes));
    return TD_NEW_ARRAY(&out->scales, out->scale_span.bytes / 4 + 1);
}

static void close_packed(packed_entry *p)
{
    free(p->bytes);
    free(p->scales);
}

td_status td_store_write_packed(td_store *store, size_t i, td_block block, const float *values)
{
    packed_entry p = {0};
    td_status status = TD_OK;
    TD_TRY(open_packed(store, i, block, &p));
    if (store->options.state == TD_STATE_BF16) {
        for (uint64_t k = 0; k < p.n; k++) {
            const uint16_t half = td_bf16_from_float(values[k]);
            memcpy(p.bytes + 2 * k, &half, sizeof half);
        }
    } else {
        td_packed_encode(values, p.n, block == TD_BLOCK_MOMENT2, p.bytes, p.scales);
        TD_TRY(td_blocking_write(store->memory, p.scale_span, p.scales));
    }
    TD_TRY(td_blocking_write(store->memory, p.span, p.bytes));
fail:
    close_packed(&p);
    return status;
}

td_status td_store_read_packed(td_store *store, size_t i, td_block block, float *values)
{
    packed_entry p = {0};
    td_status status = TD_OK;
    TD_TRY(open_packed(store, i, block, &p));
    TD_TRY(td_blocking_read(store->memory, p.span, (td_point){0}, p.bytes));
    if (store->options.state == TD_STATE_BF16) {
        for (uint64_t k = 0; k < p.n; k++) {
            uint16_t half;
            memcpy(&half, p.bytes + 2 * k, sizeof half);
            values[k] = td_bf16_to_float(half);
        }
    } else {
        TD_TRY(td_blocking_read(store->memory, p.scale_span, (td_point){0}, p.scales));
        td_packed_decode(p.bytes, p.scales, p.n, block == TD_BLOCK_MOMENT2, values);
    }
fail:
    close_packed(&p);
    return status;
}

/* Weights that exist in 16 bits alone, by floats. */
td_status td_store_move_half(td_store *store, size_t i, const float *from, float *to)
{
    const td_span span = td_store_span(store, i, TD_BLOCK_HALF);
    const td_safetensors_dtype dtype =
        store->options.half == TD_F16 ? TD_SAFETENSORS_F16 : TD_SAFETENSORS_BF16;
    const uint64_t n = td_shape_size(store->entries[i].entry.shape);
    uint8_t *halves = NULL;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&halves, span.bytes));
    if (from) {
        td_convert(from, TD_SAFETENSORS_F32, dtype, n, halves);
        TD_TRY(td_blocking_write(store->memory, span, halves));
    } else {
        TD_TRY(td_blocking_read(store->memory, span, (td_point){0}, halves));
        td_convert(halves, dtype, TD_SAFETENSORS_F32, n, to);
    }
fail:
    free(halves);
    return status;
}
