/* See table.h. A key is added here and read in read.c; what a model has comes from the model at run time. */
#include "settings/table.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "data/layout.h"
#include "families/family.h"
#include "settings/rows.h"

/* What tells how the rows of a dataset are read. */
#define ROWS (TD_TOPIC_PREPARE | TD_TOPIC_INSPECT | TD_TOPIC_LOAD)

static const td_option FIRST[] = {
    {KEY("devices", "data"), FLAG("data-device"), TEXT("SEL"),
     FOR("Devices", TD_TOPIC_ROLES | TD_TOPIC_SPEAK | TD_TOPIC_SERVE,
         "Data device: a selector of `tandem devices`")},
    {KEY("devices", "model"), FLAG("model-device"), TEXT("SEL"),
     FOR("Devices", TD_TOPIC_ROLES | TD_TOPIC_SPEAK | TD_TOPIC_SERVE,
         "Model device: a selector of `tandem devices`")},
    {KEY("devices", "data"), FLAG("data-gpu"), INT(NULL, 0, 9999),
     USUAL("Devices", TD_TOPIC_ROLES | TD_TOPIC_SPEAK | TD_TOPIC_SERVE,
           "Data device by its number in `tandem devices`")},
    {KEY("devices", "model"), FLAG("model-gpu"), INT(NULL, 0, 9999),
     USUAL("Devices", TD_TOPIC_ROLES | TD_TOPIC_SPEAK | TD_TOPIC_SERVE,
           "Model device by its number in `tandem devices`")},
    {KEY("devices", "allow_same_device"), BOOL("false"),
     FOR("Devices", TD_TOPIC_ROLES, "Permit one device, or two handles of one GPU, in both roles")},
    {KEY("pipeline", "enable_memory_isolation"), BOOL("false"),
     FOR("Devices", TD_TOPIC_ROLES, "Enforce the memory limit of each role")},
    {KEY("pipeline", "data_gpu_memory"), SIZE_MB("8192"),
     FOR("Devices", TD_TOPIC_ROLES, "Memory limit of the data role, in MB")},
    {KEY("pipeline", "model_gpu_memory"), SIZE_MB("16384"),
     FOR("Devices", TD_TOPIC_ROLES, "Memory limit of the model role, in MB")},

    {KEY("data", "train_data"), PATH("PATH"),
     USUAL("Data", TD_TOPIC_PREPARE | TD_TOPIC_LOAD,
           "Dataset: a folder with metadata.csv (lines id|text) and wavs/ID.wav, one of another layout, or a "
           "table with its recordings beside it")},
    {KEY("data", "val_data"), PATH("PATH"),
     FOR("Data", TD_TOPIC_PREPARE | TD_TOPIC_TRAIN,
         "Dataset to validate with; if not given, the layout's own (metadata_eval.csv), or a share of the "
         "training rows")},
    {KEY("data", "val_fraction"), SHARE("0.05"),
     FOR("Data", ROWS, "Share of the rows that validates where there is no table of its own for that")},
    {KEY("data", "max_bad_fraction"), SHARE("0.05"),
     FOR("Data", TD_TOPIC_PREPARE | TD_TOPIC_LOAD, "Share of bad rows that is tolerated")},
    {KEY("data", "language"), TEXT("LANG"), .default_text = "auto",
     FOR("Data", ROWS | TD_TOPIC_SPEAK | TD_TOPIC_CUT,
         "Of rows that do not tell, or of the text to say or to cut: a code such as de; auto: the one most "
         "rows "
         "look like, or the aligner's; each: row by row")},
    {KEY("data", "phonemes"), BOOL("false"), .choices = "auto",
     FOR("Data", ROWS,
         "Tokens are the phonemes of espeak-ng instead of characters; auto: where its library is installed")},
    {KEY("data", "tokenizer"), PATH("FILE"),
     FOR("Data", ROWS, "Tokens are those of a tokenizer.json or vocab.json (BPE)")},
    {KEY("data", "columns"), TEXT("A|B|..."),
     FOR("Data", ROWS, "Columns of the metadata: id, text, normalised, speaker, language, - to skip one")},
    {KEY("data", "speaker_pattern"), TEXT("REGEX"),
     FOR("Data", ROWS, "Speaker of a row: the first group of this expression in its id")},
    {KEY("data", "listen"), BOOL("true"),
     USUAL("Data", TD_TOPIC_PREPARE | TD_TOPIC_INSPECT,
           "Decode every recording once, to find clipped, silent and broken ones")},
    {KEY("data", "cache"), BOOL("true"), FOR("Data", ROWS, "Keep what was prepared for the next time")},
    {KEY("data", "max_text_length"), INT("200", 1, 100000),
     FOR("Data", TD_TOPIC_LOAD, "Rows with more tokens are left out")},
    {KEY("data", "max_mel_frames"), INT("800", 1, 1000000),
     FOR("Data", TD_TOPIC_LOAD, "Rows with more mel frames are left out")},
    {KEY("data", "mel_cache"), CHOICE("auto", "auto|none|ram|disk"),
     FOR("Data", TD_TOPIC_LOAD,
         "Where mels are kept for later epochs (ram) and runs (disk); auto: by their size and what is free")},
    {KEY("data", "mel_cache_size"), .type = TD_OPTION_SIZE_MB, .placeholder = "MB", .default_text = "0",
     .min = 0, .max = 1 << 24,
     FOR("Data", TD_TOPIC_LOAD,
         "Most that the mel cache takes; 0: half of the free memory, a quarter of the free disk")},
    {KEY("data", "pitch"), BOOL("true"),
     FOR("Data", TD_TOPIC_LOAD_ALONE, "Make a pitch track beside the mels")},
    {KEY("data", "reference_seconds"), INT("0", 0, 60),
     FOR("Data", TD_TOPIC_LOAD, "Length of the reference audio that tells the speaker; 0: none")},
    {KEY("training", "batch_size"), INT("32", 1, 4096), .choices = "auto",
     USUAL("Data", TD_TOPIC_LOAD | TD_TOPIC_STEP,
           "Rows in a batch; train: by the device's memory (16, 32 or 48) if not given, auto: what fits")},
    {KEY("pipeline", "buffer_size"), INT("50", 2, 100000),
     FOR("Pipeline", TD_TOPIC_PIPELINE, "Batches that the data device may be ahead")},
    {KEY("pipeline", "prefetch_buffer_size"), INT("0", 0, 1024),
     FOR("Pipeline", TD_TOPIC_PIPELINE, "Batches ahead on the model device; 0: from the batch size")},
    {KEY("pipeline", "pipeline_depth"), INT("2", 1, 4),
     FOR("Pipeline", TD_TOPIC_PIPELINE, "Steps that are submitted before the first of them is waited for")},
    {KEY("pipeline", "model_start_delay"), REAL("2.0", 0, 3600),
     FOR("Pipeline", TD_TOPIC_PIPELINE,
         "Two devices: seconds that the first step waits at most for the buffers to fill")},
    {KEY("pipeline", "auto_tune"), BOOL("false"),
     FOR("Pipeline", TD_TOPIC_PIPELINE,
         "Two devices: the buffer's size from the workers and how evenly batches load")},
    {KEY("pipeline", "num_workers"), INT("0", 0, 1024),
     FOR("Data", TD_TOPIC_WORKERS, "Threads that prepare data; 0: one per core")},
    {KEY("training", "seed"), INT("1", 0, 2147483647),
     FOR("Data", ROWS | TD_TOPIC_SPEAK, "Decides every random choice, such as which rows validate")},

    {KEY("model", "model_size"), CHOICE("nano", "pico|nano|tiny|small|base|normal|big"),
     USUAL("Model", TD_TOPIC_MODEL,
           "Preset of all sizes: pico for tests, nano for a CPU in minutes; normal is base")},
    {KEY("model", "gradient_checkpointing"), BOOL("false"),
     FOR("Model", TD_TOPIC_PIPELINE, "Compute blocks again in the backward pass, to save memory")},
};

