/* Sequences of tokens and codes (ops/sequence.h), against loops over what each item should be. */
#include <stdio.h>

#include "ops/sequence.h"
#include "suite.h"

typedef struct sequence_case {
    uint32_t items, width, columns;
    bool joins;
} sequence_case;

/* Counts from none to too many. */
static const uint32_t *add_counts(op_case *c, uint32_t items, uint32_t most)
{
    uint32_t *counts = (uint32_t *)(void *)op_input(c, "counts", items)->values;
    for (uint32_t b = 0; b < items; b++)
        counts[b] = b == 0 ? most : b == 1 ? 0 : b == 2 ? most + 3 : (most * b / 5) % (most + 1);
    return counts;
}

static uint32_t *add_words(op_case *c, const char *name, uint32_t n)
{
    uint32_t *words = (uint32_t *)(void *)op_input(c, name, n)->values;
    for (uint32_t i = 0; i < n; i++)
        words[i] = 100 + i;
    return words;
}

/* ---------------------------------------------------------------- wrapping */

static const td_wrapping WRAPPING = {.before = 2, .first = 7, .after = 3, .last = 8, .rest = 9};

static td_status launch_wrap(const op_case *c, td_list *list, const td_span *s)
{
    const sequence_case *n = c->args;
    return td_op_sequence_wrap(list, &(td_wrap_args){.items = n->items,
                                                     .width = n->width,
                                                     .columns = n->columns,
                                                     .wrapping = WRAPPING,
                                                     .ids = s[0],
                                                     .counts = s[1],
                                                     .y = s[2]});
}

static void add_wrap(op_suite *suite, sequence_case n)
{
    op_case c = {.op = "sequence wrap", .kernels = "sequence_wrap", .launch = launch_wrap};
    snprintf(c.label, sizeof c.label, "%u items, %u of %u", n.items, n.width, n.columns);
    *(sequence_case *)op_args(&c, sizeof n) = n;
    const uint32_t *ids = add_words(&c, "ids", n.items * n.width);
    const uint32_t *counts = add_counts(&c, n.items, n.width);
    op_io *y = op_output_words(&c, "y", (size_t)n.items * n.columns);
    for (uint32_t b = 0; b < n.items; b++) {
        uint32_t at = 0;
        uint32_t *row = y->words + (size_t)b * n.columns;
        for (uint32_t i = 0; i < 2 && at < n.columns; i++)
            row[at++] = 7;
        for (uint32_t i = 0; i < n.width && i < counts[b] && at < n.columns; i++)
            row[at++] = ids[b * n.width + i];
        for (uint32_t i = 0; i < 3 && at < n.columns; i++)
            row[at++] = 8;
        while (at < n.columns)
            row[at++] = 9;
    }
    op_suite_add(suite, &c);
}

/* ---------------------------------------------------------------- rows */

enum { START = 3 };

static td_status launch_rows(const op_case *c, td_list *list, const td_span *s)
{
    const sequence_case *n = c->args;
    return td_op_sequence_rows(list, &(td_rows_args){.items = n->items,
                                                     .columns = n->columns,
                                                     .start = START,
                                                     .width = n->width,
                                                     .joins = n->joins,
                                                     .counts = s[0],
                                                     .y = s[1]});
}

static void add_rows(op_suite *suite, sequence_case n)
{
    op_case c = {.op = "sequence rows", .kernels = "sequence_rows", .launch = launch_rows};
    snprintf(c.label, sizeof c.label, "%u items, %u of %u, %s", n.items, n.width, n.columns,
             n.joins ? "to join" : "joined");
    *(sequence_case *)op_args(&c, sizeof n) = n;
    const uint32_t *counts = add_counts(&c, n.items, n.width);
    op_io *y = op_output_words(&c, "y", (size_t)n.items * n.columns);
    for (uint32_t b = 0; b < n.items; b++) {
        const uint32_t own = START + (counts[b] < n.width ? counts[b] : n.width);
        uint32_t row = 0;
        for (uint32_t i = 0; i < n.columns; i++, row++) {
            if (i == own) row = START + n.width; /* the second part begins */
            y->words[(size_t)b * n.columns + i] = n.joins ? row : own + i;
        }
    }
    op_suite_add(suite, &c);
}

/* ---------------------------------------------------------------- hiding */

static td_status launch_hide(const op_case *c, td_list *list, const td_span *s)
{
    const sequence_case *n = c->args;
    return td_op_sequence_hide(list, &(td_hide_args){.items = n->items,
                                                     .columns = n->columns,
                                                     .item = n->joins ? 0 : n->items - 1,
                                                     .divisor = n->width,
                                                     .value = 5,
                                                     .x = s[0],
                                                     .ranges = s[1],
                                                     .y = s[2]});
}

static void add_hide(op_suite *suite, sequence_case n)
{
    op_case c = {.op = "sequence hide", .kernels = "sequence_hide", .launch = launch_hide};
    snprintf(c.label, sizeof c.label, "%u items of %u, by %u, %s", n.items, n.columns, n.width,
             n.joins ? "all" : "the last");
    *(sequence_case *)op_args(&c, sizeof n) = n;
    const uint32_t *x = add_words(&c, "x", n.items * n.columns);
    uint32_t *ranges = add_words(&c, "ranges", 2 * n.items);
    op_io *y = op_output_words(&c, "y", (size_t)n.items * n.columns);
    for (uint32_t b = 0; b < n.items; b++) {
        ranges[2 * b] = b * n.width + n.width / 2;
        ranges[2 * b + 1] = (b + 4) * n.width + n.width / 3;
        for (uint32_t i = 0; i < n.columns; i++) {
            const bool hidden = (n.joins || b + 1 == n.items) && i >= b && i < b + 4;
            y->words[(size_t)b * n.columns + i] = hidden ? 5 : x[b * n.columns + i];
        }
    }
    op_suite_add(suite, &c);
}

void cases_sequence(op_suite *suite, td_device *device);
void cases_sequence(op_suite *suite, td_device *device)
{
    static const sequence_case SIZES[] = {{1, 1, 1, false},    {1, 1, 6, true},     {2, 7, 12, false},
                                          {4, 31, 36, true},   {5, 8, 97, true},    {3, 127, 9, false},
                                          {2, 128, 141, true}, {7, 200, 599, false}};
    (void)device;
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        add_wrap(suite, SIZES[i]);
        add_rows(suite, SIZES[i]);
        add_hide(suite, SIZES[i]);
    }
}
