/* The cache on disk that a device keeps what it built in, for who keeps what was computed on it. Implemented in
 * device.c; covered by tests/xtts/test_xtts_parts.c. */
#ifndef TD_DEVICE_CACHE_H
#define TD_DEVICE_CACHE_H

#include "base/blob_cache.h"
#include "tandem/device.h"

td_blob_cache *td_device_cache(const td_device *device); /* borrowed until the device is closed */

#endif
