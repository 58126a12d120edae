/* The table of features (loader.h): what each is called, how it is shaped and who makes it. Choosing,
 * placing, describing and writing all walk over the rows that are wanted. Covered by
 * tests/data/test_loader.c. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "data/loader_internal.h"
#include "text/symbols.h"

enum { BIND_WORDS = 64 }; /* the largest alignment a device asks for */

/* ---------------------------------------------------------------- the table */

static const td_block_row *find_row(const td_loader *loader, const td_host_slot *slot, uint32_t item)
{
    return &loader->settings.dataset->view.rows[slot->items[item].row];
}

static void write_token_count(const td_loader *loader, const td_host_slot *slot, uint32_t item, uint32_t *to)
{
    *to = find_row(loader, slot, item)->n_tokens;
}

static void write_frame_count(const td_loader *loader, const td_host_slot *slot, uint32_t item, uint32_t *to)
{
    (void)loader;
    *to = slot->items[item].n_frames;
}

static void write_speaker(const td_loader *loader, const td_host_slot *slot, uint32_t item, uint32_t *to)
{
    *to = find_row(loader, slot, item)->speaker;
}

static void write_reference_count(const td_loader *loader, const td_host_slot *slot, uint32_t item,
                                  uint32_t *to)
{
    (void)loader;
    *to = slot->items[item].n_reference_frames;
}

static void write_tokens(const td_loader *loader, const td_host_slot *slot, uint32_t item, uint32_t *to)
{
    const uint32_t n = find_row(loader, slot, item)->n_tokens;
    memcpy(to, td_dataset_tokens(loader->settings.dataset, slot->items[item].row), n * sizeof *to);
    for (uint32_t i = n; i < slot->shape.tokens; ++i)
        to[i] = TD_SYMBOL_PAD;
}

/* The crop as it lies in the host's batch: what the front end reads too. */
static void write_wave(const td_loader *loader, const td_host_slot *slot, uint32_t item, uint32_t *to)
{
    const size_t samples = (size_t)(slot->shape.frames - 1) * loader->config.hop_samples;
    memcpy(to, slot->pcm + item * slot->stride, samples * sizeof *to);
}

static void write_wave_count(const td_loader *loader, const td_host_slot *slot, uint32_t item, uint32_t *to)
{
    *to = slot->head[loader->ranges + 2 * (size_t)item + 1];
}

static void write_range(const td_loader *loader, const td_host_slot *slot, uint32_t item, uint32_t *to)
{
    (void)loader;
    memcpy(to, slot->items[item].slice, sizeof slot->items[item].slice);
}

static bool cut_predicted(const td_loader *loader, const td_host_slot *slot, uint32_t item, float *to,
                          uint32_t frames)
{
    const td_load_item *from = &slot->items[item];
    return td_predictions_cut(loader->settings.predictions, from->row, from->first_frame, frames,
                              td_mel_pad_value(&loader->config), to);
}

static void write_predicted(const td_loader *loader, const td_host_slot *slot, uint32_t item, uint32_t *to)
{
    cut_predicted(loader, slot, item, (float *)to, slot->shape.frames);
}

static void write_is_predicted(const td_loader *loader, const td_host_slot *slot, uint32_t item, uint32_t *to)
{
    const float known = cut_predicted(loader, slot, item, NULL, 0) ? 1 : 0;
    memcpy(to, &known, sizeof known);
}

static void write_latents(const td_loader *loader, const td_host_slot *slot, uint32_t item, uint32_t *to)
{
    const td_load_item *from = &slot->items[item];
    td_predictions_cut(loader->settings.predictions, from->row, from->first_frame, slot->shape.frames, 0,
                       (float *)to);
}

static void write_vector(const td_loader *loader, const td_host_slot *slot, uint32_t item, uint32_t *to)
{
    td_predictions_get_vector(loader->settings.predictions, slot->items[item].row, (float *)to);
}

