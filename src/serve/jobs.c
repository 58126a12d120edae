/* See jobs.h. One lock for the queue and all jobs: they change a few hundred times a second at most. */
#include "serve/jobs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"

/* Samples that a job holds for a reader that is slow; the worker then waits, for this long at most. */
enum { MOST_SAMPLES = 1 << 22, PATIENCE_MS = 30000, MOST_STREAMS = 64 };

typedef enum job_state { WAITING, SPEAKING, ENDED } job_state;

struct td_job {
    td_jobs *jobs;
    td_job *next; /* in the queue */
    size_t voice;
    char *text; /* owned, as are the texts of the options */
    td_speak_options options;
    job_state state;
    bool is_whole, is_cancelled, is_released;
    td_error error; /* of a job that has ended */
    float *samples; /* those from `first` on are not read yet; owned */
    size_t first, count, capacity;
    uint64_t added_ns, taken_ns, n_made;
    pthread_cond_t changed;
};

typedef struct worker {
    td_jobs *jobs;
    pthread_t thread;
    td_voice **voices; /* [n_voices]; NULL: not opened yet */
    td_job *job;       /* being spoken */
    bool is_idle;
    pthread_cond_t wake;
} worker;

struct td_jobs {
    td_jobs_settings settings;
    pthread_mutex_t lock;
    td_job *first, *last;
    worker workers[MOST_STREAMS];
    size_t n_workers; /* whose threads run */
    td_voice_info *infos;
    td_error load_error;
    bool is_loaded, is_draining, is_closing;
    td_jobs_stats stats;
};

/* ---------------------------------------------------------------- waiting */

static td_status open_condition(pthread_cond_t *out)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    const int error = pthread_cond_init(out, &attributes);
    pthread_condattr_destroy(&attributes);
    return error ? TD_FAIL(TD_ERR_HOST_MEMORY, "no condition variable: %s", strerror(error)) : TD_OK;
}

/* False once the time has passed. The lock is held. */
static bool wait_until(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t deadline_ns)
{
    const struct timespec when = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                                  .tv_nsec = (long)(deadline_ns % 1000000000u)};
    return pthread_cond_timedwait(condition, lock, &when) != ETIMEDOUT;
}

static uint64_t make_deadline(uint32_t timeout_ms)
{
    return td_clock_ns() + UINT64_C(1000000) * timeout_ms;
}

/* ---------------------------------------------------------------- jobs */

static void free_job(td_job *job)
{
    if (!job) return;
    free(job->text);
    free((char *)job->options.speaker);
    free((char *)job->options.reference);
    free((char *)job->options.language);
    free(job->samples);
    pthread_cond_destroy(&job->changed);
    free(job);
}

/* The lock is held. */
static void end_job(td_job *job, const td_error *error)
{
    td_jobs *jobs = job->jobs;
    job->state = ENDED;
    if (error) job->error = *error;
    if (job->error.status == TD_OK)
        jobs->stats.n_done++;
    else if (job->error.status == TD_ERR_CANCELLED)
        jobs->stats.n_cancelled++;
    else
        jobs->stats.n_failed++;
    pthread_cond_broadcast(&job->changed);
    if (job->is_released) free_job(job);
}

static td_status copy_text(const char *text, const char **out)
{
    char *copy = text ? strdup(text) : NULL;
    *out = copy;
    return text && !copy ? TD_FAIL(TD_ERR_HOST_MEMORY, "no memory to queue a text") : TD_OK;
}

static td_status new_job(td_jobs *jobs, const td_job_request *request, td_job **out)
{
    td_job *job = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(TD_NEW(&job));
    if (open_condition(&job->changed) != TD_OK) {
        free(job);
        return td_error_last()->status;
    }
    job->jobs = jobs;
    job->voice = request->voice;
    job->options = request->options;
    job->options.speaker = job->options.reference = job->options.language = NULL;
    job->is_whole = request->is_whole;
    TD_TRY(copy_text(request->options.speaker, &job->options.speaker));
    TD_TRY(copy_text(request->options.reference, &job->options.reference));
    TD_TRY(copy_text(request->options.language, &job->options.language));
    TD_TRY(copy_text(request->text, (const char **)&job->text));
    job->added_ns = td_clock_ns();
    *out = job;
    return TD_OK;
fail:
    free_job(job);
    return status;
}

