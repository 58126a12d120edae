/* Real plans on a simulated device: what a model needs, and how long its stages take, on a device that this
 * computer need not have. Nothing is computed and hardly any memory is touched. For check-config, advise and
 * `profile --simulate-device`. Covered by tests/cli/test_check_config.py and tests/cli/test_advise.py.
 */
#ifndef TD_TOOLS_PLANNER_H
#define TD_TOOLS_PLANNER_H

#include "train/need.h"

typedef struct td_planner {
    td_registry *registry;
    td_device *device;
    td_memory *memory;
} td_planner;

/* `model` as TANDEM_SIM (docs/devices.md); NULL: a device without an end of memory. *out: td_planner_close(),
 * also after a failure. */
td_status td_planner_open(const char *model, td_planner *out);
void td_planner_close(td_planner *planner);

/* What a family's runs usually have for a key ("training.grad_clip"); NULL: what every family has. Borrowed forever. */
const char *td_planner_usual(const td_model_config *model, const char *key);

/* Of the rows that would train; opens the dataset as training does. */
td_status td_planner_measure(const td_data_settings *data, td_lengths *out);

/* What the data role needs with so many batches ahead: those, the samples of one, and with two devices those
 * on their way. */
td_status td_planner_data_bytes(const td_train_settings *settings, const td_batch_shape *shape,
                                uint32_t buffer_size, bool is_single, uint64_t *out);

/* ---------------------------------------------------------------- times */

/* A batch and a step on devices of given rates. */
typedef struct td_forecast {
    td_batch_shape shape;
    double data_ms, transfer_ms, train_ms;
    double flops; /* of a step */
    size_t launches;
    uint64_t batch_bytes, data_bytes, model_bytes;
} td_forecast;

/* Models as TANDEM_SIM; `data` NULL: one device for both roles. Batches are those of td_run_shape() with
 * settings->data.batch_size rows. What does not fit in the model's memory is TD_ERR_LIMIT. */
td_status td_forecast_stages(const char *data, const char *model, const td_train_settings *settings,
                             td_lengths longest, td_forecast *out);

#endif
