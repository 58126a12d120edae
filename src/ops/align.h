/* Monotonic alignment search: which token each frame belongs to, given how well each token explains each
 * frame.
 *
 * The path with the greatest sum of log-likelihoods of all that give the first frame to the first token and
 * the last frame to the last, never fall back and never skip a token. Where two ways are equally good, a
 * frame's predecessor stays with the same token. With fewer frames than tokens, the first tokens get one
 * frame each. Sums are in fp32, one addition per frame in rising order. Kernels: src/kernels/align_search.kh,
 * align_path.kh. Below it, what models make of lengths and alignments: masks, features, targets; none has a
 * gradient. Kernels: align_*.kh. Covered by tests/ops/cases_align.c.
 */
#ifndef TD_OPS_ALIGN_H
#define TD_OPS_ALIGN_H

#include "device/dispatch.h"
#include "kernels/align_geometry.h"

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

/* mask [items, frames]: 0 behind the first lengths[b] frames of item b; at them, by kind: TD_MASK_ONE 1,
 * TD_MASK_ALL 1 / valid frames of all items, TD_MASK_OWN 1 / those of the item, TD_MASK_LAST 1 at the last of
 * them and 0 at the others. lengths uint [items]. */
td_status td_op_align_mask(td_list *list, uint32_t items, uint32_t frames, uint32_t kind, td_span lengths,
                           td_span mask);

/* y uint [n] = lengths uint [n] / divisor, rounded up. */
td_status td_op_align_counts(td_list *list, uint32_t n, uint32_t divisor, td_span lengths, td_span y);

/* An alignment, found or made: index never falls within an item's frames. */
typedef struct td_aligned_args {
    uint32_t items, tokens, frames;
    td_span durations; /* uint [items, tokens] */
    td_span index;     /* uint [items, frames] */
    td_span lengths;   /* uint [items]: frames of each item */
    td_span x;         /* [items, frames], or left out where it is not used */
    td_span y;
} td_aligned_args;

/* y [items, frames, 3]: with f = (t - first frame of the token + 0.5) / duration: f, sin(pi f), ln(duration);
 * zeros behind an item's frames. x is not used. */
td_status td_op_align_features(td_list *list, const td_aligned_args *args);

/* y [items, tokens]: LOG: ln(duration), 0 for durations 0 and 1, of durations alone; MEAN: of x over the
 * token's frames; MEAN_POSITIVE: over those where x > 0; 0 where there are none. */
typedef enum td_align_kind { TD_ALIGN_LOG, TD_ALIGN_MEAN, TD_ALIGN_MEAN_POSITIVE } td_align_kind;
td_status td_op_align_tokens(td_list *list, td_align_kind kind, const td_aligned_args *args);

/* y [items, steps, tokens], steps = frames / reduction rounded up: the share of each step's frames that
 * belongs to each token; frames behind an item's last count as its last, steps behind have zeros. durations
 * and x are not used. */
td_status td_op_align_steps(td_list *list, uint32_t reduction, const td_aligned_args *args);

/* y [items, rows, columns] = (i / row_counts[b] - j / column_counts[b])^2, 0 outside of them. */
typedef struct td_diagonal_args {
    uint32_t items, rows, columns;
    td_span row_counts, column_counts; /* uint [items] */
    td_span y;
} td_diagonal_args;
td_status td_op_align_diagonal(td_list *list, const td_diagonal_args *args);

/* y [items, rows, columns]: row at[b] of item b becomes x [items, columns]; nothing changes where at[b] is
 * not below rows. at uint [items]. */
typedef struct td_put_args {
    uint32_t items, rows, columns;
    td_span x, at, y;
} td_put_args;
td_status td_op_align_put(td_list *list, const td_put_args *args);

#endif
