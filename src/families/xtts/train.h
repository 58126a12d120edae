/* What the GPT learns from: texts, the codes of their recordings, and a slice of each recording that tells the speaker.
 * Covered by tests/xtts/test_xtts_train.c.
 *
 * Inputs, B items:
 *
 *   text_ids     uint [B, L]      tokens, without start and stop; text_counts uint [B]
 *   codes        uint [B, N]      of the DVAE, N = td_xtts_count_codes(frames); code_counts uint [B]
 *   wave_counts  uint [B]         samples of each recording: codes past their end are not learnt
 *   cond_mel     [B, S, n_mels]   of the slice, divided by mel_stats; S = reference_frames of the batch's shape
 *   cond_range   uint [B, 2]      first sample of the slice, and one past its last; 0, 0: nothing is masked
 *
 * docs/xtts_finetuning.md tells what is made of them.
 */
#ifndef TD_FAMILIES_XTTS_TRAIN_H
#define TD_FAMILIES_XTTS_TRAIN_H

#include "families/xtts/xtts_config.h"

/* The family's `build`, `check_shape` and `usual` (families/family.h). */
td_tensor td_xtts_build(td_nn *nn, const td_build *build);
td_status td_xtts_check_shape(const void *values, const td_batch_shape *shape);
const td_usual *td_xtts_usual(const void *values);

#endif
