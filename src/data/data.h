/* What all batches of a run are made from and with: the settings, threads, the dataset and the mel front end;
 * and samplers, loaders and caches of it. What training, `bench load` and `analyze` share. Covered by
 * tests/cli/test_load.py and tests/train.
 */
#ifndef TD_DATA_DATA_H
#define TD_DATA_DATA_H

#include "data/loader.h"

#define TD_DATA_FRONT_ENDS 4

/* Texts are borrowed until the data is closed. */
typedef struct td_data_settings {
    td_dataset_settings dataset;
    size_t workers; /* threads that load; 0: one per core */
    uint32_t batch_size;
    uint32_t max_mel_frames, max_text_length; /* longer rows are left out */
    uint32_t n_buckets;                       /* 0: 8; 1: one static shape */
    uint32_t frames_per_step;                 /* as td_sampler_settings */
    uint32_t crop_frames; /* 0: whole recordings, else crops (loader.h), as many of each as it is long */
    td_mel_cache_kind mel_cache;
    uint64_t mel_cache_bytes;                                /* 0: by what is free */
    char features[TD_BATCH_FEATURES][TD_FEATURE_NAME_BYTES]; /* what is wanted of a batch (loader.h) */
    size_t n_features;
    char inner_features[TD_BATCH_FEATURES][TD_FEATURE_NAME_BYTES]; /* what parts alone take */
    size_t n_inner_features;
    struct {
        const char *name;
        td_mel_config config;
    } front_ends[TD_DATA_FRONT_ENDS]; /* besides that of "mel" */
    size_t n_front_ends;
    td_mel_config mel;  /* the front end of "mel"; rate 0: the usual one */
    double reference_s; /* length of references at most */
    td_slice slice;     /* as td_loader_settings; fixed where rows are gone through in order */
    uint32_t n_ready;   /* batches on the device at a time; 0: 3 */
} td_data_settings;

/* Adds a feature to those wanted, or to those that parts alone take, unless it is among them; whether it is wanted
 * by anybody. TD_ERR_LIMIT for too many or too long a name. */
td_status td_data_want(td_data_settings *settings, const char *name);
td_status td_data_want_inner(td_data_settings *settings, const char *name);
bool td_data_wants(const td_data_settings *settings, const char *name);

/* Open; fields are borrowed until close. The settings may be changed between loaders, not the dataset's. */
typedef struct td_data {
    td_data_settings settings;
    size_t workers; /* as it came out */
    td_memory *memory;
    td_pool *pool;
    td_dataset *dataset;
    td_mel *mel;
    td_front_end front_ends[TD_DATA_FRONT_ENDS]; /* mel: owned */
    const td_frozen_part *parts; /* none; who has some sets them after opening, borrowed until close */
    size_t n_parts;
    const td_predictions *predictions; /* the same */
    char device_key[256];              /* selector and driver */
} td_data;

/* `memory` is that of the data role, borrowed until close. *data: td_data_close(), also after a failure. */
td_status td_data_open(td_memory *memory, const td_data_settings *settings, td_data *data);
void td_data_close(td_data *data);

/* Whether there is a feature of this name. */
bool td_data_knows(const td_data *data, const char *name);

/* The mel cache that the settings ask for. *out: owned, td_mel_cache_close(). */
td_status td_data_open_cache(const td_data *data, td_mel_cache **out);

/* Which rows are gone through, and how. */
typedef struct td_data_rows {
    const uint32_t *rows; /* of the dataset, ascending; borrowed until sampler and loader are destroyed */
    size_t n_rows;
    td_sampler_last last;
    bool in_order;
    td_pool *pool;          /* NULL: the data's */
    td_mel_cache *cache;    /* NULL: none */
    td_sampler_state state; /* where to begin */
    uint64_t n_batches;     /* 0: without end */
} td_data_rows;

/* *out: owned, td_sampler_destroy() after the loader. */
td_status td_data_open_sampler(const td_data *data, const td_data_rows *rows, td_sampler **out);

/* Starts loading. The sampler is the loader's until td_loader_destroy(). */
td_status td_data_open_loader(const td_data *data, const td_data_rows *rows, td_sampler *sampler,
                              td_loader **out);

#endif
