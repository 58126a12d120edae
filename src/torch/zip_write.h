/* Writes zip archives of stored entries, as zip.h reads them. Data begins at multiples of 64 bytes, as torch.save()
 * has it, so that it can be mapped. At most 4 GiB. Covered by tests/torch/test_torch_write.c. */
#ifndef TD_TORCH_ZIP_WRITE_H
#define TD_TORCH_ZIP_WRITE_H

#include <stddef.h>
#include <stdint.h>

#include "tandem/status.h"

typedef struct td_zip_writer td_zip_writer;

/* *out: owned, td_zip_writer_close(); NULL on failure. */
td_status td_zip_writer_open(const char *path, td_zip_writer **out);
td_status td_zip_writer_add(td_zip_writer *writer, const char *name, const void *data, uint64_t bytes);

/* Writes the directory; durable and at the path on return. */
td_status td_zip_writer_commit(td_zip_writer *writer);

/* Without a successful commit the path stays as it was. */
void td_zip_writer_close(td_zip_writer *writer);

#endif
