/* SPDX-License-Identifier: MIT
 *
 * Devices: the registry of every OpenCL and Vulkan device of the computer (and the simulated one),
 * how one is named, and how one is opened. What an opened device does is in memory.h, queue.h and
 * channel.h. Covered by tests/device/test_registry.c.
 *
 * Threads: a registry may be read by any thread once it is open; opening and closing devices of one
 * registry is for one thread at a time.
 */
#ifndef TANDEM_DEVICE_H
#define TANDEM_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tandem/status.h"

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_registry td_registry;
typedef struct td_device td_device;

typedef enum td_api { TD_API_OPENCL, TD_API_VULKAN, TD_API_SIM, TD_API_COUNT } td_api;

const char *td_api_word(td_api api); /* "opencl", "vulkan", "sim" */

typedef enum td_device_type {
    TD_DEVICE_GPU,  /* discrete or virtual GPU */
    TD_DEVICE_IGPU, /* GPU that shares the host's memory */
    TD_DEVICE_CPU,  /* a driver that computes on the host's cores */
    TD_DEVICE_OTHER,
    TD_DEVICE_SIM, /* the simulated device */
} td_device_type;

/* What a device can do. Sizes are bytes. A feature that failed the self-test is false here. */
typedef struct td_device_caps {
    uint64_t memory_bytes;      /* all memory of the device */
    uint64_t max_alloc_bytes;   /* largest single buffer */
    uint64_t max_binding_bytes; /* largest range one kernel argument may cover */
    uint64_t host_import_align; /* alignment of pointer and size for imported host memory */
    uint32_t offset_align;      /* alignment of a range inside a buffer */
    uint32_t max_group_size;    /* work-items per work-group */
    uint32_t max_group_count;   /* work-groups per dimension */
    uint32_t local_memory_bytes;
    uint32_t compute_units;
    uint32_t vector_width; /* native fp32 vector of a CPU driver, else 1 */
    uint32_t subgroup_min; /* 0: no subgroups */
    uint32_t subgroup_max;
    uint32_t max_params_bytes; /* by-value parameters of a kernel */
    uint32_t max_buffers;      /* buffers one kernel may take */
    bool local_memory_real;    /* on-chip, not emulated in ordinary memory */
    bool unified_memory;       /* device memory is host memory */
    bool copy_queue;           /* a COPY queue of its own, else COPY is COMPUTE */
    bool host_import;          /* host memory can be used as a buffer in place */
    bool timestamps;
    bool fp16_storage;
    bool fp16_math;
    bool fp64;
    bool int64;
    bool float_atomics;
    double estimated_gflops; /* rough; only for splitting long submissions */
    double estimated_gbps;
    double link_gbps; /* to the host and to other devices; 0: not known */
} td_device_caps;

/* Identity and abilities of one device. */
typedef struct td_device_info {
    td_api api;
    td_device_type type;
    int index;           /* number in `tandem devices`; -1 for the simulated device */
    int given_index;     /* number before TANDEM_VISIBLE_DEVICES hid some */
    uint32_t platform;   /* OpenCL platform; 0 elsewhere */
    uint32_t ordinal;    /* device within the platform, or Vulkan's number */
    uint32_t phys_group; /* same number: same silicon */
    uint32_t vendor_id;
    uint32_t device_id;
    bool usable;
    bool has_uuid;
    bool has_pci;
    bool gpu_kernels;   /* runs kernels of class GPU (docs/kernels.md) */
    bool selftest_done; /* a verdict for this driver version is known */
    bool selftest_passed;
    uint8_t uuid[16];
    struct {
        uint32_t domain, bus, device, function;
    } pci;
    char name[128];
    char vendor[64];
    char platform_name[96]; /* OpenCL platform or Vulkan driver name */
    char driver[128];       /* driver version */
    char api_version[32];
    char selector[96]; /* survives a reboot: paste it into --data-device */
    char reason[256];  /* why it is not usable, or what the self-test switched off; else "" */
    td_device_caps caps;
} td_device_info;

