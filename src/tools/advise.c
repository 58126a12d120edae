/* See advise.h. */
#include "tools/advise.h"

#include "base/error.h"
#include "base/text.h"

enum { USUAL_PREFETCH = 8, LEAST_BUFFER = 2 };

#define GIB ((double)(UINT64_C(1) << 30))
#define MIB (UINT64_C(1) << 20)

/* Memory is taken from a device in blocks, so a role holds somewhat more than it uses. */
static const double BLOCKS = 1.1;
static const uint64_t BLOCK_BYTES = 128 * MIB;

/* What usually trains well on a device of this memory: train's own defaults. */
static uint32_t by_memory(const td_device_info *device, uint32_t small, uint32_t usual, uint32_t large)
{
    const double gib = (double)device->caps.memory_bytes / GIB;
    return gib < 12 ? small : gib < 24 ? usual : large;
}

static uint64_t usable_bytes(const td_device_info *device)
{
    return (uint64_t)(TD_MEMORY_SHARE * (double)device->caps.memory_bytes);
}

static td_status measure_ways(const td_advice_request *request, td_advice *out)
{
    td_planner planner;
    td_train_settings s = *request->settings;
    td_status status = TD_OK;
    s.prefetch_size = out->prefetch_size;
    s.state = out->state;
    s.host_moments = out->host_moments;
    TD_TRY(td_planner_open(NULL, &planner));
    for (size_t i = 0; i < TD_ADVICE_WAYS; ++i) {
        td_advice_way *way = &out->ways[i];
        way->bf16 = i & 1;
        s.plan.half = way->bf16 ? TD_BF16 : TD_F32;
        s.plan.checkpoint = way->checkpoint = i >> 1 & 1;
        TD_TRY(td_run_need(planner.memory, &s, out->shape, &way->need));
        way->largest_batch = td_need_largest(&way->need, usable_bytes(request->model));
    }
fail:
    td_planner_close(&planner);
    return status;
}

/* The least means that reach the wanted batch; else those that come nearest. A CPU gains nothing from half
 * the memory traffic that it has to unpack again, so there it is not the first choice. */
static size_t choose_way(const td_advice *advice, const td_device_info *model, uint32_t wanted)
{
    static const size_t ON_GPU[] = {1, 3, 2}, ON_CPU[] = {0, 1, 2, 3};
    const bool is_cpu = model->type == TD_DEVICE_CPU;
    const size_t *order = is_cpu ? ON_CPU : ON_GPU;
    const size_t n = is_cpu ? 4 : 3;
    size_t best = order[n - 1];
    for (size_t i = 0; i < n; ++i) {
        if (advice->ways[order[i]].largest_batch > advice->ways[best].largest_batch) best = order[i];
        if (advice->ways[order[i]].largest_batch >= wanted) return order[i];
    }
    return best;
}

/* Updates of several batches keep all gradients where those of one may not. */
static td_status check_accumulation(const td_advice_request *request, td_advice *out)
{
    td_planner planner;
    td_train_settings s = *request->settings;
    td_need need;
    td_status status = TD_OK;
    const td_advice_way *way = &out->ways[out->chosen];
    if (out->grad_accum <= 1 || !td_run_updates_in_backward(&s, 1)) return TD_OK;
    s.prefetch_size = out->prefetch_size;
    s.state = out->state;
    s.host_moments = out->host_moments;
    s.plan.half = way->bf16 ? TD_BF16 : TD_F32;
    s.plan.checkpoint = way->checkpoint;
    s.grad_accum = out->grad_accum;
    TD_TRY(td_planner_open(NULL, &planner));
    TD_TRY(td_run_need(planner.memory, &s, out->shape, &need));
    if (td_need_bytes(&need, out->batch_size) > out->model_limit_bytes)
        out->grad_accum = 1;
    else
        out->model_bytes = td_need_bytes(&need, out->batch_size);
fail:
    td_planner_close(&planner);
    return status;
}

