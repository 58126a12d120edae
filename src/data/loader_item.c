/* Filling a host batch (loader.h): a row's mel from the cache or its samples from disk, tokens, and the
 * samples of its reference. Covered by tests/data/test_loader.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audio/decode.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"
#include "data/loader_internal.h"

enum { MAX_TRIES = 16 };

#define CROP_STREAM UINT64_C(0x63726f7000000000) /* and the epoch */

/* ---------------------------------------------------------------- lengths */

static uint64_t expect_samples(const td_dataset *dataset, uint32_t row, const td_mel_config *config)
{
    const td_clip *clip = &dataset->view.rows[row].clip;
    if (clip->rate_hz == 0) return 0;
    return (clip->frames * config->rate + clip->rate_hz - 1) / clip->rate_hz;
}

void td_loader_lengths(const td_dataset *dataset, const uint32_t *rows, size_t n_rows,
                       const td_mel_config *config, td_sampler_row *out)
{
    for (size_t i = 0; i < n_rows; ++i)
        out[i] = (td_sampler_row){.row = rows[i],
                                  .frames = td_mel_frames(config, expect_samples(dataset, rows[i], config)),
                                  .tokens = dataset->view.rows[rows[i]].n_tokens};
}

static int compare_lengths(const void *a, const void *b)
{
    const td_sampler_row *x = a, *y = b;
    if (x->frames != y->frames) return x->frames < y->frames ? -1 : 1;
    if (x->tokens != y->tokens) return x->tokens < y->tokens ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

td_status td_loader_sort_rows(td_loader *loader)
{
    const td_loader_settings *s = &loader->settings;
    TD_CHECK(TD_NEW_ARRAY(&loader->lengths, s->n_rows + 1));
    TD_CHECK(TD_NEW_ARRAY(&loader->length_at, s->dataset->view.n_rows + 1));
    TD_CHECK(TD_NEW_ARRAY(&loader->is_bad, s->dataset->view.n_rows + 1));
    td_loader_lengths(s->dataset, s->rows, s->n_rows, &loader->config, loader->lengths);
    qsort(loader->lengths, s->n_rows, sizeof *loader->lengths, compare_lengths);
    for (size_t i = 0; i < s->n_rows; ++i)
        loader->length_at[loader->lengths[i].row] = (uint32_t)i;
    return TD_OK;
}

/* ---------------------------------------------------------------- recordings */

static td_status note_failure(td_load_item *item, uint32_t row, const char *message)
{
    td_load_failure *failure, **link = &item->failures;
    const td_status status = TD_NEW(&failure);
    if (status != TD_OK) return status;
    failure->row = row;
    snprintf(failure->message, sizeof failure->message, "%s", message);
    while (*link != NULL)
        link = &(*link)->next;
    *link = failure;
    return TD_OK;
}

static td_status refuse_length(const char *path, const char *found, uint64_t expected)
{
    return TD_FAIL(TD_ERR_FORMAT, "%s: %s samples, but %llu when it was prepared; run `tandem prepare` again",
                   path, found, (unsigned long long)expected);
}

/* To `into`, which has room for `room` samples, or to memory of its own if that is NULL. *is_bad: the
 * recording is at fault, and the reason is this thread's error. */
static td_status decode_row(td_loader *loader, uint32_t row, float *into, size_t room, td_audio *out,
                            bool *is_bad)
{
    const td_dataset *dataset = loader->settings.dataset;
    const uint64_t expected = expect_samples(dataset, row, &loader->config);
    td_decode_options options = {.rate = loader->config.rate,
                                 .max_s = (double)expected / loader->config.rate + 1,
                                 .room = room,
                                 .finite = true};
    char path[TD_FILE_PATH_BYTES];
    options.into = into;
    *is_bad = false;
    td_status status = td_dataset_clip_path(dataset, row, path);
    if (status != TD_OK) return status;
    const uint64_t start_ns = td_clock_ns();
    status = td_audio_decode(path, &options, out);
    const uint64_t spent_ns = td_clock_ns() - start_ns;
    if (status == TD_OK) {
        const uint64_t hop = loader->config.hop_samples;
        if (out->count + hop < expected || out->count > expected + hop) {
            char found[24];
            snprintf(found, sizeof found, "%zu", out->count);
            status = refuse_length(path, found, expected);
        }
        if (status != TD_OK) td_audio_free(out);
    } else if (status == TD_ERR_LIMIT) {
        status = refuse_length(path, "more", expected);
    }
    *is_bad = status != TD_OK && status != TD_ERR_HOST_MEMORY;
    pthread_mutex_lock(&loader->lock);
    ++loader->stats.n_decoded;
    loader->stats.decode_ns += spent_ns;
    pthread_mutex_unlock(&loader->lock);
    return status;
}

/* The row at `distance` steps in the order of length: shorter ones first, then longer ones that fit. */
static bool find_replacement(const td_loader *loader, const td_batch_shape *shape, uint32_t row,
                             uint32_t *turn, uint32_t *out)
{
    const uint32_t at = loader->length_at[row];
    while (++*turn < loader->settings.n_rows) {
        const uint32_t next = *turn <= at ? at - *turn : *turn;
        const td_sampler_row *found = &loader->lengths[next];
        if (found->frames > shape->frames) return false;
        *out = found->row;
        if (found->tokens <= shape->tokens) return true;
    }
    return false;
}

/* ---------------------------------------------------------------- an item */

static void pad(float *values, size_t used, size_t all, float value)
{
    for (size_t i = used; values != NULL && i < all; ++i)
        values[i] = value;
}

static bool read_cached(td_loader *loader, td_host_slot *slot, uint32_t index, td_load_item *item)
{
    const td_loader_settings *s = &loader->settings;
    const size_t frames = slot->shape.frames, bands = loader->config.n_mels;
    if (slot->mel == NULL) return false;
    float *mel = td_loader_cached(loader, slot, "mel", index);
    float *energy = td_loader_cached(loader, slot, "energy", index);
    float *pitch = td_loader_cached(loader, slot, "pitch", index);
    if (!td_mel_cache_read(s->cache, item->row, slot->shape.frames, mel, energy, pitch, &item->n_frames))
        return false;
    pad(mel, item->n_frames * bands, frames * bands, td_mel_pad_value(&loader->config));
    pad(energy, item->n_frames, frames, 0);
    pad(pitch, item->n_frames, frames, 0);
    item->audio_s = td_clip_seconds(&s->dataset->view.rows[item->row].clip);
    item->is_hit = true;
    return true;
}

/* A crop of what was decoded to its place, silence behind it; `audio` then tells of the crop. Up to half of it may lie
 * behind the recording: what counts of a crop is its middle, and ends want to be learnt, too. */
static void cut_crop(const td_loader *loader, const td_host_slot *slot, uint32_t index, td_audio *audio)
{
    const size_t room = (size_t)(loader->settings.crop_frames - 1) * loader->config.hop_samples;
    const size_t whole = audio->count < room ? audio->count : room;
    const size_t behind = audio->count > room ? room / 2 : 0;
    const uint64_t place = slot->drawn.position * loader->settings.batch_size + index;
    const size_t step = loader->settings.predictions != NULL ? loader->config.hop_samples : 1;
    const uint64_t stream = CROP_STREAM + (loader->settings.is_slice_fixed ? 0 : slot->drawn.epoch);
    const size_t starts = (audio->count - whole + behind) / step + 1;
    const size_t first = step * (size_t)td_rng_below(loader->settings.seed, stream, place, starts);
    const size_t count = audio->count - first < whole ? audio->count - first : whole;
    float *to = slot->pcm + index * slot->stride;
    memcpy(to, audio->samples + first, count * sizeof *to);
    memset(to + count, 0, (room - count) * sizeof *to);
    audio->count = room;
    slot->items[index].first_frame = (uint32_t)(first / loader->config.hop_samples);
}

/* The row, or one that takes its place. */
static td_status load_row(td_loader *loader, td_host_slot *slot, uint32_t index, td_load_item *item,
                          td_audio *audio)
{
    td_status status = TD_OK;
    const uint32_t wanted = slot->rows[index];
    const size_t range_at = loader->ranges + (size_t)2 * index;
    const size_t first = index * slot->stride;
    item->row = wanted;
    slot->head[range_at] = slot->head[range_at + 1] = 0;
    for (uint32_t turn = 0, n_tries = 1;; ++n_tries) {
        bool is_bad;
        if (read_cached(loader, slot, index, item)) return TD_OK;
        const bool is_whole = loader->settings.crop_frames == 0;
        status = decode_row(loader, item->row, is_whole ? slot->pcm + first : NULL,
                            is_whole ? slot->stride : 0, audio, &is_bad);
        if (status == TD_OK) break;
        if (!is_bad) return status;
        TD_TRY(note_failure(item, item->row, td_error_last()->message));
        TD_FAIL_IF(n_tries == MAX_TRIES || !find_replacement(loader, &slot->shape, wanted, &turn, &item->row),
                   TD_ERR_FORMAT, "%s; and %u rows that could take its place fail too",
                   item->failures->message, n_tries - 1);
    }
    if (loader->settings.crop_frames > 0) cut_crop(loader, slot, index, audio);
    const uint32_t frames = td_mel_frames(&loader->config, audio->count);
    item->n_frames = frames < slot->shape.frames ? frames : slot->shape.frames;
    item->audio_s = (double)audio->count / audio->rate;
    const size_t most = (size_t)slot->shape.frames * loader->config.hop_samples - 1;
    slot->head[range_at] = (uint32_t)first;
    slot->head[range_at + 1] = (uint32_t)(audio->count < most ? audio->count : most);
fail:
    return status;
}

/* `audio` tells of the row's own samples, which are in their place; of none if its mel came from the cache.
 */
static td_status load_reference(td_loader *loader, td_host_slot *slot, uint32_t index, td_load_item *item,
                                td_audio *audio)
{
    td_status status = TD_OK;
    size_t first, count;
    bool is_bad;
    td_audio other = {0};
    float *own = slot->pcm + index * slot->stride;
    const size_t to = slot->shape.items * slot->stride + index * loader->reference_stride;
    const size_t range_at = loader->reference_ranges + (size_t)2 * index;
    td_reference chosen =
        td_reference_choose(loader->references, loader->settings.seed, slot->drawn.epoch, item->row);
    if (!chosen.is_own) {
        status = decode_row(loader, chosen.row, NULL, 0, &other, &is_bad);
        if (status != TD_OK && !is_bad) return status;
        if (status != TD_OK) {
            TD_TRY(note_failure(item, chosen.row, td_error_last()->message));
            chosen = (td_reference){.row = item->row, .is_own = true, .place = chosen.place};
        }
    }
    if (chosen.is_own && audio->count == 0)
        TD_TRY(decode_row(loader, item->row, own, slot->stride, audio, &is_bad));
    td_reference_part(&chosen, chosen.is_own ? audio->count : other.count, loader->reference_samples, &first,
                      &count);
    memcpy(slot->pcm + to, (chosen.is_own ? own : other.samples) + first, count * sizeof *own);
    slot->head[range_at] = (uint32_t)to;
    slot->head[range_at + 1] = (uint32_t)count;
    item->n_reference_frames = td_mel_frames(&loader->config, count);
fail:
    td_audio_free(&other);
    return status;
}

/* A slice of the row itself, and silence. */
static td_status load_slice(td_loader *loader, td_host_slot *slot, uint32_t index, td_load_item *item,
                            td_audio *audio)
{
    const td_loader_settings *s = &loader->settings;
    float *own = slot->pcm + index * slot->stride;
    const size_t to = slot->shape.items * slot->stride + index * loader->reference_stride;
    const size_t range_at = loader->reference_ranges + (size_t)2 * index;
    size_t first, count;
    bool is_bad;
    if (audio->count == 0) TD_CHECK(decode_row(loader, item->row, own, slot->stride, audio, &is_bad));
    td_slice_choose(s->slice, s->is_slice_fixed, s->seed, slot->drawn.epoch, item->row, audio->count, &first,
                    &count);
    memcpy(slot->pcm + to, own + first, count * sizeof *own);
    memset(slot->pcm + to + count, 0, (s->slice.most - count) * sizeof *own);
    slot->head[range_at] = (uint32_t)to;
    slot->head[range_at + 1] = s->slice.most;
    item->n_reference_frames = td_mel_frames(&loader->config, s->slice.most);
    item->slice[0] = s->is_slice_fixed ? 0 : (uint32_t)first;
    item->slice[1] = s->is_slice_fixed ? 0 : (uint32_t)(first + count);
    return TD_OK;
}

td_status td_loader_load_item(td_loader *loader, td_host_slot *slot, uint32_t index)
{
    td_status status = TD_OK;
    td_audio audio = {0};
    td_load_item *item = &slot->items[index];
    item->start_ns = td_clock_ns();
    TD_TRY(load_row(loader, slot, index, item, &audio));
    if (loader->reference_samples > 0 && loader->settings.slice.most > 0)
        TD_TRY(load_slice(loader, slot, index, item, &audio));
    else if (loader->references != NULL)
        TD_TRY(load_reference(loader, slot, index, item, &audio));
    td_loader_write_item(loader, slot, index);
    td_loader_find_kept(loader, slot, index);
    item->end_ns = td_clock_ns();
fail:
    td_audio_free(&audio);
    return status;
}
