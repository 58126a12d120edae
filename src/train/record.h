/* What a run leaves behind for people and programs: metrics.jsonl and the TensorBoard events. Covered by
 * tests/train/test_train_run.c.
 */
#ifndef TD_TRAIN_RECORD_H
#define TD_TRAIN_RECORD_H

#include "train/events.h"
#include "train/run_dir.h"
#include "train/train.h"

typedef struct td_record td_record;

/* Lines of metrics.jsonl past `step` are dropped: a run that was set back writes them again. Events go to
 * `events_dir`, which is made where it is missing. *out: owned, td_record_close(). */
td_status td_record_open(const td_run_dir *run, const char *events_dir, uint64_t step, td_record **out);
void td_record_close(td_record *record);

/* One line, and its scalars. */
td_status td_record_event(td_record *record, const td_train_event *event);

td_events *td_record_events(td_record *record); /* borrowed */

#endif
