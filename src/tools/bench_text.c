/* Measuring text preprocessing (bench_text.h). */
#include "tools/bench_text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"
#include "data/dataset.h"

enum { MAX_LINE_BYTES = 1024, SEED = 20, MAX_ROUNDS = 1000 };

/* ---------------------------------------------------------------- sentences */

static const char *const WHO[] = {
    "the governor",    "a young clerk",     "the committee",    "her eldest son",     "the printer",
    "the night watch", "an old friend",     "Mr. Harwood",      "Dr. Ellis",          "Mrs. Prentice",
    "the whole town",  "the inspector",     "the ship's crew",  "his lawyer",         "the two brothers",
    "Prof. Lindqvist", "the head gardener", "St. Mary's choir", "the board of works", "a stranger",
};
static const char *const DID[] = {
    "examined",         "had not expected", "carried away",   "spoke at length about",
    "returned without", "could not find",   "paid for",       "described",
    "was shown",        "asked to see",     "had forgotten",  "insisted upon",
    "drew up",          "quietly replaced", "complained of",  "gave orders for",
    "made light of",    "remembered",       "took charge of", "agreed to",
};
static const char *const WHAT[] = {
    "the broken lantern",     "a report on the harbour",  "the keys of the upper floor",
    "seven loose pages",      "the new arrangement",      "an unusual silence",
    "the price of coal",      "her brother's letters",    "the condition of the road",
    "a box of glass plates",  "the evidence before them", "a second opinion",
    "the map of the valley",  "his share of the harvest", "the bridge & its toll house",
    "two heavy trunks",       "the clock in the hall",    "a list of names",
    "the terms of the lease", "some of the furniture",
};
static const char *const THEN[] = {
    "which nobody had mentioned before", "although the matter was far from settled",
    "because the weather had turned",    "and said so to anyone who would listen",
    "while the others waited outside",   "as if nothing had happened",
    "so that the work could go on",      "but the door remained shut",
    "for reasons that were never given", "until the light failed",
    "and the crowd slowly went home",    "whatever the newspapers might say",
};

#define PICK(list, word) (list)[(word) % (sizeof(list) / sizeof(list)[0])]

typedef struct line {
    char *out;
    size_t capacity, used;
} line;

