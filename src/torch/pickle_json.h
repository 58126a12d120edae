/* A value of a pickle as JSON: dicts and the states of objects become objects, tuples and sets lists, what has no
 * counterpart null. Values that contain themselves, or much, are refused. Covered by tests/torch/test_pickle.c. */
#ifndef TD_TORCH_PICKLE_JSON_H
#define TD_TORCH_PICKLE_JSON_H

#include <cJSON.h>

#include "torch/pickle.h"

/* *out: owned, cJSON_Delete(); NULL on failure. */
td_status td_pickle_to_json(const td_pickle *pickle, td_pickle_id id, cJSON **out);

#endif
