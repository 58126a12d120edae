/* One device, opened as a test wants it. */
#ifndef TD_TESTS_SUPPORT_RIG_H
#define TD_TESTS_SUPPORT_RIG_H

#include <stdbool.h>

#include "support/expect.h"
#include "tandem/device.h"
#include "tandem/memory.h"

#define POCL_SELECTOR "cl:portable-computing-language.0"
#define LAVAPIPE_SELECTOR "vk:llvmpipe.0"

/* PoCL and lavapipe must be there for the tests, unless TANDEM_TEST_ALLOW_MISSING=1. */
bool missing_is_allowed(void);

/* PoCL with its own kernels, PoCL with those of GPUs, lavapipe. */
typedef enum rig_kind { RIG_CL_CPU, RIG_CL_GPU, RIG_VK, RIG_KINDS } rig_kind;

typedef struct rig {
    td_registry *registry;
    td_device *device;
    td_memory *memory;
} rig;

/* False: not there, and allowed not to be. limit_bytes 0: none. */
bool rig_open(rig *out, rig_kind kind, uint64_t limit_bytes);

/* The selected device, which must be there. */
void rig_open_on(rig *out, const char *selector, bool gpu_kernels, uint64_t limit_bytes);
void rig_close(rig *r);

#endif
