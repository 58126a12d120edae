/* libFuzzer target: any bytes as a recording, through libsndfile and soxr. The first byte chooses the
 * settings. What decodes must be finite and within the asked length. clang
 * -fsanitize=fuzzer,address,undefined; start it with the files of tests/fuzz/corpus/audio.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "audio/decode.h"
#include "data/clip.h"
#include "fuzz/scratch.h"

enum { ROOM = 22050, SECONDS = 2 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static float into[ROOM];
    const td_decode_options settings[] = {
        {.rate = 22050, .max_s = SECONDS},
        {.rate = 22050, .max_s = SECONDS, .trim_db = 40, .margin_s = 0.05},
        {.rate = 16000, .max_s = SECONDS},
        {.rate = 22050, .into = into, .room = ROOM},
    };
    td_audio audio;
    td_clip clip;
    if (bytes == 0) return 0;
    const td_decode_options *chosen = &settings[data[0] % 4];
    const char *path = scratch_file("clip.wav", data + 1, bytes - 1);
    if (td_audio_decode(path, chosen, &audio) == TD_OK) {
        const float *samples = chosen->into ? into : audio.samples;
        if (audio.count == 0 || audio.count > (size_t)(SECONDS + 1) * chosen->rate) abort();
        for (size_t i = 0; i < audio.count; ++i) {
            if (!isfinite(samples[i])) abort();
        }
        td_audio_free(&audio);
    }
    clip = td_clip_stamp(path);
    td_clip_read(path, &clip);
    if (!(td_clip_seconds(&clip) >= 0)) abort();
    return 0;
}
