/* A script spoken by a voice that makes samples itself (families/talker.h): piece by piece, without pauses, since such
 * a voice makes its own. Covered by tests/xtts/test_xtts_voice.c.
 */
#ifndef TD_SYNTH_TALK_H
#define TD_SYNTH_TALK_H

#include "families/talker.h"
#include "synth/speech.h"

/* *out: owned, td_speech_free(); without samples where the style has a sink. */
td_status td_talk_make(td_talker *talker, const td_talk_style *style, const td_script *script,
                       td_speech *out);

#endif
