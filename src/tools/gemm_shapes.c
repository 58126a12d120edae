/* Parsing of shapes; see gemm_shapes.h. */
#include "tools/gemm_shapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

#define MAX_SIZE (UINT64_C(1) << 24)
#define PIECE_BYTES 64

static td_status refuse(const char *piece)
{
    return TD_FAIL(TD_ERR_CONFIG,
                   "'%s' is not a shape; write MxNxK, or BxMxNxK for a batch, with sizes from 1 to %llu",
                   piece, (unsigned long long)MAX_SIZE);
}

static td_status parse_shape(const char *piece, td_gemm_shape *out)
{
    uint64_t sizes[4];
    size_t count = 0;
    char numbers[PIECE_BYTES];
    snprintf(numbers, sizeof numbers, "%s", piece);
    for (char *rest = numbers, *number; rest;) {
        number = rest;
        rest = strchr(number, 'x');
        if (rest) *rest++ = '\0';
        if (count == 4 || td_text_parse_u64(number, &sizes[count]) != TD_OK || !sizes[count] ||
            sizes[count] > MAX_SIZE)
            return refuse(piece);
        count++;
    }
    if (count < 3) return refuse(piece);
    *out = (td_gemm_shape){
        .batch = count == 4 ? (uint32_t)sizes[0] : 1,
        .m = (uint32_t)sizes[count - 3],
        .n = (uint32_t)sizes[count - 2],
        .k = (uint32_t)sizes[count - 1],
    };
    return TD_OK;
}

td_status td_gemm_shapes_parse(const char *text, td_gemm_shape **out, size_t *count)
{
    td_gemm_shape *shapes = NULL;
    size_t room = 0;
    td_status status = TD_OK;
    *count = 0;
    for (const char *at = text;; at++) {
        char piece[PIECE_BYTES];
        const size_t length = strcspn(at, ",");
        if (length >= sizeof piece) {
            status = refuse(at);
            goto fail;
        }
        memcpy(piece, at, length);
        piece[length] = '\0';
        TD_TRY(td_alloc_grow(&shapes, &room, *count + 1, sizeof *shapes));
        TD_TRY(parse_shape(piece, &shapes[*count]));
        (*count)++;
        at += length;
        if (!*at) break;
    }
    *out = shapes;
    return TD_OK;
fail:
    free(shapes);
    *out = NULL;
    *count = 0;
    return status;
}

td_gemm_desc td_gemm_shape_desc(const td_gemm_shape *shape, td_gemm_layout layout)
{
    td_gemm_desc desc = {
        .layout = layout, .m = shape->m, .n = shape->n, .k = shape->k, .batch = shape->batch};
    if (shape->batch > 1) {
        desc.stride_a = shape->m * shape->k;
        desc.stride_b = shape->k * shape->n;
        desc.stride_c = shape->m * shape->n;
    }
    return desc;
}
