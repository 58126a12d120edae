/* The OpenCL functions as a table, filled at run time, so that the program starts on a computer without
 * OpenCL and a test can put a layer in between. Made from cl_api.def. Covered by tests/faults.
 */
#ifndef TD_OPENCL_CL_API_H
#define TD_OPENCL_CL_API_H

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct td_cl_api {
#define TD_CL(kind, need, type, name, parameters, arguments) type(CL_API_CALL *name) parameters;
#include "device/opencl/cl_api.def"
#undef TD_CL
} td_cl_api;

/* Opens `library` and fills the table. On failure returns false and says why in `why` (one line). The library
 * stays open for the life of the process: drivers behind it leave threads and thread-exit handlers that would
 * run code that is no longer there. */
bool td_cl_api_load(td_cl_api *api, const char *library, char *why, size_t why_bytes);

#endif
