/* See interpret.h. */
#include "interpret.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

static td_shape shape_of(const interpreter *in, uint32_t id)
{
    return in->graph->tensors[id].shape;
}

static size_t size_of(const interpreter *in, uint32_t id)
{
    return (size_t)td_shape_size(shape_of(in, id));
}

void interpreter_open(interpreter *out, const td_graph *graph)
{
    *out = (interpreter){.graph = graph, .n_nodes = graph->n_nodes};
    while (out->n_nodes > 0 && graph->nodes[out->n_nodes - 1].backward)
        out->n_nodes--;
    out->values = calloc(graph->n_tensors, sizeof *out->values);
    for (uint32_t t = 1; t < graph->n_tensors; t++)
        out->values[t] = calloc(size_of(out, t), sizeof **out->values);
}

void interpreter_close(interpreter *in)
{
    for (size_t t = 0; t < in->graph->n_tensors; t++)
        free(in->values[t]);
    free(in->values);
    *in = (interpreter){0};
}

/* ---------------------------------------------------------------- element-wise */

/* Index into a tensor of shape x of element i of a tensor of shape y that repeats it. */
static size_t repeat_index(td_shape y, td_shape x, size_t i)
{
    size_t at = 0, step = 1;
    for (size_t d = 1; d <= y.n_dims; d++) {
        const size_t place = i % y.dims[y.n_dims - d];
        i /= y.dims[y.n_dims - d];
        if (d > x.n_dims) continue;
        const size_t length = x.dims[x.n_dims - d];
        if (length > 1) at += place * step;
        step *= length;
    }
    return at;
}

static double calculate(uint32_t operation, double a, double b, double c)
{
    switch (operation) {
    case TD_CHAIN_EXP:
        return exp(a);
    case TD_CHAIN_LOG:
        return log(a);
    case TD_CHAIN_SQRT:
        return sqrt(a);
    case TD_CHAIN_TANH:
        return tanh(a);
    case TD_CHAIN_SIGMOID:
        return 1 / (1 + exp(-a));
    case TD_CHAIN_SOFTPLUS:
        return log1p(exp(-fabs(a))) + fmax(a, 0);
    case TD_CHAIN_ERF:
        return erf(a);
    case TD_CHAIN_SIN:
        return sin(a);
    case TD_CHAIN_COS:
        return cos(a);
    case TD_CHAIN_SILU:
        return a / (1 + exp(-a));
    case TD_CHAIN_GELU_TANH:
        return 0.5 * a * (1 + tanh(sqrt(2 / M_PI) * (a + 0.044715 * a * a * a)));
    case TD_CHAIN_GELU_ERF:
        return 0.5 * a * (1 + erf(a / sqrt(2.0)));
    case TD_CHAIN_LEAKY_RELU:
        return a > 0 ? a : c * a;
    case TD_CHAIN_ADD:
        return a + b;
    case TD_CHAIN_SUB:
        return a - b;
    case TD_CHAIN_MUL:
        return a * b;
    case TD_CHAIN_DIV:
        return a / b;
    case TD_CHAIN_ADD_SCALED:
        return a + c * b;
    case TD_CHAIN_MIN:
        return fmin(a, b);
    case TD_CHAIN_MAX:
        return fmax(a, b);
    default:
        abort();
    }
}

static void run_chain(const interpreter *in, const td_node *node)
{
    const td_instruction own = node->info.program.code[1];
    const td_shape shape = shape_of(in, node->out[0]);
    for (size_t i = 0; i < size_of(in, node->out[0]); i++) {
        const double a = in->values[node->in[0]][repeat_index(shape, shape_of(in, node->in[0]), i)];
        const double b = node->in[1]
                             ? in->values[node->in[1]][repeat_index(shape, shape_of(in, node->in[1]), i)]
                             : (double)own.c;
        in->values[node->out[0]][i] = calculate(own.operation, a, b, (double)own.c);
    }
}

