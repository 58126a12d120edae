/* See fixture.h. */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void set_key(td_checkpoint_info *info, const char *key, const char *value)
{
    check(td_model_config_put(&info->model, key, value));
}

td_checkpoint_info make_info(const char *family)
{
    td_checkpoint_info info = {.mel = td_mel_config_default(),
                               .token_kind = TD_TOKENS_CHARACTERS,
                               .symbols = " ,.?abcdefghijklmnopqrstuvwxyz",
                               .tokenizer = "",
                               .language = "en",
                               .speakers = ""};
    const bool parallel = strcmp(family, "parallel") == 0;
    check(td_model_preset(td_family_find(family), "pico", &info.model));
    td_acoustic c = td_acoustic_get(&info.model);
    c.n_symbols = TD_SYMBOL_FIRST + 30;
    c.n_mels = info.mel.n_mels;
    c.pitch_predictor = c.energy_predictor = parallel;
    c.max_tokens = 200;
    c.max_frames = 2000;
    if (!parallel) c.attention_rate = 0.5f;
    td_acoustic_put(&info.model, &c);
    return info;
}

/* A block of values, of what a checkpoint keeps of a store. */
static size_t add_tensors(td_store *store, const char *prefix, td_checkpoint_tensor_data *out)
{
    size_t n = 0;
    for (size_t i = 0; i < td_store_count(store); i++) {
        const td_store_entry entry = td_store_get(store, i);
        const uint64_t bytes = 4 * td_shape_size(entry.shape);
        if (entry.role == TD_TENSOR_STATE) continue; /* constants alone */
        float *values = malloc((size_t)bytes);
        assert_non_null(values);
        check(td_store_read(store, i, TD_BLOCK_WEIGHT, values));
        out[n] = (td_checkpoint_tensor_data){.prefix = prefix,
                                             .name = entry.name,
                                             .dtype = TD_SAFETENSORS_F32,
                                             .rank = entry.shape.n_dims,
                                             .data = values,
                                             .bytes = bytes};
        for (size_t d = 0; d < entry.shape.n_dims; d++)
            out[n].dims[d] = entry.shape.dims[d];
        n++;
    }
    return n;
}

static void write_tensors(const rig *r, const char *path, const td_checkpoint_info *info, bool averaged)
{
    td_checkpoint_tensor_data *tensors;
    td_store *store;
    size_t n = 0;
    check(td_family_store(r->memory, &info->model, NULL, &(td_store_options){0}, &store));
    tensors = calloc(2 * td_store_count(store), sizeof *tensors);
    assert_non_null(tensors);
    check(td_store_init(store, 7));
    n += add_tensors(store, averaged ? "average." : "param.", tensors);
    check(td_store_init(store, 8));
    if (averaged) n += add_tensors(store, "param.", tensors + n);
    check(td_checkpoint_write(path, info, NULL, 0, tensors, n));
    for (size_t i = 0; i < n; i++)
        free((void *)(uintptr_t)tensors[i].data);
    free(tensors);
    td_store_destroy(store);
}

void write_voice(const rig *r, const char *path, const td_checkpoint_info *info)
{
    write_tensors(r, path, info, false);
}

void write_averaged_voice(const rig *r, const char *path, const td_checkpoint_info *info)
{
    write_tensors(r, path, info, true);
}
