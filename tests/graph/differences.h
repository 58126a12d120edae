/* Loss and gradients of a plan that has run, against the interpreter and its central differences: along two
 * directions of signs and two elements of each parameter. */
#ifndef TD_TESTS_GRAPH_DIFFERENCES_H
#define TD_TESTS_GRAPH_DIFFERENCES_H

#include "rig.h"

void compare_loss(model *m, const bench *b);
void compare_gradients(model *m, const bench *b);

#endif
