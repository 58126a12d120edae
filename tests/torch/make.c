/* See make.h. */
#include "make.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

void pile_put(pile *to, const void *data, size_t bytes)
{
    if (to->bytes + bytes > to->capacity) {
        to->capacity = 2 * (to->bytes + bytes) + 64;
        to->data = realloc(to->data, to->capacity);
        if (to->data == NULL) abort();
    }
    if (bytes > 0) memcpy(to->data + to->bytes, data, bytes);
    to->bytes += bytes;
}

void pile_text(pile *to, const char *text)
{
    pile_put(to, text, strlen(text));
}

static void put_number(pile *to, uint64_t value, size_t bytes)
{
    unsigned char le[8];
    for (size_t i = 0; i < bytes; i++)
        le[i] = (unsigned char)(value >> 8 * i);
    pile_put(to, le, bytes);
}

void pile_byte(pile *to, unsigned byte)
{
    put_number(to, byte, 1);
}

void pile_u16(pile *to, unsigned value)
{
    put_number(to, value, 2);
}

void pile_u32(pile *to, uint64_t value)
{
    put_number(to, value, 4);
}

void pile_u64(pile *to, uint64_t value)
{
    put_number(to, value, 8);
}

void pile_free(pile *to)
{
    free(to->data);
    *to = (pile){0};
}

/* ---------------------------------------------------------------- archives */

static void put_row(pile *to, const part *p, uint64_t header)
{
    const uint64_t bytes = p->told_bytes ? p->told_bytes : p->bytes;
    const int is_large = bytes > 0xfffffffe;
    const unsigned field_bytes = (is_large ? 16u : 0u) + (p->is_far ? 8u : 0u);
    pile_u32(to, 0x02014b50);
    pile_u16(to, 45);
    pile_u16(to, 45);
    pile_u16(to, p->flags);
    pile_u16(to, p->method);
    pile_u32(to, 0); /* time and date */
    pile_u32(to, crc32(0, p->data, (uInt)p->bytes));
    pile_u32(to, is_large ? 0xffffffff : bytes);
    pile_u32(to, is_large ? 0xffffffff : bytes);
    pile_u16(to, (unsigned)strlen(p->name));
    pile_u16(to, field_bytes > 0 ? 4 + field_bytes : 0);
    pile_u16(to, 0);
    pile_u16(to, 0);
    pile_u16(to, 0);
    pile_u32(to, 0);
    pile_u32(to, p->is_far ? 0xffffffff : header);
    pile_text(to, p->name);
    if (!is_large && !p->is_far) return;
    pile_u16(to, 1);
    pile_u16(to, field_bytes);
    if (is_large) {
        pile_u64(to, bytes);
        pile_u64(to, bytes);
    }
    if (p->is_far) pile_u64(to, header);
}

static void put_end64(pile *to, size_t n, uint64_t directory, uint64_t bytes)
{
    const uint64_t at = to->bytes;
    pile_u32(to, 0x06064b50);
    pile_u64(to, 44);
    pile_u32(to, 45 | 45 << 16);
    pile_u64(to, 0); /* disks */
    pile_u64(to, n);
    pile_u64(to, n);
    pile_u64(to, bytes);
    pile_u64(to, directory);
    pile_u32(to, 0x07064b50);
    pile_u32(to, 0);
    pile_u64(to, at);
    pile_u32(to, 1);
}

void make_zip(pile *to, const part *parts, size_t n, int is_zip64)
{
    uint64_t *headers = calloc(n + 1, sizeof *headers);
    for (size_t i = 0; i < n; i++) {
        headers[i] = parts[i].header ? parts[i].header : to->bytes;
        pile_u32(to, 0x04034b50);
        pile_u32(to, 45 | 0x0808u << 16); /* sizes are told behind the data, as torch.save() does */
        for (int k = 0; k < 9; k++)
            pile_u16(to, 0);
        pile_u16(to, (unsigned)strlen(parts[i].name));
        pile_u16(to, 0);
        pile_text(to, parts[i].name);
        pile_put(to, parts[i].data, parts[i].bytes);
    }
    const uint64_t directory = to->bytes;
    for (size_t i = 0; i < n; i++)
        put_row(to, &parts[i], headers[i]);
    const uint64_t bytes = to->bytes - directory;
    if (is_zip64) put_end64(to, n, directory, bytes);
    pile_u32(to, 0x06054b50);
    pile_u32(to, 0);
    pile_u16(to, is_zip64 ? 0xffff : (unsigned)n);
    pile_u16(to, is_zip64 ? 0xffff : (unsigned)n);
    pile_u32(to, is_zip64 ? 0xffffffff : bytes);
    pile_u32(to, is_zip64 ? 0xffffffff : directory);
    pile_u16(to, 0);
    free(headers);
}

/* ---------------------------------------------------------------- pickles */

void pickle_text(pile *to, const char *text)
{
    pile_byte(to, 'X');
    pile_u32(to, strlen(text));
    pile_text(to, text);
}

void pickle_int(pile *to, int64_t value)
{
    pile_byte(to, 0x8a);
    pile_byte(to, 8);
    pile_u64(to, (uint64_t)value);
}

void pickle_view(pile *to, const view *v)
{
    pile_text(to, "ctorch._utils\n_rebuild_tensor_v2\n((");
    pickle_text(to, "storage");
    pile_text(to, "ctorch\n");
    pile_text(to, v->class);
    pile_text(to, "\n");
    pickle_text(to, v->key);
    pickle_text(to, "cpu");
    pickle_int(to, v->count);
    pile_text(to, "tQ");
    pickle_int(to, v->offset);
    for (int side = 0; side < 2; side++) {
        pile_text(to, "(");
        for (size_t d = 0; d < v->rank; d++)
            pickle_int(to, side == 0 ? v->dims[d] : v->strides[d]);
        pile_text(to, "t");
    }
    pile_byte(to, 0x89);
    pile_text(to, "ccollections\nOrderedDict\n)RtR");
}

void make_tensor_file(pile *to, const view *v, const void *data, size_t bytes)
{
    pile p = {0};
    pile_text(&p, "\x80\x02}");
    pickle_text(&p, "t");
    pickle_view(&p, v);
    pile_text(&p, "s.");
    const part parts[] = {{.name = "x/data.pkl", .data = p.data, .bytes = p.bytes},
                          {.name = "x/data/0", .data = data, .bytes = bytes}};
    make_zip(to, parts, 2, 0);
    pile_free(&p);
}

const char *golden_path(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", GOLDEN_DIR, name);
    return path;
}
