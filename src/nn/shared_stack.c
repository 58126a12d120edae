/* See shared_stack.h. Whoever finds the stack free takes the step of all who wait. */
#include "nn/shared_stack.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

#define COMPANY_SHARE 8u /* of the last step's time, for which others are waited for */

typedef struct request {
    struct request *next;
    td_shared_user *user;
    const td_stack_code *codes;
    uint32_t n;
    float *logits, *latents;
    bool is_done;
    td_error error;
} request;

struct td_shared_stack {
    td_stack *stack; /* of whoever has set is_taken */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    request *first, **end; /* that wait for a step */
    bool is_taken;
    uint32_t users, slots;
    uint32_t n_last; /* requests of the last step */
    td_shared_stats stats;
    uint64_t ended_ns, took_ns; /* the last step */
};

/* ---------------------------------------------------------------- life */

td_status td_shared_stack_make(td_stack *stack, td_shared_stack **out)
{
    td_shared_stack *s = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(TD_NEW(&s));
    td_condition_open(&s->changed);
    pthread_mutex_init(&s->lock, NULL);
    s->stack = stack;
    s->end = &s->first;
    s->users = 1;
    *out = s;
    return TD_OK;
fail:
    td_stack_destroy(stack);
    free(s);
    return status;
}

td_shared_stack *td_shared_stack_join(td_shared_stack *s)
{
    pthread_mutex_lock(&s->lock);
    s->users++;
    pthread_mutex_unlock(&s->lock);
    return s;
}

void td_shared_stack_leave(td_shared_stack *s)
{
    if (!s) return;
    pthread_mutex_lock(&s->lock);
    const bool is_last = --s->users == 0;
    pthread_mutex_unlock(&s->lock);
    if (!is_last) return;
    td_stack_destroy(s->stack);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

/* ---------------------------------------------------------------- alone */

/* The lock is held, here and below where nothing else is said. */
static void let_go(td_shared_stack *s)
{
    s->is_taken = false;
    pthread_cond_broadcast(&s->changed);
}

td_stack *td_shared_stack_take(td_shared_stack *s)
{
    pthread_mutex_lock(&s->lock);
    while (s->is_taken)
        pthread_cond_wait(&s->changed, &s->lock);
    s->is_taken = true;
    pthread_mutex_unlock(&s->lock);
    return s->stack;
}

void td_shared_stack_return(td_shared_stack *s)
{
    pthread_mutex_lock(&s->lock);
    let_go(s);
    pthread_mutex_unlock(&s->lock);
}

const td_stack *td_shared_stack_weights(const td_shared_stack *s)
{
    return s->stack;
}

td_status td_shared_stack_new_slot(td_shared_stack *s, uint32_t *slot)
{
    pthread_mutex_lock(&s->lock);
    *slot = s->slots;
    const bool is_there = s->slots < TD_STACK_MOST_SLOTS;
    s->slots += is_there;
    pthread_mutex_unlock(&s->lock);
    TD_REFUSE_IF(!is_there, TD_ERR_LIMIT, "more than %u texts at once", TD_STACK_MOST_SLOTS);
    return TD_OK;
}

/* ---------------------------------------------------------------- together */

/* Whether everybody waits who took part in the last step: those who went on, and do not come back, are few. */
static bool is_company_complete(const td_shared_stack *s)
{
    uint32_t n = 0;
    for (const request *r = s->first; r; r = r->next)
        n += r->user->last_step == s->stats.n_steps;
    return n >= s->n_last;
}

static void await_company(td_shared_stack *s)
{
    const uint64_t deadline_ns = s->ended_ns + s->took_ns / COMPANY_SHARE;
    while (!is_company_complete(s) && td_condition_wait(&s->changed, &s->lock, deadline_ns)) {
    }
}

/* Takes the first requests, as many as fit into a step, out of the queue. */
static request *take_requests(td_shared_stack *s, td_stack_code *codes, uint32_t *n)
{
    request *taken = s->first, **end = &s->first;
    *n = s->n_last = 0;
    while (*end && *n + (*end)->n <= TD_DECODE_MAX_TEXTS) {
        memcpy(codes + *n, (*end)->codes, (*end)->n * sizeof *codes);
        *n += (*end)->n;
        s->n_last++;
        end = &(*end)->next;
    }
    s->first = *end;
    *end = NULL;
    if (!s->first) s->end = &s->first;
    return taken;
}

static void answer(const td_stack_options *o, request *r, const td_stack_thought *thoughts)
{
    for (uint32_t i = 0; i < r->n; i++) {
        memcpy(r->logits + (size_t)i * o->shape.codes, thoughts[i].logits,
               o->shape.codes * sizeof *r->logits);
        memcpy(r->latents + (size_t)i * o->shape.width, thoughts[i].latent,
               o->shape.width * sizeof *r->latents);
    }
}

/* Takes the step of all who wait, the caller among them; the lock is let go meanwhile. */
static void lead(td_shared_stack *s)
{
    td_stack_code codes[TD_DECODE_MAX_TEXTS] = {{0}};
    td_stack_thought thoughts[TD_DECODE_MAX_TEXTS];
    uint32_t n, answered = 0;
    s->is_taken = true;
    await_company(s);
    request *requests = take_requests(s, codes, &n);
    pthread_mutex_unlock(&s->lock);
    const uint64_t start_ns = td_clock_ns();
    const td_status status = td_stack_next(s->stack, codes, n, thoughts);
    for (request *r = requests; r; r = r->next) {
        if (status == TD_OK)
            answer(td_stack_get(s->stack), r, thoughts + answered);
        else
            r->error = *td_error_last();
        answered += r->n;
    }
    pthread_mutex_lock(&s->lock);
    s->stats.n_steps++;
    s->stats.n_codes += n;
    s->ended_ns = td_clock_ns();
    s->took_ns = s->ended_ns - start_ns;
    for (request *r = requests, *next; r; r = next) {
        next = r->next; /* the request is its owner's once it is done */
        r->user->last_step = s->stats.n_steps;
        r->is_done = true;
    }
    let_go(s);
}

td_status td_shared_stack_next(td_shared_stack *s, td_shared_user *user, const td_stack_code *codes,
                               uint32_t n, float *logits, float *latents)
{
    request r = {.user = user, .codes = codes, .n = n};
    TD_REFUSE_IF(n == 0 || n > TD_DECODE_MAX_TEXTS, TD_ERR_ARGUMENT,
                 "a step of %u texts; there can be 1 to %u", n, TD_DECODE_MAX_TEXTS);
    r.logits = logits;
    r.latents = latents;
    pthread_mutex_lock(&s->lock);
    *s->end = &r;
    s->end = &r.next;
    pthread_cond_broadcast(&s->changed); /* somebody may wait for company */
    while (!r.is_done) {
        if (s->is_taken)
            pthread_cond_wait(&s->changed, &s->lock);
        else
            lead(s);
    }
    pthread_mutex_unlock(&s->lock);
    return r.error.status == TD_OK ? TD_OK : td_error_adopt(&r.error);
}

td_shared_stats td_shared_stack_stats(td_shared_stack *s)
{
    pthread_mutex_lock(&s->lock);
    td_shared_stats stats = s->stats;
    for (const request *r = s->first; r; r = r->next)
        stats.n_waiting++;
    pthread_mutex_unlock(&s->lock);
    return stats;
}
