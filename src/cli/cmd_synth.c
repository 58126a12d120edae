/* `tandem synth`: speech from a text and a checkpoint, or the copy of a recording (src/synth). Audio goes to
 * a file, or as raw samples to stdout; each line of a text to a file of its own, into a folder. Covered by
 * tests/cli/test_synth.py and test_findings_texts.py.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "audio/decode.h"
#include "audio/encode.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/progress.h"
#include "cli/cli.h"
#include "device/blocking.h"
#include "settings/read.h"
#include "synth/copy.h"
#include "synth/sound.h"
#include "synth/voice.h"

#define LONGEST_COPY_S 300.0
#define USUAL_AT_ONCE 4u /* pieces */

/* What is open while the command runs. */
typedef struct synth_run {
    td_voice *voice; /* NULL for a copy, which has a device of its own */
    td_registry *registry;
    td_device *device;
    td_memory *memory;
    const td_device_info *info; /* of the device that is used */
    FILE *out;                  /* samples go there as they are made; NULL: they are kept */
    int write_error;            /* errno of it; 0: none */
    float *samples;             /* NULL where they left already */
    size_t count, capacity;
    uint32_t rate;
    uint64_t start_ns;
    size_t n_pieces; /* 0: a copy */
    td_guard_counts guard;
    size_t n_files;       /* of lines that were spoken */
    size_t n_silent;      /* lines with nothing to say */
    double load_s;        /* opening the voice, its device and its weights with it */
    double work_s;        /* from there to the last sample */
    double first_audio_s; /* and to the first ones */
} synth_run;

static const char *get_text(const td_cli *cli, const char *name)
{
    return td_options_get(cli->options, name)->text;
}

/* The text that the command line itself has: behind --text, or as the argument; NULL: none. */
static const char *get_given_text(const td_cli *cli)
{
    size_t n_arguments;
    const char *const *arguments = td_options_arguments(cli->options, &n_arguments);
    const bool is_argument = n_arguments > 0 && strcmp(arguments[0], "-") != 0;
    return is_argument ? arguments[0] : get_text(cli, "text");
}

static bool is_to_stdout(const td_cli *cli)
{
    return strcmp(get_text(cli, "output"), "-") == 0;
}

/* A file for each line. */
static bool is_to_folder(const td_cli *cli)
{
    const char *output = get_text(cli, "output");
    return *output && output[strlen(output) - 1] == '/';
}

/* ---------------------------------------------------------------- usage */

static td_status check_output(const td_cli *cli)
{
    if (is_to_stdout(cli)) return TD_OK;
    if (!is_to_folder(cli)) return td_audio_check_path(get_text(cli, "output"));
    TD_REFUSE_IF(get_text(cli, "copy") || get_given_text(cli), TD_ERR_CONFIG,
                 "'%s' is a folder, for --text-file with one sentence a line; name a file: -o speech.wav",
                 get_text(cli, "output"));
    TD_REFUSE_IF(get_text(cli, "save-mel"), TD_ERR_CONFIG,
                 "--save-mel writes one file, and -o %s many; speak one text at a time",
                 get_text(cli, "output"));
    return TD_OK;
}

static td_status check_usage(const td_cli *cli)
{
    static const char *const SOURCES[] = {"copy", "text", "text-file"};
    const char *output = get_text(cli, "output");
    size_t n_sources, n_arguments;
    (void)td_options_arguments(cli->options, &n_arguments);
    n_sources = n_arguments;
    for (size_t i = 0; i < sizeof SOURCES / sizeof SOURCES[0]; i++)
        n_sources += get_text(cli, SOURCES[i]) != NULL;
    TD_REFUSE_IF(n_sources != 1, TD_ERR_CONFIG,
                 "%s; give one of a text, --text-file, - (standard input) and --copy",
                 n_sources ? "more than one thing to say" : "nothing to say");
    TD_REFUSE_IF(!output, TD_ERR_CONFIG, "no output was named; add -o speech.wav, or -o - for raw samples");
    TD_CHECK(check_output(cli));
    TD_CHECK(td_cli_refuse_model_keys(cli));
    const bool has_checkpoint = get_text(cli, "synth.checkpoint") != NULL;
    TD_REFUSE_IF(!get_text(cli, "copy") && !has_checkpoint, TD_ERR_CONFIG,
                 "no voice was named; add --checkpoint FILE, which `tandem train` writes");
    return TD_OK;
}

