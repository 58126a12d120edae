/* The commands (commands.def) and what they take on the command line: the keys of settings/table.h and the
 * program's own. Parsing, --help, INI keys and docs/options.md come from here through base/options.h. An
 * option is added with the command that uses it. Covered by tests/cli/test_cli.py.
 */
#include "base/error.h"
#include "cli/cli.h"
#include "settings/rows.h"
#include "settings/table.h"

const td_option_command td_cli_commands[TD_COMMAND_COUNT] = {
#define TD_COMMAND(id_, function_, name_, arguments_, least_, most_, topics_, summary_, detail_, examples_)  \
    [TD_COMMAND_##id_] = {.name = name_,                                                                     \
                          .arguments = arguments_,                                                           \
                          .min_arguments = least_,                                                           \
                          .max_arguments = most_,                                                            \
                          .topics = (topics_) | TD_TOPIC_OWN(TD_COMMAND_##id_),                              \
                          .summary = summary_,                                                               \
                          .detail = detail_,                                                                 \
                          .examples = examples_},
#include "cli/commands.def"
#undef TD_COMMAND
};

#define BIT(command) TD_TOPIC_OWN(command)
#define ALL UINT64_MAX
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
#define BENCH_CLUSTER BIT(TD_COMMAND_BENCH_CLUSTER)
#define VOCODER BIT(TD_COMMAND_BENCH_VOCODER)
#define DECODE BIT(TD_COMMAND_BENCH_DECODE)
#define TUNE BIT(TD_COMMAND_TUNE)
#define SYNTH BIT(TD_COMMAND_SYNTH)
#define BENCH_LOAD BIT(TD_COMMAND_BENCH_LOAD)
#define ANALYZE BIT(TD_COMMAND_ANALYZE)
#define LOADS (BENCH_LOAD | ANALYZE)
#define FEEDS (LOADS | TRAIN | WATCHED | CHECK | ADVISE)
#define MEASURES (SUBMIT | GEMM | MEL | VOCODER | STEP | DECODE | KERNELS | TUNE | LOADS)
#define DATA (BIT(TD_COMMAND_PREPARE) | BIT(TD_COMMAND_INSPECT) | FEEDS)
#define PREPARE BIT(TD_COMMAND_PREPARE)
#define BENCH_TEXT BIT(TD_COMMAND_BENCH_TEXT)
#define REPORT BIT(TD_COMMAND_REPORT)
#define DOCTOR BIT(TD_COMMAND_DOCTOR)
#define IMPORT BIT(TD_COMMAND_IMPORT)
#define EXPORT BIT(TD_COMMAND_EXPORT)
#define HELP BIT(TD_COMMAND_HELP)
#define SERVE BIT(TD_COMMAND_SERVE)
#define BUNDLE BIT(TD_COMMAND_BUNDLE)
#define CUT BIT(TD_COMMAND_CUT)

/* Before the general keys of settings/table.h. */
static const td_option OWN[] = {
    {KEY("synth", "checkpoint"), PATH("FILE"),
     USUAL("Synthesis", SYNTH, "Voice to speak with: a checkpoint of `tandem train`")},
    {FLAG("text"), TEXT("TEXT"),
     USUAL("Synthesis", SYNTH | CUT, "What to say; cut: the file of the text that was read, UTF-8")},
    {FLAG("text-file"), PATH("FILE"), USUAL("Synthesis", SYNTH, "File of what to say, UTF-8")},
    {FLAG("copy"), PATH("WAV"),
     USUAL("Synthesis", SYNTH, "Recording to copy through spectrogram and vocoder instead of a text")},
    {FLAG("output"), LETTER('o'), PATH("FILE"),
     USUAL("Output", SYNTH | REPORT | ADVISE | BUNDLE | IMPORT | EXPORT | CUT,
           "Where it goes. synth: .wav, .flac, .ogg, .mp3, - for raw samples of 16 bits, one channel, on "
           "stdout, or FOLDER/ for a file of each line of the text; report: .html; advise: .ini; bundle, "
           "import: "
           ".safetensors; export, cut: a folder")},
    {KEY("cut", "aligner"), PATH("FILE"),
     USUAL("Data", CUT | BIT(TD_COMMAND_INSPECT),
           "Aligner to hear with; the one that scripts/make_aligner.sh put into the cache if not given. "
           "inspect: none hears letter by letter")},
    {FLAG("apply"), PATH("FILE"),
     USUAL("Data", CUT, "Apply the choices that the page cut.html has saved to the folder of -o, and end")},
    {FLAG("weights"), CHOICE("fp32", "fp32|bf16|fp16|int8"),
     USUAL("Output", IMPORT,
           "How weights are stored: as they are, in half the room, or those of the GPT's blocks as bytes")},
    {FLAG("grow"), BOOL("false"),
     USUAL("Output", IMPORT,
           "Make room for tokens that were added to the model's vocabulary, to be trained")},
    {FLAG("format"), CHOICE("coqui", "coqui|peft"),
     USUAL("Output", EXPORT, "Whose files to write; peft: the adapters of a training with LoRA alone")},
    {KEY("synth", "reference"), PATH("WAV"), REPEATS,
     USUAL("Synthesis", SYNTH,
           "Recording whose speaker is to be heard; at least half a second; XTTS takes several")},
    {KEY("synth", "speaker"), TEXT("ID"),
     USUAL("Synthesis", SYNTH, "Speaker of the training data: a name or number; the first if not given")},
    {KEY("synth", "speed"), REAL("1", 0.25, 4), USUAL("Synthesis", SYNTH, "How fast: 2 is twice as fast")},
    {KEY("synth", "pitch_shift"), REAL("0", -24, 24),
     FOR("Synthesis", SYNTH, "Semitones higher or lower; for voices trained with pitch")},
    {KEY("synth", "energy"), REAL("1", 0.1, 10),
     FOR("Synthesis", SYNTH, "How loud it is spoken; for voices trained with energy")},
    {KEY("synth", "lora"), PATH("FILE"),
     FOR("Synthesis", SYNTH,
         "XTTS: adapters that the voice takes, adapter_model.safetensors of export --format peft")},
    {KEY("synth", "lexicon"), PATH("FILE"),
     FOR("Synthesis", SYNTH, "How words are said: lines of WORD, a tab, and a respelling or /phonemes/")},
    {KEY("synth", "vocoder"), TEXT("FILE|griffin-lim"),
     USUAL(
         "Synthesis", SYNTH,
         "What makes sound of spectrograms: a vocoder of `tandem train --set model.family=vocoder`, a voice "
         "that holds one, or griffin-lim; the voice's own, or griffin-lim, if not given")},
    {KEY("synth", "strict_text"), BOOL("false"),
     FOR("Synthesis", SYNTH, "Refuse a text with characters that the voice has not learnt")},
    {KEY("synth", "temperature"), REAL(NULL, 0.001, 100),
     FOR("Synthesis", SYNTH, "XTTS: lower is steadier, higher livelier; the voice's own if not given")},
    {KEY("synth", "top_k"), INT(NULL, 1, 1000000),
     FOR("Synthesis", SYNTH, "XTTS: likeliest codes to draw from; the voice's own if not given")},
    {KEY("synth", "top_p"), REAL(NULL, 0.001, 1),
     FOR("Synthesis", SYNTH, "XTTS: share of the probability to draw from; the voice's own if not given")},
    {KEY("synth", "repetition_penalty"), REAL(NULL, 0.01, 100),
     FOR("Synthesis", SYNTH, "XTTS: of codes that were spoken already; the voice's own if not given")},
    {KEY("synth", "length_penalty"), REAL("1", -100, 100),
     FOR("Synthesis", SYNTH, "XTTS: taken for Coqui's sake; it acts on beams, of which there are none")},
    {KEY("synth", "greedy"), BOOL("false"), FOR("Synthesis", SYNTH, "XTTS: always the likeliest code")},
    {KEY("synth", "guard"), BOOL("true"),
     FOR("Synthesis", SYNTH, "XTTS: draw loops again, and cut speech that does not end")},
    {KEY("synth", "at_once"), INT(NULL, 1, 16),
     FOR("Synthesis", SYNTH | DECODE,
         "XTTS: pieces of a text that are spoken side by side, which is quicker and takes more memory; if "
         "not given "
         "4 for a file, 1 where speech is heard while it is made")},
    {FLAG("dump-synth"), PATH("FILE"),
     FOR("Synthesis", SYNTH, "XTTS: write what the first piece was made of, as a .safetensors file")},
    {FLAG("save-mel"), PATH("FILE"),
     FOR("Synthesis", SYNTH, "Write the mel spectrogram too, as a .safetensors file")},

    {FLAG("voice"), TEXT("NAME=FILE"), REPEATS,
     USUAL("Server", SERVE, "A voice to serve and what clients call it; may be repeated")},
    {KEY("serve", "host"), .default_text = "127.0.0.1", TEXT("ADDRESS"),
     USUAL("Server", SERVE, "Address to listen at; one that other computers reach needs --api-key-file")},
    {KEY("serve", "port"), INT("8020", 0, 65535),
     USUAL("Server", SERVE, "Port to listen at; 0: any that is free")},
    {KEY("serve", "wyoming_port"), INT("10200", 0, 65535),
     USUAL("Server", SERVE, "Port for Home Assistant (Wyoming); 0: none")},
    {KEY("serve", "wyoming_host"), .default_text = "127.0.0.1", TEXT("ADDRESS"),
     FOR("Server", SERVE,
         "Address for Wyoming, which knows no key: whoever reaches it can let the voices speak")},
    {KEY("serve", "api_key_file"), PATH("FILE"),
     USUAL("Server", SERVE, "File whose first line is the key that clients must send")},
    {KEY("serve", "queue"), INT("32", 1, 4096),
     FOR("Server", SERVE, "Texts that may wait; more are refused with 429")},
    {KEY("serve", "streams"), INT("4", 1, 64), FOR("Server", SERVE, "Texts that are spoken at once")},
    {KEY("serve", "deadline"), INT("60", 0, 86400),
     FOR("Server", SERVE, "Seconds in which a text must be begun, else it is refused with 429; 0: any time")},
    {KEY("serve", "rate_limit"), INT("300", 0, 1000000),
     FOR("Server", SERVE, "Texts a minute that one other computer may ask for, more get 429; 0: any number")},
    {KEY("serve", "voices_dir"), PATH("DIR"),
     USUAL("Server", SERVE, "Folder of voices that clients clone and remove; without it they may not")},
    {KEY("serve", "runs"), PATH("DIR"),
     USUAL("Server", SERVE, "Folder of training runs, or one run, to watch on the page")},
    {KEY("serve", "origins"), TEXT("URL,..."),
     FOR("Server", SERVE, "Web pages of other computers that may ask, such as https://chat.example")},

    {KEY("bench", "device"), TEXT("SEL"),
     USUAL("Benchmark", MEASURES | SYNTH | SERVE | BENCH_CLUSTER | CUT | BIT(TD_COMMAND_INSPECT),
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
     USUAL("Benchmark", GEMM | MEL | VOCODER | KERNELS | BENCH_TEXT | BENCH_LOAD,
           "Runs of each product, op, batch, corpus or epoch; the median counts")},
    {KEY("bench", "clips"), INT("32", 1, 4096), FOR("Benchmark", MEL, "Clips in a batch")},
    {KEY("bench", "seconds"), INT("6", 1, 3600),
     FOR("Benchmark", MEL | VOCODER, "Seconds of each clip, or of the sound that is made")},
    {KEY("bench", "sketch"), TEXT("TEXTxLAYERS/DECODERxLAYERS"), .default_text = "128x2/192x3",
     USUAL("Benchmark", STEP, "Widths and layers of a plain transformer from text to mel")},
    {KEY("bench", "text_length"), INT("100", 1, 65536),
     FOR("Benchmark", STEP | BENCH_CLUSTER, "Tokens of each item")},
    {KEY("bench", "mel_frames"), INT("400", 1, 65536),
     FOR("Benchmark", STEP | BENCH_CLUSTER, "Frames of each item")},
    {KEY("bench", "ragged"), BOOL("false"),
     FOR("Benchmark", STEP, "Items of different lengths, down to half, instead of equal ones")},
    {KEY("bench", "steps"), INT("20", 1, 1000000),
     USUAL("Benchmark", STEP | BENCH_CLUSTER, "Steps that count")},
    {KEY("bench", "precision"), CHOICE("fp32", "fp32|bf16|fp16"),
     FOR("Benchmark", STEP, "How activations are kept and weights read; sums are fp32")},
    {KEY("bench", "model_keys"), TEXT("'KEY=VALUE ...'"),
     FOR("Benchmark", STEP, "Keys of the model that differ from the preset's")},
    {KEY("bench", "checkpointing"), BOOL("false"),
     FOR("Benchmark", STEP, "Compute the inside of each layer again in the backward pass, to save memory")},
    {KEY("bench", "explain"), BOOL("false"),
     USUAL("Benchmark", STEP | VOCODER, "Show the plan as a table: nodes, fusions, places, bytes, times")},
    {KEY("bench", "explain_dot"), PATH("FILE"),
     FOR("Benchmark", STEP, "Write the plan as a picture for Graphviz")},
    {KEY("bench", "dump"), PATH("FILE"),
     FOR("Benchmark", STEP,
         "Write batch, parameters, loss, gradients and ten updates as a .safetensors file first")},
    {KEY("synth", "weights"), CHOICE(NULL, "fp32|bf16|int8"),
     USUAL("Synthesis", SYNTH | SERVE | DECODE,
           "How the weights of XTTS's GPT lie in memory, if not as in the file; smaller is faster, and less "
           "exact")},
    {KEY("bench", "layers"), INT("30", 1, 256), FOR("Benchmark", DECODE, "Blocks of the GPT")},
    {KEY("bench", "width"), INT("1024", 64, 2048),
     FOR("Benchmark", DECODE, "Channels of the GPT, heads of 64")},
    {KEY("bench", "prompt"), INT("132", 1, 65536),
     FOR("Benchmark", DECODE, "Rows of the cache before the first code")},
    {KEY("bench", "codes"), INT("200", 1, 65536), FOR("Benchmark", DECODE, "Codes to make, one at a time")},
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
    {KEY("profile", "trace"), PATH("FILE"),
     USUAL("Profile", PROFILE | SYNTH, "Write a trace for Perfetto; synth: of XTTS")},
    {KEY("profile", "html"), PATH("FILE"), USUAL("Profile", PROFILE, "Write a page with the timeline")},

    {KEY("analyze", "step_ms"), INT("100", 1, 100000),
     USUAL("Benchmark", ANALYZE,
           "Length of a training step to judge waits by, in ms; `bench step` measures it")},
    {KEY("bench", "max_batches"), INT("50", 1, 1000000),
     FOR("Benchmark", LOADS, "Batches of a round at most, where an epoch has more")},

    {FLAG("fix"), SWITCH, USUAL("General", CHECK, "Write a corrected copy beside the file")},
    {FLAG("simulate-device"), TEXT("KEY=VALUE,..."),
     USUAL(
         "Devices", CHECK | ADVISE | PROFILE | DECODE,
         "Model device that this computer need not have, such as memory_mb=24576,gflops=15000,gbps=450; keys "
         "as of TANDEM_SIM. profile, bench decode: times from the real plan at these rates")},
    {FLAG("simulate-data-device"), TEXT("KEY=VALUE,..."),
     USUAL("Devices", CHECK | ADVISE | PROFILE,
           "Data device beside --simulate-device; if not given, that one takes both roles")},
    {FLAG("simulate-cluster"), TEXT("KEY=VALUE,..."),
     USUAL("Cluster", PROFILE,
           "Network that this computer need not have, such as ranks=64,gbps=1.25,latency_us=20,drop=0 (GB/s "
           "of a "
           "rank's link): predicts steps of 1 to 4096 ranks from the real plan")},
    {KEY("inspect", "html"), PATH("FILE"),
     USUAL("Output", BIT(TD_COMMAND_INSPECT),
           "Write a page of the dataset's findings, to look at and listen to")},
    {KEY("inspect", "fix"), PATH("FILE"),
     USUAL("Output", BIT(TD_COMMAND_INSPECT),
           "Write a copy of the dataset's table without the rows that are better left out")},
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
};

/* Behind them. */
static const td_option LAST[] = {
    {FLAG("json"), SWITCH, FOR("General", ALL, "Print one JSON document on stdout and nothing else there")},
    {FLAG("print-config"), SWITCH, FOR("General", ALL, "Print every value with where it came from, and end")},
    {FLAG("quiet"), LETTER('q'), SWITCH, FOR("General", ALL, "Log errors only")},
    {FLAG("verbose"), LETTER('v'), SWITCH, FOR("General", ALL, "Log details too")},
    {FLAG("color"), CHOICE("auto", "auto|always|never"),
     FOR("General", ALL, "Colours; auto: on a terminal, unless NO_COLOR is set")},
    {FLAG("version"), SWITCH, FOR("General", ALL, "Print the version, and end")},
    {FLAG("help"), LETTER('h'), SWITCH, FOR("General", ALL, "Print this help, and end")},
};

/* What other programs call them. Several rows of one name: the first that a command takes. */
static const td_option_synonym SYNONYMS[] = {
    {"/", "train-data"},
    {".csv", "train-data"},
    {".ini", "config"},
    {".safetensors", "checkpoint"},
    {".safetensors", "init-from"},
    {".txt", "text-file"},
    {".wav", "reference"},
    {"learning-rate", "lr"},
    {"num-epochs", "epochs"},
    {"n-epochs", "epochs"},
    {"max-epochs", "epochs"},
    {"num-steps", "max-steps"},
    {"steps", "max-steps"},
    {"iterations", "max-steps"},
    {"bs", "batch-size"},
    {"per-device-train-batch-size", "batch-size"},
    {"workers", "num-workers"},
    {"threads", "num-workers"},
    {"jobs", "num-workers"},
    {"gpu", "model-device"},
    {"device", "model-device"},
    {"device", "device"},
    {"dataset", "train-data"},
    {"data", "train-data"},
    {"data-dir", "train-data"},
    {"data-path", "train-data"},
    {"input", "train-data"},
    {"metadata", "train-data"},
    {"eval-data", "val-data"},
    {"valid-data", "val-data"},
    {"val-dir", "val-data"},
    {"val-split", "val-fraction"},
    {"formatter", "layout"},
    {"format", "layout"},
    {"dataset-format", "layout"},
    {"out", "output"},
    {"out-file", "output"},
    {"output-file", "output"},
    {"out-path", "output"},
    {"outfile", "output"},
    {"out", "checkpoint-dir"},
    {"output", "checkpoint-dir"},
    {"out-dir", "checkpoint-dir"},
    {"output-dir", "checkpoint-dir"},
    {"output-path", "checkpoint-dir"},
    {"save-dir", "checkpoint-dir"},
    {"run-dir", "checkpoint-dir"},
    {"logdir", "tensorboard-log-dir"},
    {"log-dir", "tensorboard-log-dir"},
    {"checkpoint", "resume"},
    {"model", "checkpoint"},
    {"voice", "checkpoint"},
    {"ckpt", "checkpoint"},
    {"model-path", "checkpoint"},
    {"speaker-wav", "reference"},
    {"ref-audio", "reference"},
    {"speaker-idx", "speaker"},
    {"speaker-id", "speaker"},
    {"lang", "language"},
    {"language-idx", "language"},
    {"random-seed", "seed"},
    {"continue", "resume"},
    {"continue-path", "resume"},
    {"restore", "resume"},
    {"restore-path", "init-from"},
    {"resume-from", "resume"},
    {"resume-from-checkpoint", "resume"},
    {"finetune", "init-from"},
    {"pretrained", "init-from"},
    {"pretrained-model", "init-from"},
    {"max-grad-norm", "grad-clip"},
    {"gradient-clip-val", "grad-clip"},
    {"gradient-accumulation-steps", "grad-accum"},
    {"accumulate-grad-batches", "grad-accum"},
    {"warmup", "warmup-steps"},
    {"lr-scheduler", "scheduler"},
    {"ema", "average-decay"},
    {"ema-decay", "average-decay"},
    {"amp", "mixed-precision"},
    {"fp16", "mixed-precision"},
    {"bf16", "mixed-precision"},
    {"precision", "mixed-precision"},
    {"patience", "early-stopping-patience"},
    {"save-interval", "save-every"},
    {"save-steps", "save-every"},
    {"eval-interval", "val-every"},
    {"eval-steps", "val-every"},
    {"log-interval", "log-every"},
    {"logging-steps", "log-every"},
};

td_status td_cli_make_table(td_cli_table *out)
{
    td_status status = TD_OK;
    *out = (td_cli_table){
        .table = {
            .program = "tandem",
            .summary = "Tandem trains XTTS-style voices on any two OpenCL or Vulkan devices, or on one.",
            .commands = td_cli_commands,
            .n_commands = TD_COMMAND_COUNT,
            .synonyms = SYNONYMS,
            .n_synonyms = sizeof SYNONYMS / sizeof SYNONYMS[0],
        }};
    TD_TRY(td_settings_add_keys(&out->rows));
    TD_TRY(td_option_rows_add(&out->rows, OWN, sizeof OWN / sizeof OWN[0]));
    TD_TRY(td_settings_add_general_keys(&out->rows));
    TD_TRY(td_option_rows_add(&out->rows, LAST, sizeof LAST / sizeof LAST[0]));
    out->table.options = out->rows.rows;
    out->table.n_options = out->rows.count;
    return TD_OK;
fail:
    td_cli_free_table(out);
    return status;
}

void td_cli_free_table(td_cli_table *table)
{
    td_option_rows_free(&table->rows);
}
