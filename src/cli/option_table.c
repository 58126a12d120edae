/* The commands and options of the program: the one place that names them. Parsing, --help, INI keys and
 * docs/options.md come from here through base/options.h. An option is added with the command that uses it.
 * Covered by tests/cli/test_cli.py.
 */
#include "cli/cli.h"
#include "model/model.h"

#define BIT(command) (UINT64_C(1) << (command))
#define ALL (BIT(TD_COMMAND_COUNT) - 1)
#define ON_DEVICES (BIT(TD_COMMAND_DEVICES) | BIT(TD_COMMAND_VALIDATE) | DOCTOR | MEASURES)
#define TRAIN BIT(TD_COMMAND_TRAIN)
#define PROFILE BIT(TD_COMMAND_PROFILE)
#define CHECK BIT(TD_COMMAND_CHECK_CONFIG)
#define ADVISE BIT(TD_COMMAND_ADVISE)
#define PLANNED (TRAIN | WATCHED | ADVISE)
#define BENCH_PIPELINE BIT(TD_COMMAND_BENCH_PIPELINE)
#define WATCHED (PROFILE | BENCH_PIPELINE)
#define ROLES (BIT(TD_COMMAND_VALIDATE) | CHECK | TRAIN | WATCHED | ADVISE)
#define SUBMIT BIT(TD_COMMAND_BENCH_SUBMIT)
#define GEMM BIT(TD_COMMAND_BENCH_GEMM)
#define KERNELS BIT(TD_COMMAND_BENCH_KERNELS)
#define MEL BIT(TD_COMMAND_BENCH_MEL)
#define STEP BIT(TD_COMMAND_BENCH_STEP)
#define TUNE BIT(TD_COMMAND_TUNE)
#define SYNTH BIT(TD_COMMAND_SYNTH)
#define BENCH_LOAD BIT(TD_COMMAND_BENCH_LOAD)
#define ANALYZE BIT(TD_COMMAND_ANALYZE)
#define LOADS (BENCH_LOAD | ANALYZE)
#define FEEDS (LOADS | TRAIN | WATCHED | CHECK | ADVISE)
#define MEASURES (SUBMIT | GEMM | MEL | STEP | KERNELS | TUNE | LOADS)
#define DATA (BIT(TD_COMMAND_PREPARE) | BIT(TD_COMMAND_INSPECT) | FEEDS)
#define PREPARE BIT(TD_COMMAND_PREPARE)
#define BENCH_TEXT BIT(TD_COMMAND_BENCH_TEXT)
#define REPORT BIT(TD_COMMAND_REPORT)
#define DOCTOR BIT(TD_COMMAND_DOCTOR)
#define HELP BIT(TD_COMMAND_HELP)

