/* The GPT's blocks: made and loaded, and many rows at once run through them. They go through one block after the other,
 * each with its weights as floats in one store that all of them use in turn and that goes behind them, so that the weights
 * need no more room than their format asks for. See engine_internal.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "device/blocking.h"
#include "families/xtts/engine_internal.h"
#include "families/xtts/load.h"
#include "kernels/gemm_geometry.h"

#define ROUND_ROWS TD_GEMM_TILE_ROWS(16u) /* twice that of narrower vectors */
#define ROUND_CODES 64u
#define USUAL_CODES 128u /* that caches have room for at first */
#define NORM_EPS 1e-5f

/* Names of the file; those of a layer are behind "gpt.gpt.h.LAYER.", and the block's store has them as they are. */
static const char *const NAMES[TD_STACK_TENSOR_COUNT] = {[TD_STACK_NORM_1_GAMMA] = "ln_1.weight",
                                                         [TD_STACK_NORM_1_BETA] = "ln_1.bias",
                                                         [TD_STACK_QKV] = "attn.c_attn.weight",
                                                         [TD_STACK_QKV_BIAS] = "attn.c_attn.bias",
                                                         [TD_STACK_PROJ] = "attn.c_proj.weight",
                                                         [TD_STACK_PROJ_BIAS] = "attn.c_proj.bias",
                                                         [TD_STACK_NORM_2_GAMMA] = "ln_2.weight",
                                                         [TD_STACK_NORM_2_BETA] = "ln_2.bias",
                                                         [TD_STACK_FC] = "mlp.c_fc.weight",
                                                         [TD_STACK_FC_BIAS] = "mlp.c_fc.bias",
                                                         [TD_STACK_MLP] = "mlp.c_proj.weight",
                                                         [TD_STACK_MLP_BIAS] = "mlp.c_proj.bias",
                                                         [TD_STACK_TABLE] = "gpt.mel_embedding.weight",
                                                         [TD_STACK_POSITIONS] =
                                                             "gpt.mel_pos_embedding.emb.weight",
                                                         [TD_STACK_NORM_3_GAMMA] = "gpt.gpt.ln_f.weight",
                                                         [TD_STACK_NORM_3_BETA] = "gpt.gpt.ln_f.bias",
                                                         [TD_STACK_NORM_4_GAMMA] = "gpt.final_norm.weight",
                                                         [TD_STACK_NORM_4_BETA] = "gpt.final_norm.bias",
                                                         [TD_STACK_HEAD] = "gpt.mel_head.weight",
                                                         [TD_STACK_HEAD_BIAS] = "gpt.mel_head.bias"};

/* ---------------------------------------------------------------- opening */

/* The bytes of the file go into a stack of bytes as they are. */
static td_status load_bytes(const td_xtts_engine *e, td_stack *stack, uint32_t layer, td_stack_tensor tensor,
                            const char *name)
{
    td_xtts_bytes b;
    TD_CHECK(td_xtts_find_bytes(e->checkpoint, name, &b));
    TD_REFUSE_IF(b.in * b.out != td_stack_count(stack, tensor), TD_ERR_FORMAT,
                 "tensor %s has %zu numbers instead of %zu; import the model again", name, b.in * b.out,
                 td_stack_count(stack, tensor));
    TD_CHECK(td_stack_put_bytes(stack, layer, tensor, b.bytes, b.scales));
    td_safetensors_forget(td_checkpoint_file(e->checkpoint), b.tensor);
    return TD_OK;
}

static td_status load_floats(const td_xtts_engine *e, td_stack *stack, uint32_t layer, td_stack_tensor tensor,
                             const char *name)
{
    const size_t needed = td_stack_count(stack, tensor);
    float *values = NULL;
    size_t n;
    td_status status = TD_OK;
    TD_TRY(td_xtts_read_tensor(e->checkpoint, name, &values, &n));
    TD_FAIL_IF(n != needed, TD_ERR_FORMAT, "tensor %s has %zu numbers instead of %zu; import the model again",
               name, n, needed);
    TD_TRY(td_stack_put(stack, layer, tensor, values));
fail:
    free(values);
    return status;
}