static void run_dropout(const interpreter *in, const td_node *node)
{
    const uint32_t keep = (uint32_t)((1.0 - (double)node->info.dropout.p) * 65536 + 0.5);
    for (size_t i = 0; i < size_of(in, node->out[0]); i++) {
        uint32_t words[4];
        const uint64_t block = (uint64_t)in->step << 32 | (i / 128 * 16 + i % 16);
        const size_t half = i / 16 % 8;
        td_rng_block(in->graph->seed, node->info.dropout.stream, block, words);
        const uint32_t bits = words[half / 2] >> (half % 2 * 16) & 0xffff;
        in->values[node->out[0]][i] = bits < keep ? in->values[node->in[0]][i] * 65536.0 / keep : 0;
    }
}

/* ---------------------------------------------------------------- products */

static void run_matmul(const interpreter *in, const td_node *node)
{
    const td_matmul_info *f = &node->info.matmul;
    const bool at = f->layout == TD_GEMM_TN, bt = f->layout == TD_GEMM_NT;
    for (size_t g = 0; g < f->batch; g++) {
        const double *a = in->values[node->in[0]] + g * f->m * f->k;
        const double *b = in->values[node->in[1]] + g * f->k * f->n;
        double *c = in->values[node->out[0]] + g * f->m * f->n;
        for (size_t i = 0; i < f->m; i++) {
            for (size_t j = 0; j < f->n; j++) {
                double sum = 0;
                for (size_t k = 0; k < f->k; k++)
                    sum += a[at ? k * f->m + i : i * f->k + k] * b[bt ? j * f->k + k : k * f->n + j];
                c[i * f->n + j] = sum;
            }
        }
    }
}

static uint32_t one(uint32_t n)
{
    return n ? n : 1;
}

/* Every tap of every window once: y gathers from x, or, transposed, x spreads into y. */
static void run_conv(const interpreter *in, const td_node *node)
{
    const td_conv *c = &node->info.conv;
    uint32_t oh = 0, ow = 0;
    if (td_conv_output(c, &oh, &ow) != TD_OK) abort();
    const double *x = in->values[node->in[0]], *w = in->values[node->in[1]];
    double *y = in->values[node->out[0]];
    const uint32_t ih = one(c->in_height), iw = c->in_width, groups = one(c->groups),
                   kh = one(c->kernel_height);
    const uint32_t gi = c->in_channels / groups, go = c->out_channels / groups;
    const uint32_t sh = c->transposed ? ih : oh, sw = c->transposed ? iw : ow; /* places of windows */
    const uint32_t th = c->transposed ? oh : ih, tw = c->transposed ? ow : iw; /* what they lie over */
    for (size_t i = 0; i < size_of(in, node->out[0]); i++)
        y[i] = node->in[2] ? in->values[node->in[2]][i % c->out_channels] : 0;
    for (size_t b = 0; b < c->batch; b++)
        for (size_t h = 0; h < sh; h++)
            for (size_t v = 0; v < sw; v++)
                for (size_t p = 0; p < kh; p++)
                    for (size_t q = 0; q < c->kernel_width; q++) {
                        const long r = (long)(h * one(c->stride_height) + p * one(c->dilation_height)) -
                                       (long)c->pad_top;
                        const long s =
                            (long)(v * one(c->stride_width) + q * one(c->dilation_width)) - (long)c->pad_left;
                        if (r < 0 || s < 0 || r >= (long)th || s >= (long)tw) continue;
                        const size_t window = (b * sh + h) * sw + v,
                                     under = (b * th + (size_t)r) * tw + (size_t)s;
                        for (size_t g = 0; g < groups; g++)
                            for (size_t ci = 0; ci < gi; ci++)
                                for (size_t co = 0; co < go; co++) {
                                    const size_t tap = (g * c->kernel_width + q) * kh + p;
                                    const size_t from =
                                        (c->transposed ? window : under) * c->in_channels + g * gi + ci;
                                    const size_t to =
                                        (c->transposed ? under : window) * c->out_channels + g * go + co;
                                    const double weight = c->transposed ? w[(tap * go + co) * gi + ci]
                                                                        : w[(tap * gi + ci) * go + co];
                                    y[to] += x[from] * weight;
                                }
                    }
}

/* ---------------------------------------------------------------- norms */

