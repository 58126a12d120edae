/* See server.h. */
#include "serve/server.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "serve/wyoming.h"

/* For answers to what was given up. */
enum { LAST_WORD_MS = 1000 };

static const td_route *const TABLES[] = {td_openai_routes, td_voices_routes, td_tts_api_routes,
                                         td_runs_routes, td_status_routes};

static td_status join_routes(td_server *server, size_t *count)
{
    *count = 0;
    for (size_t t = 0; t < sizeof TABLES / sizeof *TABLES; t++)
        for (const td_route *r = TABLES[t]; r->path; r++)
            ++*count;
    TD_CHECK(TD_NEW_ARRAY(&server->routes, *count));
    td_route *to = server->routes;
    for (size_t t = 0; t < sizeof TABLES / sizeof *TABLES; t++)
        for (const td_route *r = TABLES[t]; r->path; r++)
            *to++ = *r;
    return TD_OK;
}

td_status td_server_open(const td_server_settings *settings, td_server **out)
{
    td_server *server = NULL;
    size_t n_routes;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(TD_NEW(&server));
    server->settings = *settings;
    server->start_ns = td_clock_ns();
    pthread_mutex_init(&server->lock, NULL);
    server->manner.speed = 1;
    TD_TRY(join_routes(server, &n_routes));
    if (settings->voices_dir) TD_TRY(td_clones_open(settings->voices_dir, &server->clones));
    TD_TRY(td_jobs_open(&settings->jobs, &server->jobs));
    const td_http_settings http = {.host = settings->host,
                                   .port = settings->port,
                                   .key = settings->key,
                                   .origins = settings->origins,
                                   .routes = server->routes,
                                   .n_routes = n_routes,
                                   .context = server,
                                   .rate_limit = settings->rate_limit,
                                   .most_connections =
                                       2 * settings->jobs.queue + settings->jobs.streams + 64};
    TD_TRY(td_http_open(&http, &server->http));
    if (settings->wyoming_port >= 0)
        TD_TRY(td_wyoming_open(server, settings->wyoming_host, (uint16_t)settings->wyoming_port,
                               &server->wyoming));
    *out = server;
    return TD_OK;
fail:
    td_server_close(server);
    return status;
}

bool td_server_drain(td_server *server, uint32_t timeout_ms)
{
    td_jobs_drain(server->jobs);
    return td_http_drain(server->http, timeout_ms);
}

/* Work that is left ends first, and whoever waits for it is told so before the door shuts. */
void td_server_close(td_server *server)
{
    if (!server) return;
    if (server->jobs) td_jobs_cancel(server->jobs);
    if (server->http) (void)td_http_drain(server->http, LAST_WORD_MS);
    td_wyoming_close(server->wyoming);
    td_http_close(server->http);
    td_jobs_close(server->jobs);
    td_clones_close(server->clones);
    pthread_mutex_destroy(&server->lock);
    free(server->routes);
    free(server);
}
