/* A page that the program carries (pages/NAME.html, as bytes) with data in it: one file that needs no network
 * and no other file. The page has @DATA@ once, inside a script element of type application/json. Covered by
 * tests/cli/test_report.py.
 */
#ifndef TD_TOOLS_PAGE_H
#define TD_TOOLS_PAGE_H

#include <stddef.h>

#include "base/json.h"

/* Ends the document in `json` and writes the page with it to `path`, atomically. */
td_status td_page_write(const char *path, const void *page, size_t page_bytes, td_json *json);

/* A picture or sound inside a page: "data:image/png;base64,...". *out: owned, free(). */
td_status td_page_data_url(const char *type, const void *data, size_t bytes, char **out);

#endif
