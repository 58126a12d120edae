/* The GPT: blocks over latents, text and audio codes. Covered by tests/xtts/test_xtts_parts.c. */
#ifndef TD_FAMILIES_XTTS_GPT_H
#define TD_FAMILIES_XTTS_GPT_H

#include "families/xtts/layers.h"

/* Makes attention [1, T, width] of a layer's packed queries, keys and values [1, T, 3 width]. */
typedef td_tensor (*td_xtts_attend)(td_nn *nn, const td_xtts *c, uint32_t layer, td_tensor qkv,
                                    void *context);

/* All blocks over x [1, T, width], without the norms behind them. */
td_tensor td_xtts_blocks(td_nn *nn, const td_xtts *c, td_tensor x, td_xtts_attend attend, void *context);

/* Both norms behind the blocks: what the vocoder speaks and the heads read. */
td_tensor td_xtts_latent(td_nn *nn, td_tensor x);

/* Logits of the next audio code; of the next text token. */
td_tensor td_xtts_code_head(td_nn *nn, const td_xtts *c, td_tensor latent);
td_tensor td_xtts_text_head(td_nn *nn, const td_xtts *c, td_tensor latent);

/* Tables of what is embedded, and of positions. */
td_tensor td_xtts_text_table(td_nn *nn, const td_xtts *c);
td_tensor td_xtts_text_places(td_nn *nn, const td_xtts *c);
td_tensor td_xtts_code_table(td_nn *nn, const td_xtts *c);
td_tensor td_xtts_code_places(td_nn *nn, const td_xtts *c);

#endif
