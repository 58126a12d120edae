/* How a family makes sound of spectrograms: its table points to a td_vocode_class, which makes a td_vocoder
 * (audio/vocoder.h) of a model. Covered by tests/families/test_vocoder.c and tests/synth. */
#ifndef TD_FAMILIES_VOCODE_H
#define TD_FAMILIES_VOCODE_H

#include "audio/vocoder.h"
#include "families/family.h"

typedef struct td_vocode_class {
    /* All is borrowed until destroy; the store has the weights. *out: owned, td_vocoder_destroy(). */
    td_status (*open)(td_memory *memory, td_store *store, const td_model_config *model, const td_mel *mel,
                      td_vocoder **out);
} td_vocode_class;

#endif
