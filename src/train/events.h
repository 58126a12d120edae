/* TensorBoard event files: records of protocol buffers (TFRecord with masked CRC-32C), written by hand, since
 * four messages need no library. Scalars, pictures (PNG) and sounds (WAV). A session begins a file of its own
 * with a mark of its first step, so that TensorBoard drops what an earlier session wrote past it. Any thread.
 * Covered by tests/train/test_train_events.c.
 */
#ifndef TD_TRAIN_EVENTS_H
#define TD_TRAIN_EVENTS_H

#include <stddef.h>
#include <stdint.h>

#include "tandem/status.h"

typedef struct td_events td_events;

/* A new file in `dir`, which must exist; the session goes on after `step`. *out: owned, td_events_close(). */
td_status td_events_open(const char *dir, uint64_t step, td_events **out);
void td_events_close(td_events *events);

td_status td_events_scalar(td_events *events, uint64_t step, const char *tag, double value);

/* Content of a whole PNG file in RGB. */
td_status td_events_image(td_events *events, uint64_t step, const char *tag, uint32_t width, uint32_t height,
                          const void *png, size_t bytes);

/* One channel as WAV of 16 bits; values past -1 .. 1 are cut. */
td_status td_events_audio(td_events *events, uint64_t step, const char *tag, uint32_t rate,
                          const float *samples, size_t n_samples);

/* What was written so far can be read by others. */
td_status td_events_flush(td_events *events);

/* CRC-32C (Castagnoli), as records use it; public for the test. */
uint32_t td_events_crc(const void *data, size_t bytes);

#endif
