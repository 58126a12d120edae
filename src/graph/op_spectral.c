/* Spectra (ops/stft.h), depthwise convolutions, noise and pulses. The transform and the inverse one are linear:
 * each has the adjoint of the other's kind for its gradient, told apart by td_stft.inverse. Covered by
 * tests/graph/test_spectral.c. */
#include <stdio.h>

#include "graph/internal.h"
#include "ops/source.h"

/* ---------------------------------------------------------------- transforms */

enum { STFT_FROM, STFT_TABLE };

static td_status make_table(const uint32_t words[TD_INIT_WORDS], td_shape shape, float *values)
{
    (void)shape;
    td_stft_table(words[0], words[1], values);
    return TD_OK;
}

/* The constants of a transform, one state for all that have the same. */
static td_tensor find_table(td_graph *graph, const td_stft *s)
{
    char name[48];
    snprintf(name, sizeof name, "constant.stft.%u.%u", s->n_fft, s->win);
    const td_tensor known = td_graph_find(graph, name);
    if (known.id || !td_graph_is_sound(graph)) return known;
    const td_tensor made =
        td_graph_state(graph, name, td_dims((uint32_t)td_stft_table_words(s->n_fft)), TD_STATE_CONSTANT);
    td_graph_set_init(graph, made,
                      (td_init){.rule = TD_INIT_MADE, .make = make_table, .words = {s->n_fft, s->win}});
    return made;
}

static td_tensor transform(td_graph *graph, td_op_kind kind, td_tensor from, td_stft s)
{
    td_node node = {.kind = kind, .in = {from.id}, .info = {.stft = s}};
    if (!from.id || !td_graph_is_sound(graph)) return td_graph_append(graph, node);
    if (td_stft_check(&s) != TD_OK) {
        td_graph_blame(graph, &node, "%.200s", td_error_last()->message);
        return TD_NO_TENSOR;
    }
    node.in[STFT_TABLE] = find_table(graph, &s).id;
    const td_shape shape =
        kind == TD_OP_stft ? td_dims(s.items, s.frames, 2, s.n_fft / 2 + 1) : td_dims(s.items, s.samples);
    td_graph_make_output(graph, &node, 0, shape, TD_F32);
    return td_graph_append(graph, node);
}

td_tensor td_graph_stft(td_graph *graph, td_tensor signal, const td_stft_options *o)
{
    const td_shape shape = td_graph_shape(graph, signal);
    td_stft s = {.n_fft = o->n_fft,
                 .hop = o->hop,
                 .win = o->win ? o->win : o->n_fft,
                 .items = shape.dims[0],
                 .samples = shape.n_dims == 2 ? shape.dims[1] : 0};
    if (s.hop) s.frames = td_stft_frames(&s, s.samples);
    return transform(graph, TD_OP_stft, signal, s);
}

td_tensor td_graph_istft(td_graph *graph, td_tensor spectrum, const td_stft_options *o)
{
    const td_shape shape = td_graph_shape(graph, spectrum);
    td_stft s = {.n_fft = o->n_fft,
                 .hop = o->hop,
                 .win = o->win ? o->win : o->n_fft,
                 .items = shape.dims[0],
                 .frames = shape.dims[1],
                 .inverse = true};
    const bool fits = shape.n_dims == 4 && shape.dims[2] == 2 && shape.dims[3] == o->n_fft / 2 + 1;
    if (fits && s.frames) s.samples = (s.frames - 1) * s.hop + s.n_fft;
    return transform(graph, TD_OP_istft, spectrum, s);
}

static void back_transform(td_backprop *b, const td_node *node)
{
    const td_node back = {.kind = node->kind == TD_OP_stft ? TD_OP_istft : TD_OP_stft,
                          .in = {td_backprop_get(b, node->out[0]), node->in[STFT_TABLE]},
                          .info = node->info};
    td_backprop_append(b, back, node->in[STFT_FROM], 0, 0);
}

static td_stft_args stft_args(const td_recorder *r, const td_node *node)
{
    const td_span from = td_recorder_span(r, node->in[STFT_FROM]), to = td_recorder_span(r, node->out[0]);
    return (td_stft_args){.stft = node->info.stft,
                          .signal = node->kind == TD_OP_stft ? from : to,
                          .spectrum = node->kind == TD_OP_stft ? to : from,
                          .table = td_recorder_span(r, node->in[STFT_TABLE]),
                          .workspace = r->workspace};
}

static td_status record_transform(td_recorder *r, const td_node *node)
{
    const td_stft_args args = stft_args(r, node);
    return node->kind == TD_OP_stft ? td_op_stft(r->list, &args) : td_op_istft(r->list, &args);
}

static td_status measure_transform(const td_recorder *r, const td_node *node, uint64_t *bytes)
{
    (void)r;
    *bytes = 4 * td_stft_workspace(&node->info.stft, node->kind == TD_OP_istft);
    return TD_OK;
}

const td_op_row td_op_row_stft = {.required = 1,
                                  .shape = td_op_shape_given,
                                  .backward = back_transform,
                                  .record = record_transform,
                                  .workspace = measure_transform};
const td_op_row td_op_row_istft = {.required = 1,
                                   .shape = td_op_shape_given,
                                   .backward = back_transform,
                                   .record = record_transform,
                                   .workspace = measure_transform};