static const td_option_command COMMANDS[TD_COMMAND_COUNT] = {
    [TD_COMMAND_DEVICES] = {"devices", "", 0, 0, "Lists every OpenCL and Vulkan device of this computer",
                            "The selector in the list survives a reboot: paste it into --data-device or "
                            "--model-device. With --json every ability of each device is told."},
    [TD_COMMAND_VALIDATE] =
        {"validate", "", 0, 0, "Checks the chosen pair of devices in five groups",
         "Prerequisites, placement, model, transfer and pipeline. Without a device the best one "
         "is taken for both roles. Ends with 1 if any check failed."},
    [TD_COMMAND_CHECK_CONFIG] =
        {"check-config", "FILE", 1, 1, "Judges a configuration before training",
         "What would end the run is an error, what would slow it a warning, each with its key, its line and "
         "the value to put; memory is estimated from the real plan. Ends with 1 if there are errors. "
         "--simulate-device judges for devices that this computer does not have."},
    [TD_COMMAND_ADVISE] =
        {"advise", "", 0, 0, "Tells what to set for a model on given devices, as a ready configuration",
         "The largest batch that fits, plain, with bfloat16, with checkpointing and with both, from the real "
         "plan; then batch, buffers and limits. --simulate-device memory_mb=24576 asks for a card that one "
         "does not have. The answer is an INI file: `tandem advise ... > my.ini`."},
    [TD_COMMAND_PREPARE] =
        {"prepare", "", 0, 0, "Prepares the texts of a dataset, in parallel, and keeps them in the cache",
         "Reads metadata.csv and wavs/ID.wav of --train-data, spells texts out, makes tokens, and tells what "
         "the data is like. Bad rows are named and left out. Only what has changed is done again."},
    [TD_COMMAND_INSPECT] = {"inspect", "PATH", 1, 1,
                            "Tells what is in a dataset, a cache file or a checkpoint",
                            "A dataset, or its metadata.csv: statistics and all bad rows. A file of the "
                            "cache, or a checkpoint: its content, checked as a whole."},
    [TD_COMMAND_ANALYZE] =
        {"analyze", "", 0, 0, "Tells where the data pipeline loses time",
         "Text preprocessing, decoding file by file, mel, waits between batches, how long the model device "
         "would idle, what more workers give; then what to change, the largest gain first."},
    [TD_COMMAND_PROFILE] =
        {"profile", "", 0, 0, "Tells where the time of training steps goes across both devices",
         "Phases, utilisation, overlap and what to change; with --trace for Perfetto, with --html as a page. "
         "--simulate runs the true pipeline on simulated devices with stages of the given lengths: two "
         "devices, or one where only --model-device sim is given. --simulate-device derives the lengths from "
         "the real plan of the model and the rates of devices that one need not have."},
    [TD_COMMAND_SYNTH] =
        {"synth", "[-]", 0, 1, "Speaks a text with a checkpoint, or copies a recording through the vocoder",
         "The text comes from --text, --text-file, or with - from the standard input. Long texts are split "
         "at "
         "the ends of sentences. --copy needs no checkpoint: it turns a recording into its mel spectrogram "
         "and back, which is how good a voice can sound at best."},
    [TD_COMMAND_TRAIN] = {"train", "", 0, 0, "Trains a voice; goes on by itself where it was stopped",
                          "Everything of a run is in --checkpoint-dir: checkpoints, config.ini, "
                          "metrics.jsonl, event files for "
                          "TensorBoard, samples. SIGINT or SIGTERM end it after the step with a checkpoint; "
                          "started again with the "
                          "same folder it goes on to the same numbers as if it had never been stopped."},
    [TD_COMMAND_TUNE] =
        {"tune", "", 0, 0, "Measures the kernels of matrix products and stores the winners",
         "Every variant is checked against the plain kernel first; a wrong one is set aside and named. "
         "Later runs on the device use the winners. Takes minutes; let nothing else run meanwhile."},
    [TD_COMMAND_BENCH_GEMM] =
        {"bench gemm", "", 0, 0, "Measures matrix products",
         "Speed with packing and copies included, and the largest error of sampled elements. "
         "--against openblas runs that library in turns with the device, at its best core type."},
    [TD_COMMAND_BENCH_KERNELS] =
        {"bench kernels", "", 0, 0, "Measures every op at one size of a training step",
         "Each runs in turns with a plain copy of the same traffic or, where arithmetic is the limit, with a "
         "large matrix product; the share tells how near it comes. Data comes from memory, as most of "
         "a step's does."},
    [TD_COMMAND_BENCH_MEL] = {"bench mel", "", 0, 0, "Measures mel spectrograms and Griffin-Lim",
                              "From samples in host memory to log-mel in device memory, and back to samples; "
                              "with the largest error "
                              "in ln units against a transform in double."},
    [TD_COMMAND_BENCH_STEP] = {"bench step", "", 0, 0, "Measures a training step",
                               "Forward, losses, backward, clip and AdamW with data already on the device; "
                               "--explain shows the plan "
                               "and how long each of its nodes takes."},
    [TD_COMMAND_BENCH_SUBMIT] =
        {"bench submit", "", 0, 0, "Measures what submitting recorded work costs the host",
         "A recorded list of small kernels is replayed, beside a bare loop of the driver's own "
         "calls doing the same."},
    [TD_COMMAND_BENCH_TEXT] =
        {"bench text", "", 0, 0, "Measures text preprocessing on a generated corpus",
         "From a table of realistic English sentences to tokens: cold, with the writing of the cache, and "
         "from the cache."},
    [TD_COMMAND_BENCH_LOAD] =
        {"bench load", "", 0, 0, "Measures loading, from recordings on disk to batches in the device",
         "Whole epochs of --train-data: without a mel cache, and from the one that --mel-cache names or "
         "the data's size suggests."},
    [TD_COMMAND_REPORT] =
        {"report", "RUN_DIR [OTHER_RUN_DIR]", 1, 2,
         "Makes one HTML page of a training run, or of two side by side",
         "Curves, spectrograms, alignments, sounds, devices, configuration and warnings from what the folder "
         "of `tandem train` holds, also while it runs. The page is RUN_DIR/report.html if --output names no "
         "other; it needs no network and no other file."},
    [TD_COMMAND_DOCTOR] =
        {"doctor", "", 0, 0, "Looks at drivers, permissions, libraries and caches, and tells what to install",
         "Ends with 1 if no device of this computer can compute. `tandem validate` then tries the devices."},
    [TD_COMMAND_BENCH_PIPELINE] = {"bench pipeline", "", 0, 0,
                                   "Measures training on one device, on two, and without overlap",
                                   "The same work three times side by side: both roles on the model device, "
                                   "both devices with one stage "
                                   "after the other, and both devices overlapped."},
    [TD_COMMAND_HELP] = {"help", "[COMMAND]", 0, 2, "Tells how a command is used", ""},
};

