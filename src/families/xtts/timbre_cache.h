/* What was found out about a speaker, kept on disk: by the contents of the recordings, the model's file and the device.
 * Never fails its caller (base/blob_cache.h). Covered by tests/xtts/test_xtts_parts.c.
 */
#ifndef TD_FAMILIES_XTTS_TIMBRE_CACHE_H
#define TD_FAMILIES_XTTS_TIMBRE_CACHE_H

#include "families/xtts/engine.h"

/* `references`: a hash of their contents. True: *out is owned, td_xtts_timbre_free(). */
bool td_xtts_timbre_recall(const td_xtts_engine *engine, uint64_t references, td_xtts_timbre *out);
void td_xtts_timbre_keep(const td_xtts_engine *engine, uint64_t references, const td_xtts_timbre *timbre);

#endif
