/* See multipart.h. */
#include "serve/multipart.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"

/* The longest boundary of RFC 2046, and the longest line of a part's head. */
enum { MOST_BOUNDARY = 70, MOST_LINE = 1024, MOST_LINES = 8 };

typedef struct reader {
    const char *body;
    size_t bytes, at;
    char mark[MOST_BOUNDARY + 5]; /* CR LF, two dashes, the boundary */
    size_t mark_bytes;
} reader;

static bool is_boundary_sign(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr("'()+_,-./:=? ", c) != NULL);
}

/* From "multipart/form-data; boundary=...", with or without quotes. */
static td_status read_boundary(const char *type, reader *r)
{
    static const char KIND[] = "multipart/form-data";
    const char *at = type ? strcasestr(type, "boundary=") : NULL;
    TD_REFUSE_IF(!type || strncasecmp(type, KIND, sizeof KIND - 1) != 0, TD_ERR_FORMAT,
                 "the body must be multipart/form-data, as forms of browsers and `curl -F` send it");
    TD_REFUSE_IF(!at, TD_ERR_FORMAT, "the Content-Type names no boundary");
    at += strlen("boundary=");
    const bool is_quoted = *at == '"';
    at += is_quoted;
    const size_t n = strcspn(at, is_quoted ? "\"" : "; \t");
    TD_REFUSE_IF(n == 0 || n > MOST_BOUNDARY || (is_quoted && at[n] != '"'), TD_ERR_FORMAT,
                 "a boundary has 1 to %d signs", MOST_BOUNDARY);
    for (size_t i = 0; i < n; i++)
        TD_REFUSE_IF(!is_boundary_sign(at[i]), TD_ERR_FORMAT, "sign %zu of the boundary is not allowed",
                     i + 1);
    r->mark_bytes = 4 + n;
    snprintf(r->mark, sizeof r->mark, "\r\n--%.*s", (int)n, at);
    return TD_OK;
}

static bool begins_with(const reader *r, const char *text, size_t n)
{
    return r->bytes - r->at >= n && memcmp(r->body + r->at, text, n) == 0;
}

/* A line of a part's head, without its end; *n 0 behind the last. */
static td_status read_line(reader *r, const char **line, size_t *n)
{
    const char *start = r->body + r->at;
    const size_t left = r->bytes - r->at, most = left < MOST_LINE ? left : MOST_LINE;
    const char *end = memchr(start, '\r', most);
    TD_REFUSE_IF(!end || (size_t)(end - start) + 1 >= left || end[1] != '\n', TD_ERR_FORMAT,
                 "byte %zu: the head of a part has no end, or a line of more than %d bytes", r->at,
                 MOST_LINE);
    *line = start;
    *n = (size_t)(end - start);
    TD_REFUSE_IF(memchr(start, '\0', *n) || memchr(start, '\n', *n), TD_ERR_FORMAT,
                 "byte %zu: a control character in the head of a part", r->at);
    r->at += *n + 2;
    return TD_OK;
}

/* name="..." of a Content-Disposition; escapes are not taken. */
static td_status read_name(const reader *r, const char *line, size_t n, char out[TD_PART_NAME])
{
    static const char KIND[] = "form-data;", KEY[] = " name=\"";
    char text[MOST_LINE + 1];
    snprintf(text, sizeof text, "%.*s", (int)n, line);
    const char *value = strchr(text, ':') + 1;
    value += strspn(value, " \t");
    const char *name = strncasecmp(value, KIND, sizeof KIND - 1) == 0 ? strstr(value, KEY) : NULL;
    TD_REFUSE_IF(!name, TD_ERR_FORMAT, "byte %zu: a part must be form-data and have a name in quotes", r->at);
    name += sizeof KEY - 1;
    const size_t length = strcspn(name, "\"");
    TD_REFUSE_IF(name[length] != '"' || length == 0 || memchr(name, '\\', length), TD_ERR_FORMAT,
                 "byte %zu: the name of a part has no end, no letter, or an escape", r->at);
    TD_REFUSE_IF(length >= TD_PART_NAME, TD_ERR_LIMIT, "byte %zu: the name of a part is longer than %d bytes",
                 r->at, TD_PART_NAME - 1);
    snprintf(out, TD_PART_NAME, "%.*s", (int)length, name);
    return TD_OK;
}

static td_status read_head(reader *r, char name[TD_PART_NAME])
{
    static const char DISPOSITION[] = "Content-Disposition:";
    const char *line = NULL;
    size_t n = 0;
    name[0] = '\0';
    for (int i = 0; i <= MOST_LINES; i++) {
        TD_CHECK(read_line(r, &line, &n));
        if (n == 0) {
            TD_REFUSE_IF(name[0] == '\0', TD_ERR_FORMAT, "byte %zu: a part without Content-Disposition",
                         r->at);
            return TD_OK;
        }
        TD_REFUSE_IF(!memchr(line, ':', n), TD_ERR_FORMAT, "byte %zu: a line of a head without a colon",
                     r->at);
        if (n >= sizeof DISPOSITION && strncasecmp(line, DISPOSITION, sizeof DISPOSITION - 1) == 0) {
            TD_REFUSE_IF(name[0] != '\0', TD_ERR_FORMAT, "byte %zu: a part with two names", r->at);
            TD_CHECK(read_name(r, line, n, name));
        }
    }
    return TD_FAIL(TD_ERR_LIMIT, "byte %zu: the head of a part has more than %d lines", r->at, MOST_LINES);
}

/* The part that begins here; leaves the reader behind the mark that ends it. */
static td_status read_part(reader *r, td_parts *out)
{
    TD_REFUSE_IF(out->count == TD_MOST_PARTS, TD_ERR_LIMIT, "more than %d parts", TD_MOST_PARTS);
    td_part *part = &out->at[out->count];
    TD_CHECK(read_head(r, part->name));
    TD_REFUSE_IF(td_multipart_find(out, part->name), TD_ERR_FORMAT, "two parts are called %s", part->name);
    const char *end = memmem(r->body + r->at, r->bytes - r->at, r->mark, r->mark_bytes);
    TD_REFUSE_IF(!end, TD_ERR_FORMAT, "part %s has no end; the body was cut off", part->name);
    part->data = r->body + r->at;
    part->bytes = (size_t)(end - part->data);
    r->at += part->bytes + r->mark_bytes;
    out->count++;
    return TD_OK;
}

td_status td_multipart_parse(const char *type, const char *body, size_t bytes, td_parts *out)
{
    reader r = {.body = body, .bytes = bytes};
    *out = (td_parts){0};
    TD_CHECK(read_boundary(type, &r));
    TD_REFUSE_IF(!begins_with(&r, r.mark + 2, r.mark_bytes - 2), TD_ERR_FORMAT,
                 "the body does not begin with its boundary");
    r.at = r.mark_bytes - 2;
    while (!begins_with(&r, "--", 2)) {
        TD_REFUSE_IF(!begins_with(&r, "\r\n", 2), TD_ERR_FORMAT, "byte %zu: a boundary that ends no line",
                     r.at);
        r.at += 2;
        TD_CHECK(read_part(&r, out));
    }
    r.at += 2;
    TD_REFUSE_IF(r.at != bytes && !(bytes - r.at == 2 && begins_with(&r, "\r\n", 2)), TD_ERR_FORMAT,
                 "byte %zu: something follows the last part", r.at);
    return TD_OK;
}

const td_part *td_multipart_find(const td_parts *parts, const char *name)
{
    for (size_t i = 0; i < parts->count; i++)
        if (strcmp(parts->at[i].name, name) == 0) return &parts->at[i];
    return NULL;
}
