/* What the modules of torch_file.h share: the file and its storages. */
#ifndef TD_TORCH_TORCH_INTERNAL_H
#define TD_TORCH_TORCH_INTERNAL_H

#include "base/arena.h"
#include "base/file.h"
#include "torch/torch_file.h"
#include "torch/zip.h"

/* Bytes of a file that tensors are views of. */
typedef struct td_torch_storage {
    const unsigned char *key; /* digits; borrowed from the content */
    size_t key_bytes;
    const unsigned char *data;
    uint64_t bytes;
    td_safetensors_dtype dtype;
    uint32_t crc; /* 0: not told */
    bool is_checked;
} td_torch_storage;

struct td_torch_file {
    char *name;              /* owned */
    td_file_mapping mapping; /* empty when parsed from memory */
    td_safetensors *safetensors;
    td_pickle *pickle;
    td_torch_storage *storages; /* sorted by key */
    size_t n_storages;
    td_arena *arena; /* names of tensors */
};

/* The storages that the pickle speaks of (without data), sorted, each once. */
td_status td_torch_collect_storages(td_torch_file *file);

/* The number of the storage of this key; n_storages if there is none. */
size_t td_torch_find_storage(const td_torch_file *file, const unsigned char *key, size_t bytes);

/* Where their data lies: in the entries of an archive, or one after the other. */
td_status td_torch_open_zip(td_torch_file *file, const void *content, size_t bytes);
td_status td_torch_open_legacy(td_torch_file *file, const void *content, size_t bytes);

/* A value of the pickle as a tensor, checked, without its name. *is_tensor: whether it is one at all. */
td_status td_torch_resolve(const td_torch_file *file, td_pickle_id id, td_torch_tensor *out, bool *is_tensor);

#endif
