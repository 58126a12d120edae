/* Barriers of a list (src/device/hazard.c): a table of ranges and accesses, and random lists against a model
 * that keeps a note for every byte. No device is needed.
 */
#include <string.h>

#include "base/rng.h"
#include "device/hazard.h"
#include "support.h"

enum { BUFFERS = 3, MAX_SPANS = 3, MAX_STEPS = 5 };

static td_buffer buffers[BUFFERS];

/* A range of buffer 'a', 'b' or 'c' that is read ('r'), written ('w') or both ('x'). */
typedef struct range {
    char access, buffer;
    uint64_t offset, bytes;
} range;

typedef struct step {
    range ranges[MAX_SPANS];
    bool barrier; /* expected before it */
} step;

static const struct {
    const char *name;
    step steps[MAX_STEPS];
} CASES[] = {
    {"the first command", {{{{'w', 'a', 0, 64}}, false}}},
    {"read after write", {{{{'w', 'a', 0, 64}}, false}, {{{'r', 'a', 0, 64}}, true}}},
    {"write after read", {{{{'r', 'a', 0, 64}}, false}, {{{'w', 'a', 0, 64}}, true}}},
    {"write after write", {{{{'w', 'a', 0, 64}}, false}, {{{'w', 'a', 0, 64}}, true}}},
    {"read after read", {{{{'r', 'a', 0, 64}}, false}, {{{'r', 'a', 0, 64}}, false}}},
    {"both after both", {{{{'x', 'a', 0, 64}}, false}, {{{'x', 'a', 0, 64}}, true}}},
    {"read after both", {{{{'x', 'a', 0, 64}}, false}, {{{'r', 'a', 0, 64}}, true}}},
    {"both after read", {{{{'r', 'a', 0, 64}}, false}, {{{'x', 'a', 0, 64}}, true}}},
    {"another buffer", {{{{'w', 'a', 0, 64}}, false}, {{{'w', 'b', 0, 64}}, false}}},
    {"adjacent behind", {{{{'w', 'a', 0, 64}}, false}, {{{'w', 'a', 64, 64}}, false}}},
    {"adjacent before", {{{{'w', 'a', 64, 64}}, false}, {{{'w', 'a', 0, 64}}, false}}},
    {"one byte over the end", {{{{'w', 'a', 0, 64}}, false}, {{{'r', 'a', 63, 4}}, true}}},
    {"one byte over the start", {{{{'w', 'a', 63, 64}}, false}, {{{'r', 'a', 0, 64}}, true}}},
    {"inside", {{{{'w', 'a', 0, 64}}, false}, {{{'r', 'a', 16, 4}}, true}}},
    {"around", {{{{'w', 'a', 16, 4}}, false}, {{{'r', 'a', 0, 64}}, true}}},
    {"far apart in one buffer", {{{{'w', 'a', 0, 4}}, false}, {{{'w', 'a', 1 << 20, 4}}, false}}},
    {"past 4 GiB", {{{{'w', 'a', UINT64_C(1) << 33, 64}}, false}, {{{'r', 'a', 0, 64}}, false}}},
    {"a command does not conflict with itself", {{{{'r', 'a', 0, 64}, {'w', 'a', 0, 64}}, false}}},
    {"the second range conflicts",
     {{{{'r', 'a', 0, 64}, {'w', 'b', 0, 64}}, false}, {{{'r', 'c', 0, 64}, {'r', 'b', 60, 4}}, true}}},
    {"not with the one before but with an earlier one",
     {{{{'w', 'a', 0, 64}}, false}, {{{'w', 'b', 0, 64}}, false}, {{{'r', 'a', 0, 64}}, true}}},
    {"a barrier settles what came before",
     {{{{'w', 'a', 0, 64}}, false},
      {{{'w', 'b', 0, 64}}, false},
      {{{'r', 'a', 0, 64}}, true},
      {{{'r', 'b', 0, 64}}, false},
      {{{'w', 'a', 0, 4}}, true}}},
    {"a chain needs one each time",
     {{{{'w', 'a', 0, 64}}, false},
      {{{'r', 'a', 0, 64}, {'w', 'b', 0, 64}}, true},
      {{{'r', 'b', 0, 64}, {'w', 'c', 0, 64}}, true},
      {{{'r', 'c', 0, 64}, {'w', 'a', 0, 64}}, true}}},
    {"one source, many readers",
     {{{{'w', 'a', 0, 64}}, false},
      {{{'r', 'a', 0, 64}, {'w', 'b', 0, 32}}, true},
      {{{'r', 'a', 0, 64}, {'w', 'b', 32, 32}}, false},
      {{{'r', 'a', 0, 64}, {'w', 'c', 0, 64}}, false}}},
};

