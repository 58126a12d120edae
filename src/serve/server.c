/* See server.h. */
#include "serve/server.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "serve/wyoming.h"

static const td_route *const TABLES[] = {td_openai_routes, td_tts_api_routes, td_status_routes};

static td_status join_routes(td_server *server, size_t *count)
{
    td_status status = TD_OK;
    *count = 0;
    for (size_t t = 0; t < sizeof TABLES / sizeof *TABLES; t++)
        for (const td_route *r = TABLES[t]; r->path; r++)
            ++*count;
    TD_TRY(TD_NEW_ARRAY(&server->routes, *count));
    td_route *to = server->routes;
    for (size_t t = 0; t < sizeof TABLES / sizeof *TABLES; t++)
        for (const td_route *r = TABLES[t]; r->path; r++)
            *to++ = *r;
fail:
    return status;
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
    atomic_init(&server->speed_permille, 1000);
    TD_TRY(join_routes(server, &n_routes));
    TD_TRY(td_jobs_open(&settings->jobs, &server->jobs));
    const td_http_settings http = {.host = settings->host,
                                   .port = settings->port,
                                   .key = settings->key,
                                   .origins = settings->origins,
                                   .routes = server->routes,
                                   .n_routes = n_routes,
                                   .context = server,
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

/* Work that is left ends first, so that no connection waits for it. */
void td_server_close(td_server *server)
{
    if (!server) return;
    if (server->jobs) td_jobs_cancel(server->jobs);
    td_wyoming_close(server->wyoming);
    td_http_close(server->http);
    td_jobs_close(server->jobs);
    free(server->routes);
    free(server);
}
