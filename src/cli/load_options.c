/* The options of the commands that load batches. Covered by tests/cli/test_load.py. */
#include "cli/load_options.h"

#include <string.h>

#include "cli/dataset_view.h"

static td_mel_cache_kind find_kind(const char *name)
{
    for (td_mel_cache_kind kind = TD_MEL_CACHE_AUTO; kind < TD_MEL_CACHE_DISK; ++kind)
        if (strcmp(td_mel_cache_kind_name(kind), name) == 0) return kind;
    return TD_MEL_CACHE_DISK;
}

td_status td_cli_load_options(const td_cli *cli, char cache_dir[TD_FILE_PATH_BYTES], td_feed_options *out)
{
    const td_options *options = cli->options;
    *out = (td_feed_options){
        .batch_size = (uint32_t)td_options_get(options, "training.batch_size")->integer,
        .max_mel_frames = (uint32_t)td_options_get(options, "data.max_mel_frames")->integer,
        .max_text_length = (uint32_t)td_options_get(options, "data.max_text_length")->integer,
        .mel_cache = find_kind(td_options_get(options, "data.mel_cache")->text),
        .mel_cache_bytes = td_options_get(options, "data.mel_cache_size")->bytes,
        .with_pitch = td_options_get(options, "data.pitch")->truth,
        .reference_s = (double)td_options_get(options, "data.reference_seconds")->integer,
    };
    const td_status status = td_cli_dataset_settings(cli, cache_dir, &out->dataset);
    out->dataset.dir = td_options_get(options, "data.train_data")->text;
    out->dataset.listen = false; /* what is to be measured decodes by itself */
    return status;
}