/* The keys of models come here. */
static const td_option TRAINING[] = {
    {KEY("training", "checkpoint_dir"), PATH("DIR"),
     USUAL("Training", TD_TOPIC_TRAIN, "Folder of the run; made if it is not there, gone on with if it is")},
    {KEY("training", "epochs"), INT("0", 0, 1000000000),
     USUAL("Training", TD_TOPIC_TRAIN, "Epochs at most; 0: no limit")},
    {KEY("training", "max_steps"), INT("0", 0, 1000000000),
     FOR("Training", TD_TOPIC_TRAIN, "Updates at most; 0: no limit")},
    {KEY("training", "max_minutes"), REAL("0", 0, 1e6),
     USUAL("Training", TD_TOPIC_TRAIN, "Minutes of this session at most; 0: no limit")},
    {KEY("training", "grad_accum"), INT("1", 1, 4096),
     FOR("Training", TD_TOPIC_TRAIN | TD_TOPIC_RANKS, "Batches whose gradients make one update")},
    {KEY("training", "lr"), REAL("0.001", 0, 1e9),
     USUAL("Training", TD_TOPIC_TRAIN, "Learning rate at its peak")},
    {KEY("training", "warmup_steps"), INT("200", 0, 1000000000),
     FOR("Training", TD_TOPIC_TRAIN, "Updates in which the rate rises to its peak")},
    {KEY("training", "scheduler"), CHOICE("cosine", "noam|cosine|exponential|constant"),
     FOR("Training", TD_TOPIC_TRAIN, "How the rate falls after its peak")},
    {KEY("training", "min_lr_share"), SHARE("0.02"),
     FOR("Training", TD_TOPIC_TRAIN, "Share of the peak that the rate does not fall below")},
    {KEY("training", "decay_steps"), INT("0", 0, 1000000000),
     FOR("Training", TD_TOPIC_TRAIN, "Updates in which the rate falls; 0: to the end of training")},
    {KEY("training", "decay_rate"), REAL("0.5", 1e-6, 1),
     FOR("Training", TD_TOPIC_TRAIN, "exponential: share that is left after decay-steps")},
    {KEY("training", "weight_decay"), REAL("0.01", 0, 1),
     FOR("Training", TD_TOPIC_TRAIN, "Decay of weights (AdamW)")},
    {KEY("training", "beta1"), REAL("0.9", 0, 0.999999),
     FOR("Training", TD_TOPIC_TRAIN, "Of AdamW's first moment")},
    {KEY("training", "beta2"), REAL("0.98", 0, 0.999999),
     FOR("Training", TD_TOPIC_TRAIN, "Of AdamW's second moment")},
    {KEY("training", "eps"), REAL("1e-9", 1e-20, 1), FOR("Training", TD_TOPIC_TRAIN, "Of AdamW")},
    {KEY("training", "grad_clip"), REAL("1.0", 0, 1e9),
     FOR("Training", TD_TOPIC_TRAIN, "Norm that the gradient is cut to; 0: not cut")},
    {KEY("training", "average_decay"), REAL("0", 0, 0.999999),
     FOR("Training", TD_TOPIC_TRAIN, "Keep a running average of the parameters, which then speaks; 0: none")},
    {KEY("training", "mixed_precision"), BOOL("false"),
     FOR("Training", TD_TOPIC_PIPELINE, "Keep activations and read weights in 16 bits: half the memory")},
    {KEY("training", "mixed_format"), CHOICE("bf16", "bf16|fp16"),
     FOR("Training", TD_TOPIC_PIPELINE, "With mixed-precision: bfloat16, or half with dynamic loss scaling")},
    {KEY("training", "optimizer_state"), CHOICE("fp32", "fp32|bf16|int8"),
     FOR("Training", TD_TOPIC_PIPELINE | TD_TOPIC_STEP,
         "How AdamW's moments are kept: 8 bytes for each parameter, 4, or 2 (8 bits and a scale per block)")},
    {KEY("training", "optimizer_device"), CHOICE("model", "model|host"),
     FOR("Training", TD_TOPIC_PIPELINE | TD_TOPIC_STEP,
         "Where AdamW's moments lie: on the model device, or in the computer's memory, from which updates "
         "fetch them")},
    {KEY("training", "resume"), PATH("FILE"),
     FOR("Training", TD_TOPIC_TRAIN, "Checkpoint to go on from; the newest of the folder if not given")},
    {KEY("training", "reset_training"), BOOL("false"),
     FOR("Training", TD_TOPIC_TRAIN, "Begin at step 0; with --resume from its parameters, else from none")},
    {KEY("training", "init_from"), PATH("FILE"),
     FOR("Training", TD_TOPIC_TRAIN,
         "Checkpoint whose matching tensors are taken; new symbols and speakers are added")},
    {KEY("training", "acoustic"), PATH("VOICE"),
     FOR("Training", TD_TOPIC_TRAIN,
         "Voice whose predictions a vocoder learns to make sound of, beside the recordings' own "
         "spectrograms")},
    {KEY("training", "freeze"), TEXT("PATTERN,..."),
     FOR("Training", TD_TOPIC_TRAIN, "Parameters that are not trained, such as 'text.*'")},
    {KEY("training", "keep_checkpoints"), INT("5", 1, 1000000),
     FOR("Training", TD_TOPIC_TRAIN, "Checkpoints to keep")},
    {KEY("training", "save_every"), INT("500", 0, 1000000000),
     FOR("Training", TD_TOPIC_TRAIN, "Updates between checkpoints; 0: only at the end")},
    {KEY("training", "val_every"), INT("500", 0, 1000000000),
     FOR("Training", TD_TOPIC_TRAIN, "Updates between validations; 0: none")},
    {KEY("training", "best_by"), CHOICE("free_running", "free_running|loss"),
     FOR("Training", TD_TOPIC_TRAIN,
         "What says which checkpoint is the best: how far what the voice makes alone is from recordings kept "
         "back, or the loss; models that do not speak: the loss")},
    {KEY("training", "sample_every"), INT("1000", 0, 1000000000),
     FOR("Training", TD_TOPIC_TRAIN, "Updates between pictures and sounds; 0: none")},
    {KEY("training", "sample_reference"), PATH("FILE"),
     FOR("Training", TD_TOPIC_TRAIN,
         "Recording in whose voice a cloning model says its samples; else that of the first row kept back")},
    {KEY("training", "early_stopping_patience"), INT("0", 0, 1000000),
     FOR("Training", TD_TOPIC_TRAIN, "Validations without a better one that end training; 0: never")},
    {KEY("training", "max_bad_steps"), INT("10", 1, 1000000),
     FOR("Training", TD_TOPIC_TRAIN, "Updates in a row that may be skipped because something is not finite")},
    {KEY("training", "simple_loss"), BOOL("false"),
     FOR("Training", TD_TOPIC_TRAIN,
         "Only the terms without which nothing is learnt: no pitch, energy, guided attention")},
    {KEY("training", "mel_loss"), CHOICE("l1", "l1|mse|huber"),
     FOR("Training", TD_TOPIC_TRAIN, "How predicted and true spectrogram are compared")},
    {KEY("training", "diagonal_steps"), INT("100", 0, 1000000000),
     FOR("Training", TD_TOPIC_TRAIN,
         "First updates, in which the alignment of sounds and text is held near the diagonal")},
    {KEY("training", "supervision_start"), INT("300", 0, 1000000000),
     FOR("Training", TD_TOPIC_TRAIN,
         "Update from which the alignment guides the attention, where a model has one")},
};

