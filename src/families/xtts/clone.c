/* See engine.h: from recordings to what the model knows of a speaker. */
#include <stdlib.h>
#include <string.h>

#include "audio/mel_clip.h"
#include "audio/sinc.h"
#include "base/error.h"
#include "device/blocking.h"
#include "families/xtts/engine_internal.h"
#include "families/xtts/load.h"
#include "families/xtts/reference.h"

#define LEAST_CHUNK_S 0.33
#define FILTER "hifigan_decoder.speaker_encoder.torch_spec."

void td_xtts_timbre_free(td_xtts_timbre *timbre)
{
    free(timbre->latents);
    free(timbre->embedding);
    free(timbre->mel);
    *timbre = (td_xtts_timbre){0};
}

/* ---------------------------------------------------------------- the speaker encoder */

static td_status run_encoder(td_xtts_engine *e, const float *mel, uint32_t frames, float *embedding)
{
    td_xtts_plan *plan;
    TD_CHECK(td_xtts_plans_find(&e->listening_plans, td_xtts_speaker_graph, frames, &plan));
    TD_CHECK(td_xtts_plan_fill(plan, "speaker_mel", mel));
    TD_CHECK(td_xtts_plan_run(plan));
    return td_xtts_plan_read(plan, "embedding", embedding);
}

/* The speaker's vector of one recording. */
static td_status embed(td_xtts_engine *e, const td_xtts_ear *ear, const float *samples, size_t count,
                       float *embedding)
{
    float *heard = NULL, *mel = NULL;
    size_t n;
    uint32_t frames;
    td_status status = TD_OK;
    TD_TRY(td_sinc_resample(samples, count, e->c.input_sample_rate, TD_XTTS_SPEAKER_RATE, &heard, &n));
    TD_TRY(td_xtts_listen(ear, heard, n, &mel, &frames));
    TD_TRY(run_encoder(e, mel, frames, embedding));
fail:
    free(heard);
    free(mel);
    return status;
}

/* The tables of the ear: owned, free(). */
typedef struct tables {
    float *emphasis, *window, *filters;
} tables;

static td_status open_ear(const td_xtts_engine *e, tables *t, td_xtts_ear *ear)
{
    size_t n_emphasis, n_filters;
    TD_CHECK(td_xtts_read_tensor(e->checkpoint, FILTER "0.filter", &t->emphasis, &n_emphasis));
    TD_CHECK(td_xtts_read_tensor(e->checkpoint, FILTER "1.spectrogram.window", &t->window, &ear->n_window));
    TD_CHECK(td_xtts_read_tensor(e->checkpoint, FILTER "1.mel_scale.fb", &t->filters, &n_filters));
    TD_REFUSE_IF(n_emphasis != 2 || n_filters != 257 * (size_t)e->c.speaker_mels || ear->n_window > 512,
                 TD_ERR_FORMAT,
                 "the front end of the speaker encoder has %zu, %zu and %zu numbers; it is another one's",
                 n_emphasis, ear->n_window, n_filters);
    ear->window = t->window;
    ear->filters = t->filters;
    ear->bands = e->c.speaker_mels;
    ear->emphasis = t->emphasis[0];
    return TD_OK;
}

/* ---------------------------------------------------------------- conditioning */

/* A piece of the references behind the first half of the conditioning, [frames, width]. */
typedef struct chunk {
    float *encoded; /* owned */
    uint32_t frames;
} chunk;

/* The first piece also leaves its spectrogram. */
static td_status encode(td_xtts_engine *e, const float *samples, size_t count, chunk *to, td_xtts_timbre *out)
{
    td_mel_clip clip = {0};
    float *mel = NULL;
    td_xtts_plan *plan;
    td_status status = TD_OK;
    TD_TRY(td_mel_clip_make(e->mel, e->gpt_memory, samples, count, &clip));
    to->frames = clip.frames;
    TD_TRY(TD_NEW_ARRAY(&mel, (size_t)clip.frames * e->c.n_mels));
    TD_TRY(TD_NEW_ARRAY(&to->encoded, (size_t)clip.frames * e->c.gpt_n_model_channels));
    TD_TRY(td_blocking_read(e->gpt_memory, clip.mel, (td_point){0}, mel));
    TD_TRY(td_xtts_plans_find(&e->listening_plans, td_xtts_reference_graph, clip.frames, &plan));
    TD_TRY(td_xtts_plan_fill(plan, "mel", mel));
    TD_TRY(td_xtts_plan_run(plan));
    TD_TRY(td_xtts_plan_read(plan, "encoded", to->encoded));
    if (!out->mel) {
        TD_TRY(td_xtts_plan_read(plan, "reference_mel", mel));
        out->mel = mel;
        out->frames = clip.frames;
        mel = NULL;
    }
fail:
    td_mel_clip_free(e->gpt_memory, &clip);
    free(mel);
    return status;
}

