/* See mel_clip.h. */
#include "audio/mel_clip.h"

#include <string.h>

#include "base/error.h"
#include "device/blocking.h"

enum { BIND_BYTES = 256 }; /* the largest alignment a device asks for */

td_status td_mel_clip_make(const td_mel *mel, td_memory *memory, const float *samples, size_t count,
                           td_mel_clip *out)
{
    const td_mel_config *config = td_mel_get_config(mel);
    td_device *device = td_memory_device(memory);
    td_span host = {0}, pcm = {0}, ranges = {0};
    td_list *list = NULL;
    td_status status = TD_OK;
    *out = (td_mel_clip){.frames = td_mel_frames(config, count)};
    const uint64_t words = (uint64_t)out->frames * config->n_mels;
    const uint64_t pitch_at = (4 * words + BIND_BYTES - 1) / BIND_BYTES * BIND_BYTES;
    TD_TRY(td_memory_alloc(memory, TD_MEMORY_HOST, 4 * ((uint64_t)count + 2), &host));
    TD_TRY(td_memory_alloc(memory, TD_MEMORY_DEVICE, 4 * (uint64_t)count, &pcm));
    TD_TRY(td_memory_alloc(memory, TD_MEMORY_DEVICE, 8, &ranges));
    TD_TRY(td_memory_alloc(memory, TD_MEMORY_DEVICE, pitch_at + UINT64_C(4) * out->frames, &out->room));
    out->pitch = td_span_part(out->room, pitch_at, UINT64_C(4) * out->frames);
    out->mel = td_span_part(out->room, 0, 4 * words);
    uint32_t *to = td_span_host(host);
    memcpy(to, (const uint32_t[]){0, (uint32_t)count}, 8);
    memcpy(to + 2, samples, count * sizeof *samples);
    TD_TRY(td_list_create(device, TD_QUEUE_COMPUTE, &list));
    TD_TRY(td_list_copy(list, td_span_part(ranges, 0, 8), td_span_part(host, 0, 8)));
    TD_TRY(td_list_copy(list, td_span_part(pcm, 0, 4 * (uint64_t)count),
                        td_span_part(host, 8, 4 * (uint64_t)count)));
    TD_TRY(td_mel_record(mel, list,
                         &(td_mel_args){.items = 1,
                                        .max_frames = out->frames,
                                        .pcm = td_span_part(pcm, 0, 4 * (uint64_t)count),
                                        .ranges = td_span_part(ranges, 0, 8),
                                        .mel = out->mel,
                                        .pitch = out->pitch}));
    TD_TRY(td_blocking_run(list, NULL));
fail:
    td_list_destroy(list);
    td_memory_free(memory, host);
    td_memory_free(memory, pcm);
    td_memory_free(memory, ranges);
    if (status != TD_OK) td_mel_clip_free(memory, out);
    return status;
}

void td_mel_clip_free(td_memory *memory, td_mel_clip *clip)
{
    td_memory_free(memory, clip->room);
    *clip = (td_mel_clip){0};
}
