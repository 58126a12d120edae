/* The training graphs' common part, and the losses, of the acoustic families. Every term is a mean over what
 * is valid in the whole batch. See acoustic.h and docs/model.md. Covered by tests/model/test_model_golden.c.
 */
#include "families/acoustic.h"

#include <stdio.h>

#include "base/error.h"

/* ---------------------------------------------------------------- builders */

td_acoustic_builder td_acoustic_begin(td_nn *nn, const td_build *build)
{
    td_acoustic_builder b = {.nn = nn,
                             .c = td_acoustic_get(build->config),
                             .shape = build->shape,
                             .dropout = build->dropout,
                             .weighs = build->weighs};
    nn->dropout = build->dropout ? b.c.dropout : 0;
    return b;
}

td_status td_acoustic_open(const td_model_config *config, const td_batch_shape *shape, uint64_t seed,
                           td_acoustic_builder *out)
{
    *out = (td_acoustic_builder){.c = td_acoustic_get(config), .shape = *shape};
    out->nn = &out->own;
    TD_REFUSE_IF(shape->items == 0, TD_ERR_ARGUMENT, "a batch has at least one item");
    TD_CHECK(td_model_config_check(config));
    TD_CHECK(td_acoustic_check_shape(&config->values, shape));
    return td_graph_create(seed, &out->own.graph);
}

td_status td_acoustic_close(td_acoustic_builder *b, td_status status, td_graph **graph)
{
    if (status == TD_OK) status = td_graph_status(b->own.graph);
    if (status != TD_OK) td_graph_destroy(b->own.graph);
    *graph = status == TD_OK ? b->own.graph : NULL;
    return status;
}

/* ---------------------------------------------------------------- what both decoders begin with */

static void declare_inputs(td_acoustic_builder *b, td_acoustic_common *out)
{
    td_graph *g = b->nn->graph;
    const td_batch_shape *s = &b->shape;
    out->token_ids = td_graph_input(g, "token_ids", td_dims(s->items, s->tokens), TD_U32);
    out->token_counts = td_graph_input(g, "token_counts", td_dims(s->items), TD_U32);
    out->frame_counts = td_graph_input(g, "frame_counts", td_dims(s->items), TD_U32);
    out->mel = td_graph_input(g, "mel", td_dims(s->items, s->frames, b->c.n_mels), TD_F32);
    out->speaker_inputs = td_acoustic_speaker_inputs(b);
}

/* Log-likelihoods of the prior mu [B, L, M] for y [B, T, M], -|y - mu|^2 / 2 without the share of y alone,
 * which all paths have in common; the best path. */
static td_alignment align(td_acoustic_builder *b, td_tensor mu, td_acoustic_band band,
                          const td_acoustic_common *in)
{
    td_graph *g = b->nn->graph;
    const td_shape shape = td_graph_shape(g, mu);
    const td_tensor fixed = td_graph_stop_gradient(g, mu);
    const td_tensor size =
        td_graph_reshape(g, td_graph_sum_squares(g, fixed, 2), td_dims(shape.dims[0], shape.dims[1], 1));
    td_tensor ll = td_graph_add_scaled(g, td_graph_matmul_nt(g, fixed, in->mel), size, -0.5f);
    if (band.per_distance != 0) {
        td_tensor away =
            td_graph_diagonal(g, in->token_counts, shape.dims[1], in->frame_counts, b->shape.frames);
        if (band.weight.id) away = td_graph_mul(g, away, band.weight);
        ll = td_graph_add_scaled(g, ll, away, -band.per_distance);
    }
    return td_graph_align(g, ll, in->token_counts, in->frame_counts);
}

td_tensor td_acoustic_encode(td_acoustic_builder *b, td_acoustic_band band, td_acoustic_common *out)
{
    td_graph *g = b->nn->graph;
    *out = (td_acoustic_common){0};
    declare_inputs(b, out);
    out->mask = td_nn_mask(b->nn, out->token_counts, b->shape.tokens);
    out->speaker = td_acoustic_embed_speaker(b, &out->speaker_inputs);
    out->hidden = td_acoustic_text(b, out->token_ids, out->token_counts, out->mask, out->speaker);
    const td_tensor mu = td_nn_linear(b->nn, "prior", out->hidden, b->c.n_mels);
    out->alignment = align(b, mu, band, out);
    td_graph_output(g, out->alignment.durations, "durations");
    td_graph_output(g, out->alignment.index, "index");
    td_graph_output(g, out->speaker, "speaker");
    return td_graph_loss(g, TD_LOSS_MSE, td_graph_gather(g, mu, out->alignment.index), out->mel,
                         out->frame_counts, 1);
}

/* ---------------------------------------------------------------- losses */

td_tensor td_acoustic_mel_loss(td_acoustic_builder *b, td_tensor x, td_tensor y, td_tensor counts)
{
    static const td_loss_kind kinds[] = {TD_LOSS_L1, TD_LOSS_MSE, TD_LOSS_HUBER}; /* TD_MEL_LOSSES */
    return td_graph_loss(b->nn->graph, kinds[b->c.mel_loss], x, y, counts, 1);
}

td_tensor td_acoustic_total(td_acoustic_builder *b, const td_acoustic_term *terms, size_t n)
{
    enum { MAX_TERMS = 12 };
    td_graph *g = b->nn->graph;
    td_tensor parts[MAX_TERMS] = {{0}};
    float weights[MAX_TERMS] = {0};
    td_tensor values[MAX_TERMS] = {{0}}, shares[TD_COUNT_KINDS] = {{0}};
    size_t used = 0;
    for (size_t i = 0; i < n && i < MAX_TERMS; i++) {
        td_tensor *share = &shares[terms[i].counts];
        values[i] = terms[i].value;
        if (!values[i].id) continue;
        if (b->weighs && !share->id)
            *share = td_graph_input(g, td_share_name(terms[i].counts), td_dims(1), TD_F32);
        if (b->weighs) values[i] = td_graph_mul(g, values[i], *share);
        parts[used] = terms[i].factor.id ? td_graph_mul(g, values[i], terms[i].factor) : values[i];
        weights[used++] = terms[i].weight;
    }
    const td_tensor total = td_graph_total(g, parts, weights, used);
    for (size_t i = 0; i < n && i < MAX_TERMS; i++) {
        char name[32];
        snprintf(name, sizeof name, "loss.%s", terms[i].name);
        td_graph_output(g, values[i], name);
    }
    return total;
}
