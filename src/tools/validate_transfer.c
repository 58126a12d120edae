/* Group 4 of `tandem validate`: bytes from one device to the other, with proof that they arrived, at what
 * rate, while both devices compute.
 *
 * Proof: random bytes of the host go to the source device, through the channel, and back from the destination
 * device; only equal hashes pass. The rate stands beside that of memcpy measured in the same minute under the
 * same load, because a bare number says little on a busy machine. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/rng.h"
#include "base/stats.h"
#include "base/text.h"
#include "base/thread.h"
#include "device/dispatch.h"
#include "tandem/channel.h"
#include "tools/validate_internal.h"

#define LARGEST_BYTES (UINT64_C(64) << 20)
#define RING_BYTES (UINT64_C(16) << 20)
#define ROUNDS 5
#define ATTEMPTS 3 /* a busy machine may spoil one */
#define LEAST_RATE_RATIO 0.7
#define LOAD_MATRIX 64u /* small enough for the slowest CPU driver to finish in about a millisecond */

static const uint64_t SIZES[] = {4, UINT64_C(64) << 10, UINT64_C(1) << 20, UINT64_C(16) << 20, LARGEST_BYTES};

/* ---------------------------------------------------------------- load: both devices compute */

typedef struct compute_load {
    td_device *device;
    td_memory *memory;
    td_list *list;
    pthread_t thread;
    bool running;
    atomic_bool stop;
    atomic_uint_fast64_t rounds;
    td_error error;
} compute_load;

static void *compute_until_stopped(void *argument)
{
    compute_load *load = argument;
    td_queue *queue = td_device_queue(load->device, TD_QUEUE_COMPUTE);
    while (!atomic_load(&load->stop)) {
        td_point done;
        td_status status = td_queue_submit(queue, &(td_submission){.list = load->list}, &done);
        if (status == TD_OK) status = td_point_wait(done, TD_VALIDATE_PATIENCE_NS);
        if (status != TD_OK) {
            load->error = *td_error_last();
            break;
        }
        atomic_fetch_add(&load->rounds, 1);
    }
    return NULL;
}

static td_status start_load(td_device *device, compute_load *out)
{
    const uint64_t bytes = sizeof(float) * LOAD_MATRIX * LOAD_MATRIX;
    const td_matmul_params params = {.m = LOAD_MATRIX,
                                     .n = LOAD_MATRIX,
                                     .k = LOAD_MATRIX,
                                     .lda = LOAD_MATRIX,
                                     .ldb = LOAD_MATRIX,
                                     .ldc = LOAD_MATRIX};
    const td_cost cost = {.flops = 2.0 * LOAD_MATRIX * LOAD_MATRIX * LOAD_MATRIX};
    td_span spans[3];
    out->device = device;
    TD_CHECK(td_memory_create(device, "load", 0, &out->memory));
    TD_CHECK(td_list_create(device, TD_QUEUE_COMPUTE, &out->list));
    for (int i = 0; i < 3; i++)
        TD_CHECK(td_memory_alloc(out->memory, TD_MEMORY_DEVICE, bytes, &spans[i]));
    for (int i = 0; i < 2; i++)
        TD_CHECK(td_list_fill(out->list, spans[i], 0));
    TD_CHECK(td_list_dispatch(out->list, TD_K_matmul, spans, &params,
                              td_grid_matmul(td_device_class(device), LOAD_MATRIX, LOAD_MATRIX), cost));
    TD_CHECK(td_list_finish(out->list));
    TD_CHECK(td_thread_start(&out->thread, "the load", compute_until_stopped, out));
    out->running = true;
    return TD_OK;
}

/* Ends the load and returns its failure, if it had one. Never started is fine. */
static td_status stop_load(compute_load *load)
{
    if (load->running) {
        atomic_store(&load->stop, true);
        pthread_join(load->thread, NULL);
        load->running = false;
    }
    td_list_destroy(load->list);
    td_memory_destroy(load->memory);
    load->list = NULL;
    load->memory = NULL;
    return load->error.status == TD_OK ? TD_OK : td_error_adopt(&load->error);
}

/* ---------------------------------------------------------------- one direction */

typedef struct direction {
    td_device *devices[2]; /* source, destination */
    td_memory *memories[2];
    td_span hosts[2]; /* pinned: what is sent, what came back */
    td_channel *channel;
} direction;

static void close_direction(direction *way)
{
    td_channel_destroy(way->channel);
    td_memory_destroy(way->memories[1]);
    td_memory_destroy(way->memories[0]);
}

