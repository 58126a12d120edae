/* Low-rank adapters of the GPT: beside a frozen matrix W [in, out] two small ones learn, A [rank, in] and B [out, rank],
 * and the layer makes x W + b + alpha / rank (x A') B'. They are called NAME.lora_A.weight and NAME.lora_B.weight, as the
 * package PEFT does. To speak and to export, W + alpha / rank (B A)' takes the place of W. Covered by
 * tests/xtts/test_xtts_lora.c.
 *
 * Adapters can be kept without the voice, as PEFT keeps those of its GPT: adapter_model.safetensors with the tensors
 * base_model.model.NAME.lora_A.weight and its rank and alpha as metadata, and adapter_config.json.
 */
#ifndef TD_FAMILIES_XTTS_LORA_H
#define TD_FAMILIES_XTTS_LORA_H

#include "families/checkpoint.h"
#include "families/xtts/gpt.h"

/* A layer of a block for training: the plain one or, where the config says so, with an adapter, which alone learns. */
td_tensor td_xtts_train_layer(td_nn *nn, const td_xtts *c, const char *name, td_tensor x, uint32_t width);

/* Adds what an adapter has learnt to a tensor of a voice, if the voice has one for it. `values` has the tensor's elements. */
td_status td_xtts_lora_merge(const td_checkpoint *voice, const char *name, float *values);

/* Writes the adapters of a voice alone into a folder, which is there. */
td_status td_xtts_lora_export(const td_checkpoint *voice, const char *folder);

/* Gives a voice the adapters of such a file. */
td_status td_xtts_lora_attach(td_checkpoint *voice, const char *path);

/* Whether a tensor of a voice is part of an adapter. */
bool td_xtts_lora_has(const char *name);

#endif
