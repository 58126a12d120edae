/* SPDX-License-Identifier: MIT
 *
 * A channel moves data from one device to another, of any API: `slots` slots of equal size that the
 * source's kernels fill and the destination's kernels read. How bytes travel is chosen from what the two
 * devices are; with two CPU drivers a slot is one host block that both use in place and nothing is copied.
 * Covered by tests/device/test_channel.c.
 */
#ifndef TANDEM_CHANNEL_H
#define TANDEM_CHANNEL_H

#include "tandem/queue.h"

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_channel td_channel;

typedef enum td_path {
    TD_PATH_AUTO,
    TD_PATH_ALIAS,  /* one device: both ends are the same range */
    TD_PATH_SHARED, /* two CPU drivers: one host block used in place by both */
    TD_PATH_DEVICE, /* one context: the driver copies from device to device */
    TD_PATH_DIRECT, /* one CPU driver: one hop between the device and a host block the CPU uses in place */
    TD_PATH_RING,   /* two hops through a ring of pinned host chunks, overlapped */
    TD_PATH_COUNT
} td_path;

typedef struct td_channel_options {
    td_path path;         /* AUTO, or a path to insist on (TD_ERR_UNSUPPORTED where it cannot be) */
    uint32_t slots;       /* 0: 2 */
    uint32_t ring_chunks; /* 0: 3 */
    uint64_t chunk_bytes; /* 0: 4 MiB */
} td_channel_options;

typedef struct td_channel_stats {
    uint64_t sends;
    uint64_t payload_bytes;
    uint64_t copied_bytes; /* over all hops; 0 when both ends share the block */
} td_channel_stats;

const char *td_path_name(td_path path);

/* Both memories are borrowed until the channel is destroyed; each is charged for its end. */
td_status td_channel_create(td_memory *source, td_memory *destination, uint64_t slot_bytes,
                            const td_channel_options *options, td_channel **out);

/* Waits for what is under way. */
void td_channel_destroy(td_channel *channel);

/* Where the source writes slot i, and where the destination reads it. Valid until destroy. */
td_span td_channel_source(const td_channel *channel, uint32_t slot);
td_span td_channel_destination(const td_channel *channel, uint32_t slot);

/* Sends the first `bytes` of a slot once `ready` (the producer's point) and `consumed` (the consumer's point
 * of the slot's last reading) are reached. *arrived is the point from which the destination may read.
 * Never blocks. */
td_status td_channel_send(td_channel *channel, uint32_t slot, uint64_t bytes, td_point ready,
                          td_point consumed, td_point *arrived);

/* The point from which the source may write the slot again, given the consumer's point of reading what was
 * sent last: with a copy in between, its arrival; without one, the reading itself. Cannot fail. */
td_point td_channel_reusable(const td_channel *channel, uint32_t slot, td_point consumed);

/* Waits for the last send of a slot and compares hashes of both ends: TD_ERR_INTEGRITY names slot, size
 * and both hashes. Blocks; for checking, not for speed. Neither end may be written meanwhile. */
td_status td_channel_verify(td_channel *channel, uint32_t slot);

td_path td_channel_get_path(const td_channel *channel);
/* Allowed while another thread sends. */
void td_channel_get_stats(const td_channel *channel, td_channel_stats *out);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
