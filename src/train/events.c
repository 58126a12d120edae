/* See events.h. The formats: TFRecord is u64 length, its masked CRC, data, its masked CRC; the messages are
 * tensorflow.Event (1 wall_time, 2 step, 3 file_version, 5 summary, 7 session_log) and Summary.Value (1 tag,
 * 2 simple_value, 4 image, 6 audio), all numbers little-endian. */
#include "train/events.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "audio/encode.h"
#include "base/error.h"
#include "base/file.h"

enum { SESSION_START = 1, RGB = 3 };

struct td_events {
    FILE *file;
    pthread_mutex_t lock;
    char path[TD_FILE_PATH_BYTES];
};

/* ---------------------------------------------------------------- records */

uint32_t td_events_crc(const void *data, size_t bytes)
{
    const uint8_t *from = data;
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < bytes; ++i) {
        crc ^= from[i];
        for (int bit = 0; bit < 8; ++bit)
            crc = crc >> 1 ^ (UINT32_C(0x82F63B78) & (0U - (crc & 1U)));
    }
    return ~crc;
}

static uint32_t mask(uint32_t crc)
{
    return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

static td_status write_record(td_events *events, const void *data, size_t bytes)
{
    const uint64_t length = bytes;
    const uint32_t crcs[2] = {mask(td_events_crc(&length, sizeof length)), mask(td_events_crc(data, bytes))};
    pthread_mutex_lock(&events->lock);
    fwrite(&length, sizeof length, 1, events->file);
    fwrite(&crcs[0], sizeof crcs[0], 1, events->file);
    fwrite(data, 1, bytes, events->file);
    fwrite(&crcs[1], sizeof crcs[1], 1, events->file);
    const int cause = errno;
    const bool failed = ferror(events->file) != 0;
    pthread_mutex_unlock(&events->lock);
    TD_REFUSE_IF(failed, TD_ERR_IO,
                 "cannot write '%s': %s; free space there or choose another logging.tensorboard_log_dir",
                 events->path, strerror(cause));
    return TD_OK;
}

/* ---------------------------------------------------------------- protocol buffers */

/* A message that grows; the first failure sticks. */
typedef struct message {
    uint8_t *data; /* owned */
    size_t bytes, capacity;
    td_status status;
} message;

static void put_bytes(message *m, const void *data, size_t bytes)
{
    if (m->status == TD_OK) m->status = td_alloc_grow(&m->data, &m->capacity, m->bytes + bytes, 1);
    if (m->status != TD_OK || bytes == 0) return;
    memcpy(m->data + m->bytes, data, bytes);
    m->bytes += bytes;
}

static void put_varint(message *m, uint64_t value)
{
    do {
        const uint8_t byte = (uint8_t)((value & 127U) | (value > 127 ? 128U : 0U));
        put_bytes(m, &byte, 1);
        value >>= 7;
    } while (value > 0);
}

static void put_number(message *m, uint32_t field, uint64_t value)
{
    put_varint(m, field << 3 | 0U);
    put_varint(m, value);
}

static void put_double(message *m, uint32_t field, double value)
{
    put_varint(m, field << 3 | 1U);
    put_bytes(m, &value, sizeof value);
}

static void put_block(message *m, uint32_t field, const void *data, size_t bytes)
{
    put_varint(m, field << 3 | 2U);
    put_varint(m, bytes);
    put_bytes(m, data, bytes);
}

static void put_float(message *m, uint32_t field, float value)
{
    put_varint(m, field << 3 | 5U);
    put_bytes(m, &value, sizeof value);
}

/* The inner message becomes a field of the outer one, and is freed. */
static void put_message(message *m, uint32_t field, message *inner)
{
    if (m->status == TD_OK) m->status = inner->status;
    put_block(m, field, inner->data, inner->bytes);
    free(inner->data);
    *inner = (message){0};
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static td_status write_message(td_events *events, message *event)
{
    td_status status = event->status;
    if (status == TD_OK) status = write_record(events, event->data, event->bytes);
    free(event->data);
    return status;
}

/* Event{now, step, summary{value}}; frees the value. */
static td_status write_value(td_events *events, uint64_t step, message *value)
{
    message event = {0}, summary = {0};
    put_double(&event, 1, now_s());
    put_number(&event, 2, step);
    put_message(&summary, 1, value);
    put_message(&event, 5, &summary);
    return write_message(events, &event);
}

/* ---------------------------------------------------------------- files */

static td_status write_head(td_events *events, uint64_t step)
{
    message version = {0}, start = {0}, log = {0};
    put_double(&version, 1, now_s());
    put_block(&version, 3, "brain.Event:2", 13);
    TD_CHECK(write_message(events, &version));
    put_double(&start, 1, now_s());
    put_number(&start, 2, step + 1);
    put_number(&log, 1, SESSION_START);
    put_message(&start, 7, &log);
    return write_message(events, &start);
}

td_status td_events_open(const char *dir, uint64_t step, td_events **out)
{
    td_status status = TD_OK;
    td_events *events = NULL;
    char host[128] = "localhost";
    *out = NULL;
    TD_TRY(TD_NEW(&events));
    pthread_mutex_init(&events->lock, NULL);
    (void)gethostname(host, sizeof host - 1);
    for (int n = 0; n < 1000 && events->file == NULL; ++n) {
        const int length =
            snprintf(events->path, sizeof events->path, "%s/events.out.tfevents.%010lld.%s.%ld.%d", dir,
                     (long long)time(NULL), host, (long)getpid(), n);
        TD_FAIL_IF(length >= (int)sizeof events->path, TD_ERR_CONFIG, "'%s' is too long a path", dir);
        events->file = fopen(events->path, "wbxe");
        TD_FAIL_IF(events->file == NULL && errno != EEXIST, TD_ERR_IO,
                   "cannot write '%s': %s; check logging.tensorboard_log_dir", events->path, strerror(errno));
    }
    TD_FAIL_IF(events->file == NULL, TD_ERR_IO, "'%s' is full of event files; remove old ones", dir);
    TD_TRY(write_head(events, step));
    TD_TRY(td_events_flush(events));
    *out = events;
    return TD_OK;
fail:
    td_events_close(events);
    return status;
}

void td_events_close(td_events *events)
{
    if (events == NULL) return;
    if (events->file != NULL) fclose(events->file);
    pthread_mutex_destroy(&events->lock);
    free(events);
}

td_status td_events_flush(td_events *events)
{
    pthread_mutex_lock(&events->lock);
    const int failed = fflush(events->file);
    pthread_mutex_unlock(&events->lock);
    if (failed != 0)
        return TD_FAIL(TD_ERR_IO, "cannot write '%s': %s; free space there or choose another folder",
                       events->path, strerror(errno));
    return TD_OK;
}

/* ---------------------------------------------------------------- values */

td_status td_events_scalar(td_events *events, uint64_t step, const char *tag, double value)
{
    message m = {0};
    put_block(&m, 1, tag, strlen(tag));
    put_float(&m, 2, (float)value);
    return write_value(events, step, &m);
}

td_status td_events_image(td_events *events, uint64_t step, const char *tag, uint32_t width, uint32_t height,
                          const void *png, size_t bytes)
{
    message m = {0}, image = {0};
    put_block(&m, 1, tag, strlen(tag));
    put_number(&image, 1, height);
    put_number(&image, 2, width);
    put_number(&image, 3, RGB);
    put_block(&image, 4, png, bytes);
    put_message(&m, 4, &image);
    return write_value(events, step, &m);
}

td_status td_events_audio(td_events *events, uint64_t step, const char *tag, uint32_t rate,
                          const float *samples, size_t n_samples)
{
    message m = {0}, audio = {0};
    char *wav = NULL;
    size_t bytes = 0;
    const td_status status = td_audio_encode_memory(".wav", samples, n_samples, rate, &wav, &bytes);
    if (status != TD_OK) return status;
    put_block(&m, 1, tag, strlen(tag));
    put_float(&audio, 1, (float)rate);
    put_number(&audio, 2, 1);
    put_number(&audio, 3, n_samples);
    put_block(&audio, 4, wav, bytes);
    put_block(&audio, 5, "audio/wav", 9);
    free(wav);
    put_message(&m, 6, &audio);
    return write_value(events, step, &m);
}
