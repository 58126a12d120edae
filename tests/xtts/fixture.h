/* Shrunk XTTS models as tests/oracle/make_xtts_golden.py makes them, and the numbers that the public package gave. */
#ifndef TD_TESTS_XTTS_FIXTURE_H
#define TD_TESTS_XTTS_FIXTURE_H

#include "base/safetensors.h"
#include "families/checkpoint.h"
#include "families/xtts/xtts_config.h"
#include "support/rig.h"

enum { GOLDEN_CASES = 3 };
extern const char *const golden_cases[GOLDEN_CASES];

typedef struct golden {
    td_safetensors *file; /* owned */
    td_xtts c;
    char folder[256]; /* with the voice and the recordings; made by golden_open, removed by golden_close */
    char voice[300];
    char references[2][300];
    const char *paths[2]; /* the same, as lists are handed over */
    size_t n_references;
    size_t biased_code;
    float bias;
    void (*change)(const char *name, float *values,
                   size_t n); /* of weights, before they are written; or NULL */
} golden;

void golden_open(golden *out, const char *name);

/* Only the numbers, without a voice and recordings; and what they are of. */
void golden_open_numbers(golden *out, const char *name, td_model_config *config);

/* first_values() of the script, of a tensor whose name, dims and bytes are told; and the i-th of the random numbers that
 * they are made of. */
void golden_fill(const char *name, const td_checkpoint_tensor_data *t, float *values);
uint64_t golden_hash(const char *name, size_t i);

/* The same, with something added to the logit of a code. */
void golden_open_biased(golden *out, const char *name, size_t code, float bias);

/* The same, with weights changed as well. */
void golden_open_changed(golden *out, const char *name, size_t code, float bias,
                         void (*change)(const char *name, float *values, size_t n));
void golden_close(golden *g);

/* Floats or words of a tensor, of which there must be `count`; 0: any number. Borrowed. */
const void *golden_values(const golden *g, const char *name, size_t count);
size_t golden_count(const golden *g, const char *name);
const char *golden_text(const golden *g, const char *key);
double golden_number(const golden *g, const char *key);

/* Fails, with the name, unless the relative L2 error is within `tolerance`. */
void golden_compare(const golden *g, const char *name, const float *got, size_t count, double tolerance);

/* The same of a signal, of which the file has every so many samples. */
void golden_compare_strided(const golden *g, const char *name, const float *got, size_t count,
                            double tolerance);

/* recording() of the script, as a file. */
void golden_record(const char *path, long rate, long channels, long samples, long seed);

#endif
