/* See bench.h. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/half_geometry.h"

bool open_bench(bench *b, rig_kind kind, const char *name)
{
    return open_bench_biased(b, kind, name, 0, 0);
}

bool open_bench_biased(bench *b, rig_kind kind, const char *name, size_t code, float bias)
{
    return open_bench_changed(b, kind, name, code, bias, NULL);
}

bool open_bench_changed(bench *b, rig_kind kind, const char *name, size_t code, float bias,
                        void (*change)(const char *name, float *values, size_t n))
{
    if (!rig_open(&b->r, kind, 0)) return false;
    golden_open_changed(&b->g, name, code, bias, change);
    check(td_checkpoint_open(b->g.voice, &b->voice));
    check(td_xtts_engine_open(b->r.memory, b->r.memory, b->voice, TD_FORMAT_FP32, &b->engine));
    return true;
}

void close_bench(bench *b)
{
    td_xtts_engine_close(b->engine);
    td_checkpoint_close(b->voice);
    golden_close(&b->g);
    rig_close(&b->r);
}

td_xtts_timbre golden_timbre(const golden *g)
{
    const size_t n = golden_count(g, "cond_latents"), d = golden_count(g, "speaker_embedding");
    td_xtts_timbre t = {.latents = calloc(n, 4), .embedding = calloc(d, 4)};
    memcpy(t.latents, golden_values(g, "cond_latents", n), 4 * n);
    memcpy(t.embedding, golden_values(g, "speaker_embedding", d), 4 * d);
    return t;
}
