/* The self-test of a device: does it compute right, and which optional features can be trusted? Run before
 * first use, remembered per driver version, so a device pays for it once. Covered by
 * tests/device/test_selftest.c. */
#ifndef TD_DEVICE_SELFTEST_H
#define TD_DEVICE_SELFTEST_H

#include "device/backend.h"

/* Applies a remembered verdict to an info: switches off what failed, marks a device that computes wrongly
 * as unusable, each with the reason. Does nothing where there is no verdict. Cannot fail. */
void td_selftest_recall(td_blob_cache *cache, td_device_info *info);

/* Tests the device unless its info holds a verdict. A device that computes wrongly is TD_ERR_UNSUPPORTED with
 * the test's name; a failed optional feature is switched off in device->info.caps and logged. */
td_status td_selftest_ensure(td_device *device);

#endif
