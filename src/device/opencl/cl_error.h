/* What OpenCL's error codes mean to the rest of the program. */
#ifndef TD_OPENCL_CL_ERROR_H
#define TD_OPENCL_CL_ERROR_H

#include "device/opencl/cl_api.h"
#include "tandem/status.h"

/* "CL_OUT_OF_RESOURCES"; "CL_ERROR_UNKNOWN" for unknown codes. Borrowed forever. */
const char *td_cl_error_name(cl_int code);

/* The status a failed call with this code stands for; never TD_OK. */
td_status td_cl_error_status(cl_int code);

/* True if a command that ended with this code took the device with it: drivers report a fault or a watchdog
 * reset as one of these, and everything queued behind is gone. */
bool td_cl_error_is_loss(cl_int code);

#endif
