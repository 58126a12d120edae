/* See speak.h: every call goes to the family's own. */
#include "families/speak.h"

#include <stdlib.h>

#include "base/error.h"

td_status td_speaker_create(td_memory *memory, td_store *store, const td_model_config *model,
                            td_speaker **out)
{
    const td_speaker_class *class = model->family->speaker;
    *out = NULL;
    TD_REFUSE_IF(!class, TD_ERR_CONFIG, "a model of family %s does not speak", model->family->name);
    TD_CHECK(td_alloc_zeroed(1, class->bytes, (void *)out));
    **out = (td_speaker){.class = class, .memory = memory, .store = store, .model = model};
    return TD_OK;
}

void td_speaker_destroy(td_speaker *speaker)
{
    if (!speaker) return;
    td_speaker_end(speaker);
    speaker->class->close(speaker);
    free(speaker);
}

td_status td_speaker_start(td_speaker *speaker, const td_speaking *speaking)
{
    td_speaker_end(speaker);
    speaker->speaking = speaking;
    const td_status status = speaker->class->start(speaker);
    if (status != TD_OK) td_speaker_end(speaker);
    return status;
}

td_status td_speaker_say(td_speaker *speaker, size_t number, td_spoken *out)
{
    TD_CHECK(td_speaker_check_cancel(speaker));
    return speaker->class->say(speaker, number, out);
}

void td_speaker_end(td_speaker *speaker)
{
    if (!speaker->speaking) return;
    speaker->class->end(speaker);
    speaker->speaking = NULL;
}

td_status td_speaker_check_cancel(const td_speaker *speaker)
{
    const atomic_bool *cancel = speaker->speaking->cancel;
    return cancel && atomic_load(cancel) ? TD_FAIL(TD_ERR_CANCELLED, "speaking was cancelled") : TD_OK;
}
