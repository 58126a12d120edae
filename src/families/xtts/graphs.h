/* The graphs that XTTS speaks with. Inputs and outputs are found by their names. Covered by
 * tests/xtts/test_xtts_parts.c.
 */
#ifndef TD_FAMILIES_XTTS_GRAPHS_H
#define TD_FAMILIES_XTTS_GRAPHS_H

#include "families/xtts/xtts_config.h"

/* A graph of one size; what it counts is said with each. *out: owned. */
typedef td_status (*td_xtts_builder)(const td_xtts *c, uint32_t size, td_graph **out);

/* size: frames. mel [1, S, n_mels] -> latents [1, n, width], reference_mel [1, S, n_mels]. */
td_status td_xtts_conditioning_graph(const td_xtts *c, uint32_t size, td_graph **out);

/* size: T, tokens that there is room for with start and stop. cond_latents [1, n, width], text_ids uint [1, T],
 * order uint [1, n + T + 1]: which of latents, tokens and the start of audio comes where, others beyond the end;
 * last uint [1, 1]: place of the start of audio -> kv.LAYER [1, n + T + 1, 2 width], latent [1, width], logits
 * [1, codes]. */
td_status td_xtts_prefill_graph(const td_xtts *c, uint32_t size, td_graph **out);

/* size: rows of the caches. code, position (of the code), row (of the caches), rows (of the caches that are filled,
 * with this one): uint [1] -> latent [1, width], logits [1, codes]. Caches are the states td_xtts_cache_name(). */
td_status td_xtts_step_graph(const td_xtts *c, uint32_t size, td_graph **out);
void td_xtts_cache_name(uint32_t layer, uint32_t rows, char out[TD_NN_NAME_BYTES]);

/* Rows of caches that are enough for the longest text and speech. */
uint32_t td_xtts_cache_rows(const td_xtts *c);

/* size: frames. speaker_mel [1, bands, T], normalised -> embedding [1, d]. */
td_status td_xtts_speaker_graph(const td_xtts *c, uint32_t size, td_graph **out);

/* size: frames. frames [1, T, width], embedding [1, d] -> wave [1, T * hop]. */
td_status td_xtts_vocoder_graph(const td_xtts *c, uint32_t size, td_graph **out);

/* All parameters of the GPT and its conditioning; of the vocoder and the speaker encoder. size is not looked at. */
td_status td_xtts_gpt_parameters(const td_xtts *c, uint32_t size, td_graph **out);
td_status td_xtts_decoder_parameters(const td_xtts *c, uint32_t size, td_graph **out);

#endif