/* Rows read as: where it is kept, how it is typed, what it may be, who takes it and why. */
#define KEY(section_, key_) .section = section_, .key = key_
#define FLAG(flag_) .flag = flag_
#define LETTER(letter_) .letter = letter_
#define SWITCH .type = TD_OPTION_BOOL
#define BOOL(default_) .type = TD_OPTION_BOOL, .default_text = default_
#define INT(default_, min_, max_)                                                                            \
    .type = TD_OPTION_INT, .default_text = default_, .placeholder = "N", .min = min_, .max = max_
#define SHARE(default_)                                                                                      \
    .type = TD_OPTION_FLOAT, .default_text = default_, .placeholder = "SHARE", .min = 0, .max = 1
#define REAL(default_, min_, max_)                                                                           \
    .type = TD_OPTION_FLOAT, .default_text = default_, .placeholder = "X", .min = min_, .max = max_
#define SIZE_MB(default_)                                                                                    \
    .type = TD_OPTION_SIZE_MB, .default_text = default_, .placeholder = "MB", .min = 1, .max = 1 << 24
#define TEXT(placeholder_) .type = TD_OPTION_TEXT, .placeholder = placeholder_
#define PATH(placeholder_) .type = TD_OPTION_PATH, .placeholder = placeholder_
#define CHOICE(default_, choices_) .type = TD_OPTION_CHOICE, .default_text = default_, .choices = choices_
#define FOR(group_, commands_, help_) .group = group_, .commands = commands_, .help = help_
#define USUAL(...) FOR(__VA_ARGS__), .usual = true