static uint8_t access_of(char letter)
{
    return letter == 'r' ? TD_ACCESS_READ : letter == 'w' ? TD_ACCESS_WRITE : TD_ACCESS_READ_WRITE;
}

static td_command make_command(const range ranges[MAX_SPANS])
{
    td_command command = {.kind = TD_COMMAND_DISPATCH, .barrier_before = true};
    while (command.n_spans < MAX_SPANS && ranges[command.n_spans].bytes) {
        const range *r = &ranges[command.n_spans];
        command.spans[command.n_spans] = (td_span){&buffers[r->buffer - 'a'], r->offset, r->bytes};
        command.access[command.n_spans++] = access_of(r->access);
    }
    return command;
}

static void test_table(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof CASES / sizeof *CASES; c++) {
        td_hazards hazards = {0};
        for (int s = 0; s < MAX_STEPS && CASES[c].steps[s].ranges[0].bytes; s++) {
            td_command command = make_command(CASES[c].steps[s].ranges);
            check(td_hazards_add(&hazards, &command));
            if (command.barrier_before != CASES[c].steps[s].barrier)
                fail_msg("%s: command %d %s a barrier", CASES[c].name, s,
                         command.barrier_before ? "has" : "lacks");
        }
        td_hazards_clear(&hazards);
    }
}

enum { MODEL_BYTES = 96 };

/* Per byte: was it read, was it written since the last barrier. */
typedef struct byte_model {
    uint8_t seen[BUFFERS][MODEL_BYTES];
} byte_model;

static bool model_needs_barrier(const byte_model *model, const td_command *command)
{
    for (uint32_t s = 0; s < command->n_spans; s++) {
        const td_span span = command->spans[s];
        for (uint64_t i = span.offset; i < span.offset + span.bytes; i++) {
            const uint8_t seen = model->seen[span.buffer - buffers][i];
            if (seen && ((seen | command->access[s]) & TD_ACCESS_WRITE)) return true;
        }
    }
    return false;
}

static void note_command(byte_model *model, const td_command *command)
{
    for (uint32_t s = 0; s < command->n_spans; s++) {
        const td_span span = command->spans[s];
        for (uint64_t i = span.offset; i < span.offset + span.bytes; i++)
            model->seen[span.buffer - buffers][i] |= command->access[s];
    }
}

static uint64_t draw(uint64_t *index, uint64_t bound)
{
    return td_rng_below(3, 0, (*index)++, bound);
}

static td_command draw_command(uint64_t *index)
{
    range ranges[MAX_SPANS] = {{0}};
    const uint64_t n = 1 + draw(index, MAX_SPANS);
    for (uint64_t s = 0; s < n; s++) {
        const uint64_t bytes = 1 + draw(index, 12);
        ranges[s] = (range){.access = "rrrwx"[draw(index, 5)],
                            .buffer = (char)('a' + draw(index, BUFFERS)),
                            .offset = draw(index, MODEL_BYTES - bytes + 1),
                            .bytes = bytes};
    }
    return make_command(ranges);
}

static void test_against_a_model_of_bytes(void **state)
{
    (void)state;
    enum { COMMANDS = 20000 };
    td_hazards hazards = {0};
    byte_model model = {0};
    uint64_t index = 0;
    unsigned barriers = 0;
    for (int i = 0; i < COMMANDS; i++) {
        td_command command = draw_command(&index);
        const bool expected = model_needs_barrier(&model, &command);
        if (expected) model = (byte_model){0};
        note_command(&model, &command);
        check(td_hazards_add(&hazards, &command));
        assert_int_equal(command.barrier_before, expected);
        barriers += expected;
    }
    assert_in_range(barriers, COMMANDS / 10, COMMANDS * 9 / 10); /* both answers were tried */
    td_hazards_clear(&hazards);
    assert_null(hazards.ranges);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_against_a_model_of_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
