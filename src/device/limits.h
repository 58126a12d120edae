/* What a device must be able to do before any kernel is given to it: judged once, when devices are listed, so that a
 * device that is too small is named with its numbers and never fails in the middle of work. Covered by
 * tests/device/test_limits.c. */
#ifndef TD_DEVICE_LIMITS_H
#define TD_DEVICE_LIMITS_H

#include "tandem/device.h"

/* Makes a usable device unusable, with the reason, where a kernel of its class would not fit; gpu_kernels is set. */
void td_limits_judge(td_device_info *info);

#endif