/* ---------------------------------------------------------------- depthwise convolution */

td_tensor td_graph_depthwise(td_graph *graph, td_tensor x, td_tensor w)
{
    return td_graph_append(graph, (td_node){.kind = TD_OP_depthwise, .in = {x.id, w.id}});
}

static void shape_depthwise(td_graph *graph, td_node *node)
{
    const td_shape x = td_graph_at(graph, node->in[0])->shape, w = td_graph_at(graph, node->in[1])->shape;
    if (x.n_dims != 3 || w.n_dims != 2 || w.dims[1] != x.dims[2]) {
        td_graph_blame(graph, node, "x is [items, frames, channels] and w [taps, channels]");
        return;
    }
    node->info.depthwise = (td_depthwise){.items = x.dims[0],
                                          .frames = x.dims[1],
                                          .channels = x.dims[2],
                                          .taps = w.dims[0],
                                          .before = w.dims[0] / 2};
    td_graph_make_output(graph, node, 0, x, TD_F32);
}

static void back_depthwise(td_backprop *b, const td_node *node)
{
    const uint32_t x = node->in[0], w = node->in[1], dy = td_backprop_get(b, node->out[0]);
    const td_depthwise *d = &node->info.depthwise;
    if (td_backprop_wants(b, w)) {
        td_node weights = {.kind = TD_OP_depthwise_back_weights, .in = {x, dy}, .info = node->info};
        td_graph_make_output(b->graph, &weights, 0, td_dims(d->items, d->taps, d->channels), TD_F32);
        td_backprop_add(b, w, td_graph_append(b->graph, weights).id);
    }
    if (td_backprop_wants(b, x))
        td_backprop_append(b, (td_node){.kind = TD_OP_depthwise_back_data, .in = {dy, w}, .info = node->info},
                           x, 0, 0);
}

static td_status record_depthwise(td_recorder *r, const td_node *node)
{
    const td_span a = td_recorder_span(r, node->in[0]), b = td_recorder_span(r, node->in[1]);
    const td_span out = td_recorder_span(r, node->out[0]);
    if (node->kind == TD_OP_depthwise) return td_op_depthwise(r->list, &node->info.depthwise, a, b, out);
    if (node->kind == TD_OP_depthwise_back_data)
        return td_op_depthwise_back_data(r->list, &node->info.depthwise, a, b, out);
    return td_op_depthwise_back_weights(r->list, &node->info.depthwise, a, b, out);
}

const td_op_row td_op_row_depthwise = {
    .required = 2, .shape = shape_depthwise, .backward = back_depthwise, .record = record_depthwise};
const td_op_row td_op_row_depthwise_back_data = {
    .required = 2, .shape = td_op_shape_given, .record = record_depthwise};
const td_op_row td_op_row_depthwise_back_weights = {
    .required = 2, .shape = td_op_shape_given, .record = record_depthwise};

/* ---------------------------------------------------------------- noise and pulses */

td_tensor td_graph_noise(td_graph *graph, td_shape shape)
{
    td_node node = {.kind = TD_OP_noise, .info = {.stream = ++graph->next_stream}};
    td_graph_make_output(graph, &node, 0, shape, TD_F32);
    return td_graph_append(graph, node);
}

static td_status record_noise(td_recorder *r, const td_node *node)
{
    return td_op_noise(r->list,
                       &(td_noise_args){.n = (uint32_t)td_shape_size(td_recorder_shape(r, node->out[0])),
                                        .seed = r->seed,
                                        .stream = node->info.stream,
                                        .step = r->step,
                                        .y = td_recorder_span(r, node->out[0])});
}

const td_op_row td_op_row_noise = {.shape = td_op_shape_given, .record = record_noise};

td_tensor td_graph_pulse(td_graph *graph, td_tensor pitch, td_tensor phase, uint32_t hop, float rate)
{
    return td_graph_append(graph, (td_node){.kind = TD_OP_pulse,
                                            .in = {pitch.id, phase.id},
                                            .info = {.pulse = {.hop = hop, .rate = rate}}});
}

static void shape_pulse(td_graph *graph, td_node *node)
{
    const td_shape pitch = td_graph_at(graph, node->in[0])->shape;
    const td_shape phase = td_graph_at(graph, node->in[1])->shape;
    if (pitch.n_dims != 2 || pitch.dims[1] < 2 || td_shape_size(phase) != pitch.dims[0]) {
        td_graph_blame(graph, node, "pitch is [items, frames], of two frames or more, and phase [items]");
        return;
    }
    td_graph_make_output(graph, node, 0, td_dims(pitch.dims[0], (pitch.dims[1] - 1) * node->info.pulse.hop),
                         TD_F32);
}

static td_status record_pulse(td_recorder *r, const td_node *node)
{
    const td_shape pitch = td_recorder_shape(r, node->in[0]);
    return td_op_pulse(r->list, &(td_pulse_args){.items = pitch.dims[0],
                                                 .frames = pitch.dims[1],
                                                 .hop = node->info.pulse.hop,
                                                 .rate = node->info.pulse.rate,
                                                 .pitch = td_recorder_span(r, node->in[0]),
                                                 .phase = td_recorder_span(r, node->in[1]),
                                                 .y = td_recorder_span(r, node->out[0])});
}

const td_op_row td_op_row_pulse = {.required = 2, .shape = shape_pulse, .record = record_pulse};
