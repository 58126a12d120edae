/* See talk.h. */
#include "synth/talk.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"

/* Pieces for each of those that are said side by side, after which samples leave. */
#define ROUNDS 4u

/* Some pieces of a script, said together. */
typedef struct saying {
    const td_talk_style *style;
    td_piece_tokens *pieces; /* [capacity], as the others */
    td_talked *talked;
    size_t capacity;
} saying;

static void forget(saying *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free((uint32_t *)s->pieces[i].ids);
        free(s->talked[i].samples);
        s->pieces[i] = (td_piece_tokens){0};
        s->talked[i] = (td_talked){0};
    }
}

static void close_saying(saying *s)
{
    if (s->pieces && s->talked) forget(s, s->capacity);
    free(s->pieces);
    free(s->talked);
}

static td_status take_pieces(saying *s, const td_script_piece *pieces, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const td_tokens *tokens = &pieces[i].tokens;
        uint32_t *ids = NULL;
        TD_CHECK(TD_NEW_ARRAY(&ids, tokens->count));
        for (size_t j = 0; j < tokens->count; j++)
            ids[j] = (uint32_t)tokens->ids[j];
        s->pieces[i] = (td_piece_tokens){.ids = ids, .count = tokens->count};
    }
    return TD_OK;
}

/* Samples of a piece that was said side by side with others go to the sink, or all to the speech. */
static td_status hand_out(const saying *s, const td_talked *talked, td_speech *out, size_t *capacity)
{
    const td_talk_style *style = s->style;
    out->guard.n_redrawn += talked->n_redrawn;
    out->guard.n_trimmed += talked->is_trimmed;
    out->guard.n_cut += talked->is_cut;
    if (!style->sink) {
        TD_CHECK(td_alloc_grow(&out->samples, capacity, out->count + talked->count, sizeof *out->samples));
        memcpy(out->samples + out->count, talked->samples, talked->count * sizeof *talked->samples);
        out->count += talked->count;
    } else if (style->at_once > 1) {
        TD_REFUSE_IF(!style->sink(style->context, talked->samples, talked->count), TD_ERR_CANCELLED,
                     "speaking was ended by the receiver of the samples");
    }
    if (style->pause) style->pause(style->pause_context);
    return TD_OK;
}

td_status td_talk_make(td_talker *talker, const td_talk_style *style, const td_script *script, td_speech *out)
{
    td_talk_style used = *style;
    if (script->count < 2) used.at_once = 1;
    saying s = {.style = &used, .capacity = used.at_once > 1 ? (size_t)ROUNDS * used.at_once : 1};
    size_t capacity = 0;
    td_status status = TD_OK;
    *out = (td_speech){.n_pieces = script->count};
    TD_TRY(TD_NEW_ARRAY(&s.pieces, s.capacity));
    TD_TRY(TD_NEW_ARRAY(&s.talked, s.capacity));
    TD_TRY(talker->class->start(talker, &used));
    for (size_t i = 0; i < script->count; i += s.capacity) {
        const size_t n = script->count - i < s.capacity ? script->count - i : s.capacity;
        TD_TRY(take_pieces(&s, script->pieces + i, n));
        TD_TRY(talker->class->say(talker, s.pieces, n, s.talked));
        for (size_t j = 0; j < n; j++)
            TD_TRY(hand_out(&s, &s.talked[j], out, &capacity));
        forget(&s, n);
    }
    if (out->guard.n_cut > 0)
        td_log_warn("%zu of %zu pieces of the text were cut off: the voice did not stop by itself",
                    out->guard.n_cut, out->n_pieces);
fail:
    close_saying(&s);
    if (status != TD_OK) td_speech_free(out);
    return status;
}
