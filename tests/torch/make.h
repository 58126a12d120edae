/* Files of tensors put together byte by byte, so that tests can make what PyTorch never would. A pile is one growing
 * piece of memory; a test frees it. */
#ifndef TD_TESTS_TORCH_MAKE_H
#define TD_TESTS_TORCH_MAKE_H

#include <stddef.h>
#include <stdint.h>

typedef struct pile {
    unsigned char *data;
    size_t bytes, capacity;
} pile;

void pile_put(pile *to, const void *data, size_t bytes);
void pile_text(pile *to, const char *text); /* without its end */
void pile_byte(pile *to, unsigned byte);
void pile_u16(pile *to, unsigned value);
void pile_u32(pile *to, uint64_t value);
void pile_u64(pile *to, uint64_t value);
void pile_free(pile *to);

/* An entry of an archive. */
typedef struct part {
    const char *name;
    const void *data;
    size_t bytes;
    uint64_t told_bytes; /* what the directory says, if not 0; past 32 bits with zip64 fields */
    uint64_t header;     /* where the directory says it is, if not 0 */
    unsigned method, flags;
    int is_far; /* its place is told by a zip64 field */
} part;

/* Stored entries, the directory and the end; with `is_zip64` their zip64 forms. */
void make_zip(pile *to, const part *parts, size_t n, int is_zip64);

/* Opcodes of pickles. */
void pickle_text(pile *to, const char *text);
void pickle_int(pile *to, int64_t value); /* of eight bytes */

/* A tensor as torch.save() puts it, of storage `key` with `count` elements of torch.CLASS. */
typedef struct view {
    const char *class, *key;
    int64_t count, offset;
    size_t rank;
    int64_t dims[8], strides[8];
} view;
void pickle_view(pile *to, const view *v);

/* An archive with {"t": the tensor}, and `bytes` of data as its storage 0. */
void make_tensor_file(pile *to, const view *v, const void *data, size_t bytes);

/* The path of a golden file; valid until the next call. */
const char *golden_path(const char *name);

#endif