/* ---------------------------------------------------------------- samples out */

static bool write_bytes(synth_run *run, const unsigned char *bytes, size_t count)
{
    if (fwrite(bytes, 1, count, run->out) != count || fflush(run->out) != 0) run->write_error = errno;
    return run->write_error == 0;
}

static bool write_raw(synth_run *run, const float *samples, size_t count)
{
    enum { PIECE = 4096 };
    unsigned char bytes[2 * PIECE];
    bool is_written = true;
    for (size_t n; count > 0 && is_written; samples += n, count -= n) {
        n = count < PIECE ? count : PIECE;
        td_audio_to_bytes(samples, n, bytes);
        is_written = write_bytes(run, bytes, 2 * n);
    }
    return is_written;
}

static td_status check_written(const td_cli *cli, const synth_run *run)
{
    return run->write_error
               ? TD_FAIL(TD_ERR_IO, "%s: writing the samples failed: %s",
                         is_to_stdout(cli) ? "stdout" : get_text(cli, "output"), strerror(run->write_error))
               : TD_OK;
}

/* A WAV can be read from a pipe while it is made; other kinds of files are written as a whole. */
static bool is_wav_pipe(const char *path)
{
    struct stat found;
    const char *ending = strrchr(path, '.');
    return ending && strcasecmp(ending, ".wav") == 0 && stat(path, &found) == 0 && S_ISFIFO(found.st_mode);
}

/* Where samples go as they are made; waits for somebody who reads a pipe. */
static td_status open_output(const td_cli *cli, synth_run *run)
{
    const char *path = get_text(cli, "output");
    unsigned char header[TD_WAV_HEADER_BYTES];
    if (is_to_stdout(cli)) {
        run->out = stdout;
    } else if (is_wav_pipe(path)) {
        run->out = fopen(path, "wb");
        TD_REFUSE_IF(!run->out, TD_ERR_IO, "cannot write '%s': %s", path, strerror(errno));
        td_audio_wav_header(run->rate, header);
        if (!write_bytes(run, header, sizeof header)) return check_written(cli, run);
    }
    return TD_OK;
}

/* A pipe, a device or a link is written into; a file is replaced as a whole. */
static bool is_written_into(const char *path)
{
    struct stat found;
    return lstat(path, &found) == 0 && !S_ISREG(found.st_mode);
}

static td_status write_into(const char *path, const char *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    const bool is_written = file && fwrite(data, 1, bytes, file) == bytes;
    int error = is_written ? 0 : errno;
    if (file && fclose(file) != 0 && !error) error = errno;
    return error ? TD_FAIL(TD_ERR_IO, "cannot write '%s': %s; check what is there, or choose another path",
                           path, strerror(error))
                 : TD_OK;
}

static td_status write_audio(const char *path, const float *samples, size_t count, uint32_t rate)
{
    char *data = NULL;
    size_t bytes;
    td_status status = TD_OK;
    if (!is_written_into(path)) return td_audio_encode(path, samples, count, rate);
    TD_TRY(td_audio_encode_memory(path, samples, count, rate, &data, &bytes));
    TD_TRY(write_into(path, data, bytes));
fail:
    free(data);
    return status;
}

/* ---------------------------------------------------------------- copy */

static td_status open_device(const td_cli *cli, synth_run *run)
{
    TD_CHECK(td_settings_open_registry(cli->options, &run->registry));
    TD_CHECK(td_cli_find_device(cli, run->registry, &run->info));
    TD_REFUSE_IF(run->info->type == TD_DEVICE_SIM, TD_ERR_UNSUPPORTED,
                 "the simulated device computes nothing, so it cannot speak");
    TD_CHECK(td_device_open(run->registry, run->info, &run->device));
    return td_memory_create(run->device, "model", 0, &run->memory);
}

static uint64_t get_seed(const td_cli *cli)
{
    return (uint64_t)td_options_get(cli->options, "training.seed")->integer;
}

