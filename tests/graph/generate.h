/* Small graphs that compose operations at random: the same seed, the same graph. */
#ifndef TD_TESTS_GRAPH_GENERATE_H
#define TD_TESTS_GRAPH_GENERATE_H

#include "rig.h"

/* Builds a graph of about `steps` compositions, its loss and its gradients (with scale 1 / micro). Every
 * composition of the table comes up within 60 seeds. */
void generate(model *out, uint64_t seed, uint32_t steps, uint32_t micro);

/* How often each composition has come up since the program started; NULL behind the last. */
const char *generate_name(size_t kind);
extern size_t generate_counts[];

#endif
