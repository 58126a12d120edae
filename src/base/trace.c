/* See trace.h. */
#include "base/trace.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"

void td_trace_begin_event(td_json *json, const char *phase, uint32_t process, uint32_t track)
{
    td_json_begin_object(json);
    td_json_put_string(json, "ph", phase);
    td_json_put_double(json, "pid", process + 1);
    td_json_put_double(json, "tid", track + 1);
}

void td_trace_put_name(td_json *json, const char *what, uint32_t process, uint32_t track, const char *name)
{
    td_trace_begin_event(json, "M", process, track);
    td_json_put_string(json, "name", what);
    td_json_put_object(json, "args");
    td_json_put_string(json, "name", name);
    td_json_end_object(json);
    td_json_end_object(json);
}

td_status td_trace_end(td_json *json, const char *path)
{
    const char *text;
    td_json_end_array(json);
    td_json_end_object(json);
    TD_CHECK(td_json_finish(json, &text));
    return td_file_write_atomic(path, text, strlen(text));
}

td_status td_trace_add(td_trace *trace, uint32_t track, const char *name, uint64_t start_ns, uint64_t end_ns)
{
    TD_CHECK(td_alloc_grow(&trace->events, &trace->capacity, trace->n + 1, sizeof *trace->events));
    trace->events[trace->n++] =
        (struct td_trace_event){.name = name, .track = track, .start_ns = start_ns, .end_ns = end_ns};
    return TD_OK;
}

void td_trace_clear(td_trace *trace)
{
    free(trace->events);
    *trace = (td_trace){0};
}

static uint64_t find_start(const td_trace *trace)
{
    uint64_t start = UINT64_MAX;
    for (size_t i = 0; i < trace->n; i++)
        if (trace->events[i].start_ns < start) start = trace->events[i].start_ns;
    return start;
}

td_status td_trace_write(const td_trace *trace, const char *const *names, size_t n_tracks, const char *path)
{
    const uint64_t start_ns = find_start(trace);
    td_json *json = NULL;
    td_status status = TD_OK;
    TD_TRY(td_json_create(NULL, 0, &json));
    td_json_begin_object(json);
    td_json_put_string(json, "displayTimeUnit", "ms");
    td_json_put_array(json, "traceEvents");
    for (uint32_t t = 0; t < n_tracks; t++)
        td_trace_put_name(json, "thread_name", 0, t, names[t]);
    for (size_t i = 0; i < trace->n; i++) {
        const struct td_trace_event *e = &trace->events[i];
        td_trace_begin_event(json, "X", 0, e->track);
        td_json_put_string(json, "name", e->name);
        td_json_put_double(json, "ts", 1e-3 * (double)(e->start_ns - start_ns));
        td_json_put_double(json, "dur", 1e-3 * (double)(e->end_ns - e->start_ns));
        td_json_end_object(json);
    }
    TD_TRY(td_trace_end(json, path));
fail:
    td_json_destroy(json);
    return status;
}
