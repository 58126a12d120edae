/* See speech.h. How pieces fall into batches, and the seed of each batch, decide the samples: they are the
 * same whether samples leave at once or at the end. */
#include "synth/speech.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "device/blocking.h"
#include "ops/optim.h"
#include "synth/join.h"

#define BATCH_ITEMS 8u /* at most */
#define ROUND_TOKENS 16u

/* Behind a piece that ends so. */
static const double PAUSES_S[] = {
    [TD_PIECE_WITHIN] = 0, [TD_PIECE_CLAUSE] = 0.08, [TD_PIECE_SENTENCE] = 0.2, [TD_PIECE_PARAGRAPH] = 0.5};

/* One call of td_speech_make. */
typedef struct call {
    const td_speech_request *request;
    td_speech *out;
    td_speaking speaking;
    td_utterance *utterances; /* of the speaking */
    uint32_t *tokens;         /* [utterances, B] */
    uint32_t *ids;            /* [utterances, B, L] */
    bool *too_long;           /* [utterances, B] */
    double *speeds;           /* [utterances, B] */
    size_t first;             /* piece that the first item is */
    uint64_t n_spoken;        /* batches, for their seeds */
    uint32_t speakers[BATCH_ITEMS], reference_counts[BATCH_ITEMS];
    td_span references[BATCH_ITEMS];
    td_join join;
    float gain;     /* of what leaves early */
    uint32_t group; /* pieces that leave next; 0: all of a batch */
    size_t n_cut;
    const td_vocoder_batch *batch; /* that is being voiced */
    size_t passed_on[BATCH_ITEMS]; /* samples of its items that left already */
} call;

/* ---------------------------------------------------------------- batches */

static size_t count_pieces(const call *c)
{
    return c->request->script->count - c->first;
}

/* Tokens and speeds of the pieces, item after item, and one token in items that are padding. */
static td_status fill_items(call *c)
{
    const td_script_piece *pieces = c->request->script->pieces + c->first;
    const size_t n_items = c->speaking.n_utterances * c->speaking.items, most = c->speaking.max_tokens;
    TD_CHECK(TD_NEW_ARRAY(&c->tokens, n_items));
    TD_CHECK(TD_NEW_ARRAY(&c->ids, n_items * most));
    TD_CHECK(TD_NEW_ARRAY(&c->speeds, n_items));
    for (size_t i = 0; i < n_items; i++) {
        c->tokens[i] = 1;
        c->speeds[i] = 1;
        if (i >= count_pieces(c)) continue;
        const td_tokens *tokens = &pieces[i].tokens;
        c->tokens[i] = (uint32_t)tokens->count;
        c->speeds[i] = pieces[i].rate;
        for (size_t k = 0; k < tokens->count; k++)
            c->ids[i * most + k] = (uint32_t)tokens->ids[k];
    }
    return TD_OK;
}

static void describe_speaking(call *c)
{
    const td_speech_request *r = c->request;
    const size_t n = count_pieces(c);
    td_speaking *s = &c->speaking;
    *s = (td_speaking){.seed = r->seed,
                       .items = n < BATCH_ITEMS ? (uint32_t)n : BATCH_ITEMS,
                       .reference_frames = r->reference_frames,
                       .speed = r->speed,
                       .pitch_shift = r->pitch_shift,
                       .energy = r->energy,
                       .cancel = r->cancel};
    for (size_t i = c->first; i < r->script->count; i++)
        if (r->script->pieces[i].tokens.count > s->max_tokens)
            s->max_tokens = (uint32_t)r->script->pieces[i].tokens.count;
    s->max_tokens = (uint32_t)td_round_up(s->max_tokens, ROUND_TOKENS);
    if (s->max_tokens > r->script->model.max_tokens) s->max_tokens = r->script->model.max_tokens;
    s->n_utterances = (n + s->items - 1) / s->items;
    for (uint32_t i = 0; i < s->items; i++) {
        c->speakers[i] = r->speaker_number;
        c->reference_counts[i] = r->reference_frames;
        c->references[i] = r->reference;
    }
}

