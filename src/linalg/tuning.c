/* Tuning results and defaults; see tuning.h. The table of a device is attached to it and never changed: a new
 * one takes its place and keeps the old until the device closes, so that readers need no lock. */
#include "linalg/tuning.h"

#include <math.h>
#include <stdlib.h>

#include "device/backend.h"

#define CACHE_KIND "tuning"
#define TUNING_VERSION "gemm-1" /* change it when variants change their meaning, or what is stored does */
#define NEAR 2 /* steps of a factor two, over m, n and k together, that a measurement reaches */

typedef struct tuning_table {
    td_attachment base;
    struct tuning_table *previous; /* owned */
    size_t count;
    td_tuning_entry entries[];
} tuning_table;

/* ---------------------------------------------------------------- classes of shapes */

static uint8_t log2_of(uint32_t x)
{
    return (uint8_t)lround(log2((double)x));
}

td_tuning_class td_tuning_class_of(const td_gemm_problem *problem)
{
    const td_gemm_desc *d = &problem->desc;
    return (td_tuning_class){
        .layout = (uint8_t)d->layout,
        .batched = d->batch > 1,
        .m = log2_of(d->m),
        .n = log2_of(d->n),
        .k = log2_of(d->k),
    };
}

/* Steps between two classes, or a lot. */
static int distance(const td_tuning_class *x, const td_tuning_class *y)
{
    if (x->layout != y->layout || x->batched != y->batched) return NEAR + 1;
    return abs(x->m - y->m) + abs(x->n - y->n) + abs(x->k - y->k);
}

/* ---------------------------------------------------------------- the device's table */

static td_digest key_of(const td_device *device)
{
    const td_device_info *info = td_device_get_info(device);
    const uint32_t numbers[] = {(uint32_t)info->api, (uint32_t)td_device_class(device),
                                info->caps.vector_width, info->caps.compute_units};
    td_hasher hasher;
    td_hasher_init(&hasher);
    td_hasher_string(&hasher, TUNING_VERSION);
    td_hasher_string(&hasher, info->name);
    td_hasher_string(&hasher, info->driver);
    td_hasher_string(&hasher, info->platform_name);
    td_hasher_bytes(&hasher, numbers, sizeof numbers);
    return td_hasher_digest(&hasher);
}

static void destroy_table(td_attachment *attachment)
{
    tuning_table *table = (tuning_table *)attachment;
    while (table) {
        tuning_table *previous = table->previous;
        free(table);
        table = previous;
    }
}

static tuning_table *create_table(size_t room)
{
    tuning_table *table = calloc(1, sizeof *table + room * sizeof table->entries[0]);
    if (table) table->base.destroy = destroy_table;
    return table;
}

static bool is_known(const td_tuning_entry *entry)
{
    return entry->variant < TD_GEMM_V_COUNT && entry->splits > 0;
}

static tuning_table *load_table(td_device *device)
{
    void *data = NULL;
    size_t bytes = 0;
    const bool found = td_blob_cache_load(device->cache, CACHE_KIND, key_of(device), &data, &bytes);
    const size_t count = found && bytes % sizeof(td_tuning_entry) == 0 ? bytes / sizeof(td_tuning_entry) : 0;
    const td_tuning_entry *stored = data;
    tuning_table *table = create_table(count);
    for (size_t i = 0; table && i < count; i++)
        if (is_known(&stored[i])) table->entries[table->count++] = stored[i];
    free(data);
    return table;
}

/* Borrowed; NULL when memory runs out, which means defaults. */
static tuning_table *table_of(td_device *device)
{
    tuning_table *table = (tuning_table *)td_device_attachment(device);
    if (table) return table;
    table = load_table(device);
    if (table && !td_device_attach(device, NULL, &table->base)) {
        free(table);
        table = (tuning_table *)td_device_attachment(device);
    }
    return table;
}

size_t td_tuning_count(td_device *device)
{
    const tuning_table *table = table_of(device);
    return table ? table->count : 0;
}

