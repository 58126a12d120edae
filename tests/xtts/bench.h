/* A shrunk XTTS on a device, ready to speak. */
#ifndef TD_TESTS_XTTS_BENCH_H
#define TD_TESTS_XTTS_BENCH_H

#include "families/xtts/engine.h"
#include "fixture.h"

typedef struct bench {
    rig r;
    golden g;
    td_checkpoint *voice;
    td_xtts_engine *engine;
} bench;

/* False: the device is not there, and may be missing. */
bool open_bench(bench *b, rig_kind kind, const char *name);
bool open_bench_biased(bench *b, rig_kind kind, const char *name, size_t code, float bias);
bool open_bench_changed(bench *b, rig_kind kind, const char *name, size_t code, float bias,
                        void (*change)(const char *name, float *values, size_t n));
void close_bench(bench *b);

/* What the package found out about the speaker. Owned. */
td_xtts_timbre golden_timbre(const golden *g);

#endif
