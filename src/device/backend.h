/* The contract between the device layer and a backend (opencl/, vulkan/, sim/).
 *
 * The generic layer (registry, memory, queue, list, channel) checks arguments, numbers submissions, finds
 * hazards, splits long lists, waits for other devices' points and keeps accounts; a backend turns finished
 * command arrays into native objects and runs them. Backends never include each other, never block the
 * caller except where said, and never print. Covered by tests/device on every device present.
 *
 * A backend embeds the generic structs as FIRST member of its own (struct vk_device { td_device base; ... })
 * and allocates them itself (zeroed); fields marked [backend] it fills, [generic] it only reads.
 */
#ifndef TD_DEVICE_BACKEND_H
#define TD_DEVICE_BACKEND_H

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/blob_cache.h"
#include "base/error.h"
#include "kernels/grid.h"
#include "kernels/kernel.h"
#include "tandem/channel.h"
#include "tandem/device.h"
#include "tandem/memory.h"
#include "tandem/queue.h"

#define TD_TIMES_KEPT 256 /* submissions whose times a queue remembers */
#define TD_MAX_NATIVE_WAITS 16

/* ---------------------------------------------------------------- commands */

typedef enum td_command_kind {
    TD_COMMAND_DISPATCH,
    TD_COMMAND_COPY,
    TD_COMMAND_FILL,
    TD_COMMAND_NATIVE
} td_command_kind;

/* One recorded command. Copy: spans[0] destination, spans[1] source. Fill: spans[0], word. Native: a call
 * that only the backend of its device understands, with spans and params as a dispatch has them. */
typedef struct td_command {
    td_command_kind kind;
    bool barrier_before; /* its ranges conflict with commands since the last barrier */
    bool starts_segment; /* begin a new driver submission here (time budget) */
    uint32_t word;
    uint32_t n_spans;
    uint32_t params_bytes;
    td_grid grid; /* work-groups */
    const td_kernel *kernel;
    const void *native; /* the backend's own description of a native call; borrowed forever */
    double cost_ns;     /* estimate */
    td_span spans[TD_KERNEL_MAX_BUFFERS];
    uint8_t access[TD_KERNEL_MAX_BUFFERS];
    uint8_t params[TD_KERNEL_MAX_PARAMS];
} td_command;

struct td_list {
    td_device *device;
    td_queue_kind kind;
    td_command *commands; /* [generic] owned */
    size_t n_commands;
    size_t capacity;
    size_t n_barriers;
    size_t n_segments;
    double time_scale; /* measured time over estimated time */
    bool finished;
    td_point last_use; /* [generic] */
    void *native;      /* [backend] what list_compile made; freed by list_discard */
};

/* ---------------------------------------------------------------- buffers, queues, devices */

struct td_buffer {
    td_device *device;
    td_memory_kind kind;
    bool imported;
    uint64_t bytes;
    void *host; /* [backend] mapped address of HOST and imported buffers, else NULL */
};

/* A submission as the backend sees it: `waits` are only points that can_wait allowed and that the
 * signalling queue's backend has already been handed. */
typedef struct td_native_submission {
    td_list *list; /* finished; NULL for a join */
    const td_point *waits;
    size_t n_waits;
    uint64_t value; /* the point's value: 1, 2, 3 ... without gaps on each queue */
} td_native_submission;

typedef struct td_deferred td_deferred; /* queue.c */

struct td_queue {
    td_device *device;  /* [backend] */
    td_queue_kind kind; /* [backend] */
    /* the rest is [generic], see queue.c */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool ready;                   /* mutex and condition are initialised */
    atomic_uint_fast64_t issued;  /* last value handed out */
    atomic_uint_fast64_t entered; /* last value handed to the backend */
    td_error failure;             /* status != TD_OK: the queue has failed for good */
    td_deferred *head, *tail;
    bool stop;
    bool has_thread;
    pthread_t thread;
    uint64_t submitted_ns[TD_TIMES_KEPT];
};

/* Device clock to host clock: host_ns = host_ref_ns + (device_ns - device_ref_ns) * scale. */
typedef struct td_clock_map {
    uint64_t device_ref_ns;
    uint64_t host_ref_ns;
    double scale;
} td_clock_map;

typedef struct td_device_ops td_device_ops;

struct td_device {
    const td_device_ops *ops;              /* [backend] */
    td_device_info info;                   /* [backend] copied from the registry's */
    td_kernel_class kernel_class;          /* [backend] */
    td_queue *queues[TD_QUEUE_KIND_COUNT]; /* [backend] owned; COPY may equal COMPUTE */
    const void *share_group; /* [backend] equal and not NULL: buffers and events can be shared */
    td_blob_cache *cache;    /* [generic] borrowed from the registry; never NULL */
    atomic_bool lost;
    atomic_flag losing;   /* [generic] set by the first who marks the device lost */
    char lost_in[48];     /* [generic] the call that showed it; whole once `lost` is set */
    char lost_native[64]; /* [generic] and its code */
    _Atomic(struct td_attachment *) attachment; /* [generic] owned; see dispatch.h */
    atomic_uint_fast64_t kernel_builds;         /* [backend] counts builds from source */
    td_clock_map clock_map;                     /* [generic] */
    pthread_mutex_t clock_mutex;
    uint64_t clock_made_ns;
};