static void put_entry(tuning_table *table, const td_tuning_entry *entry)
{
    size_t i = 0;
    while (i < table->count && distance(&table->entries[i].shape, &entry->shape) != 0)
        i++;
    table->entries[i] = *entry;
    if (i == table->count) table->count++;
}

td_status td_tuning_put(td_device *device, const td_tuning_entry *entries, size_t count)
{
    tuning_table *old;
    tuning_table *table = NULL;
    do {
        free(table);
        old = table_of(device);
        table = create_table((old ? old->count : 0) + count);
        if (!table) return TD_FAIL(TD_ERR_HOST_MEMORY, "no memory for %zu tuning results", count);
        table->previous = old;
        for (size_t i = 0; old && i < old->count; i++)
            put_entry(table, &old->entries[i]);
        for (size_t i = 0; i < count; i++)
            put_entry(table, &entries[i]);
    } while (!td_device_attach(device, old ? &old->base : NULL, &table->base));
    td_blob_cache_store(device->cache, CACHE_KIND, key_of(device), table->entries,
                        table->count * sizeof table->entries[0]);
    return TD_OK;
}

/* ---------------------------------------------------------------- defaults */

#define SMALL_FLOPS (2.0 * 64 * 64 * 64) /* below, packing costs more than it brings */
#define FEW_ROWS 12u                     /* below, B is not read often enough to be packed */
#define GROUPS_PER_CORE 2u
#define DEEP_GROUPS_PER_CORE 32u
#define PART_LEAST 256u      /* terms of k worth a part */
#define DEEP_PART_LEAST 400u /* the same where a part holds many columns, which are then added up */
#define PARTS_MOST 16u

static bool suits(const td_gemm_problem *problem, td_gemm_variant variant)
{
    const td_gemm_variant_info *way = td_gemm_variant_get(variant);
    const td_gemm_provider wanted = problem->desc.provider;
    return (wanted == TD_GEMM_AUTO || wanted == way->provider) && !way->refuse(problem);
}

/* A product much deeper than wide, as gradients of weights are, by work-items that pack A for themselves:
 * parts of k let each keep many columns, which pay for its packing. PoCL: 384x384x6400 gains a half. */
static bool is_deep(const td_gemm_problem *problem, td_gemm_variant variant)
{
    const td_gemm_desc *d = &problem->desc;
    return variant == TD_GEMM_V_REGISTER_COLUMNS && d->k / 4 >= (d->m < d->n ? d->m : d->n);
}

/* Parts of k, so that `groups` pieces of work become enough to fill the device. */
static uint32_t choose_splits(const td_gemm_problem *problem, td_gemm_variant variant, uint64_t groups)
{
    const uint32_t cores = problem->info->caps.compute_units ? problem->info->caps.compute_units : 1;
    const bool deep = is_deep(problem, variant);
    const uint32_t per_core = deep ? DEEP_GROUPS_PER_CORE : GROUPS_PER_CORE;
    const uint32_t most = problem->desc.k / (deep ? DEEP_PART_LEAST : PART_LEAST);
    uint64_t splits = (uint64_t)per_core * cores / (groups ? groups : 1);
    if (!td_gemm_variant_get(variant)->splits) return 1;
    if (variant == TD_GEMM_V_GEMV && problem->desc.layout == TD_GEMM_NT) return 1;
    if (splits > most) splits = most;
    if (splits > PARTS_MOST) splits = PARTS_MOST;
    return splits > 1 ? (uint32_t)splits : 1;
}

