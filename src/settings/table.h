/* The keys that configure runs: sections devices, pipeline, data, model, training and logging, each with its
 * type, limits, default and help. The program's command line and the public interface
 * (include/tandem/train.h) are made from the same rows. Covered by tests/cli/test_cli.py and
 * tests/settings/test_training.c.
 */
#ifndef TD_SETTINGS_TABLE_H
#define TD_SETTINGS_TABLE_H

#include "base/options.h"

/* What a key is about. A command that has one of a row's topics takes it as a flag. */
enum {
    TD_TOPIC_DEVICE = 1 << 0,     /* some device is opened */
    TD_TOPIC_ROLES = 1 << 1,      /* a device for each role */
    TD_TOPIC_PREPARE = 1 << 2,    /* a dataset is prepared */
    TD_TOPIC_INSPECT = 1 << 3,    /* a dataset is looked at */
    TD_TOPIC_LOAD = 1 << 4,       /* batches are loaded */
    TD_TOPIC_LOAD_ALONE = 1 << 5, /* loaded for no model */
    TD_TOPIC_WORKERS = 1 << 6,    /* threads that prepare data, as many as asked for */
    TD_TOPIC_PIPELINE = 1 << 7,   /* the whole way of a batch */
    TD_TOPIC_MODEL = 1 << 8,      /* a model is planned */
    TD_TOPIC_STEP = 1 << 9,       /* steps without a dataset */
    TD_TOPIC_TRAIN = 1 << 10,
    TD_TOPIC_SPEAK = 1 << 11,
    TD_TOPIC_SERVE = 1 << 12,
    TD_TOPIC_RANKS = 1 << 13, /* steps of several ranks */
    TD_TOPIC_CUT = 1 << 14,   /* recordings are cut */
};

/* Topics of whoever puts a table together; n from 0 to 47. */
#define TD_TOPIC_OWN(n) (UINT64_C(1) << (16 + (n)))

/* Appends the rows. The general ones are those that every command shows at the end of its help. */
td_status td_settings_add_keys(td_option_rows *rows);
td_status td_settings_add_general_keys(td_option_rows *rows);

#endif
