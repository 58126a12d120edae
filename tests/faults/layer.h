/* Layers between the backends and their drivers, made from cl_api.def and vk_api.def: each call counts as a
 * point of the walk, and fails when walk_fails() says so. Calls that give something back, or wait for the
 * device to be idle, are made first and then reported as failed, as a driver in trouble would. */
#ifndef TD_TESTS_LAYER_H
#define TD_TESTS_LAYER_H

#include "tandem/device.h"

/* For td_registry_options.hooks. */
extern const struct td_registry_hooks FAULT_LAYERS;

void layer_wrap_opencl(void *cl_api);
void layer_wrap_vulkan(void *vk_api);

#endif
