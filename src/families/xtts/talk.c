/* How XTTS speaks (families/talker.h): who it is, kept as long as the recordings are the same; piece after piece; and
 * what the first was made of, for comparisons. Covered by tests/xtts/test_xtts_voice.c. */
#include "families/xtts/talk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "families/xtts/load.h"
#include "families/xtts/timbre_cache.h"
#include "families/xtts/utter.h"
#include "ops/decode.h"

#define MOST_REFERENCES 16u
#define MOST_REFERENCE_BYTES ((size_t)256 << 20)

typedef struct talker {
    td_talker base;
    const td_checkpoint *checkpoint; /* borrowed */
    td_xtts_engine *engine;
    td_xtts_timbre timbre;
    uint64_t timbre_hash; /* of what it was made from; 0: there is none */
    const td_talk_style *style;
    uint64_t n_pieces;
    /* the first piece */
    uint32_t *tokens;
    size_t n_tokens;
    td_xtts_utterance first;
    td_trace trace; /* of all pieces */
} talker;

/* ---------------------------------------------------------------- opening */

static void drop_first(talker *t)
{
    free(t->tokens);
    t->tokens = NULL;
    t->n_tokens = 0;
    td_xtts_utterance_free(&t->first);
    td_trace_clear(&t->trace);
}

static void close_talker(td_talker *base)
{
    talker *t = (talker *)base;
    if (!t) return;
    drop_first(t);
    td_xtts_timbre_free(&t->timbre);
    td_xtts_engine_close(t->engine);
    free(t);
}

/* The engine is the talker's from here on. */
static td_status make_talker(td_xtts_engine *engine, const td_checkpoint *checkpoint, td_talker **out)
{
    talker *t = NULL;
    *out = NULL;
    if (TD_NEW(&t) != TD_OK) {
        td_xtts_engine_close(engine);
        return td_error_last()->status;
    }
    t->base.class = &td_xtts_talker;
    t->base.rate = td_xtts_engine_config(engine)->output_sample_rate;
    t->checkpoint = checkpoint;
    t->engine = engine;
    *out = &t->base;
    return TD_OK;
}

static td_status open_talker(td_memory *model, td_memory *data, const td_checkpoint *checkpoint,
                             const char *weights, td_talker **out)
{
    td_xtts_engine *engine;
    uint32_t format = td_xtts_stored_format(checkpoint);
    *out = NULL;
    if (weights) TD_CHECK(td_decode_format(weights, &format));
    TD_CHECK(td_xtts_engine_open(model, data, checkpoint, format, &engine));
    return make_talker(engine, checkpoint, out);
}

static td_status share_talker(const td_talker *lender, td_talker **out)
{
    const talker *t = (const talker *)lender;
    td_xtts_engine *engine;
    *out = NULL;
    TD_CHECK(td_xtts_engine_share(t->engine, &engine));
    return make_talker(engine, t->checkpoint, out);
}

/* ---------------------------------------------------------------- who speaks */

enum { MOST_SPEAKERS = 1024, SHOWN_SPEAKERS = 8 };

/* Names what was asked for, the nearest that there is, and some that there are. */
static td_status refuse_speaker(const talker *t, const char *speaker)
{
    const char *names[MOST_SPEAKERS], *nearest;
    char shown[512] = "", *list = strdup(td_checkpoint_get_info(t->checkpoint)->speakers), *rest;
    size_t n = 0, used = 0;
    for (char *name = list ? strtok_r(list, "\n", &rest) : NULL; name && n < MOST_SPEAKERS;
         name = strtok_r(NULL, "\n", &rest))
        names[n++] = name;
    for (size_t i = 0; i < n && i < SHOWN_SPEAKERS && used < sizeof shown; i++)
        used += (size_t)snprintf(shown + used, sizeof shown - used, "%s%s", i ? ", " : "", names[i]);
    nearest = td_text_nearest(speaker, names, n);
    const td_status status =
        n == 0 ? TD_FAIL(TD_ERR_CONFIG, "speaker '%s': the voice knows no speakers by name; give a reference",
                         speaker)
               : TD_FAIL(TD_ERR_CONFIG, "speaker '%s': %s%s%sthe voice knows %zu: %s%s", speaker,
                         nearest ? "did you mean '" : "", nearest ? nearest : "", nearest ? "'? " : "", n,
                         shown, n > SHOWN_SPEAKERS ? ", .. (`tandem inspect` lists all)" : "");
    free(list);
    return status;
}

static td_status read_half(const talker *t, const char *speaker, const char *half, size_t count, float **out)
{
    char name[TD_SAFETENSORS_MAX_NAME_BYTES];
    size_t n;
    snprintf(name, sizeof name, "speakers.%s.%s", speaker, half);
    if (!td_safetensors_find(td_checkpoint_file(t->checkpoint), name)) return refuse_speaker(t, speaker);
    TD_CHECK(td_xtts_read_tensor(t->checkpoint, name, out, &n));
    TD_REFUSE_IF(n != count, TD_ERR_FORMAT, "tensor %s has %zu numbers instead of %zu", name, n, count);
    return TD_OK;
}