static td_status open_direction(td_device *source, td_device *destination, td_path path, uint64_t bytes,
                                direction *out)
{
    td_status status = TD_OK;
    *out = (direction){.devices = {source, destination}};
    for (int end = 0; end < 2; end++) {
        TD_TRY(td_memory_create(out->devices[end], end == 0 ? "data" : "model", 0, &out->memories[end]));
        TD_TRY(td_memory_alloc(out->memories[end], TD_MEMORY_HOST, bytes, &out->hosts[end]));
    }
    const td_channel_options options = {.path = path, .slots = 1};
    TD_TRY(td_channel_create(out->memories[0], out->memories[1], bytes, &options, &out->channel));
    return TD_OK;
fail:
    close_direction(out);
    *out = (direction){0};
    return status;
}

/* A copy on one device's copy queue, waited for. */
static td_status copy_now(td_device *device, td_span to, td_span from)
{
    td_list *list = NULL;
    td_point done;
    td_status status = TD_OK;
    TD_TRY(td_list_create(device, TD_QUEUE_COPY, &list));
    TD_TRY(td_list_copy(list, to, from));
    TD_TRY(td_list_finish(list));
    TD_TRY(td_queue_submit(td_device_queue(device, TD_QUEUE_COPY), &(td_submission){.list = list}, &done));
    TD_TRY(td_point_wait(done, TD_VALIDATE_PATIENCE_NS));
fail:
    td_list_destroy(list);
    return status;
}

static void fill_random(void *memory, uint64_t bytes, uint64_t stream)
{
    uint32_t *words = memory;
    for (uint64_t i = 0; i + 4 <= bytes / 4; i += 4)
        td_rng_block(2024, stream, i / 4, &words[i]);
    for (uint64_t i = bytes / 16 * 4; i < bytes / 4; i++)
        words[i] = td_rng_u32(2024, stream, i);
}

/* Sends `bytes` through the channel and compares hashes of the host's original and what came back. */
static td_status prove_arrival(const direction *way, uint64_t bytes, uint64_t stream)
{
    td_point arrived;
    void *sent = td_span_host(way->hosts[0]);
    void *came = td_span_host(way->hosts[1]);
    fill_random(sent, bytes, stream);
    memset(came, 0, bytes);
    TD_CHECK(copy_now(way->devices[0], td_span_part(td_channel_source(way->channel, 0), 0, bytes),
                      td_span_part(way->hosts[0], 0, bytes)));
    TD_CHECK(td_channel_send(way->channel, 0, bytes, (td_point){0}, (td_point){0}, &arrived));
    TD_CHECK(td_point_wait(arrived, TD_VALIDATE_PATIENCE_NS));
    TD_CHECK(copy_now(way->devices[1], td_span_part(way->hosts[1], 0, bytes),
                      td_span_part(td_channel_destination(way->channel, 0), 0, bytes)));
    const uint64_t expected = td_hash64(sent, bytes);
    const uint64_t got = td_hash64(came, bytes);
    TD_REFUSE_IF(expected != got, TD_ERR_INTEGRITY,
                 "%" PRIu64 " bytes arrived damaged: hash %016" PRIx64 " became %016" PRIx64, bytes, expected,
                 got);
    return TD_OK;
}

/* ---------------------------------------------------------------- rate */

typedef struct rate {
    double send_seconds, memcpy_seconds;
    uint64_t copied_bytes; /* per send */
} rate;

/* Sends and memcpys in turn, so that both meet the same load. */
static td_status measure_rate(const direction *way, uint64_t bytes, rate *out)
{
    double send_seconds[ROUNDS];
    double memcpy_seconds[ROUNDS];
    td_channel_stats before;
    td_channel_stats after;
    td_point arrived;
    td_channel_get_stats(way->channel, &before);
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t start_ns = td_clock_ns();
        TD_CHECK(td_channel_send(way->channel, 0, bytes, (td_point){0}, (td_point){0}, &arrived));
        TD_CHECK(td_point_wait(arrived, TD_VALIDATE_PATIENCE_NS));
        send_seconds[round] = 1e-9 * (double)(td_clock_ns() - start_ns);
        start_ns = td_clock_ns();
        memcpy(td_span_host(way->hosts[1]), td_span_host(way->hosts[0]), bytes);
        memcpy_seconds[round] = 1e-9 * (double)(td_clock_ns() - start_ns);
    }
    td_channel_get_stats(way->channel, &after);
    out->send_seconds = td_stats_of(send_seconds, ROUNDS).median;
    out->memcpy_seconds = td_stats_of(memcpy_seconds, ROUNDS).median;
    out->copied_bytes = (after.copied_bytes - before.copied_bytes) / ROUNDS;
    return TD_OK;
}

