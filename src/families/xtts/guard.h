/* What tells that a voice babbles: codes that repeat, and attention that has left the text behind. Judgements alone;
 * utter.c acts on them. Covered by tests/xtts/test_xtts_guard.c.
 */
#ifndef TD_FAMILIES_XTTS_GUARD_H
#define TD_FAMILIES_XTTS_GUARD_H

#include "families/xtts/engine.h"

#define TD_XTTS_LOOP_PERIOD 12u /* codes that a loop has at most */
#define TD_XTTS_LOOP_TIMES 4u   /* how often it is heard */

/* Codes at the end that only repeat what was there before: a loop of at most some codes, often enough to be one. 0:
 * they do not. */
size_t td_xtts_find_loop(const uint32_t *codes, size_t n);

/* Codes that a text of so many tokens takes at most, and from how many on it should be asked whether it is over. */
size_t td_xtts_most_usual_codes(size_t n_tokens);
size_t td_xtts_doubtful_codes(size_t n_tokens);

/* weights [n, keys]: how much each of n codes looked at each token of the text, by one attention head. Whether the head
 * went through the text from its beginning to its end; *end: the code at which it was there. */
bool td_xtts_follow(const float *weights, size_t n, size_t keys, size_t *end);

/* Asks all heads, in a pass of its own over text and codes. *end: codes that belong to the text, some to let it fade
 * with them; n where no head says so. */
td_status td_xtts_find_text_end(td_xtts_engine *engine, const td_xtts_timbre *timbre, const uint32_t *tokens,
                                size_t n_tokens, const uint32_t *codes, size_t n, size_t *end);

#endif