static td_status load_tensor(const td_xtts_engine *e, td_stack *stack, uint32_t layer, td_stack_tensor tensor)
{
    char name[TD_SAFETENSORS_MAX_NAME_BYTES];
    if (tensor < TD_STACK_LAYER_TENSORS)
        snprintf(name, sizeof name, "gpt.gpt.h.%u.%s", layer, NAMES[tensor]);
    else
        snprintf(name, sizeof name, "%s", NAMES[tensor]);
    const td_safetensors_tensor *t = td_safetensors_find(td_checkpoint_file(e->checkpoint), name);
    const bool is_taken_so =
        t && t->dtype == TD_SAFETENSORS_I8 && td_stack_get(stack)->shape.format == TD_FORMAT_INT8;
    return is_taken_so ? load_bytes(e, stack, layer, tensor, name)
                       : load_floats(e, stack, layer, tensor, name);
}

/* Rows that are enough for the longest text and speech. */
static uint32_t most_rows(const td_xtts *c)
{
    return c->perceiver_latents + td_xtts_text_positions(c) + td_xtts_audio_positions(c);
}

/* Whether the file has as many blocks as its keys tell. */
static td_status check_blocks(const td_xtts_engine *e)
{
    td_graph *graph = NULL;
    td_status status = TD_OK;
    TD_TRY(td_xtts_block_graph(&e->c, 1, &graph));
    for (uint32_t layer = 0; layer < e->c.gpt_layers; layer++) {
        char prefix[64];
        snprintf(prefix, sizeof prefix, "gpt.gpt.h.%u.", layer);
        TD_TRY(td_xtts_check_parameters(e->checkpoint, prefix, graph));
    }
fail:
    td_graph_destroy(graph);
    return status;
}

static td_status open_stack(td_xtts_engine *e, uint32_t format)
{
    const td_xtts *c = &e->c;
    const td_stack_options options = {.shape = {.width = c->gpt_n_model_channels,
                                                .heads = c->gpt_n_heads,
                                                .inside = 4 * c->gpt_n_model_channels,
                                                .capacity = most_rows(c),
                                                .codes = c->gpt_num_audio_tokens,
                                                .format = format,
                                                .eps = NORM_EPS},
                                      .layers = c->gpt_layers,
                                      .positions = td_xtts_audio_positions(c)};
    td_stack *stack;
    TD_CHECK(check_blocks(e));
    TD_CHECK(td_stack_create(e->gpt_memory, &options, &stack));
    TD_CHECK(td_shared_stack_make(stack, &e->stack));
    for (int t = 0; t < TD_STACK_TENSOR_COUNT; t++)
        for (uint32_t layer = 0; layer < (t < TD_STACK_LAYER_TENSORS ? c->gpt_layers : 1); layer++)
            TD_CHECK(load_tensor(e, stack, layer, (td_stack_tensor)t));
    return TD_OK;
}

/* Where rows lie between blocks. */
static td_status open_rows(td_xtts_engine *e)
{
    return td_memory_alloc(e->gpt_memory, TD_MEMORY_DEVICE,
                           4ull * most_rows(&e->c) * e->c.gpt_n_model_channels, &e->hidden);
}

td_status td_xtts_open_blocks(td_xtts_engine *e, uint32_t format)
{
    TD_CHECK(open_stack(e, format));
    return open_rows(e);
}

td_status td_xtts_borrow_blocks(td_xtts_engine *e, const td_xtts_engine *lender)
{
    e->stack = td_shared_stack_join(lender->stack);
    return open_rows(e);
}

void td_xtts_close_blocks(td_xtts_engine *e)
{
    td_shared_stack_leave(e->stack);
    td_memory_free(e->gpt_memory, e->hidden);
}

/* ---------------------------------------------------------------- a passage */

static uint32_t round_below(size_t n, uint32_t step, uint32_t most)
{
    const size_t rounded = td_round_up(n, step);
    return rounded < most ? (uint32_t)rounded : most;
}

/* Of the plan that takes a passage: few sizes, that plans are found again, and whole tiles of rows, since a part of a
 * tile takes as long. */
static uint32_t choose_size(const td_xtts *c, const td_xtts_passage *p)
{
    const uint32_t others = c->perceiver_latents + 1, most = td_xtts_text_positions(c);
    const uint32_t tokens = round_below(p->n_tokens + 2 + others, ROUND_ROWS, most + others) - others;
    return td_xtts_embedding_size(
        tokens, p->n_codes == 0 ? 1 : round_below(p->n_codes + 1, ROUND_CODES, td_xtts_audio_positions(c)));
}

/* Rows that go through it. */
static uint32_t count_rows(const td_xtts *c, uint32_t size)
{
    return c->perceiver_latents + td_xtts_embedding_tokens(size) + td_xtts_embedding_codes(size);
}

