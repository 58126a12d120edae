/* Bodies of multipart/form-data (RFC 7578), read strictly: what is not exactly so is refused with where it stands.
 * Nothing is copied but names. Covered by tests/serve/test_multipart.c and tests/fuzz/fuzz_multipart.c.
 */
#ifndef TD_SERVE_MULTIPART_H
#define TD_SERVE_MULTIPART_H

#include <stddef.h>

#include "tandem/status.h"

enum { TD_PART_NAME = 64, TD_MOST_PARTS = 16 };

typedef struct td_part {
    char name[TD_PART_NAME];
    const char *data; /* borrowed from the body; no zero behind it */
    size_t bytes;
} td_part;

typedef struct td_parts {
    td_part at[TD_MOST_PARTS];
    size_t count;
} td_parts;

/* `type` is the request's Content-Type, or NULL. TD_ERR_FORMAT: another type, or not well-formed; TD_ERR_LIMIT: more
 * parts, or a longer name, than there is room for. */
td_status td_multipart_parse(const char *type, const char *body, size_t bytes, td_parts *out);

/* NULL: there is none of that name. */
const td_part *td_multipart_find(const td_parts *parts, const char *name);

#endif
