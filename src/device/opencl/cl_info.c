/* What an OpenCL device is and can do, as a td_device_info. Decides whether it is usable at all; does not run
 * anything on it (the self-test does). Covered by tests/device/test_registry.c on every driver present.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/opencl/cl_error.h"
#include "device/opencl/opencl.h"

#include <CL/cl_ext.h>

/* Numbers that the headers of Debian 12 do not have yet or never had. */
#define DEVICE_PCI_BUS_ID_NV 0x4008
#define DEVICE_PCI_SLOT_ID_NV 0x4009
#define DEVICE_PCI_DOMAIN_ID_NV 0x400A
#define DEVICE_SINGLE_FP_ATOMIC_CAPABILITIES_EXT 0x4231
#define GLOBAL_FP_ATOMIC_ADD_EXT (UINT64_C(1) << 1)

#define VENDOR_NVIDIA 0x10DE
#define VENDOR_AMD 0x1002
#define VENDOR_INTEL 0x8086

#define PAGE_BYTES 4096

typedef struct device_reader {
    const td_cl_api *api;
    cl_device_id device;
    td_device_info *info;
    char *extensions; /* owned */
} device_reader;

/* ---------------------------------------------------------------- texts */

static void copy_trimmed(const char *text, char *out, size_t room)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length && isspace((unsigned char)text[length - 1]))
        length--;
    snprintf(out, room, "%.*s", (int)length, text);
}

/* A whole text of any length in *out (owned). `platform` or `device` is asked, whichever is not NULL. */
static cl_int read_text(const td_cl_api *api, cl_platform_id platform, cl_device_id device, cl_uint what,
                        char **out)
{
    size_t bytes = 0;
    *out = NULL;
    cl_int code = platform ? api->clGetPlatformInfo(platform, what, 0, NULL, &bytes)
                           : api->clGetDeviceInfo(device, what, 0, NULL, &bytes);
    if (code != CL_SUCCESS) return code;
    char *text = calloc(bytes + 1, 1);
    if (!text) return CL_OUT_OF_HOST_MEMORY;
    if (bytes) {
        code = platform ? api->clGetPlatformInfo(platform, what, bytes, text, NULL)
                        : api->clGetDeviceInfo(device, what, bytes, text, NULL);
    }
    if (code != CL_SUCCESS) {
        free(text);
        return code;
    }
    *out = text;
    return CL_SUCCESS;
}

static cl_int read_trimmed(const td_cl_api *api, cl_platform_id platform, cl_device_id device, cl_uint what,
                           char *out, size_t room)
{
    char *text = NULL;
    out[0] = '\0';
    const cl_int code = read_text(api, platform, device, what, &text);
    if (code == CL_SUCCESS) copy_trimmed(text, out, room);
    free(text);
    return code;
}

cl_int td_cl_text_platform(const td_cl_api *api, cl_platform_id platform, cl_platform_info what, char *out,
                           size_t room)
{
    return read_trimmed(api, platform, NULL, what, out, room);
}

cl_int td_cl_text_device(const td_cl_api *api, cl_device_id device, cl_device_info what, char *out,
                         size_t room)
{
    return read_trimmed(api, NULL, device, what, out, room);
}

/* The 1.2 of "OpenCL C 1.2 ..." with prefix "OpenCL C "; false if there is none. */
static bool parse_version(const char *text, const char *prefix, unsigned long *major, unsigned long *minor)
{
    const size_t length = strlen(prefix);
    char *end = NULL;
    if (strncmp(text, prefix, length) != 0 || !isdigit((unsigned char)text[length])) return false;
    *major = strtoul(text + length, &end, 10);
    if (end[0] != '.' || !isdigit((unsigned char)end[1])) return false;
    *minor = strtoul(end + 1, NULL, 10);
    return true;
}

/* ---------------------------------------------------------------- queries */

/* The first thing that is wrong is the one reported. */
static void refuse(td_device_info *info, const char *reason)
{
    if (info->usable) snprintf(info->reason, sizeof info->reason, "%s", reason);
    info->usable = false;
}

static void check(device_reader *reader, cl_int code, const char *what)
{
    if (code == CL_SUCCESS) return;
    char reason[sizeof reader->info->reason];
    snprintf(reason, sizeof reason, "the driver does not answer for %s: %s; update or reinstall it", what,
             td_cl_error_name(code));
    refuse(reader->info, reason);
}

