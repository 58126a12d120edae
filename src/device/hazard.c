/* Hazards from byte ranges; see hazard.h. Linear in the ranges since the last barrier, which stay few: in a
 * chain of dependent kernels every command starts a new group. */
#include "device/hazard.h"

#include <stdlib.h>

struct td_hazard_range {
    const td_buffer *buffer;
    uint64_t begin, end;
    uint8_t access;
};

static bool conflict(const struct td_hazard_range *range, const td_span *span, uint8_t access)
{
    const bool overlap = range->buffer == span->buffer && range->begin < span->offset + span->bytes &&
                         span->offset < range->end;
    return overlap && ((range->access | access) & TD_ACCESS_WRITE);
}

static bool conflicts(const td_hazards *hazards, const td_command *command)
{
    for (size_t i = 0; i < hazards->count; i++) {
        for (uint32_t j = 0; j < command->n_spans; j++)
            if (conflict(&hazards->ranges[i], &command->spans[j], command->access[j])) return true;
    }
    return false;
}

td_status td_hazards_add(td_hazards *hazards, td_command *command)
{
    command->barrier_before = conflicts(hazards, command);
    if (command->barrier_before) hazards->count = 0;
    const size_t need = hazards->count + command->n_spans;
    const td_status status =
        td_alloc_grow(&hazards->ranges, &hazards->capacity, need, sizeof *hazards->ranges);
    if (status != TD_OK) return status;
    for (uint32_t j = 0; j < command->n_spans; j++) {
        const td_span *span = &command->spans[j];
        hazards->ranges[hazards->count++] = (struct td_hazard_range){
            .buffer = span->buffer,
            .begin = span->offset,
            .end = span->offset + span->bytes,
            .access = command->access[j],
        };
    }
    return TD_OK;
}

void td_hazards_clear(td_hazards *hazards)
{
    free(hazards->ranges);
    *hazards = (td_hazards){0};
}
