/* The GPT: blocks over latents, text and audio codes. Covered by tests/xtts/test_xtts_parts.c. */
#ifndef TD_FAMILIES_XTTS_GPT_H
#define TD_FAMILIES_XTTS_GPT_H

#include "families/xtts/layers.h"

/* One block over x [1, T, width], causal; *by_heads [3 heads, T, width / heads]: queries, then keys, then values.
 * Parameters have the names and shapes of Coqui's, but mlp.c_fc.weight lies transposed, each output a row, as the decoder
 * has it (nn/stack.h). */
td_tensor td_xtts_block(td_nn *nn, const td_xtts *c, td_tensor x, td_tensor *by_heads);

/* Tables of what is embedded, and of positions. */
td_tensor td_xtts_text_table(td_nn *nn, const td_xtts *c);
td_tensor td_xtts_text_places(td_nn *nn, const td_xtts *c);
td_tensor td_xtts_code_table(td_nn *nn, const td_xtts *c);
td_tensor td_xtts_code_places(td_nn *nn, const td_xtts *c);

#endif
