/* See talk.h. */
#include "synth/talk.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"

static td_status say_piece(td_talker *talker, const td_tokens *tokens, td_talked *out)
{
    uint32_t *ids = NULL;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&ids, tokens->count));
    for (size_t i = 0; i < tokens->count; i++)
        ids[i] = (uint32_t)tokens->ids[i];
    TD_TRY(talker->class->say(talker, ids, tokens->count, out));
fail:
    free(ids);
    return status;
}

td_status td_talk_make(td_talker *talker, const td_talk_style *style, const td_script *script, td_speech *out)
{
    size_t capacity = 0;
    td_talked talked = {0};
    td_status status = TD_OK;
    *out = (td_speech){.n_pieces = script->count};
    TD_TRY(talker->class->start(talker, style));
    for (size_t i = 0; i < script->count; i++) {
        TD_TRY(say_piece(talker, &script->pieces[i].tokens, &talked));
        out->guard.n_redrawn += talked.n_redrawn;
        out->guard.n_trimmed += talked.is_trimmed;
        out->guard.n_cut += talked.is_cut;
        if (!style->sink) {
            TD_TRY(td_alloc_grow(&out->samples, &capacity, out->count + talked.count, sizeof *out->samples));
            memcpy(out->samples + out->count, talked.samples, talked.count * sizeof *talked.samples);
            out->count += talked.count;
        }
        free(talked.samples);
        talked = (td_talked){0};
        if (style->pause) style->pause(style->pause_context);
    }
    if (out->guard.n_cut > 0)
        td_log_warn("%zu of %zu pieces of the text were cut off: the voice did not stop by itself",
                    out->guard.n_cut, out->n_pieces);
fail:
    free(talked.samples);
    if (status != TD_OK) td_speech_free(out);
    return status;
}