struct td_device_ops {
    /* Frees the device and its queues. The generic layer has finished the queues (or they have failed);
     * must not hang on a lost device. */
    void (*close)(td_device *device);

    /* DEVICE or HOST memory of exactly `bytes`. The memory must be real when this returns TD_OK (touch it
     * where the driver allocates lazily). TD_ERR_DEVICE_MEMORY when refused. */
    td_status (*buffer_create)(td_device *device, td_memory_kind kind, uint64_t bytes, td_buffer **out);
    /* Host memory used in place; only called where caps.host_import; alignment already checked. */
    td_status (*buffer_import)(td_device *device, void *host, uint64_t bytes, td_buffer **out);
    void (*buffer_destroy)(td_buffer *buffer);

    /* Turns list->commands into list->native. Builds or loads the kernels it needs. May take long. */
    td_status (*list_compile)(td_list *list);
    void (*list_discard)(td_list *list); /* native may be NULL or half made */

    /* Hands work to the driver behind everything earlier on this queue, and makes sure the driver starts it
     * (flush). Called with the queue's mutex held, so in order of value; must not wait for the device. On
     * failure nothing of it runs, or the device is marked lost. */
    td_status (*submit)(td_queue *queue, const td_native_submission *submission);

    /* Blocks without burning a core until `value` (already submitted) is reached; TD_ERR_TIMEOUT, or
     * TD_ERR_DEVICE_LOST / TD_ERR_DRIVER when the work failed. Any thread; mutex not held. timeout_ns 0
     * polls: TD_ERR_TIMEOUT without an error record being needed. */
    td_status (*wait)(td_queue *queue, uint64_t value, uint64_t timeout_ns);

    /* True if `waiter` can wait for points of `signaller` inside the driver. */
    bool (*can_wait)(const td_queue *waiter, const td_queue *signaller);

    /* Start and end of a reached submission in the device's clock; TD_ERR_NOT_FOUND when forgotten. */
    td_status (*times)(td_queue *queue, uint64_t value, uint64_t *start_ns, uint64_t *end_ns);
    /* A fresh relation of the device's clock to td_clock_ns(). May submit a tiny marker and wait. */
    td_status (*calibrate)(td_device *device, td_clock_map *out);
};

/* ---------------------------------------------------------------- backends */

typedef struct td_info_list {
    td_device_info *items; /* owned by the registry */
    size_t count, capacity;
} td_info_list;

/* Appends a zeroed info and returns it in *out (valid until the next append). */
td_status td_info_list_add(td_info_list *list, td_device_info **out);

/* Test hooks: called once with the function table after it is loaded, to wrap its entries. */
struct td_registry_hooks {
    void (*wrap_opencl)(void *cl_api);
    void (*wrap_vulkan)(void *vk_api);
};

typedef struct td_backend {
    td_api api;
    const char *name;

    /* Opens the loader library and lists the devices: appends an info per device, also for unusable ones
     * (usable=false, reason). Fills report->loaded/library/message. A missing library, no driver or zero
     * devices is NOT a failure: it returns TD_OK and says in report->message what to install. Fails only
     * for TD_ERR_HOST_MEMORY or TD_ERR_CONFIG. Fills of each info: api, type, platform, ordinal, ids,
     * uuid, pci, names, versions, caps, usable/reason; the registry does index, phys_group, selector.
     * *state is owned by the backend, given back to every call, freed by unload (NULL is fine). */
    td_status (*probe)(const td_registry_options *options, td_info_list *infos, td_api_report *report,
                       void **state);
    void (*unload)(void *state);

    /* Opens `count` devices of ONE platform of this API. On failure nothing stays open. */
    td_status (*open)(void *state, const td_device_info *const *infos, size_t count, td_blob_cache *cache,
                      td_device **out);

    /* Messages of a validation layer; NULL: none. */
    uint64_t (*validation_messages)(void *state);
} td_backend;

extern const td_backend td_backend_opencl;
extern const td_backend td_backend_vulkan;
extern const td_backend td_backend_sim;

/* A driver's code: what it means here, and its name. A table ends with TD_CODE_END, whose status and name
 * are those of codes that it does not list. */
typedef struct td_native_code {
    int code;
    td_status status;
    const char *name;
} td_native_code;

#define TD_CODE_END INT_MIN

const td_native_code *td_native_code_find(const td_native_code *table, int code);

/* Marks the device lost and returns TD_ERR_DEVICE_LOST with a message naming the device and call. The first
 * call to show it counts: whoever meets the lost device later gets the same message. */
td_status td_device_mark_lost(td_device *device, const char *native, const char *call);

/* For a device that is marked lost: the failure again. */
td_status td_device_tell_lost(const td_device *device);

#endif
