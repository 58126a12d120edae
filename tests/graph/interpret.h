/* The forward pass of a graph in double, by plain loops that know nothing of kernels or plans: what devices
 * are judged by, and what central differences are taken of. */
#ifndef TD_TESTS_GRAPH_INTERPRET_H
#define TD_TESTS_GRAPH_INTERPRET_H

#include "graph/internal.h"

typedef struct interpreter {
    const td_graph *graph;
    size_t n_nodes;  /* forward nodes */
    double **values; /* by tensor; owned. Leaves are the caller's to fill; words of uint tensors as numbers */
    uint32_t step;
    bool has_run; /* from then on what no gradient passes through stays as it is: differences see no slope
                     there */
} interpreter;

/* Makes room; call before td_graph_backward or after it, the gradient nodes are left out. */
void interpreter_open(interpreter *out, const td_graph *graph);
void interpreter_close(interpreter *in);
void interpreter_run(interpreter *in);

#endif
