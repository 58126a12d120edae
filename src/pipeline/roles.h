/* Roles: which device decodes and batches (data) and which one trains (model). Resolves what the user asked
 * for, or chooses; opens nothing. Each refusal names the device and the next step. Covered by
 * tests/unit/test_roles.c.
 */
#ifndef TD_PIPELINE_ROLES_H
#define TD_PIPELINE_ROLES_H

#include "tandem/device.h"

typedef enum td_role_mode {
    TD_ROLES_TWO_DEVICE, /* two different devices, or one twice with allow_same */
    TD_ROLES_SINGLE,     /* both roles on the model device, buffered */
} td_role_mode;

/* Borrowed until the registry closes. In single-device mode data == model; neither is ever NULL. */
typedef struct td_roles {
    td_role_mode mode;
    const td_device_info *data;
    const td_device_info *model;
} td_roles;

/* Selectors as td_registry_select() takes them (an index is one); NULL or "": not given. */
typedef struct td_roles_request {
    const char *data_device;
    const char *model_device;
    bool allow_same; /* one device, or two handles of one GPU, in both roles */
    uint32_t
        local_rank; /* of several processes on this computer: each takes another device, if none is given */
} td_roles_request;

/* Both given: two-device mode. Only a model device, or none ("any": the best usable one, never a simulated
 * one, and for further processes the next of its type on silicon of its own): single-device mode. A wrong request is TD_ERR_CONFIG; no usable device at all is TD_ERR_NOT_FOUND.
 * Logs one line per role with the device's index before and after TANDEM_VISIBLE_DEVICES. */
td_status td_roles_resolve(const td_registry *registry, const td_roles_request *request, td_roles *out);

/* "two-device", "single-device". */
const char *td_roles_mode_name(td_role_mode mode);

#endif