static void run_norm(const interpreter *in, const td_node *node)
{
    uint32_t rows = 0, columns = 0;
    td_shape_rows(shape_of(in, node->in[0]), &rows, &columns);
    for (size_t r = 0; r < rows; r++) {
        const double *x = in->values[node->in[NORM_X]] + r * columns;
        double *y = in->values[node->out[NORM_Y]] + r * columns;
        double mean = 0, square = 0;
        for (size_t c = 0; c < columns && node->info.norm.kind == TD_NORM_LAYER; c++)
            mean += x[c] / columns;
        for (size_t c = 0; c < columns; c++)
            square += (x[c] - mean) * (x[c] - mean) / columns;
        for (size_t c = 0; c < columns; c++)
            y[c] = (x[c] - mean) / sqrt(square + (double)node->info.norm.eps) *
                       in->values[node->in[NORM_GAMMA]][c] +
                   (node->in[NORM_BETA] ? in->values[node->in[NORM_BETA]][c] : 0);
    }
}

/* Channel c of item b belongs to statistics (b, c's group), or c alone over all items. */
static void run_channel_norm(const interpreter *in, const td_node *node)
{
    const td_channel_norm_info *info = &node->info.channel_norm;
    const td_shape s = shape_of(in, node->in[0]);
    const size_t items = s.dims[0], channels = s.dims[s.n_dims - 1], size = size_of(in, node->in[0]);
    const bool grouped = info->kind == TD_NORM_GROUP;
    const size_t per_item = size / items, wide = grouped ? channels / info->groups : 1;
    const double *x = in->values[node->in[0]];
    for (size_t i = 0; i < size; i++) {
        const size_t b = i / per_item, c = i % channels;
        double mean = 0, square = 0, n = 0;
        for (int pass = 0; pass < 2; pass++) {
            for (size_t j = grouped ? b * per_item : 0; j < (grouped ? (b + 1) * per_item : size); j++) {
                if (j % channels / wide != c / wide) continue;
                if (pass == 0) {
                    mean += x[j];
                    n++;
                } else {
                    square += (x[j] - mean) * (x[j] - mean) / n;
                }
            }
            if (pass == 0) mean /= n;
        }
        if (info->kind == TD_NORM_BATCH_EVAL) {
            mean = in->values[node->in[3]][c];
            square = in->values[node->in[4]][c];
        }
        in->values[node->out[0]][i] =
            (x[i] - mean) / sqrt(square + (double)info->eps) * in->values[node->in[1]][c] +
            in->values[node->in[2]][c];
    }
}

/* Softmax of n scores in place, those marked -infinity being 0; all 0 if none is left. */
static void soften(double *x, size_t n)
{
    double most = -INFINITY, sum = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, x[i]);
    for (size_t i = 0; i < n; i++) {
        x[i] = most == -INFINITY ? 0 : exp(x[i] - most);
        sum += x[i];
    }
    for (size_t i = 0; i < n && sum > 0; i++)
        x[i] /= sum;
}

static void run_softmax(const interpreter *in, const td_node *node)
{
    const td_shape s = shape_of(in, node->in[0]);
    const td_softmax_info *info = &node->info.softmax;
    uint32_t rows = 0, columns = 0;
    td_shape_rows(s, &rows, &columns);
    for (size_t r = 0; r < rows; r++) {
        double *y = in->values[node->out[0]] + r * columns;
        for (size_t c = 0; c < columns; c++) {
            const size_t i = r * columns + c;
            y[c] = (double)info->scale * in->values[node->in[0]][i];
            if (node->in[1]) y[c] += in->values[node->in[1]][repeat_index(s, shape_of(in, node->in[1]), i)];
            if (node->in[2] && (double)c >= in->values[node->in[2]][r / (rows / s.dims[0])]) y[c] = -INFINITY;
            if (info->causal && c > r % s.dims[s.n_dims - 2] + columns - s.dims[s.n_dims - 2])
                y[c] = -INFINITY;
        }
        soften(y, columns);
    }
}

