/* SPDX-License-Identifier: MIT
 *
 * Voices: a trained file is opened, texts go in, samples come out, all at once or while they are made.
 * docs/examples/speak.c is a whole program. Covered by tests/synth/test_voice.c and test_voice_threads.c.
 *
 * Structs start with their size, which the caller sets to sizeof: a library of another version then knows
 * which fields are there. Fields that are left zero have the usual values.
 *
 * Threads: a voice has a device and memory of its own and is used by one thread at a time, any thread; two
 * voices, or two handles of one (td_voice_share()), may speak at once in two threads. td_voice_cancel() alone may come from anywhere.
 */
#ifndef TANDEM_VOICE_H
#define TANDEM_VOICE_H

#include "tandem/device.h"
#include "tandem/log.h"

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_voice td_voice;

/* Texts are borrowed for the call. */
typedef struct td_voice_options {
    uint32_t size;         /* sizeof(td_voice_options) */
    const char *path;      /* the voice's file, as training writes it */
    const char *device;    /* a selector (tandem/device.h); NULL: the best there is */
    const char *cache_dir; /* of built kernels; NULL: $TANDEM_CACHE_DIR, or $XDG_CACHE_HOME/tandem */
    td_log_sink log;       /* gets what this voice has to say up to log_level; NULL: nobody does */
    void *log_context;     /* borrowed until close */
    td_log_level log_level;
    const char *lexicon; /* a file of lines WORD<TAB>RESPELLING or WORD<TAB>/PHONEMES/; NULL: none */
    const char *vocoder; /* "griffin-lim", or the file of a vocoder, or of a voice that holds one; NULL: the
                          * voice's own, or Griffin-Lim where it has none */
    const char *data_device; /* of the vocoder, for voices that have one of their own; NULL: the same */
    const char
        *weights;     /* of a GPT that decodes (family xtts): "fp32", "bf16", "int8"; NULL: as in the file */
    const char *lora; /* a file of adapters that the voice takes (family xtts); NULL: none */
} td_voice_options;

/* Opens the file and a device, and loads the weights. Environment variables TANDEM_* that choose among
 * devices are read. *out: owned, td_voice_close(). *error (may be NULL): why not, if it fails. */
td_status td_voice_open(const td_voice_options *options, td_voice **out, td_error *error);

/* A second handle on an open voice, for another thread: both may speak at once. It has the same device, weights,
 * lexicon and log, and takes memory only for what a call needs. The first must be in no call meanwhile, and is closed
 * after the second. *out: owned, td_voice_close(). *error (may be NULL): why not, if it fails. */
td_status td_voice_share(td_voice *voice, td_voice **out, td_error *error);

/* Frees everything. NULL is fine. */
void td_voice_close(td_voice *voice);

/* Texts and the device are borrowed until close. */
typedef struct td_voice_info {
    uint32_t size;                /* sizeof(td_voice_info) */
    const char *family;           /* of models: "parallel", "autoregressive" */
    const char *languages;        /* codes, one a line */
    const char *speakers;         /* names, one a line; "": it has no table of them */
    const td_device_info *device; /* that it speaks on */
    uint64_t parameters;
    uint32_t rate; /* of samples, in Hz */
    uint32_t n_speakers;
    bool needs_reference; /* it speaks like a recording that each call names */
    bool has_speed;       /* speed, pitch_shift, energy can be asked for */
    bool has_pitch;
    bool has_energy;
    bool
        shares_steps; /* texts that handles of it (td_voice_share) speak at the same time are decoded together */
} td_voice_info;

/* Fails only for a size that is none. */
td_status td_voice_get_info(const td_voice *voice, td_voice_info *out);

/* Texts are borrowed for the call. */
typedef struct td_speak_options {
    uint32_t size;       /* sizeof(td_speak_options) */
    const char *speaker; /* a name or number; NULL: the first */
    const char *
        reference; /* path of a recording to speak like; for a voice that needs one. XTTS: several, one a line */
    const char *language; /* a code such as "en"; NULL: the voice's */
    double speed;         /* 2: twice as fast; 0: 1 */
    double pitch_shift;   /* semitones */
    double energy;        /* factor of loudness; 0: 1 */
    uint64_t seed;        /* the same text, options and seed give the same samples on one device */
    bool strict_text;     /* a character that the voice has not learnt is TD_ERR_FORMAT */
    bool greedy;          /* XTTS: the likeliest code each time */
    bool no_guard;        /* XTTS: loops and endless speech are left as they are */
    uint32_t top_k;       /* XTTS, as the others: 0: the voice's own */
    double temperature, top_p, repetition_penalty;
    void (*pause)(
        void *context); /* called between pieces of the text, in the calling thread, and may wait there:
                                   * for programs that share a device among voices. NULL: nobody is */
    void *pause_context;
    uint32_t
        at_once; /* XTTS: pieces of the text that are spoken at once, with the same codes as one by one; with
                          * td_voice_stream() they leave whole. At most 16; 0: one */
} td_speak_options;

/* Speaks a text (UTF-8), or SSML if it begins with <speak>: <break time="300ms"/>, <prosody rate="80%">; malformed
 * SSML is TD_ERR_FORMAT with line and column. options may be NULL. Characters that the voice has not learnt are written with those
 * it has, or left out with a warning that names them; a text of which nothing is left is TD_ERR_CONFIG.
 * *samples: owned, td_voice_free_samples(). A text in which a sample would be beyond full scale is turned down
 * as a whole. */
td_status td_voice_speak(td_voice *voice, const char *text, const td_speak_options *options, float **samples,
                         size_t *count);
void td_voice_free_samples(float *samples);

/* Gets the next samples, borrowed until it returns; false ends the call with TD_ERR_CANCELLED. It may not
 * call into its voice, but for td_voice_cancel(). */
typedef bool (*td_voice_sink)(void *context, const float *samples, size_t count);

/* Speaks a text, and hands samples over while the rest is made: the first piece of the text by itself, then
 * more at a time. They are those of td_voice_speak() unless one is beyond full scale: here all from the call
 * of `sink` with that sample on are turned down until it fits, and what has left stays as it was. */
td_status td_voice_stream(td_voice *voice, const char *text, const td_speak_options *options,
                          td_voice_sink sink, void *context);

/* Makes the call that this voice is in end soon, with TD_ERR_CANCELLED; without effect where it is in none.
 * From any thread. */
void td_voice_cancel(td_voice *voice);

/* Of the voice's last call: status TD_OK after a success. Borrowed until the next. */
const td_error *td_voice_error(const td_voice *voice);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
