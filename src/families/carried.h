/* What a checkpoint takes over from the voice that its run began with: tensors that no graph of training has, and
 * metadata. Covered by tests/xtts/test_xtts_finetune.c.
 */
#ifndef TD_FAMILIES_CARRIED_H
#define TD_FAMILIES_CARRIED_H

#include "families/checkpoint.h"

/* What a file is made of: the caller's own, and what was joined to it. */
typedef struct td_carried {
    const td_safetensors_pair *pairs;
    size_t n_pairs;
    const td_checkpoint_tensor_data *tensors;
    size_t n_tensors;
    td_safetensors_pair *all_pairs; /* owned */
    td_checkpoint_tensor_data *all_tensors;
} td_carried;

/* Adds what `rest` (NULL: nothing) has and the lists do not: tensors that are spoken with, whatever is before their
 * names, and metadata. The bytes stay those of `rest`. Tensors of less than four bytes an element then come last. */
td_status td_carried_join(const td_checkpoint *rest, td_carried *carried);
void td_carried_free(td_carried *carried);

/* Bytes of a file's tensors that are spoken with. */
uint64_t td_carried_bytes(const td_checkpoint *rest);

/* Whether a file has the parameter. */
bool td_carried_has(const td_checkpoint *rest, const char *name);

#endif
