/* What XTTS's vocoder learns from: the latents that the GPT thinks of a recording's own codes, told its text and its
 * speaker, as it would in speaking; and the vector of the speaker encoder. See families/listener.h. */
#ifndef TD_FAMILIES_XTTS_HEAR_H
#define TD_FAMILIES_XTTS_HEAR_H

#include "families/listener.h"

extern const td_listener_class td_xtts_listener;

/* complete.c: the class's `complete`. What is drawn is the vocoder and the speaker encoder. */
td_status td_xtts_complete(const td_checkpoint *voice, uint64_t seed, const char *path, bool *is_made);

#endif