/* Of the pieces from c->first on. */
static td_status make_utterances(call *c)
{
    const size_t n = count_pieces(c);
    td_speaking *s = &c->speaking;
    TD_REFUSE_IF(n == 0, TD_ERR_ARGUMENT, "a script without pieces");
    describe_speaking(c);
    TD_CHECK(TD_NEW_ARRAY(&c->utterances, s->n_utterances));
    TD_CHECK(fill_items(c));
    TD_CHECK(TD_NEW_ARRAY(&c->too_long, s->n_utterances * s->items));
    s->too_long = c->too_long;
    for (size_t i = 0; i < s->n_utterances; i++) {
        const size_t left = n - i * s->items;
        c->utterances[i] = (td_utterance){.count = left < s->items ? (uint32_t)left : s->items,
                                          .tokens = c->tokens + i * s->items,
                                          .ids = c->ids + i * s->items * s->max_tokens,
                                          .speakers = c->speakers,
                                          .reference_counts = c->reference_counts,
                                          .references = c->references,
                                          .speeds = c->speeds + i * s->items};
    }
    s->utterances = c->utterances;
    return TD_OK;
}

static void free_utterances(call *c)
{
    free(c->utterances);
    free(c->tokens);
    free(c->ids);
    free(c->too_long);
    free(c->speeds);
    c->utterances = NULL;
    c->tokens = c->ids = NULL;
    c->too_long = NULL;
    c->speeds = NULL;
}

/* Splits the pieces that take too many frames. *is_split: false if none could be, being too short for that. */
static td_status split_pieces(call *c, bool *is_split)
{
    td_script *script = c->request->script;
    *is_split = false;
    for (size_t i = count_pieces(c); i-- > 0;) {
        bool is_done;
        if (!c->too_long[i]) continue;
        TD_CHECK(td_script_split(script, c->first + i, &is_done));
        *is_split |= is_done;
    }
    return TD_OK;
}

/* Pieces become utterances, shorter ones until the voice can make them all. */
static td_status start_speaking(call *c)
{
    bool is_split;
    for (;;) {
        TD_CHECK(make_utterances(c));
        const td_status starts = td_speaker_start(c->request->speaker, &c->speaking);
        if (starts == TD_OK) return TD_OK;
        is_split = false;
        if (starts == TD_ERR_LIMIT) TD_CHECK(split_pieces(c, &is_split));
        if (!is_split) return starts;
        free_utterances(c);
    }
    return TD_OK;
}

/* ---------------------------------------------------------------- spectrograms */

/* Of all that is in a span: the sum of squares, made on the device, is finite only if every value is. */
static td_status check_finite(const call *c, td_span mel)
{
    td_memory *memory = c->request->memory;
    const uint32_t n = (uint32_t)(mel.bytes / sizeof(float));
    td_list *list = NULL;
    td_span partial = {0};
    float *sums = NULL;
    td_status status = TD_OK;
    TD_TRY(td_list_create(td_memory_device(memory), TD_QUEUE_COMPUTE, &list));
    const uint32_t parts = td_op_square_sum_parts(td_list_class(list), n);
    TD_TRY(TD_NEW_ARRAY(&sums, parts));
    TD_TRY(td_memory_alloc(memory, TD_MEMORY_DEVICE, sizeof(float) * parts, &partial));
    TD_TRY(td_op_square_sum(list, n, mel, partial, 0));
    TD_TRY(td_blocking_run(list, NULL));
    TD_TRY(td_blocking_read(memory, partial, (td_point){0}, sums));
    for (uint32_t i = 0; i < parts; i++)
        TD_FAIL_IF(
            !isfinite(sums[i]), TD_ERR_FORMAT,
            "the voice makes values that are not finite (NaN or infinite); take an earlier checkpoint");
fail:
    td_list_destroy(list);
    td_memory_free(memory, partial);
    free(sums);
    return status;
}

