/* Safetensors files: a JSON header of named tensors, then their bytes. Read memory-mapped, written
 * atomically.
 *
 * Files come from strangers, so reading is strict; what breaks a rule is refused with the file, the tensor
 * and the rule. The header: a multiple of 8 bytes, at most TD_SAFETENSORS_MAX_HEADER_BYTES, valid UTF-8, one
 * JSON object, then spaces. A tensor: a dtype of the list below, a shape, data_offsets that span exactly its
 * bytes, nothing else. All tensors together cover the data once, without overlap, hole or rest, in whatever
 * order the header names them; each starts at a multiple of its element's size. No name twice. Values are not
 * looked at. Covered by tests/unit/test_safetensors.c and tests/fuzz/fuzz_safetensors.c.
 */
#ifndef TD_BASE_SAFETENSORS_H
#define TD_BASE_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "tandem/status.h"

enum {
    TD_SAFETENSORS_MAX_HEADER_BYTES = 100000000,
    TD_SAFETENSORS_MAX_ENTRIES = 65536, /* tensors; and pairs of metadata */
    TD_SAFETENSORS_MAX_RANK = 8,
    TD_SAFETENSORS_MAX_NAME_BYTES = 512
};

/* X(name in the file, bytes of an element) */
#define TD_SAFETENSORS_DTYPE_LIST(X)                                                                         \
    X(F64, 8)                                                                                                \
    X(F32, 4)                                                                                                \
    X(F16, 2)                                                                                                \
    X(BF16, 2)                                                                                               \
    X(F8_E4M3, 1)                                                                                            \
    X(F8_E5M2, 1)                                                                                            \
    X(I64, 8)                                                                                                \
    X(I32, 4)                                                                                                \
    X(I16, 2)                                                                                                \
    X(I8, 1)                                                                                                 \
    X(U64, 8)                                                                                                \
    X(U32, 4)                                                                                                \
    X(U16, 2)                                                                                                \
    X(U8, 1)                                                                                                 \
    X(BOOL, 1)

typedef enum td_safetensors_dtype {
#define TD_SAFETENSORS_ENUM(name, bytes) TD_SAFETENSORS_##name,
    TD_SAFETENSORS_DTYPE_LIST(TD_SAFETENSORS_ENUM)
#undef TD_SAFETENSORS_ENUM
        TD_SAFETENSORS_DTYPE_COUNT
} td_safetensors_dtype;

/* "F32" and 4. */
const char *td_safetensors_dtype_name(td_safetensors_dtype dtype);
size_t td_safetensors_dtype_bytes(td_safetensors_dtype dtype);

/* Borrowed until the file is closed, as is all it points to. */
typedef struct td_safetensors_tensor {
    const char *name;
    const void *data; /* little-endian, row-major, aligned to its element */
    uint64_t bytes;
    uint64_t offset; /* from the start of the file's data */
    uint64_t dims[TD_SAFETENSORS_MAX_RANK];
    size_t rank; /* 0: a scalar, one element */
    td_safetensors_dtype dtype;
} td_safetensors_tensor;

typedef struct td_safetensors_pair {
    const char *key;
    const char *value;
} td_safetensors_pair;

typedef struct td_safetensors td_safetensors;

/* Maps the file: opening costs the header alone, data is read when touched. Replacing the file by another
 * meanwhile (as the writer below does) is harmless; cutting it short in place ends the program when the lost
 * part is touched. *out: owned, td_safetensors_close(); NULL on failure. */
td_status td_safetensors_open(const char *path, td_safetensors **out);

/* The same from memory (borrowed until close, aligned to 8); `name` is for messages only. */
td_status td_safetensors_parse(const void *content, size_t bytes, const char *name, td_safetensors **out);
void td_safetensors_close(td_safetensors *file);

/* Tensors in the order of their data. */
size_t td_safetensors_count(const td_safetensors *file);
const td_safetensors_tensor *td_safetensors_at(const td_safetensors *file, size_t index);

/* NULL if there is none of this name. */
const td_safetensors_tensor *td_safetensors_find(const td_safetensors *file, const char *name);

/* Lets the memory go that reading a tensor's data took; touched again, it is read again. */
void td_safetensors_forget(const td_safetensors *file, const td_safetensors_tensor *tensor);

/* Metadata in the order of its keys; find: the value, or NULL. Borrowed until close. */
size_t td_safetensors_metadata_count(const td_safetensors *file);
const td_safetensors_pair *td_safetensors_metadata_at(const td_safetensors *file, size_t index);
const char *td_safetensors_metadata_find(const td_safetensors *file, const char *key);

/* XXH3 of the file's first bytes, length and header as they are. */
uint64_t td_safetensors_header_hash(const td_safetensors *file);

/* The first value of a tensor of F32, F16 or BF16 that is not finite; the count if there is none. */
uint64_t td_safetensors_find_broken(const td_safetensors_tensor *tensor);

/* Writing: open, add metadata, add tensors, write their data in the same order, commit, close. The same calls
 * give the same bytes. The folder must exist; `path` changes at the commit and only there. */
typedef struct td_safetensors_writer td_safetensors_writer;

/* *out: owned, td_safetensors_writer_close(); NULL on failure. */
td_status td_safetensors_writer_open(const char *path, td_safetensors_writer **out);
td_status td_safetensors_writer_add_metadata(td_safetensors_writer *writer, const char *key,
                                             const char *value);

/* Add wide element types before narrow ones, since nothing pads between tensors. */
td_status td_safetensors_writer_add_tensor(td_safetensors_writer *writer, const char *name,
                                           td_safetensors_dtype dtype, size_t rank, const uint64_t *dims);

/* The next bytes of `name`, which must be the first added tensor that is not complete; in as many pieces as
 * liked, each a system call. The first call judges all that was added by the rules of reading. */
td_status td_safetensors_writer_write(td_safetensors_writer *writer, const char *name, const void *data,
                                      size_t bytes);

/* The hash that a reader will find; no tensor can be added afterwards. What it is for: a tensor's data lies
 * outside the header, so it can hold the header's hash. */
td_status td_safetensors_writer_header_hash(td_safetensors_writer *writer, uint64_t *out);

/* Refuses while data is missing. Durable and at `path` on return. */
td_status td_safetensors_writer_commit(td_safetensors_writer *writer);

/* Without a successful commit `path` stays as it was. */
void td_safetensors_writer_close(td_safetensors_writer *writer);

#endif