/* The first that has nothing to do: its plans are the most likely to be made. The lock is held. */
static void wake_worker(td_jobs *jobs)
{
    size_t i = 0;
    while (i < jobs->n_workers && !jobs->workers[i].is_idle)
        i++;
    if (i == jobs->n_workers) return; /* one that ends looks into the queue itself */
    jobs->workers[i].is_idle = false;
    pthread_cond_signal(&jobs->workers[i].wake);
}

td_status td_jobs_add(td_jobs *jobs, const td_job_request *request, td_job **out)
{
    td_job *job = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(new_job(jobs, request, &job));
    pthread_mutex_lock(&jobs->lock);
    const uint32_t n_under_way = jobs->stats.waiting + jobs->stats.speaking;
    if (jobs->is_draining) {
        status = TD_FAIL(TD_ERR_CANCELLED, "the server is about to end and takes no new work");
    } else if (n_under_way >= jobs->settings.queue + jobs->settings.streams) {
        jobs->stats.n_refused++;
        status = TD_FAIL(TD_ERR_LIMIT, "%u texts wait or are being spoken, as many as may; try again soon",
                         n_under_way);
    } else {
        if (jobs->last)
            jobs->last->next = job;
        else
            jobs->first = job;
        jobs->last = job;
        jobs->stats.waiting++;
        jobs->stats.n_added++;
        *out = job;
        wake_worker(jobs);
    }
    pthread_mutex_unlock(&jobs->lock);
fail:
    if (status != TD_OK) free_job(job);
    return status;
}

/* Takes it out of the queue, where it may be anywhere. The lock is held. */
static void unlink_job(td_job *job)
{
    td_jobs *jobs = job->jobs;
    td_job **at = &jobs->first, *before = NULL;
    while (*at != job) {
        before = *at;
        at = &before->next;
    }
    *at = job->next;
    if (jobs->last == job) jobs->last = before;
    jobs->stats.waiting--;
}

/* The lock is held. */
static void cancel_job(td_job *job)
{
    static const td_error CANCELLED = {.status = TD_ERR_CANCELLED, .message = "the request was cancelled"};
    if (job->is_cancelled || job->state == ENDED) return;
    job->is_cancelled = true;
    if (job->state == WAITING) {
        unlink_job(job);
        end_job(job, &CANCELLED);
        return;
    }
    pthread_cond_broadcast(&job->changed); /* its worker may wait for a reader */
    for (size_t i = 0; i < job->jobs->n_workers; i++) {
        const worker *w = &job->jobs->workers[i];
        if (w->job == job) td_voice_cancel(w->voices[job->voice]);
    }
}

void td_job_cancel(td_job *job)
{
    td_jobs *jobs = job->jobs;
    pthread_mutex_lock(&jobs->lock);
    cancel_job(job);
    pthread_mutex_unlock(&jobs->lock);
}

void td_job_release(td_job *job)
{
    if (!job) return;
    td_jobs *jobs = job->jobs;
    pthread_mutex_lock(&jobs->lock);
    cancel_job(job);
    const bool has_ended = job->state == ENDED;
    job->is_released = true; /* else its worker frees it */
    pthread_mutex_unlock(&jobs->lock);
    if (has_ended) free_job(job);
}

/* Waits until there are samples or the end. The lock is held. */
static td_status await_samples(td_job *job, uint32_t timeout_ms, td_error *error)
{
    const uint64_t deadline_ns = make_deadline(timeout_ms);
    while (job->first == job->count && job->state != ENDED)
        if (!wait_until(&job->changed, &job->jobs->lock, deadline_ns)) break;
    if (job->first < job->count) return TD_OK;
    if (job->state != ENDED) return TD_ERR_TIMEOUT;
    if (error) *error = job->error;
    return job->error.status;
}

td_status td_job_wait(td_job *job, uint32_t timeout_ms, td_error *error)
{
    pthread_mutex_lock(&job->jobs->lock);
    const td_status status = await_samples(job, timeout_ms, error);
    pthread_mutex_unlock(&job->jobs->lock);
    return status;
}

td_status td_job_read(td_job *job, float *samples, size_t most, uint32_t timeout_ms, size_t *count,
                      td_error *error)
{
    pthread_mutex_lock(&job->jobs->lock);
    const td_status status = await_samples(job, timeout_ms, error);
    const size_t left = job->count - job->first, n = left < most ? left : most;
    if (n) memcpy(samples, job->samples + job->first, n * sizeof *samples);
    job->first += n;
    if (job->first == job->count) job->first = job->count = 0;
    if (n) pthread_cond_broadcast(&job->changed);
    pthread_mutex_unlock(&job->jobs->lock);
    *count = n;
    return status;
}

