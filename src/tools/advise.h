/* What to set for a model on given devices: how large a batch fits plain, with bfloat16, with checkpointing
 * and with both, from real plans (tools/planner.h), and from that the batch, buffers and limits of a run. The
 * devices need not be there. Prints nothing: src/cli/cmd_advise.c does. Covered by tests/cli/test_advise.py.
 */
#ifndef TD_TOOLS_ADVISE_H
#define TD_TOOLS_ADVISE_H

#include "tandem/device.h"
#include "tools/planner.h"

/* Everything is borrowed during the call. */
typedef struct td_advice_request {
    const td_train_settings *settings;
    const td_device_info *data, *model; /* the same: single-device mode */
    td_lengths longest;                 /* zeros: no data is known */
    uint32_t wanted_batch;              /* 0: by the memory of the model device */
} td_advice_request;

/* A way to keep activations, and how far it goes; with moments as the advice has them. */
typedef struct td_advice_way {
    bool bf16, checkpoint;
    td_need need;
    uint32_t largest_batch; /* 0: not one row */
} td_advice_way;

enum { TD_ADVICE_WAYS = 4 };

typedef struct td_advice {
    td_advice_way ways[TD_ADVICE_WAYS]; /* plain, bf16, checkpointing, both */
    size_t chosen;                      /* of `ways` */
    td_state_format state; /* of the moments: as the settings say, or less where no row fits so */
    bool host_moments;
    bool is_single;
    td_batch_shape shape; /* of the largest batch */
    uint32_t batch_size, grad_accum, buffer_size, prefetch_size;
    uint64_t model_bytes, data_bytes;             /* that the roles will need */
    uint64_t model_limit_bytes, data_limit_bytes; /* to set */
} td_advice;

/* TD_ERR_LIMIT where not one row fits in any way, or the data device holds no two batches. */
td_status td_advise(const td_advice_request *request, td_advice *out);

#endif
