/* See hear.h. One recording at a time: all its codes go through the GPT at once. */
#include "families/xtts/hear.h"

#include <stdlib.h>
#include <string.h>

#include "audio/mel_clip.h"
#include "base/error.h"
#include "device/blocking.h"
#include "families/xtts/engine_internal.h"
#include "families/xtts/reference.h"

typedef struct listener {
    td_listener base;
    td_xtts_engine *engine;
    td_memory *memory; /* borrowed */
    td_mel *mel;       /* of the DVAE */
    td_store *dvae, *norms;
    td_xtts_plans dvae_plans, norm_plans;
} listener;

static bool listens(const void *values)
{
    return ((const td_xtts *)values)->tune == TD_XTTS_VOCODER;
}

/* ---------------------------------------------------------------- life */

/* Of what is frozen, by names without what stands before those of files written here; in any order. */
static td_digest hash_voice(const td_checkpoint *voice)
{
    static const char *const PARTS[] = {"gpt.", "dvae.", "mel_stats", "hifigan_decoder.speaker_encoder."};
    const td_safetensors *file = td_checkpoint_file(voice);
    td_digest sum = {0};
    for (size_t i = 0; i < td_safetensors_count(file); i++) {
        const td_safetensors_tensor *t = td_safetensors_at(file, i);
        const char *dot = strchr(t->name, '.');
        const bool is_ours =
            dot && (strncmp(t->name, "param.", 6) == 0 || strncmp(t->name, "state.", 6) == 0);
        const char *name = is_ours ? dot + 1 : t->name;
        bool counts = false;
        for (size_t p = 0; p < sizeof PARTS / sizeof *PARTS; p++)
            counts = counts || strncmp(name, PARTS[p], strlen(PARTS[p])) == 0;
        if (!counts || !td_checkpoint_is_spoken(t, t->name)) continue;
        td_hasher hasher;
        td_hasher_init(&hasher);
        td_hasher_string(&hasher, name);
        td_hasher_bytes(&hasher, t->data, t->bytes);
        const td_digest own = td_hasher_digest(&hasher);
        sum.low += own.low;
        sum.high += own.high;
    }
    return sum;
}

static void close_listener(td_listener *base)
{
    listener *l = (listener *)base;
    if (!l) return;
    td_xtts_close_part(&l->dvae, &l->dvae_plans);
    td_xtts_close_part(&l->norms, &l->norm_plans);
    td_mel_destroy(l->mel);
    td_xtts_engine_close(l->engine);
    free(l);
}

static td_status open_listener(td_memory *memory, const td_checkpoint *voice, td_listener **out)
{
    listener *l = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(TD_NEW(&l));
    l->memory = memory;
    TD_TRY(td_xtts_engine_open(memory, memory, voice, TD_FORMAT_FP32, &l->engine));
    const td_xtts *c = td_xtts_engine_config(l->engine);
    const td_mel_config mel = td_xtts_dvae_mel(c);
    TD_TRY(td_mel_create(memory, &mel, &l->mel));
    TD_TRY(td_xtts_open_part(memory, voice, c, td_xtts_codes_graph, &l->dvae, &l->dvae_plans));
    TD_TRY(td_xtts_open_part(memory, voice, c, td_xtts_latents_graph, &l->norms, &l->norm_plans));
    l->base = (td_listener){.class = &td_xtts_listener,
                            .width = c->gpt_n_model_channels,
                            .vector_width = c->d_vector_dim,
                            .key = hash_voice(voice)};
    td_xtts_stretch(c, 1, l->base.factors);
    *out = &l->base;
    return TD_OK;
fail:
    close_listener(&l->base);
    return status;
}

/* ---------------------------------------------------------------- a recording */

/* Codes of the samples, at least one for each stride. *codes: owned. */
static td_status make_codes(listener *l, const float *samples, size_t count, uint32_t **codes)
{
    td_mel_clip clip = {0};
    float *mel = NULL;
    td_xtts_plan *plan;
    td_status status = TD_OK;
    *codes = NULL;
    TD_TRY(td_mel_clip_make(l->mel, l->memory, samples, count, &clip));
    TD_TRY(TD_NEW_ARRAY(&mel, (size_t)clip.frames * l->engine->c.n_mels));
    TD_TRY(TD_NEW_ARRAY(codes, td_xtts_count_codes(clip.frames)));
    TD_TRY(td_blocking_read(l->memory, clip.mel, (td_point){0}, mel));
    TD_TRY(td_xtts_plans_find(&l->dvae_plans, td_xtts_codes_graph, clip.frames, &plan));
    TD_TRY(td_xtts_plan_fill(plan, "dvae_mel", mel));
    TD_TRY(td_xtts_plan_fill(plan, "dvae_mel_counts", &clip.frames));
    TD_TRY(td_xtts_plan_run(plan));
    TD_TRY(td_plan_read(plan->plan, td_graph_find_output(plan->graph, "codes"), *codes));
fail:
    td_mel_clip_free(l->memory, &clip);
    free(mel);
    return status;
}

