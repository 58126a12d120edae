/* A dataset on its way to a device: what training, `bench load` and `analyze` share to get batches. A feed is
 * what stays (threads, dataset, mel front end); a stream is one run through rows of it (sampler, loader).
 * Covered by tests/cli/test_load.py and tests/train.
 */
#ifndef TD_DATA_FEED_H
#define TD_DATA_FEED_H

#include "data/loader.h"

/* Texts are borrowed until the feed closes. */
typedef struct td_feed_options {
    td_dataset_settings dataset;
    size_t workers; /* threads that load; 0: one per core */
    uint32_t batch_size;
    uint32_t max_mel_frames, max_text_length; /* longer rows are left out */
    uint32_t n_buckets;                       /* 0: 8; 1: one static shape */
    td_mel_cache_kind mel_cache;
    uint64_t mel_cache_bytes; /* 0: by what is free */
    bool with_pitch;
    double reference_s; /* 0: no references */
    uint32_t n_ready;   /* batches on the device at a time; 0: 3 */
} td_feed_options;

/* Open; fields are borrowed until close. */
typedef struct td_feed {
    td_feed_options options;
    size_t workers; /* as it came out */
    td_memory *memory;
    td_pool *pool;
    td_dataset *dataset;
    td_mel *mel;
    char device_key[256]; /* selector and driver */
} td_feed;

/* `memory` is that of the data role, borrowed until close. *feed: td_feed_close(), also after a failure. */
td_status td_feed_open(td_memory *memory, const td_feed_options *options, td_feed *feed);
void td_feed_close(td_feed *feed);

/* The mel cache that the options ask for. *out: owned, td_mel_cache_close(). */
td_status td_feed_open_cache(const td_feed *feed, td_mel_cache **out);

typedef struct td_stream_settings {
    const uint32_t *rows; /* of the dataset, ascending; borrowed until the stream is closed */
    size_t n_rows;
    td_sampler_last last;
    bool in_order;
    td_pool *pool;          /* NULL: the feed's */
    td_mel_cache *cache;    /* NULL: none */
    td_sampler_state state; /* where to begin */
    uint64_t n_batches;     /* 0: without end */
} td_stream_settings;

typedef struct td_stream {
    td_sampler *sampler; /* shapes and counts may be asked while the loader runs */
    td_loader *loader;
} td_stream;

/* *out: td_stream_close(), also after a failure. A stream that has no `loader` yet (_open) tells its shapes
 * and how long an epoch is; _start begins loading. */
td_status td_stream_open(const td_feed *feed, const td_stream_settings *settings, td_stream *out);
td_status td_stream_start(const td_feed *feed, const td_stream_settings *settings, td_stream *stream);
void td_stream_close(td_stream *stream);

#endif