/* The spectrogram that a copy goes through. */
static td_status save_mel(const td_mel *mel, td_memory *memory, const td_audio *audio, const char *path)
{
    const td_mel_config *config = td_mel_get_config(mel);
    td_speech speech = {.n_mels = config->n_mels};
    td_mel_clip copy;
    td_status status = TD_OK;
    TD_TRY(td_mel_clip_make(mel, memory, audio->samples, audio->count, &copy));
    speech.frames = copy.frames;
    TD_TRY(TD_NEW_ARRAY(&speech.mel, copy.frames * speech.n_mels));
    TD_TRY(td_blocking_read(memory, copy.mel, (td_point){0}, speech.mel));
    TD_TRY(td_speech_save_mel(&speech, config, path));
fail:
    td_mel_clip_free(memory, &copy);
    td_speech_free(&speech);
    return status;
}

/* That of the vocoder's own, where one is named. */
static td_status find_front_end(const td_cli *cli, td_mel_config *out)
{
    const char *wanted = get_text(cli, "synth.vocoder");
    td_checkpoint *vocoder = NULL;
    td_status status = TD_OK;
    if (!wanted || strcmp(wanted, "griffin-lim") == 0) return TD_OK;
    TD_TRY(td_sound_find(wanted, &vocoder));
    *out = td_checkpoint_get_info(vocoder)->mel;
fail:
    td_checkpoint_close(vocoder);
    return status;
}

static td_status copy_recording(const td_cli *cli, synth_run *run)
{
    td_mel_config config = td_mel_config_default();
    const char *mel_path = get_text(cli, "save-mel");
    td_audio audio = {0};
    td_mel *mel = NULL;
    td_sound sound = {0};
    td_status status = TD_OK;
    TD_TRY(find_front_end(cli, &config));
    TD_TRY(open_device(cli, run));
    const uint64_t start_ns = td_clock_ns();
    const td_decode_options options = {.rate = config.rate, .max_s = LONGEST_COPY_S, .finite = true};
    TD_TRY(td_audio_decode(get_text(cli, "copy"), &options, &audio));
    TD_TRY(td_mel_create(run->memory, &config, &mel));
    TD_TRY(td_sound_open(run->memory, mel, NULL, get_text(cli, "synth.vocoder"), &sound));
    TD_TRY(td_copy_run(sound.vocoder, mel, run->memory, audio.samples, audio.count, get_seed(cli),
                       &run->samples, &run->count));
    run->rate = config.rate;
    run->work_s = 1e-9 * (double)(td_clock_ns() - start_ns);
    if (mel_path) TD_TRY(save_mel(mel, run->memory, &audio, mel_path));
    TD_TRY(open_output(cli, run));
    if (run->out) {
        write_raw(run, run->samples, run->count);
        TD_TRY(check_written(cli, run));
    }
fail:
    td_sound_close(&sound);
    td_mel_destroy(mel);
    td_audio_free(&audio);
    return status;
}

/* ---------------------------------------------------------------- speech */

/* *text: owned, free(). */
static td_status read_text(const td_cli *cli, char **text)
{
    const char *given = get_given_text(cli), *path = get_text(cli, "text-file");
    size_t bytes;
    *text = NULL;
    if (given) {
        bytes = strlen(given);
        TD_CHECK(TD_NEW_ARRAY(text, bytes + 1));
        memcpy(*text, given, bytes);
    } else if (path && strcmp(path, "-") != 0) {
        TD_CHECK(td_file_read(path, TD_SCRIPT_MAX_BYTES, text, &bytes));
    } else {
        TD_CHECK(
            TD_NEW_ARRAY(text, (size_t)TD_SCRIPT_MAX_BYTES + 2)); /* one more, to see that it is too much */
        bytes = fread(*text, 1, (size_t)TD_SCRIPT_MAX_BYTES + 1, stdin);
        TD_REFUSE_IF(ferror(stdin), TD_ERR_IO, "stdin: reading the text failed: %s", strerror(errno));
    }
    TD_REFUSE_IF(memchr(*text, 0, bytes), TD_ERR_FORMAT, "%s: the text has a zero byte; is it a text?",
                 path && strcmp(path, "-") != 0 ? path : "stdin");
    return TD_OK;
}

