/* The OpenCL backend's own objects and the calls between its files.
 *
 *   cl_probe.c    platforms and devices found      cl_info.c     what a device can do
 *   cl_device.c   open, close                      cl_share.c    the context of several devices
 *   cl_memory.c   buffers
 *   cl_program.c  kernels built, loaded, stored    cl_list.c     recorded commands made native
 *   cl_submit.c   replay                           cl_queue.c    waiting, times
 *   cl_clock.c    device clock to host clock       cl_signal.c   wake-ups from driver callbacks
 *   cl_clblast.c  the CLBlast library                   cl_helper.c   processes that compile beside this one
 *
 * Ordering comes from in-order queues; a timeline point is the event of a submission's last command.
 */
#ifndef TD_OPENCL_OPENCL_H
#define TD_OPENCL_OPENCL_H

#include "device/backend.h"
#include "device/opencl/cl_api.h"
#include "device/opencl/cl_helper.h"
#include "device/opencl/cl_signal.h"

#define TD_CL_WARM_BYTES 65536u /* of memory in td_cl_program_warm() */

/* What probe found; lives as long as the registry. */
typedef struct td_cl_platform {
    cl_platform_id id;
    cl_device_id *devices; /* owned */
    cl_uint n_devices;
} td_cl_platform;

typedef struct td_cl_state {
    td_cl_api api;
    bool timestamps;
    bool store_binaries;
    td_cl_helpers *helpers;    /* owned; NULL: none */
    td_cl_platform *platforms; /* owned */
    cl_uint n_platforms;
} td_cl_state;

typedef struct td_cl_device td_cl_device;
typedef struct td_cl_clblast td_cl_clblast;

/* The context of devices opened together; freed with the last of them. */
typedef struct td_cl_share {
    const td_cl_api *api;
    cl_context context;
    atomic_uint references;
    pthread_mutex_t mutex; /* guards what follows */
    td_cl_device *devices; /* those open, borrowed */
    cl_event *events;      /* owned: room for one per queue, see td_cl_share_retire_mapping() */
} td_cl_share;

/* A kernel built for one device; lives as long as the device. */
typedef struct td_cl_program {
    struct td_cl_program *next;
    const td_kernel *kernel;
    cl_program program;
    td_digest key;
    bool is_stored; /* its binary is in the cache */
} td_cl_program;

/* A submission on its way: its events, kept until it is seen finished. */
typedef struct td_cl_flight {
    cl_event first; /* NULL without timestamps, or when the last command is the first */
    cl_event last;
    bool watched; /* the queue's signal fires when `last` completes */
} td_cl_flight;

typedef struct td_cl_times {
    uint64_t value; /* of the submission these times belong to; 0: none */
    uint64_t start_ns, end_ns;
    cl_int error; /* the driver's answer when it was asked for them */
} td_cl_times;

typedef struct td_cl_queue {
    td_queue base;
    cl_command_queue queue;
    td_cl_signal *signal;
    pthread_mutex_t mutex; /* guards what follows; callbacks never take it */
    uint64_t entered;      /* last value submitted */
    uint64_t reached;      /* last value seen finished */
    cl_int failure;        /* of value reached + 1; CL_SUCCESS: none */
    bool torn;             /* part of a failed submission may be running, unnumbered */
    td_cl_flight *flights; /* owned; value v at v % capacity, for reached < v <= entered */
    size_t capacity;
    td_cl_times times[TD_TIMES_KEPT]; /* value v at v % TD_TIMES_KEPT */
} td_cl_queue;

struct td_cl_device {
    td_device base;
    const td_cl_api *api; /* borrowed from the state */
    td_cl_share *share;
    td_cl_helpers *helpers; /* borrowed from the state; NULL: it compiles alone */
    td_cl_device *next;     /* in the share's list */
    cl_device_id id;
    cl_command_queue service; /* maps, first touches, clock markers: never behind the user's work */
    bool has_host_timer;
    char options[64];   /* for the kernel compiler */
    bool needs_header;  /* PoCL cannot do without its own header of built-in functions */
    td_digest identity; /* of device, driver and options, for the cache */
    uint64_t opened_ns;
    bool stores_always;    /* however short it was open */
    pthread_mutex_t mutex; /* guards programs, needs_header and clblast */
    td_cl_program *programs;
    td_cl_clblast *clblast; /* owned; NULL until asked for */
    td_cl_queue queues[TD_QUEUE_KIND_COUNT];
};

