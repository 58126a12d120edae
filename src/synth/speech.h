/* A script spoken: its pieces go in batches of equal shape through a speaker and a vocoder, and are joined in
 * order. Covered by tests/synth/test_voice.c.
 */
#ifndef TD_SYNTH_SPEECH_H
#define TD_SYNTH_SPEECH_H

#include "audio/vocoder.h"
#include "families/speak.h"
#include "synth/script.h"
#include "tandem/voice.h"

/* All is borrowed for the call. */
typedef struct td_speech_request {
    td_memory *memory;
    const td_model_config *model;
    td_speaker *speaker;
    td_vocoder *vocoder;
    td_script *script; /* pieces of which the voice cannot make as many frames are split */
    uint32_t speaker_number;
    td_span reference; /* [reference_frames, n_mels] on the device; or none */
    uint32_t reference_frames;
    double speed, pitch_shift, energy;
    uint64_t seed;
    bool keeps_mel;
    const atomic_bool *cancel;
    td_voice_sink sink; /* gets samples in place of the result; or NULL */
    void *context;
    void (*pause)(void *context); /* called between pieces, or NULL */
    void *pause_context;
} td_speech_request;

/* What a voice that makes samples itself did against babble. */
typedef struct td_guard_counts {
    size_t n_redrawn; /* loops that were drawn again */
    size_t n_trimmed; /* pieces that went on behind their text, and were cut there */
    size_t n_cut;     /* pieces that did not end by themselves */
} td_guard_counts;

typedef struct td_speech {
    float *samples;
    size_t count;
    float *mel; /* [frames, n_mels]: the pieces one behind the other, if it is kept */
    size_t frames, n_mels;
    size_t n_pieces;
    td_guard_counts guard;
} td_speech;

/* *out: owned, td_speech_free(). */
td_status td_speech_make(const td_speech_request *request, td_speech *out);
void td_speech_free(td_speech *speech);

/* The spectrogram as tensor "mel", and the front end's settings as metadata "mel". */
td_status td_speech_save_mel(const td_speech *speech, const td_mel_config *config, const char *path);

#endif
