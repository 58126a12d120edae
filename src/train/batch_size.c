/* The largest batch that fits: plans of two sizes are made for the longest shape, what they need is a line
 * in the number of items, and the answer is tried before it is given. See train.h. Covered by
 * tests/train/test_train_run.c. */
#include <stdlib.h>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "train/train_internal.h"

enum { SMALL = 2, LARGE = 4, MOST = 128 };

/* Share of the memory that plans may take: the rest is for batches, the driver and the user's desktop. */
static const double SHARE = 0.7;

static td_status measure(td_trainer *t, uint32_t items, uint64_t *bytes)
{
    td_status status = TD_OK;
    td_plans *plans = NULL;
    td_shaped_plan *shaped;
    td_plan_stats stats;
    const td_model_shape shape = td_trainer_largest_shape(t, items);
    const td_plans_settings settings = {.memory = t->model_memory,
                                        .model = t->info.model,
                                        .losses = t->s.losses,
                                        .grad_accum = t->s.grad_accum,
                                        .average = t->s.average,
                                        .plan = t->s.plan,
                                        .n_slots = 1};
    TD_TRY(td_plans_create(&settings, &shape, &plans));
    TD_TRY(td_plans_get(plans, TD_USE_TRAIN, &shape, &shaped));
    td_plan_get_stats(shaped->plan, &stats);
    *bytes = stats.arena_bytes + stats.store_bytes;
fail:
    td_plans_destroy(plans);
    return status;
}

td_status td_trainer_find_batch_size(td_trainer *t, uint32_t *out)
{
    td_status status = TD_OK;
    uint64_t small, large, bytes = 0;
    char need[TD_TEXT_FORMAT_BYTES], room[TD_TEXT_FORMAT_BYTES];
    const uint64_t all = td_device_get_info(t->device)->caps.memory_bytes;
    const uint64_t limit =
        t->s.model_limit_bytes > 0 ? t->s.model_limit_bytes : (uint64_t)(SHARE * (double)all);
    TD_TRY(measure(t, SMALL, &small));
    TD_TRY(measure(t, LARGE, &large));
    const double per_item = large > small ? (double)(large - small) / (LARGE - SMALL) : 1;
    const double fixed = (double)small - SMALL * per_item;
    double fits = ((double)limit - fixed) / per_item;
    if (fits > MOST) fits = MOST;
    if (fits > (double)t->data.dataset->n_train) fits = (double)t->data.dataset->n_train;
    uint32_t size = fits > 1 ? (uint32_t)fits : 1;
    if (size > 8) size = size / 8 * 8;
    while (measure(t, size, &bytes) != TD_OK) {
        TD_FAIL_IF(size == 1, TD_ERR_LIMIT, "not even one item fits: %s", td_error_last()->message);
        size -= size > 8 ? 8 : 1;
    }
    td_text_format_bytes(bytes, need);
    td_text_format_bytes(limit, room);
    td_log_info("batch size %u: its plan needs %s of %s", size, need, room);
    *out = size;
fail:
    return status;
}
