/* Batches from disk to the data device, ahead of whoever uses them. Threads of a pool decode the recordings
 * of the sampler's next batches into pinned memory; the data device turns them into mel spectrograms, energy
 * and pitch. The order is the sampler's and the bits are the same for any number of threads. Room is
 * bounded: with `n_ready` batches waiting the threads sleep until one is released. A recording that fails is
 * reported once with its line, and the row of the nearest length that fits takes its place, up to a share of
 * bad rows. What becomes of an epoch's last batch is the sampler's policy (sampler.h): filled up, kept short
 * or dropped; here `count` and `n_fresh` tell. Covered by tests/data/test_loader.c.
 */
#ifndef TD_DATA_LOADER_H
#define TD_DATA_LOADER_H

#include <pthread.h>

#include "audio/mel.h"
#include "base/blob_cache.h"
#include "base/pool.h"
#include "data/batch.h"
#include "data/dataset.h"
#include "data/mel_cache.h"
#include "data/predictions.h"
#include "data/reference.h"
#include "graph/plan.h"

/* The features there are. B, S, T, R: items, tokens, frames and reference frames of the batch's shape.
 *
 *   token_ids         uint [B, S]          TD_SYMBOL_PAD behind a text
 *   token_counts      uint [B]
 *   frame_counts      uint [B]
 *   speakers          uint [B]
 *   mel               [B, T, n_mels]       td_mel_pad_value() behind an item's frames
 *   energy            [B, T]               0 behind; made along with mel alone
 *   pitch             [B, T]               in Hz, 0 where unvoiced and behind; made along with mel alone
 *   reference_mel     [B, R, n_mels]       as mel
 *   reference_counts  uint [B]             frames of each reference
 *   text_ids          uint [B, S]          of models of byte pairs: as token_ids, 0 behind a text
 *   text_counts       uint [B]
 *   wave_counts       uint [B]             samples of each recording
 *   cond_range        uint [B, 2]          where its slice begins and ends, in samples, if references are slices;
 *                                          0, 0 in validation
 *   wave              [B, (T - 1) hop]     samples; of crops alone
 *   predicted_mel     [B, T, n_mels]       what a voice makes of the crop's part of the text; with predictions alone
 *   is_predicted      [B]                  1; 0 for a row without a prediction
 *   latents           [B, T, width]        what a voice thinks along the crop, 0 behind the recording; with predictions
 *                                          alone, as the next
 *   speaker_vector    [B, width]           of the speaker
 *
 * A further front end makes two more of the same samples, T' its frames of a recording of T frames:
 *
 *   NAME              [B, T', its bands]   as mel
 *   NAME_counts       uint [B]
 */
typedef struct td_front_end {
    const char *name;
    const td_mel *mel; /* at the same rate of samples */
} td_front_end;

/* A part of a model that is not trained makes a feature of others, on the data device. */
typedef struct td_frozen_part {
    const char *name;      /* of the feature */
    td_store *store;       /* its parameters, on the loader's memory */
    pthread_mutex_t *lock; /* held while the store is used; all loaders of a store have the same one */
    /* The part for batches of this shape: its inputs have the names of features that are wanted too, *output
     * is marked with td_graph_output(), and no larger than for the largest batch. *graph: the
     * loader's from then on. Called by who creates the loader, then by its thread. */
    td_status (*build)(void *context, const td_batch_shape *shape, td_graph **graph, td_tensor *output);
    void *context;
    /* Where what it makes of each recording is kept, by the recording's samples and `key`, which is of all else that
     * decides it. NULL: it is not kept. The output is then [B, ..], of words, with zeros behind what an item has. */
    td_blob_cache *kept;
    td_digest key;
} td_frozen_part;

/* Everything is borrowed until destroy; the sampler is the loader's alone until then. */
typedef struct td_loader_settings {
    const td_dataset *dataset;
    const uint32_t *rows; /* that the sampler draws from, ascending: replacements and references too */
    size_t n_rows;
    td_sampler *sampler;
    uint32_t batch_size; /* the sampler's */
    td_pool *pool;       /* its threads decode; the loader has one of its own, which counts as the pool's
                          * calling thread */
    td_memory *memory;   /* of the data role */
    const td_mel *mel;
    const td_front_end *front_ends; /* further ones; with one of their features wanted, no cache is used */
    size_t n_front_ends;
    const td_frozen_part *parts;
    size_t n_parts;
    const td_predictions *predictions; /* NULL: none; else crops begin where a frame does */
    td_mel_cache *cache;               /* NULL: none */
    uint32_t crop_frames;        /* 0: whole recordings, else crops of so many frames, drawn by the seed, the
                                  * epoch and the place in it; shorter recordings end with silence. The
                                  * sampler's shapes have this length; no cache is used */
    const char *const *features; /* names of what is wanted of a batch; borrowed during create
                                  * only. What is not wanted is not made either */
    size_t n_features;
    const char *const *inner_features; /* names of further ones that only parts take; the same. NULL: none */
    size_t n_inner_features;
    uint32_t n_ready;    /* batches on the device at a time, waiting and in use; at least 2 */
    double reference_s;  /* length of references at most */
    td_slice slice;      /* references are slices of the recordings themselves; most 0: they are not */
    bool is_slice_fixed; /* and crops are the same in each epoch */
    double max_bad_fraction;
    uint64_t seed;      /* of the references */
    uint64_t n_batches; /* to make in all; 0: without end */
} td_loader_settings;

typedef struct td_loader_stats {
    uint64_t n_batches, n_items; /* handed out */
    uint64_t n_decoded;          /* recordings, references too */
    uint64_t n_bad;              /* rows that failed */
    uint64_t n_kept;    /* features of items that were found on the disk instead of being made by a part */
    uint64_t decode_ns; /* of all threads together */
    uint64_t wait_ns;   /* that td_loader_next() waited for a batch */
    uint64_t full_ns;   /* that the loader waited for a batch to be released */
    uint64_t host_ns;   /* CPU time for handing batches to the device, without decoding */
    uint64_t n_host;    /* batches in host_ns: the first ones, where much is done once, are not */
} td_loader_stats;

typedef struct td_loader td_loader;

/* Whether a loader with these settings can make a feature of this name. */
bool td_loader_knows(const td_loader_settings *settings, const char *name);

/* Starts loading at once. *out: owned, td_loader_destroy(). */
td_status td_loader_create(const td_loader_settings *settings, td_loader **out);

/* Ends the threads' work, also in the middle of an epoch; waits for what the device has begun. Whoever
 * uses a batch must be done. */
void td_loader_destroy(td_loader *loader);

/* The next batch; sleeps until there is one. After a failure first the batches before it come, then the
 * failure, again and again. TD_ERR_NOT_FOUND past the last of n_batches. One thread at a time. */
td_status td_loader_next(td_loader *loader, td_batch *out);

/* The batch's room may be filled again once `used` is reached ({NULL, 0}: at once). Any order, any thread. */
void td_loader_release(td_loader *loader, const td_batch *batch, td_point used);

td_loader_stats td_loader_count(td_loader *loader);

/* td_batch_bytes() of the largest batch there can be. */
uint64_t td_loader_batch_bytes(const td_loader *loader);

/* How long the rows are, for td_sampler_create(): frames of the recording at the front end's rate, and
 * tokens. `out` has room for n_rows. */
void td_loader_lengths(const td_dataset *dataset, const uint32_t *rows, size_t n_rows,
                       const td_mel_config *config, td_sampler_row *out);

#endif