static void put(line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(line *l, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    const int length = vsnprintf(l->out + l->used, l->capacity - l->used, format, values);
    va_end(values);
    if (length > 0) l->used += (size_t)length;
    if (l->used >= l->capacity) l->used = l->capacity - 1;
}

/* A third of the lines have something to spell out. */
static void put_figures(line *l, const uint32_t *random)
{
    switch (random[0] % 24) {
    case 0:
        put(l, " in %u", 1700 + random[1] % 320);
        return;
    case 1:
        put(l, " for $%u.%02u", 1 + random[1] % 9000, random[2] % 100);
        return;
    case 2:
        put(l, " at %u:%02u p.m.", 1 + random[1] % 12, random[2] % 60);
        return;
    case 3:
        put(l, " on the %uth of October", 4 + random[1] % 16);
        return;
    case 4:
        put(l, ", about %u%% of the whole", 1 + random[1] % 99);
        return;
    case 5:
        put(l, ", some %u,%03u in all", 1 + random[1] % 90, random[2] % 1000);
        return;
    case 6:
        put(l, " %u.%u km from there", random[1] % 40, random[2] % 10);
        return;
    case 7:
        put(l, " (no. %u)", 1 + random[1] % 500);
        return;
    default:
        return;
    }
}

size_t td_bench_text_line(size_t index, char *out, size_t capacity)
{
    uint32_t random[12];
    line l = {.out = out, .capacity = capacity};
    for (size_t i = 0; i < 3; ++i)
        td_rng_block(SEED, i, index, random + 4 * i);
    put(&l, "BT%06zu|", index);
    const size_t first = l.used;
    put(&l, "%s %s %s", PICK(WHO, random[0]), PICK(DID, random[1]), PICK(WHAT, random[2]));
    put_figures(&l, random + 3);
    put(&l, ", %s", PICK(THEN, random[6]));
    if (random[7] % 4 != 0)
        put(&l, "; %s %s %s", PICK(WHO, random[8]), PICK(DID, random[9]), PICK(WHAT, random[10]));
    put(&l, random[11] % 8 == 0 ? "?\n" : ".\n");
    if (out[first] >= 'a' && out[first] <= 'z') out[first] = (char)(out[first] - 'a' + 'A');
    return l.used;
}

static td_status write_table(const char *path, size_t lines)
{
    td_status status = TD_OK;
    char *text = NULL;
    size_t capacity = 0, used = 0;
    for (size_t i = 0; i < lines; ++i) {
        TD_TRY(td_alloc_grow(&text, &capacity, used + MAX_LINE_BYTES, 1));
        used += td_bench_text_line(i, text + used, MAX_LINE_BYTES);
    }
    TD_TRY(td_file_write_atomic(path, text, used));
fail:
    free(text);
    return status;
}

/* ---------------------------------------------------------------- runs */

typedef struct bench {
    char dir[256], table[300], cache[300];
    td_pool *pool;
    td_bench_text_result *result;
} bench;

static td_status make_folder(bench *b)
{
    const char *base = getenv("TMPDIR");
    const int length = snprintf(b->dir, sizeof b->dir, "%s/tandem-bench-XXXXXX",
                                base != NULL && *base != '\0' ? base : "/tmp");
    if (length >= (int)sizeof b->dir || mkdtemp(b->dir) == NULL) {
        const int error = length >= (int)sizeof b->dir ? ENAMETOOLONG : errno;
        b->dir[0] = '\0';
        return TD_FAIL_NATIVE(TD_ERR_IO, strerrorname_np(error),
                              "no folder for the benchmark in %s: %s; set TMPDIR to one that can be written",
                              base != NULL ? base : "/tmp", strerrordesc_np(error));
    }
    snprintf(b->table, sizeof b->table, "%s/metadata.csv", b->dir);
    snprintf(b->cache, sizeof b->cache, "%s/cache", b->dir);
    return TD_OK;
}

static void remove_folder(const bench *b)
{
    char inner[400];
    if (b->dir[0] == '\0') return;
    snprintf(inner, sizeof inner, "%s/data", b->cache);
    unlink(b->table);
    rmdir(inner);
    rmdir(b->cache);
    rmdir(b->dir);
}

/* Opens the dataset once; *seconds is what that took. The cache is left where `keep` says so. */
static td_status open_once(bench *b, bool keep, bool expect_cached, double *seconds)
{
    td_status status = TD_OK;
    td_dataset *dataset = NULL;
    const td_dataset_settings settings = {
        .dir = b->dir, .language = "en", .cache_dir = b->cache, .val_fraction = 0.05, .without_audio = true};
    const uint64_t start = td_clock_ns();
    TD_TRY(td_dataset_open(&settings, b->pool, &dataset));
    *seconds = (double)(td_clock_ns() - start) * 1e-9;
    TD_FAIL_IF(dataset->origin.from_cache != expect_cached, TD_ERR_IO,
               "the cache in %s did not do what it should; is the disk full?", b->cache);
    b->result->cache_bytes = dataset->block.bytes;
    double characters = 0;
    for (size_t i = 0; i < dataset->view.n_rows; ++i)
        characters += dataset->view.rows[i].n_characters;
    b->result->characters_per_line = characters / (double)dataset->view.n_rows;
    if (!keep) unlink(dataset->origin.cache_path);
fail:
    td_dataset_close(dataset);
    return status;
}

td_status td_bench_text_run(size_t lines, size_t workers, uint32_t rounds, td_bench_text_result *out)
{
    td_status status = TD_OK;
    double cold[MAX_ROUNDS], cached[MAX_ROUNDS];
    bench b = {.result = out};
    if (rounds > MAX_ROUNDS) rounds = MAX_ROUNDS;
    *out = (td_bench_text_result){.lines = lines, .rounds = rounds};
    TD_TRY(td_pool_create(workers, &b.pool));
    out->workers = td_pool_threads(b.pool);
    TD_TRY(make_folder(&b));
    TD_TRY(write_table(b.table, lines));
    TD_TRY(open_once(&b, false, false, &out->first_s));
    for (uint32_t i = 0; i < rounds; ++i)
        TD_TRY(open_once(&b, i + 1 == rounds, false, &cold[i]));
    for (uint32_t i = 0; i < rounds; ++i)
        TD_TRY(open_once(&b, i + 1 < rounds, true, &cached[i]));
    out->cold_s = td_stats_of(cold, rounds);
    out->cached_s = td_stats_of(cached, rounds);
    out->lines_per_s = (double)lines / out->cold_s.median;
fail:
    remove_folder(&b);
    td_pool_destroy(b.pool);
    return status;
}
