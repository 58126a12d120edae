/* One case of the op suite on one device. Every buffer has guard words behind it, or ends with its memory for
 * a checker to see; outputs and scratch start as NaN; the recorded list is run twice from the same start, and
 * both results must have the same bits. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/backend.h"
#include "suite_internal.h"

#define GUARD_WORDS 64u
#define GUARD 0xDEADBEEFu
#define NAN_WORD 0x7fc00000u

/* The buffers of a case on the device, their image on the host, and the lists that move them. */
typedef struct stage {
    size_t n_guards;          /* words behind each buffer */
    td_span whole[OP_MAX_IO]; /* with guard words */
    td_span spans[OP_MAX_IO]; /* what the launch is given */
    size_t at[OP_MAX_IO];     /* first word of each buffer in the image */
    size_t n_words;
    td_span image;
    td_list *upload, *run, *download;
} stage;

static void start_image(const op_case *c, const stage *s, uint32_t *image)
{
    for (size_t i = 0; i < c->n_io; i++) {
        const op_io *io = &c->io[i];
        uint32_t *words = image + s->at[i];
        if (io->values)
            memcpy(words, io->values, 4 * io->count);
        else
            for (size_t w = 0; w < io->count; w++)
                words[w] = NAN_WORD;
        for (size_t w = 0; w < s->n_guards; w++)
            words[io->count + w] = GUARD;
    }
}

/* Memory of its own, or a range of what the bench shares among all. */
static td_status take_memory(const op_bench *b, td_memory_kind kind, uint64_t bytes, td_span *out)
{
    td_buffer *buffer = NULL;
    if (!b->is_checked) return td_memory_alloc(b->memory, kind, bytes, out);
    const td_status status = b->device->ops->buffer_create(b->device, kind, bytes, &buffer);
    if (status == TD_OK) *out = (td_span){.buffer = buffer, .bytes = bytes};
    return status;
}

static void return_memory(const op_bench *b, td_span span)
{
    if (!b->is_checked)
        td_memory_free(b->memory, span);
    else if (span.buffer)
        b->device->ops->buffer_destroy(span.buffer);
}

static td_status make_buffers(const op_bench *b, const op_case *c, stage *s)
{
    td_status status = TD_OK;
    s->n_guards = b->is_checked ? 0 : GUARD_WORDS;
    for (size_t i = 0; i < c->n_io; i++) {
        const size_t count = c->io[i].count ? c->io[i].count : 1; /* a span is never empty */
        s->at[i] = s->n_words;
        s->n_words += count + s->n_guards;
        TD_TRY(take_memory(b, TD_MEMORY_DEVICE, 4 * (count + s->n_guards), &s->whole[i]));
        s->spans[i] = td_span_part(s->whole[i], 0, 4 * count);
    }
    TD_TRY(take_memory(b, TD_MEMORY_HOST, 4 * s->n_words, &s->image));
fail:
    return status;
}

static td_status make_lists(const op_bench *b, const op_case *c, stage *s)
{
    td_status status = TD_OK;
    TD_TRY(td_list_create(b->device, TD_QUEUE_COMPUTE, &s->upload));
    TD_TRY(td_list_create(b->device, TD_QUEUE_COMPUTE, &s->run));
    TD_TRY(td_list_create(b->device, TD_QUEUE_COMPUTE, &s->download));
    for (size_t i = 0; i < c->n_io; i++) {
        const uint64_t bytes = s->whole[i].bytes;
        const td_span host = td_span_part(s->image, 4 * s->at[i], bytes);
        const td_span device = td_span_part(s->whole[i], 0, bytes);
        TD_TRY(td_list_copy(s->upload, device, host));
        TD_TRY(td_list_copy(s->download, host, device));
    }
    TD_TRY(c->launch(c, s->run, s->spans));
    TD_TRY(td_list_finish(s->upload));
    TD_TRY(td_list_finish(s->run));
    TD_TRY(td_list_finish(s->download));
fail:
    return status;
}

static void close_stage(const op_bench *b, const op_case *c, stage *s)
{
    td_list_destroy(s->upload);
    td_list_destroy(s->run);
    td_list_destroy(s->download);
    for (size_t i = 0; i < c->n_io; i++)
        return_memory(b, s->whole[i]);
    return_memory(b, s->image);
}

static td_status submit(const op_bench *b, td_list *list, td_point *reached)
{
    return td_queue_submit(td_device_queue(b->device, TD_QUEUE_COMPUTE), &(td_submission){.list = list},
                           reached);
}

/* From the start to the words after the run, in the image. */
static td_status run_once(const op_bench *b, const op_case *c, const stage *s)
{
    td_point done = {0};
    td_status status = TD_OK;
    start_image(c, s, td_span_host(s->image));
    TD_TRY(submit(b, s->upload, NULL));
    TD_TRY(submit(b, s->run, NULL));
    TD_TRY(submit(b, s->download, &done));
    TD_TRY(td_point_wait(done, TD_WAIT_FOREVER));
fail:
    return status;
}