/* Something every device must know, into a variable of the right type. */
#define READ(reader, what, variable)                                                                         \
    check((reader),                                                                                          \
          (reader)->api->clGetDeviceInfo((reader)->device, what, sizeof *(variable), (variable), NULL),      \
          #what)
#define READ_TEXT(reader, what, array)                                                                       \
    check((reader), td_cl_text_device((reader)->api, (reader)->device, what, array, sizeof(array)), #what)

/* Something a device may know: true and the value, or false. */
#define ASK(reader, what, variable)                                                                          \
    ((reader)->api->clGetDeviceInfo((reader)->device, what, sizeof *(variable), (variable), NULL) ==         \
     CL_SUCCESS)

static bool has_extension(const device_reader *reader, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = reader->extensions; (at = strstr(at, name)); at += length) {
        const bool starts = at == reader->extensions || at[-1] == ' ';
        if (starts && (at[length] == ' ' || at[length] == '\0')) return true;
    }
    return false;
}

/* ---------------------------------------------------------------- identity */

static void read_type(device_reader *reader)
{
    td_device_info *info = reader->info;
    cl_device_type type = 0;
    cl_bool unified = CL_FALSE;
    READ(reader, CL_DEVICE_TYPE, &type);
    if (type & CL_DEVICE_TYPE_CPU) {
        info->type = TD_DEVICE_CPU;
    } else if (type & CL_DEVICE_TYPE_GPU) {
        const bool shares = ASK(reader, CL_DEVICE_HOST_UNIFIED_MEMORY, &unified) && unified;
        info->type = shares ? TD_DEVICE_IGPU : TD_DEVICE_GPU;
    } else {
        info->type = TD_DEVICE_OTHER;
    }
}

/* AMD's drivers call the device by its architecture ("gfx1031"), which says little to people. */
static void add_board_name(device_reader *reader)
{
    td_device_info *info = reader->info;
    char board[64];
    char both[sizeof info->name];
    if (!has_extension(reader, "cl_amd_device_attribute_query")) return;
    if (td_cl_text_device(reader->api, reader->device, CL_DEVICE_BOARD_NAME_AMD, board, sizeof board) !=
        CL_SUCCESS)
        return;
    if (!board[0]) return;
    snprintf(both, sizeof both, "%s (%.60s)", board, info->name);
    memcpy(info->name, both, sizeof both);
}

static void read_names(device_reader *reader, cl_platform_id platform)
{
    td_device_info *info = reader->info;
    char version[128] = "";
    unsigned long major = 0;
    unsigned long minor = 0;
    READ_TEXT(reader, CL_DEVICE_NAME, info->name);
    READ_TEXT(reader, CL_DEVICE_VENDOR, info->vendor);
    READ_TEXT(reader, CL_DRIVER_VERSION, info->driver);
    READ_TEXT(reader, CL_DEVICE_VERSION, version);
    READ(reader, CL_DEVICE_VENDOR_ID, &info->vendor_id);
    check(reader,
          td_cl_text_platform(reader->api, platform, CL_PLATFORM_NAME, info->platform_name,
                              sizeof info->platform_name),
          "CL_PLATFORM_NAME");
    if (parse_version(version, "OpenCL ", &major, &minor))
        snprintf(info->api_version, sizeof info->api_version, "%lu.%lu", major, minor);
    if (!info->name[0]) snprintf(info->name, sizeof info->name, "unnamed OpenCL device");
    add_board_name(reader);
}

static void read_address(device_reader *reader)
{
    td_device_info *info = reader->info;
    cl_device_pci_bus_info_khr pci = {0};
    cl_device_topology_amd amd = {{0}};
    cl_uint bus = 0;
    cl_uint slot = 0;
    cl_uint domain = 0;
    if (has_extension(reader, "cl_khr_pci_bus_info") && ASK(reader, CL_DEVICE_PCI_BUS_INFO_KHR, &pci)) {
        info->has_pci = true;
        info->pci.domain = pci.pci_domain;
        info->pci.bus = pci.pci_bus;
        info->pci.device = pci.pci_device;
        info->pci.function = pci.pci_function;
    } else if (has_extension(reader, "cl_amd_device_attribute_query") &&
               ASK(reader, CL_DEVICE_TOPOLOGY_AMD, &amd) &&
               amd.raw.type == CL_DEVICE_TOPOLOGY_TYPE_PCIE_AMD) {
        info->has_pci = true;
        info->pci.bus = (uint8_t)amd.pcie.bus;
        info->pci.device = (uint8_t)amd.pcie.device;
        info->pci.function = (uint8_t)amd.pcie.function;
    } else if (has_extension(reader, "cl_nv_device_attribute_query") &&
               ASK(reader, DEVICE_PCI_BUS_ID_NV, &bus) && ASK(reader, DEVICE_PCI_SLOT_ID_NV, &slot)) {
        info->has_pci = true;
        info->pci.domain = ASK(reader, DEVICE_PCI_DOMAIN_ID_NV, &domain) ? domain : 0;
        info->pci.bus = bus;
        info->pci.device = slot >> 3;
        info->pci.function = slot & 7;
    }
    info->has_uuid =
        has_extension(reader, "cl_khr_device_uuid") && ASK(reader, CL_DEVICE_UUID_KHR, &info->uuid);
}

/* ---------------------------------------------------------------- abilities */

static void read_memory(device_reader *reader)
{
    td_device_caps *caps = &reader->info->caps;
    const bool cpu = reader->info->type == TD_DEVICE_CPU;
    cl_ulong memory = 0;
    cl_ulong most = 0;
    cl_ulong local = 0;
    cl_uint align_bits = 0;
    cl_device_local_mem_type local_type = CL_NONE;
    READ(reader, CL_DEVICE_GLOBAL_MEM_SIZE, &memory);
    READ(reader, CL_DEVICE_MAX_MEM_ALLOC_SIZE, &most);
    READ(reader, CL_DEVICE_LOCAL_MEM_SIZE, &local);
    READ(reader, CL_DEVICE_LOCAL_MEM_TYPE, &local_type);
    READ(reader, CL_DEVICE_MEM_BASE_ADDR_ALIGN, &align_bits);
    caps->memory_bytes = memory;
    caps->max_alloc_bytes = most;
    caps->max_binding_bytes = most;
    caps->local_memory_bytes = local > UINT32_MAX ? UINT32_MAX : (uint32_t)local;
    caps->local_memory_real = local_type == CL_LOCAL;
    caps->offset_align = align_bits > 8 ? align_bits / 8 : 1;
    /* Only a CPU driver is known to compute in the very bytes the host sees; an integrated GPU may keep a
     * copy of its own until it is mapped. */
    caps->unified_memory = cpu;
    caps->host_import = cpu;
    caps->host_import_align = cpu ? PAGE_BYTES : 0;
}

static void read_subgroups(device_reader *reader)
{
    td_device_caps *caps = &reader->info->caps;
    size_t sizes[16] = {0};
    size_t bytes = 0;
    cl_uint width = 0;
    if (has_extension(reader, "cl_intel_required_subgroup_size") &&
        reader->api->clGetDeviceInfo(reader->device, CL_DEVICE_SUB_GROUP_SIZES_INTEL, sizeof sizes, sizes,
                                     &bytes) == CL_SUCCESS &&
        bytes >= sizeof sizes[0]) {
        caps->subgroup_min = (uint32_t)sizes[0];
        for (size_t i = 0; i < bytes / sizeof sizes[0]; i++) {
            if (sizes[i] < caps->subgroup_min) caps->subgroup_min = (uint32_t)sizes[i];
            if (sizes[i] > caps->subgroup_max) caps->subgroup_max = (uint32_t)sizes[i];
        }
    } else if ((has_extension(reader, "cl_amd_device_attribute_query") &&
                ASK(reader, CL_DEVICE_WAVEFRONT_WIDTH_AMD, &width)) ||
               (has_extension(reader, "cl_nv_device_attribute_query") &&
                ASK(reader, CL_DEVICE_WARP_SIZE_NV, &width))) {
        caps->subgroup_min = width;
        caps->subgroup_max = width;
    }
}

static void read_compute(device_reader *reader, bool timestamps)
{
    td_device_caps *caps = &reader->info->caps;
    size_t group = 0;
    size_t parameters = 0;
    cl_uint width = 1;
    cl_command_queue_properties queue = 0;
    cl_device_fp_config fp64 = 0;
    cl_ulong atomics = 0;
    READ(reader, CL_DEVICE_MAX_WORK_GROUP_SIZE, &group);
    READ(reader, CL_DEVICE_MAX_COMPUTE_UNITS, &caps->compute_units);
    READ(reader, CL_DEVICE_MAX_PARAMETER_SIZE, &parameters);
    READ(reader, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, &width);
    READ(reader, CL_DEVICE_QUEUE_PROPERTIES, &queue);
    const size_t pointers = TD_KERNEL_MAX_BUFFERS * sizeof(cl_mem);
    caps->max_group_size = (uint32_t)group;
    caps->max_group_count = UINT32_MAX;
    caps->vector_width = reader->info->type == TD_DEVICE_CPU && width ? width : 1;
    caps->max_params_bytes = parameters > pointers ? (uint32_t)(parameters - pointers) : 0;
    caps->max_buffers = TD_KERNEL_MAX_BUFFERS;
    caps->copy_queue = true;
    caps->timestamps = timestamps && (queue & CL_QUEUE_PROFILING_ENABLE);
    caps->fp16_storage = true; /* vload_half and vstore_half are core OpenCL C */
    caps->fp16_math = has_extension(reader, "cl_khr_fp16");
    caps->fp64 = ASK(reader, CL_DEVICE_DOUBLE_FP_CONFIG, &fp64) && fp64 != 0;
    caps->int64 = true;
    caps->float_atomics = has_extension(reader, "cl_ext_float_atomics") &&
                          ASK(reader, DEVICE_SINGLE_FP_ATOMIC_CAPABILITIES_EXT, &atomics) &&
                          (atomics & GLOBAL_FP_ATOMIC_ADD_EXT);
    read_subgroups(reader);
}

/* Rough figures; lists are cut into submissions with them, nothing else. */
static void estimate_speed(device_reader *reader)
{
    td_device_info *info = reader->info;
    cl_uint mhz = 0;
    if (!ASK(reader, CL_DEVICE_MAX_CLOCK_FREQUENCY, &mhz) || mhz == 0) mhz = 1000;
    double lanes = 64;
    if (info->type == TD_DEVICE_CPU)
        lanes = info->caps.vector_width;
    else if (info->vendor_id == VENDOR_NVIDIA)
        lanes = 128;
    else if (info->vendor_id == VENDOR_INTEL)
        lanes = 8;
    const double peak_gflops = 2e-3 * mhz * lanes * info->caps.compute_units;
    info->caps.estimated_gflops = 0.25 * peak_gflops;
    info->caps.estimated_gbps = info->type == TD_DEVICE_GPU ? 200 : info->type == TD_DEVICE_IGPU ? 30 : 10;
}

static void judge(device_reader *reader)
{
    td_device_info *info = reader->info;
    char language[96] = "";
    char reason[sizeof info->reason];
    unsigned long major = 0;
    unsigned long minor = 0;
    cl_bool available = CL_FALSE;
    cl_bool compiler = CL_FALSE;
    cl_bool little_endian = CL_FALSE;
    READ(reader, CL_DEVICE_AVAILABLE, &available);
    READ(reader, CL_DEVICE_COMPILER_AVAILABLE, &compiler);
    READ(reader, CL_DEVICE_ENDIAN_LITTLE, &little_endian);
    READ_TEXT(reader, CL_DEVICE_OPENCL_C_VERSION, language);
    if (!available)
        refuse(info, "the driver says that the device is not available; is another program holding it?");
    if (!compiler) refuse(info, "the driver has no OpenCL C compiler; install its full package");
    if (!little_endian) refuse(info, "the device is big-endian, which is not supported");
    if (!parse_version(language, "OpenCL C ", &major, &minor) || major < 1 || (major == 1 && minor < 2)) {
        snprintf(reason, sizeof reason, "it compiles \"%s\", but OpenCL C 1.2 is needed; update the driver",
                 language);
        refuse(info, reason);
    }
}

td_status td_cl_info_read(const td_cl_state *state, cl_platform_id platform, cl_device_id device,
                          td_device_info *info)
{
    device_reader reader = {.api = &state->api, .device = device, .info = info};
    info->usable = true;
    const cl_int code = read_text(reader.api, NULL, device, CL_DEVICE_EXTENSIONS, &reader.extensions);
    check(&reader, code, "CL_DEVICE_EXTENSIONS");
    if (!reader.extensions) {
        const td_status status = td_alloc_zeroed(1, 1, &reader.extensions);
        if (status != TD_OK) return status;
    }
    read_type(&reader);
    read_names(&reader, platform);
    read_address(&reader);
    read_memory(&reader);
    read_compute(&reader, state->timestamps);
    estimate_speed(&reader);
    judge(&reader);
    free(reader.extensions);
    return TD_OK;
}