static td_status note_rate(td_validate_run_state *run, const char *name, const direction *way, uint64_t bytes)
{
    rate measured = {0};
    double ratio = 0;
    char copied[TD_TEXT_FORMAT_BYTES];
    char took[TD_TEXT_FORMAT_BYTES];
    for (int attempt = 0; attempt < ATTEMPTS && ratio < LEAST_RATE_RATIO; attempt++) {
        const td_status outcome = measure_rate(way, bytes, &measured);
        if (outcome != TD_OK) return td_validate_note_call(run, TD_VALIDATE_TRANSFER, outcome, name, "");
        ratio = measured.memcpy_seconds / measured.send_seconds;
    }
    const char *path = td_path_name(td_channel_get_path(way->channel));
    const bool fast = ratio >= LEAST_RATE_RATIO;
    const bool simulated = td_device_get_info(way->devices[0])->type == TD_DEVICE_SIM ||
                           td_device_get_info(way->devices[1])->type == TD_DEVICE_SIM;
    td_text_format_bytes(measured.copied_bytes, copied);
    td_text_format_duration(measured.send_seconds, took);
    if (measured.copied_bytes == 0) {
        return td_validate_note(run, TD_VALIDATE_TRANSFER, fast ? TD_CHECK_PASS : TD_CHECK_FAIL, name,
                                "path %s, used in place: 0 bytes copied, handed over in %s", path, took);
    }
    return td_validate_note(run, TD_VALIDATE_TRANSFER, fast ? TD_CHECK_PASS : TD_CHECK_FAIL, name,
                            "path %s, %s copied in %s, %.1f GB/s, %.2f of memcpy's rate%s%s", path, copied,
                            took, 1e-9 * (double)bytes / measured.send_seconds, ratio,
                            simulated ? ", simulated" : "",
                            fast ? "" : "; slower than expected, see docs/devices.md");
}

/* ---------------------------------------------------------------- the group */

static td_status check_direction(td_validate_run_state *run, int from, const char *arrow)
{
    direction way;
    char name[64];
    char detail[160];
    td_status status = TD_OK;
    if (open_direction(run->devices[from], run->devices[!from], TD_PATH_AUTO, LARGEST_BYTES, &way) != TD_OK)
        return td_validate_note_call(run, TD_VALIDATE_TRANSFER, td_error_last()->status, arrow, "");
    for (size_t i = 0; i < sizeof SIZES / sizeof SIZES[0]; i++) {
        char size[TD_TEXT_FORMAT_BYTES];
        td_text_format_bytes(SIZES[i], size);
        snprintf(name, sizeof name, "%s, %s", arrow, size);
        snprintf(detail, sizeof detail, "arrived unharmed by the path \"%s\"",
                 td_path_name(td_channel_get_path(way.channel)));
        TD_TRY(
            td_validate_note_call(run, TD_VALIDATE_TRANSFER, prove_arrival(&way, SIZES[i], i), name, detail));
    }
    snprintf(name, sizeof name, "%s, rate while both compute", arrow);
    TD_TRY(note_rate(run, name, &way, LARGEST_BYTES));
fail:
    close_direction(&way);
    return status;
}

/* The path that works between any two devices must work between these, whatever is used by default. */
static td_status check_ring(td_validate_run_state *run)
{
    direction way;
    td_status outcome = open_direction(run->devices[0], run->devices[1], TD_PATH_RING, RING_BYTES, &way);
    if (outcome == TD_OK) {
        outcome = prove_arrival(&way, RING_BYTES - 4, 77);
        if (outcome == TD_OK) outcome = td_channel_verify(way.channel, 0);
        close_direction(&way);
    }
    return td_validate_note_call(run, TD_VALIDATE_TRANSFER, outcome, "pinned ring, 16 MiB",
                                 "arrived unharmed in overlapped chunks");
}

static td_status check_load(td_validate_run_state *run, compute_load loads[2])
{
    td_status outcome = TD_OK;
    char detail[128];
    const uint64_t rounds[2] = {atomic_load(&loads[0].rounds), atomic_load(&loads[1].rounds)};
    for (int i = 0; i < run->n_roles; i++) {
        const td_status ended = stop_load(&loads[i]);
        if (outcome == TD_OK) outcome = ended;
    }
    snprintf(detail, sizeof detail, "%" PRIu64 " and %" PRIu64 " rounds of a matrix product meanwhile",
             rounds[0], run->n_roles == 2 ? rounds[1] : rounds[0]);
    return td_validate_note_call(run, TD_VALIDATE_TRANSFER, outcome, "both devices compute", detail);
}

td_status td_validate_transfer(td_validate_run_state *run)
{
    compute_load loads[2] = {{0}, {0}};
    td_status status = TD_OK;
    for (int i = 0; i < run->n_roles; i++)
        TD_TRY(start_load(run->opened[i], &loads[i]));
    TD_TRY(check_direction(run, 0, "data to model"));
    if (run->n_roles == 2) TD_TRY(check_direction(run, 1, "model to data"));
    TD_TRY(check_ring(run));
    TD_TRY(check_load(run, loads));
fail:
    for (int i = 0; i < 2; i++)
        (void)stop_load(&loads[i]);
    return status;
}
