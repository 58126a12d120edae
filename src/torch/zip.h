/* The zip archives that torch.save() writes: entries that are stored, not compressed, with zip64 where files
 * are large. What is read is a file in memory, and entries are places in it; nothing is copied.
 *
 * Files come from strangers, so reading is strict: what breaks a rule is refused with the entry and the rule.
 * Sizes and places come from the central directory, since local headers may leave them out. Every entry is
 * stored, not encrypted, of one disk, has a name of its own, and lies before the directory and apart from all
 * others. Covered by tests/torch and tests/fuzz/fuzz_zip.c.
 */
#ifndef TD_TORCH_ZIP_H
#define TD_TORCH_ZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tandem/status.h"

enum { TD_ZIP_MAX_ENTRIES = 100000, TD_ZIP_MAX_NAME_BYTES = 512 };

/* Borrowed from the content, as all it points to. */
typedef struct td_zip_entry {
    const char *name; /* not ended by 0 */
    size_t name_bytes;
    const unsigned char *data;
    uint64_t bytes;
    uint64_t header; /* where its local header begins */
    uint32_t crc;    /* of the data; 0: not told */
} td_zip_entry;

typedef struct td_zip td_zip;

/* Whether the content begins as archives do. */
bool td_zip_is_one(const void *content, size_t bytes);

/* `content` is borrowed until close. *out: owned, td_zip_close(); NULL on failure. */
td_status td_zip_parse(const void *content, size_t bytes, td_zip **out);
void td_zip_close(td_zip *zip);

/* Entries in the order of their names. */
size_t td_zip_count(const td_zip *zip);
const td_zip_entry *td_zip_at(const td_zip *zip, size_t i);

/* NULL if there is none of this name. */
const td_zip_entry *td_zip_find(const td_zip *zip, const char *name);

#endif