/* Sizes of the model and weights of the losses: in files and with --set alone, since they are many. */
#define MODEL_ROW(type_, ...) MODEL_ROW_##type_(__VA_ARGS__)
#define MODEL_ROW_count(...) MODEL_ROW_any(__VA_ARGS__)
#define MODEL_ROW_number(...) MODEL_ROW_any(__VA_ARGS__)
#define MODEL_ROW_flag(...) MODEL_ROW_any(__VA_ARGS__)
#define MODEL_ROW_strategy(...)
#define MODEL_ROW_any(key_, least_, most_, is_shape_, help_)                                                 \
    {KEY("model", #key_), TEXT("VALUE"), FOR("Model", 0, help_)},
#define LOSS_ROW(name_)                                                                                      \
    {KEY("training", "loss_" #name_), REAL(NULL, 0, 1e6),                                                    \
     FOR("Training", 0, "Weight of the loss '" #name_ "'; the model's own if not given")},

static const td_option OPTIONS[] = {
    {KEY("devices", "data"), FLAG("data-device"), TEXT("SEL"),
     FOR("Devices", ROLES, "Data device: a selector of `tandem devices`")},
    {KEY("devices", "model"), FLAG("model-device"), TEXT("SEL"),
     FOR("Devices", ROLES, "Model device: a selector of `tandem devices`")},
    {KEY("devices", "data"), FLAG("data-gpu"), INT(NULL, 0, 9999),
     USUAL("Devices", ROLES, "Data device by its number in `tandem devices`")},
    {KEY("devices", "model"), FLAG("model-gpu"), INT(NULL, 0, 9999),
     USUAL("Devices", ROLES, "Model device by its number in `tandem devices`")},
    {KEY("devices", "allow_same_device"), BOOL("false"),
     FOR("Devices", ROLES, "Permit one device, or two handles of one GPU, in both roles")},
    {KEY("pipeline", "enable_memory_isolation"), BOOL("false"),
     FOR("Devices", ROLES, "Enforce the memory limit of each role")},
    {KEY("pipeline", "data_gpu_memory"), SIZE_MB("8192"),
     FOR("Devices", ROLES, "Memory limit of the data role, in MB")},
    {KEY("pipeline", "model_gpu_memory"), SIZE_MB("16384"),
     FOR("Devices", ROLES, "Memory limit of the model role, in MB")},

    {KEY("data", "train_data"), PATH("DIR"),
     USUAL("Data", PREPARE | FEEDS, "Dataset: a folder with metadata.csv (lines id|text) and wavs/ID.wav")},
    {KEY("data", "val_data"), PATH("DIR"),
     FOR("Data", PREPARE | TRAIN, "Dataset to validate with; a share of the training rows if not given")},
    {KEY("data", "val_fraction"), SHARE("0.05"),
     FOR("Data", DATA, "Share of the rows that validates where there is no table of its own for that")},
    {KEY("data", "max_bad_fraction"), SHARE("0.05"),
     FOR("Data", PREPARE | FEEDS, "Share of bad rows that is put up with")},
    {KEY("data", "language"), TEXT("LANG"), .default_text = "auto",
     FOR("Data", DATA | SYNTH,
         "Of rows that do not tell, or of the text to say: a code such as de; auto: the one most rows look "
         "like; "
         "each: row by row")},
    {KEY("data", "phonemes"), BOOL("false"),
     FOR("Data", DATA, "Tokens are the phonemes of espeak-ng instead of characters")},
    {KEY("data", "tokenizer"), PATH("FILE"),
     FOR("Data", DATA, "Tokens are those of a tokenizer.json or vocab.json (BPE)")},
    {KEY("data", "columns"), TEXT("A|B|..."),
     FOR("Data", DATA, "Columns of the metadata: id, text, normalised, speaker, language, - to skip one")},
    {KEY("data", "speaker_pattern"), TEXT("REGEX"),
     FOR("Data", DATA, "Speaker of a row: the first group of this expression in its id")},
    {KEY("data", "listen"), BOOL("true"),
     USUAL("Data", DATA & ~FEEDS, "Decode every recording once, to find clipped, silent and broken ones")},
    {KEY("data", "cache"), BOOL("true"), FOR("Data", DATA, "Keep what was prepared for the next time")},
    {KEY("data", "max_text_length"), INT("200", 1, 100000),
     FOR("Data", FEEDS, "Rows with more tokens are left out")},
    {KEY("data", "max_mel_frames"), INT("800", 1, 1000000),
     FOR("Data", FEEDS, "Rows with more mel frames are left out")},
    {KEY("data", "mel_cache"), CHOICE("auto", "auto|none|ram|disk"),
     FOR("Data", FEEDS,
         "Where mels are kept for later epochs (ram) and runs (disk); auto: by their size and what is free")},
    {KEY("data", "mel_cache_size"), .type = TD_OPTION_SIZE_MB, .placeholder = "MB", .default_text = "0",
     .min = 0, .max = 1 << 24,
     FOR("Data", FEEDS,
         "Most that the mel cache takes; 0: half of the free memory, a quarter of the free disk")},
    {KEY("data", "pitch"), BOOL("true"), FOR("Data", LOADS, "Make a pitch track beside the mels")},
    {KEY("data", "reference_seconds"), INT("0", 0, 60),
     FOR("Data", FEEDS, "Length of the reference audio that tells the speaker; 0: none")},
    {KEY("training", "batch_size"), INT("32", 1, 4096), .choices = "auto",
     USUAL("Data", FEEDS | STEP,
           "Rows in a batch; train: by the device's memory (16, 32 or 48) if not given, auto: what fits")},
    {KEY("pipeline", "buffer_size"), INT("50", 2, 100000),
     FOR("Pipeline", TRAIN | WATCHED, "Batches that the data device may be ahead")},
    {KEY("pipeline", "prefetch_buffer_size"), INT("0", 0, 1024),
     FOR("Pipeline", TRAIN | WATCHED, "Batches ahead on the model device; 0: from the batch size")},
    {KEY("pipeline", "pipeline_depth"), INT("2", 1, 4),
     FOR("Pipeline", TRAIN | WATCHED, "Steps that are submitted before the first of them is waited for")},
    {KEY("pipeline", "model_start_delay"), REAL("2.0", 0, 3600),
     FOR("Pipeline", TRAIN | WATCHED,
         "Two devices: seconds that the first step waits at most for the buffers to fill")},
    {KEY("pipeline", "auto_tune"), BOOL("false"),
     FOR("Pipeline", TRAIN | WATCHED,
         "Two devices: the buffer's size from the workers and how evenly batches load")},
    {KEY("pipeline", "num_workers"), INT("0", 0, 1024),
     FOR("Data", DATA & ~BENCH_LOAD, "Threads that prepare data; 0: one per core")},
    {KEY("training", "seed"), INT("1", 0, 2147483647),
     FOR("Data", DATA | SYNTH, "Decides every random choice, such as which rows validate")},

    {KEY("model", "model_size"), CHOICE("nano", "pico|nano|tiny|small|base|normal|big"),
     USUAL("Model", PLANNED | STEP,
           "Preset of all sizes: pico for tests, nano for a CPU in minutes; normal is base")},
    {KEY("model", "decoder_strategy"), CHOICE("non_autoregressive", "non_autoregressive|autoregressive"),
     FOR("Model", PLANNED | STEP,
         "How the decoder makes a spectrogram: all frames at once, or one after the other")},
    {KEY("model", "gradient_checkpointing"), BOOL("false"),
     FOR("Model", TRAIN | WATCHED, "Compute blocks again in the backward pass, to save memory")},
    TD_MODEL_KEYS(MODEL_ROW)

        {KEY("training", "checkpoint_dir"), PATH("DIR"),
         USUAL("Training", TRAIN, "Folder of the run; made if it is not there, gone on with if it is")},
    {KEY("training", "epochs"), INT("0", 0, 1000000000),
     USUAL("Training", TRAIN, "Epochs at most; 0: no limit")},
    {KEY("training", "max_steps"), INT("0", 0, 1000000000),
     FOR("Training", TRAIN, "Updates at most; 0: no limit")},
    {KEY("training", "max_minutes"), REAL("0", 0, 1e6),
     USUAL("Training", TRAIN, "Minutes of this session at most; 0: no limit")},
    {KEY("training", "grad_accum"), INT("1", 1, 4096),
     FOR("Training", TRAIN, "Batches whose gradients make one update")},
    {KEY("training", "lr"), REAL("0.001", 0, 1e9), USUAL("Training", TRAIN, "Learning rate at its peak")},
    {KEY("training", "warmup_steps"), INT("200", 0, 1000000000),
     FOR("Training", TRAIN, "Updates in which the rate rises to its peak")},
    {KEY("training", "scheduler"), CHOICE("cosine", "noam|cosine|exponential|constant"),
     FOR("Training", TRAIN, "How the rate falls after its peak")},
    {KEY("training", "min_lr_share"), SHARE("0.02"),
     FOR("Training", TRAIN, "Share of the peak that the rate does not fall below")},
    {KEY("training", "decay_steps"), INT("0", 0, 1000000000),
     FOR("Training", TRAIN, "Updates in which the rate falls; 0: to the end of training")},
    {KEY("training", "decay_rate"), REAL("0.5", 1e-6, 1),
     FOR("Training", TRAIN, "exponential: share that is left after decay-steps")},
    {KEY("training", "weight_decay"), REAL("0.01", 0, 1), FOR("Training", TRAIN, "Decay of weights (AdamW)")},
    {KEY("training", "beta1"), REAL("0.9", 0, 0.999999), FOR("Training", TRAIN, "Of AdamW's first moment")},
    {KEY("training", "beta2"), REAL("0.98", 0, 0.999999), FOR("Training", TRAIN, "Of AdamW's second moment")},
    {KEY("training", "eps"), REAL("1e-9", 1e-20, 1), FOR("Training", TRAIN, "Of AdamW")},
    {KEY("training", "grad_clip"), REAL("1.0", 0, 1e9),
     FOR("Training", TRAIN, "Norm that the gradient is cut to; 0: not cut")},
    {KEY("training", "average_decay"), REAL("0", 0, 0.999999),
     FOR("Training", TRAIN, "Keep a running average of the parameters, which then speaks; 0: none")},
    {KEY("training", "mixed_precision"), BOOL("false"),
     FOR("Training", TRAIN | WATCHED, "Keep activations and read weights in 16 bits: half the memory")},
    {KEY("training", "mixed_format"), CHOICE("bf16", "bf16|fp16"),
     FOR("Training", TRAIN | WATCHED, "With mixed-precision: bfloat16, or half with dynamic loss scaling")},
    {KEY("training", "resume"), PATH("FILE"),
     FOR("Training", TRAIN, "Checkpoint to go on from; the newest of the folder if not given")},
    {KEY("training", "reset_training"), BOOL("false"),
     FOR("Training", TRAIN, "Begin at step 0; with --resume from its parameters, else from none")},
    {KEY("training", "init_from"), PATH("FILE"),
     FOR("Training", TRAIN,
         "Checkpoint whose matching tensors are taken; new symbols and speakers are added")},
    {KEY("training", "freeze"), TEXT("PATTERN,..."),
     FOR("Training", TRAIN, "Parameters that are not trained, such as 'text.*'")},
    {KEY("training", "keep_checkpoints"), INT("5", 1, 1000000),
     FOR("Training", TRAIN, "Checkpoints to keep")},
    {KEY("training", "save_every"), INT("500", 0, 1000000000),
     FOR("Training", TRAIN, "Updates between checkpoints; 0: only at the end")},
    {KEY("training", "val_every"), INT("500", 0, 1000000000),
     FOR("Training", TRAIN, "Updates between validations; 0: none")},
    {KEY("training", "sample_every"), INT("1000", 0, 1000000000),
     FOR("Training", TRAIN, "Updates between pictures and sounds; 0: none")},
    {KEY("training", "early_stopping_patience"), INT("0", 0, 1000000),
     FOR("Training", TRAIN, "Validations without a better one that end training; 0: never")},
    {KEY("training", "max_bad_steps"), INT("10", 1, 1000000),
     FOR("Training", TRAIN, "Updates in a row that may be skipped because something is not finite")},
    {KEY("training", "simple_loss"), BOOL("false"),
     FOR("Training", TRAIN,
         "Only the terms without which nothing is learnt: no pitch, energy, guided attention")},
    {KEY("training", "mel_loss"), CHOICE("l1", "l1|mse|huber"),
     FOR("Training", TRAIN, "How predicted and true spectrogram are compared")},
    {KEY("training", "supervision_start"), INT("300", 0, 1000000000),
     FOR("Training", TRAIN, "autoregressive: update from which the alignment guides the attention")},
    TD_MODEL_TERMS(LOSS_ROW){
        KEY("pipeline", "enable_static_shapes"), BOOL("false"),
        FOR("Training", TRAIN | WATCHED, "One fixed shape for all batches instead of eight by length")},

    {KEY("logging", "tensorboard_log_dir"), PATH("DIR"),
     FOR("Logging", TRAIN, "Where event files go; --checkpoint-dir if not given")},
    {KEY("logging", "log_every"), INT("10", 1, 1000000),
     FOR("Logging", TRAIN, "Updates between lines of the log")},
    {KEY("logging", "dump_step"), PATH("FILE"),
     FOR("Logging", TRAIN,
         "Write batch, parameters, gradients, losses and update of the first step as .safetensors, and end")},

    {KEY("synth", "checkpoint"), PATH("FILE"),
     USUAL("Synthesis", SYNTH, "Voice to speak with: a checkpoint of `tandem train`")},
    {FLAG("text"), TEXT("TEXT"), USUAL("Synthesis", SYNTH, "What to say")},
    {FLAG("text-file"), PATH("FILE"), USUAL("Synthesis", SYNTH, "File of what to say, UTF-8")},
    {FLAG("copy"), PATH("WAV"),
     USUAL("Synthesis", SYNTH, "Recording to copy through spectrogram and vocoder instead of a text")},
    {FLAG("output"), LETTER('o'), PATH("FILE"),
     USUAL(
         "Output", SYNTH | REPORT | ADVISE,
         "Where it goes. synth: .wav, .flac, .ogg, or - for raw samples of 16 bits, one channel, on stdout; "
         "report: .html; advise: .ini")},
    {KEY("synth", "reference"), PATH("WAV"),
     USUAL("Synthesis", SYNTH, "Recording whose speaker is to be heard; at least half a second")},
    {KEY("synth", "speaker"), TEXT("ID"),
     USUAL("Synthesis", SYNTH, "Speaker of the training data: a name or number; the first if not given")},
    {KEY("synth", "speed"), REAL("1", 0.25, 4), USUAL("Synthesis", SYNTH, "How fast: 2 is twice as fast")},
    {KEY("synth", "pitch_shift"), REAL("0", -24, 24),
     FOR("Synthesis", SYNTH, "Semitones higher or lower; for voices trained with pitch")},
    {KEY("synth", "energy"), REAL("1", 0.1, 10),
     FOR("Synthesis", SYNTH, "How loud it is spoken; for voices trained with energy")},
    {FLAG("save-mel"), PATH("FILE"),
     FOR("Synthesis", SYNTH, "Write the mel spectrogram too, as a .safetensors file")},

    {KEY("bench", "device"), TEXT("SEL"),
     USUAL("Benchmark", MEASURES | SYNTH,
           "Device to use: a selector or number of `tandem devices`; the best one if not given")},
    {KEY("bench", "kernels"), INT("200", 1, 100000), FOR("Benchmark", SUBMIT, "Kernels in the list")},
    {KEY("bench", "replays"), INT("1000", 1, 1000000),
     FOR("Benchmark", SUBMIT, "How often the list is replayed")},
    {KEY("bench", "shapes"), TEXT("MxNxK,..."),
     FOR("Benchmark", GEMM | TUNE, "Products to measure, BxMxNxK for a batch; a usual set if not given")},
    {KEY("bench", "layout"), CHOICE("all", "nn|nt|tn|all"),
     FOR("Benchmark", GEMM, "Which operand lies transposed: none, B, A, or each in turn")},
    {KEY("bench", "provider"), CHOICE("auto", "auto|register|tile|gemv|clblast|plain"),
     FOR("Benchmark", GEMM, "Who makes the product; auto: as training would choose")},
    {KEY("bench", "against"), CHOICE("none", "none|openblas"),
     FOR("Benchmark", GEMM, "Compare with a library on the same cores")},
    {KEY("bench", "rounds"), INT("15", 1, 1000),
     USUAL("Benchmark", GEMM | MEL | KERNELS | BENCH_TEXT | BENCH_LOAD,
           "Runs of each product, op, batch, corpus or epoch; the median counts")},
    {KEY("bench", "clips"), INT("32", 1, 4096), FOR("Benchmark", MEL, "Clips in a batch")},
    {KEY("bench", "seconds"), INT("6", 1, 3600), FOR("Benchmark", MEL, "Seconds of each clip")},
    {KEY("bench", "sketch"), TEXT("TEXTxLAYERS/DECODERxLAYERS"), .default_text = "128x2/192x3",
     USUAL("Benchmark", STEP, "Widths and layers of a plain transformer from text to mel")},
    {KEY("bench", "text_length"), INT("100", 1, 65536), FOR("Benchmark", STEP, "Tokens of each item")},
    {KEY("bench", "mel_frames"), INT("400", 1, 65536), FOR("Benchmark", STEP, "Frames of each item")},
    {KEY("bench", "ragged"), BOOL("false"),
     FOR("Benchmark", STEP, "Items of different lengths, down to half, instead of equal ones")},
    {KEY("bench", "steps"), INT("20", 1, 1000000), USUAL("Benchmark", STEP, "Steps that count")},
    {KEY("bench", "precision"), CHOICE("fp32", "fp32|bf16|fp16"),
     FOR("Benchmark", STEP, "How activations are kept and weights read; sums are fp32")},
    {KEY("bench", "checkpointing"), BOOL("false"),
     FOR("Benchmark", STEP, "Compute the inside of each layer again in the backward pass, to save memory")},
    {KEY("bench", "explain"), BOOL("false"),
     USUAL("Benchmark", STEP, "Show the plan as a table: nodes, fusions, places, bytes, times")},
    {KEY("bench", "explain_dot"), PATH("FILE"),
     FOR("Benchmark", STEP, "Write the plan as a picture for Graphviz")},
    {KEY("bench", "dump"), PATH("FILE"),
     FOR("Benchmark", STEP,
         "Write batch, parameters, loss, gradients and ten updates as a .safetensors file first")},
    {KEY("bench", "ops"), TEXT("PATTERN"),
     FOR("Benchmark", KERNELS, "Ops to measure, such as 'layer_norm*'; all if not given")},
    {KEY("bench", "cached"), BOOL("false"),
     FOR("Benchmark", KERNELS, "Every launch on the same data, in caches as far as it fits, not in memory")},

    {KEY("bench", "lines"), INT("13100", 1, 10000000),
     FOR("Benchmark", BENCH_TEXT, "Lines of the generated corpus")},
    {KEY("bench", "workers"), INT("0", 0, 1024),
     USUAL("Benchmark", BENCH_TEXT | BENCH_LOAD, "Threads; 0: one per core")},

    {KEY("profile", "num_steps"), INT("50", 4, 1000000), USUAL("Profile", WATCHED, "Steps to watch")},
    {KEY("profile", "simulate"), TEXT("data=MS,transfer=MS,train=MS[,jitter=SHARE]"),
     USUAL("Profile", PROFILE, "Stages of these lengths on simulated devices instead of a training run")},
    {KEY("profile", "serial"), BOOL("false"),
     FOR("Profile", PROFILE, "One stage after the other, for comparison")},
    {KEY("profile", "trace"), PATH("FILE"), USUAL("Profile", PROFILE, "Write a trace for Perfetto")},
    {KEY("profile", "html"), PATH("FILE"), USUAL("Profile", PROFILE, "Write a page with the timeline")},

    {KEY("analyze", "step_ms"), INT("100", 1, 100000),
     USUAL("Benchmark", ANALYZE,
           "Length of a training step to judge waits by, in ms; `bench step` measures it")},
    {KEY("bench", "max_batches"), INT("50", 1, 1000000),
     FOR("Benchmark", LOADS, "Batches of a round at most, where an epoch has more")},

    {FLAG("fix"), SWITCH, USUAL("General", CHECK, "Write a corrected copy beside the file")},
    {FLAG("simulate-device"), TEXT("KEY=VALUE,..."),
     USUAL(
         "Devices", CHECK | ADVISE | PROFILE,
         "Model device that this computer need not have, such as memory_mb=24576,gflops=15000,gbps=450; keys "
         "as of TANDEM_SIM. profile: stage times from the real plan at these rates")},
    {FLAG("simulate-data-device"), TEXT("KEY=VALUE,..."),
     USUAL("Devices", CHECK | ADVISE | PROFILE,
           "Data device beside --simulate-device; if not given, that one takes both roles")},
    {FLAG("slim"), PATH("FILE"),
     USUAL("General", BIT(TD_COMMAND_INSPECT),
           "Write a copy of the checkpoint that holds only what speaking needs")},
    {FLAG("all"), SWITCH, FOR("General", HELP, "Explain every option of the command")},
    {FLAG("markdown"), SWITCH, FOR("General", HELP, "Print the page of all options in Markdown")},
    {FLAG("man"), SWITCH, FOR("General", HELP, "Print the man page")},
    {FLAG("completion"), CHOICE(NULL, "bash|zsh|fish"),
     FOR("General", HELP, "Print the completion of a shell")},
    {FLAG("config"), .type = TD_OPTION_CONFIG, .placeholder = "FILE.ini",
     USUAL("General", ALL, "Read options from an INI file")},
    {FLAG("set"), .type = TD_OPTION_SET, .placeholder = "SECTION.KEY=VALUE",
     USUAL("General", ALL, "Set one key; may be repeated")},
    {KEY("data", "cache_dir"), PATH("DIR"),
     FOR("General", ON_DEVICES | DATA | SYNTH, "Where caches are kept; $XDG_CACHE_HOME/tandem if not given")},
    {FLAG("json"), SWITCH, FOR("General", ALL, "Print one JSON document on stdout and nothing else there")},
    {FLAG("print-config"), SWITCH, FOR("General", ALL, "Print every value with where it came from, and end")},
    {FLAG("quiet"), LETTER('q'), SWITCH, FOR("General", ALL, "Log errors only")},
    {FLAG("verbose"), LETTER('v'), SWITCH, FOR("General", ALL, "Log details too")},
    {FLAG("color"), CHOICE("auto", "auto|always|never"),
     FOR("General", ALL, "Colours; auto: on a terminal, unless NO_COLOR is set")},
    {FLAG("version"), SWITCH, FOR("General", ALL, "Print the version, and end")},
    {FLAG("help"), LETTER('h'), SWITCH, FOR("General", ALL, "Print this help, and end")},
};

const td_option_table td_cli_table = {
    .program = "tandem",
    .summary = "Tandem trains XTTS-style voices on any two OpenCL or Vulkan devices, or on one.",
    .options = OPTIONS,
    .n_options = sizeof OPTIONS / sizeof OPTIONS[0],
    .commands = COMMANDS,
    .n_commands = TD_COMMAND_COUNT,
    .examples = td_cli_examples,
};
