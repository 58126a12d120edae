/* See copy.h. */
#include "synth/copy.h"

#include <string.h>

#include "base/error.h"
#include "device/blocking.h"

td_status td_copy_analyse(const td_mel *mel, td_memory *memory, const float *samples, size_t count,
                          td_copy_mel *out)
{
    const td_mel_config *config = td_mel_get_config(mel);
    td_device *device = td_memory_device(memory);
    td_span host = {0}, pcm = {0}, ranges = {0};
    td_list *list = NULL;
    td_status status = TD_OK;
    *out = (td_copy_mel){.frames = td_mel_frames(config, count)};
    const uint64_t words = (uint64_t)out->frames * config->n_mels;
    TD_TRY(td_memory_alloc(memory, TD_MEMORY_HOST, 4 * ((uint64_t)count + 2), &host));
    TD_TRY(td_memory_alloc(memory, TD_MEMORY_DEVICE, 4 * (uint64_t)count, &pcm));
    TD_TRY(td_memory_alloc(memory, TD_MEMORY_DEVICE, 8, &ranges));
    TD_TRY(td_memory_alloc(memory, TD_MEMORY_DEVICE, 4 * words, &out->mel));
    out->mel = td_span_part(out->mel, 0, 4 * words);
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
                                        .mel = out->mel}));
    TD_TRY(td_blocking_run(list, NULL));
fail:
    td_list_destroy(list);
    td_memory_free(memory, host);
    td_memory_free(memory, pcm);
    td_memory_free(memory, ranges);
    if (status != TD_OK) {
        td_memory_free(memory, out->mel);
        *out = (td_copy_mel){0};
    }
    return status;
}

td_status td_copy_run(td_vocoder *vocoder, const td_mel *mel, td_memory *memory, const float *samples,
                      size_t count, uint64_t seed, float **out, size_t *out_count)
{
    td_copy_mel copy;
    size_t firsts[2];
    td_status status = TD_OK;
    *out = NULL;
    *out_count = 0;
    TD_TRY(td_copy_analyse(mel, memory, samples, count, &copy));
    status = vocoder->run(vocoder,
                          &(td_vocoder_batch){.items = 1,
                                              .count = 1,
                                              .max_frames = copy.frames,
                                              .mel = copy.mel,
                                              .frames = &copy.frames,
                                              .seed = seed},
                          out, firsts);
    td_memory_free(memory, copy.mel);
    if (status == TD_OK) *out_count = firsts[1];
fail:
    return status;
}
