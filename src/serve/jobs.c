/* See jobs.h. One lock for the queue and all jobs: they change a few hundred times a second at most. */
#include "serve/jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"

/* Samples that a job holds for a reader that is slow; the worker then waits, for this long at most. */
enum { MOST_SAMPLES = 1 << 22, PATIENCE_MS = 30000, MOST_STREAMS = 64 };

/* How many texts use the device at the same moment: while the host prepares the next piece of one, the device works
 * on another. More only make each other slow, but for voices that decode them together: those all have a turn. */
enum { TURNS = 2 };

/* A text that has used the device for a second stands behind one that came so many seconds later: about the time for
 * which its listener has something to hear. */
enum { SHARE = 8 };

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
    uint64_t used_ns;      /* of the device's time */
    struct worker *worker; /* that speaks it */
    pthread_cond_t changed;
};

typedef struct worker {
    td_jobs *jobs;
    pthread_t thread;
    td_voice **voices; /* [n_voices]; NULL: not opened yet */
    td_job *job;       /* being spoken */
    bool is_idle, wants_turn;
    uint64_t turn_ns; /* when its turn began */
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
    bool is_open, is_loaded, is_draining, is_closing;
    uint32_t n_turns; /* that nobody has */
    td_jobs_stats stats;
};

static const td_error CANCELLED = {.status = TD_ERR_CANCELLED, .message = "the request was cancelled"};

/* ---------------------------------------------------------------- waiting */

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
    td_condition_open(&job->changed);
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

/* Gives up a job that has waited too long to be begun. The lock is held. */
static void drop_if_late(td_job *job)
{
    td_jobs *jobs = job->jobs;
    const uint32_t most_s = jobs->settings.deadline_s;
    td_error late = {.status = TD_ERR_LIMIT};
    if (job->state != WAITING || !most_s || td_clock_ns() - job->added_ns < UINT64_C(1000000000) * most_s)
        return;
    snprintf(late.message, sizeof late.message, "the text was not begun within %u s; try again later",
             most_s);
    unlink_job(job);
    end_job(job, &late);
}

/* At the end of the server nobody waits until a piece that nobody wants is made. The lock is held. */
static bool is_given_up(const td_job *job)
{
    return job->is_cancelled && job->jobs->is_closing;
}

