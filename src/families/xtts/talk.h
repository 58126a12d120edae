/* What the family's table says of speaking. */
#ifndef TD_FAMILIES_XTTS_TALK_H
#define TD_FAMILIES_XTTS_TALK_H

#include "families/talker.h"

extern const td_talker_class td_xtts_talker;

#endif
