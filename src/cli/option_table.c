/* The commands and options of the program: the one place that names them. Parsing, --help, INI keys and
 * docs/options.md come from here through base/options.h. An option is added with the command that uses it.
 * Covered by tests/cli/test_cli.py.
 */
#include "cli/cli.h"

#define BIT(command) (UINT64_C(1) << (command))
#define ALL (BIT(TD_COMMAND_COUNT) - 1)
#define ON_DEVICES (BIT(TD_COMMAND_DEVICES) | BIT(TD_COMMAND_VALIDATE) | MEASURES)
#define ROLES BIT(TD_COMMAND_VALIDATE)
#define SUBMIT BIT(TD_COMMAND_BENCH_SUBMIT)
#define GEMM BIT(TD_COMMAND_BENCH_GEMM)
#define KERNELS BIT(TD_COMMAND_BENCH_KERNELS)
#define MEL BIT(TD_COMMAND_BENCH_MEL)
#define TUNE BIT(TD_COMMAND_TUNE)
#define BENCH_LOAD BIT(TD_COMMAND_BENCH_LOAD)
#define ANALYZE BIT(TD_COMMAND_ANALYZE)
#define LOADS (BENCH_LOAD | ANALYZE)
#define MEASURES (SUBMIT | GEMM | MEL | KERNELS | TUNE | LOADS)
#define DATA (BIT(TD_COMMAND_PREPARE) | BIT(TD_COMMAND_INSPECT) | LOADS)
#define PREPARE BIT(TD_COMMAND_PREPARE)
#define BENCH_TEXT BIT(TD_COMMAND_BENCH_TEXT)
#define HELP BIT(TD_COMMAND_HELP)

static const td_option_command COMMANDS[TD_COMMAND_COUNT] = {
    [TD_COMMAND_DEVICES] = {"devices", "", 0, 0, "Lists every OpenCL and Vulkan device of this computer",
                            "The selector in the list survives a reboot: paste it into --data-device or "
                            "--model-device. With --json every ability of each device is told."},
    [TD_COMMAND_VALIDATE] =
        {"validate", "", 0, 0, "Checks the chosen pair of devices in five groups",
         "Prerequisites, placement, model, transfer and pipeline. Without a device the best one "
         "is taken for both roles. Ends with 1 if any check failed."},
    [TD_COMMAND_PREPARE] =
        {"prepare", "", 0, 0, "Prepares the texts of a dataset, in parallel, and keeps them in the cache",
         "Reads metadata.csv and wavs/ID.wav of --train-data, spells texts out, makes tokens, and tells what "
         "the data is like. Bad rows are named and left out. Only what has changed is done again."},
    [TD_COMMAND_INSPECT] = {"inspect", "PATH", 1, 1, "Tells what is in a dataset or a cache file",
                            "A dataset, or its metadata.csv: statistics and all bad rows. A file of the "
                            "cache: its content, checked as a whole."},
    [TD_COMMAND_ANALYZE] =
        {"analyze", "", 0, 0, "Tells where the data pipeline loses time",
         "Text preprocessing, decoding file by file, mel, waits between batches, how long the model device "
         "would idle, what more workers give; then what to change, the largest gain first."},
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
         "large matrix product; the share tells how near it comes."},
    [TD_COMMAND_BENCH_MEL] = {"bench mel", "", 0, 0, "Measures mel spectrograms and Griffin-Lim",
                              "From samples in host memory to log-mel in device memory, and back to samples; "
                              "with the largest error "
                              "in ln units against a transform in double."},
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
#define SIZE_MB(default_)                                                                                    \
    .type = TD_OPTION_SIZE_MB, .default_text = default_, .placeholder = "MB", .min = 1, .max = 1 << 24
#define TEXT(placeholder_) .type = TD_OPTION_TEXT, .placeholder = placeholder_
#define PATH(placeholder_) .type = TD_OPTION_PATH, .placeholder = placeholder_
#define CHOICE(default_, choices_) .type = TD_OPTION_CHOICE, .default_text = default_, .choices = choices_
#define FOR(group_, commands_, help_) .group = group_, .commands = commands_, .help = help_

