/* See chain.h. Joins axes that lie together for every input, so that most chains become one long row.
 * Covered by tests/ops/cases_chain.c. */
#include "ops/chain.h"

#include <stddef.h>
#include <string.h>

#include "ops/rows.h"

#define OPERAND_MASK 7u

/* ---------------------------------------------------------------- building */

static void note_mistake(td_chain *chain, const char *mistake)
{
    if (!chain->mistake) chain->mistake = mistake;
}

void td_chain_begin(td_chain *chain, const uint32_t *dims, size_t n_dims)
{
    *chain = (td_chain){0};
    if (n_dims == 0 || n_dims > TD_CHAIN_MAX_AXES) {
        note_mistake(chain, "a chain works on 1 to 6 axes");
        return;
    }
    chain->n_dims = n_dims;
    memcpy(chain->dims, dims, n_dims * sizeof *dims);
}

uint32_t td_chain_strided(td_chain *chain, td_span span, const uint32_t *steps)
{
    if (chain->n_inputs == TD_CHAIN_INPUTS) {
        note_mistake(chain, "more than 4 inputs; split the chain");
        return 0;
    }
    const size_t k = chain->n_inputs++;
    chain->inputs[k] = span;
    memcpy(chain->steps[k], steps, chain->n_dims * sizeof *steps);
    return (uint32_t)k;
}

uint32_t td_chain_broadcast(td_chain *chain, td_span span, const bool *has_axis)
{
    uint32_t steps[TD_CHAIN_MAX_AXES] = {0};
    uint32_t next = 1;
    for (size_t d = chain->n_dims; d-- > 0;) {
        if (!has_axis[d]) continue;
        steps[d] = next;
        next *= chain->dims[d];
    }
    return td_chain_strided(chain, span, steps);
}

uint32_t td_chain_input(td_chain *chain, td_span span)
{
    static const bool all[TD_CHAIN_MAX_AXES] = {true, true, true, true, true, true};
    return td_chain_broadcast(chain, span, all);
}

static uint32_t find_constant(td_chain *chain, float value)
{
    size_t k = 0;
    while (k < chain->n_constants && memcmp(&chain->constants[k], &value, sizeof value) != 0)
        k++;
    if (k == TD_CHAIN_CONSTANTS) {
        note_mistake(chain, "more than 6 constants; split the chain");
        return 0;
    }
    chain->constants[k] = value;
    if (k == chain->n_constants) chain->n_constants++;
    return (uint32_t)k;
}

/* An operand is the low three bits as chain_geometry.h has them, and above them the constant it names. */
uint32_t td_chain_constant(td_chain *chain, float value)
{
    return TD_CHAIN_CONSTANT | find_constant(chain, value) << 3;
}

uint32_t td_chain_temporary(uint32_t number)
{
    return TD_CHAIN_TEMPORARY + (number & 1u);
}

static void append(td_chain *chain, uint32_t operation, uint32_t operand, uint32_t constant)
{
    if (chain->n_code == TD_CHAIN_LENGTH) {
        note_mistake(chain, "more than 10 operations; split the chain");
        return;
    }
    if (operation >= TD_CHAIN_LOAD && operand < chain->n_inputs) chain->last_use[operand] = chain->n_code;
    chain->code[chain->n_code++] =
        (uint16_t)(operation | operand << TD_CHAIN_OPERAND_SHIFT | constant << TD_CHAIN_CONSTANT_SHIFT);
}

static bool has_own_constant(uint32_t operation)
{
    return operation == TD_CHAIN_LEAKY_RELU || operation == TD_CHAIN_ADD_SCALED ||
           operation == TD_CHAIN_PASS_ABOVE || operation == TD_CHAIN_PASS_BELOW ||
           operation == TD_CHAIN_LEAKY_RELU_BACK;
}