/* ---------------------------------------------------------------- speaking */

/* Hands samples to the job; false once nobody wants them, or nobody has taken any for long. */
static bool keep_samples(void *context, const float *samples, size_t count)
{
    td_job *job = context;
    td_jobs *jobs = job->jobs;
    bool is_kept = false;
    pthread_mutex_lock(&jobs->lock);
    const uint64_t deadline_ns = make_deadline(PATIENCE_MS);
    while (!job->is_cancelled && job->count - job->first > MOST_SAMPLES)
        if (!wait_until(&job->changed, &jobs->lock, deadline_ns)) job->is_cancelled = true;
    if (!job->is_cancelled &&
        td_alloc_grow(&job->samples, &job->capacity, job->count + count, sizeof *job->samples) == TD_OK) {
        memcpy(job->samples + job->count, samples, count * sizeof *samples);
        job->count += count;
        if (job->n_made == 0) {
            jobs->stats.first_s += 1e-9 * (double)(td_clock_ns() - job->added_ns);
            jobs->stats.n_first++;
        }
        job->n_made += count;
        is_kept = true;
        pthread_cond_broadcast(&job->changed);
    }
    pthread_mutex_unlock(&jobs->lock);
    return is_kept;
}

static void speak_whole(td_voice *voice, td_job *job)
{
    float *samples;
    size_t count;
    if (td_voice_speak(voice, job->text, &job->options, &samples, &count) != TD_OK) return;
    (void)keep_samples(job, samples, count);
    td_voice_free_samples(samples);
}

static td_status open_voice(worker *w, size_t i)
{
    const td_jobs_settings *s = &w->jobs->settings;
    const td_voice_options options = {
        .size = sizeof options, .path = s->voices[i].path, .device = s->device, .cache_dir = s->cache_dir};
    if (w->voices[i]) return TD_OK;
    return td_voice_open(&options, &w->voices[i], NULL);
}

/* Without the lock, but for the moment when the voice becomes one that can be cancelled. */
static void speak(worker *w, td_job *job)
{
    td_jobs *jobs = w->jobs;
    td_error error = {.status = TD_OK};
    if (open_voice(w, job->voice) != TD_OK) {
        error = *td_error_last();
        pthread_mutex_lock(&jobs->lock);
    } else {
        td_voice *voice = w->voices[job->voice];
        pthread_mutex_lock(&jobs->lock);
        w->job = job;
        pthread_mutex_unlock(&jobs->lock);
        if (job->is_whole)
            speak_whole(voice, job);
        else
            (void)td_voice_stream(voice, job->text, &job->options, keep_samples, job);
        pthread_mutex_lock(&jobs->lock);
        w->job = NULL;
        error = *td_voice_error(voice);
        jobs->stats.audio_s += (double)job->n_made / (double)jobs->infos[job->voice].rate;
    }
    jobs->stats.work_s += 1e-9 * (double)(td_clock_ns() - job->taken_ns);
    jobs->stats.speaking--;
    end_job(job, &error);
    pthread_mutex_unlock(&jobs->lock);
}

/* The next job, or NULL at the end. The lock is held. */
static td_job *take_job(worker *w)
{
    td_jobs *jobs = w->jobs;
    while (!jobs->first && !jobs->is_closing) {
        w->is_idle = true;
        pthread_cond_wait(&w->wake, &jobs->lock);
    }
    w->is_idle = false;
    if (jobs->is_closing) return NULL;
    td_job *job = jobs->first;
    unlink_job(job);
    job->next = NULL;
    job->state = SPEAKING;
    job->taken_ns = td_clock_ns();
    jobs->stats.speaking++;
    jobs->stats.waiting_s += 1e-9 * (double)(job->taken_ns - job->added_ns);
    return job;
}

static bool drop_samples(void *context, const float *samples, size_t count)
{
    (void)context;
    (void)samples;
    (void)count;
    return true;
}

/* Builds kernels and plans before the first client waits for them. A voice that cannot say this tells so when it
 * is asked. */
static void warm_up(td_voice *voice)
{
    (void)td_voice_stream(voice, "Good morning.", NULL, drop_samples, NULL);
}