static uint64_t groups_of(const td_gemm_problem *problem, td_gemm_variant variant)
{
    const td_gemm_desc *d = &problem->desc;
    const bool on_cpu = problem->kernel_class == TD_CLASS_CPU;
    uint32_t rows = 64, columns = 64;
    if (variant == TD_GEMM_V_GEMV) {
        rows = d->m;
        columns = on_cpu ? TD_GEMV_VECTORS * problem->vector : 64;
    } else if (td_gemm_variant_get(variant)->provider == TD_GEMM_REGISTER) {
        const bool is_block = is_deep(problem, variant);
        rows = TD_GEMM_TILE_ROWS(problem->vector) * (is_block ? TD_GEMM_OWN_TILES : 1);
        columns = TD_GEMM_TILE_VECTORS * problem->vector * (is_block ? TD_GEMM_OWN_COLUMN_TILES : 1);
    } else if (variant == TD_GEMM_V_TILE_128X64 || variant == TD_GEMM_V_TILE_128X128) {
        rows = 128;
        columns = variant == TD_GEMM_V_TILE_128X64 ? 64 : 128;
    }
    return (uint64_t)d->batch * td_divide_up(d->m, rows) * td_divide_up(d->n, columns);
}

/* In order of preference, best first; the last one always suits. */
static void rank_for_cpu(const td_gemm_problem *problem, td_gemm_variant *rank)
{
    const td_gemm_desc *d = &problem->desc;
    const bool is_small = d->m < FEW_ROWS || 2.0 * d->m * d->n * d->k <= SMALL_FLOPS;
    *rank++ = TD_GEMM_V_GEMV;
    if (is_small) *rank++ = TD_GEMM_V_REGISTER_DIRECT;
    *rank++ = TD_GEMM_V_REGISTER_ROWS;
    *rank++ = TD_GEMM_V_REGISTER_COLUMNS;
    *rank++ = TD_GEMM_V_REGISTER_DIRECT;
    *rank++ = TD_GEMM_V_TILE_ANY;
    *rank++ = TD_GEMM_V_CLBLAST;
    *rank = TD_GEMM_V_PLAIN;
}

/* Larger tiles read less memory but fill a device only with large products. */
static void rank_for_gpu(const td_gemm_problem *problem, td_gemm_variant *rank)
{
    const uint64_t enough = (uint64_t)GROUPS_PER_CORE * problem->info->caps.compute_units;
    *rank++ = TD_GEMM_V_GEMV;
    if (groups_of(problem, TD_GEMM_V_TILE_128X64) >= enough) *rank++ = TD_GEMM_V_TILE_128X64;
    *rank++ = TD_GEMM_V_TILE_64X64;
    *rank++ = TD_GEMM_V_TILE_ANY;
    *rank++ = TD_GEMM_V_REGISTER_ROWS;
    *rank++ = TD_GEMM_V_REGISTER_COLUMNS;
    *rank++ = TD_GEMM_V_CLBLAST;
    *rank = TD_GEMM_V_PLAIN;
}

td_gemm_choice td_tuning_default(const td_gemm_problem *problem)
{
    td_gemm_variant rank[TD_GEMM_V_COUNT + 1];
    size_t i = 0;
    if (problem->kernel_class == TD_CLASS_CPU)
        rank_for_cpu(problem, rank);
    else
        rank_for_gpu(problem, rank);
    while (rank[i] != TD_GEMM_V_PLAIN && !suits(problem, rank[i]))
        i++;
    return (td_gemm_choice){rank[i], choose_splits(problem, rank[i], groups_of(problem, rank[i]))};
}

/* ---------------------------------------------------------------- the choice */

static const td_tuning_entry *find_nearest(const tuning_table *table, const td_gemm_problem *problem)
{
    const td_tuning_class shape = td_tuning_class_of(problem);
    const td_tuning_entry *best = NULL;
    int least = NEAR + 1;
    for (size_t i = 0; table && i < table->count; i++) {
        const int steps = distance(&table->entries[i].shape, &shape);
        if (steps >= least || !suits(problem, (td_gemm_variant)table->entries[i].variant)) continue;
        least = steps;
        best = &table->entries[i];
    }
    return best;
}

td_gemm_choice td_gemm_choose(const td_gemm_problem *problem)
{
    const td_tuning_entry *entry = find_nearest(table_of(problem->device), problem);
    if (!entry) return td_tuning_default(problem);
    return (td_gemm_choice){(td_gemm_variant)entry->variant, entry->splits};
}
