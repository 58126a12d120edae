/* The largest batch that fits: what plans need is a line in the number of items, and the answer is tried
 * before it is given. See train.h. Covered by tests/train/test_train_run.c. */
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "train/need.h"
#include "train/train_internal.h"

enum { MOST = 128 };

static td_status try_size(td_trainer *t, uint32_t items, uint64_t *bytes)
{
    td_ready_step step = {0};
    const td_batch_shape shape = td_trainer_largest_shape(t, items);
    const td_status status = td_ready_open(t->model_memory, &t->s, &shape, &step);
    *bytes = status == TD_OK ? td_ready_bytes(&step) : 0;
    td_ready_close(&step);
    return status;
}

td_status td_trainer_find_batch_size(td_trainer *t, uint32_t *out)
{
    uint64_t bytes = 0;
    td_need need;
    char needed[TD_TEXT_FORMAT_BYTES], room[TD_TEXT_FORMAT_BYTES];
    const uint64_t all = td_device_get_info(t->device)->caps.memory_bytes;
    const uint64_t limit =
        t->s.model_limit_bytes > 0 ? t->s.model_limit_bytes : (uint64_t)(TD_MEMORY_SHARE * (double)all);
    TD_CHECK(td_run_need(t->model_memory, &t->s, td_trainer_largest_shape(t, 1), &need));
    uint32_t size = td_need_largest(&need, limit);
    if (size > MOST) size = MOST;
    if (size > t->data.dataset->n_train) size = (uint32_t)t->data.dataset->n_train;
    if (size > 8) size = size / 8 * 8;
    if (size == 0) size = 1;
    while (try_size(t, size, &bytes) != TD_OK) {
        TD_REFUSE_IF(size == 1, TD_ERR_LIMIT, "not even one item fits: %s", td_error_last()->message);
        size -= size > 8 ? 8 : 1;
    }
    td_text_format_bytes(bytes, needed);
    td_text_format_bytes(limit, room);
    td_log_info("batch size %u: its plan needs %s of %s", size, needed, room);
    *out = size;
    return TD_OK;
}
