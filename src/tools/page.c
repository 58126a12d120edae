/* See page.h. */
#include "tools/page.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

/* Text in a script element must not close it. */
static td_status write_escaped(td_file_writer *file, const char *text)
{
    for (const char *at = text; *at != '\0';) {
        const size_t plain = strcspn(at, "<");
        TD_CHECK(td_file_writer_write(file, at, plain));
        at += plain;
        if (*at == '<') {
            TD_CHECK(td_file_writer_write(file, "\\u003c", 6));
            ++at;
        }
    }
    return TD_OK;
}

td_status td_page_write(const char *path, const void *page, size_t page_bytes, td_json *json)
{
    static const char MARK[] = "@DATA@";
    td_file_writer *file = NULL;
    const char *text;
    td_status status = TD_OK;
    const char *start = page;
    const char *mark = memmem(page, page_bytes, MARK, strlen(MARK));
    const size_t before = mark ? (size_t)(mark - start) : page_bytes;
    const size_t after = mark ? before + strlen(MARK) : page_bytes;
    TD_TRY(td_json_finish(json, &text));
    TD_TRY(td_file_writer_open(path, &file));
    TD_TRY(td_file_writer_write(file, start, before));
    TD_TRY(write_escaped(file, text));
    TD_TRY(td_file_writer_write(file, start + after, page_bytes - after));
    TD_TRY(td_file_writer_commit(file));
fail:
    td_file_writer_close(file);
    return status;
}

td_status td_page_data_url(const char *type, const void *data, size_t bytes, char **out)
{
    const size_t head_bytes = strlen("data:;base64,") + strlen(type);
    TD_CHECK(TD_NEW_ARRAY(out, head_bytes + td_text_base64_bytes(bytes) + 1));
    snprintf(*out, head_bytes + 1, "data:%s;base64,", type);
    td_text_base64(data, bytes, *out + head_bytes);
    return TD_OK;
}
