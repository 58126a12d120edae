/* Events of a trace as Perfetto and Chrome read it: tracks with names, and what happened on them when. Covered by
 * tests/unit/test_trace.c.
 */
#ifndef TD_BASE_TRACE_H
#define TD_BASE_TRACE_H

#include "base/json.h"

/* What every event of a process' track begins with; whoever calls ends the object. */
void td_trace_begin_event(td_json *json, const char *phase, uint32_t process, uint32_t track);

/* Gives a track ("thread_name") or its process ("process_name") a name. */
void td_trace_put_name(td_json *json, const char *what, uint32_t process, uint32_t track, const char *name);

/* Ends the array of events and the object around it, and writes the file. */
td_status td_trace_end(td_json *json, const char *path);

/* ---------------------------------------------------------------- a trace of its own */

/* Owned: td_trace_clear(). All zeros is an empty one. */
typedef struct td_trace {
    struct td_trace_event {
        const char *name; /* static */
        uint32_t track;
        uint64_t start_ns, end_ns; /* of td_clock_ns() */
    } * events;
    size_t n, capacity;
} td_trace;

td_status td_trace_add(td_trace *trace, uint32_t track, const char *name, uint64_t start_ns, uint64_t end_ns);
void td_trace_clear(td_trace *trace);

/* Writes the file; `names` are those of the tracks. */
td_status td_trace_write(const td_trace *trace, const char *const *names, size_t n_tracks, const char *path);

#endif