static td_status open_voice(const td_cli *cli, synth_run *run)
{
    const char *model = get_text(cli, "devices.model");
    const td_voice_options options = {.size = sizeof options,
                                      .path = get_text(cli, "synth.checkpoint"),
                                      .device = model ? model : get_text(cli, "bench.device"),
                                      .data_device = get_text(cli, "devices.data"),
                                      .vocoder = get_text(cli, "synth.vocoder"),
                                      .cache_dir = get_text(cli, "data.cache_dir"),
                                      .lexicon = get_text(cli, "synth.lexicon"),
                                      .weights = get_text(cli, "synth.weights"),
                                      .lora = get_text(cli, "synth.lora")};
    td_voice_info info = {.size = sizeof info};
    const uint64_t start_ns = td_clock_ns();
    TD_CHECK(td_voice_open(&options, &run->voice, NULL));
    run->load_s = 1e-9 * (double)(td_clock_ns() - start_ns);
    TD_CHECK(td_voice_get_info(run->voice, &info));
    run->info = info.device;
    run->rate = info.rate;
    const bool knows_speaker = *info.speakers && get_text(cli, "synth.speaker");
    TD_REFUSE_IF(info.needs_reference && !knows_speaker && !get_text(cli, "synth.reference"), TD_ERR_CONFIG,
                 "the voice speaks like a recording; name one with --reference FILE.wav%s",
                 *info.speakers ? ", or with --speaker one of those that `tandem inspect` lists" : "");
    if (get_text(cli, "save-mel")) td_voice_keep_mel(run->voice);
    return TD_OK;
}

/* Samples of a voice while it speaks. */
static bool take_samples(void *context, const float *samples, size_t count)
{
    synth_run *run = context;
    if (run->count == 0) run->first_audio_s = 1e-9 * (double)(td_clock_ns() - run->start_ns);
    if (!run->out) {
        if (td_alloc_grow(&run->samples, &run->capacity, run->count + count, sizeof *samples) != TD_OK)
            return false;
        memcpy(run->samples + run->count, samples, count * sizeof *samples);
    }
    run->count += count;
    return run->out ? write_raw(run, samples, count) : true;
}

/* Pieces that are spoken side by side: where nobody listens yet, and one device does it all. */
static uint32_t get_at_once(const td_cli *cli, const synth_run *run)
{
    const int64_t given = td_options_get(cli->options, "synth.at_once")->integer;
    if (given > 0) return (uint32_t)given;
    return run->out || get_text(cli, "devices.data") ? 1 : USUAL_AT_ONCE;
}

static td_speak_options get_speak_options(const td_cli *cli, const synth_run *run)
{
    return (td_speak_options){.size = sizeof(td_speak_options),
                              .speaker = get_text(cli, "synth.speaker"),
                              .reference = get_text(cli, "synth.reference"),
                              .language = get_text(cli, "data.language"),
                              .speed = td_options_get(cli->options, "synth.speed")->real,
                              .pitch_shift = td_options_get(cli->options, "synth.pitch_shift")->real,
                              .energy = td_options_get(cli->options, "synth.energy")->real,
                              .seed = get_seed(cli),
                              .strict_text = td_cli_is_on(cli, "synth.strict_text"),
                              .greedy = td_cli_is_on(cli, "synth.greedy"),
                              .no_guard = !td_cli_is_on(cli, "synth.guard"),
                              .top_k = (uint32_t)td_options_get(cli->options, "synth.top_k")->integer,
                              .temperature = td_options_get(cli->options, "synth.temperature")->real,
                              .top_p = td_options_get(cli->options, "synth.top_p")->real,
                              .repetition_penalty =
                                  td_options_get(cli->options, "synth.repetition_penalty")->real,
                              .at_once = get_at_once(cli, run)};
}

static void add_counts(synth_run *run, const td_speech *speech)
{
    run->n_pieces += speech->n_pieces;
    run->guard.n_redrawn += speech->guard.n_redrawn;
    run->guard.n_trimmed += speech->guard.n_trimmed;
    run->guard.n_cut += speech->guard.n_cut;
}