static double at3(const interpreter *in, uint32_t id, size_t b, size_t t, size_t c)
{
    const td_shape s = shape_of(in, id);
    return in->values[id][(b * s.dims[1] + t) * s.dims[2] + c];
}

static void run_attention(const interpreter *in, const td_node *node)
{
    const td_attention_shape *s = &node->info.attention.shape;
    const uint32_t *at = node->info.attention.at;
    const double scale = s->scale != 0 ? (double)s->scale : 1 / sqrt(s->head_size);
    double *w = malloc(s->keys * sizeof *w);
    for (size_t b = 0; b < s->batch; b++)
        for (size_t h = 0; h < s->heads; h++)
            for (size_t q = 0; q < s->queries; q++) {
                for (size_t k = 0; k < s->keys; k++) {
                    w[k] = 0;
                    for (size_t d = h * s->head_size; d < (h + 1) * s->head_size; d++)
                        w[k] += scale * at3(in, node->in[0], b, q, at[0] + d) *
                                at3(in, node->in[1], b, k, at[1] + d);
                    if (node->in[3] && (double)k >= in->values[node->in[3]][b]) w[k] = -INFINITY;
                    if (s->causal && k > q + s->keys - s->queries) w[k] = -INFINITY;
                }
                soften(w, s->keys);
                for (size_t d = h * s->head_size; d < (h + 1) * s->head_size; d++) {
                    double sum = 0;
                    for (size_t k = 0; k < s->keys; k++)
                        sum += w[k] * at3(in, node->in[2], b, k, at[2] + d);
                    in->values[node->out[0]][(b * s->queries + q) * s->heads * s->head_size + d] = sum;
                }
            }
    free(w);
}

/* ---------------------------------------------------------------- reductions and losses */

static void run_reduce(const interpreter *in, const td_node *node)
{
    const td_reduce_info *f = &node->info.reduce;
    for (size_t o = 0; o < f->outer; o++)
        for (size_t i = 0; i < f->inner; i++) {
            double sum = 0, most = -INFINITY;
            for (size_t a = 0; a < f->axis; a++) {
                const double x = in->values[node->in[0]][(o * f->axis + a) * f->inner + i];
                sum += f->kind == TD_REDUCE_SQUARES ? x * x : x;
                most = fmax(most, x);
            }
            if (f->kind == TD_REDUCE_MEAN) sum /= f->axis;
            in->values[node->out[0]][o * f->inner + i] = node->kind == TD_OP_max ? most : sum;
        }
}

static double lose(const td_loss_info *f, double x, double y)
{
    const double d = fabs(x - y), shape = (double)f->shape;
    switch (f->kind) {
    case TD_LOSS_L1:
        return d;
    case TD_LOSS_MSE:
        return d * d;
    case TD_LOSS_HUBER:
        return d <= shape ? d * d / 2 : shape * (d - shape / 2);
    case TD_LOSS_BCE:
        return shape * y * log1p(exp(-x)) + (1 - y) * log1p(exp(x));
    }
    abort();
}

static void run_loss(const interpreter *in, const td_node *node)
{
    const td_shape s = shape_of(in, node->in[0]);
    double sum = 0, n = 0;
    for (size_t i = 0; i < size_of(in, node->in[0]); i++) {
        const size_t b = i / ((size_t)s.dims[1] * s.dims[2]), t = i / s.dims[2] % s.dims[1];
        if ((double)t >= in->values[node->in[2]][b]) continue;
        sum += lose(&node->info.loss, in->values[node->in[0]][i], in->values[node->in[1]][i]);
        n++;
    }
    in->values[node->out[0]][0] = n > 0 ? sum / n : 0;
}

static void run_cross_entropy(const interpreter *in, const td_node *node)
{
    const double smoothing = (double)node->info.loss.shape;
    uint32_t rows = 0, classes = 0;
    double sum = 0, n = 0;
    td_shape_rows(shape_of(in, node->in[0]), &rows, &classes);
    for (size_t r = 0; r < rows; r++) {
        const double *x = in->values[node->in[0]] + r * classes;
        const double target = in->values[node->in[1]][r];
        double total = 0, mean = 0;
        if (target >= classes || target == (double)node->info.loss.ignore) continue;
        for (size_t c = 0; c < classes; c++) {
            total += exp(x[c]);
            mean += x[c] / classes;
        }
        sum += log(total) - (1 - smoothing) * x[(size_t)target] - smoothing * mean;
        n++;
    }
    in->values[node->out[0]][0] = n > 0 ? sum / n : 0;
}

