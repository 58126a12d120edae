/* `tandem serve`: the server of src/serve, until a signal ends it. Covered by tests/cli/test_serve.py. */
#include "base/error.h"
#include "cli/cli.h"

#ifdef TD_HAVE_SERVER
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "serve/server.h"
#include "serve/wyoming.h"

/* What is left then after a signal is given up, so that all has ended within ten seconds. */
enum { DRAIN_MS = 7500, MOST_KEY = 4096, MOST_VOICES = 64 };

static volatile sig_atomic_t asked_by;

static void ask_to_end(int number)
{
    if (asked_by != 0) _exit(TD_EXIT_SIGNAL + number);
    asked_by = number;
}

static void catch_signals(void)
{
    static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP};
    const struct sigaction action = {.sa_handler = ask_to_end};
    for (size_t i = 0; i < sizeof SIGNALS / sizeof *SIGNALS; i++)
        sigaction(SIGNALS[i], &action, NULL);
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
}

/* ---------------------------------------------------------------- settings */

/* "NAME=FILE" a line. The texts are cut up in place. */
static td_status read_voices(char *lines, td_named_voice *out, size_t *count)
{
    char *rest = NULL;
    *count = 0;
    for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *equals = strchr(line, '=');
        TD_REFUSE_IF(!equals || !equals[1], TD_ERR_CONFIG, "--voice %s: give it a name: --voice anna=%s",
                     line, equals ? "FILE" : line);
        *equals = '\0';
        TD_REFUSE_IF(!td_voice_is_name(line), TD_ERR_CONFIG,
                     "--voice: '%s' cannot be a name; use up to 64 letters, digits, - and _", line);
        for (size_t i = 0; i < *count; i++)
            TD_REFUSE_IF(strcmp(out[i].name, line) == 0, TD_ERR_CONFIG, "--voice: two voices are called '%s'",
                         line);
        TD_REFUSE_IF(*count == MOST_VOICES, TD_ERR_CONFIG, "--voice: %d voices are the most", MOST_VOICES);
        out[(*count)++] = (td_named_voice){.name = line, .path = equals + 1};
    }
    return TD_OK;
}

/* *out: owned; NULL without a file. */
static td_status read_key(const char *path, char **out)
{
    size_t bytes;
    *out = NULL;
    if (!path) return TD_OK;
    TD_CHECK(td_file_read(path, MOST_KEY, out, &bytes));
    (*out)[strcspn(*out, "\r\n")] = '\0';
    TD_REFUSE_IF(strlen(*out) < 8, TD_ERR_CONFIG,
                 "%s: its first line is the key, and needs at least 8 characters", path);
    return TD_OK;
}

/* ---------------------------------------------------------------- running */

static void print_start(const td_cli *cli, const td_server *server)
{
    const td_server_settings *s = &server->settings;
    const uint16_t port = td_http_port(server->http);
    if (cli->json) {
        td_json *json;
        if (td_cli_begin_json(&json) != TD_OK) return;
        td_json_put_string(json, "host", s->host);
        td_json_put_uint(json, "port", port);
        td_json_put_uint(json, "wyoming_port", server->wyoming ? td_wyoming_port(server->wyoming) : 0);
        (void)td_cli_print_json(cli, json, TD_EXIT_DONE);
    } else {
        const bool is_v6 = strchr(s->host, ':') != NULL;
        td_printf("Listening at http://%s%s%s:%u (OpenAI: /v1/audio/speech; page: /). Ctrl-C ends it.\n",
                  is_v6 ? "[" : "", s->host, is_v6 ? "]" : "", port);
    }
    fflush(stdout);
}

/* Until a signal, or until voices turn out not to be loadable. */
static td_status run(const td_cli *cli, td_server *server)
{
    td_status status = TD_OK;
    bool is_told = false;
    print_start(cli, server);
    while (asked_by == 0) {
        status = td_jobs_check(server->jobs);
        if (status != TD_OK && status != TD_ERR_TIMEOUT) return status;
        if (status == TD_OK && !is_told) td_log_info("the voices are loaded");
        is_told |= status == TD_OK;
        td_clock_sleep_until(td_clock_ns() + (is_told ? 200000000 : 20000000));
    }
    td_log_info("ending: what is being spoken comes to its end, nothing new is taken");
    if (!td_server_drain(server, DRAIN_MS)) td_log_warn("some answers were not done in time and are cut off");
    return TD_OK;
}

int td_cmd_serve(td_cli *cli)
{
    const char *voices = td_cli_text(cli, "voice");
    const char *model = td_cli_text(cli, "devices.model");
    const int wyoming_port = (int)td_cli_count(cli, "serve.wyoming_port");
    char *lines = NULL, *key = NULL;
    td_named_voice named[MOST_VOICES];
    td_server *server = NULL;
    td_server_settings s = {.host = td_cli_text(cli, "serve.host"),
                            .port = (uint16_t)td_cli_count(cli, "serve.port"),
                            .wyoming_host = td_cli_text(cli, "serve.wyoming_host"),
                            .wyoming_port = wyoming_port > 0 ? wyoming_port : -1,
                            .origins = td_cli_text(cli, "serve.origins"),
                            .voices_dir = td_cli_text(cli, "serve.voices_dir"),
                            .runs_dir = td_cli_text(cli, "serve.runs"),
                            .rate_limit = (uint32_t)td_cli_count(cli, "serve.rate_limit"),
                            .jobs = {.voices = named,
                                     .device = model ? model : td_cli_text(cli, "bench.device"),
                                     .data_device = td_cli_text(cli, "devices.data"),
                                     .deadline_s = (uint32_t)td_cli_count(cli, "serve.deadline"),
                                     .cache_dir = td_cli_text(cli, "data.cache_dir"),
                                     .weights = td_cli_text(cli, "synth.weights"),
                                     .queue = (uint32_t)td_cli_count(cli, "serve.queue"),
                                     .streams = (uint32_t)td_cli_count(cli, "serve.streams")}};
    td_status status = TD_OK;
    td_cli_return_large_blocks();
    TD_TRY(td_cli_refuse_model_keys(cli));
    TD_FAIL_IF(!voices, TD_ERR_CONFIG,
               "no voice was named; add --voice NAME=FILE, a checkpoint of `tandem train`");
    TD_FAIL_IF(!(lines = strdup(voices)), TD_ERR_HOST_MEMORY, "no memory");
    TD_TRY(read_voices(lines, named, &s.jobs.n_voices));
    TD_TRY(read_key(td_cli_text(cli, "serve.api_key_file"), &key));
    s.key = key;
    catch_signals();
    TD_TRY(td_server_open(&s, &server));
    TD_TRY(run(cli, server));
fail:
    td_server_close(server);
    free(key);
    free(lines);
    if (status != TD_OK) return td_cli_fail(cli, NULL);
    return TD_EXIT_SIGNAL + asked_by;
}

#else

int td_cmd_serve(td_cli *cli)
{
    (void)TD_FAIL(TD_ERR_UNSUPPORTED,
                  "this program was built without the server; install libmicrohttpd-dev and "
                  "build again");
    return td_cli_fail(cli, NULL);
}

#endif
