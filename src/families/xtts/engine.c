/* See engine.h: opening, and the GPT. */
#include "families/xtts/engine_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "device/blocking.h"
#include "families/xtts/load.h"

#define ROUND_TOKENS 32u

/* ---------------------------------------------------------------- opening */

static td_status open_store(td_memory *memory, const td_checkpoint *checkpoint, const td_xtts *c,
                            td_xtts_builder parameters, td_store **store, td_xtts_plans *plans)
{
    td_graph *graph = NULL;
    td_status status = TD_OK;
    TD_TRY(parameters(c, 0, &graph));
    TD_TRY(td_store_create(memory, graph, &(td_store_options){0}, store));
    TD_TRY(td_xtts_load(checkpoint, *store));
    *plans = (td_xtts_plans){.c = c, .store = *store};
fail:
    td_graph_destroy(graph);
    return status;
}

td_status td_xtts_engine_open(td_memory *model, td_memory *data, const td_checkpoint *checkpoint,
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
    TD_TRY(TD_NEW_ARRAY(&e->logits, e->c.gpt_num_audio_tokens));
    TD_TRY(TD_NEW_ARRAY(&e->latent, e->c.gpt_n_model_channels));
    TD_TRY(open_store(model, checkpoint, &e->c, td_xtts_gpt_parameters, &e->gpt, &e->gpt_plans));
    TD_TRY(open_store(data, checkpoint, &e->c, td_xtts_decoder_parameters, &e->decoder, &e->decoder_plans));
    *out = e;
    return TD_OK;
fail:
    td_xtts_engine_close(e);
    return status;
}

void td_xtts_engine_close(td_xtts_engine *engine)
{
    if (!engine) return;
    td_xtts_plans_close(&engine->gpt_plans);
    td_xtts_plans_close(&engine->decoder_plans);
    td_store_destroy(engine->gpt);
    td_store_destroy(engine->decoder);
    td_mel_destroy(engine->mel);
    free(engine->logits);
    free(engine->latent);
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

static td_status read_thought(td_xtts_engine *e, td_xtts_plan *plan, td_xtts_thought *out)
{
    td_status status = TD_OK;
    TD_TRY(td_xtts_plan_read(plan, "latent", e->latent));
    TD_TRY(td_xtts_plan_read(plan, "logits", e->logits));
    *out = (td_xtts_thought){.logits = e->logits, .latent = e->latent};
fail:
    return status;
}

static td_status find_cache(const td_xtts_engine *e, uint32_t layer, td_span *out)
{
    char name[TD_NN_NAME_BYTES];
    td_xtts_cache_name(layer, td_xtts_cache_rows(&e->c), name);
    for (size_t i = 0; i < td_store_count(e->gpt); i++) {
        if (strcmp(td_store_get(e->gpt, i).name, name) != 0) continue;
        *out = td_store_span(e->gpt, i, TD_BLOCK_WEIGHT);
        return TD_OK;
    }
    return TD_FAIL(TD_ERR_NOT_FOUND, "there is no %s", name);
}

/* What the prefix made of keys and values becomes the first rows of the caches. */
static td_status fill_caches(td_xtts_engine *e, td_xtts_plan *plan)
{
    const uint64_t row = sizeof(float) * 2 * e->c.gpt_n_model_channels;
    td_list *list = NULL;
    td_status status = TD_OK;
    TD_TRY(td_list_create(td_memory_device(e->gpt_memory), TD_QUEUE_COMPUTE, &list));
    for (uint32_t i = 0; i < e->c.gpt_layers; i++) {
        char name[TD_NN_NAME_BYTES];
        td_span kv, cache;
        snprintf(name, sizeof name, "kv.%u", i);
        TD_TRY(td_plan_output(plan->plan, td_graph_find_output(plan->graph, name), &kv));
        TD_TRY(find_cache(e, i, &cache));
        TD_TRY(td_list_copy(list, td_span_part(cache, 0, row * e->rows), td_span_part(kv, 0, row * e->rows)));
    }
    TD_TRY(td_blocking_run(list, NULL));
fail:
    td_list_destroy(list);
    return status;
}

/* Start, tokens and stop, then stops to the end; and which rows of latents, tokens and the start of audio are used. */
static void fill_text(const td_xtts *c, const uint32_t *tokens, size_t n, uint32_t room, uint32_t *ids,
                      uint32_t *order)
{
    const uint32_t used = c->perceiver_latents + (uint32_t)n + 2, rows = c->perceiver_latents + room + 1;
    for (uint32_t i = 0; i < room; i++)
        ids[i] = i == 0 ? c->gpt_start_text_token : i <= n ? tokens[i - 1] : c->gpt_stop_text_token;
    for (uint32_t i = 0; i < rows; i++)
        order[i] = i < used ? i : i == used ? rows - 1 : UINT32_MAX;
}

static td_status run_prefix(td_xtts_engine *e, td_xtts_plan *plan, const td_xtts_timbre *timbre,
                            const uint32_t *tokens, size_t n)
{
    const uint32_t room = plan->size, last = e->c.perceiver_latents + (uint32_t)n + 2;
    uint32_t *ids = NULL, *order = NULL;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&ids, room));
    TD_TRY(TD_NEW_ARRAY(&order, e->c.perceiver_latents + room + 1));
    fill_text(&e->c, tokens, n, room, ids, order);
    TD_TRY(td_xtts_plan_fill(plan, "cond_latents", timbre->latents));
    TD_TRY(td_xtts_plan_fill(plan, "text_ids", ids));
    TD_TRY(td_xtts_plan_fill(plan, "order", order));
    TD_TRY(td_xtts_plan_fill(plan, "last", &last));
    TD_TRY(td_xtts_plan_run(plan));
    e->rows = last + 1;
    e->position = 1;
