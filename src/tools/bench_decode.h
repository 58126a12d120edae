/* `tandem bench decode`: how fast a GPT of XTTS-v2's kind decodes on a device, one code at a time, with random weights;
 * and how near that comes to a plain copy and to plain reading, since reading the weights is all that takes time. A simulated device takes the
 * time that its rates give to the commands of a real step. Prints nothing (src/cli/cmd_bench_decode.c does). Run beside PyTorch by tests/peers/decode.py.
 */
#ifndef TD_TOOLS_BENCH_DECODE_H
#define TD_TOOLS_BENCH_DECODE_H

#include "tandem/device.h"

typedef struct td_bench_decode_options {
    uint32_t format; /* TD_FORMAT_FP32, _BF16, _INT8 */
    uint32_t layers, width;
    uint32_t prompt; /* rows of the cache before the first code */
    uint32_t codes;  /* of each text, */
    uint32_t texts;  /* of which so many are decoded side by side */
} td_bench_decode_options;

typedef struct td_bench_decode_result {
    double ms; /* of a step, a code of each text, the median; on a simulated device the least */
    double spread;
    double codes_per_s;    /* of all texts */
    double bytes_per_code; /* on average, since the cache grows; what texts share is divided among them */
    double gbps, copy_gbps, share_of_copy; /* a copy reads and writes; */
    double read_gbps, share_of_read;       /* this reads alone */
    double realtime_factor;
    uint32_t launches_per_code;
    uint64_t peak_bytes; /* of the device, without the copy's */
} td_bench_decode_result;

td_status td_bench_decode_run(td_registry *registry, const td_device_info *info,
                              const td_bench_decode_options *options, td_bench_decode_result *out);

#endif
