/* Voices for who is inside the library: what tandem/voice.h has, on a device that is open already, and what a
 * call made besides samples. Covered by tests/synth/test_voice.c.
 */
#ifndef TD_SYNTH_VOICE_H
#define TD_SYNTH_VOICE_H

#include "synth/speech.h"

/* As td_voice_open() on the memory's device; `memory` is borrowed until close. */
td_status td_voice_open_on(td_memory *memory, const char *path, td_voice **out);

td_memory *td_voice_memory(const td_voice *voice);                    /* of its model; borrowed until close */
const td_checkpoint_info *td_voice_checkpoint(const td_voice *voice); /* borrowed until close */

/* Writes what the first piece of the last call was made of (docs/xtts.md), for comparisons. TD_ERR_UNSUPPORTED for a
 * voice that makes spectrograms. */
td_status td_voice_save_parts(const td_voice *voice, const char *path);

/* Writes which device worked at what during the last call, for Perfetto; fails as the one above. */
td_status td_voice_save_trace(const td_voice *voice, const char *path);

/* From now on calls keep the spectrogram that they make. */
void td_voice_keep_mel(td_voice *voice);

/* What the last call made, without the samples; empty if it failed. Borrowed until the next. */
const td_speech *td_voice_last(const td_voice *voice);

#endif
