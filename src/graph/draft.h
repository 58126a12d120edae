/* A plan in the making: a copy of the graph's nodes and tensors that passes rewrite, one after the other. */
#ifndef TD_GRAPH_DRAFT_H
#define TD_GRAPH_DRAFT_H

#include "graph/internal.h"
#include "graph/plan.h"

typedef struct td_draft {
    const td_graph *graph; /* names are its */
    td_node *nodes;
    size_t n_nodes, node_capacity;
    td_tensor_info *tensors;
    size_t n_tensors, tensor_capacity;
    size_t fused;
} td_draft;

td_status td_draft_begin(const td_graph *graph, bool forward_only, td_draft *out);
void td_draft_clear(td_draft *draft);

/* A new tensor like `like`. */
td_status td_draft_tensor(td_draft *draft, uint32_t like, td_dtype dtype, uint32_t *out);

/* Takes out nodes that nothing wanted depends on. */
td_status td_draft_drop_dead(td_draft *draft, bool forward_only);

bool td_node_has_effect(const td_node *node); /* moves running statistics */
bool td_node_is_loss(const td_node *node);

/* Rewrites backward nodes (rewrite.c): to use blocks computed again; chains and norms made again, where what
 * they read is kept anyway; activations kept in 16 bits. And products to read weights in 16 bits. */
td_status td_draft_checkpoint(td_draft *draft);
td_status td_draft_remake_cheap(td_draft *draft,
                                double most_bytes); /* to be moved; nothing if it were more */
td_status td_draft_keep_half(td_draft *draft, td_dtype dtype);
td_status td_draft_half_weights(td_draft *draft, td_dtype dtype);

/* Behind the last use of a parameter and its gradient, a node that updates it (op_update.c); so gradients are in the
 * arena, each only until then. */
td_status td_draft_update(td_draft *draft);

/* The same with nodes that add gradients to the store's. */
td_status td_draft_sum(td_draft *draft);

/* Joins nodes into fewer launches. */
td_status td_draft_fuse(td_draft *draft);

/* ---------------------------------------------------------------- who makes and reads what */

typedef struct td_uses {
    uint32_t *maker; /* by tensor: node + 1 of the last one that writes it, 0: none */
    uint32_t *count; /* by tensor: inputs that name it, views included */
} td_uses;

td_status td_uses_find(const td_draft *draft, td_uses *out);
void td_uses_clear(td_uses *uses);

/* Fusing two element-wise programs (fuse_chain.c): *into, which reads output 0 of `from` as the input `id`,
 * takes in `from`. `keep`: id is still stored, as output 1. False, and nothing changed, where limits do not
 * allow it. */
bool td_chain_merge(const td_node *from, td_node *into, uint32_t id, bool keep);

/* ---------------------------------------------------------------- places */

typedef struct td_allocation {
    uint64_t bytes, offset;
    uint32_t chunk;
    uint32_t first, last; /* nodes from the first that writes to the last that uses */
    uint32_t tensor;      /* or 0: scratch of node `first` */
    uint32_t joined;      /* place + 1 that this one lies over, 0: its own */
} td_allocation;

typedef struct td_layout {
    td_allocation *allocations;
    size_t n_allocations;
    uint32_t *of_tensor; /* by tensor: place + 1; 0: none */
    uint32_t *of_node;   /* by node: place + 1 of its scratch; 0: none */
    uint64_t chunk_bytes[16];
    size_t n_chunks;
    uint64_t sum_bytes;
} td_layout;

/* Chunks that exist already, and how large new ones may be. */
typedef struct td_layout_limits {
    uint64_t existing[16];
    size_t n_existing;
    uint64_t chunk_bytes;
    bool no_reuse;
} td_layout_limits;

td_status td_layout_make(const td_draft *draft, const td_recorder *r, const td_layout_limits *limits,
                         td_layout *out);
void td_layout_clear(td_layout *layout);

uint64_t td_tensor_bytes(const td_tensor_info *t);

#endif
