/* The places in the program that calls come from. A place is the name of a call and the chain of our own
 * functions that led to it, up to the first frame that is not ours: a driver that calls back, or the C
 * library below main or a thread. So a loop is one place, the same helper reached in two ways is two, and
 * each thread has its own. TANDEM_FAULT_FRAMES takes so many of the innermost functions alone, and
 * so fewer places. Return addresses are taken relative to the program: a place has the same number each time
 * the same build runs. */
#ifndef TD_TESTS_PLACES_H
#define TD_TESTS_PLACES_H

#include <stddef.h>
#include <stdint.h>

enum { PLACE_FRAMES = 40 };

typedef struct place {
    uint64_t id;
    const char *call;
    uint64_t calls; /* since places_restart() */
    uint32_t depth;
    uint32_t frames[PLACE_FRAMES]; /* innermost first, from the program's beginning */
} place;

/* Calls from below the caller, on its thread, are about to be noted: what is above it belongs to no place. */
void places_begin(void);

/* All known places with no call yet. */
void places_restart(void);

/* One more call from above `layer`, a return address into the function that stands in for the call: the
 * place's id, and how many calls that makes. Any thread. */
uint64_t places_note(const char *call, const void *layer, uint64_t *count);

/* Places are numbered from 0 in the order of their first call. */
size_t places_count(void);
place places_get(size_t index);

/* Index of a place, or places_count(). */
size_t places_find(uint64_t id);

/* A command that shows the lines of the source, in at most `room` bytes. */
void places_describe(const place *given, char *out, size_t room);

#endif
