/* What the files of the loader share: loader.c has the threads and the queue, loader_features.c the table of
 * features, loader_item.c fills host batches, loader_device.c takes them to the device, loader_parts.c runs
 * frozen parts there, loader_kept.c keeps what they make.
 */
#ifndef TD_DATA_LOADER_INTERNAL_H
#define TD_DATA_LOADER_INTERNAL_H

#include <pthread.h>

#include "data/loader.h"

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

enum { TD_LOADER_KEPT = 2 }; /* parts at most that are kept */

/* What a part makes of an item, found on the disk or to be put there. */
typedef struct td_kept_item {
    td_digest key;
    uint32_t *values; /* owned; NULL: it was not found */
    size_t count;
} td_kept_item;

typedef struct td_load_item {
    uint32_t row; /* that was used in the end */
    uint32_t n_frames, n_reference_frames;
    uint32_t first_frame; /* of a crop, with predictions */
    uint32_t slice[2];    /* where the slice that is its reference begins and ends */
    bool is_hit;          /* its mel came from the cache */
    td_kept_item kept[TD_LOADER_KEPT];
    double audio_s;
    uint64_t start_ns, end_ns; /* of its loading */
    td_load_failure *failures; /* owned; in the order they came */
} td_load_item;

typedef struct td_host_slot td_host_slot;

typedef enum td_axis {
    TD_AXIS_END,
    TD_AXIS_ITEMS,
    TD_AXIS_TOKENS,
    TD_AXIS_FRAMES,
    TD_AXIS_REFERENCE,
    TD_AXIS_BANDS,
    TD_AXIS_SAMPLES,
    TD_AXIS_RANGE,
    TD_AXIS_LATENT, /* of a frame that a voice predicts */
    TD_AXIS_VECTOR
} td_axis;

typedef enum td_maker {
    TD_MAKER_HOST,      /* `write`; without it, frames of a further front end are counted */
    TD_MAKER_FRONT_END, /* the front end, from an item's samples or from the cache */
    TD_MAKER_REFERENCE, /* the front end, from the reference's samples */
    TD_MAKER_FURTHER,   /* a further front end, from an item's samples */
    TD_MAKER_PART,      /* a frozen part, from other features */
} td_maker;

/* A row of the table of features. */
typedef struct td_feature_row {
    char name[TD_FEATURE_NAME_BYTES];
    td_dtype dtype;
    td_axis axes[3];
    td_maker maker;
    void (*write)(const td_loader *loader, const td_host_slot *slot, uint32_t item, uint32_t *to);
    const td_mel_config *config; /* of a further front end; NULL: the loader's */
    const td_frozen_part *part;
} td_feature_row;

enum { TD_LOADER_MAX_ROWS = 32 };

/* A feature that is wanted. */
typedef struct td_loader_feature {
    const td_feature_row *row;
    bool is_inner; /* for parts alone */
    size_t kept;   /* of a part that is kept: its number, from 1 on; 0: it is not */
    size_t at;     /* host-made: words from the start of the head */
} td_loader_feature;

/* A frozen part ready for batches of one shape. */
typedef struct td_part_plan {
    struct td_part_plan *next;
    const td_frozen_part *part;
    td_batch_shape shape;
    td_graph *graph; /* owned */
    td_tensor output;
    td_plan *plan;  /* owned; a slot for each device slot */
    bool *is_bound; /* owned; of each slot */
} td_part_plan;

/* A batch in pinned host memory. */
struct td_host_slot {
    td_batch_rows drawn; /* by the sampler; its rows are `rows` */
    uint32_t *rows;      /* owned [batch_size] */
    td_batch_shape shape;
    td_load_item *items;
    td_span head_span, pcm_span, mel_span;
    uint32_t *head;
    float *pcm;    /* samples: item i's from i * stride on, then its reference's from count * stride +
                    * i * reference_stride on */
    size_t stride; /* room of an item: a hop more than the batch's length */
    td_span kept_spans[TD_LOADER_KEPT];
    bool is_kept[TD_LOADER_KEPT]; /* all items have it from the disk: the part need not run */
    float *mel; /* what the front end makes, feature after feature: from and for the cache; or NULL */
    uint64_t number;
    td_list *list;                      /* NULL: not with the device */
    td_list *copies[TD_BATCH_FEATURES]; /* of what parts made; owned */
    td_point done;
};

