/* What the family's table says of speaking. */
#ifndef TD_FAMILIES_XTTS_TALK_H
#define TD_FAMILIES_XTTS_TALK_H

#include "families/talker.h"

/* Codes after which the first samples leave, where they are wanted before the end; and after which further ones leave at
 * the latest, as many as one run of the vocoder takes at most (sound.c). */
#define TD_XTTS_FIRST_CODES 10u
#define TD_XTTS_STREAM_CODES 51u

extern const td_talker_class td_xtts_talker;

#endif