/* The further keys of families come here. */
static const td_option REST[] = {
    {KEY("pipeline", "enable_static_shapes"), BOOL("false"),
     FOR("Training", TD_TOPIC_PIPELINE, "One fixed shape for all batches instead of eight by length")},

    {KEY("cluster", "kind"), FLAG("cluster"), CHOICE("auto", "auto|none|mpi"),
     FOR("Cluster", TD_TOPIC_TRAIN,
         "Ranks that train together; auto: those that mpirun or srun has started")},
    {KEY("cluster", "shard_optimizer"), BOOL("false"),
     FOR("Cluster", TD_TOPIC_TRAIN, "Each rank keeps its part of AdamW's moments alone, to save memory")},
    {KEY("cluster", "balance"), CHOICE("equal", "equal|measured"),
     FOR("Cluster", TD_TOPIC_TRAIN,
         "How a step's batches are shared out among ranks; measured: by the time that each takes for one")},
    {KEY("cluster", "bucket_mb"), REAL("25", 0.01, 1000),
     FOR("Cluster", TD_TOPIC_TRAIN | TD_TOPIC_RANKS, "Gradients that travel between ranks at once, in MB")},
    {KEY("cluster", "reduce_format"), CHOICE("fp32", "fp32|bf16"),
     FOR("Cluster", TD_TOPIC_TRAIN | TD_TOPIC_RANKS,
         "Numbers in which gradients travel; they are summed in fp32")},

    {KEY("logging", "tensorboard_log_dir"), PATH("DIR"),
     FOR("Logging", TD_TOPIC_TRAIN, "Where event files go; --checkpoint-dir if not given")},
    {KEY("logging", "log_every"), INT("10", 1, 1000000),
     FOR("Logging", TD_TOPIC_TRAIN, "Updates between lines of the log")},
    {KEY("logging", "dump_step"), PATH("FILE"),
     FOR("Logging", TD_TOPIC_TRAIN,
         "Write batch, parameters, gradients, losses and update of the first step as .safetensors, and end")},
};