static td_status leave_be(td_xtts_engine *engine, uint32_t layer, td_xtts_plan *block, td_list *list,
                          void *context)
{
    (void)engine;
    (void)layer;
    (void)block;
    (void)list;
    (void)context;
    return TD_OK;
}

/* What the GPT thinks where it chooses each of the codes: in the row before its own. */
static td_status think(listener *l, const td_xtts_timbre *timbre, const td_hearing *h, const uint32_t *codes,
                       td_heard *out)
{
    const td_xtts *c = &l->engine->c;
    const uint64_t row = sizeof(float) * c->gpt_n_model_channels;
    const uint64_t first = c->perceiver_latents + h->n_tokens + 2;
    const td_xtts_passage passage = {.timbre = timbre,
                                     .tokens = h->tokens,
                                     .n_tokens = h->n_tokens,
                                     .codes = codes,
                                     .n_codes = out->n - 1};
    float *rows = NULL;
    td_xtts_plan *plan;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&rows, (size_t)out->n * c->gpt_n_model_channels));
    TD_TRY(TD_NEW_ARRAY(&out->latents, (size_t)out->n * c->gpt_n_model_channels));
    TD_TRY(td_xtts_run_blocks(l->engine, &passage, c->gpt_layers, leave_be, NULL));
    TD_TRY(td_blocking_read(l->memory, td_span_part(l->engine->hidden, first * row, out->n * row),
                            (td_point){0}, rows));
    TD_TRY(td_xtts_plans_find(&l->norm_plans, td_xtts_latents_graph, out->n, &plan));
    TD_TRY(td_xtts_plan_fill(plan, "rows", rows));
    TD_TRY(td_xtts_plan_run(plan));
    TD_TRY(td_xtts_plan_read(plan, "latents", out->latents));
fail:
    free(rows);
    return status;
}

static td_status check_length(const td_xtts *c, const td_hearing *h, size_t n_codes)
{
    TD_REFUSE_IF(h->n_tokens >= c->gpt_max_text_tokens, TD_ERR_LIMIT,
                 "a text of %zu tokens; the voice takes fewer than %u", h->n_tokens, c->gpt_max_text_tokens);
    TD_REFUSE_IF(n_codes > td_xtts_most_codes(c), TD_ERR_LIMIT,
                 "a recording of %zu codes; the voice takes %u", n_codes, td_xtts_most_codes(c));
    for (size_t i = 0; i < h->n_tokens; i++)
        TD_REFUSE_IF(h->tokens[i] >= c->gpt_number_text_tokens, TD_ERR_FORMAT,
                     "token %u of the text is beyond the voice's %u", h->tokens[i],
                     c->gpt_number_text_tokens);
    return TD_OK;
}

static td_status hear(td_listener *base, const td_hearing *h, td_heard *out)
{
    listener *l = (listener *)base;
    const td_xtts *c = &l->engine->c;
    td_xtts_timbre timbre = {0};
    float *samples = NULL;
    uint32_t *codes = NULL;
    size_t count;
    td_status status = TD_OK;
    *out = (td_heard){0};
    TD_TRY(td_xtts_hear(c, h->path, &samples, &count));
    out->n = (uint32_t)((count + c->gpt_code_stride_len - 1) / c->gpt_code_stride_len);
    TD_TRY(check_length(c, h, out->n));
    TD_TRY(td_xtts_clone(l->engine, &h->path, 1, &timbre));
    TD_TRY(make_codes(l, samples, count, &codes));
    TD_TRY(think(l, &timbre, h, codes, out));
    out->vector = timbre.embedding;
    out->codes = codes;
    codes = NULL;
    timbre.embedding = NULL;
fail:
    if (status != TD_OK) {
        free(out->latents);
        *out = (td_heard){0};
    }
    td_xtts_timbre_free(&timbre);
    free(samples);
    free(codes);
    return status;
}

const td_listener_class td_xtts_listener = {.listens = listens,
                                            .complete = td_xtts_complete,
                                            .open = open_listener,
                                            .close = close_listener,
                                            .hear = hear};