static const td_option OPTIONS[] = {
    {KEY("devices", "data"), FLAG("data-device"), TEXT("SEL"),
     FOR("Devices", ROLES, "Data device: a selector of `tandem devices`")},
    {KEY("devices", "model"), FLAG("model-device"), TEXT("SEL"),
     FOR("Devices", ROLES, "Model device: a selector of `tandem devices`")},
    {KEY("devices", "data"), FLAG("data-gpu"), INT(NULL, 0, 9999),
     FOR("Devices", ROLES, "Data device by its number in `tandem devices`")},
    {KEY("devices", "model"), FLAG("model-gpu"), INT(NULL, 0, 9999),
     FOR("Devices", ROLES, "Model device by its number in `tandem devices`")},
    {KEY("devices", "allow_same_device"), BOOL("false"),
     FOR("Devices", ROLES, "Permit one device, or two handles of one GPU, in both roles")},
    {KEY("pipeline", "enable_memory_isolation"), BOOL("false"),
     FOR("Devices", ROLES, "Enforce the memory limit of each role")},
    {KEY("pipeline", "data_gpu_memory"), SIZE_MB("8192"),
     FOR("Devices", ROLES, "Memory limit of the data role, in MB")},
    {KEY("pipeline", "model_gpu_memory"), SIZE_MB("16384"),
     FOR("Devices", ROLES, "Memory limit of the model role, in MB")},

    {KEY("data", "train_data"), PATH("DIR"),
     FOR("Data", PREPARE | LOADS, "Dataset: a folder with metadata.csv (lines id|text) and wavs/ID.wav")},
    {KEY("data", "val_data"), PATH("DIR"),
     FOR("Data", PREPARE, "Dataset to validate with; a share of the training rows if not given")},
    {KEY("data", "val_fraction"), SHARE("0.05"),
     FOR("Data", DATA, "Share of the rows that validates where there is no table of its own for that")},
    {KEY("data", "max_bad_fraction"), SHARE("0.05"),
     FOR("Data", PREPARE | LOADS, "Share of bad rows that is put up with")},
    {KEY("data", "language"), TEXT("LANG"), .default_text = "auto",
     FOR("Data", DATA,
         "Of rows that do not tell: a code such as de; auto: the one most rows look like; "
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
     FOR("Data", DATA & ~LOADS, "Decode every recording once, to find clipped, silent and broken ones")},
    {KEY("data", "cache"), BOOL("true"), FOR("Data", DATA, "Keep what was prepared for the next time")},
    {KEY("data", "max_text_length"), INT("200", 1, 100000),
     FOR("Data", LOADS, "Rows with more tokens are left out")},
    {KEY("data", "max_mel_frames"), INT("800", 1, 1000000),
     FOR("Data", LOADS, "Rows with more mel frames are left out")},
    {KEY("data", "mel_cache"), CHOICE("auto", "auto|none|ram|disk"),
     FOR("Data", LOADS,
         "Where mels are kept for later epochs (ram) and runs (disk); auto: by their size and what is free")},
    {KEY("data", "mel_cache_size"), .type = TD_OPTION_SIZE_MB, .placeholder = "MB", .default_text = "0",
     .min = 0, .max = 1 << 24,
     FOR("Data", LOADS,
         "Most that the mel cache takes; 0: half of the free memory, a quarter of the free disk")},
    {KEY("data", "pitch"), BOOL("true"), FOR("Data", LOADS, "Make a pitch track beside the mels")},
    {KEY("data", "reference_seconds"), INT("0", 0, 60),
     FOR("Data", LOADS, "Length of the reference audio that tells the speaker; 0: none")},
    {KEY("training", "batch_size"), INT("32", 1, 4096), FOR("Data", LOADS, "Rows in a batch")},
    {KEY("pipeline", "num_workers"), INT("0", 0, 1024),
     FOR("Data", DATA & ~BENCH_LOAD, "Threads that prepare data; 0: one per core")},
    {KEY("training", "seed"), INT("1", 0, 2147483647),
     FOR("Data", DATA, "Decides every random choice, here which rows validate")},

    {KEY("bench", "device"), TEXT("SEL"),
     FOR("Benchmark", MEASURES,
         "Device to measure: a selector or number of `tandem devices`; the best one if not given")},
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
     FOR("Benchmark", GEMM | MEL | KERNELS | BENCH_TEXT | BENCH_LOAD,
         "Runs of each product, op, batch, corpus or epoch; the median counts")},
    {KEY("bench", "clips"), INT("32", 1, 4096), FOR("Benchmark", MEL, "Clips in a batch")},
    {KEY("bench", "seconds"), INT("6", 1, 3600), FOR("Benchmark", MEL, "Seconds of each clip")},
    {KEY("bench", "ops"), TEXT("PATTERN"),
     FOR("Benchmark", KERNELS, "Ops to measure, such as 'layer_norm*'; all if not given")},

    {KEY("bench", "lines"), INT("13100", 1, 10000000),
     FOR("Benchmark", BENCH_TEXT, "Lines of the generated corpus")},
    {KEY("bench", "workers"), INT("0", 0, 1024),
     FOR("Benchmark", BENCH_TEXT | BENCH_LOAD, "Threads; 0: one per core")},

    {KEY("analyze", "step_ms"), INT("100", 1, 100000),
     FOR("Benchmark", ANALYZE,
         "Length of a training step to judge waits by, in ms; `bench step` measures it")},
    {KEY("bench", "max_batches"), INT("50", 1, 1000000),
     FOR("Benchmark", LOADS, "Batches of a round at most, where an epoch has more")},

    {FLAG("markdown"), SWITCH, FOR("General", HELP, "Print the page of all options in Markdown")},
    {FLAG("config"), .type = TD_OPTION_CONFIG, .placeholder = "FILE.ini",
     FOR("General", ALL, "Read options from an INI file")},
    {FLAG("set"), .type = TD_OPTION_SET, .placeholder = "SECTION.KEY=VALUE",
     FOR("General", ALL, "Set one key; may be repeated")},
    {KEY("data", "cache_dir"), PATH("DIR"),
     FOR("General", ON_DEVICES | DATA, "Where caches are kept; $XDG_CACHE_HOME/tandem if not given")},
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
};