static const td_option GENERAL[] = {
    {KEY("data", "cache_dir"), PATH("DIR"),
     FOR("General", TD_TOPIC_DEVICE | ROWS | TD_TOPIC_SPEAK | TD_TOPIC_SERVE,
         "Where caches are kept; $XDG_CACHE_HOME/tandem if not given")},
};

/* "a|b": the names of all families, or what 0.1 called them. */
static td_status list_families(td_option_rows *rows, bool aliases, char **out)
{
    char list[256] = "";
    for (size_t i = 0; i < td_family_count(); ++i) {
        const td_family *family = td_family_at(i);
        const char *name = aliases ? family->alias : family->name;
        const size_t used = strlen(list);
        if (name != NULL) snprintf(list + used, sizeof list - used, "%s%s", used > 0 ? "|" : "", name);
    }
    return td_option_rows_text(rows, out, "%s", list);
}

static td_status add_families(td_option_rows *rows)
{
    char *names, *aliases;
    TD_CHECK(list_families(rows, false, &names));
    TD_CHECK(list_families(rows, true, &aliases));
    const td_option choices[] = {
        {KEY("model", "family"), CHOICE(td_family_at(0)->name, names),
         FOR("Model", TD_TOPIC_MODEL, "What is trained")},
        {KEY("model", "decoder_strategy"), CHOICE(td_family_at(0)->alias, aliases),
         FOR("Model", TD_TOPIC_MODEL,
             "How the decoder makes a spectrogram: all frames at once, or one after the other; another name "
             "of the family")}};
    return td_option_rows_add(rows, choices, sizeof choices / sizeof choices[0]);
}

