/* See engine.h: opening, and the GPT. */
#include "families/xtts/engine_internal.h"

#include <stdlib.h>

#include "base/error.h"
#include "families/xtts/load.h"

/* ---------------------------------------------------------------- opening */

td_status td_xtts_open_part(td_memory *memory, const td_checkpoint *checkpoint, const td_xtts *c,
                            td_xtts_builder parameters, td_store **store, td_xtts_plans *plans)
{
    td_graph *graph = NULL;
    td_status status = TD_OK;
    TD_TRY(parameters(c, 0, &graph));
    TD_TRY(td_xtts_check_parameters(checkpoint, "", graph));
    TD_TRY(td_store_create(memory, graph, &(td_store_options){0}, store));
    TD_TRY(td_xtts_load(checkpoint, *store));
    *plans = (td_xtts_plans){.c = c, .store = *store};
fail:
    td_graph_destroy(graph);
    return status;
}

void td_xtts_close_part(td_store **store, td_xtts_plans *plans)
{
    td_xtts_plans_close(plans);
    td_store_destroy(*store);
    *store = NULL;
}

/* All but the weights. */
static td_status make_engine(td_memory *model, td_memory *data, const td_checkpoint *checkpoint,
                             td_xtts_engine **out)
{
    td_xtts_engine *e = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(TD_NEW(&e));
    e->c = td_xtts_get(&td_checkpoint_get_info(checkpoint)->model);
    e->checkpoint = checkpoint;
    e->gpt_memory = model;
    e->decoder_memory = data;
    const td_mel_config mel = td_xtts_conditioning_mel(&e->c);
    TD_TRY(td_mel_create(model, &mel, &e->mel));
    TD_TRY(TD_NEW_ARRAY(&e->logits, (size_t)TD_XTTS_MOST_TEXTS * e->c.gpt_num_audio_tokens));
    TD_TRY(TD_NEW_ARRAY(&e->latents, (size_t)TD_XTTS_MOST_TEXTS * e->c.gpt_n_model_channels));
    *out = e;
    return TD_OK;
fail:
    td_xtts_engine_close(e);
    return status;
}

td_status td_xtts_engine_share(const td_xtts_engine *lender, td_xtts_engine **out)
{
    td_xtts_engine *e = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(make_engine(lender->gpt_memory, lender->decoder_memory, lender->checkpoint, &e));
    TD_TRY(td_store_borrow(lender->gpt, &e->gpt));
    TD_TRY(td_store_borrow(lender->decoder, &e->decoder));
    e->gpt_plans = (td_xtts_plans){.c = &e->c, .store = e->gpt};
    e->decoder_plans = (td_xtts_plans){.c = &e->c, .store = e->decoder};
    TD_TRY(td_xtts_borrow_blocks(e, lender));
    *out = e;
    return TD_OK;
fail:
    td_xtts_engine_close(e);
    return status;
}

td_status td_xtts_engine_open(td_memory *model, td_memory *data, const td_checkpoint *checkpoint,
                              uint32_t format, td_xtts_engine **out)
{
    td_xtts_engine *e = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(make_engine(model, data, checkpoint, &e));
    TD_TRY(td_xtts_open_part(model, checkpoint, &e->c, td_xtts_gpt_parameters, &e->gpt, &e->gpt_plans));
    TD_TRY(td_xtts_open_blocks(e, format));
    TD_TRY(td_xtts_open_part(data, checkpoint, &e->c, td_xtts_vocoder_parameters, &e->decoder,
                             &e->decoder_plans));
    *out = e;
    return TD_OK;
fail:
    td_xtts_engine_close(e);
    return status;
}

void td_xtts_engine_close(td_xtts_engine *engine)
{
    if (!engine) return;
    td_xtts_close_blocks(engine);
    td_xtts_close_part(&engine->gpt, &engine->gpt_plans);
    td_xtts_close_part(&engine->decoder, &engine->decoder_plans);
    td_mel_destroy(engine->mel);
    free(engine->logits);
    free(engine->latents);
    free(engine->frames);
    free(engine->wave);
    free(engine);
}