#define B TD_AXIS_ITEMS
#define T TD_AXIS_FRAMES
static const td_feature_row TABLE[] = {
    {"token_ids", TD_U32, {B, TD_AXIS_TOKENS}, TD_MAKER_HOST, write_tokens, NULL, NULL},
    {"token_counts", TD_U32, {B}, TD_MAKER_HOST, write_token_count, NULL, NULL},
    {"frame_counts", TD_U32, {B}, TD_MAKER_HOST, write_frame_count, NULL, NULL},
    {"speakers", TD_U32, {B}, TD_MAKER_HOST, write_speaker, NULL, NULL},
    {"mel", TD_F32, {B, T, TD_AXIS_BANDS}, TD_MAKER_FRONT_END, NULL, NULL, NULL},
    {"energy", TD_F32, {B, T}, TD_MAKER_FRONT_END, NULL, NULL, NULL},
    {"pitch", TD_F32, {B, T}, TD_MAKER_FRONT_END, NULL, NULL, NULL},
    {"reference_mel", TD_F32, {B, TD_AXIS_REFERENCE, TD_AXIS_BANDS}, TD_MAKER_REFERENCE, NULL, NULL, NULL},
    {"reference_counts", TD_U32, {B}, TD_MAKER_HOST, write_reference_count, NULL, NULL},
    {"text_ids", TD_U32, {B, TD_AXIS_TOKENS}, TD_MAKER_HOST, write_tokens, NULL, NULL},
    {"text_counts", TD_U32, {B}, TD_MAKER_HOST, write_token_count, NULL, NULL},
    {"wave_counts", TD_U32, {B}, TD_MAKER_HOST, write_wave_count, NULL, NULL},
    {"cond_range", TD_U32, {B, TD_AXIS_RANGE}, TD_MAKER_HOST, write_range, NULL, NULL},
    {"wave", TD_F32, {B, TD_AXIS_SAMPLES}, TD_MAKER_HOST, write_wave, NULL, NULL},
    {"predicted_mel", TD_F32, {B, T, TD_AXIS_BANDS}, TD_MAKER_HOST, write_predicted, NULL, NULL},
    {"is_predicted", TD_F32, {B}, TD_MAKER_HOST, write_is_predicted, NULL, NULL},
    {"latents", TD_F32, {B, T, TD_AXIS_LATENT}, TD_MAKER_HOST, write_latents, NULL, NULL},
    {"speaker_vector", TD_F32, {B, TD_AXIS_VECTOR}, TD_MAKER_HOST, write_vector, NULL, NULL},
};
#undef B
#undef T
enum { TABLE_ROWS = sizeof TABLE / sizeof TABLE[0] };

/* ---------------------------------------------------------------- choosing */

static const td_feature_row *find_feature(const td_feature_row *rows, size_t n, const char *name)
{
    for (size_t i = 0; i < n; ++i)
        if (strcmp(rows[i].name, name) == 0) return &rows[i];
    return NULL;
}

static td_status add_row(td_feature_row rows[TD_LOADER_MAX_ROWS], size_t *n, td_feature_row row,
                         const char *name, const char *ending)
{
    const int length = snprintf(row.name, sizeof row.name, "%s%s", name, ending);
    if (length >= TD_FEATURE_NAME_BYTES || find_feature(rows, *n, row.name) != NULL)
        return TD_FAIL(TD_ERR_ARGUMENT, "the name '%s%s' of a feature is too long or taken", name, ending);
    if (*n == TD_LOADER_MAX_ROWS)
        return TD_FAIL(TD_ERR_LIMIT, "there are more than %d features", TD_LOADER_MAX_ROWS);
    rows[(*n)++] = row;
    return TD_OK;
}

/* The table, and what the settings add to it. */
static td_status list_rows(const td_loader_settings *s, td_feature_row rows[TD_LOADER_MAX_ROWS], size_t *n)
{
    memcpy(rows, TABLE, sizeof TABLE);
    *n = TABLE_ROWS;
    for (size_t i = 0; i < s->n_front_ends; ++i) {
        const td_mel_config *config = td_mel_get_config(s->front_ends[i].mel);
        const uint32_t rate = td_mel_get_config(s->mel)->rate;
        TD_REFUSE_IF(config->rate != rate, TD_ERR_ARGUMENT,
                     "the front end '%s' is for %u samples a second, but recordings have %u",
                     s->front_ends[i].name, config->rate, rate);
        const td_feature_row frames = {.dtype = TD_F32,
                                       .axes = {TD_AXIS_ITEMS, TD_AXIS_FRAMES, TD_AXIS_BANDS},
                                       .maker = TD_MAKER_FURTHER,
                                       .config = config};
        const td_feature_row counts = {
            .dtype = TD_U32, .axes = {TD_AXIS_ITEMS}, .maker = TD_MAKER_HOST, .config = config};
        TD_CHECK(add_row(rows, n, frames, s->front_ends[i].name, ""));
        TD_CHECK(add_row(rows, n, counts, s->front_ends[i].name, "_counts"));
    }
    for (size_t i = 0; i < s->n_parts; ++i) {
        const td_feature_row row = {.maker = TD_MAKER_PART, .part = &s->parts[i]};
        TD_CHECK(add_row(rows, n, row, s->parts[i].name, ""));
    }
    return TD_OK;
}

