/* Where batches come from: a loader on the data device, or a stage behind it that has taken them further. Who
 * trains asks a source and does not know which; so stages can be put between without either end changing.
 * Also how a batch as a whole is taken from one place in memory to another. Covered by tests/pipeline.
 */
#ifndef TD_DATA_SOURCE_H
#define TD_DATA_SOURCE_H

#include "data/loader.h"

/* next and release are as td_loader_next() and td_loader_release(). The context is borrowed. */
typedef struct td_batch_source {
    td_status (*next)(void *context, td_batch *out);
    void (*release)(void *context, const td_batch *batch, td_point used);
    void *context;
} td_batch_source;

td_batch_source td_loader_source(td_loader *loader);

/* Room that the batch's spans take when packed. */
uint64_t td_batch_bytes(const td_batch *batch);

/* Records copies of all spans into `room`, which has td_batch_bytes(). */
td_status td_batch_pack(const td_batch *batch, td_span room, td_list *list);

/* The same batch with its spans where td_batch_pack() puts them in `room`, which may be another memory that
 * got its bytes. `ready` stays. Cannot fail. */
td_batch td_batch_packed(const td_batch *batch, td_span room);

#endif
