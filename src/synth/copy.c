/* See copy.h. */
#include "synth/copy.h"

#include "base/error.h"

td_status td_copy_run(td_vocoder *vocoder, const td_mel *mel, td_memory *memory, const float *samples,
                      size_t count, uint64_t seed, float **out, size_t *out_count)
{
    td_mel_clip copy;
    size_t firsts[2];
    td_status status = TD_OK;
    *out = NULL;
    *out_count = 0;
    TD_TRY(td_mel_clip_make(mel, memory, samples, count, &copy));
    status = vocoder->run(vocoder,
                          &(td_vocoder_batch){.items = 1,
                                              .count = 1,
                                              .max_frames = copy.frames,
                                              .mel = copy.mel,
                                              .pitch = copy.pitch,
                                              .frames = &copy.frames,
                                              .seed = seed},
                          out, firsts);
    td_mel_clip_free(memory, &copy);
    if (status == TD_OK) *out_count = firsts[1];
fail:
    return status;
}
