/* Loaders as sources, and batches packed into one piece. See source.h. */
#include "data/source.h"

#include "base/error.h"

enum { PACK_ALIGN = 256 }; /* the largest alignment a device asks for */

static const size_t SPANS[] = {
    offsetof(td_batch, token_ids),        offsetof(td_batch, token_counts), offsetof(td_batch, frame_counts),
    offsetof(td_batch, speakers),         offsetof(td_batch, languages),    offsetof(td_batch, mel),
    offsetof(td_batch, energy),           offsetof(td_batch, pitch),        offsetof(td_batch, reference_mel),
    offsetof(td_batch, reference_counts),
};
enum { N_SPANS = sizeof SPANS / sizeof SPANS[0] };

static td_status next(void *context, td_batch *out)
{
    return td_loader_next(context, out);
}

static void release(void *context, const td_batch *batch, td_point used)
{
    td_loader_release(context, batch, used);
}

td_batch_source td_loader_source(td_loader *loader)
{
    return (td_batch_source){.next = next, .release = release, .context = loader};
}

static td_span get_span(const td_batch *batch, size_t i)
{
    return *(const td_span *)((const char *)batch + SPANS[i]);
}

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + PACK_ALIGN - 1) / PACK_ALIGN * PACK_ALIGN;
}

uint64_t td_batch_bytes(const td_batch *batch)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < N_SPANS; ++i)
        bytes += round_up(get_span(batch, i).bytes);
    return bytes;
}

td_status td_batch_pack(const td_batch *batch, td_span room, td_list *list)
{
    td_status status = TD_OK;
    uint64_t at = 0;
    for (size_t i = 0; i < N_SPANS; ++i) {
        const td_span from = get_span(batch, i);
        if (from.bytes > 0) TD_TRY(td_list_copy(list, td_span_part(room, at, from.bytes), from));
        at += round_up(from.bytes);
    }
fail:
    return status;
}

td_batch td_batch_packed(const td_batch *batch, td_span room)
{
    td_batch packed = *batch;
    uint64_t at = 0;
    for (size_t i = 0; i < N_SPANS; ++i) {
        const uint64_t bytes = get_span(batch, i).bytes;
        td_span *to = (td_span *)((char *)&packed + SPANS[i]);
        *to = bytes > 0 ? td_span_part(room, at, bytes) : (td_span){0};
        at += round_up(bytes);
    }
    return packed;
}