/* Latents of all pieces are averaged. */
static td_status perceive(td_xtts_engine *e, const chunk *chunks, size_t n_chunks, float *latents)
{
    const size_t n = (size_t)e->c.perceiver_latents * e->c.gpt_n_model_channels;
    float *made = NULL;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&made, n));
    for (size_t k = 0; k < n_chunks; k++) {
        td_xtts_plan *plan;
        TD_TRY(td_xtts_plans_find(&e->listening_plans, td_xtts_perceiver_graph, chunks[k].frames, &plan));
        TD_TRY(td_xtts_plan_fill(plan, "encoded", chunks[k].encoded));
        TD_TRY(td_xtts_plan_run(plan));
        TD_TRY(td_xtts_plan_read(plan, "latents", made));
        for (size_t i = 0; i < n; i++)
            latents[i] += made[i];
    }
    for (size_t i = 0; i < n; i++)
        latents[i] /= (float)n_chunks;
fail:
    free(made);
    return status;
}

/* The speaker encoder, and then each half of the conditioning, is in memory while it works: all are an eighth of the
 * GPT's weights, and speaking needs none. */
static td_status open_listener(td_xtts_engine *e, td_memory *memory, td_xtts_builder parameters)
{
    td_xtts_close_part(&e->listening, &e->listening_plans);
    return td_xtts_open_part(memory, e->checkpoint, &e->c, parameters, &e->listening, &e->listening_plans);
}

static td_status condition(td_xtts_engine *e, const float *samples, size_t count, td_xtts_timbre *out)
{
    const double rate = e->c.input_sample_rate;
    const size_t most = (size_t)(rate * (double)e->c.gpt_cond_len);
    const size_t length = (size_t)(rate * (double)e->c.gpt_cond_chunk_len);
    chunk *chunks = NULL;
    size_t n_chunks = 0;
    td_status status = TD_OK;
    if (most > 0 && count > most) count = most;
    TD_TRY(TD_NEW_ARRAY(&chunks, count / length + 1));
    TD_TRY(open_listener(e, e->gpt_memory, td_xtts_reference_parameters));
    for (size_t at = 0; at < count; at += length) {
        const size_t own = count - at < length ? count - at : length;
        if ((double)own < LEAST_CHUNK_S * rate) continue;
        TD_TRY(encode(e, samples + at, own, &chunks[n_chunks++], out));
    }
    TD_FAIL_IF(n_chunks == 0, TD_ERR_FORMAT, "the references have %.2f s of sound; %.2f are needed, better 6",
               (double)count / rate, LEAST_CHUNK_S);
    TD_TRY(open_listener(e, e->gpt_memory, td_xtts_perceiver_parameters));
    TD_TRY(perceive(e, chunks, n_chunks, out->latents));
fail:
    for (size_t k = 0; chunks && k < n_chunks; k++)
        free(chunks[k].encoded);
    free(chunks);
    return status;
}

/* ---------------------------------------------------------------- both */

/* One recording behind the others, and its speaker's vector added. */
static td_status add_recording(td_xtts_engine *e, const td_xtts_ear *ear, const char *path, float **all,
                               size_t *count, size_t *capacity, float *embedding)
{
    float *samples = NULL, *own = NULL;
    size_t n;
    td_status status = TD_OK;
    TD_TRY(td_xtts_hear(&e->c, path, &samples, &n));
    TD_TRY(TD_NEW_ARRAY(&own, e->c.d_vector_dim));
    TD_TRY(embed(e, ear, samples, n, own));
    for (uint32_t i = 0; i < e->c.d_vector_dim; i++)
        embedding[i] += own[i];
    TD_TRY(td_alloc_grow(all, capacity, *count + n, sizeof **all));
    memcpy(*all + *count, samples, n * sizeof *samples);
    *count += n;
fail:
    if (status != TD_OK) td_error_context("reference %s", path);
    free(samples);
    free(own);
    return status;
}

td_status td_xtts_clone(td_xtts_engine *engine, const char *const *paths, size_t n_paths, td_xtts_timbre *out)
{
    const td_xtts *c = &engine->c;
    tables t = {0};
    td_xtts_ear ear;
    float *all = NULL;
    size_t count = 0, capacity = 0;
    td_status status = TD_OK;
    *out = (td_xtts_timbre){0};
    TD_FAIL_IF(n_paths == 0, TD_ERR_ARGUMENT, "a speaker without a recording");
    TD_TRY(open_ear(engine, &t, &ear));
    TD_TRY(TD_NEW_ARRAY(&out->latents, (size_t)c->perceiver_latents * c->gpt_n_model_channels));
    TD_TRY(TD_NEW_ARRAY(&out->embedding, c->d_vector_dim));
    TD_TRY(open_listener(engine, engine->decoder_memory, td_xtts_speaker_parameters));
    for (size_t i = 0; i < n_paths; i++)
        TD_TRY(add_recording(engine, &ear, paths[i], &all, &count, &capacity, out->embedding));
    for (uint32_t i = 0; i < c->d_vector_dim; i++)
        out->embedding[i] /= (float)n_paths;
    TD_TRY(condition(engine, all, count, out));
fail:
    td_xtts_close_part(&engine->listening, &engine->listening_plans);
    free(all);
    free(t.emphasis);
    free(t.window);
    free(t.filters);
    if (status != TD_OK) td_xtts_timbre_free(out);
    return status;
}
