/* What the family's table says of speaking. */
#ifndef TD_FAMILIES_XTTS_TALK_H
#define TD_FAMILIES_XTTS_TALK_H

#include "families/talker.h"

/* Codes after which samples leave, where they are wanted before the end. */
#define TD_XTTS_STREAM_CODES 20u

extern const td_talker_class td_xtts_talker;

#endif