bool td_loader_knows(const td_loader_settings *settings, const char *name)
{
    td_feature_row rows[TD_LOADER_MAX_ROWS];
    size_t n;
    return list_rows(settings, rows, &n) == TD_OK && find_feature(rows, n, name) != NULL;
}

static td_status refuse_name(const td_loader *loader, const char *name)
{
    char known[384];
    size_t used = 0;
    for (size_t i = 0; i < loader->n_rows && used < sizeof known; ++i)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "",
                                 loader->rows[i].name);
    return TD_FAIL(TD_ERR_ARGUMENT, "no feature is called '%s'; there are %s", name, known);
}

static td_status mark_wanted(const td_loader *loader, const char *const *names, size_t n, bool *is_wanted)
{
    for (size_t i = 0; i < n; ++i) {
        const td_feature_row *row = find_feature(loader->rows, loader->n_rows, names[i]);
        if (row == NULL) TD_CHECK(refuse_name(loader, names[i]));
        is_wanted[row - loader->rows] = true;
    }
    return TD_OK;
}

static td_status check_predictions(const td_loader *loader)
{
    static const char *const NAMES[] = {"predicted_mel", "is_predicted", "latents", "speaker_vector"};
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; ++i)
        TD_REFUSE_IF(td_loader_wants(loader, NAMES[i]) &&
                         (loader->settings.predictions == NULL || loader->settings.crop_frames == 0),
                     TD_ERR_ARGUMENT, "'%s' is made of crops alone, from what a voice predicts", NAMES[i]);
    return TD_OK;
}

td_status td_loader_choose_features(td_loader *loader)
{
    size_t n_kept = 0;
    bool is_wanted[TD_LOADER_MAX_ROWS] = {0}, is_inner[TD_LOADER_MAX_ROWS] = {0};
    TD_CHECK(list_rows(&loader->settings, loader->rows, &loader->n_rows));
    TD_CHECK(mark_wanted(loader, loader->settings.features, loader->settings.n_features, is_wanted));
    TD_CHECK(
        mark_wanted(loader, loader->settings.inner_features, loader->settings.n_inner_features, is_inner));
    for (size_t i = 0; i < loader->n_rows; ++i) {
        const td_feature_row *row = &loader->rows[i];
        if (!is_wanted[i] && !is_inner[i]) continue;
        TD_REFUSE_IF(loader->n_features == TD_BATCH_FEATURES, TD_ERR_LIMIT,
                     "a batch has no room for more than %d features", TD_BATCH_FEATURES);
        td_loader_feature *feature = &loader->features[loader->n_features++];
        *feature = (td_loader_feature){.row = row, .is_inner = !is_wanted[i]};
        if (row->part != NULL && row->part->kept != NULL && n_kept < TD_LOADER_KEPT) feature->kept = ++n_kept;
        TD_REFUSE_IF(row->maker == TD_MAKER_FRONT_END && !td_loader_wants(loader, "mel"), TD_ERR_ARGUMENT,
                     "'%s' is made along with 'mel', which is not wanted", row->name);
    }
    TD_REFUSE_IF(td_loader_wants(loader, "wave") && loader->settings.crop_frames == 0, TD_ERR_ARGUMENT,
                 "'wave' is made of crops alone, not of whole recordings");
    TD_CHECK(check_predictions(loader));
    TD_REFUSE_IF(td_loader_wants(loader, "cond_range") && loader->settings.slice.most == 0, TD_ERR_ARGUMENT,
                 "'cond_range' is of slices, but references are other recordings");
    TD_REFUSE_IF(td_loader_wants(loader, "reference_mel") && loader->settings.crop_frames > 0,
                 TD_ERR_ARGUMENT, "crops of recordings have no references");
    TD_REFUSE_IF(loader->n_features == 0, TD_ERR_ARGUMENT, "a loader needs at least one feature to make");
    return TD_OK;
}

bool td_loader_wants(const td_loader *loader, const char *name)
{
    for (size_t i = 0; i < loader->n_features; ++i)
        if (strcmp(loader->features[i].row->name, name) == 0) return true;
    return false;
}

/* ---------------------------------------------------------------- shapes and places */

