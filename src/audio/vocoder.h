/* From spectrograms to signals: the one interface behind which vocoders stand, and the table they are chosen
 * from. Covered by tests/synth/test_copy.c.
 */
#ifndef TD_AUDIO_VOCODER_H
#define TD_AUDIO_VOCODER_H

#include "audio/mel.h"

typedef struct td_vocoder_batch {
    uint32_t items, max_frames;
    td_span mel; /* [items, max_frames, n_mels] on the vocoder's device, as the front end makes it */
    td_span
        pitch; /* [items, max_frames] in Hz, 0 where unvoiced; a zero span: a vocoder that needs it finds it */
    const uint32_t *frames; /* of each item, at most max_frames; borrowed for the call */
    uint32_t first, count;  /* items that this call makes; others of the batch do not change what they are */
    uint64_t seed;          /* of whatever is drawn; the same batch and seed give the same bits */
    /* Called with samples of an item as soon as they exist, item after item and in order, by a vocoder that
     * makes them bit by bit; one that has them only at its end does not call it. May be NULL. */
    td_status (*emit)(void *context, uint32_t item, const float *samples, size_t count);
    void *context;
} td_vocoder_batch;

/* A vocoder: begins with this, its own state follows. One thread at a time. */
typedef struct td_vocoder {
    /* Item i's signal is (*samples)[firsts[i]] up to firsts[i + 1]; `firsts` has items + 1 places, and items
     * that are not made have no samples. Waits for the result. *samples is owned: free(). */
    td_status (*run)(struct td_vocoder *vocoder, const td_vocoder_batch *batch, float **samples,
                     size_t *firsts);
    void (*destroy)(struct td_vocoder *vocoder);
    const td_mel *mel; /* borrowed until destroy, as is the memory */
    td_memory *memory;
} td_vocoder;

typedef struct td_vocoder_options {
    uint32_t iterations; /* of one that improves its signal step by step; 0: the usual number */
} td_vocoder_options;

/* A row of the table. *out: owned. */
typedef struct td_vocoder_kind {
    const char *name;
    td_status (*open)(const td_mel *mel, td_memory *memory, const td_vocoder_options *options,
                      td_vocoder **out);
} td_vocoder_kind;

/* "griffin-lim". TD_ERR_CONFIG names those there are. `options` may be NULL. *out: owned,
 * td_vocoder_destroy(). */
td_status td_vocoder_open(const char *name, const td_mel *mel, td_memory *memory,
                          const td_vocoder_options *options, td_vocoder **out);

/* The same as `run` for spectrograms in host memory: batch->mel is not looked at. */
td_status td_vocoder_run_host(td_vocoder *vocoder, const td_vocoder_batch *batch, const float *mel,
                              float **samples, size_t *firsts);

void td_vocoder_destroy(td_vocoder *vocoder);

#endif
