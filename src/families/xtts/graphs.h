/* The graphs that XTTS speaks with. Inputs and outputs are found by their names. Covered by
 * tests/xtts/test_xtts_parts.c.
 */
#ifndef TD_FAMILIES_XTTS_GRAPHS_H
#define TD_FAMILIES_XTTS_GRAPHS_H

#include "families/xtts/xtts_config.h"

/* A graph of one size; what it counts is said with each. *out: owned. */
typedef td_status (*td_xtts_builder)(const td_xtts *c, uint32_t size, td_graph **out);

/* Both halves of the conditioning. size: frames. mel [1, S, n_mels] -> encoded [1, S, width], reference_mel [1, S, n_mels];
 * encoded -> latents [1, n, width]. */
td_status td_xtts_reference_graph(const td_xtts *c, uint32_t size, td_graph **out);
td_status td_xtts_perceiver_graph(const td_xtts *c, uint32_t size, td_graph **out);

/* What the first block of the GPT takes. size: td_xtts_embedding_size() of T tokens, with start and stop, and C codes,
 * with the start, that there is room for. cond_latents [1, n, width], text_ids uint [1, T], codes uint [1, C], order uint
 * [1, n + T + C]: which of latents, tokens and codes comes where, others beyond the end -> rows [1, n + T + C, width]. */
td_status td_xtts_embedding_graph(const td_xtts *c, uint32_t size, td_graph **out);

static inline uint32_t td_xtts_embedding_size(uint32_t tokens, uint32_t codes)
{
    return tokens << 16 | codes;
}

static inline uint32_t td_xtts_embedding_tokens(uint32_t size)
{
    return size >> 16;
}

static inline uint32_t td_xtts_embedding_codes(uint32_t size)
{
    return size & 0xffff;
}

/* size: rows. One block of the GPT: x [1, rows, width] -> y [1, rows, width], qkv [3 heads, rows, head]. Its parameters
 * are those of any layer, without a prefix. */
td_status td_xtts_block_graph(const td_xtts *c, uint32_t size, td_graph **out);

/* size: frames. speaker_mel [1, bands, T], normalised -> embedding [1, d]. */
td_status td_xtts_speaker_graph(const td_xtts *c, uint32_t size, td_graph **out);

/* size: frames. frames [1, T, width], embedding [1, d] -> wave [1, T * hop]. */
td_status td_xtts_vocoder_graph(const td_xtts *c, uint32_t size, td_graph **out);

/* size: frames. dvae_mel [1, T, n_mels], dvae_mel_counts uint [1] -> codes uint [1, N]. 0: as 1. */
td_status td_xtts_codes_graph(const td_xtts *c, uint32_t size, td_graph **out);

/* size: rows. rows [1, n, width] behind the GPT's blocks -> latents [1, n, width]: what heads and vocoder take. 0: as 1. */
td_status td_xtts_latents_graph(const td_xtts *c, uint32_t size, td_graph **out);

/* All parameters of the conditioning's halves; of what comes before the GPT's blocks; of the speaker encoder; of the
 * vocoder. size is not looked at. */
td_status td_xtts_reference_parameters(const td_xtts *c, uint32_t size, td_graph **out);
td_status td_xtts_perceiver_parameters(const td_xtts *c, uint32_t size, td_graph **out);
td_status td_xtts_gpt_parameters(const td_xtts *c, uint32_t size, td_graph **out);
td_status td_xtts_speaker_parameters(const td_xtts *c, uint32_t size, td_graph **out);
td_status td_xtts_vocoder_parameters(const td_xtts *c, uint32_t size, td_graph **out);

#endif