/* State of one API's loader after the registry was opened. */
typedef struct td_api_report {
    bool loaded;      /* the loader library was opened */
    uint32_t devices; /* found through it */
    char library[128];
    char message[384]; /* why nothing was found and what to install; "" when all is well */
} td_api_report;

struct td_registry_hooks;

/* All fields may be zero. Strings are borrowed during the call. */
typedef struct td_registry_options {
    const char *visible;   /* as TANDEM_VISIBLE_DEVICES; NULL: all */
    const char *cache_dir; /* NULL: $XDG_CACHE_HOME/tandem */
    const char *sim_model; /* "key=value,..." of the simulated devices, docs/devices.md; NULL: defaults */
    const char *opencl_library; /* NULL: libOpenCL.so.1 */
    const char *vulkan_library; /* NULL: libvulkan.so.1 */
    bool validation;            /* Vulkan validation with synchronisation checks */
    bool no_timestamps;         /* queues without profiling */
    bool gpu_kernels;           /* kernels of class GPU on CPU drivers too, to test them there */
    bool store_binaries;        /* those of PoCL's kernels too, at any price: see docs/devices.md */
    uint32_t compile_helpers;   /* copies of this process that may compile kernels; docs/devices.md */
    const struct td_registry_hooks *hooks; /* for tests; NULL */
} td_registry_options;

/* Fills *options from the TANDEM_* environment variables; strings borrowed from the environment.
 * Cannot fail. */
void td_registry_options_from_env(td_registry_options *options);

/* Opens both loaders and lists the devices. A missing loader or driver is not a failure: see
 * td_registry_report. Fails on a malformed `visible` or `sim_model` (TD_ERR_CONFIG). *out is owned;
 * close it after every device opened from it. */
td_status td_registry_open(const td_registry_options *options, td_registry **out);
void td_registry_close(td_registry *registry);

/* Visible devices come first, in the order of their index; simulated ones last. Infos are borrowed
 * until the registry closes. */
size_t td_registry_count(const td_registry *registry); /* visible real devices */
const td_device_info *td_registry_info(const td_registry *registry, size_t position);
const td_api_report *td_registry_report(const td_registry *registry, td_api api);

/* Messages of the Vulkan validation layer so far; 0 when validation is off. */
uint64_t td_registry_validation_messages(const td_registry *registry);

/* Finds the device a selector names: an index, `cl:P.D` (P a number or a platform's name), `vk:N`,
 * `pci:DDDD:BB:DD.F[/cl|/vk]`, `uuid:HEX`, `name:SUBSTRING`, `gpu`, `cpu`, `any`, `sim`, `sim:N`.
 * TD_ERR_NOT_FOUND with the reason (unknown, out of range, hidden, ambiguous), TD_ERR_UNSUPPORTED where the
 * device cannot be used. */
td_status td_registry_select(const td_registry *registry, const char *selector, const td_device_info **out);

/* Opens `count` devices at once. OpenCL devices of one platform then share a context, so they can wait
 * for and copy to each other inside the driver. Runs the self-test of each device whose driver version
 * has no verdict yet. On failure nothing is open. out[i] is owned: td_device_close. */
td_status td_devices_open(td_registry *registry, const td_device_info *const *infos, size_t count,
                          td_device **out);
td_status td_device_open(td_registry *registry, const td_device_info *info, td_device **out);

/* Waits for the device's own queues, then frees everything. Whatever waits for its points must be done. */
void td_device_close(td_device *device);

/* Identity as opened: abilities that the self-test switched off are false. Borrowed. */
const td_device_info *td_device_get_info(const td_device *device);

/* True once the driver reported the device lost; every later call answers TD_ERR_DEVICE_LOST. */
bool td_device_is_lost(const td_device *device);

/* Kernels this device built from source since it was opened (0 when all came from the cache). */
uint64_t td_device_kernel_builds(const td_device *device);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
