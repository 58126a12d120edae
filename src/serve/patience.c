/* See patience.h. */
#include "serve/patience.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

#define SECOND_NS UINT64_C(1000000000)

struct td_waited {
    td_waited *next, *before;
    int socket;
    uint64_t until_ns; /* 0: for ever */
};

struct td_patience {
    pthread_mutex_t lock;
    pthread_t thread;
    bool is_running, is_closing;
    td_waited *first;
};

static void *watch(void *argument)
{
    td_patience *p = argument;
    for (bool ends = false; !ends;) {
        td_clock_sleep_until(td_clock_ns() + SECOND_NS / 4);
        const uint64_t now_ns = td_clock_ns();
        pthread_mutex_lock(&p->lock);
        ends = p->is_closing;
        for (td_waited *w = p->first; w; w = w->next) {
            if (w->until_ns == 0 || now_ns < w->until_ns) continue;
            shutdown(w->socket, SHUT_RDWR); /* whoever reads from it sees its end */
            w->until_ns = 0;
        }
        pthread_mutex_unlock(&p->lock);
    }
    return NULL;
}

td_status td_patience_open(td_patience **out)
{
    td_patience *p = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(TD_NEW(&p));
    pthread_mutex_init(&p->lock, NULL);
    TD_TRY(td_thread_start(&p->thread, "the watch over slow clients", watch, p));
    p->is_running = true;
    *out = p;
    return TD_OK;
fail:
    td_patience_close(p);
    return status;
}

void td_patience_close(td_patience *patience)
{
    if (!patience) return;
    pthread_mutex_lock(&patience->lock);
    patience->is_closing = true;
    pthread_mutex_unlock(&patience->lock);
    if (patience->is_running) pthread_join(patience->thread, NULL);
    pthread_mutex_destroy(&patience->lock);
    free(patience);
}

static uint64_t make_end(uint32_t seconds)
{
    return seconds ? td_clock_ns() + SECOND_NS * seconds : 0;
}

td_waited *td_patience_begin(td_patience *patience, int socket, uint32_t seconds)
{
    td_waited *w = NULL;
    if (TD_NEW(&w) != TD_OK) return NULL;
    w->socket = socket;
    w->until_ns = make_end(seconds);
    pthread_mutex_lock(&patience->lock);
    w->next = patience->first;
    if (w->next) w->next->before = w;
    patience->first = w;
    pthread_mutex_unlock(&patience->lock);
    return w;
}

void td_patience_set(td_patience *patience, td_waited *waited, uint32_t seconds)
{
    if (!waited) return;
    pthread_mutex_lock(&patience->lock);
    waited->until_ns = make_end(seconds);
    pthread_mutex_unlock(&patience->lock);
}

void td_patience_end(td_patience *patience, td_waited *waited)
{
    if (!waited) return;
    pthread_mutex_lock(&patience->lock);
    if (waited->before)
        waited->before->next = waited->next;
    else
        patience->first = waited->next;
    if (waited->next) waited->next->before = waited->before;
    pthread_mutex_unlock(&patience->lock);
    free(waited);
}
