/* The server behind `tandem serve`: voices that stay loaded, and who can ask them to speak over HTTP: OpenAI's
 * clients (openai.c), those of xtts-api-server (tts_api.c), the page of the program (page.c). Uses the public
 * library alone. Covered by tests/serve.
 */
#ifndef TD_SERVE_SERVER_H
#define TD_SERVE_SERVER_H

#include <stdatomic.h>

#include "serve/http.h"
#include "serve/jobs.h"

typedef struct td_server_settings {
    td_jobs_settings jobs;
    const char *host;
    uint16_t port;       /* 0: any that is free */
    const char *key;     /* NULL: none */
    const char *origins; /* as td_http_settings has them */
    const char *wyoming_host;
    int wyoming_port; /* -1: none; 0: any that is free */
} td_server_settings;

/* What handlers reach through td_call.context. */
typedef struct td_server {
    td_server_settings settings;
    td_jobs *jobs;
    td_http *http;
    struct td_wyoming *wyoming; /* NULL: not offered */
    uint64_t start_ns;
    td_route *routes;           /* all of them; owned */
    atomic_uint speed_permille; /* that clients of xtts-api-server have set for all */
} td_server;

/* All is borrowed until close. Listens at once; voices load meanwhile. *out: owned, td_server_close(). */
td_status td_server_open(const td_server_settings *settings, td_server **out);

/* Refuses new work, and waits up to timeout_ms for what is under way; false if some is left. */
bool td_server_drain(td_server *server, uint32_t timeout_ms);
void td_server_close(td_server *server);

/* ---------------------------------------------------------------- speech.c: what all ways of asking share */

typedef struct td_speech_wish {
    const char *text;
    size_t voice;        /* its number */
    const char *speaker; /* NULL: the first */
    const char *language;
    double speed; /* 0: 1 */
    uint64_t seed;
    const td_encoder_format *format;
    bool is_whole; /* the sound with its length at its start, when all of it is made */
    bool is_sse;
} td_speech_wish;

/* Answers the call with the sound, or with what is wrong. */
void td_server_speak(td_call *call, const td_speech_wish *wish);

/* A voice by "NAME" or "NAME:SPEAKER"; false: there is none. *speaker is borrowed from `id`. */
bool td_server_match_voice(const td_server *server, const char *id, size_t *voice, const char **speaker);

/* The same for a call. False: there is none, and the call is answered so. *speaker is borrowed from
 * `id`. */
bool td_server_find_voice(td_call *call, const char *id, size_t *voice, const char **speaker);

/* False while voices are loaded, or if they cannot be: the call is answered so. */
bool td_server_is_ready(td_call *call);

/* Calls `tell` with each voice, as clients name it: "NAME", and where it has several speakers "NAME:SPEAKER" too. */
void td_server_list_voices(const td_server *server, void (*tell)(void *context, const char *id),
                           void *context);

/* ---------------------------------------------------------------- routes, ended by one without a path */

extern const td_route td_openai_routes[], td_tts_api_routes[], td_status_routes[];

#endif