static td_status speak_text(const td_cli *cli, synth_run *run)
{
    const char *mel_path = get_text(cli, "save-mel");
    char *text = NULL;
    td_status status = TD_OK;
    TD_TRY(read_text(cli, &text));
    TD_TRY(open_voice(cli, run));
    TD_TRY(open_output(cli, run));
    const td_speak_options options = get_speak_options(cli, run);
    run->start_ns = td_clock_ns();
    const td_status speaks = td_voice_stream(run->voice, text, &options, take_samples, run);
    TD_TRY(check_written(cli, run));
    TD_TRY(speaks);
    run->work_s = 1e-9 * (double)(td_clock_ns() - run->start_ns);
    const td_speech *speech = td_voice_last(run->voice);
    add_counts(run, speech);
    if (get_text(cli, "dump-synth")) TD_TRY(td_voice_save_parts(run->voice, get_text(cli, "dump-synth")));
    if (get_text(cli, "profile.trace"))
        TD_TRY(td_voice_save_trace(run->voice, get_text(cli, "profile.trace")));
    if (mel_path) TD_TRY(td_speech_save_mel(speech, &td_voice_checkpoint(run->voice)->mel, mel_path));
fail:
    free(text);
    return status;
}

/* ---------------------------------------------------------------- lines */

static size_t count_lines(const char *text)
{
    size_t n = 0;
    for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
        n++;
    return n;
}

/* Speaks a line into the file of its number. One with nothing to say is counted alone. */
static td_status speak_line(const td_cli *cli, synth_run *run, const char *line, size_t number,
                            size_t n_lines)
{
    const td_speak_options options = get_speak_options(cli, run);
    const int digits = snprintf(NULL, 0, "%zu", n_lines);
    char path[TD_FILE_PATH_BYTES];
    float *samples = NULL;
    size_t count;
    td_status status = TD_OK;
    const int length =
        snprintf(path, sizeof path, "%s%0*zu.wav", get_text(cli, "output"), digits < 3 ? 3 : digits, number);
    TD_FAIL_IF(length >= (int)sizeof path, TD_ERR_CONFIG, "'%s': the path is too long",
               get_text(cli, "output"));
    status = td_voice_speak(run->voice, line, &options, &samples, &count);
    if (status == TD_ERR_CONFIG) {
        run->n_silent++;
        return TD_OK;
    }
    TD_FAIL_IF(status != TD_OK, status, "line %zu: %s", number, td_voice_error(run->voice)->message);
    TD_TRY(write_audio(path, samples, count, run->rate));
    run->n_files++;
    run->count += count;
    add_counts(run, td_voice_last(run->voice));
fail:
    td_voice_free_samples(samples);
    return status;
}

/* A file for each line that has something to say, as soon as it is spoken. */
static td_status speak_lines(const td_cli *cli, synth_run *run)
{
    char *text = NULL;
    td_progress *bar = NULL;
    td_status status = TD_OK;
    TD_TRY(read_text(cli, &text));
    TD_TRY(open_voice(cli, run));
    const uint64_t start_ns = td_clock_ns();
    const size_t n = count_lines(text);
    if (!td_cli_is_on(cli, "quiet")) TD_TRY(td_progress_create(stderr, "line", n, 10.0, &bar));
    char *line = text;
    for (size_t i = 1; i <= n; i++) {
        const size_t bytes = strcspn(line, "\n");
        line[bytes] = 0;
        if (line[strspn(line, " \t\r")]) TD_TRY(speak_line(cli, run, line, i, n));
        if (bar) td_progress_update(bar, i, "%zu files", run->n_files);
        if (i < n) line += bytes + 1;
    }
    run->work_s = 1e-9 * (double)(td_clock_ns() - start_ns);
    TD_FAIL_IF(run->n_files == 0, TD_ERR_CONFIG, "%s",
               run->n_silent ? td_voice_error(run->voice)->message
                             : "the text has nothing to say in any line");
fail:
    td_progress_destroy(bar);
    free(text);
    return status;
}