/* Probability of a text over all ways along p [frames, classes]: heard[j] that j labels were heard and one was the last,
 * quiet[j] that nothing was. */
static double add_ways(const double *p, size_t frames, size_t classes, const double *labels, size_t count)
{
    double *heard = calloc(2 * (count + 1), sizeof *heard), *quiet = heard + count + 1;
    quiet[0] = 1;
    for (size_t t = 0; t < frames; t++, p += classes)
        for (size_t j = count + 1; j-- > 0;) {
            const bool repeats = j > 1 && labels[j - 1] == labels[j - 2];
            const double from_label = j > 1 && !repeats ? heard[j - 1] : 0;
            const double now = j > 0 ? (heard[j] + quiet[j - 1] + from_label) * p[(size_t)labels[j - 1]] : 0;
            quiet[j] = (quiet[j] + heard[j]) * p[0];
            heard[j] = now;
        }
    const double sum = heard[count] + quiet[count];
    free(heard);
    return sum;
}

static void run_ctc(const interpreter *in, const td_node *node)
{
    const td_shape s = shape_of(in, node->in[0]);
    const size_t items = s.dims[0], frames = s.dims[1], classes = s.dims[2], edge = node->info.loss.ignore;
    const size_t tokens = shape_of(in, node->in[1]).dims[1];
    const double *lengths = in->values[node->in[2]];
    double *p = calloc(frames * classes, sizeof *p), sum = 0, n = 0;
    for (size_t b = 0; b < items; b++) {
        const size_t count = (size_t)lengths[b] > 2 * edge ? (size_t)lengths[b] - 2 * edge : 0;
        for (size_t t = 0; t < frames; t++) {
            const double *x = in->values[node->in[0]] + (b * frames + t) * classes;
            double total = 0;
            for (size_t c = 0; c < classes; c++)
                total += exp(x[c]);
            for (size_t c = 0; c < classes; c++)
                p[t * classes + c] = exp(x[c]) / total;
        }
        const double *labels = in->values[node->in[1]] + b * tokens + edge;
        const double ways = add_ways(p, (size_t)lengths[items + b], classes, labels, count);
        sum -= ways > 0 ? log(ways) : 0;
        n += lengths[b];
    }
    in->values[node->out[0]][0] = sum / n;
    free(p);
}

/* ---------------------------------------------------------------- moves */

static void to_place(td_shape s, size_t i, size_t place[4])
{
    for (size_t d = s.n_dims; d-- > 0; i /= s.dims[d])
        place[d] = i % s.dims[d];
}

static size_t to_index(td_shape s, const size_t place[4])
{
    size_t i = 0;
    for (size_t d = 0; d < s.n_dims; d++)
        i = i * s.dims[d] + place[d];
    return i;
}

static void run_permute(const interpreter *in, const td_node *node)
{
    const td_shape xs = shape_of(in, node->in[0]), ys = shape_of(in, node->out[0]);
    for (size_t i = 0; i < size_of(in, node->out[0]); i++) {
        size_t from[4], to[4];
        to_place(ys, i, to);
        for (size_t d = 0; d < ys.n_dims; d++)
            from[node->info.move.first[d]] = to[d];
        in->values[node->out[0]][i] = in->values[node->in[0]][to_index(xs, from)];
    }
}

/* slice: y at p = x at p + first; pad: y at p + first = x at p. */
static void run_cut_or_pad(const interpreter *in, const td_node *node)
{
    const bool pads = node->kind == TD_OP_pad;
    const uint32_t inner = pads ? node->in[0] : node->out[0], outer = pads ? node->out[0] : node->in[0];
    double *y = in->values[node->out[0]];
    for (size_t i = 0; pads && i < size_of(in, outer); i++)
        y[i] = (double)node->info.move.value;
    for (size_t i = 0; i < size_of(in, inner); i++) {
        size_t place[4];
        to_place(shape_of(in, inner), i, place);
        for (size_t d = 0; d < shape_of(in, inner).n_dims; d++)
            place[d] += node->info.move.first[d];
        const size_t j = to_index(shape_of(in, outer), place);
        y[pads ? j : i] = in->values[node->in[0]][pads ? i : j];
    }
}

