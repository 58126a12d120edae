/* What makes sound of a voice's spectrograms: Griffin-Lim, a vocoder of its own file, or one that the voice
 * holds. Covered by tests/cli/test_vocoder.py. */
#ifndef TD_SYNTH_SOUND_H
#define TD_SYNTH_SOUND_H

#include "audio/vocoder.h"
#include "families/checkpoint.h"

typedef struct td_sound {
    td_checkpoint *checkpoint;    /* owned; NULL with Griffin-Lim, and where the weights are another's */
    const td_model_config *model; /* the checkpoint's */
    td_store *store;
    td_vocoder *vocoder;
} td_sound;

/* A vocoder's checkpoint: `path` itself, or inside of the voice there. TD_ERR_CONFIG where it is neither.
 * *out: owned, td_checkpoint_close(). */
td_status td_sound_find(const char *path, td_checkpoint **out);

/* TD_ERR_CONFIG, with the first line that differs, unless a vocoder's front end is this one. `voice` names whose
 * it is. */
td_status td_sound_check(const td_checkpoint *vocoder, const td_mel_config *mel, const char *voice);

/* `wanted`: "griffin-lim", the path of a vocoder or of a voice that holds one; NULL: what `voice` (a path, or
 * NULL) holds, else Griffin-Lim. mel and memory are borrowed until close. td_sound_close(), also after a failure. */
td_status td_sound_open(td_memory *memory, const td_mel *mel, const char *voice, const char *wanted,
                        td_sound *out);

/* A second one on the same weights (graph/plan.h: td_store_borrow), for another thread. `mel` as above. */
td_status td_sound_share(td_memory *memory, const td_mel *mel, const td_sound *lender, td_sound *out);
void td_sound_close(td_sound *sound);

#endif