static td_status set_batch(const td_advice_request *request, td_advice *out)
{
    const uint32_t wanted =
        request->wanted_batch > 0 ? request->wanted_batch : by_memory(request->model, 16, 32, 48);
    char need[TD_TEXT_FORMAT_BYTES], room[TD_TEXT_FORMAT_BYTES];
    out->chosen = choose_way(out, request->model, wanted);
    const td_advice_way *way = &out->ways[out->chosen];
    out->model_limit_bytes = usable_bytes(request->model);
    td_text_format_bytes(td_need_bytes(&way->need, 1), need);
    td_text_format_bytes(out->model_limit_bytes, room);
    TD_REFUSE_IF(
        way->largest_batch == 0, TD_ERR_LIMIT,
        "not even one row of %u frames fits: it needs %s of the %s that %s may use; choose a smaller "
        "model.model_size or data.max_mel_frames",
        out->shape.frames, need, room, request->model->name);
    out->batch_size = wanted < way->largest_batch ? wanted : way->largest_batch;
    out->grad_accum = (wanted + out->batch_size / 2) / out->batch_size;
    out->model_bytes = td_need_bytes(&way->need, out->batch_size);
    out->shape.items = out->batch_size;
    return check_accumulation(request, out);
}

static bool fits(const td_advice *advice)
{
    for (size_t i = 0; i < TD_ADVICE_WAYS; ++i)
        if (advice->ways[i].largest_batch > 0) return true;
    return false;
}

/* Moments as the settings say; where not one row fits beside them, in 8 bits, then in the host's memory. */
static td_status measure_states(const td_advice_request *request, td_advice *out)
{
    TD_CHECK(measure_ways(request, out));
    if (!fits(out) && out->state != TD_STATE_INT8) {
        out->state = TD_STATE_INT8;
        TD_CHECK(measure_ways(request, out));
    }
    if (!fits(out) && !out->host_moments) {
        out->host_moments = true;
        TD_CHECK(measure_ways(request, out));
    }
    return TD_OK;
}

/* As many batches ahead as is usual and fits. With one device the model role's rooms are the buffer. */
static td_status set_buffer(const td_advice_request *request, td_advice *out)
{
    const uint64_t limit = usable_bytes(request->data);
    td_train_settings s = *request->settings;
    char need[TD_TEXT_FORMAT_BYTES], room[TD_TEXT_FORMAT_BYTES];
    s.prefetch_size = out->prefetch_size;
    out->buffer_size = by_memory(request->model, 25, 50, 100);
    if (out->is_single) return TD_OK;
    double batch_bytes = 0;
    uint64_t least_bytes = 0;
    TD_CHECK(td_run_batch_bytes(&s, &out->shape, &batch_bytes));
    TD_CHECK(td_planner_data_bytes(&s, &out->shape, LEAST_BUFFER, false, &least_bytes));
    const double least = BLOCKS * (double)least_bytes + (double)BLOCK_BYTES;
    td_text_format_bytes((uint64_t)least, need);
    td_text_format_bytes(limit, room);
    TD_REFUSE_IF(least > (double)limit, TD_ERR_LIMIT,
                 "the data role needs %s of the %s that %s may use; leave the data device out, or lower "
                 "training.batch_size",
                 need, room, request->data->name);
    const double more = ((double)limit - least) / (BLOCKS * batch_bytes);
    if (more < out->buffer_size - LEAST_BUFFER) out->buffer_size = LEAST_BUFFER + (uint32_t)more;
    TD_CHECK(td_planner_data_bytes(&s, &out->shape, out->buffer_size, false, &out->data_bytes));
    out->data_limit_bytes = (uint64_t)(BLOCKS * (double)out->data_bytes) + BLOCK_BYTES;
    return TD_OK;
}

td_status td_advise(const td_advice_request *request, td_advice *out)
{
    *out = (td_advice){.is_single = request->data == request->model,
                       .prefetch_size = USUAL_PREFETCH,
                       .state = request->settings->state,
                       .host_moments = request->settings->host_moments,
                       .shape = td_run_shape(request->settings, request->longest)};
    TD_CHECK(measure_states(request, out));
    TD_CHECK(set_batch(request, out));
    return set_buffer(request, out);
}
