/* What the reader and the writer of safetensors share: safetensors.c, safetensors_write.c. */
#ifndef TD_BASE_SAFETENSORS_INTERNAL_H
#define TD_BASE_SAFETENSORS_INTERNAL_H

#include "base/safetensors.h"

#define TD_SAFETENSORS_METADATA "__metadata__"

enum { TD_SAFETENSORS_LENGTH_BYTES = 8 }; /* of the number at the start of the file */

/* The bytes that dtype and shape ask for. */
td_status td_safetensors_measure(td_safetensors_dtype dtype, size_t rank, const uint64_t *dims,
                                 uint64_t *bytes);

/* A header alone, length included, judged as that of a file with so many bytes of data; its tensors have
 * none. `content` must have a length of at least TD_SAFETENSORS_LENGTH_BYTES. *out: owned,
 * td_safetensors_close(); NULL on failure. */
td_status td_safetensors_parse_layout(const void *content, size_t bytes, uint64_t data_bytes,
                                      td_safetensors **out);

#endif
