/* Writes what torch.load(weights_only=True) reads: a zip archive with a pickle of dicts and tensors, and their
 * storages. Atomic: the path has the old content or the new one.
 *
 * Describe first: dicts, keys and tensors as they nest. Then write the elements of each tensor in the same order,
 * and commit. Covered by tests/torch/test_torch_write.c.
 */
#ifndef TD_TORCH_TORCH_WRITE_H
#define TD_TORCH_TORCH_WRITE_H

#include "base/safetensors.h"

typedef struct td_torch_writer td_torch_writer;

/* `prefix`: the folder inside the archive; torch.save() takes the file's name without its ending. *out: owned,
 * td_torch_writer_close(); NULL on failure. */
td_status td_torch_writer_open(const char *path, const char *prefix, td_torch_writer **out);

/* One value: a tensor, or a dict with keys, each followed by its value. */
td_status td_torch_writer_begin_dict(td_torch_writer *writer);
td_status td_torch_writer_key(td_torch_writer *writer, const char *key);
td_status td_torch_writer_end_dict(td_torch_writer *writer);
td_status td_torch_writer_tensor(td_torch_writer *writer, td_safetensors_dtype dtype, size_t rank,
                                 const uint64_t *dims);

/* All elements of the next tensor, row-major. The first call ends the description. */
td_status td_torch_writer_write(td_torch_writer *writer, const void *data, uint64_t bytes);

/* Refuses while data is missing. Durable and at the path on return. */
td_status td_torch_writer_commit(td_torch_writer *writer);
void td_torch_writer_close(td_torch_writer *writer);

#endif
