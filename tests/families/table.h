/* What must hold of every family's table. */
#ifndef TD_TESTS_FAMILIES_TABLE_H
#define TD_TESTS_FAMILIES_TABLE_H

#include "families/family.h"
#include "support/expect.h"

/* Found by its name; presets that pass their own check; keys that read back; graphs for each learner. */
void check_table(const td_family *family);

#endif
