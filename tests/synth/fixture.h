/* What the tests of src/synth share: a device, and checkpoints of small models with drawn weights. */
#ifndef TD_TESTS_SYNTH_FIXTURE_H
#define TD_TESTS_SYNTH_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/checkpoint.h"

#define check(call) check_at((call), #call, __FILE__, __LINE__)
void check_at(td_status status, const char *call, const char *file, int line);

/* Expects a failure of this kind whose message has these words. */
#define refuse(call, code, words) refuse_at((call), (code), (words), #call, __FILE__, __LINE__)
void refuse_at(td_status status, td_status code, const char *words, const char *call, const char *file,
               int line);

typedef struct rig {
    td_registry *registry;
    td_device *device;
    td_memory *memory;
    char dir[64]; /* a folder of its own, removed at the end */
} rig;

/* The best OpenCL device. */
void open_rig(rig *r);
void close_rig(rig *r);

/* "DIR/name", valid until the next call but three. */
const char *path_in(const rig *r, const char *name);

/* Writes the checkpoint of a pico model for the letters a to z. Durations come out near to four frames. */
void write_voice(const rig *r, const char *path, const td_checkpoint_info *info);

/* Usual values of an info for write_voice. */
td_checkpoint_info make_info(td_strategy strategy);

#endif
