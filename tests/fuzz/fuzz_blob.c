/* libFuzzer target: any bytes as a file of the blob cache, and as the content of one whose checksum is right,
 * for its readers below the data: verdicts of the self-test and tuning results (fuzz_mel_cache.c has the
 * other). The first byte chooses the reader. What drivers made goes back to the drivers and is not looked
 * into. clang -fsanitize=fuzzer,address,undefined; start it with the files of tests/fuzz/corpus/blob.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "device/selftest.h"
#include "fuzz/payload.h"
#include "fuzz/scratch.h"
#include "linalg/tuning.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void try_file(const uint8_t *data, size_t bytes)
{
    td_blob_cache *cache = NULL;
    void *found = NULL;
    size_t found_bytes;
    scratch_file("any-00000000000000010000000000000002.blob", data, bytes);
    if (td_blob_cache_open(scratch_dir(), &cache) != TD_OK) return;
    if (td_blob_cache_load(cache, "any", (td_digest){.high = 1, .low = 2}, &found, &found_bytes) &&
        found_bytes >= bytes)
        abort();
    free(found);
    td_blob_cache_close(cache);
}

static void try_verdict(void)
{
    td_device_info info = {.usable = true};
    td_selftest_recall(NULL, &info);
    if (memchr(info.reason, '\0', sizeof info.reason) == NULL) abort();
}

static void try_tuning(void)
{
    static td_registry *registry;
    static const td_gemm_desc DESC = {.layout = TD_GEMM_NT, .m = 100, .n = 64, .k = 1000};
    const td_device_info *info;
    td_device *device = NULL;
    uint64_t bytes;
    if (registry == NULL &&
        td_registry_open(&(td_registry_options){.opencl_library = "none", .vulkan_library = "none"},
                         &registry) != TD_OK)
        abort();
    if (td_registry_select(registry, "sim:0", &info) != TD_OK ||
        td_device_open(registry, info, &device) != TD_OK)
        return; /* a verdict may have called it unusable */
    if (td_gemm_workspace(&DESC, device, &bytes) != TD_OK || td_tuning_count(device) > payload_bytes) abort();
    td_device_close(device);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0) return 0;
    payload = NULL;
    if (data[0] % 3 == 0) {
        try_file(data + 1, bytes - 1);
        return 0;
    }
    payload = data + 1;
    payload_bytes = bytes - 1;
    if (data[0] % 3 == 1) try_verdict();
    if (data[0] % 3 == 2) try_tuning();
    return 0;
}
