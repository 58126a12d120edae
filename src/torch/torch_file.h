/* Files of tensors as PyTorch writes them: the zip archives of torch.save(), its older format of pickles in a row,
 * and safetensors. Memory-mapped: opening costs the pickle alone, and tensors are places in the file.
 *
 * Nothing in a file is executed (pickle.h), and nothing of it is written. Every storage, offset, stride and shape
 * is checked against the file before a tensor is handed out: its elements lie in its storage, and are no more than
 * the storage has. Checksums of storages are checked when they are read. Covered by tests/torch and
 * tests/fuzz/fuzz_torch.c.
 */
#ifndef TD_TORCH_TORCH_FILE_H
#define TD_TORCH_TORCH_FILE_H

#include "base/safetensors.h"
#include "torch/pickle.h"

typedef struct td_torch_file td_torch_file;

/* Borrowed until the file is closed, as all it points to. */
typedef struct td_torch_tensor {
    const char *name; /* keys of the dicts that it lies in, joined by '.' */
    td_safetensors_dtype dtype;
    size_t rank; /* 0: a scalar, one element */
    uint64_t dims[TD_SAFETENSORS_MAX_RANK];
    uint64_t strides[TD_SAFETENSORS_MAX_RANK]; /* in elements */
    uint64_t n;                                /* elements */
    const unsigned char *data;                 /* its first element; as aligned as the file has it */
    size_t storage;                            /* which one of the file's */
} td_torch_tensor;

/* *out: owned, td_torch_close(); NULL on failure. */
td_status td_torch_open(const char *path, td_torch_file **out);

/* The same from memory (borrowed until close, aligned to 8); `name` is for messages only. */
td_status td_torch_parse(const void *content, size_t bytes, const char *name, td_torch_file **out);
void td_torch_close(td_torch_file *file);

/* What was saved; NULL for a safetensors file, which has tensors alone. Borrowed until close. */
const td_pickle *td_torch_pickle(const td_torch_file *file);

/* Lists the tensors of the value `root` of the pickle: itself, or those of a dict and of dicts inside of it, `depth`
 * deep; other values are passed over. Of a safetensors file all tensors, whatever is asked. Sorted by name; one
 * that breaks a rule, or a name that is there twice, is TD_ERR_FORMAT. *out (owned, free()) has *n. */
td_status td_torch_list(td_torch_file *file, td_pickle_id root, size_t depth, td_torch_tensor **out,
                        size_t *n);

/* Copies the elements in row-major order, as `dtype`: that of the tensor or, if it is a floating-point one, F32,
 * F16 or BF16. `out` has room for them. TD_ERR_INTEGRITY if the storage's bytes are not what was written. */
td_status td_torch_read(td_torch_file *file, const td_torch_tensor *tensor, td_safetensors_dtype dtype,
                        void *out);

/* For messages. Borrowed until close. */
const char *td_torch_name(const td_torch_file *file);

#endif