typedef struct td_cl_buffer {
    td_buffer base;
    cl_mem mem;
    td_cl_signal *let_go; /* imported: fires when the driver is done with the caller's block */
    bool mapped;          /* base.host is a mapping, so commands must not use mem */
} td_cl_buffer;

/* `native` of a TD_COMMAND_NATIVE: a library that puts its own commands into a queue. `mems` are the
 * command's spans. Returns without waiting for them; CL_SUCCESS or an error code, and then nothing was
 * queued. */
typedef struct td_cl_native {
    const char *name;
    cl_int (*enqueue)(const td_cl_device *device, cl_command_queue queue, const cl_mem *mems,
                      const void *params);
} td_cl_native;

/* Such a call in a compiled list. */
typedef struct td_cl_call {
    const td_cl_native *native;
    const void *params; /* borrowed from the list's command */
    cl_mem mems[TD_KERNEL_MAX_BUFFERS];
} td_cl_call;

/* One driver call of a list. */
typedef enum td_cl_step_kind {
    TD_CL_KERNEL,
    TD_CL_COPY,
    TD_CL_READ,  /* source -> host */
    TD_CL_WRITE, /* host -> destination */
    TD_CL_FILL,
    TD_CL_NATIVE,
} td_cl_step_kind;

typedef struct td_cl_step {
    td_cl_step_kind kind;
    bool starts_segment;
    cl_uint word;
    cl_kernel kernel; /* owned */
    td_cl_call *call; /* owned */
    size_t global[3], local[3];
    cl_mem source, destination; /* borrowed from buffers or the list */
    size_t source_offset, destination_offset, bytes;
    void *host;
} td_cl_step;

/* A range of a buffer as kernels get it. */
typedef struct td_cl_view {
    td_span span; /* key; buffer NULL: free slot */
    cl_mem mem;
    bool owned; /* a sub-buffer, not the buffer itself */
} td_cl_view;

typedef struct td_cl_list {
    td_cl_step *steps;
    size_t n_steps;
    td_cl_view *views; /* hash table */
    size_t n_views;    /* slots, a power of two */
    cl_mem bounce;     /* between two mapped blocks, which no command may touch */
} td_cl_list;

/* ---------------------------------------------------------------- failure */

/* Records a failed driver call with its own name, the device and the next step; marks the device lost where
 * the code says so. Returns the status. */
td_status td_cl_fail_at(td_cl_device *device, cl_int code, const char *call, const char *file, int line);
#define TD_CL_FAIL(device, code, call) td_cl_fail_at((device), (code), (call), __FILE__, __LINE__)

