/* A folder for the fuzz targets whose readers want files: made at the first call, removed at exit. */
#ifndef TD_TESTS_FUZZ_SCRATCH_H
#define TD_TESTS_FUZZ_SCRATCH_H

#include <stddef.h>

/* The folder, valid for ever. */
const char *scratch_dir(void);

/* Writes the file anew. Its path, valid until the next call. */
const char *scratch_file(const char *name, const void *data, size_t bytes);

#endif