/* Start, tokens and stop; start and codes; stops to the end of each; and which rows of latents and both are used. */
static td_status fill_ids(td_xtts_plan *plan, const td_xtts *c, const td_xtts_passage *p)
{
    const uint32_t texts = td_xtts_embedding_tokens(plan->size), codes = td_xtts_embedding_codes(plan->size);
    const uint32_t behind = c->perceiver_latents + texts, rows = behind + codes;
    const uint32_t used = c->perceiver_latents + (uint32_t)p->n_tokens + 2;
    uint32_t *ids = NULL, *order;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&ids, texts + codes + rows));
    order = ids + texts + codes;
    for (uint32_t i = 0; i < texts; i++)
        ids[i] = i == 0             ? c->gpt_start_text_token
                 : i <= p->n_tokens ? p->tokens[i - 1]
                                    : c->gpt_stop_text_token;
    for (uint32_t i = 0; i < codes; i++)
        ids[texts + i] = i == 0            ? c->gpt_start_audio_token
                         : i <= p->n_codes ? p->codes[i - 1]
                                           : c->gpt_stop_audio_token;
    for (uint32_t i = 0; i < rows; i++)
        order[i] = i < used ? i : i - used <= p->n_codes ? behind + i - used : UINT32_MAX;
    TD_TRY(td_xtts_plan_fill(plan, "text_ids", ids));
    TD_TRY(td_xtts_plan_fill(plan, "codes", ids + texts));
    TD_TRY(td_xtts_plan_fill(plan, "order", order));
fail:
    free(ids);
    return status;
}

/* Makes the rows that the first block takes. */
static td_status embed(td_xtts_engine *e, const td_xtts_passage *p, uint32_t size)
{
    td_xtts_plan *plan;
    td_span rows;
    TD_CHECK(td_xtts_plans_find(&e->gpt_plans, td_xtts_embedding_graph, size, &plan));
    TD_CHECK(td_xtts_plan_fill(plan, "cond_latents", p->timbre->latents));
    TD_CHECK(fill_ids(plan, &e->c, p));
    TD_CHECK(td_xtts_plan_run(plan));
    TD_CHECK(td_plan_output(plan->plan, td_graph_find_output(plan->graph, "rows"), &rows));
    return td_blocking_copy(td_memory_device(e->gpt_memory), td_span_part(e->hidden, 0, rows.bytes), rows);
}

/* Where the block's store wants the tensors of a layer. */
static void find_tensors(const td_store *block, td_span to[TD_STACK_LAYER_TENSORS])
{
    for (int t = 0; t < TD_STACK_LAYER_TENSORS; t++) {
        to[t] = (td_span){0};
        for (size_t i = 0; i < td_store_count(block); i++)
            if (strcmp(td_store_get(block, i).name, NAMES[t]) == 0)
                to[t] = td_store_span(block, i, TD_BLOCK_WEIGHT);
    }
}

/* A layer's plan has run: its rows are kept, and what the visit wants of it; steps of others wait meanwhile, for the visit
 * may reach for the caches. */
static td_status end_block(td_xtts_engine *e, uint32_t layer, td_xtts_plan *plan, td_xtts_visit visit,
                           void *context)
{
    td_list *list = NULL;
    td_span y;
    td_status status = TD_OK;
    (void)td_shared_stack_take(e->stack);
    TD_TRY(td_list_create(td_memory_device(e->gpt_memory), TD_QUEUE_COMPUTE, &list));
    TD_TRY(td_plan_output(plan->plan, td_graph_find_output(plan->graph, "y"), &y));
    TD_TRY(td_list_copy(list, td_span_part(e->hidden, 0, y.bytes), y));
    TD_TRY(visit(e, layer, plan, list, context));
    TD_TRY(td_blocking_run(list, NULL));
fail:
    td_shared_stack_return(e->stack);
    td_list_destroy(list);
    return status;
}

/* The weights of a layer become floats, and the rows go through it. */
static td_status run_block(td_xtts_engine *e, uint32_t layer, td_xtts_plan *plan, td_xtts_visit visit,
                           void *context)
{
    td_list *list = NULL;
    td_span to[TD_STACK_LAYER_TENSORS];
    td_status status = TD_OK;
    TD_TRY(td_list_create(td_memory_device(e->gpt_memory), TD_QUEUE_COMPUTE, &list));
    find_tensors(e->block, to);
    TD_TRY(td_stack_widen(td_shared_stack_weights(e->stack), layer, list, to));
    TD_TRY(td_blocking_run(list, NULL));
    TD_TRY(td_xtts_plan_run(plan));
    TD_TRY(end_block(e, layer, plan, visit, context));
fail:
    td_list_destroy(list);
    return status;
}

