/* What the files of the loader share: loader.c has the threads and the queue, loader_item.c fills host
 * batches, loader_device.c takes them to the device.
 */
#ifndef TD_DATA_LOADER_INTERNAL_H
#define TD_DATA_LOADER_INTERNAL_H

#include <pthread.h>

#include "data/loader.h"
#include "data/reference.h"

enum {
    TD_LOADER_AHEAD = 2,     /* batches that are decoded before the oldest of them is whole */
    TD_LOADER_IN_FLIGHT = 2, /* batches the device works on */
    /* A batch's first items are begun before the oldest of AHEAD is handed over: one more. */
    TD_LOADER_HOST_SLOTS = TD_LOADER_AHEAD + TD_LOADER_IN_FLIGHT + 1,
};

/* A row that could not be used. */
typedef struct td_load_failure {
    struct td_load_failure *next;
    uint32_t row;
    char message[sizeof((td_error *)0)->message];
} td_load_failure;

typedef struct td_load_item {
    uint32_t row; /* that was used in the end */
    uint32_t n_frames;
    bool is_hit; /* its mel came from the cache */
    double audio_s;
    uint64_t start_ns, end_ns; /* of its loading */
    td_load_failure *failures; /* owned; in the order they came */
} td_load_item;

/* Words from the start of a head, the small numbers of a batch. Each part begins where a kernel may bind it.
 */
typedef struct td_load_layout {
    size_t token_counts, frame_counts, speakers, languages, ranges, reference_ranges, reference_counts;
    size_t token_ids;
    size_t words;
} td_load_layout;

/* A batch in pinned host memory. */
typedef struct td_host_slot {
    td_batch_plan plan; /* its rows are `rows` */
    uint32_t *rows;     /* owned [batch_size] */
    td_load_item *items;
    td_span head_span, pcm_span, mel_span;
    uint32_t *head;
    float *pcm;    /* samples: item i's from i * stride on, then its reference's from count * stride +
                    * i * reference_stride on */
    size_t stride; /* room of an item: a hop more than the batch's length */
    float *mel;    /* [B, T, n_mels], then energy and pitch [B, T]: from and for the cache; or NULL */
    uint64_t number;
    td_list *list; /* NULL: not with the device */
    td_point done;
} td_host_slot;

/* A batch in device memory. */
typedef struct td_device_slot {
    td_span head, mel, energy, pitch, reference_mel;
    uint32_t *rows; /* owned [batch_size] */
    td_batch batch;
    bool is_taken; /* guarded by the loader's lock; from being filled to being released */
    td_point used; /* the last user's */
} td_device_slot;

struct td_loader {
    td_loader_settings settings;
    td_mel_config config;
    td_references *references; /* NULL: none */
    td_sampler_row *lengths;   /* by frames, tokens, row: replacements are neighbours */
    uint32_t *length_at;       /* of a row of the dataset */
    bool *is_bad;              /* of a row of the dataset; the loader's thread alone */
    uint32_t most_frames, most_tokens, reference_frames;
    size_t reference_samples, reference_stride;
    td_load_layout layout;
    td_host_slot host[TD_LOADER_HOST_SLOTS];
    td_device_slot *device; /* n_ready */
    td_span pcm;            /* on the device; the queue runs in order, so one will do; a zero span for a
                             * CPU driver, whose kernels read the host's */
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* guards what follows, and the sampler */
    pthread_cond_t changed;
    bool stop, is_over;
    uint64_t n_planned, n_published, n_taken;
    td_error error; /* of the stream, once it is over */
    td_loader_stats stats;
};

/* Room for so many samples, rounded up so that each item begins at a boundary. */
static inline size_t td_loader_stride(size_t samples)
{
    return (samples + 15) / 16 * 16;
}

/* Loads item `index` of the slot's plan, or a replacement. Any thread. */
td_status td_loader_load_item(td_loader *loader, td_host_slot *slot, uint32_t index);

/* Puts the settings' rows in order of length. */
td_status td_loader_sort_rows(td_loader *loader);

/* Memory of both sides. */
td_status td_loader_make_slots(td_loader *loader);
void td_loader_free_slots(td_loader *loader);

/* Records and submits the slot's way to `device`; fills in device->batch. */
td_status td_loader_send(td_loader *loader, td_host_slot *slot, td_device_slot *device);

/* Waits until the device is done with the slot, and puts what it made in the cache. Nothing for a slot that
 * is not with the device. */
td_status td_loader_retire(td_loader *loader, td_host_slot *slot);

#endif
