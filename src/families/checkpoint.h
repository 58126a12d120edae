/* The checkpoint file: one safetensors file with everything a voice is. Training writes it, resuming,
 * fine-tuning and synthesis read it.
 *
 *   tensors   param.NAME, moment1.NAME, moment2.NAME (bf16, or bytes with scale1.NAME and scale2.NAME, if they
 * are kept so: graph/packed.h), average.NAME, state.NAME (fp32), optimizer.control
 * (uint [10]; of further learners optimizer.LEARNER.control); constants are made again from the config
 *   metadata  format, family, model.KEY for each key of the config, mel (td_mel_config_format), front_end.NAME
 * for each further front end of the family, symbols, symbols_unseen,
 * token_kind, tokenizer (file of a BPE), language, speakers (names, one a line), hash.TENSOR (XXH3, 16 hex
 *             digits), and train.KEY for what only training needs
 *
 * Voices that were imported (families/importer.h) have their tensors under the names of the other program, without
 * param. or state. before them; whoever asks for param.NAME or state.NAME gets NAME where there is nothing else. Their
 * floating-point numbers may be of 16 bits.
 *
 * header.hash is a tensor, behind those of four bytes and more (uint [2]: XXH3 of the file's length word and header, low word first): it
 * holds what the header cannot hold of itself. Files of format 1 have none; those of formats 1 and 2 name
 * their family by model.decoder_strategy.
 *
 * A voice may hold its vocoder: the same again with "vocoder." before each name and key (family, model.KEY and
 * mel alone).
 *
 * A slim file has param.*, state.* and no train.*: enough to speak. The header's hash is checked when the
 * file is opened, each tensor's when it is read, so a flipped bit is found wherever it is. Covered by
 * tests/train/test_train_run.c and tests/faults/test_events.py.
 */
#ifndef TD_FAMILIES_CHECKPOINT_H
#define TD_FAMILIES_CHECKPOINT_H

#include "audio/mel_config.h"
#include "base/safetensors.h"
#include "families/family.h"
#include "text/tokenizer.h"

#define TD_CHECKPOINT_FRONT_ENDS 4

/* What a checkpoint says besides numbers. Texts are borrowed; in one that was opened, until it is closed. */
typedef struct td_checkpoint_info {
    td_model_config model;
    td_mel_config mel;
    td_mel_config front_ends[TD_CHECKPOINT_FRONT_ENDS]; /* those of the family's table, in its order */
    td_token_kind token_kind;
    const char *symbols;   /* td_symbols_text(); "" for BPE */
    const char *unseen;    /* those of them that no training text had; "": each was seen, or nobody knows */
    const char *tokenizer; /* path of the BPE's file; "" for others */
    const char *tokenizer_json; /* what is in it; NULL: the voice does not hold it */
    const char *language;       /* code of the language most training texts are in */
    const char *speakers;       /* names in the order of their ids, one a line; "" for none */
    const struct td_checkpoint
        *rest; /* a file whose further tensors and metadata are written too (carried.h); or NULL */
} td_checkpoint_info;

typedef struct td_checkpoint td_checkpoint;

/* Maps the file and reads what it says. TD_ERR_FORMAT if it is no checkpoint. *out: owned,
 * td_checkpoint_close(). */
td_status td_checkpoint_open(const char *path, td_checkpoint **out);
void td_checkpoint_close(td_checkpoint *checkpoint);

/* The vocoder that a voice holds: a checkpoint whose tensors and metadata begin with "vocoder.". *out is NULL
 * where the voice has none; else as of td_checkpoint_open(), without symbols, language and speakers. */
td_status td_checkpoint_open_vocoder(const char *path, td_checkpoint **out);

const td_checkpoint_info *td_checkpoint_get_info(const td_checkpoint *checkpoint); /* borrowed until close */
const char *td_checkpoint_path(const td_checkpoint *checkpoint);                   /* borrowed until close */
const char *td_checkpoint_text(const td_checkpoint *checkpoint, const char *key);  /* metadata; or NULL */
const td_safetensors *td_checkpoint_file(const td_checkpoint *checkpoint);         /* to look around in */

