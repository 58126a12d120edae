/* See fixture.h. */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

td_checkpoint_info make_info(td_strategy strategy)
{
    td_checkpoint_info info = {.mel = td_mel_config_default(),
                               .token_kind = TD_TOKENS_CHARACTERS,
                               .symbols = " ,.?abcdefghijklmnopqrstuvwxyz",
                               .tokenizer = "",
                               .language = "en",
                               .speakers = ""};
    check(td_model_preset("pico", strategy, &info.model));
    info.model.n_symbols = TD_SYMBOL_FIRST + 30;
    info.model.n_mels = info.mel.n_mels;
    info.model.n_speakers = 0;
    info.model.speaker_encoder = false;
    info.model.pitch_predictor = info.model.energy_predictor = strategy == TD_NON_AUTOREGRESSIVE;
    info.model.max_tokens = 200;
    info.model.max_frames = 2000;
    if (strategy == TD_AUTOREGRESSIVE) info.model.attention_rate = 0.5f;
    return info;
}

void write_voice(const rig *r, const char *path, const td_checkpoint_info *info)
{
    const td_model_shape shape = {.items = 1, .tokens = 8, .frames = 8, .reference_frames = 8};
    td_checkpoint_tensor_data *tensors;
    td_model_encode encode;
    td_store *store;
    size_t n = 0;
    check(td_model_encode_graph(&info->model, &shape, NULL, &encode));
    check(td_store_create(r->memory, encode.graph, &(td_store_options){0}, &store));
    check(td_model_init(store, &info->model, 7));
    tensors = calloc(td_store_count(store), sizeof *tensors);
    assert_non_null(tensors);
    for (size_t i = 0; i < td_store_count(store); i++) {
        const td_store_entry entry = td_store_get(store, i);
        const uint64_t bytes = 4 * td_shape_size(entry.shape);
        if (strncmp(entry.name, "constant.", 9) == 0) continue;
        float *values = malloc((size_t)bytes);
        assert_non_null(values);
        check(td_store_read(store, i, TD_BLOCK_WEIGHT, values));
        tensors[n] =
            (td_checkpoint_tensor_data){.prefix = entry.role == TD_TENSOR_STATE ? "state." : "param.",
                                        .name = entry.name,
                                        .dtype = TD_SAFETENSORS_F32,
                                        .rank = entry.shape.n_dims,
                                        .data = values,
                                        .bytes = bytes};
        for (size_t d = 0; d < entry.shape.n_dims; d++)
            tensors[n].dims[d] = entry.shape.dims[d];
        n++;
    }
    check(td_checkpoint_write(path, info, NULL, 0, tensors, n));
    for (size_t i = 0; i < n; i++)
        free((void *)(uintptr_t)tensors[i].data);
    free(tensors);
    td_store_destroy(store);
    td_graph_destroy(encode.graph);
}