const td_xtts *td_xtts_engine_config(const td_xtts_engine *engine)
{
    return &engine->c;
}

/* ---------------------------------------------------------------- the GPT */

uint32_t td_xtts_most_codes(const td_xtts *c)
{
    return c->gpt_max_audio_tokens - 3;
}

void td_xtts_expect(td_xtts_engine *engine, uint32_t slots)
{
    engine->slots = slots < TD_XTTS_MOST_TEXTS ? slots : TD_XTTS_MOST_TEXTS;
}

static td_status check_slot(uint32_t slot)
{
    TD_REFUSE_IF(slot >= TD_XTTS_MOST_TEXTS, TD_ERR_ARGUMENT, "slot %u; there are %u", slot,
                 TD_XTTS_MOST_TEXTS);
    return TD_OK;
}

td_status td_xtts_begin(td_xtts_engine *engine, uint32_t slot, const td_xtts_timbre *timbre,
                        const uint32_t *tokens, size_t n_tokens, td_xtts_thought *out)
{
    const td_xtts *c = &engine->c;
    TD_CHECK(check_slot(slot));
    TD_REFUSE_IF(n_tokens >= c->gpt_max_text_tokens, TD_ERR_LIMIT,
                 "a text of %zu tokens; the voice takes fewer than %u", n_tokens, c->gpt_max_text_tokens);
    for (size_t i = 0; i < n_tokens; i++)
        TD_REFUSE_IF(tokens[i] >= c->gpt_number_text_tokens, TD_ERR_FORMAT,
                     "token %u of the text is beyond the voice's %u", tokens[i], c->gpt_number_text_tokens);
    const td_xtts_passage prefix = {.timbre = timbre, .tokens = tokens, .n_tokens = n_tokens};
    TD_CHECK(td_xtts_run_prefix(engine, slot, &prefix));
    *out = (td_xtts_thought){.logits = engine->logits, .latent = engine->latents};
    return TD_OK;
}

td_status td_xtts_next(td_xtts_engine *engine, const td_xtts_chosen *chosen, uint32_t n, td_xtts_thought *out)
{
    td_stack_code codes[TD_XTTS_MOST_TEXTS] = {{0}};
    TD_REFUSE_IF(n > TD_XTTS_MOST_TEXTS, TD_ERR_ARGUMENT, "%u texts at once; there can be %u", n,
                 TD_XTTS_MOST_TEXTS);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t slot = chosen[i].slot;
        TD_CHECK(check_slot(slot));
        codes[i] = (td_stack_code){.code = chosen[i].code,
                                   .position = engine->texts[slot].position,
                                   .row = engine->texts[slot].rows,
                                   .slot = engine->texts[slot].place,
                                   .life = engine->texts[slot].life};
        TD_REFUSE_IF(codes[i].position == 0, TD_ERR_ARGUMENT, "a code comes before the text that it speaks");
        TD_REFUSE_IF(codes[i].position >= td_xtts_audio_positions(&engine->c), TD_ERR_LIMIT,
                     "more than %u codes of one text", td_xtts_most_codes(&engine->c));
    }
    TD_CHECK(td_shared_stack_next(engine->stack, &engine->user, codes, n, engine->logits, engine->latents));
    for (uint32_t i = 0; i < n; i++) {
        out[i] = (td_xtts_thought){.logits = engine->logits + (size_t)i * engine->c.gpt_num_audio_tokens,
                                   .latent = engine->latents + (size_t)i * engine->c.gpt_n_model_channels};
        engine->texts[chosen[i].slot].rows++;
        engine->texts[chosen[i].slot].position++;
    }
    return TD_OK;
}

td_status td_xtts_rewind(td_xtts_engine *engine, uint32_t slot, uint32_t n)
{
    TD_CHECK(check_slot(slot));
    const uint32_t position = engine->texts[slot].position;
    TD_REFUSE_IF(position == 0 || n >= position, TD_ERR_ARGUMENT, "going back to %u of %u codes", n,
                 position);
    engine->texts[slot].rows -= position - 1 - n;
    engine->texts[slot].position = n + 1;
    return TD_OK;
}
