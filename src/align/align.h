/* Texts laid along recordings: a checkpoint of a family that tells symbols (`classify` of families/family.h) hears which
 * symbol begins when, and the best way of a text's letters along that is its timing. What is not a letter (spaces, marks,
 * stress) counts as nothing heard: it has no sound of its own. One thread at a time uses an aligner. Covered by
 * tests/align/test_align.c.
 */
#ifndef TD_ALIGN_ALIGN_H
#define TD_ALIGN_ALIGN_H

#include "device/dispatch.h"
#include "text/lang.h"

typedef struct td_aligner td_aligner;

/* Where the aligner is if nobody says: in the cache, as scripts/make_aligner.sh puts it. `cache_dir`: of all caches. */
td_status td_aligner_usual_path(const char *cache_dir, char *out, size_t capacity);

/* Opens a checkpoint on a device. TD_ERR_NOT_FOUND tells the command that makes one; TD_ERR_CONFIG: it is a voice or a
 * vocoder. `memory` is borrowed until close. *out: owned. */
td_status td_aligner_open(td_memory *memory, const char *path, td_aligner **out);
void td_aligner_close(td_aligner *aligner);

uint32_t td_aligner_rate(const td_aligner *aligner);         /* of the samples it hears */
uint32_t td_aligner_step_samples(const td_aligner *aligner); /* a step is so many of them */
size_t td_aligner_classes(const td_aligner *aligner);        /* letters it knows, and 0: none */
td_lang td_aligner_lang(const td_aligner *aligner);          /* most of what it was trained with */
const char *td_aligner_path(const td_aligner *aligner);

/* What its checkpoint tells; borrowed until close. */
const struct td_checkpoint_info *td_aligner_info(const td_aligner *aligner);

/* ---------------------------------------------------------------- texts */

/* The letters of a text, or of its phonemes, as classes. Starts as {0}; td_letters_free(). */
typedef struct td_letters {
    uint16_t *classes; /* owned */
    size_t count, capacity;
    size_t n_unknown; /* letters that the aligner does not know; they are left out */
} td_letters;

/* Appends those of a normalised text. */
td_status td_aligner_read(td_aligner *aligner, td_lang lang, const char *text, size_t bytes, td_letters *out);
void td_letters_free(td_letters *letters);

/* ---------------------------------------------------------------- sound */

/* What is heard at each step, [steps, classes]: ln(how likely the class is / how likely the likeliest is), so 0 for the
 * likeliest and below for others. */
typedef struct td_heard {
    float *values; /* owned: free() */
    size_t steps;
} td_heard;

/* Steps of so many samples. */
size_t td_aligner_steps(const td_aligner *aligner, uint64_t samples);

/* Of a whole recording at td_aligner_rate(). On failure *out is empty. */
td_status td_aligner_listen(td_aligner *aligner, const float *samples, size_t count, td_heard *out);

/* The same piece by piece, for recordings of any length: `read` fills `to` with `count` samples from `first` on, zeros
 * where the recording has none (`first` may lie before it); `take` gets the steps in order. Pieces begin with step
 * `first_step`, which is a multiple of TD_ALIGN_PIECE, and give the same as the whole does. */
enum { TD_ALIGN_PIECE = 512 };
typedef struct td_listening {
    td_status (*read)(void *context, int64_t first, size_t count, float *to);
    td_status (*take)(void *context, const float *values, size_t steps);
    void *context;
    size_t first_step, steps;
} td_listening;
td_status td_aligner_listen_long(td_aligner *aligner, const td_listening *listening);

/* ---------------------------------------------------------------- timing */

/* Starts as {0}; td_timing_free(). */
typedef struct td_timing {
    uint32_t *first, *last; /* owned: steps of each letter */
    size_t count;
    double
        score; /* mean of what the way has at each step from the first letter to the last: 0 is the best there can be;
                   * a text that is not what is said has -1 and less. -INFINITY: too short for the text, or no letters */
} td_timing;

/* The best way of the letters along `steps` steps of heard values [steps, classes], with whatever is heard before and
 * behind. */
td_status td_align_letters(const float *heard, size_t steps, size_t classes, const uint16_t *letters,
                           size_t count, td_timing *out);
void td_timing_free(td_timing *timing);

/* What that way has in all, with what is heard before and behind: the greater it is beside that of another text, the
 * likelier this text. -INFINITY: too short for the text, or no letters. */
td_status td_align_total(const float *heard, size_t steps, size_t classes, const uint16_t *letters,
                         size_t count, double *out);

/* All at once: a recording at td_aligner_rate() and its text, not normalised. */
td_status td_aligner_fit(td_aligner *aligner, td_lang lang, const char *text, const float *samples,
                         size_t count, td_timing *out);

#endif
