/* libFuzzer target: any bytes as an entry of the mel cache whose checksum is right. What is taken must fit
 * the room that was given. clang -fsanitize=fuzzer,address,undefined; start it with the files of
 * tests/fuzz/corpus/mel_cache.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "data/mel_cache.h"
#include "fuzz/payload.h"
#include "fuzz/scratch.h"

enum { FRAMES = 8, BANDS = 80 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static td_block_row row;
    static const td_dataset dataset = {.view = {.rows = &row, .strings = "", .n_rows = 1}, .dir = ""};
    const td_mel_cache_settings settings = {.kind = TD_MEL_CACHE_DISK,
                                            .max_bytes = 1 << 20,
                                            .cache_dir = scratch_dir(),
                                            .config = td_mel_config_default(),
                                            .has_pitch = true,
                                            .device = "fuzz"};
    float mel[FRAMES * BANDS], energy[FRAMES], pitch[FRAMES];
    uint32_t n_frames = 0;
    td_mel_cache *cache = NULL;
    payload = data;
    payload_bytes = bytes;
    if (td_mel_cache_open(&settings, &dataset, &cache) != TD_OK) abort();
    if (td_mel_cache_read(cache, 0, FRAMES, mel, energy, pitch, &n_frames) &&
        (n_frames == 0 || n_frames > FRAMES))
        abort();
    td_mel_cache_close(cache);
    return 0;
}
