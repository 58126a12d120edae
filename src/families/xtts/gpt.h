/* The GPT: blocks over latents, text and audio codes. Covered by tests/xtts/test_xtts_parts.c. */
#ifndef TD_FAMILIES_XTTS_GPT_H
#define TD_FAMILIES_XTTS_GPT_H

#include "families/xtts/layers.h"

/* A linear layer of a block: x [.., C] to [.., width], with NAME.weight and NAME.bias. */
typedef td_tensor td_xtts_layer(td_nn *nn, const td_xtts *c, const char *name, td_tensor x, uint32_t width);

/* One block over x [B, T, width], causal; its parameters have the names and shapes of Coqui's, or what `layer` makes of
 * them. *qkv [B, T, 3 width]: queries, keys and values. */
td_tensor td_xtts_block(td_nn *nn, const td_xtts *c, td_xtts_layer *layer, td_tensor x, td_tensor *qkv);

/* Rows [B, T, width] behind the last block, under both norms: what the heads and the vocoder take. */
td_tensor td_xtts_latents(td_nn *nn, td_tensor x);

/* Tables of what is embedded, and of positions. */
td_tensor td_xtts_text_table(td_nn *nn, const td_xtts *c);
td_tensor td_xtts_text_position_table(td_nn *nn, const td_xtts *c);
td_tensor td_xtts_code_table(td_nn *nn, const td_xtts *c);
td_tensor td_xtts_code_position_table(td_nn *nn, const td_xtts *c);

#endif
