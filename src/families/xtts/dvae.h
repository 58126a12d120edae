/* What the data device makes for the training of the GPT (data/loader.h): codes of recordings by the DVAE, and the slice
 * of a recording that tells its speaker. Covered by tests/xtts/test_xtts_dvae.c.
 */
#ifndef TD_FAMILIES_XTTS_DVAE_H
#define TD_FAMILIES_XTTS_DVAE_H

#include "families/xtts/xtts_config.h"

/* codes uint [B, N], 0 behind an item's; code_counts uint [B]; cond_mel [B, S, n_mels]: divided by mel_stats, as the
 * conditioning encoder hears it. */
td_tensor td_xtts_make_codes(td_nn *nn, const td_xtts *c, uint32_t items, uint32_t frames);
enum { TD_XTTS_FROZEN_PARTS = 3 };
extern const td_frozen_row td_xtts_frozen[TD_XTTS_FROZEN_PARTS];

#endif