/* Adapters that come in a file of their own and are used in place of the voice's (families/xtts/lora.h). Set: owned by
 * the checkpoint from here on. NULL: none. */
void td_checkpoint_set_adapters(td_checkpoint *checkpoint, td_safetensors *adapters);
const td_safetensors *td_checkpoint_adapters(const td_checkpoint *checkpoint);

/* One tensor, checked. *out is borrowed until close; TD_ERR_NOT_FOUND, or TD_ERR_INTEGRITY if its bytes are
 * not what was written, or a parameter, state or average is not finite. */
td_status td_checkpoint_tensor(const td_checkpoint *checkpoint, const char *prefix, const char *name,
                               const td_safetensors_tensor **out);

/* Whether a tensor is of this shape, and fp32. */
bool td_checkpoint_has_shape(const td_safetensors_tensor *tensor, td_shape shape);

/* Parameters (elements of param.*, or of an imported voice's tensors that are no buffers) of part `i` of the family;
 * without those of a vocoder that a voice holds. */
uint64_t td_checkpoint_part_size(const td_checkpoint *checkpoint, size_t i);

/* Whether a tensor of a file is spoken with: a parameter, a state, or one that was imported. `name` is the tensor's,
 * without what stands before those of a vocoder that a voice holds. */
bool td_checkpoint_is_spoken(const td_safetensors_tensor *tensor, const char *name);

/* Metadata that a voice keeps besides what td_checkpoint_info has: where it came from, what it speaks. *out: owned,
 * free(). */
td_status td_checkpoint_list_kept(const td_checkpoint *checkpoint, td_safetensors_pair **out, size_t *n);

/* Checks every tensor. */
td_status td_checkpoint_verify(const td_checkpoint *checkpoint);

/* The weights that speak: the averages of the parameters where there are any, else the parameters; states and
 * constants. As td_checkpoint_load(). */
td_status td_checkpoint_load_voice(const td_checkpoint *checkpoint, td_store *store);

/* The parameter or state of entry `i` of a store, where the file has one of its name and shape; *taken if so. */
td_status td_checkpoint_take(const td_checkpoint *checkpoint, td_store *store, size_t i, bool *taken);

/* Fills a block of a store: "param.", "moment1.", "moment2.", "average.", and with the weights also the
 * states and constants. Every entry must be there in its shape (TD_ERR_FORMAT names the first that is not).
 */
td_status td_checkpoint_load(const td_checkpoint *checkpoint, td_store *store, td_block block);

/* ---------------------------------------------------------------- writing */

typedef struct td_checkpoint_tensor_data {
    const char *prefix, *name; /* the file's name is both joined; prefix ends with '.' */
    td_safetensors_dtype dtype;
    size_t rank;
    uint64_t dims[4];
    const void *data;
    uint64_t bytes;
} td_checkpoint_tensor_data;

/* Atomic. `pairs`: the train.KEY to add. The hashes are made here. */
td_status td_checkpoint_write(const char *path, const td_checkpoint_info *info,
                              const td_safetensors_pair *pairs, size_t n_pairs,
                              const td_checkpoint_tensor_data *tensors, size_t n_tensors);

/* A slim copy of a voice, with a vocoder inside (NULL: without). Who joins them has compared their front ends. */
td_status td_checkpoint_write_bundle(const td_checkpoint *voice, const td_checkpoint *vocoder,
                                     const char *path);

/* The same of tensors that come one by one: `load` puts the bytes of tensor i where its `data` points to, before each
 * use of it; it is called twice for each. */
typedef td_status td_checkpoint_load_tensor(void *context, size_t i);
td_status td_checkpoint_write_loaded(const char *path, const td_checkpoint_info *info,
                                     const td_safetensors_pair *pairs, size_t n_pairs,
                                     const td_checkpoint_tensor_data *tensors, size_t n_tensors,
                                     td_checkpoint_load_tensor *load, void *context);

/* A slim copy; the averages of the parameters take their place if there are any. A vocoder inside stays. */
td_status td_checkpoint_write_slim(const td_checkpoint *checkpoint, const char *path);

#endif
