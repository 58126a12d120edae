/* Names and meanings of OpenCL's error codes. Covered by tests/faults. */
#include "device/opencl/cl_error.h"

#include "device/backend.h"

/* Vendors' codes that the headers do not have. */
#define CL_PLATFORM_NOT_FOUND_KHR (-1001)
#define CL_NV_ILLEGAL_BUFFER_ACCESS (-9999)

/* clang-format off */
#define CODES(X)                                                                                             \
    X(CL_DEVICE_NOT_FOUND, TD_ERR_NOT_FOUND)                                                                 \
    X(CL_DEVICE_NOT_AVAILABLE, TD_ERR_DEVICE_LOST)                                                           \
    X(CL_COMPILER_NOT_AVAILABLE, TD_ERR_BUILD)                                                               \
    X(CL_MEM_OBJECT_ALLOCATION_FAILURE, TD_ERR_DEVICE_MEMORY)                                                \
    X(CL_OUT_OF_RESOURCES, TD_ERR_DEVICE_MEMORY)                                                             \
    X(CL_OUT_OF_HOST_MEMORY, TD_ERR_HOST_MEMORY)                                                             \
    X(CL_PROFILING_INFO_NOT_AVAILABLE, TD_ERR_DRIVER)                                                        \
    X(CL_MEM_COPY_OVERLAP, TD_ERR_DRIVER)                                                                    \
    X(CL_BUILD_PROGRAM_FAILURE, TD_ERR_BUILD)                                                                \
    X(CL_MAP_FAILURE, TD_ERR_DRIVER)                                                                         \
    X(CL_MISALIGNED_SUB_BUFFER_OFFSET, TD_ERR_DRIVER)                                                        \
    X(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, TD_ERR_CANCELLED)                                        \
    X(CL_COMPILE_PROGRAM_FAILURE, TD_ERR_BUILD)                                                              \
    X(CL_LINKER_NOT_AVAILABLE, TD_ERR_BUILD)                                                                 \
    X(CL_LINK_PROGRAM_FAILURE, TD_ERR_BUILD)                                                                 \
    X(CL_INVALID_VALUE, TD_ERR_DRIVER)                                                                       \
    X(CL_INVALID_DEVICE_TYPE, TD_ERR_DRIVER)                                                                 \
    X(CL_INVALID_PLATFORM, TD_ERR_DRIVER)                                                                    \
    X(CL_INVALID_DEVICE, TD_ERR_DRIVER)                                                                      \
    X(CL_INVALID_CONTEXT, TD_ERR_DRIVER)                                                                     \
    X(CL_INVALID_QUEUE_PROPERTIES, TD_ERR_DRIVER)                                                            \
    X(CL_INVALID_COMMAND_QUEUE, TD_ERR_DRIVER)                                                               \
    X(CL_INVALID_HOST_PTR, TD_ERR_DRIVER)                                                                    \
    X(CL_INVALID_MEM_OBJECT, TD_ERR_DRIVER)                                                                  \
    X(CL_INVALID_BINARY, TD_ERR_BUILD)                                                                       \
    X(CL_INVALID_BUILD_OPTIONS, TD_ERR_BUILD)                                                                \
    X(CL_INVALID_PROGRAM, TD_ERR_DRIVER)                                                                     \
    X(CL_INVALID_PROGRAM_EXECUTABLE, TD_ERR_BUILD)                                                           \
    X(CL_INVALID_KERNEL_NAME, TD_ERR_BUILD)                                                                  \
    X(CL_INVALID_KERNEL_DEFINITION, TD_ERR_BUILD)                                                            \
    X(CL_INVALID_KERNEL, TD_ERR_DRIVER)                                                                      \
    X(CL_INVALID_ARG_INDEX, TD_ERR_DRIVER)                                                                   \
    X(CL_INVALID_ARG_VALUE, TD_ERR_DRIVER)                                                                   \
    X(CL_INVALID_ARG_SIZE, TD_ERR_DRIVER)                                                                    \
    X(CL_INVALID_KERNEL_ARGS, TD_ERR_DRIVER)                                                                 \
    X(CL_INVALID_WORK_DIMENSION, TD_ERR_DRIVER)                                                              \
    X(CL_INVALID_WORK_GROUP_SIZE, TD_ERR_DRIVER)                                                             \
    X(CL_INVALID_WORK_ITEM_SIZE, TD_ERR_DRIVER)                                                              \
    X(CL_INVALID_GLOBAL_OFFSET, TD_ERR_DRIVER)                                                               \
    X(CL_INVALID_EVENT_WAIT_LIST, TD_ERR_DRIVER)                                                             \
    X(CL_INVALID_EVENT, TD_ERR_DRIVER)                                                                       \
    X(CL_INVALID_OPERATION, TD_ERR_DRIVER)                                                                   \
    X(CL_INVALID_BUFFER_SIZE, TD_ERR_DEVICE_MEMORY)                                                          \
    X(CL_INVALID_GLOBAL_WORK_SIZE, TD_ERR_DRIVER)                                                            \
    X(CL_INVALID_PROPERTY, TD_ERR_DRIVER)                                                                    \
    X(CL_INVALID_COMPILER_OPTIONS, TD_ERR_BUILD)                                                             \
    X(CL_INVALID_LINKER_OPTIONS, TD_ERR_BUILD)                                                               \
    X(CL_PLATFORM_NOT_FOUND_KHR, TD_ERR_NOT_FOUND)                                                           \
    X(CL_NV_ILLEGAL_BUFFER_ACCESS, TD_ERR_DEVICE_LOST)
/* clang-format on */

static const td_native_code TABLE[] = {
#define ROW(code, status) {code, status, #code},
    CODES(ROW)
#undef ROW
        {TD_CODE_END, TD_ERR_DRIVER, "CL_ERROR_UNKNOWN"}};

const char *td_cl_error_name(cl_int code)
{
    return td_native_code_find(TABLE, code)->name;
}

td_status td_cl_error_status(cl_int code)
{
    return td_native_code_find(TABLE, code)->status;
}

bool td_cl_error_is_loss(cl_int code)
{
    return code == CL_DEVICE_NOT_AVAILABLE || code == CL_NV_ILLEGAL_BUFFER_ACCESS ||
           code == CL_OUT_OF_RESOURCES || code == CL_INVALID_COMMAND_QUEUE;
}
