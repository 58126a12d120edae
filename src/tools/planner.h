/* Real plans on a simulated device: what a model needs, and how long its stages take, on a device that this
 * computer need not have. Nothing is computed and hardly any memory is touched. For check-config, advise and
 * `profile --simulate-device`. Covered by tests/cli/test_check_config.py and tests/cli/test_advise.py.
 */
#ifndef TD_TOOLS_PLANNER_H
#define TD_TOOLS_PLANNER_H

#include "train/plans.h"
#include "train/train.h"

/* Share of a device's memory that a run may count on: the rest is the driver's and the desktop's. */
#define TD_PLANNER_SHARE 0.9

typedef struct td_planner {
    td_registry *registry;
    td_device *device;
    td_memory *memory;
} td_planner;

/* `model` as TANDEM_SIM (docs/devices.md); NULL: a device without an end of memory. *out: td_planner_close(),
 * also after a failure. */
td_status td_planner_open(const char *model, td_planner *out);
void td_planner_close(td_planner *planner);

/* The longest row of a dataset; 0: not known. */
typedef struct td_lengths {
    uint32_t frames, tokens;
} td_lengths;

/* Of the rows that would train; opens the dataset as training does. */
td_status td_planner_measure(const td_data_settings *data, td_lengths *out);

/* The largest shape that these settings can meet; one item. */
td_model_shape td_planner_shape(const td_train_settings *settings, td_lengths longest);

/* Bytes of a batch of this shape. */
double td_planner_batch_bytes(const td_train_settings *settings, const td_model_shape *shape);

/* Batches ahead on the model device, as the settings say or as training chooses. */
uint32_t td_planner_prefetch(const td_train_settings *settings);

/* The plan of a step. *plans: owned, td_plans_destroy(); *shaped is borrowed from it. */
td_status td_planner_plan(const td_planner *planner, const td_train_settings *settings,
                          const td_model_shape *shape, td_plans **plans, td_shaped_plan **shaped);

/* What the model role needs: a line in the number of items, as in train/batch_size.c. */
typedef struct td_need {
    double fixed_bytes, item_bytes;
} td_need;

td_status td_planner_need(const td_planner *planner, const td_train_settings *settings, td_model_shape shape,
                          td_need *out);
uint64_t td_need_bytes(const td_need *need, uint32_t items);

/* The most items that fit, in eights where there are many; 0: not one. */
uint32_t td_need_largest(const td_need *need, uint64_t limit_bytes);

/* What the data role needs with so many batches ahead: those, the samples of one, and with two devices those
 * on their way. */
uint64_t td_planner_data_bytes(const td_train_settings *settings, const td_model_shape *shape,
                               uint32_t buffer_size, bool is_single);

/* ---------------------------------------------------------------- times */

/* A batch and a step on devices of given rates. */
typedef struct td_forecast {
    td_model_shape shape;
    double data_ms, transfer_ms, train_ms;
    double flops; /* of a step */
    size_t launches;
    uint64_t batch_bytes, data_bytes, model_bytes;
} td_forecast;

/* Models as TANDEM_SIM; `data` NULL: one device for both roles. Batches are those of td_planner_shape() with
 * settings->data.batch_size rows. What does not fit in the model's memory is TD_ERR_LIMIT. */
td_status td_forecast_stages(const char *data, const char *model, const td_train_settings *settings,
                             td_lengths longest, td_forecast *out);

#endif