static void run_concat(const interpreter *in, const td_node *node)
{
    size_t start = 0;
    for (size_t k = 0; k < TD_NODE_INPUTS && node->in[k]; k++) {
        const td_shape s = shape_of(in, node->in[k]);
        for (size_t i = 0; i < size_of(in, node->in[k]); i++) {
            size_t place[4];
            to_place(s, i, place);
            place[node->info.axis] += start;
            in->values[node->out[0]][to_index(shape_of(in, node->out[0]), place)] =
                in->values[node->in[k]][i];
        }
        start += s.dims[node->info.axis];
    }
}

static void run_gather(const interpreter *in, const td_node *node)
{
    const td_shape s = shape_of(in, node->in[0]);
    const size_t columns = s.dims[s.n_dims - 1], rows = s.dims[s.n_dims - 2];
    const size_t count = size_of(in, node->in[1]), per_item = s.n_dims == 2 ? count : count / s.dims[0];
    for (size_t r = 0; r < count; r++) {
        const double index = in->values[node->in[1]][r];
        for (size_t c = 0; c < columns; c++)
            in->values[node->out[0]][r * columns + c] =
                index < (double)rows
                    ? in->values[node->in[0]][(r / per_item * rows + (size_t)index) * columns + c]
                    : 0;
    }
}

static void run_view(const interpreter *in, const td_node *node)
{
    if (node->info.view.stops && in->has_run) return;
    memcpy(in->values[node->out[0]], in->values[node->in[0]] + node->info.view.offset,
           size_of(in, node->out[0]) * sizeof(double));
}

/* ---------------------------------------------------------------- spectra */

static double window_at(const td_stft *s, uint32_t n)
{
    const uint32_t first = (s->n_fft - s->win) / 2;
    return n < first || n >= first + s->win ? 0 : pow(sin(M_PI * (n - first) / s->win), 2);
}

/* The sum of windows squared at each sample, at least 1e-3. */
static double *powers_of(const td_stft *s)
{
    double *power = calloc(s->samples, sizeof *power);
    for (uint32_t t = 0; t < s->frames; t++)
        for (uint32_t n = 0; n < s->n_fft; n++)
            power[t * s->hop + n] += pow(window_at(s, n), 2);
    for (uint32_t i = 0; i < s->samples; i++)
        power[i] = fmax(power[i], 1e-3);
    return power;
}

/* Cosines of all turns of a transform. */
static double *turns_of(const td_stft *s)
{
    double *turns = calloc(s->n_fft, sizeof *turns);
    for (uint32_t i = 0; i < s->n_fft; i++)
        turns[i] = cos(2 * M_PI * i / s->n_fft);
    return turns;
}

static void run_stft(const interpreter *in, const td_node *node)
{
    const td_stft *s = &node->info.stft;
    const uint32_t bins = s->n_fft / 2 + 1;
    const double *x = in->values[node->in[0]];
    double *y = in->values[node->out[0]], *turns = turns_of(s);
    for (uint32_t row = 0; row < s->items * s->frames; row++)
        for (uint32_t k = 0; k < bins; k++) {
            double re = 0, im = 0;
            for (uint32_t n = 0; n < s->n_fft; n++) {
                const uint32_t turn = k * n % s->n_fft;
                const double v =
                    window_at(s, n) * x[row / s->frames * s->samples + row % s->frames * s->hop + n];
                re += v * turns[turn];
                im += v * turns[(turn + s->n_fft / 4) % s->n_fft];
            }
            y[(size_t)2 * row * bins + k] = re;
            y[((size_t)2 * row + 1) * bins + k] = im;
        }
    free(turns);
}

