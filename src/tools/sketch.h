/* A plain pre-norm transformer from text to mel, without anything that speech needs beyond it: what steps are
 * measured with beside other frameworks (tests/peers/step.py has its twin). Text embedding of 256 symbols,
 * encoder; 80 bands in, decoder with causal self-attention and cross-attention, 80 bands and a stop flag out;
 * learned positions, heads of 64, feed-forward parts of 4 widths with tanh-gelu, L1 and cross-entropy losses.
 * Covered by tests/cli/test_step.py. */
#ifndef TD_TOOLS_SKETCH_H
#define TD_TOOLS_SKETCH_H

#include "graph/plan.h"

enum { TD_SKETCH_SYMBOLS = 256, TD_SKETCH_BANDS = 80 };

typedef struct td_sketch_size {
    uint32_t text_width, text_layers, decoder_width, decoder_layers;
    uint32_t items, tokens, frames; /* B, S, T */
} td_sketch_size;

/* "128x2/192x3": text width x layers / decoder width x layers, into those four fields. Widths are multiples
 * of 64. TD_ERR_CONFIG says what was wrong. */
td_status td_sketch_parse(const char *text, td_sketch_size *out);

typedef struct td_sketch {
    td_graph *graph;        /* owned: td_graph_destroy() */
    td_tensor token_ids;    /* in uint [B, S] */
    td_tensor token_counts; /* in uint [B] */
    td_tensor frame_counts; /* in uint [B] */
    td_tensor previous;     /* in [B, T, bands]: mel, one frame late */
    td_tensor mel;          /* in [B, T, bands] */
    td_tensor stop;         /* in [B, T, 1] */
    td_tensor loss;         /* out [1] */
} td_sketch;

/* With gradients; is_scaled: larger by the store's loss scale. A mistake leaves *out cleared. */
td_status td_sketch_build(const td_sketch_size *size, bool is_scaled, td_sketch *out);

#endif
