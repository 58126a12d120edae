/* The Vulkan backend's own objects, and what its files offer each other:
 *
 *   vk_api       function table          vk_pipeline  kernels and their cache on disk
 *   vk_error     VkResult                vk_list      recorded command buffers
 *   vk_instance  loader, validation      vk_queue     submissions and waiting
 *   vk_probe     what a device can do    vk_times     timestamps, calibration
 *   vk_device    opening and closing     vk_memory    buffers
 *
 * Locks: vk_queue.mutex guards the native queue and what is scratch for its submissions, vk_device.mutex the
 * pipelines. Neither is held while waiting for the device, and no thread holds both. Covered by tests/device.
 */
#ifndef TD_DEVICE_VULKAN_VK_H
#define TD_DEVICE_VULKAN_VK_H

#include "device/backend.h"
#include "device/vulkan/vk_api.h"

/* ---------------------------------------------------------------- physical devices */

/* Extensions that are used where present; `enabled` ones must be named when the device is made, the others
 * only add properties to the physical device. */
#define VK_EXTENSION_LIST(X)                                                                                 \
    X(VK_HAS_HOST_IMPORT, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME, true)                                  \
    X(VK_HAS_CALIBRATION, VK_EXT_CALIBRATED_TIMESTAMPS_EXTENSION_NAME, true)                                 \
    X(VK_HAS_FEEDBACK, VK_EXT_PIPELINE_CREATION_FEEDBACK_EXTENSION_NAME, true)                               \
    X(VK_HAS_ATOMIC_FLOAT, VK_EXT_SHADER_ATOMIC_FLOAT_EXTENSION_NAME, true)                                  \
    X(VK_HAS_PCI, VK_EXT_PCI_BUS_INFO_EXTENSION_NAME, false)                                                 \
    X(VK_HAS_MAINTENANCE4, VK_KHR_MAINTENANCE_4_EXTENSION_NAME, false)                                       \
    X(VK_HAS_SUBGROUP_SIZES, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME, false)                             \
    X(VK_HAS_AMD_CORES, VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME, false)                                 \
    X(VK_HAS_NV_CORES, VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME, false)

typedef enum vk_extension {
#define VK_EXTENSION_ENUM(id, name, enabled) id,
    VK_EXTENSION_LIST(VK_EXTENSION_ENUM)
#undef VK_EXTENSION_ENUM
        VK_EXTENSION_COUNT
} vk_extension;

/* Which native queue serves a td_queue_kind. */
typedef struct vk_queue_choice {
    uint32_t family;
    uint32_t index; /* within the family */
    bool computes;  /* the family takes compute commands, not only transfers */
    uint32_t timestamp_bits;
} vk_queue_choice;

/* What is known of a physical device beyond its td_device_info. */
typedef struct vk_physical {
    VkPhysicalDevice handle;
    uint32_t extensions;                         /* bit 1 << vk_extension */
    vk_queue_choice queues[TD_QUEUE_KIND_COUNT]; /* equal where COPY is COMPUTE */
    bool host_query_reset;
    double timestamp_period_ns;
    uint32_t driver_version;
    uint8_t cache_uuid[VK_UUID_SIZE];
    VkPhysicalDeviceMemoryProperties memory;
} vk_physical;

static inline bool td_vk_has(const vk_physical *physical, vk_extension extension)
{
    return physical->extensions >> extension & 1u;
}

/* The backend's state: instance, and one vk_physical for each info, in the order of their ordinals. */
typedef struct vk_state {
    td_vk_api api; /* GLOBAL and INSTANCE entries */
    td_vk_wrap wrap;
    bool no_timestamps;
    VkInstance instance;
    VkDebugUtilsMessengerEXT messenger;
    atomic_uint_fast64_t messages;
    vk_physical *physicals; /* owned */
} vk_state;

/* vk_probe.c: appends an info for every physical device of the instance and fills state->physicals. A driver
 * that fails to answer is said in report->message; only TD_ERR_HOST_MEMORY is returned. */
td_status td_vk_probe_devices(vk_state *state, td_info_list *infos, td_api_report *report);

/* ---------------------------------------------------------------- devices */

/* Layouts depend on the number of buffers alone: every kernel has storage buffers at bindings 0 .. n-1 of
 * set 0 and TD_KERNEL_MAX_PARAMS bytes of push constants. So a descriptor set fits any kernel of its size. */
typedef struct vk_layout {
    VkDescriptorSetLayout set;
    VkPipelineLayout pipeline;
} vk_layout;

typedef struct vk_pipeline {
    const td_kernel *kernel;
    VkPipeline handle;
} vk_pipeline;

typedef struct vk_pipeline_cache {
    VkPipelineCache handle;
    td_digest key;     /* of the blob on disk */
    td_digest on_disk; /* hash of what the blob is known to hold */
    bool loaded;       /* a blob was found */
    bool holds_code;   /* and it was more than a header */
    bool grown;        /* pipelines were made since it was saved */
} vk_pipeline_cache;

typedef struct vk_device {
    td_device base;
    const vk_state *state;       /* borrowed until the device is closed */
    const vk_physical *physical; /* likewise */
    td_vk_api api;               /* DEVICE entries */
    VkDevice handle;
    atomic_bool troubled; /* a call has failed: somebody's wait may have been cut short */
    atomic_uint_fast64_t last_ticks;

    pthread_mutex_t mutex; /* guards what follows */
    bool mutex_ready;
    vk_layout layouts[TD_KERNEL_MAX_BUFFERS + 1];
    vk_pipeline *pipelines; /* owned */
    size_t n_pipelines, pipelines_capacity;
    vk_pipeline_cache cache;
} vk_device;