/* A batch in device memory. */
typedef struct td_device_slot {
    td_span head; /* host-made features, each where a kernel may bind it, and where samples lie */
    td_span made[TD_BATCH_FEATURES]; /* features that the device makes */
    uint32_t *rows;                  /* owned [batch_size] */
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
    td_batch_shape largest;
    size_t reference_samples, reference_stride;
    td_feature_row rows[TD_LOADER_MAX_ROWS]; /* features that could be made */
    size_t n_rows;
    td_loader_feature features[TD_BATCH_FEATURES];
    size_t n_features;
    size_t ranges, reference_ranges; /* words from the start of the head: first sample and number of each */
    size_t head_words;
    uint64_t batch_bytes;     /* of the largest */
    td_part_plan *part_plans; /* owned; the loader's thread alone, once it runs */
    td_host_slot host[TD_LOADER_HOST_SLOTS];
    td_device_slot *device; /* n_ready */
    td_span pcm;            /* on the device; the queue runs in order, so one will do; a zero span for a
                             * CPU driver, whose kernels read the host's */
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* guards what follows, and the sampler */
    pthread_cond_t changed;
    bool stop, is_over;
    uint64_t n_drawn, n_published, n_taken;
    td_error error; /* of the thread, once it is over */
    td_loader_stats stats;
};

/* Room for so many samples, rounded up so that each item begins at a boundary. */
static inline size_t td_loader_stride(size_t samples)
{
    return (samples + 15) / 16 * 16;
}

/* Finds the wanted features in the table. TD_ERR_ARGUMENT for a name that is not there. */
td_status td_loader_choose_features(td_loader *loader);
bool td_loader_wants(const td_loader *loader, const char *name);

/* Gives host-made features their places in the head. */
void td_loader_lay_out(td_loader *loader);

/* Words of a feature in a batch of this shape. */
uint64_t td_loader_count_words(const td_loader *loader, const td_feature_row *row,
                               const td_batch_shape *shape);

/* Fills in the batch's features as they lie in `device`; their sizes alone if it is NULL. */
void td_loader_describe(const td_loader *loader, const td_device_slot *device, td_batch *batch);

/* Writes an item's words of all host-made features. */
void td_loader_write_item(const td_loader *loader, td_host_slot *slot, uint32_t item);

/* Where an item's part of a feature lies in the slot's copy for the cache; NULL for one that is not wanted.
 */
float *td_loader_cached(const td_loader *loader, const td_host_slot *slot, const char *name, uint32_t item);

/* Makes the wanted parts ready for batches of this shape, the largest one first. */
td_status td_loader_plan_parts(td_loader *loader, const td_batch_shape *shape);
const td_part_plan *td_loader_find_part(const td_loader *loader, const td_frozen_part *part,
                                        const td_batch_shape *shape);
void td_loader_free_parts(td_loader *loader);

/* Submits the parts of a batch whose other features are there when slot->done is reached; moves that on. */
td_status td_loader_run_parts(td_loader *loader, td_host_slot *slot, td_device_slot *device);

/* Work that was submitted for a batch; what does not fit is not measured. */
static inline void td_loader_note(td_device_slot *device, td_point point)
{
    td_batch *batch = &device->batch;
    if (batch->n_made < TD_BATCH_POINTS) batch->made[batch->n_made++] = point;
}

/* Looks for what parts made of an item's samples before. Any thread. */
void td_loader_find_kept(td_loader *loader, td_host_slot *slot, uint32_t index);

/* Memory for it, in a host slot. */
td_status td_loader_make_kept(td_loader *loader, td_host_slot *slot);

/* Puts what was found of all items on the way to the device. */
td_status td_loader_record_kept(td_loader *loader, td_host_slot *slot, const td_batch *batch);

/* Whether the part of a feature, or a front end that parts alone take, has nothing to do in this batch. */
bool td_loader_skips_part(const td_host_slot *slot, const td_loader_feature *feature);
bool td_loader_skips_front_end(const td_loader *loader, const td_host_slot *slot, const char *name);

/* Puts what parts made on the disk, where it was not there; frees what was found. The device is done. */
void td_loader_store_kept(td_loader *loader, td_host_slot *slot);
void td_loader_free_kept(td_load_item *item);

/* Loads item `index` of what was drawn, or a replacement. Any thread. */
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
