/* Models of other programs: from their files to a voice of ours, and back. What is particular to a family stands in
 * its td_importer; opening, writing and reporting are the same for all. Nothing in a foreign file is executed, and
 * none is written to (torch/torch_file.h). Covered by tests/families/test_xtts_import.c.
 */
#ifndef TD_FAMILIES_IMPORTER_H
#define TD_FAMILIES_IMPORTER_H

#include "base/arena.h"
#include "families/checkpoint.h"
#include "torch/torch_file.h"

/* A tensor of the voice, and where its elements come from. */
typedef struct td_import_tensor {
    const char *name;
    td_torch_file *file;
    const td_torch_tensor *from;
    td_safetensors_dtype dtype; /* as which it is stored; of td_import_write() */
    bool is_scale;              /* of the bytes of `from`, which are stored under the name before ".scale" */
    uint64_t rows;              /* more than `from` has: new ones are drawn, of a vector 0; 0: as it is */
} td_import_tensor;

/* Texts in the order in which they came. */
typedef struct td_import_list {
    const char **at;
    size_t n, capacity;
} td_import_list;

enum { TD_IMPORT_FILES = 8 };

/* What was found in a source. Everything lives until td_import_close(). */
typedef struct td_import {
    const char *source;      /* a folder, or the file of a model */
    bool grows;              /* tokens that the model does not have get rows of their own */
    uint64_t n_grown;        /* such tokens */
    td_checkpoint_info info; /* of the voice */
    td_safetensors_pair *pairs;
    size_t n_pairs, pair_capacity; /* further metadata: languages, origin, licence ... */
    td_import_tensor *tensors;
    size_t n_tensors, tensor_capacity;
    td_import_list ignored; /* tensors that are of no use */
    td_import_list missing; /* what a source may have and this one has not */
    td_arena *arena;
    td_torch_file *files[TD_IMPORT_FILES];
    td_torch_tensor *lists[TD_IMPORT_FILES];
    size_t n_files;
} td_import;

/* How a family reads and writes the files of another program. */
typedef struct td_importer {
    const char *format; /* the name of the program, or of its format */
    const char *files;  /* what a source has, for messages */
    const char *const
        *bytes; /* patterns of matrices [in, out] that can be stored as bytes, ended by NULL; NULL: none */
    bool (*recognises)(const char *source); /* by the names of its files */
    td_status (*import)(td_import *import); /* fills it; import->info.model has the family's "base" preset */
    td_status (*export)(const td_checkpoint *voice, const char *folder); /* which is there */
    /* What a run has learnt beside a voice, in a format of its own; and giving it to a voice. NULL: there is none. */
    const char *adapter_format;
    td_status (*export_adapters)(const td_checkpoint *voice, const char *folder);
    td_status (*attach_adapters)(td_checkpoint *voice, const char *path);
} td_importer;

/* Looks for the family that recognises the source, and reads all but the elements. `grows`: a vocabulary may have more
 * tokens than the model. *out: owned. */
td_status td_import_open(const char *source, bool grows, td_import **out);
void td_import_close(td_import *import);

/* Gives a voice adapters that were exported. */
td_status td_import_attach(td_checkpoint *voice, const char *path);

/* Writes the voice; floating-point numbers as `dtype`: F32, F16 or BF16. With I8 the matrices that the family names
 * become bytes, with scales in tensors of their own (nn/bytes.h), and the rest is F32. Once for each import. */
td_status td_import_write(td_import *import, const char *path, td_safetensors_dtype dtype);

/* Parameters of part i of the family; buffers do not count. */
uint64_t td_import_part_size(const td_import *import, size_t i);

/* Writes a voice as the files of `format` into a folder, which is made. TD_ERR_UNSUPPORTED if its family does not know
 * the format. */
td_status td_export_voice(const td_checkpoint *voice, const char *format, const char *folder);

/* ---------------------------------------------------------------- for importers */

/* Opens a file; it is closed with the import. */
td_status td_import_file(td_import *import, const char *path, td_torch_file **out);

/* The tensors of a value (td_torch_list); they are freed with the import. One list for each file. */
td_status td_import_tensors(td_import *import, td_torch_file *file, td_pickle_id root, size_t depth,
                            const td_torch_tensor **out, size_t *n);

/* Texts are copied. */
td_status td_import_add(td_import *import, const char *name, td_torch_file *file,
                        const td_torch_tensor *from);
td_status td_import_ignore(td_import *import, const char *name);
td_status td_import_lack(td_import *import, const char *what);
td_status td_import_pair(td_import *import, const char *key, const char *value);

#endif