/* The spectrograms of a batch without padding, behind those that are there. */
static td_status keep_mels(const call *c, const td_spoken *spoken, uint32_t count)
{
    td_speech *out = c->out;
    const size_t n_mels = td_model_describe(c->request->model).n_mels;
    size_t capacity = out->frames * n_mels;
    out->n_mels = n_mels;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t bytes = sizeof(float) * spoken->frames[i] * n_mels;
        const uint64_t first = sizeof(float) * i * spoken->max_frames * n_mels;
        TD_CHECK(td_alloc_grow(&out->mel, &capacity, (out->frames + spoken->frames[i]) * n_mels,
                               sizeof *out->mel));
        TD_CHECK(td_blocking_read(c->request->memory, td_span_part(spoken->mel, first, bytes), (td_point){0},
                                  out->mel + out->frames * n_mels));
        out->frames += spoken->frames[i];
    }
    return TD_OK;
}

/* ---------------------------------------------------------------- sound */

/* Hands over what is joined. */
static td_status emit(call *c)
{
    if (c->join.count == 0) return TD_OK;
    td_join_level_on(&c->join, &c->gain);
    if (!c->request->sink(c->request->context, c->join.samples, c->join.count))
        return TD_FAIL(TD_ERR_CANCELLED, "speaking was ended by the receiver of the samples");
    c->join.count = 0;
    return TD_OK;
}

/* Behind a piece; the last has only what was asked for. */
static double get_pause(const td_script *script, size_t piece)
{
    const td_script_piece *p = &script->pieces[piece];
    return p->pause_s >= 0 ? p->pause_s : piece + 1 == script->count ? 0 : PAUSES_S[p->end];
}

/* Samples of an item that the vocoder has just made, to whoever streams. */
static td_status add_part(void *context, uint32_t item, const float *samples, size_t count)
{
    call *c = context;
    const uint32_t hop = td_mel_get_config(c->request->vocoder->mel)->hop_samples;
    const size_t total = (size_t)(c->batch->frames[item] - 1) * hop;
    TD_REFUSE_IF(atomic_load(c->request->cancel), TD_ERR_CANCELLED, "speaking was cancelled");
    TD_CHECK(td_join_add_part(&c->join, samples, count, c->passed_on[item], total, 0));
    c->passed_on[item] += count;
    return emit(c);
}

/* The signals of some items of a batch, behind those that are there. */
static td_status add_sound(call *c, size_t number, const td_vocoder_batch *given)
{
    td_vocoder_batch whole = *given;
    const td_vocoder_batch *batch = &whole;
    const td_script *script = c->request->script;
    float *samples = NULL;
    size_t firsts[BATCH_ITEMS + 1];
    td_status status = TD_OK;
    memset(c->passed_on, 0, sizeof c->passed_on);
    whole.emit = c->request->sink && given->count == 1 ? add_part : NULL;
    whole.context = c;
    c->batch = batch;
    TD_FAIL_IF(atomic_load(c->request->cancel), TD_ERR_CANCELLED, "speaking was cancelled");
    TD_TRY(c->request->vocoder->run(c->request->vocoder, batch, &samples, firsts));
    for (uint32_t i = batch->first; i < batch->first + batch->count; i++) {
        const size_t passed = c->passed_on[i], total = firsts[i + 1] - firsts[i];
        TD_TRY(td_join_add_part(&c->join, samples + firsts[i] + passed, total - passed, passed, total,
                                get_pause(script, c->first + number * c->speaking.items + i)));
    }
    if (c->request->sink) TD_TRY(emit(c));
    if (c->request->pause) c->request->pause(c->request->pause_context);
fail:
    free(samples);
    return status;
}