/* For functions with `status` and a `fail:` label, as TD_TRY: calls a function of the table. */
#define TD_CL_TRY(device, call, ...)                                                                         \
    do {                                                                                                     \
        const cl_int code_ = (device)->api->call(__VA_ARGS__);                                               \
        if (code_ != CL_SUCCESS) {                                                                           \
            status = TD_CL_FAIL(device, code_, #call);                                                       \
            goto fail;                                                                                       \
        }                                                                                                    \
    } while (0)

/* The same for functions that make something; *out is NULL on failure. */
#define TD_CL_MAKE(out, device, call, ...)                                                                   \
    do {                                                                                                     \
        cl_int code_ = CL_SUCCESS;                                                                           \
        *(out) = (device)->api->call(__VA_ARGS__, &code_);                                                   \
        if (code_ != CL_SUCCESS) {                                                                           \
            *(out) = NULL;                                                                                   \
            status = TD_CL_FAIL(device, code_, #call);                                                       \
            goto fail;                                                                                       \
        }                                                                                                    \
    } while (0)

/* ---------------------------------------------------------------- between the files */

static inline td_cl_device *td_cl_device_of(td_device *device)
{
    return (td_cl_device *)device;
}

static inline td_cl_queue *td_cl_queue_of(td_queue *queue)
{
    return (td_cl_queue *)queue;
}

/* cl_info.c: fills everything of a zeroed info but api, platform and ordinal. A query that fails makes the
 * device unusable and is named in info->reason. TD_ERR_HOST_MEMORY only. */
td_status td_cl_info_read(const td_cl_state *state, cl_platform_id platform, cl_device_id device,
                          td_device_info *info);
/* A text of a platform or a device, trimmed and cut to fit; CL_SUCCESS or the driver's code. */
cl_int td_cl_text_platform(const td_cl_api *api, cl_platform_id platform, cl_platform_info what, char *out,
                           size_t room);
cl_int td_cl_text_device(const td_cl_api *api, cl_device_id device, cl_device_info what, char *out,
                         size_t room);

/* cl_share.c */
td_status td_cl_share_create(td_cl_device *first, cl_platform_id platform, const cl_device_id *ids,
                             cl_uint count, td_cl_share **out);
void td_cl_share_release(td_cl_share *share); /* NULL is fine */
/* Gives the device a reference and makes its queues known; leave only undoes the latter. */
void td_cl_share_join(td_cl_share *share, td_cl_device *device);
void td_cl_share_leave(td_cl_device *device); /* fine if never joined */
/* Takes back a mapping and the buffer once everything queued so far on any device of the share is done, since
 * commands that were given the mapped address are unknown to the buffer. Does not wait. */
void td_cl_share_retire_mapping(td_cl_device *device, cl_mem mem, void *mapped);

/* cl_probe.c */
td_status td_cl_probe(const td_registry_options *options, td_info_list *infos, td_api_report *report,
                      void **state);
void td_cl_unload(void *state);

/* cl_memory.c */
td_status td_cl_buffer_create(td_device *device, td_memory_kind kind, uint64_t bytes, td_buffer **out);
td_status td_cl_buffer_import(td_device *device, void *host, uint64_t bytes, td_buffer **out);
void td_cl_buffer_destroy(td_buffer *buffer);
/* The buffer as an argument of commands on `device`, or NULL if these must go through its host address. */
cl_mem td_cl_buffer_mem(const td_cl_device *device, const td_buffer *buffer);

/* cl_program.c */
td_status td_cl_program_get(td_cl_device *device, const td_kernel *kernel, td_cl_program **out);
/* False if it has to be compiled before it can run. */
bool td_cl_program_is_known(td_cl_device *device, const td_kernel *kernel);
/* Has PoCL compile a program of class CPU for the group that lists launch it in: by a launch of one group with all
 * parameters 1 and little memory, in which no kernel does harm (tests/device/test_small_launch.c). Waits. */
td_status td_cl_program_warm(td_cl_device *device, td_cl_program *program);
bool td_cl_is_pocl(const td_device_info *info);
/* Puts programs that came from source into the cache, if there is one. No work may be running. */
void td_cl_programs_release(td_cl_device *device);

/* cl_list.c */
td_status td_cl_list_compile(td_list *list);
void td_cl_list_discard(td_list *list);

/* cl_submit.c */
td_status td_cl_submit(td_queue *queue, const td_native_submission *submission);

/* cl_queue.c */
td_status td_cl_queue_open(td_cl_device *device, td_queue_kind kind);
void td_cl_queue_close(td_cl_queue *queue); /* of a zeroed queue too */
td_status td_cl_wait(td_queue *queue, uint64_t value, uint64_t timeout_ns);
bool td_cl_can_wait(const td_queue *waiter, const td_queue *signaller);
td_status td_cl_times_get(td_queue *queue, uint64_t value, uint64_t *start_ns, uint64_t *end_ns);
/* Room for one more flight, so that a submission cannot fail after its commands were queued. */
td_status td_cl_flight_reserve(td_cl_queue *queue);
void td_cl_flight_add(td_cl_queue *queue, uint64_t value, cl_event first, cl_event last);
/* A submission failed after the driver had taken some of it. */
void td_cl_queue_tear(td_cl_queue *queue);
/* True if the driver has nothing of this queue left to run, as far as was looked. */
bool td_cl_queue_is_idle(td_cl_queue *queue);
/* *event: the point's event with a reference of its own, or NULL when it has been reached. */
td_status td_cl_flight_event(td_cl_queue *queue, uint64_t value, cl_event *event);

/* cl_clblast.c */
void td_cl_clblast_close(td_cl_device *device); /* fine if it was never asked for */

/* cl_clock.c */
td_status td_cl_calibrate(td_device *device, td_clock_map *out);

#endif
