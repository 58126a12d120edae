/* See side.h. */
#include "train/side.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/thread.h"

typedef struct job {
    td_side_job run;
    void *context; /* owned */
    struct job *next;
} job;

struct td_side {
    pthread_t thread;
    bool started, ends, works;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a job came, the last one is done, or it ends */
    job *first, **last;
    bool failed;
    td_error error;
};

/* Without the lock. */
static void do_job(td_side *side, job *next)
{
    const td_status status = next->run(next->context);
    const td_error error = status != TD_OK ? *td_error_last() : (td_error){0};
    free(next->context);
    free(next);
    pthread_mutex_lock(&side->lock);
    if (status != TD_OK && !side->failed) {
        side->failed = true;
        side->error = error;
    }
    pthread_mutex_unlock(&side->lock);
}

static void *work(void *context)
{
    td_side *side = context;
    pthread_mutex_lock(&side->lock);
    while (side->first != NULL || !side->ends) {
        job *next = side->first;
        if (next == NULL) {
            pthread_cond_wait(&side->changed, &side->lock);
            continue;
        }
        side->first = next->next;
        if (side->first == NULL) side->last = &side->first;
        side->works = true;
        pthread_mutex_unlock(&side->lock);
        do_job(side, next);
        pthread_mutex_lock(&side->lock);
        side->works = false;
        pthread_cond_broadcast(&side->changed);
    }
    pthread_mutex_unlock(&side->lock);
    return NULL;
}

td_status td_side_create(td_side **out)
{
    td_status status = TD_OK;
    td_side *side = NULL;
    *out = NULL;
    TD_TRY(TD_NEW(&side));
    side->last = &side->first;
    pthread_mutex_init(&side->lock, NULL);
    pthread_cond_init(&side->changed, NULL);
    TD_TRY(td_thread_start(&side->thread, "files and pictures", work, side));
    side->started = true;
    *out = side;
    return TD_OK;
fail:
    td_side_destroy(side);
    return status;
}

void td_side_destroy(td_side *side)
{
    if (side == NULL) return;
    pthread_mutex_lock(&side->lock);
    side->ends = true;
    pthread_cond_broadcast(&side->changed);
    pthread_mutex_unlock(&side->lock);
    if (side->started) pthread_join(side->thread, NULL);
    pthread_cond_destroy(&side->changed);
    pthread_mutex_destroy(&side->lock);
    free(side);
}

/* With the lock: takes the kept failure out. */
static td_status take_failure(td_side *side)
{
    if (!side->failed) return TD_OK;
    side->failed = false;
    return td_error_adopt(&side->error);
}

td_status td_side_check(td_side *side)
{
    pthread_mutex_lock(&side->lock);
    const td_status status = take_failure(side);
    pthread_mutex_unlock(&side->lock);
    return status;
}

td_status td_side_give(td_side *side, td_side_job run, void *context)
{
    td_status status = TD_OK;
    job *next = NULL;
    TD_TRY(td_side_check(side));
    TD_TRY(TD_NEW(&next));
    *next = (job){.run = run, .context = context};
    pthread_mutex_lock(&side->lock);
    *side->last = next;
    side->last = &next->next;
    pthread_cond_broadcast(&side->changed);
    pthread_mutex_unlock(&side->lock);
    return TD_OK;
fail:
    free(context);
    return status;
}

td_status td_side_wait(td_side *side)
{
    pthread_mutex_lock(&side->lock);
    while (side->first != NULL || side->works)
        pthread_cond_wait(&side->changed, &side->lock);
    const td_status status = take_failure(side);
    pthread_mutex_unlock(&side->lock);
    return status;
}