static void check_operation(td_chain *chain, uint32_t operation, uint32_t operand)
{
    const uint32_t source = operand & OPERAND_MASK;
    if (operation >= TD_CHAIN_OPERATIONS || operation == TD_CHAIN_STORE)
        note_mistake(chain, "an operation that does not exist; td_chain_store stores");
    if (operation == TD_CHAIN_SAVE && source != TD_CHAIN_TEMPORARY && source != TD_CHAIN_TEMPORARY + 1)
        note_mistake(chain, "TD_CHAIN_SAVE without a temporary to save to");
    if (operation >= TD_CHAIN_LOAD && source < TD_CHAIN_INPUTS && source >= chain->n_inputs)
        note_mistake(chain, "an operand that is not an input of this chain");
    if (chain->n_code == 0 && operation != TD_CHAIN_LOAD)
        note_mistake(chain, "a chain begins with TD_CHAIN_LOAD");
}

void td_chain_add(td_chain *chain, uint32_t operation, uint32_t operand)
{
    check_operation(chain, operation, operand);
    if (has_own_constant(operation)) note_mistake(chain, "an operation with a constant: td_chain_add_with");
    append(chain, operation, operand & OPERAND_MASK, operand >> 3);
}

void td_chain_add_with(td_chain *chain, uint32_t operation, uint32_t operand, float c)
{
    check_operation(chain, operation, operand);
    if (!has_own_constant(operation)) note_mistake(chain, "an operation without a constant: td_chain_add");
    if ((operand & OPERAND_MASK) == TD_CHAIN_CONSTANT)
        note_mistake(chain, "an operation has one constant, its own or its operand");
    append(chain, operation, operand & OPERAND_MASK, find_constant(chain, c));
}

void td_chain_store(td_chain *chain, td_span span)
{
    if (chain->n_outputs == TD_CHAIN_OUTPUTS) {
        note_mistake(chain, "more than 2 outputs; split the chain");
        return;
    }
    if (chain->n_code == 0) note_mistake(chain, "a chain begins with TD_CHAIN_LOAD");
    chain->stored_at[chain->n_outputs] = chain->n_code;
    chain->outputs[chain->n_outputs] = span;
    append(chain, TD_CHAIN_STORE, (uint32_t)chain->n_outputs, 0);
    chain->n_outputs++;
}

/* ---------------------------------------------------------------- launching */

/* The shape with axes of one element left out and axes joined that every input walks as one. */
typedef struct folded {
    uint32_t dims[TD_CHAIN_MAX_AXES];
    uint32_t steps[TD_CHAIN_INPUTS][TD_CHAIN_MAX_AXES];
    size_t n_dims;
} folded;

static bool is_one_walk(const td_chain *chain, const folded *f, size_t axis)
{
    for (size_t k = 0; k < chain->n_inputs; k++)
        if (f->steps[k][f->n_dims - 1] != chain->steps[k][axis] * chain->dims[axis]) return false;
    return true;
}

static folded fold_axes(const td_chain *chain)
{
    folded f = {0};
    for (size_t axis = 0; axis < chain->n_dims; axis++) {
        if (chain->dims[axis] == 1) continue;
        const bool joins = f.n_dims > 0 && is_one_walk(chain, &f, axis);
        const size_t to = joins ? f.n_dims - 1 : f.n_dims++;
        f.dims[to] = chain->dims[axis] * (joins ? f.dims[to] : 1);
        for (size_t k = 0; k < chain->n_inputs; k++)
            f.steps[k][to] = chain->steps[k][axis];
    }
    return f;
}

/* Words from the first to behind the last element an input is read at. */
static uint64_t measure_input(const folded *f, size_t k)
{
    uint64_t last = 0;
    for (size_t d = 0; d < f->n_dims; d++)
        last += (uint64_t)(f->dims[d] - 1) * f->steps[k][d];
    return last + 1;
}

static bool is_dense(const folded *f, size_t k)
{
    uint64_t step = 1;
    for (size_t d = f->n_dims; d-- > 0; step *= f->dims[d])
        if (f->steps[k][d] != step) return false;
    return true;
}

