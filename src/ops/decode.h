/* One step of a decoder of pre-norm blocks with a cache (GPT-2): each block is three launches, and all products are of a
 * matrix and a vector. Between launches partial sums are handed on, which the next adds up in their order; so no launch
 * waits for a sum, and bits repeat.
 *
 *   embed    x = table[code] + positions[position]
 *   qkv      x += parts of the block before; its norm times the first matrix -> splits of queries, keys, values
 *   attend   of each head: cache, attention, times the head's rows of the second matrix -> parts
 *   mlp      x += parts; its norm times the third matrix, GELU, times the fourth -> parts
 *   head     x + parts, two norms -> latent; times the last matrix -> logits
 *
 * A step may take rows of several texts, a code of each with a cache of its own: weights are then read once for all. What
 * becomes of a text does not depend on the others, to the bit.
 *
 * Weights are fp32, bf16 or bytes with a scale for each output (TD_FORMAT_*); everything else is fp32. Spans are borrowed
 * until the list is destroyed. Functions record into the list and launch nothing. Kernels: src/kernels/decode*.kh.
 * Covered by tests/ops/cases_decode.c.
 */
#ifndef TD_OPS_DECODE_H
#define TD_OPS_DECODE_H

#include "device/dispatch.h"
#include "kernels/decode_geometry.h"
#include "kernels/half_geometry.h"

typedef struct td_decode_shape {
    uint32_t texts;    /* of a step, at most TD_DECODE_MAX_TEXTS */
    uint32_t slots;    /* caches, of which each text has one */
    uint32_t width;    /* a multiple of 4, at most TD_DECODE_MAX_WIDTH */
    uint32_t heads;    /* width / heads: at most TD_DECODE_MAX_HEAD */
    uint32_t inside;   /* of the feed-forward part */
    uint32_t capacity; /* rows of the cache */
    uint32_t codes;    /* logits */
    uint32_t format;   /* TD_FORMAT_FP32, _BF16, _INT8: of the blocks' matrices */
    float eps;         /* of the norms */
} td_decode_shape;

/* The format of a name: "fp32" (also NULL), "bf16", "int8". */
td_status td_decode_format(const char *name, uint32_t *out);

/* TD_ERR_LIMIT where the kernels cannot do it. */
td_status td_decode_check(const td_decode_shape *shape);

/* Where the vectors of a block lie in one buffer, in floats. */
typedef struct td_decode_vectors {
    uint32_t gamma_1, beta_1, gamma_2, beta_2;           /* [width] */
    uint32_t qkv_bias, proj_bias, fc_bias, mlp_bias;     /* [3 width], [width], [inside], [width] */
    uint32_t qkv_scale, proj_scale, fc_scale, mlp_scale; /* the same, with bytes; else without a place */
    uint32_t total;
} td_decode_vectors;
td_decode_vectors td_decode_place_vectors(const td_decode_shape *shape);

/* How a device cuts a step up, and the floats that it needs for all its texts. */
typedef struct td_decode_cut {
    uint32_t terms;                 /* of each split, */
    uint32_t splits;                /* of the first product */
    uint32_t slices;                /* of the second's columns, each a group's */
    uint32_t rows, head_rows;       /* of each part, */
    uint32_t mlp_parts, head_parts; /* of the feed-forward part and of the head */
    uint32_t own; /* floats of scratch of a work-item of class CPU for a text, or of a group of class GPU */
    uint64_t qkv, attend_parts, mlp_sums, scratch; /* floats */
} td_decode_cut;
td_decode_cut td_decode_cut_up(td_device *device, const td_decode_shape *shape);

/* Words of a matrix of n elements. */
uint64_t td_decode_words(uint32_t format, uint64_t n);

/* What caches hold beside weights of a format: floats beside floats, else bf16. */
uint32_t td_decode_cache_format(uint32_t format);

/* The buffers that all blocks use in turn. */
typedef struct td_decode_rig {
    td_span step;         /* [texts, TD_DECODE_WORDS] */
    td_span x, x_between; /* [texts, width]: what goes into a block, and what goes into its mlp */
    td_span qkv;          /* [texts, splits, 3 width] */
    td_span attend_parts; /* [texts, heads, width] */
    td_span mlp_sums;     /* [texts, mlp_parts, width] */
    td_span scratch;
} td_decode_rig;

typedef struct td_decode_block {
    td_span vectors;
    td_span qkv;   /* [width, 3 width]: each row an input */
    td_span proj;  /* [width, width]: the same */
    td_span fc;    /* [inside, width]: each row an output */
    td_span mlp;   /* [inside, width]: each row an input */
    td_span cache; /* [slots, 2, heads, capacity, width / heads] in td_decode_cache_format(): keys, values */
} td_decode_block;

/* table [codes, width], positions [.., width] */
td_status td_op_decode_embed(td_list *list, const td_decode_shape *shape, const td_decode_rig *rig,
                             td_span table, td_span positions);

/* is_first: there is no block before, hence no parts. */
td_status td_op_decode_qkv(td_list *list, const td_decode_shape *shape, const td_decode_rig *rig,
                           const td_decode_block *block, bool is_first);
td_status td_op_decode_attend(td_list *list, const td_decode_shape *shape, const td_decode_rig *rig,
                              const td_decode_block *block);
td_status td_op_decode_mlp(td_list *list, const td_decode_shape *shape, const td_decode_rig *rig,
                           const td_decode_block *block);

/* is_first: rig.x is all, there are no parts. vectors: gamma, beta, gamma, beta [width] each, bias [codes]; weight [codes, width], fp32 -> latent [texts, width], logits
 * [texts, codes] */
typedef struct td_decode_last {
    td_span vectors, weight, latent, logits;
} td_decode_last;
td_status td_op_decode_head(td_list *list, const td_decode_shape *shape, const td_decode_rig *rig,
                            const td_decode_last *last, bool is_first);

/* y [rows, columns] = bytes x times the scales of columns, or of rows */
td_status td_op_decode_widen(td_list *list, uint32_t rows, uint32_t columns, bool by_row, td_span x,
                             td_span scales, td_span y);

#endif
