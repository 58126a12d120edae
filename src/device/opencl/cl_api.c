/* Opens the OpenCL loader and looks its functions up. Does not touch any platform.
 * Covered by tests/device/test_registry.c (missing and broken libraries). */
#include "device/opencl/cl_api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { OPTIONAL, REQUIRED };

/* Where each function goes. A function pointer and a void * have the same form on every system that has
 * dlsym(), which is all that copying the bytes relies on. */
static const struct {
    const char *name;
    size_t offset;
    int need;
} ENTRIES[] = {
#define TD_CL(kind, need, type, name, parameters, arguments) {#name, offsetof(td_cl_api, name), need},
#include "device/opencl/cl_api.def"
#undef TD_CL
};

bool td_cl_api_load(td_cl_api *api, const char *library, char *why, size_t why_bytes)
{
    memset(api, 0, sizeof *api);
    void *loader = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!loader) {
        const char *reason = dlerror();
        snprintf(why, why_bytes, "%s", reason ? reason : library);
        return false;
    }
    for (size_t i = 0; i < sizeof ENTRIES / sizeof ENTRIES[0]; i++) {
        void *symbol = dlsym(loader, ENTRIES[i].name);
        if (!symbol && ENTRIES[i].need == REQUIRED) {
            snprintf(why, why_bytes, "%s has no %s; it is not an OpenCL 1.2 loader", library,
                     ENTRIES[i].name);
            return false;
        }
        memcpy((char *)api + ENTRIES[i].offset, &symbol, sizeof symbol);
    }
    return true;
}
