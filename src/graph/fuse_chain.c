/* Joining two element-wise programs: the second reads what the first stores, so the first comes in front and
 * the value stays in the accumulator. Three ways, by how the second uses it:
 *
 *   load p; ...          the load falls away
 *   load x; x op p       becomes p op' x, where op can be turned round
 *   anything else        p is saved to a temporary and read from there
 *
 * Covered by tests/graph/test_random.c (every graph with and without fusion). */
#include <string.h>

#include "graph/draft.h"

static bool reads_operand(const td_instruction *s)
{
    return s->operation >= TD_CHAIN_LOAD;
}

/* The operation with its two sides exchanged, or 0: there is none. */
static uint8_t turn_round(uint8_t operation)
{
    switch (operation) {
    case TD_CHAIN_ADD:
    case TD_CHAIN_MUL:
    case TD_CHAIN_MIN:
    case TD_CHAIN_MAX:
        return operation;
    case TD_CHAIN_SUB:
        return TD_CHAIN_SUB_FROM;
    case TD_CHAIN_SUB_FROM:
        return TD_CHAIN_SUB;
    case TD_CHAIN_DIV:
        return TD_CHAIN_DIV_INTO;
    case TD_CHAIN_DIV_INTO:
        return TD_CHAIN_DIV;
    default:
        return 0;
    }
}

/* A program in the making; `fits` turns false where the limits of a chain are passed. */
typedef struct merge {
    td_node node;
    uint32_t most_inputs, most_steps;
    bool fits;
} merge;

static uint8_t add_input(merge *m, uint32_t id)
{
    size_t i = 0;
    while (i < TD_CHAIN_INPUTS && m->node.in[i] && m->node.in[i] != id)
        i++;
    if (i >= m->most_inputs) {
        m->fits = false;
        return 0;
    }
    m->node.in[i] = id;
    return (uint8_t)(TD_CHAIN_INPUT + i);
}

static void add_step(merge *m, td_instruction step)
{
    td_program *p = &m->node.info.program;
    if (p->length >= m->most_steps)
        m->fits = false;
    else
        p->code[p->length++] = step;
}

/* A step of `from`, its input looked up again. */
static void copy_step(merge *m, const td_node *from, td_instruction step)
{
    if (reads_operand(&step) && step.operand < TD_CHAIN_CONSTANT)
        step.operand = add_input(m, from->in[step.operand - TD_CHAIN_INPUT]);
    add_step(m, step);
}

static bool fit_constants(const td_program *p)
{
    float seen[TD_CHAIN_CONSTANTS];
    size_t n = 0;
    for (size_t s = 0; s < p->length; s++) {
        const float c = p->code[s].c;
        size_t i = 0;
        while (i < n && memcmp(&seen[i], &c, sizeof c) != 0)
            i++;
        if (i < n ||
            (c == 0 && p->code[s].operand != TD_CHAIN_CONSTANT && p->code[s].operation < TD_CHAIN_LOAD))
            continue;
        if (n == TD_CHAIN_CONSTANTS) return false;
        seen[n++] = c;
    }
    return true;
}

/* The step reads tensor id, under whichever of its inputs' numbers. */
static bool reads(const td_node *node, const td_instruction *step, uint32_t id)
{
    return reads_operand(step) && step->operand < TD_CHAIN_CONSTANT &&
           node->in[step->operand - TD_CHAIN_INPUT] == id;
}

static size_t count_reads(const td_node *node, uint32_t id)
{
    const td_program *p = &node->info.program;
    size_t n = 0;
    for (size_t s = 0; s < p->length; s++)
        n += reads(node, &p->code[s], id);
    return n;
}

/* A temporary that the program does not use, or 0. */
static uint8_t find_temporary(const td_program *p)
{
    bool used[TD_CHAIN_TEMPORARIES] = {false};
    for (size_t s = 0; s < p->length; s++) {
        const td_instruction *step = &p->code[s];
        const bool names = reads_operand(step) || step->operation == TD_CHAIN_SAVE;
        if (names && step->operand >= TD_CHAIN_TEMPORARY &&
            step->operand < TD_CHAIN_TEMPORARY + TD_CHAIN_TEMPORARIES)
            used[step->operand - TD_CHAIN_TEMPORARY] = true;
    }
    for (uint8_t t = 0; t < TD_CHAIN_TEMPORARIES; t++)
        if (!used[t]) return (uint8_t)(TD_CHAIN_TEMPORARY + t);
    return 0;
}

/* Appends the second program, which finds p in the accumulator. */
static void append_second(merge *m, const td_node *second, uint32_t p)
{
    const td_program *q = &second->info.program;
    const bool loads = reads(second, &q->code[0], p);
    const size_t n_reads = count_reads(second, p);
    size_t first = loads ? 1 : 0;
    uint8_t temporary = 0;
    if (n_reads == 1 && !loads && reads(second, &q->code[1], p) && turn_round(q->code[1].operation) &&
        q->code[0].operand < TD_CHAIN_CONSTANT) {
        td_instruction turned = q->code[1];
        turned.operation = turn_round(turned.operation);
        turned.operand = q->code[0].operand;
        copy_step(m, second, turned);
        first = 2;
    } else if (n_reads > 1 || !loads) {
        temporary = find_temporary(q);
        if (!temporary) m->fits = false;
        add_step(m, (td_instruction){TD_CHAIN_SAVE, temporary, 0});
    }
    for (size_t s = first; s < q->length; s++) {
        td_instruction step = q->code[s];
        if (reads(second, &step, p)) {
            step.operand = temporary;
            add_step(m, step);
        } else {
            copy_step(m, second, step);
        }
    }
}

bool td_chain_merge(const td_node *from, td_node *into, uint32_t id, bool keep)
{
    const td_program *p = &from->info.program;
    const bool adds = into->add[0] != TD_ADD_NEVER;
    merge m = {.node = *into,
               .most_inputs = TD_CHAIN_INPUTS - adds,
               .most_steps = TD_CHAIN_LENGTH - adds,
               .fits = true};
    if (keep && into->out[1]) return false;
    memset(m.node.in, 0, sizeof m.node.in);
    m.node.info.program.length = 0;
    for (size_t s = 0; s + 1 < p->length; s++)
        copy_step(&m, from, p->code[s]);
    if (keep) {
        add_step(&m, (td_instruction){TD_CHAIN_STORE, 1, 0});
        m.node.out[1] = id;
    }
    append_second(&m, into, id);
    if (!m.fits || !fit_constants(&m.node.info.program)) return false;
    *into = m.node;
    return true;
}