static bool do_overlap(td_span a, uint64_t a_bytes, td_span b, uint64_t b_bytes)
{
    return a.buffer == b.buffer && a.offset < b.offset + b_bytes && b.offset < a.offset + a_bytes;
}

static td_status check_output(const td_chain *chain, const folded *f, uint64_t n, size_t o)
{
    const td_span out = chain->outputs[o];
    TD_CHECK(td_op_check_span(out, n, "chain", "an output"));
    for (size_t k = 0; k < chain->n_inputs; k++) {
        const td_span in = chain->inputs[k];
        if (!do_overlap(out, 4 * n, in, 4 * measure_input(f, k))) continue;
        TD_REFUSE_IF(
            in.offset != out.offset || !is_dense(f, k) || chain->last_use[k] > chain->stored_at[o],
            TD_ERR_ARGUMENT,
            "chain: output %zu lies over input %zu, which is laid out otherwise or read later; give it "
            "memory of its own",
            o, k);
    }
    TD_REFUSE_IF(o == 1 && do_overlap(out, 4 * n, chain->outputs[0], 4 * n), TD_ERR_ARGUMENT,
                 "chain: the two outputs overlap");
    return TD_OK;
}

static td_status check_chain(const td_chain *chain, const folded *f, uint64_t n)
{
    TD_REFUSE_IF(chain->mistake, TD_ERR_ARGUMENT, "chain: %s", chain->mistake);
    TD_REFUSE_IF(chain->n_inputs == 0 || chain->n_outputs == 0, TD_ERR_ARGUMENT,
                 "chain: needs an input and an output");
    TD_CHECK(td_op_check_size(n, 1, 1, "chain"));
    TD_REFUSE_IF(f->n_dims > TD_CHAIN_DIMS, TD_ERR_UNSUPPORTED,
                 "chain: %zu axes that cannot be joined, at most %u; permute an input first", f->n_dims,
                 TD_CHAIN_DIMS);
    for (size_t k = 0; k < chain->n_inputs; k++) {
        TD_CHECK(td_op_check_span(chain->inputs[k], measure_input(f, k), "chain", "an input"));
        TD_REFUSE_IF(f->n_dims > 0 && f->steps[k][f->n_dims - 1] > 1, TD_ERR_UNSUPPORTED,
                     "chain: input %zu has step %u along the innermost axis; permute it first", k,
                     f->steps[k][f->n_dims - 1]);
    }
    for (size_t o = 0; o < chain->n_outputs; o++)
        TD_CHECK(check_output(chain, f, n, o));
    return TD_OK;
}

static td_chain_params make_params(const td_chain *chain, const folded *f, uint32_t n)
{
    td_chain_params params = {.n = n, .steps = (uint32_t)chain->n_code};
    uint32_t dims[TD_CHAIN_DIMS] = {1, 1, 1, 1};
    uint32_t steps[TD_CHAIN_INPUTS][TD_CHAIN_DIMS] = {0};
    uint32_t code[TD_CHAIN_LENGTH / 2] = {0};
    for (size_t d = 0; d < f->n_dims; d++) { /* the last of the folded axes is the last of four */
        const size_t to = TD_CHAIN_DIMS - f->n_dims + d;
        dims[to] = f->dims[d];
        for (size_t k = 0; k < chain->n_inputs; k++)
            steps[k][to] = f->steps[k][d];
    }
    for (size_t i = 0; i < chain->n_code; i++)
        code[i / 2] |= (uint32_t)chain->code[i] << (16 * (i % 2));
    params.d1 = dims[1];
    params.d2 = dims[2];
    params.d3 = dims[3];
    memcpy((char *)&params + offsetof(td_chain_params, x0_0), steps, sizeof steps);
    memcpy((char *)&params + offsetof(td_chain_params, code0), code, sizeof code);
    memcpy((char *)&params + offsetof(td_chain_params, c0), chain->constants, sizeof chain->constants);
    return params;
}

