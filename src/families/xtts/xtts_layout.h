/* The tensors of Coqui's files, as their code names and shapes them: what is imported, and what a voice must have
 * before it is exported. Covered by tests/families/test_xtts_import.c, against a list made by Coqui's code.
 */
#ifndef TD_FAMILIES_XTTS_LAYOUT_H
#define TD_FAMILIES_XTTS_LAYOUT_H

#include "families/xtts/xtts_config.h"

enum { TD_XTTS_NAME_BYTES = 160 };

typedef struct td_xtts_tensor {
    char name[TD_XTTS_NAME_BYTES];
    size_t rank;
    uint64_t dims[4];
    bool is_integer; /* int64, else floating-point */
} td_xtts_tensor;

/* Called for each tensor; a failure ends the walk. */
typedef td_status td_xtts_visit(void *context, const td_xtts_tensor *tensor);

/* GPT, vocoder, speaker encoder and mel_stats; the DVAE too, if the config has one. */
td_status td_xtts_walk(const td_xtts *config, td_xtts_visit *visit, void *context);

#endif
