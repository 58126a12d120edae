/* Judges a configuration before training: what would end the run is an error, what would slow it a warning,
 * each with its key, why, and the value to put. Memory comes from the real plan, made on a simulated device,
 * so that nothing is allocated and no card is needed. Does not read files of options and prints nothing:
 * src/cli/cmd_check_config.c does. Covered by tests/cli/test_check_config.py.
 */
#ifndef TD_TOOLS_CHECK_CONFIG_H
#define TD_TOOLS_CHECK_CONFIG_H

#include "tandem/device.h"
#include "train/train.h"

typedef struct td_config_finding {
    bool is_error;
    char key[64]; /* "training.batch_size"; "" where no key is to blame */
    char message[384];
    char suggest[96]; /* the value to put; "" where there is none */
} td_config_finding;

typedef struct td_config_report {
    td_config_finding *findings; /* owned */
    size_t count, capacity;
    uint64_t need_bytes, limit_bytes; /* of the model role; 0: not estimated */
    uint32_t largest_batch;           /* that fits; 0: not estimated */
} td_config_report;

/* Everything is borrowed during the call. */
typedef struct td_config_request {
    const td_train_settings *settings;
    const td_device_info *data, *model; /* NULL: not known; the same, or no data: single-device mode */
    bool has_data;                      /* settings->data.dataset names a folder that is to be looked at */
    uint32_t cores;                     /* of the computer */
} td_config_request;

/* Adds what it finds to *report, which may hold findings already. Fails only if it could not judge. */
td_status td_check_config(const td_config_request *request, td_config_report *report);

td_status td_config_report_add(td_config_report *report, bool is_error, const char *key, const char *suggest,
                               const char *format, ...) __attribute__((format(printf, 5, 6)));
size_t td_config_report_errors(const td_config_report *report);
void td_config_report_clear(td_config_report *report);

#endif
