/* What the files of `tandem validate` share. */
#ifndef TD_TOOLS_VALIDATE_INTERNAL_H
#define TD_TOOLS_VALIDATE_INTERNAL_H

#include "tools/validate.h"

typedef enum td_validate_group {
    TD_VALIDATE_PREREQUISITES,
    TD_VALIDATE_PLACEMENT,
    TD_VALIDATE_MODEL,
    TD_VALIDATE_TRANSFER,
    TD_VALIDATE_PIPELINE,
} td_validate_group;

/* One run. Index 0 is the data role, 1 the model role; with one device both are the same. */
typedef struct td_validate_run_state {
    const td_validate_request *request;
    td_validation *out;
    const td_device_info *infos[2];
    td_device *devices[2]; /* borrowed from `opened`; NULL where opening failed */
    int n_roles;           /* devices in use: 1 or 2 */
    const td_device_info *opened_infos[2];
    td_device *opened[2]; /* owned */
} td_validate_run_state;

/* Records one check and reports it. Fails only when host memory runs out. */
td_status td_validate_note(td_validate_run_state *run, td_validate_group group, td_check_status verdict,
                           const char *name, const char *format, ...) __attribute__((format(printf, 5, 6)));
td_status td_validate_note_call(td_validate_run_state *run, td_validate_group group, td_status outcome,
                                const char *name, const char *detail);

/* How long anything of a check may take. */
#define TD_VALIDATE_PATIENCE_NS UINT64_C(120000000000)

/* Groups 3, 4 and 5; the devices are open. */
td_status td_validate_model(td_validate_run_state *run);
td_status td_validate_pipeline(td_validate_run_state *run);
td_status td_validate_transfer(td_validate_run_state *run);

#endif
