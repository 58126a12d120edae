/* Pitch and voicing of each frame: predicted from what the decoder is about to read, and heard by it, so that it
 * need not guess where harmonics lie. In training it hears the true ones. B T are items and frames. See
 * docs/model.md. Covered by tests/model/test_model_golden.c. */
#include "families/parallel/parallel.h"

#define STEEP 1e6f /* makes a step of a slope */

td_contour td_contour_predict(td_acoustic_builder *b, td_tensor x, td_tensor mask)
{
    td_graph *g = b->nn->graph;
    const td_tensor both = td_acoustic_predict(b, "contour", td_graph_mul(g, x, mask), mask, 2);
    td_contour out = {.pitch = td_graph_slice(g, both, 2, 0, 1), .voicing = td_graph_slice(g, both, 2, 1, 1)};
    out.voiced = td_graph_clamp(g, td_graph_scale(g, out.voicing, STEEP), 0, 1);
    return out;
}

td_contour td_contour_read(td_acoustic_builder *b, td_tensor hertz)
{
    td_graph *g = b->nn->graph;
    const td_tensor p = td_graph_reshape(g, hertz, td_dims(b->shape.items, b->shape.frames, 1));
    return (td_contour){.pitch = td_graph_log(g, td_graph_shift(g, td_graph_scale(g, p, 0.01f), 1)),
                        .voiced = td_graph_clamp(g, p, 0, 1)};
}

td_tensor td_contour_hear(td_acoustic_builder *b, td_tensor x, const td_contour *contour)
{
    td_graph *g = b->nn->graph;
    const td_tensor parts[] = {td_graph_mul(g, contour->pitch, contour->voiced), contour->voiced};
    const td_tensor heard = td_graph_concat(g, parts, 2, 2);
    return td_graph_add(g, x, td_nn_linear(b->nn, "decoder.contour", heard, b->c.decoder_width));
}

td_contour_losses td_contour_learn(td_acoustic_builder *b, const td_contour *predicted, td_tensor hertz,
                                   td_tensor frame_counts)
{
    td_graph *g = b->nn->graph;
    const td_contour real = td_contour_read(b, hertz);
    const td_tensor pitch = td_graph_mul(g, predicted->pitch, real.voiced);
    return (td_contour_losses){
        .pitch = td_graph_loss(g, TD_LOSS_MSE, pitch, real.pitch, frame_counts, 1),
        .voicing = td_graph_loss(g, TD_LOSS_BCE, predicted->voicing, real.voiced, frame_counts, 1)};
}

td_tensor td_contour_hertz(td_acoustic_builder *b, const td_contour *contour)
{
    td_graph *g = b->nn->graph;
    const td_tensor hertz = td_graph_scale(g, td_graph_shift(g, td_graph_exp(g, contour->pitch), -1), 100);
    return td_graph_mul(g, hertz, contour->voiced);
}