fail:
    free(ids);
    free(order);
    return status;
}

td_status td_xtts_begin(td_xtts_engine *engine, const td_xtts_timbre *timbre, const uint32_t *tokens,
                        size_t n_tokens, td_xtts_thought *out)
{
    const td_xtts *c = &engine->c;
    td_xtts_plan *prefix, *step;
    td_status status = TD_OK;
    TD_FAIL_IF(n_tokens >= c->gpt_max_text_tokens, TD_ERR_LIMIT,
               "a text of %zu tokens; the voice takes fewer than %u", n_tokens, c->gpt_max_text_tokens);
    for (size_t i = 0; i < n_tokens; i++)
        TD_FAIL_IF(tokens[i] >= c->gpt_number_text_tokens, TD_ERR_FORMAT,
                   "token %u of the text is beyond the voice's %u", tokens[i], c->gpt_number_text_tokens);
    uint32_t room = (uint32_t)td_round_up(n_tokens + 2, ROUND_TOKENS);
    if (room > td_xtts_text_positions(c)) room = td_xtts_text_positions(c);
    /* the step first, since it makes the caches */
    TD_TRY(td_xtts_plans_find(&engine->gpt_plans, td_xtts_step_graph, td_xtts_cache_rows(c), &step));
    TD_TRY(td_xtts_plans_find(&engine->gpt_plans, td_xtts_prefill_graph, room, &prefix));
    TD_TRY(run_prefix(engine, prefix, timbre, tokens, n_tokens));
    TD_TRY(fill_caches(engine, prefix));
    TD_TRY(read_thought(engine, prefix, out));
fail:
    return status;
}

td_status td_xtts_next(td_xtts_engine *engine, uint32_t code, td_xtts_thought *out)
{
    td_xtts_plan *step;
    td_status status = TD_OK;
    TD_FAIL_IF(engine->position == 0, TD_ERR_ARGUMENT, "a code comes before the text that it speaks");
    TD_FAIL_IF(engine->position >= td_xtts_audio_positions(&engine->c), TD_ERR_LIMIT,
               "more than %u codes of one text", td_xtts_most_codes(&engine->c));
    TD_TRY(td_xtts_plans_find(&engine->gpt_plans, td_xtts_step_graph, td_xtts_cache_rows(&engine->c), &step));
    const uint32_t filled = engine->rows + 1;
    TD_TRY(td_xtts_plan_fill(step, "code", &code));
    TD_TRY(td_xtts_plan_fill(step, "position", &engine->position));
    TD_TRY(td_xtts_plan_fill(step, "row", &engine->rows));
    TD_TRY(td_xtts_plan_fill(step, "rows", &filled));
    TD_TRY(td_xtts_plan_run(step));
    TD_TRY(read_thought(engine, step, out));
    engine->rows++;
    engine->position++;
fail:
    return status;
}

td_status td_xtts_rewind(td_xtts_engine *engine, uint32_t n)
{
    td_status status = TD_OK;
    TD_FAIL_IF(engine->position == 0 || n >= engine->position, TD_ERR_ARGUMENT,
               "going back to %u of %u codes", n, engine->position);
    engine->rows -= engine->position - 1 - n;
    engine->position = n + 1;
fail:
    return status;
}
