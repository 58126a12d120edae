/* A voice: a checkpoint made ready to speak. Encodes the pieces of a script in batches, gives each token its
 * frames, decodes, and has the vocoder make sound of the spectrograms. The same script, settings and seed
 * give the same samples on one device. Covered by tests/synth/test_voice.c.
 */
#ifndef TD_SYNTH_VOICE_H
#define TD_SYNTH_VOICE_H

#include "synth/copy.h"
#include "synth/script.h"

typedef struct td_voice td_voice;

/* Opens the checkpoint and its front end on the memory's device. `memory` is borrowed until close. *out:
 * owned, td_voice_close(). */
td_status td_voice_open(td_memory *memory, const char *checkpoint, td_voice **out);
void td_voice_close(td_voice *voice);

const td_checkpoint_info *td_voice_info(const td_voice *voice); /* borrowed until close */

/* The number of a speaker from a name of the training data or a number; NULL is the first. TD_ERR_CONFIG
 * names those there are, or says that the voice has one alone. */
td_status td_voice_find_speaker(const td_voice *voice, const char *name, uint32_t *out);

/* Reads a reference recording. TD_ERR_FORMAT if it is too short or silent. NULL for a voice that needs one
 * is TD_ERR_CONFIG, as is one for a voice that has no use for it. Kept until close or the next call. */
td_status td_voice_set_reference(td_voice *voice, const char *path);

typedef struct td_speak_options {
    uint32_t speaker;
    double speed;       /* 1 */
    double pitch_shift; /* semitones; 0 */
    double energy;      /* factor; 1 */
    uint64_t seed;
} td_speak_options;

/* TD_ERR_CONFIG for a wish that this voice cannot fulfil. */
td_status td_voice_check_options(const td_voice *voice, const td_speak_options *options);

typedef struct td_speech {
    float *samples;
    size_t count;
    uint32_t rate;
    float *mel; /* [frames, n_mels]: the pieces one behind the other */
    size_t frames, n_mels;
} td_speech;

/* *out: owned, td_speech_free(). */
td_status td_voice_speak(td_voice *voice, const td_script *script, const td_speak_options *options,
                         td_speech *out);
void td_speech_free(td_speech *speech);

/* The spectrogram as tensor "mel", and the front end's settings as metadata "mel". */
td_status td_speech_save_mel(const td_speech *speech, const td_mel_config *config, const char *path);

#endif
