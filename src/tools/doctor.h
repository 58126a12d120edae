/* A look at what the computer offers for computing: loaders, drivers, graphics cards without a driver,
 * permissions, libraries that are optional, caches; and for what is missing, the package to install. Opens no
 * device and prints nothing. Covered by tests/cli/test_doctor.py.
 */
#ifndef TD_TOOLS_DOCTOR_H
#define TD_TOOLS_DOCTOR_H

#include <stdbool.h>
#include <stddef.h>

#include "tandem/device.h"

typedef enum td_finding_status {
    TD_FINDING_OK,
    TD_FINDING_NOTE,    /* works without it */
    TD_FINDING_PROBLEM, /* something that is there cannot be used */
} td_finding_status;

typedef struct td_finding {
    const char *group; /* "program", "opencl", "vulkan", "graphics cards", "devices", "libraries", "caches" */
    char name[128];
    td_finding_status status;
    char detail[512];
    char advice[256];   /* what to do; "" when all is well */
    char packages[128]; /* Debian's names, separated by spaces; "" for none */
} td_finding;

typedef struct td_diagnosis {
    td_finding *findings; /* owned */
    size_t count, capacity;
    size_t n_usable; /* devices that can compute; simulated ones do not count */
    size_t n_problems;
} td_diagnosis;

/* Everything is borrowed during the call. */
typedef struct td_doctor_request {
    const td_registry *registry;
    const char *cache_dir; /* NULL: the usual one */
    const char *root;      /* "", or the folder that stands for / (TANDEM_SYSTEM_ROOT, for tests) */
} td_doctor_request;

/* Fails only when memory runs out. *out is owned: td_diagnosis_clear(), also after a failure. */
td_status td_doctor_run(const td_doctor_request *request, td_diagnosis *out);
void td_diagnosis_clear(td_diagnosis *diagnosis);

#endif
