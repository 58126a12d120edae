/* XTTS-v2 ready to speak: its parts on one device or two, and what each does. The GPT and its conditioning are on the
 * model's device; the vocoder and the speaker encoder on the data device. What passes between them goes through the
 * host, which decides about it anyway. One thread at a time. Covered by tests/xtts/test_xtts_speak.c.
 */
#ifndef TD_FAMILIES_XTTS_ENGINE_H
#define TD_FAMILIES_XTTS_ENGINE_H

#include "audio/stretch.h"
#include "families/checkpoint.h"
#include "families/xtts/xtts_config.h"

typedef struct td_xtts_engine td_xtts_engine;

/* Loads the weights; those of the GPT's blocks in a format (TD_FORMAT_FP32, _BF16, _INT8). Memories (which may be the
 * same) and checkpoint are borrowed until close. *out: owned. */
td_status td_xtts_engine_open(td_memory *model, td_memory *data, const td_checkpoint *checkpoint,
                              uint32_t format, td_xtts_engine **out);

/* A second one on the same weights; the lender rests during the call and is closed last. *out: owned. */
td_status td_xtts_engine_share(const td_xtts_engine *lender, td_xtts_engine **out);
void td_xtts_engine_close(td_xtts_engine *engine);
const td_xtts *td_xtts_engine_config(const td_xtts_engine *engine); /* borrowed until close */

/* ---------------------------------------------------------------- who speaks */

/* What the model knows of a speaker. Owned: td_xtts_timbre_free(). */
typedef struct td_xtts_timbre {
    float *latents;   /* [perceiver_latents, width] */
    float *embedding; /* [d_vector_dim] */
    float *mel;       /* [frames, n_mels]: the first piece of the references, as it was heard; or NULL */
    uint32_t frames;
} td_xtts_timbre;

/* From recordings: the speaker encoder's vectors are averaged, and the GPT hears them one behind the other in pieces
 * of model.gpt_cond_chunk_len, whose latents are averaged. */
td_status td_xtts_clone(td_xtts_engine *engine, const char *const *paths, size_t n_paths,
                        td_xtts_timbre *out);
void td_xtts_timbre_free(td_xtts_timbre *timbre);

/* ---------------------------------------------------------------- what is said */

/* Texts that can be spoken at once, each in a slot of its own, 0 to TD_XTTS_MOST_TEXTS - 1. What is said of a text does
 * not depend on the others: its logits are the same to the bit. */
#define TD_XTTS_MOST_TEXTS 16u

/* What the GPT makes of all so far: logits of the next code, and the latent that the vocoder speaks for it. Borrowed
 * until the next call. */
typedef struct td_xtts_thought {
    const float *logits; /* [gpt_num_audio_tokens] */
    const float *latent; /* [width] */
} td_xtts_thought;

/* So many slots will be used: caches are made for all of them at once, instead of one after the other. */
void td_xtts_expect(td_xtts_engine *engine, uint32_t slots);

/* Begins with a text in a slot, whatever was in it: token ids without start and stop, fewer than
 * model.gpt_max_text_tokens. */
td_status td_xtts_begin(td_xtts_engine *engine, uint32_t slot, const td_xtts_timbre *timbre,
                        const uint32_t *tokens, size_t n_tokens, td_xtts_thought *out);

/* Goes on after a code was chosen for each of n texts in different slots: out[n]. */
typedef struct td_xtts_chosen {
    uint32_t slot, code;
} td_xtts_chosen;
td_status td_xtts_next(td_xtts_engine *engine, const td_xtts_chosen *chosen, uint32_t n,
                       td_xtts_thought *out);

/* Forgets all but the first n codes of a slot; what was thought behind them is thought again by td_xtts_next(). */
td_status td_xtts_rewind(td_xtts_engine *engine, uint32_t slot, uint32_t n);

/* Codes that may be chosen at most. */
uint32_t td_xtts_most_codes(const td_xtts *c);

/* ---------------------------------------------------------------- how it sounds */

/* Latents [n, width] that are to sound `speed` times as fast, and are all there will be. */
typedef struct td_xtts_sounding {
    const float *latents, *embedding; /* borrowed */
    size_t n;
    double speed;
} td_xtts_sounding;

/* How rows of latents become the vocoder's frames. */
void td_xtts_stretch(const td_xtts *c, double speed, double factors[TD_STRETCH_STAGES]);

/* Samples that they make. */
size_t td_xtts_samples(const td_xtts *c, size_t n, double speed);

/* Whether the vocoder has a device of its own, and works while the GPT thinks. */
bool td_xtts_overlaps(const td_xtts_engine *engine);

/* Begins to make samples from `first` on, and does not wait for them: *count, as many as are wanted, becomes as many as
 * one run makes. Only the latents that these depend on are looked at, and are not needed any more. */
td_status td_xtts_sound_begin(td_xtts_engine *engine, const td_xtts_sounding *s, size_t first, size_t *count);

/* Whether td_xtts_sound_end() would return at once. */
td_status td_xtts_sound_poll(const td_xtts_engine *engine, bool *is_made);

/* Waits for what was begun. *times: when the device worked at it, or zeros where that is not known. */
td_status td_xtts_sound_end(td_xtts_engine *engine, float *out, td_times *times);

/* Forgets what was begun, once the device is done with it. */
void td_xtts_sound_drop(td_xtts_engine *engine);

/* Begins and ends: samples first .. first + count - 1. */
td_status td_xtts_sound(td_xtts_engine *engine, const td_xtts_sounding *s, size_t first, size_t count,
                        float *out);

#endif
