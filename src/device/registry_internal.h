/* The registry as the device layer's own files see it. */
#ifndef TD_DEVICE_REGISTRY_INTERNAL_H
#define TD_DEVICE_REGISTRY_INTERNAL_H

#include "device/backend.h"

struct td_registry {
    td_info_list infos; /* visible real devices by index, hidden ones, simulated ones */
    size_t n_visible;
    size_t n_real; /* visible and hidden */
    td_api_report reports[TD_API_COUNT];
    void *states[TD_API_COUNT];
    td_blob_cache *cache; /* owned */
};

const td_backend *td_registry_backend(td_api api);

#endif
