/* See train.h. Positions that the reference masks as keys are ignored as targets too: the stop behind a text, and
 * padding. So they are left out, and what remains of an item lies in one piece: latents, text, codes. Attention is
 * causal, hence what follows an item's end is never looked at, and no mask is needed. */
#include "families/xtts/train.h"

#include "base/error.h"
#include "families/xtts/lora.h"

#define IGNORED UINT32_MAX

enum {
    STOPS = 4,             /* targets behind the last code */
    HEARD_PER_INDEX = 256, /* samples: what Coqui's trainer divides the slice by to find its codes */
};

/* A batch as the graph takes it. */
typedef struct batch {
    uint32_t items, tokens, codes;   /* B, L, N */
    td_tensor text_ids, text_counts; /* uint [B, L], [B] */
    td_tensor code_ids, code_counts; /* uint [B, N], [B]: those that are learnt */
    td_tensor cond_mel, cond_range;
} batch;

static batch read_batch(td_nn *nn, const td_xtts *c, const td_build *b)
{
    td_graph *g = nn->graph;
    const uint32_t items = b->shape.items, codes = td_xtts_count_codes(b->shape.frames);
    batch x = {.items = items, .tokens = b->shape.tokens, .codes = codes};
    x.text_ids = td_graph_input(g, "text_ids", td_dims(items, x.tokens), TD_U32);
    x.text_counts = td_graph_input(g, "text_counts", td_dims(items), TD_U32);
    const td_tensor made = td_graph_input(g, "codes", td_dims(items, codes), TD_U32);
    const td_tensor made_counts = td_graph_input(g, "code_counts", td_dims(items), TD_U32);
    const td_tensor samples = td_graph_input(g, "wave_counts", td_dims(items), TD_U32);
    x.cond_mel = td_graph_input(g, "cond_mel", td_dims(items, b->shape.reference_frames, c->n_mels), TD_F32);
    x.cond_range = td_graph_input(g, "cond_range", td_dims(items, 2), TD_U32);
    x.code_ids = td_graph_wrap(g, made, made_counts, codes, &(td_wrapping){.rest = c->gpt_stop_audio_token});
    x.code_counts = td_graph_counts(g, samples, c->gpt_code_stride_len);
    return x;
}

/* ---------------------------------------------------------------- sequences */

static td_tensor embed(td_nn *nn, td_tensor table, td_tensor positions, td_tensor ids)
{
    td_graph *g = nn->graph;
    const uint32_t rows = td_graph_shape(g, ids).dims[1];
    return td_graph_add(g, td_graph_embedding(g, table, ids), td_graph_slice(g, positions, 0, 0, rows));
}

/* Latents, a start with the text, a start with the codes and their stops. [B, n + 1 + L + N + STOPS, width] */
static td_tensor make_rows(td_nn *nn, const td_xtts *c, const batch *x, td_tensor latents)
{
    td_graph *g = nn->graph;
    const uint32_t n = c->perceiver_latents;
    const td_tensor text = td_graph_wrap(
        g, x->text_ids, x->text_counts, x->tokens + 1,
        &(td_wrapping){.before = 1, .first = c->gpt_start_text_token, .rest = c->gpt_stop_text_token});
    const td_tensor codes = td_graph_wrap(
        g, x->code_ids, x->code_counts, x->codes + STOPS,
        &(td_wrapping){.before = 1, .first = c->gpt_start_audio_token, .rest = c->gpt_stop_audio_token});
    const td_tensor parts[] = {
        latents, embed(nn, td_xtts_text_table(nn, c), td_xtts_text_position_table(nn, c), text),
        embed(nn, td_xtts_code_table(nn, c), td_xtts_code_position_table(nn, c), codes)};
    const td_tensor order =
        td_graph_join_rows(g, x->text_counts, n + 1, x->tokens, n + 1 + x->tokens + x->codes + STOPS);
    return td_graph_gather(g, td_graph_concat(g, parts, 3, 1), order);
}

/* The codes that follow, then stops; without those that the slice has told already, if that is wanted. */
static td_tensor make_code_targets(td_nn *nn, const td_xtts *c, const batch *x)
{
    td_graph *g = nn->graph;
    const td_tensor targets =
        td_graph_wrap(g, x->code_ids, x->code_counts, x->codes + STOPS,
                      &(td_wrapping){.after = STOPS, .last = c->gpt_stop_audio_token, .rest = IGNORED});
    if (c->prompt_masking == TD_XTTS_MASK_NONE) return targets;
    const bool all = c->prompt_masking == TD_XTTS_MASK_ALL;
    return td_graph_hide(g, targets, x->cond_range, all ? 0 : x->items - 1,
                         all ? c->gpt_code_stride_len : HEARD_PER_INDEX, IGNORED);
}

/* ---------------------------------------------------------------- the graph */

