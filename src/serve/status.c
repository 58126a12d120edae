/* How the server is: /health for whoever watches over it, /metrics for Prometheus, and the page for people. */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "serve/server.h"

static const unsigned char PAGE[] = {
#include "page_serve.inc"
};

static const unsigned char SCRIPT[] = {
#include "script_serve.inc"
};

static void show_page(td_call *call)
{
    td_reply_bytes(call, 200, "text/html; charset=utf-8", PAGE, sizeof PAGE);
}

static void show_script(td_call *call)
{
    td_reply_bytes(call, 200, "text/javascript; charset=utf-8", SCRIPT, sizeof SCRIPT);
}

static void tell_health(td_call *call)
{
    static const char OK[] = "{\"status\":\"ok\"}";
    if (td_server_is_ready(call)) td_reply_bytes(call, 200, "application/json", OK, strlen(OK));
}

static void put_metric(td_bytes *out, const char *name, const char *kind, const char *help, double value)
{
    td_bytes_print(out, "# HELP tandem_%s %s\n# TYPE tandem_%s %s\ntandem_%s %.9g\n", name, help, name, kind,
                   name, value);
}

static void tell_metrics(td_call *call)
{
    td_server *server = call->context;
    td_bytes out = {0};
    td_jobs_stats s;
    td_jobs_get_stats(server->jobs, &s);
    put_metric(&out, "up_seconds", "gauge", "Time since the start.",
               1e-9 * (double)(td_clock_ns() - server->start_ns));
    put_metric(&out, "requests_total", "counter", "Texts that were taken.", (double)s.n_added);
    put_metric(&out, "requests_refused_total", "counter", "Texts refused because the queue was full.",
               (double)s.n_refused);
    put_metric(&out, "requests_done_total", "counter", "Texts spoken to their end.", (double)s.n_done);
    put_metric(&out, "requests_failed_total", "counter", "Texts that could not be spoken.",
               (double)s.n_failed);
    put_metric(&out, "requests_cancelled_total", "counter", "Texts whose client left.",
               (double)s.n_cancelled);
    put_metric(&out, "waiting", "gauge", "Texts in the queue.", s.waiting);
    put_metric(&out, "speaking", "gauge", "Texts being spoken.", s.speaking);
    put_metric(&out, "audio_seconds_total", "counter", "Sound made.", s.audio_s);
    put_metric(&out, "work_seconds_total", "counter", "Time it took, of all streams together.", s.work_s);
    put_metric(&out, "wait_seconds_total", "counter", "Time that texts waited.", s.waiting_s);
    put_metric(&out, "first_audio_seconds_sum", "counter",
               "Time from asking to the first samples, all together.", s.first_s);
    put_metric(&out, "first_audio_seconds_count", "counter", "Texts that this counts.", (double)s.n_first);
    if (!out.has_failed) td_reply_bytes(call, 200, "text/plain; version=0.0.4", out.data, out.size);
    td_bytes_free(&out);
}

const td_route td_status_routes[] = {
    {"GET", "/", show_page, .is_open = true},
    {"GET", "/page.js", show_script, .is_open = true},
    {"GET", "/health", tell_health, .is_open = true},
    {"GET", "/metrics", tell_metrics, .is_open = false},
    {0},
};
