/* What the files of the engine share. */
#ifndef TD_FAMILIES_XTTS_ENGINE_INTERNAL_H
#define TD_FAMILIES_XTTS_ENGINE_INTERNAL_H

#include "audio/mel.h"
#include "families/xtts/engine.h"
#include "families/xtts/plans.h"

struct td_xtts_engine {
    td_xtts c;
    const td_checkpoint *checkpoint; /* borrowed, as are the memories */
    td_memory *gpt_memory, *decoder_memory;
    td_store *gpt, *decoder;
    td_xtts_plans gpt_plans, decoder_plans;
    td_mel *mel;
    /* the text that is spoken */
    uint32_t rows;          /* of the caches that are filled */
    uint32_t position;      /* of the next code */
    float *logits, *latent; /* of the last thought */
    /* scratch of the vocoder */
    float *frames, *wave;
    size_t frames_capacity, wave_capacity;
};

#endif