/* The sum of two dense inputs, which residuals and gradients ask for all the time: `add` has no instructions
 * to choose: on PoCL it reached 1.04 of a copy (median of three runs) where a chain reached 0.66. */
static bool is_plain_sum(const td_chain *chain, const folded *f)
{
    static const uint16_t SUM[] = {TD_CHAIN_LOAD, TD_CHAIN_ADD | 1u << TD_CHAIN_OPERAND_SHIFT,
                                   TD_CHAIN_STORE};
    return chain->n_inputs == 2 && chain->n_code == 3 && memcmp(chain->code, SUM, sizeof SUM) == 0 &&
           is_dense(f, 0) && is_dense(f, 1);
}

td_status td_chain_launch(const td_chain *chain, td_list *list)
{
    const folded f = fold_axes(chain);
    uint64_t n = 1;
    for (size_t d = 0; d < chain->n_dims && n < UINT64_C(1) << 31; d++)
        n *= chain->dims[d];
    TD_CHECK(check_chain(chain, &f, n));
    const td_chain_params params = make_params(chain, &f, (uint32_t)n);
    td_span spans[TD_CHAIN_INPUTS + TD_CHAIN_OUTPUTS];
    td_cost cost = {.flops = 4.0 * (double)n * (double)chain->n_code,
                    .bytes = 4.0 * (double)n * (double)chain->n_outputs};
    for (size_t k = 0; k < TD_CHAIN_INPUTS; k++) {
        spans[k] = chain->inputs[k < chain->n_inputs ? k : 0];
        if (k < chain->n_inputs) cost.bytes += 4.0 * (double)measure_input(&f, k);
    }
    for (size_t o = 0; o < TD_CHAIN_OUTPUTS; o++)
        spans[TD_CHAIN_INPUTS + o] = chain->outputs[o < chain->n_outputs ? o : 0];
    const td_grid grid = td_grid_elements(td_list_class(list), (uint32_t)n);
    if (is_plain_sum(chain, &f)) {
        TD_CHECK(td_list_dispatch(list, TD_K_add, (td_span[]){spans[0], spans[1], chain->outputs[0]},
                                  &(td_add_params){.n = (uint32_t)n}, grid, cost));
    } else {
        TD_CHECK(td_list_dispatch(list, TD_K_chain, spans, &params, grid, cost));
    }
    return TD_OK;
}

/* ---------------------------------------------------------------- dropout */

td_status td_op_dropout(td_list *list, const td_dropout_args *a)
{
    const uint32_t keep = (uint32_t)((1.0 - (double)a->p) * 65536 + 0.5);
    const uint32_t block = td_list_class(list) == TD_CLASS_GPU ? TD_DROPOUT_BLOCK_GPU : TD_DROPOUT_BLOCK_CPU;
    TD_CHECK(td_op_check_size(a->n, 1, 1, "dropout"));
    TD_CHECK(td_op_check_span(a->x, a->n, "dropout", "x"));
    TD_CHECK(td_op_check_span(a->step, 1, "dropout", "step"));
    TD_CHECK(td_op_check_span(a->y, a->n, "dropout", "y"));
    TD_REFUSE_IF(!(a->p >= 0 && a->p < 1) || keep == 0, TD_ERR_ARGUMENT,
                 "dropout: a probability of %g; it must be at least 0 and below 1", (double)a->p);
    const td_dropout_params params = {.n = a->n,
                                      .seed_lo = (uint32_t)a->seed,
                                      .seed_hi = (uint32_t)(a->seed >> 32),
                                      .stream_lo = (uint32_t)a->stream,
                                      .stream_hi = (uint32_t)(a->stream >> 32),
                                      .keep = keep,
                                      .scale = (float)(65536.0 / keep)};
    return td_list_dispatch(list, TD_K_dropout, (td_span[]){a->x, a->step, a->y}, &params,
                            td_grid_groups(td_divide_up(a->n, block)),
                            (td_cost){.flops = 20.0 * a->n, .bytes = 8.0 * a->n});
}
