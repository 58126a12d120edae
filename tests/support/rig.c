/* See rig.h. */
#include "support/rig.h"

#include <stdlib.h>
#include <string.h>

bool missing_is_allowed(void)
{
    const char *allow = getenv("TANDEM_TEST_ALLOW_MISSING");
    return allow && strcmp(allow, "1") == 0;
}

static void open_registry(rig *out, bool gpu_kernels)
{
    td_registry_options options;
    *out = (rig){0};
    td_registry_options_from_env(&options);
    options.gpu_kernels = gpu_kernels;
    check(td_registry_open(&options, &out->registry));
}

static void open_device(rig *out, const char *selector, uint64_t limit_bytes)
{
    const td_device_info *info = NULL;
    check(td_registry_select(out->registry, selector, &info));
    check(td_device_open(out->registry, info, &out->device));
    check(td_memory_create(out->device, "model", limit_bytes, &out->memory));
}

bool rig_open(rig *out, rig_kind kind, uint64_t limit_bytes)
{
    const char *selector = kind == RIG_VK ? LAVAPIPE_SELECTOR : POCL_SELECTOR;
    const td_device_info *info = NULL;
    open_registry(out, kind == RIG_CL_GPU);
    if (missing_is_allowed() && td_registry_select(out->registry, selector, &info) != TD_OK) {
        print_message("    %s is not there\n", selector);
        td_registry_close(out->registry);
        return false;
    }
    open_device(out, selector, limit_bytes);
    return true;
}

void rig_open_on(rig *out, const char *selector, bool gpu_kernels, uint64_t limit_bytes)
{
    open_registry(out, gpu_kernels);
    open_device(out, selector, limit_bytes);
}

void rig_close(rig *r)
{
    td_memory_destroy(r->memory);
    td_device_close(r->device);
    assert_int_equal(td_registry_validation_messages(r->registry), 0);
    td_registry_close(r->registry);
    *r = (rig){0};
}
