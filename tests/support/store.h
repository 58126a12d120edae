/* What tests read out of a store. */
#ifndef TD_TESTS_SUPPORT_STORE_H
#define TD_TESTS_SUPPORT_STORE_H

#include "graph/plan.h"

/* All gradients, one after the other in the order of the store; *n counts them. Owned by the caller. */
float *read_gradients(td_store *store, size_t *n);

#endif