/* The first worker's voices are those that tell about all. */
static void load_voices(worker *w)
{
    td_jobs *jobs = w->jobs;
    td_error error = {.status = TD_OK};
    for (size_t i = 0; i < jobs->settings.n_voices; i++) {
        const bool is_open = open_voice(w, i) == TD_OK;
        if (is_open)
            warm_up(w->voices[i]);
        else
            error = *td_error_last();
        if (w == &jobs->workers[0] && is_open) {
            jobs->infos[i].size = sizeof jobs->infos[i];
            (void)td_voice_get_info(w->voices[i], &jobs->infos[i]);
        }
        if (!is_open) break;
    }
    pthread_mutex_lock(&jobs->lock);
    if (error.status != TD_OK && jobs->load_error.status == TD_OK) jobs->load_error = error;
    if (w == &jobs->workers[0]) jobs->is_loaded = true;
    pthread_mutex_unlock(&jobs->lock);
}

static void *run_worker(void *argument)
{
    worker *w = argument;
    td_jobs *jobs = w->jobs;
    load_voices(w);
    for (;;) {
        pthread_mutex_lock(&jobs->lock);
        td_job *job = take_job(w);
        pthread_mutex_unlock(&jobs->lock);
        if (!job) break;
        speak(w, job);
    }
    return NULL;
}

/* ---------------------------------------------------------------- life */

td_status td_jobs_open(const td_jobs_settings *settings, td_jobs **out)
{
    td_jobs *jobs = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_FAIL_IF(settings->streams == 0 || settings->streams > MOST_STREAMS || settings->n_voices == 0,
               TD_ERR_ARGUMENT, "streams must be 1 to %d, and there must be a voice", MOST_STREAMS);
    TD_TRY(TD_NEW(&jobs));
    pthread_mutex_init(&jobs->lock, NULL);
    jobs->settings = *settings;
    TD_TRY(TD_NEW_ARRAY(&jobs->infos, settings->n_voices));
    for (size_t i = 0; i < settings->streams; i++) {
        jobs->workers[i].jobs = jobs;
        TD_TRY(TD_NEW_ARRAY(&jobs->workers[i].voices, settings->n_voices));
        TD_TRY(open_condition(&jobs->workers[i].wake));
        TD_TRY(
            td_thread_start(&jobs->workers[i].thread, "a worker that speaks", run_worker, &jobs->workers[i]));
        jobs->n_workers++;
    }
    *out = jobs;
    return TD_OK;
fail:
    td_jobs_close(jobs);
    return status;
}

void td_jobs_drain(td_jobs *jobs)
{
    pthread_mutex_lock(&jobs->lock);
    jobs->is_draining = true;
    pthread_mutex_unlock(&jobs->lock);
}

void td_jobs_cancel(td_jobs *jobs)
{
    pthread_mutex_lock(&jobs->lock);
    jobs->is_draining = jobs->is_closing = true;
    while (jobs->first)
        cancel_job(jobs->first);
    for (size_t i = 0; i < jobs->n_workers; i++)
        if (jobs->workers[i].job) cancel_job(jobs->workers[i].job);
    for (size_t i = 0; i < jobs->n_workers; i++)
        pthread_cond_signal(&jobs->workers[i].wake);
    pthread_mutex_unlock(&jobs->lock);
}

void td_jobs_close(td_jobs *jobs)
{
    if (!jobs) return;
    td_jobs_cancel(jobs);
    for (size_t i = 0; i < jobs->n_workers; i++) {
        pthread_join(jobs->workers[i].thread, NULL);
        pthread_cond_destroy(&jobs->workers[i].wake);
    }
    for (size_t i = 0; i < MOST_STREAMS; i++) {
        for (size_t k = 0; jobs->workers[i].voices && k < jobs->settings.n_voices; k++)
            td_voice_close(jobs->workers[i].voices[k]);
        free(jobs->workers[i].voices);
    }
    pthread_mutex_destroy(&jobs->lock);
    free(jobs->infos);
    free(jobs);
}

td_status td_jobs_check(td_jobs *jobs)
{
    pthread_mutex_lock(&jobs->lock);
    const td_error error = jobs->load_error;
    const bool is_loaded = jobs->is_loaded;
    pthread_mutex_unlock(&jobs->lock);
    if (error.status != TD_OK) return td_error_adopt(&error);
    return is_loaded ? TD_OK : TD_FAIL(TD_ERR_TIMEOUT, "the voices are being loaded; try again soon");
}

const td_voice_info *td_jobs_info(const td_jobs *jobs, size_t voice)
{
    return &jobs->infos[voice];
}

void td_jobs_get_stats(td_jobs *jobs, td_jobs_stats *out)
{
    pthread_mutex_lock(&jobs->lock);
    *out = jobs->stats;
    pthread_mutex_unlock(&jobs->lock);
}