/* Whatever layouts there are. */
static td_status add_layouts(td_option_rows *rows)
{
    char list[256] = "auto", *choices;
    for (size_t i = 0; i < td_layout_count(); ++i) {
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "|%s", td_layout_at(i)->name);
    }
    TD_CHECK(td_option_rows_text(rows, &choices, "%s", list));
    const td_option layout = {
        KEY("data", "layout"), CHOICE("auto", choices),
        FOR("Data", ROWS, "How the dataset's folder is laid out; auto: by what is in it")};
    return td_option_rows_add(rows, &layout, 1);
}

/* Keys of families: in files and with --set alone, since they are many. What has a row already keeps it. */
static td_status add_family_keys(td_option_rows *rows, const char *section)
{
    const char *group = strcmp(section, "model") == 0 ? "Model" : "Training";
    for (size_t f = 0; f < td_family_count(); ++f) {
        const td_family *family = td_family_at(f);
        for (size_t i = 0; i < family->n_keys; ++i) {
            const td_model_key *key = &family->keys[i];
            const td_option row = {KEY(section, key->name), TEXT("VALUE"), FOR(group, 0, key->help)};
            if (strcmp(key->section, section) == 0 && td_option_rows_find(rows, section, key->name) == NULL)
                TD_CHECK(td_option_rows_add(rows, &row, 1));
        }
    }
    return TD_OK;
}

td_status td_settings_add_keys(td_option_rows *rows)
{
    TD_CHECK(td_option_rows_add(rows, FIRST, sizeof FIRST / sizeof FIRST[0]));
    TD_CHECK(add_layouts(rows));
    TD_CHECK(add_families(rows));
    TD_CHECK(add_family_keys(rows, "model"));
    TD_CHECK(td_option_rows_add(rows, TRAINING, sizeof TRAINING / sizeof TRAINING[0]));
    TD_CHECK(add_family_keys(rows, "training"));
    for (size_t f = 0; f < td_family_count(); ++f)
        TD_CHECK(add_family_keys(rows, td_family_at(f)->name));
    return td_option_rows_add(rows, REST, sizeof REST / sizeof REST[0]);
}

td_status td_settings_add_general_keys(td_option_rows *rows)
{
    return td_option_rows_add(rows, GENERAL, sizeof GENERAL / sizeof GENERAL[0]);
}