static td_shape find_shape(const td_loader *loader, const td_feature_row *row, const td_batch_shape *shape)
{
    if (row->maker == TD_MAKER_PART) {
        const td_part_plan *made = td_loader_find_part(loader, row->part, shape);
        return td_graph_shape(made->graph, made->output);
    }
    const td_mel_config *config = row->config != NULL ? row->config : &loader->config;
    const uint64_t samples = (uint64_t)shape->frames * loader->config.hop_samples - 1; /* at most */
    const td_predictions *predictions = loader->settings.predictions;
    const uint32_t sizes[] = {[TD_AXIS_ITEMS] = shape->items,
                              [TD_AXIS_TOKENS] = shape->tokens,
                              [TD_AXIS_FRAMES] = td_mel_frames(config, samples),
                              [TD_AXIS_REFERENCE] = shape->reference_frames,
                              [TD_AXIS_BANDS] = config->n_mels,
                              [TD_AXIS_SAMPLES] = (shape->frames - 1) * loader->config.hop_samples,
                              [TD_AXIS_RANGE] = 2,
                              [TD_AXIS_LATENT] = predictions ? td_predictions_width(predictions) : 0,
                              [TD_AXIS_VECTOR] = predictions ? td_predictions_vector_width(predictions) : 0};
    td_shape out = {.n_dims = 0};
    for (size_t i = 0; i < 3 && row->axes[i] != TD_AXIS_END; ++i)
        out.dims[out.n_dims++] = sizes[row->axes[i]];
    return out;
}

static td_dtype find_dtype(const td_loader *loader, const td_feature_row *row, const td_batch_shape *shape)
{
    if (row->maker != TD_MAKER_PART) return row->dtype;
    const td_part_plan *made = td_loader_find_part(loader, row->part, shape);
    return td_graph_dtype(made->graph, made->output);
}

uint64_t td_loader_count_words(const td_loader *loader, const td_feature_row *row,
                               const td_batch_shape *shape)
{
    return td_shape_size(find_shape(loader, row, shape));
}

static size_t take_words(td_loader *loader, uint64_t words)
{
    const size_t at = loader->head_words;
    loader->head_words += td_round_up(words, BIND_WORDS);
    return at;
}

/* Numbers of items first, then what has further axes: only what a batch uses of that goes up. */
void td_loader_lay_out(td_loader *loader)
{
    loader->ranges = take_words(loader, 2 * (uint64_t)loader->largest.items);
    loader->reference_ranges = take_words(loader, 2 * (uint64_t)loader->largest.items);
    for (int has_axes = 0; has_axes < 2; ++has_axes) {
        for (size_t i = 0; i < loader->n_features; ++i) {
            td_loader_feature *f = &loader->features[i];
            if (f->row->maker == TD_MAKER_HOST && (f->row->axes[1] != TD_AXIS_END) == has_axes)
                f->at = take_words(loader, td_loader_count_words(loader, f->row, &loader->largest));
        }
    }
}

void td_loader_describe(const td_loader *loader, const td_device_slot *device, td_batch *batch)
{
    batch->n_features = loader->n_features;
    for (size_t i = 0; i < loader->n_features; ++i) {
        const td_loader_feature *f = &loader->features[i];
        const td_shape shape = find_shape(loader, f->row, &batch->shape);
        td_span span = {.bytes = 4 * td_shape_size(shape)};
        if (device != NULL)
            span = f->row->maker == TD_MAKER_HOST ? td_span_part(device->head, 4 * f->at, span.bytes)
                                                  : td_span_part(device->made[i], 0, span.bytes);
        batch->features[i] = (td_feature){.name = f->row->name,
                                          .dtype = find_dtype(loader, f->row, &batch->shape),
                                          .shape = shape,
                                          .span = span,
                                          .is_inner = f->is_inner};
    }
}

/* ---------------------------------------------------------------- a host batch */

void td_loader_write_item(const td_loader *loader, td_host_slot *slot, uint32_t item)
{
    for (size_t i = 0; i < loader->n_features; ++i) {
        const td_loader_feature *f = &loader->features[i];
        if (f->row->maker != TD_MAKER_HOST) continue;
        const size_t words = td_loader_count_words(loader, f->row, &slot->shape) / slot->shape.items;
        uint32_t *to = slot->head + f->at + item * words;
        if (f->row->write != NULL)
            f->row->write(loader, slot, item, to);
        else
            *to = td_mel_frames(f->row->config, slot->head[loader->ranges + 2 * (size_t)item + 1]);
    }
}

float *td_loader_cached(const td_loader *loader, const td_host_slot *slot, const char *name, uint32_t item)
{
    float *at = slot->mel;
    for (size_t i = 0; i < loader->n_features; ++i) {
        const td_feature_row *row = loader->features[i].row;
        if (row->maker != TD_MAKER_FRONT_END) continue;
        const size_t words = td_loader_count_words(loader, row, &slot->shape);
        if (strcmp(row->name, name) == 0) return at + item * (words / slot->shape.items);
        at += words;
    }
    return NULL;
}