/* Whether files can be made there, before the work that they are for. */
static td_status check_files(const td_cli *cli)
{
    const char *output = get_text(cli, "output");
    if (is_to_folder(cli)) return td_file_make_dirs(output);
    const char *const paths[] = {is_to_stdout(cli) || is_written_into(output) ? NULL : output,
                                 get_text(cli, "save-mel")};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        td_file_writer *writer;
        if (!paths[i]) continue;
        const td_status status = td_file_writer_open(paths[i], &writer);
        if (status != TD_OK) return status;
        td_file_writer_close(writer);
    }
    return TD_OK;
}

static td_status speak(const td_cli *cli, synth_run *run)
{
    TD_CHECK(check_files(cli));
    if (is_to_folder(cli)) return speak_lines(cli, run);
    TD_CHECK(get_text(cli, "copy") ? copy_recording(cli, run) : speak_text(cli, run));
    if (!run->out) TD_CHECK(write_audio(get_text(cli, "output"), run->samples, run->count, run->rate));
    return TD_OK;
}

/* ---------------------------------------------------------------- telling */

static int tell(const td_cli *cli, const synth_run *run)
{
    const double audio_s = (double)run->count / run->rate;
    const double factor = audio_s / run->work_s;
    FILE *to = is_to_stdout(cli) ? stderr : stdout; /* the samples have stdout */
    td_json *json;
    if (!cli->json) {
        td_fprintf(to, "%s: %.2f s of speech in %.2f s, %.1f times real time, %u Hz", get_text(cli, "output"),
                   audio_s, run->work_s, factor, run->rate);
        if (run->out && run->first_audio_s > 0)
            td_fprintf(to, ", the first samples after %.2f s", run->first_audio_s);
        if (is_to_folder(cli))
            td_fprintf(to, ", %zu files; %zu lines had nothing to say", run->n_files, run->n_silent);
        fputc('\n', to);
        if (run->guard.n_redrawn + run->guard.n_trimmed > 0)
            td_fprintf(to, "guard: %zu loops drawn again, %zu pieces cut where their text was over\n",
                       run->guard.n_redrawn, run->guard.n_trimmed);
        return TD_EXIT_DONE;
    }
    if (td_cli_begin_json(&json) != TD_OK) return td_cli_fail(cli, NULL);
    td_cli_put_setting(json, run->info);
    td_json_put_string(json, "output", get_text(cli, "output"));
    if (is_to_folder(cli)) td_json_put_uint(json, "files", run->n_files);
    td_json_put_uint(json, "pieces", run->n_pieces);
    td_json_put_object(json, "guard");
    td_json_put_uint(json, "redrawn", run->guard.n_redrawn);
    td_json_put_uint(json, "trimmed", run->guard.n_trimmed);
    td_json_put_uint(json, "cut", run->guard.n_cut);
    td_json_end_object(json);
    td_json_put_uint(json, "rate", run->rate);
    td_json_put_double(json, "load_s", run->load_s);
    if (run->first_audio_s > 0) td_json_put_double(json, "first_audio_s", run->first_audio_s);
    td_json_put_double(json, "audio_s", audio_s);
    td_json_put_double(json, "work_s", run->work_s);
    td_json_put_double(json, "realtime_factor", factor);
    return td_cli_print_json_to(to, cli, json, TD_EXIT_DONE);
}

static void close_run(synth_run *run)
{
    if (run->out && run->out != stdout) (void)fclose(run->out); /* flushed after each write */
    free(run->samples);
    td_voice_close(run->voice);
    td_memory_destroy(run->memory);
    td_device_close(run->device);
    td_registry_close(run->registry);
}

int td_cmd_synth(td_cli *cli)
{
    synth_run run = {0};
    int code;
    td_cli_return_large_blocks();
    if (check_usage(cli) != TD_OK || speak(cli, &run) != TD_OK) {
        td_cli teller = *cli;
        const char *output = get_text(cli, "output");
        if (output && strcmp(output, "-") == 0) teller.json = false; /* no document among samples */
        code = td_cli_fail(&teller, NULL);
    } else
        code = tell(cli, &run);
    close_run(&run);
    return code;
}
