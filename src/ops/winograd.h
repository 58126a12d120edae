/* Convolutions of one dimension with fewer products, for devices with wide vectors (kernels/winograd.kh): a way of
 * ops/conv.h, which asks here. Covered by tests/ops/cases_conv.c.
 */
#ifndef TD_OPS_WINOGRAD_H
#define TD_OPS_WINOGRAD_H

#include "ops/conv.h"

/* Whether it can be done so on this device; and whether it is the quicker way there. No zeros in `conv` mean one. */
bool td_winograd_can(const td_conv *conv, td_device *device);
bool td_winograd_pays(const td_conv *conv, td_device *device);

/* Words of scratch: the transformed weights. */
uint64_t td_winograd_words(const td_conv *conv, td_device *device);

/* Records it; `args->workspace` has so many words. */
td_status td_winograd_record(td_list *list, const td_conv_args *args);

#endif
