/* Resolves the data and model roles, see roles.h. The rules for pairs are here, those for selectors in the
 * device layer. Covered by tests/unit/test_roles.c.
 */
#include "pipeline/roles.h"

#include <stdio.h>

#include "base/error.h"
#include "base/log.h"

static bool is_given(const char *selector)
{
    return selector && *selector;
}

/* A selector that leads nowhere is a fault of the configuration; the registry's message says why. */
static td_status find_device(const td_registry *registry, const char *role, const char *selector,
                             const td_device_info **out)
{
    if (td_registry_select(registry, selector, out) == TD_OK) return TD_OK;
    return TD_FAIL(TD_ERR_CONFIG, "%s device: %s", role, td_error_last()->message);
}

/* CPU drivers share the cores by nature and pair freely; simulated devices are no silicon at all. */
static bool has_own_silicon(const td_device_info *info)
{
    return info->type != TD_DEVICE_CPU && info->type != TD_DEVICE_SIM;
}

static td_status check_pair(const td_device_info *data, const td_device_info *model)
{
    static const char ADVICE[] =
        "choose two of `tandem devices`, leave the data device out for single-device mode, "
        "or set devices.allow_same_device";
    if (data == model) {
        return TD_FAIL(TD_ERR_CONFIG, "data and model are the same device %s (%s); %s", data->selector,
                       data->name, ADVICE);
    }
    if (has_own_silicon(data) && has_own_silicon(model) && data->phys_group == model->phys_group) {
        return TD_FAIL(TD_ERR_CONFIG,
                       "data (%s) and model (%s) are two handles of one physical device, %s; %s",
                       data->selector, model->selector, data->name, ADVICE);
    }
    return TD_OK;
}

static void log_role(const char *role, const td_device_info *info)
{
    char index[64] = "simulated device";
    if (info->index >= 0)
        snprintf(index, sizeof index, "device %d (given index %d)", info->index, info->given_index);
    td_log_info("%s role: %s, %s, %s", role, index, info->selector, info->name);
}

/* Whether no device before it is the same silicon under another driver. */
static bool is_first_of_group(const td_registry *registry, size_t position)
{
    const td_device_info *info = td_registry_info(registry, position);
    for (size_t i = 0; i < position; ++i) {
        const td_device_info *other = td_registry_info(registry, i);
        if (other->usable && other->type == info->type && other->phys_group == info->phys_group) return false;
    }
    return true;
}

/* The device that the process of this number takes where all take one like `best`: those of its type in turn,
 * beginning with `best`. */
static const td_device_info *take_turn(const td_registry *registry, const td_device_info *best,
                                       uint32_t number)
{
    const size_t count = td_registry_count(registry);
    size_t n_alike = 0, own = 0;
    for (size_t i = 0; i < count; ++i) {
        const td_device_info *info = td_registry_info(registry, i);
        if (!info->usable || info->type != best->type || !is_first_of_group(registry, i)) continue;
        if (info->phys_group == best->phys_group) own = n_alike;
        ++n_alike;
    }
    if (n_alike < 2) return best;
    const size_t wanted = (own + number) % n_alike;
    if (wanted == own) return best;
    for (size_t i = 0, at = 0; i < count; ++i) {
        const td_device_info *info = td_registry_info(registry, i);
        if (!info->usable || info->type != best->type || !is_first_of_group(registry, i)) continue;
        if (at++ == wanted) return info;
    }
    return best;
}

td_status td_roles_resolve(const td_registry *registry, const td_roles_request *request, td_roles *out)
{
    td_roles roles = {.mode = TD_ROLES_SINGLE};
    const bool has_data = is_given(request->data_device), has_model = is_given(request->model_device);
    TD_REFUSE_IF(has_data && !has_model, TD_ERR_CONFIG,
                 "a data device ('%s') was given without a model device; set devices.model too",
                 request->data_device);
    if (has_model)
        TD_CHECK(find_device(registry, "model", request->model_device, &roles.model));
    else
        TD_CHECK(td_registry_select(registry, "any", &roles.model));
    if (!has_model) roles.model = take_turn(registry, roles.model, request->local_rank);
    roles.data = roles.model;
    if (has_data) {
        TD_CHECK(find_device(registry, "data", request->data_device, &roles.data));
        if (!request->allow_same) TD_CHECK(check_pair(roles.data, roles.model));
        roles.mode = TD_ROLES_TWO_DEVICE;
    }
    log_role("data", roles.data);
    log_role("model", roles.model);
    *out = roles;
    return TD_OK;
}

const char *td_roles_mode_name(td_role_mode mode)
{
    return mode == TD_ROLES_TWO_DEVICE ? "two-device" : "single-device";
}