/* vk_device.c: the backend's open. */
td_status td_vk_open(void *state, const td_device_info *const *infos, size_t count, td_blob_cache *cache,
                     td_device **out);

/* ---------------------------------------------------------------- memory */

typedef struct vk_buffer {
    td_buffer base;
    VkBuffer handle;
    VkDeviceMemory memory;
} vk_buffer;

td_status td_vk_buffer_create(td_device *device, td_memory_kind kind, uint64_t bytes, td_buffer **out);
td_status td_vk_buffer_import(td_device *device, void *host, uint64_t bytes, td_buffer **out);
void td_vk_buffer_destroy(td_buffer *buffer);

/* ---------------------------------------------------------------- kernels */

/* Reads the pipeline cache from disk. A damaged or foreign blob is a miss. */
td_status td_vk_pipelines_open(vk_device *device);
void td_vk_pipelines_close(vk_device *device);

/* The pipeline of a kernel and its layout, made at first need. Handles live as long as the device. */
td_status td_vk_pipeline_get(vk_device *device, const td_kernel *kernel, VkPipeline *out);
td_status td_vk_layout_get(vk_device *device, uint32_t n_buffers, vk_layout *out);

/* Writes the pipeline cache to disk if it holds something new. Never fails its caller. */
void td_vk_pipelines_save(vk_device *device);

/* ---------------------------------------------------------------- queues */

/* What one submission hands to the driver, laid out once and patched for each submission: a batch per
 * segment, so that no batch runs into a watchdog; the first waits, the last signals the point. */
typedef struct vk_work {
    uint32_t n_segments;
    uint32_t n_batches; /* n_segments, but at least 1 */
    VkSubmitInfo *batches;
    VkTimelineSemaphoreSubmitInfo *timelines;
    uint64_t *signals;         /* value each batch signals */
    VkCommandBuffer *commands; /* [0] starts the clock, [1 .. n_segments] work, [n_segments + 1] stops it */
} vk_work;

/* The command buffers that stamp the start and end of a submission; NULL when it is not timed. */
typedef struct vk_lap {
    VkCommandBuffer start;
    VkCommandBuffer stop;
} vk_lap;

/* Timestamps of the last TD_TIMES_KEPT submissions: a pair of queries for each, and the command buffers that
 * write them, recorded at first need. All NULL where the queue has no timestamps. */
typedef struct vk_times {
    VkQueryPool queries; /* 2 per slot, then one for the calibration's marker */
    VkCommandPool pool;
    vk_lap laps[TD_TIMES_KEPT];
    VkCommandBuffer marker; /* for calibration */
    bool resets_itself; /* the queue can reset queries; else the host does once a slot's last use is over */
    bool untimed[TD_TIMES_KEPT]; /* it was not over yet */
} vk_times;

typedef struct vk_queue {
    td_queue base;
    vk_device *device; /* borrowed */
    const vk_queue_choice *choice;
    VkQueue handle;
    VkPipelineStageFlags stages; /* that its commands run in */
    VkSemaphore reached;         /* the timeline: value of the last finished submission */
    VkSemaphore segments;        /* counts batches that are not the last of their submission */
    VkSemaphore marked;          /* counts the calibration's markers */
    uint64_t n_segments;
    uint64_t n_marks;
    uint64_t submitted; /* last value handed to the driver */
    vk_work join;       /* a submission without commands */
    vk_times times;
    pthread_mutex_t mutex;
    bool mutex_ready;
} vk_queue;

/* vk_queue.c. A work's batches signal the queue's semaphores. */
td_status td_vk_work_create(const vk_queue *queue, uint32_t n_segments, vk_work *out);
void td_vk_work_destroy(vk_work *work);
td_status td_vk_queue_create(vk_device *device, td_queue_kind kind, vk_queue **out);
void td_vk_queue_destroy(vk_queue *queue);
td_status td_vk_queue_submit(td_queue *queue, const td_native_submission *submission);
td_status td_vk_queue_wait(td_queue *queue, uint64_t value, uint64_t timeout_ns);
bool td_vk_queue_can_wait(const td_queue *waiter, const td_queue *signaller);
td_status td_vk_semaphore_wait(vk_device *device, VkSemaphore semaphore, uint64_t value, uint64_t timeout_ns);

/* Waits, before objects are freed, until the driver no longer uses what was submitted up to `value`; also
 * after failures. Returns at once when it does not, never hangs on a lost device. */
void td_vk_queue_settle(vk_queue *queue, uint64_t value);
void td_vk_device_settle(vk_device *device);

/* vk_times.c. The lap of a submission is asked for with the queue's mutex held. */
td_status td_vk_times_create(vk_queue *queue);
void td_vk_times_destroy(vk_queue *queue);
td_status td_vk_times_lap(vk_queue *queue, uint64_t value, vk_lap *out);
td_status td_vk_queue_times(td_queue *queue, uint64_t value, uint64_t *start_ns, uint64_t *end_ns);
td_status td_vk_calibrate(td_device *device, td_clock_map *out);

/* ---------------------------------------------------------------- lists */

td_status td_vk_list_compile(td_list *list);
void td_vk_list_discard(td_list *list);

typedef struct vk_list {
    vk_queue *queue; /* borrowed: the one queue it can be submitted to */
    VkDescriptorPool descriptors;
    VkCommandPool pool;
    vk_work work;
    uint64_t last_value; /* guarded by the queue's mutex */
} vk_list;

#endif
