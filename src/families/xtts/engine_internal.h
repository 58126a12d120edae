/* What the files of the engine share. */
#ifndef TD_FAMILIES_XTTS_ENGINE_INTERNAL_H
#define TD_FAMILIES_XTTS_ENGINE_INTERNAL_H

#include "audio/mel.h"
#include "families/xtts/engine.h"
#include "families/xtts/plans.h"
#include "nn/shared_stack.h"

struct td_xtts_engine {
    td_xtts c;
    const td_checkpoint *checkpoint; /* borrowed, as are the memories */
    td_memory *gpt_memory, *decoder_memory;
    td_store *gpt, *decoder;
    td_xtts_plans gpt_plans, decoder_plans;
    td_store *listening; /* a part that a speaker is cloned with, while it works; else NULL */
    td_xtts_plans listening_plans;
    td_mel *mel;
    td_shared_stack *stack; /* the GPT's blocks and what follows them, one for all that share the weights */
    td_shared_user user;
    td_store
        *block; /* one of them with its weights as floats, while many rows go through it at once; else NULL */
    td_xtts_plans block_plans;
    td_span hidden; /* the rows between blocks */
    /* the texts that are spoken, by their slots */
    struct {
        uint32_t place; /* of its caches in the stack, a slot of that, from the first text on */
        bool has_place;
        uint32_t life;     /* of the caches */
        uint32_t rows;     /* of the caches that are filled */
        uint32_t position; /* of the next code; 0: there is no text */
    } texts[TD_XTTS_MOST_TEXTS];
    uint32_t slots;          /* that caches are made for at least */
    float *logits, *latents; /* of the last step [TD_XTTS_MOST_TEXTS, ..] */
    /* the vocoder's run that was begun; without a plan there is none */
    struct {
        td_xtts_plan *plan;
        td_point made;
        size_t skipped, count; /* samples of its wave */
    } sounding;
    float *frames, *wave; /* its scratch */
    size_t frames_capacity, wave_capacity;
};

/* Makes a store for the parameters of a graph, loads them, and readies plans; then frees all of it. */
td_status td_xtts_open_part(td_memory *memory, const td_checkpoint *checkpoint, const td_xtts *c,
                            td_xtts_builder parameters, td_store **store, td_xtts_plans *plans);
void td_xtts_close_part(td_store **store, td_xtts_plans *plans);

/* blocks.c: all that the GPT's blocks need is made and loaded, or their weights are another engine's. */
td_status td_xtts_open_blocks(td_xtts_engine *engine, uint32_t format);
td_status td_xtts_borrow_blocks(td_xtts_engine *engine, const td_xtts_engine *lender);
void td_xtts_close_blocks(td_xtts_engine *engine);

/* What goes through the blocks: latents, the text with start and stop, the start of audio and codes. */
typedef struct td_xtts_passage {
    const td_xtts_timbre *timbre; /* borrowed, as are the others */
    const uint32_t *tokens, *codes;
    size_t n_tokens, n_codes;
} td_xtts_passage;

/* Called with the plan that a layer ran, of td_xtts_block_graph(): it may read it, or record what happens to it. */
typedef td_status (*td_xtts_visit)(td_xtts_engine *engine, uint32_t layer, td_xtts_plan *block, td_list *list,
                                   void *context);

/* A passage goes through the first layers; what it became is in engine->hidden [rows, width]. The caches stay as they
 * are, if the visit leaves them so. */
td_status td_xtts_run_blocks(td_xtts_engine *engine, const td_xtts_passage *passage, uint32_t layers,
                             td_xtts_visit visit, void *context);

/* A passage that ends with the start of audio becomes the first rows of a slot's caches. What was thought of it is in
 * the first row of logits and latents. */
td_status td_xtts_run_prefix(td_xtts_engine *engine, uint32_t slot, const td_xtts_passage *passage);

#endif
