/* See places.h. Nothing here allocates: allocations are among the calls that are counted. */
#include "places.h"

#include <execinfo.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_PLACES = 1 << 13, N_SLOTS = 1 << 14, RAW_FRAMES = 96 };

/* The program's first byte and the end of its code, by the linker. */
extern const char __executable_start[], etext[];

static struct {
    pthread_mutex_t lock;
    size_t count;
    place all[MAX_PLACES];
    uint16_t slots[N_SLOTS]; /* index + 1, by the id's low bits and on from there; 0: none */
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The thread that walks, and how many of its frames are those of the walk. */
static pthread_t walker;
static int walker_depth;

static bool is_ours(const void *address)
{
    return (const char *)address >= __executable_start && (const char *)address < etext;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

static uint32_t choose_depth(void)
{
    const char *wish = getenv("TANDEM_FAULT_FRAMES");
    const long depth = wish ? strtol(wish, NULL, 10) : PLACE_FRAMES;
    return depth > 0 && depth < PLACE_FRAMES ? (uint32_t)depth : PLACE_FRAMES;
}

/* Our own frames above the layer. */
static void look_around(const char *call, const void *layer, place *here)
{
    void *raw[RAW_FRAMES];
    const uint32_t depth = choose_depth();
    const int all = backtrace(raw, RAW_FRAMES);
    const int n = pthread_equal(pthread_self(), walker) ? all - walker_depth : all;
    int at = 0;
    *here = (place){.call = call};
    while (at < n && raw[at] != layer)
        ++at;
    for (++at; at < n && is_ours(raw[at]) && here->depth < depth; ++at)
        here->frames[here->depth++] = (uint32_t)((const char *)raw[at] - __executable_start);
    for (const char *c = call; *c; ++c)
        here->id = mix(here->id, (unsigned char)*c);
    for (uint32_t i = 0; i < here->depth; ++i)
        here->id = mix(here->id, here->frames[i]);
}

/* Its slot, or the free one where it belongs. */
static uint16_t *find_slot(uint64_t id)
{
    size_t at = id % N_SLOTS;
    while (table.slots[at] && table.all[table.slots[at] - 1].id != id)
        at = (at + 1) % N_SLOTS;
    return &table.slots[at];
}

static place *find_or_add(const place *here)
{
    uint16_t *slot = find_slot(here->id);
    if (*slot == 0) {
        if (table.count == MAX_PLACES) {
            fprintf(stderr, "more than %d places: raise MAX_PLACES\n", MAX_PLACES);
            abort();
        }
        table.all[table.count] = *here;
        *slot = (uint16_t)++table.count;
    }
    return &table.all[*slot - 1];
}

void places_begin(void)
{
    void *raw[RAW_FRAMES];
    walker = pthread_self();
    walker_depth = backtrace(raw, RAW_FRAMES) - 1; /* without this function's own */
}

void places_restart(void)
{
    pthread_mutex_lock(&table.lock);
    for (size_t i = 0; i < table.count; ++i)
        table.all[i].calls = 0;
    pthread_mutex_unlock(&table.lock);
}

uint64_t places_note(const char *call, const void *layer, uint64_t *count)
{
    place here;
    look_around(call, layer, &here);
    pthread_mutex_lock(&table.lock);
    *count = ++find_or_add(&here)->calls;
    pthread_mutex_unlock(&table.lock);
    return here.id;
}

size_t places_count(void)
{
    pthread_mutex_lock(&table.lock);
    const size_t count = table.count;
    pthread_mutex_unlock(&table.lock);
    return count;
}

place places_get(size_t index)
{
    pthread_mutex_lock(&table.lock);
    const place found = table.all[index];
    pthread_mutex_unlock(&table.lock);
    return found;
}

size_t places_find(uint64_t id)
{
    pthread_mutex_lock(&table.lock);
    const uint16_t found = *find_slot(id);
    const size_t index = found ? (size_t)found - 1 : table.count;
    pthread_mutex_unlock(&table.lock);
    return index;
}

void places_describe(const place *given, char *out, size_t room)
{
    char program[256];
    const ssize_t bytes = readlink("/proc/self/exe", program, sizeof program - 1);
    program[bytes > 0 ? bytes : 0] = '\0';
    size_t used = (size_t)snprintf(out, room, "addr2line -pfise %s", program);
    for (uint32_t i = 0; i < given->depth && used < room; ++i) /* a return address is one past its call */
        used += (size_t)snprintf(out + used, room - used, " 0x%x", given->frames[i] - 1);
}
