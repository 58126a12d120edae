/* `tandem bench step`: how long a training step takes on a device (forward, losses, backward, clip, AdamW;
 * data already there), what it computes, and the memory of its plan. Prints nothing
 * (src/cli/cmd_bench_step.c does). Covered by tests/cli/test_step.py; beside PyTorch by tests/peers/step.py.
 */
#ifndef TD_TOOLS_BENCH_STEP_H
#define TD_TOOLS_BENCH_STEP_H

#include <stdio.h>

#include "base/stats.h"
#include "graph/optimizer.h"
#include "tandem/device.h"
#include "tools/step_work.h"

typedef struct td_bench_step_options {
    const char *preset;      /* of a model; NULL: a sketch */
    const td_family *family; /* of a model */
    const char *keys;        /* of it, "KEY=VALUE KEY=VALUE"; or NULL */
    td_sketch_size size;
    uint32_t steps; /* that count, after two that warm up */
    td_dtype half;  /* TD_BF16, TD_F16, or fp32 */
    td_state_format state;
    bool host_moments;
    bool checkpoint;
    bool ragged;       /* lengths from the whole down to half, instead of the whole */
    const char *dump;  /* safetensors of the batch, parameters, gradients and ten updates; NULL: none */
    FILE *explain;     /* the plan as a table, with measured times of its nodes; NULL: not wanted */
    FILE *explain_dot; /* the plan for Graphviz; NULL: not wanted */
} td_bench_step_options;

typedef struct td_bench_step_result {
    uint64_t parameters;
    td_stats ms;   /* of a step */
    double gflops; /* by the median */
    double audio_s_per_s;
    double host_share;   /* CPU time of the submitting thread, as a share of the steps */
    double cpu_ms;       /* CPU time of a step, all threads: what a CPU driver works, whoever else is busy */
    double plan_ms;      /* making the plan once kernels are built */
    uint64_t peak_bytes; /* of the device: arena, parameters, gradients, moments */
    td_plan_stats plan;
    float first_loss, last_loss;
} td_bench_step_result;

td_status td_bench_step_run(td_registry *registry, const td_device_info *info,
                            const td_bench_step_options *options, td_bench_step_result *out);

#endif
