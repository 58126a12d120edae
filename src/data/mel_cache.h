/* Mel spectrograms that were made before, with the energy and pitch of each frame, so that later epochs (ram)
 * and later runs (disk) skip decoding and mel. An entry is keyed by all that shapes it: the recording's path,
 * size and time, the mel settings and the device; on disk it is a checked file of its own, and a damaged or
 * foreign one is made again (base/blob_cache.h). Nothing is put in past the size bound, and nothing is pushed
 * out: with a shuffled order that serves as well as any other rule. Any thread. Covered by
 * tests/data/test_mel_cache.c.
 */
#ifndef TD_DATA_MEL_CACHE_H
#define TD_DATA_MEL_CACHE_H

#include "audio/mel_config.h"
#include "data/dataset.h"

typedef enum td_mel_cache_kind {
    TD_MEL_CACHE_AUTO, /* chosen from the dataset's size and the free memory and disk */
    TD_MEL_CACHE_NONE,
    TD_MEL_CACHE_RAM,
    TD_MEL_CACHE_DISK,
} td_mel_cache_kind;

typedef struct td_mel_cache_settings {
    td_mel_cache_kind kind;
    uint64_t max_bytes;    /* 0: half of the memory, or a quarter of the disk, that is free */
    const char *cache_dir; /* of all caches; NULL: AUTO never chooses disk, and DISK is TD_ERR_CONFIG */
    td_mel_config config;
    bool has_energy, has_pitch; /* what is kept besides the mel */
    const char *device;         /* selector and driver of who makes the mels; part of the key */
} td_mel_cache_settings;

typedef struct td_mel_cache_stats {
    td_mel_cache_kind kind; /* never AUTO */
    uint64_t max_bytes, used_bytes;
    uint64_t n_hits, n_misses, n_stores;
    uint64_t n_refused; /* would have passed the bound */
} td_mel_cache_stats;

typedef struct td_mel_cache td_mel_cache;

/* *out: owned, td_mel_cache_close(). `dataset` is borrowed until close, the settings' texts are copied. One
 * line in the log tells the kind, the bound and, for AUTO, why. On disk, entries of this dataset that no row
 * has any more are removed. */
td_status td_mel_cache_open(const td_mel_cache_settings *settings, const td_dataset *dataset,
                            td_mel_cache **out);
void td_mel_cache_close(td_mel_cache *cache);

/* On a hit true with the row's frames [n_frames, n_mels], energies and pitches [n_frames] written (where
 * they are kept; else NULL will do), *n_frames of at most `max_frames`. An entry that is longer is a miss. */
bool td_mel_cache_read(td_mel_cache *cache, uint32_t row, uint32_t max_frames, float *mel, float *energy,
                       float *pitch, uint32_t *n_frames);

/* Puts the row in unless it is there or the bound is reached. Cannot fail: without memory or disk it is not
 * kept. */
void td_mel_cache_write(td_mel_cache *cache, uint32_t row, uint32_t n_frames, const float *mel,
                        const float *energy, const float *pitch);

td_mel_cache_stats td_mel_cache_count(td_mel_cache *cache);

/* "ram". */
const char *td_mel_cache_kind_name(td_mel_cache_kind kind);

#endif