static void run_istft(const interpreter *in, const td_node *node)
{
    const td_stft *s = &node->info.stft;
    const uint32_t bins = s->n_fft / 2 + 1;
    const double *x = in->values[node->in[0]];
    double *y = in->values[node->out[0]], *turns = turns_of(s), *power = powers_of(s);
    memset(y, 0, (size_t)s->items * s->samples * sizeof *y);
    for (uint32_t row = 0; row < s->items * s->frames; row++)
        for (uint32_t n = 0; n < s->n_fft; n++) {
            const uint32_t at = row % s->frames * s->hop + n;
            double sum = 0;
            for (uint32_t k = 0; k < bins; k++) {
                const uint32_t turn = k * n % s->n_fft;
                const double re = x[(size_t)2 * row * bins + k], im = x[((size_t)2 * row + 1) * bins + k];
                const bool is_edge = k == 0 || k + 1 == bins;
                sum += (is_edge ? 1 : 2) * re * turns[turn];
                if (!is_edge) sum += 2 * im * turns[(turn + s->n_fft / 4) % s->n_fft];
            }
            y[row / s->frames * s->samples + at] += window_at(s, n) * sum / s->n_fft / power[at];
        }
    free(turns);
    free(power);
}

static void run_depthwise(const interpreter *in, const td_node *node)
{
    const td_depthwise *d = &node->info.depthwise;
    const double *x = in->values[node->in[0]], *w = in->values[node->in[1]];
    double *y = in->values[node->out[0]];
    for (uint32_t i = 0; i < d->items * d->frames * d->channels; i++) {
        const uint32_t c = i % d->channels, t = i / d->channels % d->frames;
        y[i] = 0;
        for (uint32_t j = 0; j < d->taps; j++) {
            const int64_t other = (int64_t)t + j - d->taps / 2;
            if (other >= 0 && other < d->frames)
                y[i] += w[j * d->channels + c] * x[(int64_t)i + (other - t) * (int64_t)d->channels];
        }
    }
}

static void run_noise(const interpreter *in, const td_node *node)
{
    for (size_t i = 0; i < size_of(in, node->out[0]); i++) {
        uint32_t words[4];
        const size_t place = i / 16 % 4;
        td_rng_block(in->graph->seed, node->info.stream, (uint64_t)in->step << 32 | (i / 64 * 16 + i % 16),
                     words);
        const double size = sqrt(-2 * log(((words[place / 2 * 2] >> 8) + 1) * 0x1p-24));
        const double turn = 2 * M_PI * (words[place / 2 * 2 + 1] >> 8) * 0x1p-24;
        in->values[node->out[0]][i] = size * (place % 2 ? sin(turn) : cos(turn));
    }
}

void interpreter_run(interpreter *in)
{
    static void (*const table[TD_OP_KINDS])(const interpreter *, const td_node *) = {
        [TD_OP_chain] = run_chain,      [TD_OP_dropout] = run_dropout,
        [TD_OP_matmul] = run_matmul,    [TD_OP_conv] = run_conv,
        [TD_OP_norm] = run_norm,        [TD_OP_channel_norm] = run_channel_norm,
        [TD_OP_softmax] = run_softmax,  [TD_OP_attention] = run_attention,
        [TD_OP_reduce] = run_reduce,    [TD_OP_max] = run_reduce,
        [TD_OP_view] = run_view,        [TD_OP_permute] = run_permute,
        [TD_OP_slice] = run_cut_or_pad, [TD_OP_pad] = run_cut_or_pad,
        [TD_OP_concat] = run_concat,    [TD_OP_gather] = run_gather,
        [TD_OP_loss] = run_loss,        [TD_OP_cross_entropy] = run_cross_entropy,
        [TD_OP_stft] = run_stft,        [TD_OP_istft] = run_istft,
        [TD_OP_noise] = run_noise,      [TD_OP_depthwise] = run_depthwise,
        [TD_OP_ctc] = run_ctc,
    };
    for (size_t n = 0; n < in->n_nodes; n++)
        table[in->graph->nodes[n].kind](in, &in->graph->nodes[n]);
    in->has_run = true;
}
