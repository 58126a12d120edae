/* See feed.h. */
#include "data/feed.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"

enum { N_BUCKETS = 8, ROUND_FRAMES = 32, N_READY = 3 };

td_status td_feed_open(td_memory *memory, const td_feed_options *options, td_feed *feed)
{
    td_status status = TD_OK;
    const td_mel_config config = td_mel_config_default();
    const td_device_info *info = td_device_get_info(td_memory_device(memory));
    *feed = (td_feed){.options = *options, .memory = memory};
    TD_FAIL_IF(options->dataset.dir == NULL, TD_ERR_CONFIG, "no dataset was named; set data.train_data");
    TD_TRY(td_pool_create(options->workers, &feed->pool));
    feed->workers = td_pool_threads(feed->pool);
    TD_TRY(td_dataset_open(&options->dataset, feed->pool, &feed->dataset));
    TD_TRY(td_mel_create(memory, &config, &feed->mel));
    snprintf(feed->device_key, sizeof feed->device_key, "%s %s", info->selector, info->driver);
fail:
    return status;
}

void td_feed_close(td_feed *feed)
{
    td_mel_destroy(feed->mel);
    td_dataset_close(feed->dataset);
    td_pool_destroy(feed->pool);
    *feed = (td_feed){0};
}

td_status td_feed_open_cache(const td_feed *feed, td_mel_cache **out)
{
    const td_mel_cache_settings settings = {.kind = feed->options.mel_cache,
                                            .max_bytes = feed->options.mel_cache_bytes,
                                            .cache_dir = feed->options.dataset.cache_dir,
                                            .config = *td_mel_get_config(feed->mel),
                                            .has_pitch = feed->options.with_pitch,
                                            .device = feed->device_key};
    return td_mel_cache_open(&settings, feed->dataset, out);
}

td_status td_stream_open(const td_feed *feed, const td_stream_settings *settings, td_stream *out)
{
    td_status status = TD_OK;
    td_sampler_row *rows = NULL;
    const td_feed_options *o = &feed->options;
    const td_sampler_settings sampler = {.batch_size = o->batch_size,
                                         .n_buckets = o->n_buckets > 0 ? o->n_buckets : N_BUCKETS,
                                         .round_frames = ROUND_FRAMES,
                                         .max_frames = o->max_mel_frames,
                                         .max_tokens = o->max_text_length,
                                         .last = settings->last,
                                         .in_order = settings->in_order,
                                         .seed = o->dataset.seed};
    *out = (td_stream){0};
    TD_TRY(TD_NEW_ARRAY(&rows, settings->n_rows + 1));
    td_loader_lengths(feed->dataset, settings->rows, settings->n_rows, td_mel_get_config(feed->mel), rows);
    TD_TRY(td_sampler_create(&sampler, rows, settings->n_rows, &out->sampler));
    TD_TRY(td_sampler_set_state(out->sampler, settings->state));
fail:
    free(rows);
    return status;
}

td_status td_stream_start(const td_feed *feed, const td_stream_settings *settings, td_stream *stream)
{
    const td_feed_options *o = &feed->options;
    const td_loader_settings loader = {.dataset = feed->dataset,
                                       .rows = settings->rows,
                                       .n_rows = settings->n_rows,
                                       .sampler = stream->sampler,
                                       .batch_size = o->batch_size,
                                       .pool = settings->pool != NULL ? settings->pool : feed->pool,
                                       .memory = feed->memory,
                                       .mel = feed->mel,
                                       .cache = settings->cache,
                                       .with_pitch = o->with_pitch,
                                       .n_ready = o->n_ready > 0 ? o->n_ready : N_READY,
                                       .reference_s = o->reference_s,
                                       .max_bad_fraction = o->dataset.max_bad_fraction,
                                       .seed = o->dataset.seed,
                                       .n_batches = settings->n_batches};
    return td_loader_create(&loader, &stream->loader);
}

void td_stream_close(td_stream *stream)
{
    td_loader_destroy(stream->loader);
    td_sampler_destroy(stream->sampler);
    *stream = (td_stream){0};
}
