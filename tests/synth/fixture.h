/* What the tests of src/synth share: a device, a temporary folder, and checkpoints of small models with drawn
 * weights. */
#ifndef TD_TESTS_SYNTH_FIXTURE_H
#define TD_TESTS_SYNTH_FIXTURE_H

#include "families/acoustic.h"
#include "families/checkpoint.h"
#include "support/rig.h"
#include "support/temp_dir.h"

/* Writes the checkpoint of a pico model for the letters a to z. Durations come out near to four frames. */
void write_voice(const rig *r, const char *path, const td_checkpoint_info *info);

/* The same values as averages, beside other parameters. */
void write_averaged_voice(const rig *r, const char *path, const td_checkpoint_info *info);

/* Usual values of an info for write_voice. */
td_checkpoint_info make_info(const char *family);

/* Changes a key of its model. */
void set_key(td_checkpoint_info *info, const char *key, const char *value);

#endif