/* Sound of a batch that the model has spoken. */
static td_status sound_batch(call *c, size_t number, const td_spoken *spoken)
{
    const uint32_t count = c->utterances[number].count;
    td_vocoder_batch batch = {.items = count,
                              .max_frames = spoken->max_frames,
                              .mel = td_span_part(spoken->mel, 0,
                                                  sizeof(float) * count * spoken->max_frames *
                                                      td_model_describe(c->request->model).n_mels),
                              .pitch = spoken->pitch,
                              .frames = spoken->frames,
                              .seed = c->request->seed + c->n_spoken++};
    TD_CHECK(check_finite(c, batch.mel));
    if (c->request->keeps_mel) TD_CHECK(keep_mels(c, spoken, count));
    while (batch.first < count) {
        const uint32_t left = count - batch.first;
        batch.count = c->group && c->group < left ? c->group : left;
        TD_CHECK(add_sound(c, number, &batch));
        batch.first += batch.count;
        if (c->group < BATCH_ITEMS) c->group *= 2;
    }
    return TD_OK;
}

/* A model that finds out while it speaks that a piece is too long: the piece is split, and speaking begins again with
 * the batch it is in, of which nothing was heard yet. *begins_again: false if nothing could be split. */
static td_status begin_again(call *c, size_t number, bool *begins_again)
{
    TD_CHECK(split_pieces(c, begins_again));
    if (!*begins_again) return TD_OK;
    td_speaker_end(c->request->speaker);
    c->first += number * c->speaking.items;
    free_utterances(c);
    return start_speaking(c);
}

/* Batch after batch. */
static td_status speak_batches(call *c)
{
    td_spoken spoken;
    bool begins_again;
    for (size_t i = 0; i < c->speaking.n_utterances; i++) {
        TD_CHECK(td_speaker_say(c->request->speaker, i, &spoken));
        begins_again = false;
        if (spoken.n_cut > 0) TD_CHECK(begin_again(c, i, &begins_again));
        if (begins_again) {
            i = SIZE_MAX; /* and then 0 */
            continue;
        }
        c->n_cut += spoken.n_cut;
        TD_CHECK(sound_batch(c, i, &spoken));
    }
    return TD_OK;
}

td_status td_speech_make(const td_speech_request *request, td_speech *out)
{
    call c = {.request = request,
              .out = out,
              .join = {.rate = td_mel_get_config(request->vocoder->mel)->rate},
              .gain = 1,
              .group = request->sink ? 1 : 0};
    td_status status = TD_OK;
    *out = (td_speech){0};
    TD_TRY(start_speaking(&c));
    TD_TRY(td_join_add(&c.join, NULL, 0, request->script->lead_s));
    TD_TRY(speak_batches(&c));
    out->n_pieces = request->script->count;
    if (c.n_cut > 0)
        td_log_warn("%zu of %zu pieces of the text were cut off: the voice did not stop by itself", c.n_cut,
                    out->n_pieces);
    td_join_level(&c.join);
    out->samples = c.join.samples;
    out->count = c.join.count;
    c.join.samples = NULL;
fail:
    td_speaker_end(request->speaker);
    free(c.join.samples);
    free_utterances(&c);
    if (status != TD_OK) td_speech_free(out);
    return status;
}

void td_speech_free(td_speech *speech)
{
    free(speech->samples);
    free(speech->mel);
    *speech = (td_speech){0};
}

td_status td_speech_save_mel(const td_speech *speech, const td_mel_config *config, const char *path)
{
    const uint64_t dims[] = {speech->frames, speech->n_mels};
    char text[TD_MEL_CONFIG_TEXT_BYTES];
    td_safetensors_writer *writer = NULL;
    td_status status = TD_OK;
    td_mel_config_format(config, text);
    TD_TRY(td_safetensors_writer_open(path, &writer));
    TD_TRY(td_safetensors_writer_add_metadata(writer, "mel", text));
    TD_TRY(td_safetensors_writer_add_tensor(writer, "mel", TD_SAFETENSORS_F32, 2, dims));
    TD_TRY(td_safetensors_writer_write(writer, "mel", speech->mel,
                                       speech->frames * speech->n_mels * sizeof *speech->mel));
    TD_TRY(td_safetensors_writer_commit(writer));
fail:
    td_safetensors_writer_close(writer);
    return status;
}
