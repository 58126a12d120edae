/* Features by name, and batches packed into one piece. See batch.h. */
#include "data/batch.h"

#include <string.h>

#include "base/error.h"

enum { PACK_ALIGN = TD_OFFSET_ALIGN };

bool td_batch_shape_equal(const td_batch_shape *a, const td_batch_shape *b)
{
    return a->items == b->items && a->tokens == b->tokens && a->frames == b->frames &&
           a->reference_frames == b->reference_frames;
}

const td_feature *td_batch_find(const td_batch *batch, const char *name)
{
    for (size_t i = 0; i < batch->n_features; ++i)
        if (strcmp(batch->features[i].name, name) == 0) return &batch->features[i];
    return NULL;
}

uint64_t td_batch_bytes(const td_batch *batch)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < batch->n_features; ++i)
        if (!batch->features[i].is_inner) bytes += td_round_up(batch->features[i].span.bytes, PACK_ALIGN);
    return bytes;
}

const char *td_share_name(td_count_kind kind)
{
    static const char *const NAMES[TD_COUNT_KINDS] = {"frame_share", "token_share", "step_share"};
    return NAMES[kind];
}

const float *td_batch_share(const td_batch *batch, const char *name)
{
    for (size_t kind = 0; kind < TD_COUNT_KINDS; ++kind)
        if (strcmp(name, td_share_name((td_count_kind)kind)) == 0) return &batch->shares[kind];
    return NULL;
}

td_batch td_batch_packed(const td_batch *batch, td_span room)
{
    td_batch packed = *batch;
    uint64_t at = 0;
    packed.n_features = 0;
    for (size_t i = 0; i < batch->n_features; ++i) {
        if (batch->features[i].is_inner) continue;
        td_feature *feature = &packed.features[packed.n_features++];
        *feature = batch->features[i];
        feature->span = td_span_part(room, at, feature->span.bytes);
        at += td_round_up(feature->span.bytes, PACK_ALIGN);
    }
    return packed;
}

td_status td_batch_pack(const td_batch *batch, td_span room, td_list *list)
{
    const td_batch packed = td_batch_packed(batch, room);
    for (size_t i = 0; i < packed.n_features; ++i)
        TD_CHECK(
            td_list_copy(list, packed.features[i].span, td_batch_find(batch, packed.features[i].name)->span));
    return TD_OK;
}