static void note_launched(const td_list *list, op_result *result)
{
    for (size_t i = 0; i < list->n_commands; i++) {
        if (list->commands[i].kind != TD_COMMAND_DISPATCH) continue;
        for (int id = 0; id < TD_KERNEL_COUNT; id++)
            if (td_kernel_get((td_kernel_id)id) == list->commands[i].kernel) result->launched[id] = true;
    }
}

/* ---------------------------------------------------------------- judging */

#define FAIL_WITH(result, ...)                                                                               \
    do {                                                                                                     \
        (result)->verdict = OP_FAIL;                                                                         \
        snprintf((result)->message, sizeof(result)->message, __VA_ARGS__);                                   \
    } while (0)

static void judge_words(const op_io *io, const uint32_t *got, op_result *result)
{
    size_t wrong = 0, first = 0;
    for (size_t w = 0; w < io->count; w++) {
        if (got[w] == io->words[w]) continue;
        if (wrong++ == 0) first = w;
    }
    if (wrong)
        FAIL_WITH(result, "%s[%zu] is %08x, should be %08x; %zu of %zu are wrong", io->name, first,
                  got[first], io->words[first], wrong, io->count);
}

/* Error as a share of what is allowed; an infinity or NaN must be there as expected. */
static double error_of(const op_io *io, size_t w, float got)
{
    const double expected = io->expected[w];
    if ((double)got == expected || (isnan(got) && isnan(expected))) return 0;
    const double error = fabs((double)got - expected) / (io->atol + io->rtol * fabs(expected));
    return isnan(error) ? INFINITY : error;
}

static void judge_floats(const op_io *io, const uint32_t *words, op_result *result)
{
    size_t wrong = 0, worst = 0;
    double most = 0;
    for (size_t w = 0; w < io->count; w++) {
        float got;
        memcpy(&got, &words[w], 4);
        const double error = error_of(io, w, got);
        wrong += !(error <= 1);
        if (error > most) {
            most = error;
            worst = w;
        }
    }
    if (most > result->error) result->error = most;
    if (!wrong) return;
    float got;
    memcpy(&got, &words[worst], 4);
    FAIL_WITH(result, "%s[%zu] is %.9g, should be %.9g: %.3g of what is allowed; %zu of %zu are wrong",
              io->name, worst, (double)got, io->expected[worst], most, wrong, io->count);
}

static void judge_io(const op_io *io, const uint32_t *words, size_t n_guards, op_result *result)
{
    for (size_t w = 0; w < n_guards; w++) {
        if (words[io->count + w] == GUARD) continue;
        FAIL_WITH(result, "word %zu behind %s was written", w, io->name);
        return;
    }
    if (io->kind == OP_IN && memcmp(words, io->values, 4 * io->count) != 0)
        FAIL_WITH(result, "input %s was changed", io->name);
    else if (io->words)
        judge_words(io, words, result);
    else if (io->expected)
        judge_floats(io, words, result);
}

/* Scratch may hold anything, but within its bounds. */
static bool is_same(const op_case *c, const stage *s, const uint32_t *first, const uint32_t *second)
{
    for (size_t i = 0; i < c->n_io; i++)
        if (c->io[i].kind != OP_SCRATCH &&
            memcmp(first + s->at[i], second + s->at[i], 4 * c->io[i].count) != 0)
            return false;
    return true;
}

static void give_up(td_status status, op_result *result)
{
    result->verdict = status == TD_ERR_UNSUPPORTED ? OP_SKIP : OP_FAIL;
    snprintf(result->message, sizeof result->message, "%s: %.220s", td_status_name(status),
             td_error_last()->message);
}

void op_run_case(const op_bench *b, const op_case *c, op_result *result)
{
    stage s = {0};
    uint32_t *first = NULL;
    td_status status = TD_OK;
    *result = (op_result){.verdict = OP_PASS};
    TD_TRY(make_buffers(b, c, &s));
    TD_TRY(make_lists(b, c, &s));
    note_launched(s.run, result);
    TD_TRY(td_alloc_zeroed(s.n_words, 4, &first));
    TD_TRY(run_once(b, c, &s));
    memcpy(first, td_span_host(s.image), 4 * s.n_words);
    for (size_t i = 0; i < c->n_io && result->verdict == OP_PASS; i++)
        judge_io(&c->io[i], first + s.at[i], s.n_guards, result);
    TD_TRY(run_once(b, c, &s));
    if (result->verdict == OP_PASS && !is_same(c, &s, first, td_span_host(s.image)))
        FAIL_WITH(result, "the second run gives other bits");
fail:
    if (status != TD_OK) give_up(status, result);
    free(first);
    close_stage(b, c, &s);
}
