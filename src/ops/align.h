/* Monotonic alignment search: which token each frame belongs to, given how well each token explains each
 * frame.
 *
 * The path with the greatest sum of log-likelihoods of all that give the first frame to the first token and
 * the last frame to the last, never fall back and never skip a token. Where two ways are equally good, a
 * frame's predecessor stays with the same token. With fewer frames than tokens, the first tokens get one
 * frame each. Sums are in fp32, one addition per frame in rising order. Kernels: src/kernels/align_search.kh,
 * align_path.kh. Covered by tests/ops/cases_align.c.
 */
#ifndef TD_OPS_ALIGN_H
#define TD_OPS_ALIGN_H

#include "device/dispatch.h"

/* Spans are borrowed until the list is destroyed. */
typedef struct td_align_args {
    uint32_t items, tokens, frames; /* on GPUs at most TD_ALIGN_MAX_TOKENS_GPU tokens */
    td_span x;                      /* [items, tokens, frames]: log-likelihoods */
    td_span lengths;                /* uint [2, items]: tokens of each item, then frames of each */
    td_span edge;                   /* scratch [items, frames] */
    td_span bits;                   /* scratch of td_op_align_bits words */
    td_span durations; /* uint [items, tokens]: frames of each token; 0 behind an item's tokens */
    td_span index;     /* uint [items, frames]: token of each frame; 0 behind an item's frames */
} td_align_args;

td_status td_op_align(td_list *list, const td_align_args *args);
uint64_t td_op_align_bits(uint32_t items, uint32_t tokens, uint32_t frames);

#endif