static td_status take_speaker(talker *t, const char *speaker)
{
    const td_xtts *c = td_xtts_engine_config(t->engine);
    TD_CHECK(read_half(t, speaker, "gpt_cond_latent", (size_t)c->perceiver_latents * c->gpt_n_model_channels,
                       &t->timbre.latents));
    return read_half(t, speaker, "speaker_embedding", c->d_vector_dim, &t->timbre.embedding);
}

/* A hash of the contents of all recordings, in their order. */
static td_status hash_files(const char *const *paths, size_t n, uint64_t *hash)
{
    *hash = 1;
    for (size_t i = 0; i < n; i++) {
        char *data;
        size_t bytes;
        TD_CHECK(td_file_read(paths[i], MOST_REFERENCE_BYTES, &data, &bytes));
        const uint64_t both[2] = {*hash, td_hash64(data, bytes)};
        *hash = td_hash64(both, sizeof both) | 1;
        free(data);
    }
    return TD_OK;
}

/* `list` is cut into its lines. */
static td_status take_references(talker *t, char *list)
{
    const char *paths[MOST_REFERENCES];
    size_t n = 0;
    uint64_t hash;
    char *rest;
    for (char *line = strtok_r(list, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        TD_REFUSE_IF(n == MOST_REFERENCES, TD_ERR_CONFIG, "more than %u references", MOST_REFERENCES);
        paths[n++] = line;
    }
    TD_CHECK(hash_files(paths, n, &hash));
    if (hash == t->timbre_hash) return TD_OK;
    td_xtts_timbre_free(&t->timbre);
    t->timbre_hash = 0;
    if (!td_xtts_timbre_recall(t->engine, hash, &t->timbre)) {
        TD_CHECK(td_xtts_clone(t->engine, paths, n, &t->timbre));
        td_xtts_timbre_keep(t->engine, hash, &t->timbre);
    }
    t->timbre_hash = hash;
    return TD_OK;
}

static td_status start(td_talker *base, const td_talk_style *style)
{
    talker *t = (talker *)base;
    char *list = NULL;
    td_status status = TD_OK;
    t->style = style;
    t->n_pieces = 0;
    drop_first(t);
    TD_FAIL_IF(style->speaker && style->references, TD_ERR_CONFIG,
               "a speaker and references were named; one of them tells who speaks");
    TD_FAIL_IF(!style->speaker && !style->references, TD_ERR_CONFIG,
               "the voice speaks like a recording or like a speaker that it knows; name one");
    if (style->speaker) {
        td_xtts_timbre_free(&t->timbre);
        t->timbre_hash = 0;
        return take_speaker(t, style->speaker);
    }
    TD_TRY(TD_NEW_ARRAY(&list, strlen(style->references) + 1));
    memcpy(list, style->references, strlen(style->references));
    TD_TRY(take_references(t, list));
fail:
    free(list);
    return status;
}

/* ---------------------------------------------------------------- what is said */

static uint32_t count_at_once(const td_talk_style *s)
{
    return s->at_once ? s->at_once : 1;
}

/* Where pieces are said side by side, each leaves when it is whole. */
static td_xtts_manner make_manner(talker *t)
{
    const td_xtts *c = td_xtts_engine_config(t->engine);
    const td_talk_style *s = t->style;
    const bool is_alone = count_at_once(s) == 1;
    return (td_xtts_manner){
        .sampling = {.temperature = s->temperature > 0 ? s->temperature : (double)c->temperature,
                     .top_p = s->top_p > 0 ? s->top_p : (double)c->top_p,
                     .repetition_penalty =
                         s->repetition_penalty > 0 ? s->repetition_penalty : (double)c->repetition_penalty,
                     .top_k = s->top_k ? s->top_k : c->top_k,
                     .greedy = s->greedy,
                     .seed = s->seed + t->n_pieces},
        .speed = s->speed,
        .is_guarded = !s->no_guard,
        .chunk_codes = is_alone && (s->sink || td_xtts_overlaps(t->engine)) ? TD_XTTS_FIRST_CODES : 0,
        .most_codes = TD_XTTS_STREAM_CODES,
        .sink = is_alone ? s->sink : NULL,
        .context = s->context,
        .cancel = s->cancel,
        .trace = &t->trace};
}

/* What the first piece since start was, for comparisons. */
static td_status keep_first(talker *t, const td_piece_tokens *piece, td_xtts_utterance *u)
{
    if (t->n_pieces > 0) return TD_OK;
    TD_CHECK(TD_NEW_ARRAY(&t->tokens, piece->count));
    memcpy(t->tokens, piece->ids, piece->count * sizeof *piece->ids);
    t->n_tokens = piece->count;
    t->first = *u;
    *u = (td_xtts_utterance){0};
    return TD_OK;
}

static td_status hand_out(const td_xtts_utterance *u, td_talked *out)
{
    TD_CHECK(TD_NEW_ARRAY(&out->samples, u->count));
    memcpy(out->samples, u->samples, u->count * sizeof *u->samples);
    out->count = u->count;
    out->is_cut = !u->is_stopped && !u->is_past_text;
    out->is_trimmed = u->is_past_text;
    out->n_redrawn = u->n_redrawn;
    return TD_OK;
}

static td_status say(td_talker *base, const td_piece_tokens *pieces, size_t n, td_talked *out)
{
    talker *t = (talker *)base;
    const td_xtts_manner manner = make_manner(t);
    td_xtts_utterance *spoken = NULL;
    td_xtts_text *texts = NULL;
    td_status status = TD_OK;
    memset(out, 0, n * sizeof *out);
    TD_TRY(TD_NEW_ARRAY(&spoken, n));
    TD_TRY(TD_NEW_ARRAY(&texts, n));
    for (size_t i = 0; i < n; i++)
        texts[i] = (td_xtts_text){.tokens = pieces[i].ids, .n_tokens = pieces[i].count};
    TD_TRY(td_xtts_utter_all(t->engine, &t->timbre, texts, n, count_at_once(t->style), &manner, spoken));
    for (size_t i = 0; i < n; i++)
        TD_TRY(hand_out(&spoken[i], &out[i]));
    TD_TRY(keep_first(t, &pieces[0], &spoken[0]));
    t->n_pieces += n;
fail:
    for (size_t i = 0; spoken && i < n; i++)
        td_xtts_utterance_free(&spoken[i]);
    for (size_t i = 0; i < n && status != TD_OK; i++) {
        free(out[i].samples);
        out[i] = (td_talked){0};
    }
    free(spoken);
    free(texts);
    return status;
}

/* ---------------------------------------------------------------- comparisons */

typedef struct part {
    const char *name;
    td_safetensors_dtype dtype;
    size_t rank;
    uint64_t dims[2];
    const void *data; /* NULL: there is none */
} part;

static uint64_t count_bytes(const part *p)
{
    return 4 * p->dims[0] * (p->rank > 1 ? p->dims[1] : 1);
}

static td_status write_parts(const part *parts, size_t n, const char *path)
{
    td_safetensors_writer *writer = NULL;
    td_status status = TD_OK;
    TD_TRY(td_safetensors_writer_open(path, &writer));
    for (size_t i = 0; i < n; i++)
        if (parts[i].data)
            TD_TRY(td_safetensors_writer_add_tensor(writer, parts[i].name, parts[i].dtype, parts[i].rank,
                                                    parts[i].dims));
    for (size_t i = 0; i < n; i++)
        if (parts[i].data)
            TD_TRY(td_safetensors_writer_write(writer, parts[i].name, parts[i].data,
                                               (size_t)count_bytes(&parts[i])));
    TD_TRY(td_safetensors_writer_commit(writer));
fail:
    td_safetensors_writer_close(writer);
    return status;
}

static td_status save(const td_talker *base, const char *path)
{
    const talker *t = (const talker *)base;
    const td_xtts *c = td_xtts_engine_config(t->engine);
    const td_xtts_utterance *u = &t->first;
    const uint64_t width = c->gpt_n_model_channels, n = u->n - u->is_stopped;
    const part parts[] = {
        {"synth.tokens", TD_SAFETENSORS_I32, 1, {t->n_tokens}, t->tokens},
        {"synth.reference_mel", TD_SAFETENSORS_F32, 2, {t->timbre.frames, c->n_mels}, t->timbre.mel},
        {"synth.cond_latents", TD_SAFETENSORS_F32, 2, {c->perceiver_latents, width}, t->timbre.latents},
        {"synth.speaker_embedding", TD_SAFETENSORS_F32, 1, {c->d_vector_dim}, t->timbre.embedding},
        {"synth.codes", TD_SAFETENSORS_I32, 1, {n}, u->codes},
        {"synth.latents", TD_SAFETENSORS_F32, 2, {n, width}, u->latents},
        {"synth.wave", TD_SAFETENSORS_F32, 1, {u->count}, u->samples},
    };
    if (!u->codes) return TD_FAIL(TD_ERR_ARGUMENT, "nothing was said yet");
    return write_parts(parts, sizeof parts / sizeof *parts, path);
}

static td_status save_trace(const td_talker *base, const char *path)
{
    static const char *const TRACKS[TD_XTTS_TRACKS] = {
        [TD_XTTS_TRACK_GPT] = "model device: GPT", [TD_XTTS_TRACK_VOCODER] = "data device: vocoder"};
    return td_trace_write(&((const talker *)base)->trace, TRACKS, TD_XTTS_TRACKS, path);
}

const td_talker_class td_xtts_talker = {.shares_steps = true,
                                        .open = open_talker,
                                        .share = share_talker,
                                        .close = close_talker,
                                        .start = start,
                                        .say = say,
                                        .save = save,
                                        .save_trace = save_trace};
