/* The folder of a run: who works in it, and what its files are called. One trainer at a time holds its lock,
 * which ends with the process whatever way that ends. Checkpoints are found, ordered and thinned out here;
 * what is in them is checkpoint.h's. Covered by tests/train/test_train_run_dir.c.
 */
#ifndef TD_TRAIN_RUN_DIR_H
#define TD_TRAIN_RUN_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file.h"

typedef struct td_run_dir td_run_dir;

/* Creates the folder where it is missing, takes its lock and removes what a killed writer left over.
 * TD_ERR_CONFIG if another process holds the lock. *out: owned, td_run_dir_close(). */
td_status td_run_dir_open(const char *dir, td_run_dir **out);
/* For a rank that writes nothing: no lock, and the folder must be there. */
td_status td_run_dir_look(const char *dir, td_run_dir **out);
void td_run_dir_close(td_run_dir *run);

/* Whether somebody wishes something of the run: a file of that name lies in the folder. It is taken away, so that a
 * wish is granted once. docs/formats.md tells which there are. */
bool td_run_dir_take_wish(const td_run_dir *run, const char *wish);

const char *td_run_dir_name(const td_run_dir *run); /* borrowed */

/* The path of a file in it. */
td_status td_run_dir_path(const td_run_dir *run, const char *name, char out[TD_FILE_PATH_BYTES]);
td_status td_run_dir_checkpoint(const td_run_dir *run, uint64_t step, char out[TD_FILE_PATH_BYTES]);

/* Steps of the checkpoints there are, the one that `latest` names first, then falling. *out: owned, free().
 */
td_status td_run_dir_list(const td_run_dir *run, uint64_t **out, size_t *count);

/* TD_ERR_IO if the disk has no room for `count` files of `bytes` bytes; the checkpoints that lie there count
 * as room, for they go when new ones come. */
td_status td_run_dir_forecast(const td_run_dir *run, uint64_t bytes, uint64_t count);

/* The checkpoint of `step` is whole: `latest` names it from now on, and all but the `keep` newest go, those
 * past `step` (of a run that went further before it was set back) among the first. */
td_status td_run_dir_finish(const td_run_dir *run, uint64_t step, size_t keep);

#endif
