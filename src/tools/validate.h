/* Checks on a pair of devices in five groups: prerequisites, placement, model, transfer, pipeline. Says what
 * holds and what does not; prints nothing (src/cli/cmd_validate.c does). Covered by tests/cli/test_cli.py.
 */
#ifndef TD_TOOLS_VALIDATE_H
#define TD_TOOLS_VALIDATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pipeline/roles.h"
#include "tandem/device.h"

typedef enum { TD_CHECK_PASS, TD_CHECK_FAIL, TD_CHECK_SKIP } td_check_status;

typedef struct td_check {
    char name[64];
    td_check_status status;
    char detail[512];
} td_check;

typedef struct td_check_group {
    char name[32];
    td_check *checks; /* owned */
    size_t count, capacity;
} td_check_group;

#define TD_VALIDATE_GROUPS 5

typedef struct td_validation {
    td_check_group groups[TD_VALIDATE_GROUPS];
    uint32_t passed, failed, skipped;
    uint64_t kernel_builds; /* kernels built from source during the run; 0 when all came from the cache */
} td_validation;

/* Everything is borrowed during the call. */
typedef struct td_validate_request {
    td_registry *registry;
    const td_roles *roles;
    const char *root; /* NULL, or the folder that stands for / */
    bool isolation;   /* enforce the limits below */
    uint64_t data_limit_bytes, model_limit_bytes;
    void (*on_check)(void *context, const td_check_group *group,
                     const td_check *check); /* as each ends; or NULL */
    void *context;
} td_validate_request;

/* Fails only if the checks could not be run; a check that fails is a result. *out is owned:
 * td_validation_clear(), also after a failure. */
td_status td_validate_run(const td_validate_request *request, td_validation *out);
void td_validation_clear(td_validation *validation);

#endif