static td_tensor run_blocks(td_nn *nn, const td_xtts *c, td_tensor x)
{
    td_tensor qkv;
    for (uint32_t i = 0; i < c->gpt_layers; i++) {
        td_graph_block_begin(nn->graph);
        td_nn_push(nn, "gpt.gpt.h.%u", i);
        x = td_xtts_block(nn, c, td_xtts_train_layer, x, &qkv);
        td_nn_pop(nn);
        td_graph_block_end(nn->graph);
    }
    return td_xtts_latents(nn, x);
}

td_tensor td_xtts_build(td_nn *nn, const td_build *b)
{
    static const char *const none[] = {NULL};
    td_graph *g = nn->graph;
    const td_xtts c = td_xtts_get(b->config);
    const uint32_t n = c.perceiver_latents;
    const batch x = read_batch(nn, &c, b);
    nn->dropout = b->dropout ? c.dropout : 0;
    if (c.tune == TD_XTTS_LORA) { /* but adapters, which say so themselves */
        nn->trained.prefixes = none;
        nn->trained.n_prefixes = 0;
    }
    const td_tensor latents = td_xtts_condition(nn, &c, x.cond_mel);
    const td_tensor made = run_blocks(nn, &c, td_nn_dropout(nn, make_rows(nn, &c, &x, latents)));
    const td_tensor of_text = td_graph_slice(g, made, 1, n, x.tokens + 1);
    const td_tensor of_codes =
        td_graph_gather(g, made, td_graph_joined_rows(g, x.text_counts, n + 1, x.tokens, x.codes + STOPS));
    const td_tensor targets =
        td_graph_wrap(g, x.text_ids, x.text_counts, x.tokens + 1,
                      &(td_wrapping){.after = 1, .last = c.gpt_stop_text_token, .rest = IGNORED});
    const td_tensor losses[] = {
        td_graph_cross_entropy(g, td_xtts_linear(nn, "gpt.text_head", of_text, c.gpt_number_text_tokens),
                               targets, IGNORED, 0),
        td_graph_cross_entropy(g, td_xtts_linear(nn, "gpt.mel_head", of_codes, c.gpt_num_audio_tokens),
                               make_code_targets(nn, &c, &x), IGNORED, 0)};
    td_graph_output(g, losses[0], "loss.text");
    td_graph_output(g, losses[1], "loss.mel");
    return td_graph_total(g, losses, (const float[]){c.text_loss_weight, 1}, 2);
}

td_status td_xtts_check_shape(const void *values, const td_batch_shape *shape)
{
    const td_xtts *c = values;
    const uint32_t codes = td_xtts_count_codes(shape->frames);
    if (c->tune == TD_XTTS_VOCODER) return TD_OK; /* crops */
    TD_REFUSE_IF(shape->tokens + 1 > td_xtts_text_positions(c), TD_ERR_LIMIT,
                 "a text has %u tokens, but the model has room for %u; set data.max_text_length",
                 shape->tokens, td_xtts_text_positions(c) - 1);
    TD_REFUSE_IF(codes + STOPS > td_xtts_audio_positions(c), TD_ERR_LIMIT,
                 "a recording has %u codes, but the model has room for %u; set data.max_mel_frames = %u",
                 codes, td_xtts_audio_positions(c) - STOPS,
                 (td_xtts_audio_positions(c) - STOPS) * TD_XTTS_FRAMES_PER_CODE);
    return TD_OK;
}

/* As Coqui's trainer; its rate never falls. Adapters bear a higher one. */
const td_usual *td_xtts_usual(const void *values)
{
#define OPTIMIZER                                                                                            \
    {"training.beta1", "0.9"}, {"training.beta2", "0.96"}, {"training.eps", "1e-8"},                         \
        {"training.weight_decay", "0.01"}, {"training.grad_clip", "0"}, {"training.scheduler", "constant"},  \
        {"training.warmup_steps", "0"}, {"training.mixed_precision", "false"}, {"training.batch_size", "3"}, \
        {"data.max_mel_frames", "1000"},                                                                     \
    {                                                                                                        \
        NULL, NULL                                                                                           \
    }
    static const td_usual full[] = {{"training.lr", "5e-6"}, OPTIMIZER};
    static const td_usual lora[] = {{"training.lr", "1e-4"}, OPTIMIZER};
    static const td_usual vocoder[] = {{"training.lr", "1e-4"},
                                       {"training.scheduler", "constant"},
                                       {"training.warmup_steps", "0"},
                                       {"training.mixed_precision", "false"},
                                       {"training.batch_size", "8"},
                                       {"data.max_mel_frames", "1500"},
                                       {NULL, NULL}};
#undef OPTIMIZER
    const uint32_t tune = ((const td_xtts *)values)->tune;
    return tune == TD_XTTS_VOCODER ? vocoder : tune == TD_XTTS_LORA ? lora : full;
}
