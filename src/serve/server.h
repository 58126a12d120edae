/* The server behind `tandem serve`: voices that stay loaded, and who can ask them to speak over HTTP: OpenAI's
 * clients (openai.c, voices.c), those of xtts-api-server (tts_api.c), the page of the program (status.c), which also
 * watches training runs (runs.c). Speaks with the public library alone. Covered by tests/cli/test_serve.py.
 */
#ifndef TD_SERVE_SERVER_H
#define TD_SERVE_SERVER_H

#include <pthread.h>

#include "serve/clones.h"
#include "serve/encoder.h"
#include "serve/http.h"
#include "serve/jobs.h"

typedef struct td_server_settings {
    td_jobs_settings jobs;
    const char *host;
    uint16_t port;       /* 0: any that is free */
    const char *key;     /* NULL: none */
    const char *origins; /* as td_http_settings has them */
    const char *wyoming_host;
    int wyoming_port;       /* -1: none; 0: any that is free */
    const char *voices_dir; /* where voices are kept that clients bring; NULL: they may not */
    const char *runs_dir;   /* of training runs, or of one; NULL: none are shown */
    uint32_t rate_limit;    /* as td_http_settings has it */
} td_server_settings;

/* How to speak; 0: the voice's own. All but the speed are for voices that draw what they say, as XTTS does. */
typedef struct td_manner {
    double speed;
    double temperature, top_k, top_p, repetition_penalty;
} td_manner;

/* What handlers reach through td_call.context. */
typedef struct td_server {
    td_server_settings settings;
    td_jobs *jobs;
    td_http *http;
    struct td_wyoming *wyoming; /* NULL: not offered */
    td_clones *clones;          /* NULL: none are taken */
    uint64_t start_ns;
    td_route *routes;     /* all of them; owned */
    pthread_mutex_t lock; /* of what follows */
    td_manner manner;     /* that clients of xtts-api-server have set for all */
} td_server;

/* All is borrowed until close. Listens at once; voices load meanwhile. *out: owned, td_server_close(). */
td_status td_server_open(const td_server_settings *settings, td_server **out);

/* Refuses new work, and waits up to timeout_ms for what is under way; false if some is left. */
bool td_server_drain(td_server *server, uint32_t timeout_ms);
void td_server_close(td_server *server);

/* ---------------------------------------------------------------- speech.c: what all ways of asking share */

/* As `tandem synth` has it, so that both give the same bytes where none is named. */
#define TD_USUAL_SEED UINT64_C(1)

/* Who is to speak. */
typedef struct td_who {
    size_t voice;         /* its number */
    const char *speaker;  /* NULL: the first */
    char reference[4096]; /* path of a recording to speak like; "": none */
} td_who;

typedef struct td_speech_wish {
    const char *text;
    td_who who;
    const char *language;
    td_manner manner;
    uint64_t seed;
    const td_encoder_format *format;
    bool is_whole; /* the sound with its length at its start, when all of it is made */
    bool is_sse;
} td_speech_wish;

/* Answers the call with the sound, or with what is wrong. */
void td_server_speak(td_call *call, const td_speech_wish *wish);

/* A voice by "NAME", "NAME:SPEAKER" or the name of one that was brought; false: there is none. out->speaker is
 * borrowed from `id`. */
bool td_server_match_voice(const td_server *server, const char *id, td_who *out);

/* The same for a call. False: there is none, and the call is answered so. */
bool td_server_find_voice(td_call *call, const char *id, td_who *out);

/* False while voices are loaded, or if they cannot be: the call is answered so. */
bool td_server_is_ready(td_call *call);

/* A voice as clients name it. Borrowed for the call. */
typedef struct td_listed_voice {
    const char *id;
    size_t voice;  /* that speaks */
    bool is_clone; /* it was brought */
} td_listed_voice;

/* Calls `tell` with each: "NAME", where it has several speakers "NAME:SPEAKER" too, then those that were brought. */
void td_server_list_voices(const td_server *server, void (*tell)(void *context, const td_listed_voice *voice),
                           void *context);

/* Texts with one word a line as an array; with `name` an array of objects that have the word under it. */
void td_server_put_lines(td_json *json, const char *key, const char *lines, const char *name);

/* ---------------------------------------------------------------- sound.c */

/* The samples of a job as they come, as an answer. Job and encoder are owned by it from here on. */
typedef struct td_sound_options {
    td_job *job;
    td_encoder *encoder;
    bool is_sse;           /* as events of OpenAI's kind, the bytes in base64 */
    uint64_t input_tokens; /* told at the end of events */
} td_sound_options;
void td_server_reply_sound(td_call *call, const td_sound_options *options);

/* ---------------------------------------------------------------- routes, ended by one without a path */

extern const td_route td_openai_routes[], td_voices_routes[], td_tts_api_routes[], td_runs_routes[],
    td_status_routes[];

#endif
