/* The stack machine of pickle.c, and its opcodes (pickle_ops.c). */
#ifndef TD_TORCH_PICKLE_INTERNAL_H
#define TD_TORCH_PICKLE_INTERNAL_H

#include "torch/pickle.h"

struct td_pickle {
    td_pickle_value *values; /* [0] is none */
    size_t n_values, value_capacity;
    td_pickle_id root;
    uint64_t n_items; /* of all containers */

    /* while it is read */
    const unsigned char *content;
    size_t bytes, at;
    td_pickle_id *stack;
    size_t n_stack, stack_capacity;
    size_t marks[TD_PICKLE_MAX_DEPTH];
    size_t n_marks;
    td_pickle_id *memo;
    size_t memo_capacity, n_memo; /* one more than the largest that was put */
    bool is_done;
};

/* The next `bytes` of the content. */
td_status td_pickle_take(td_pickle *p, uint64_t bytes, const unsigned char **out);

/* A new value on the stack. */
td_status td_pickle_push(td_pickle *p, td_pickle_value value);
td_status td_pickle_push_id(td_pickle *p, td_pickle_id id);

/* The topmost value above the last mark. */
td_status td_pickle_pop(td_pickle *p, td_pickle_id *out);
td_status td_pickle_top(td_pickle *p, td_pickle_id *out);

/* What lies above the last mark, which goes. *items is borrowed until the next push. */
td_status td_pickle_pop_mark(td_pickle *p, const td_pickle_id **items, size_t *n);

/* A new container with these items on the stack. */
td_status td_pickle_push_items(td_pickle *p, td_pickle_kind kind, const td_pickle_id *items, size_t n);

/* Appends to a container. */
td_status td_pickle_append(td_pickle *p, td_pickle_id to, const td_pickle_id *items, size_t n);

/* A new global on the stack; those that no file of tensors needs are refused by name. */
td_status td_pickle_push_global(td_pickle *p, td_pickle_id module, td_pickle_id name);

/* Runs the next opcode. */
td_status td_pickle_run_opcode(td_pickle *p);

#endif
