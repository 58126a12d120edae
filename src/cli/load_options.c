/* The options of the commands that load batches. Covered by tests/cli/test_load.py. */
#include "cli/load_options.h"

#include <string.h>

#include "base/error.h"
#include "cli/dataset_view.h"

static td_mel_cache_kind find_kind(const char *name)
{
    for (td_mel_cache_kind kind = TD_MEL_CACHE_AUTO; kind < TD_MEL_CACHE_DISK; ++kind)
        if (strcmp(td_mel_cache_kind_name(kind), name) == 0) return kind;
    return TD_MEL_CACHE_DISK;
}

td_status td_cli_load_options(const td_cli *cli, char cache_dir[TD_FILE_PATH_BYTES], td_data_settings *out)
{
    const td_options *options = cli->options;
    *out = (td_data_settings){
        .batch_size = (uint32_t)td_options_get(options, "training.batch_size")->integer,
        .max_mel_frames = (uint32_t)td_options_get(options, "data.max_mel_frames")->integer,
        .max_text_length = (uint32_t)td_options_get(options, "data.max_text_length")->integer,
        .mel_cache = find_kind(td_options_get(options, "data.mel_cache")->text),
        .mel_cache_bytes = td_options_get(options, "data.mel_cache_size")->bytes,
        .reference_s = (double)td_options_get(options, "data.reference_seconds")->integer,
    };
    static const char *const USUAL[] = {"token_ids", "token_counts", "frame_counts",
                                        "speakers",  "mel",          "energy"};
    td_status status = TD_OK;
    for (size_t i = 0; i < sizeof USUAL / sizeof USUAL[0]; ++i)
        TD_TRY(td_data_want(out, USUAL[i]));
    if (td_options_get(options, "data.pitch")->truth) TD_TRY(td_data_want(out, "pitch"));
    if (out->reference_s > 0) TD_TRY(td_data_want(out, "reference_mel"));
    if (out->reference_s > 0) TD_TRY(td_data_want(out, "reference_counts"));
    TD_TRY(td_cli_dataset_settings(cli, cache_dir, &out->dataset));
    out->dataset.dir = td_options_get(options, "data.train_data")->text;
    out->dataset.listen = false; /* what is to be measured decodes by itself */
fail:
    return status;
}
