/* The losses of a model as parts of its graph. Every term is a mean over what is valid in the whole batch.
 * See docs/model.md. Covered by tests/model/test_model_golden.c. */
#include <stdio.h>

#include "model/internal.h"

static const char *const term_names[TD_MODEL_TERM_COUNT] = {
#define TERM_NAME(name) #name,
    TD_MODEL_TERMS(TERM_NAME)
#undef TERM_NAME
};

const char *td_model_term_name(td_model_term term)
{
    return term_names[term];
}

td_model_losses td_model_losses_default(void)
{
    td_model_losses losses = {
        .mel_kind = TD_LOSS_L1, .huber_delta = 1, .stop_positive = 5, .band = 10, .sigma = 0.2f};
    for (size_t i = 0; i < TD_MODEL_TERM_COUNT; i++)
        losses.weights[i] = 1;
    losses.weights[TD_TERM_stop] = 0.5f;
    return losses;
}

td_tensor td_model_row_mean(td_graph *g, td_tensor x, td_tensor counts)
{
    const td_shape shape = td_graph_shape(g, x);
    const uint32_t rows = shape.dims[0] * shape.dims[1];
    const td_tensor sums = td_graph_reshape(g, td_graph_sum(g, x, 2), td_dims(rows));
    const td_tensor shares =
        td_graph_reshape(g, td_graph_mask(g, counts, shape.dims[1], TD_MASK_ALL), td_dims(rows));
    return td_graph_sum(g, td_graph_mul(g, sums, shares), 0);
}

td_status td_model_sum_losses(td_builder *b, const td_model_losses *losses, td_model_graph *out)
{
    td_graph *g = b->graph;
    td_tensor parts[TD_MODEL_TERM_COUNT];
    float weights[TD_MODEL_TERM_COUNT];
    size_t n = 0;
    for (size_t i = 0; i < TD_MODEL_TERM_COUNT; i++) {
        td_tensor part = out->terms[i];
        if (!part.id) continue;
        if (i == TD_TERM_supervision) part = td_graph_mul(g, part, out->in.supervision_weight);
        if (i == TD_TERM_guided) part = td_graph_mul(g, part, out->in.guided_weight);
        parts[n] = part;
        weights[n++] = losses->weights[i];
    }
    out->loss = td_graph_total(g, parts, weights, n);
    td_graph_output(g, out->loss, "loss");
    for (size_t i = 0; i < TD_MODEL_TERM_COUNT; i++) {
        char name[TD_MODEL_NAME_BYTES];
        snprintf(name, sizeof name, "loss.%s", term_names[i]);
        if (out->terms[i].id) td_graph_output(g, out->terms[i], name);
    }
    return td_graph_status(g);
}