/* Waits until there are samples or the end. The lock is held. */
static td_status await_samples(td_job *job, uint32_t timeout_ms, td_error *error)
{
    const uint64_t deadline_ns = make_deadline(timeout_ms);
    while (job->first == job->count && job->state != ENDED && !is_given_up(job))
        if (!td_condition_wait(&job->changed, &job->jobs->lock, deadline_ns)) break;
    drop_if_late(job);
    if (job->first < job->count) return TD_OK;
    if (job->state != ENDED && is_given_up(job)) {
        if (error) *error = CANCELLED;
        return CANCELLED.status;
    }
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

/* ---------------------------------------------------------------- turns */

static uint64_t get_urgency(const td_job *job)
{
    return job->added_ns + SHARE * job->used_ns;
}

/* The lock is held, here and below. */
static worker *find_most_urgent(td_jobs *jobs)
{
    worker *first = NULL;
    for (size_t i = 0; i < jobs->n_workers; i++) {
        worker *w = &jobs->workers[i];
        if (w->wants_turn && (!first || get_urgency(w->job) < get_urgency(first->job))) first = w;
    }
    return first;
}

static void take_turn(worker *w)
{
    td_jobs *jobs = w->jobs;
    if (jobs->n_turns > 0) {
        jobs->n_turns--;
    } else {
        w->wants_turn = true;
        while (w->wants_turn)
            pthread_cond_wait(&w->wake, &jobs->lock);
    }
    w->turn_ns = td_clock_ns();
}

static void count_turn(worker *w)
{
    const uint64_t now_ns = td_clock_ns();
    w->job->used_ns += now_ns - w->turn_ns;
    w->turn_ns = now_ns;
}

static void give_turn(worker *w)
{
    worker *next = find_most_urgent(w->jobs);
    count_turn(w);
    if (next) {
        next->wants_turn = false;
        pthread_cond_signal(&next->wake);
    } else {
        w->jobs->n_turns++;
    }
}

/* Between pieces of a text: lets a text go first that is more urgent. */
static void share_turn(void *context)
{
    td_job *job = context;
    td_jobs *jobs = job->jobs;
    pthread_mutex_lock(&jobs->lock);
    count_turn(job->worker);
    const worker *other = find_most_urgent(jobs);
    if (other && get_urgency(other->job) < get_urgency(job)) {
        give_turn(job->worker);
        take_turn(job->worker);
    }
    pthread_mutex_unlock(&jobs->lock);
}

/* ---------------------------------------------------------------- speaking */

/* Until the reader has taken some; the device is for others meanwhile. The lock is held. */
static void await_reader(td_job *job)
{
    const uint64_t deadline_ns = make_deadline(PATIENCE_MS);
    if (job->is_cancelled || job->count - job->first <= MOST_SAMPLES) return;
    give_turn(job->worker);
    while (!job->is_cancelled && job->count - job->first > MOST_SAMPLES)
        if (!td_condition_wait(&job->changed, &job->jobs->lock, deadline_ns)) job->is_cancelled = true;
    take_turn(job->worker);
}

/* Hands samples to the job; false once nobody wants them, or nobody has taken any for long. */
static bool keep_samples(void *context, const float *samples, size_t count)
{
    td_job *job = context;
    td_jobs *jobs = job->jobs;
    bool is_kept = false;
    pthread_mutex_lock(&jobs->lock);
    await_reader(job);
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

static void speak(worker *w, td_job *job)
{
    td_jobs *jobs = w->jobs;
    td_voice *voice = w->voices[job->voice];
    job->options.pause = share_turn;
    job->options.pause_context = job;
    job->worker = w;
    pthread_mutex_lock(&jobs->lock);
    w->job = job; /* from here on it can be cancelled */
    take_turn(w);
    pthread_mutex_unlock(&jobs->lock);
    if (job->is_whole)
        speak_whole(voice, job);
    else
        (void)td_voice_stream(voice, job->text, &job->options, keep_samples, job);
    pthread_mutex_lock(&jobs->lock);
    give_turn(w);
    w->job = NULL;
    jobs->stats.audio_s += (double)job->n_made / (double)jobs->infos[job->voice].rate;
    jobs->stats.work_s += 1e-9 * (double)(td_clock_ns() - job->taken_ns);
    jobs->stats.speaking--;
    const td_error *error = td_voice_error(voice);
    /* a text that was spoken whole, and then not wanted any more, has no samples */
    end_job(job, error->status == TD_OK && job->is_cancelled ? &CANCELLED : error);
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

/* ---------------------------------------------------------------- loading */

/* Each voice once, and for the other workers handles on its weights. */
static td_status open_voices(td_jobs *jobs)
{
    const td_jobs_settings *s = &jobs->settings;
    for (size_t i = 0; i < s->n_voices; i++) {
        const td_voice_options options = {.size = sizeof options,
                                          .path = s->voices[i].path,
                                          .device = s->device,
                                          .data_device = s->data_device,
                                          .cache_dir = s->cache_dir,
                                          .weights = s->weights};
        td_voice **first = &jobs->workers[0].voices[i];
        TD_CHECK(td_voice_open(&options, first, NULL));
        jobs->infos[i].size = sizeof jobs->infos[i];
        TD_CHECK(td_voice_get_info(*first, &jobs->infos[i]));
        for (size_t k = 1; k < s->streams; k++)
            TD_CHECK(td_voice_share(*first, &jobs->workers[k].voices[i], NULL));
    }
    return TD_OK;
}

static bool drop_samples(void *context, const float *samples, size_t count)
{
    (void)context;
    (void)samples;
    (void)count;
    return true;
}

/* Builds kernels and plans before the first client waits for them. A voice that cannot say this tells so when it
 * is asked; nobody else has to hear of it. */
static void warm_up(worker *w)
{
    td_log_context *former = td_log_bind(NULL);
    for (size_t i = 0; i < w->jobs->settings.n_voices; i++) {
        const td_voice_info *info = &w->jobs->infos[i];
        char speaker[256];
        snprintf(speaker, sizeof speaker, "%.*s", (int)strcspn(info->speakers, "\n"), info->speakers);
        const td_speak_options options = {.size = sizeof options,
                                          .speaker = info->needs_reference && *speaker ? speaker : NULL};
        if (w->voices[i]) (void)td_voice_stream(w->voices[i], "Good morning.", &options, drop_samples, NULL);
    }
    td_log_bind(former);
}

/* The first worker opens the voices, while nobody speaks yet; the others wait for theirs. */
static void load(worker *w)
{
    td_jobs *jobs = w->jobs;
    const bool is_first = w == &jobs->workers[0];
    const td_status status = is_first ? open_voices(jobs) : TD_OK;
    pthread_mutex_lock(&jobs->lock);
    if (status != TD_OK) jobs->load_error = *td_error_last();
    for (size_t i = 0; is_first && status == TD_OK && i < jobs->settings.n_voices; i++)
        if (jobs->infos[i].shares_steps && jobs->settings.streams > TURNS)
            jobs->n_turns = jobs->settings.streams;
    jobs->is_open |= is_first;
    for (size_t i = 1; is_first && i < jobs->n_workers; i++)
        pthread_cond_signal(&jobs->workers[i].wake);
    while (!jobs->is_open && !jobs->is_closing)
        pthread_cond_wait(&w->wake, &jobs->lock);
    const bool speaks = jobs->is_open && jobs->load_error.status == TD_OK;
    pthread_mutex_unlock(&jobs->lock);
    if (speaks) warm_up(w);
    if (!is_first) return;
    pthread_mutex_lock(&jobs->lock);
    jobs->is_loaded = true;
    pthread_mutex_unlock(&jobs->lock);
}

static void *run_worker(void *argument)
{
    worker *w = argument;
    td_jobs *jobs = w->jobs;
    load(w);
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

static td_status start_worker(worker *w)
{
    td_jobs *jobs = w->jobs;
    td_condition_open(&w->wake);
    pthread_mutex_lock(&jobs->lock);
    const td_status status = td_thread_start(&w->thread, "a worker that speaks", run_worker, w);
    if (status == TD_OK)
        jobs->n_workers++;
    else
        pthread_cond_destroy(&w->wake);
    pthread_mutex_unlock(&jobs->lock);
    return status;
}

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
    jobs->n_turns = TURNS;
    TD_TRY(TD_NEW_ARRAY(&jobs->infos, settings->n_voices));
    for (size_t i = 0; i < settings->streams; i++) {
        jobs->workers[i].jobs = jobs;
        TD_TRY(TD_NEW_ARRAY(&jobs->workers[i].voices, settings->n_voices));
    }
    for (size_t i = 0; i < settings->streams; i++)
        TD_TRY(start_worker(&jobs->workers[i]));
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
    for (size_t i = MOST_STREAMS; i-- > 0;) { /* the first lends to the others */
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

uint32_t td_jobs_estimate_wait(td_jobs *jobs)
{
    td_jobs_stats s;
    td_jobs_get_stats(jobs, &s);
    const uint64_t n_ended = s.n_done + s.n_failed + s.n_cancelled;
    const double each_s = n_ended ? s.work_s / (double)n_ended : 1;
    const double wait_s = each_s * (1 + (double)s.waiting / jobs->settings.streams);
    return wait_s < 1 ? 1 : wait_s < 60 ? (uint32_t)(wait_s + 0.5) : 60;
}

void td_jobs_get_stats(td_jobs *jobs, td_jobs_stats *out)
{
    pthread_mutex_lock(&jobs->lock);
    *out = jobs->stats;
    pthread_mutex_unlock(&jobs->lock);
}