/* Where one block lies as floats. */
static td_status open_block(td_xtts_engine *e)
{
    td_graph *graph = NULL;
    td_status status = TD_OK;
    TD_TRY(td_xtts_block_graph(&e->c, 1, &graph));
    TD_TRY(td_store_create(e->gpt_memory, graph, &(td_store_options){0}, &e->block));
    e->block_plans = (td_xtts_plans){.c = &e->c, .store = e->block};
fail:
    td_graph_destroy(graph);
    return status;
}

td_status td_xtts_run_blocks(td_xtts_engine *e, const td_xtts_passage *p, uint32_t layers,
                             td_xtts_visit visit, void *context)
{
    const uint32_t size = choose_size(&e->c, p), rows = count_rows(&e->c, size);
    td_xtts_plan *block;
    td_status status = TD_OK;
    TD_TRY(embed(e, p, size));
    TD_TRY(open_block(e));
    TD_TRY(td_xtts_plans_find(&e->block_plans, td_xtts_block_graph, rows, &block));
    TD_TRY(td_plan_bind(block->plan, 0, td_graph_find_input(block->graph, "x"),
                        td_span_part(e->hidden, 0, 4ull * rows * e->c.gpt_n_model_channels)));
    for (uint32_t layer = 0; layer < layers; layer++)
        TD_TRY(run_block(e, layer, block, visit, context));
fail:
    td_xtts_close_part(&e->block, &e->block_plans);
    return status;
}

/* ---------------------------------------------------------------- a prefix */

/* Within td_xtts_run_prefix(), so the stack is the caller's. */
static td_status fill_cache(td_xtts_engine *e, uint32_t layer, td_xtts_plan *block, td_list *list,
                            void *context)
{
    const uint32_t *place = context;
    td_span qkv;
    TD_CHECK(td_plan_output(block->plan, td_graph_find_output(block->graph, "qkv"), &qkv));
    const uint64_t third = 4ull * block->size * e->c.gpt_n_model_channels;
    return td_stack_fill_cache(td_shared_stack_weights(e->stack), layer, *place, list,
                               td_span_part(qkv, third, 2 * third), block->size);
}

/* Places for a slot and for all that are expected, and caches of so many rows for them. */
static td_status make_room(td_xtts_engine *e, uint32_t slot, uint32_t rows)
{
    const uint32_t n = slot < e->slots ? e->slots : slot + 1;
    uint32_t places = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!e->texts[i].has_place) TD_CHECK(td_shared_stack_new_slot(e->stack, &e->texts[i].place));
        e->texts[i].has_place = true;
        if (e->texts[i].place >= places) places = e->texts[i].place + 1;
    }
    td_stack *stack = td_shared_stack_take(e->stack);
    const td_status status = td_stack_make_room(stack, places, rows);
    e->texts[slot].life = td_stack_life(stack);
    td_shared_stack_return(e->stack);
    return status;
}

/* The first thought, from the last row. */
static td_status think(td_xtts_engine *e, td_span row)
{
    td_stack *stack = td_shared_stack_take(e->stack);
    td_stack_thought thought;
    const td_status status = td_stack_begin(stack, row, &thought);
    if (status == TD_OK) {
        memcpy(e->logits, thought.logits, e->c.gpt_num_audio_tokens * sizeof *e->logits);
        memcpy(e->latents, thought.latent, e->c.gpt_n_model_channels * sizeof *e->latents);
    }
    td_shared_stack_return(e->stack);
    return status;
}

td_status td_xtts_run_prefix(td_xtts_engine *e, uint32_t slot, const td_xtts_passage *p)
{
    const uint64_t row_bytes = 4ull * e->c.gpt_n_model_channels;
    const uint32_t last = e->c.perceiver_latents + (uint32_t)p->n_tokens + 2;
    const uint32_t wanted = count_rows(&e->c, choose_size(&e->c, p)) + USUAL_CODES, most = most_rows(&e->c);
    TD_CHECK(make_room(e, slot, wanted < most ? wanted : most));
    TD_CHECK(td_xtts_run_blocks(e, p, e->c.gpt_layers, fill_cache, &e->texts[slot].place));
    TD_CHECK(think(e, td_span_part(e->hidden, last * row_bytes, row_bytes)));
    e->texts[slot].rows = last + 1;
    e->texts[slot].position = 1;
    return TD_OK;
}
