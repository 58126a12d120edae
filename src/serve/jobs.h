/* Texts that wait to be spoken, and the threads that speak them. A bounded queue in the order of arrival;
 * `streams` workers, each with a handle of every voice, take one job at a time. They share the device piece by piece:
 * who has had less of it goes first, so that a short text does not wait for the end of long ones. Samples come out of
 * a job while it is being spoken. Uses the public library alone. Covered by tests/cli/test_serve.py.
 */
#ifndef TD_SERVE_JOBS_H
#define TD_SERVE_JOBS_H

#include "tandem/voice.h"

typedef struct td_named_voice {
    const char *name, *path;
} td_named_voice;

typedef struct td_jobs_settings {
    const td_named_voice *voices; /* borrowed until close, with all they point to */
    size_t n_voices;
    const char *device, *data_device, *cache_dir, *weights; /* as td_voice_options has them */
    uint32_t queue, streams; /* jobs that may wait; jobs that are spoken at once */
    uint32_t deadline_s;     /* in which a job must be begun; 0: at any time */
} td_jobs_settings;

typedef struct td_jobs td_jobs;
typedef struct td_job td_job;

/* Starts the workers, which then load the voices. *out: owned, td_jobs_close(). */
td_status td_jobs_open(const td_jobs_settings *settings, td_jobs **out);

/* Ends what waits or is being spoken, and takes nothing more. */
void td_jobs_cancel(td_jobs *jobs);

/* The same, and waits for the workers. NULL is fine. Jobs must be released before. */
void td_jobs_close(td_jobs *jobs);

/* Whether all voices are loaded; TD_ERR_TIMEOUT while they are being loaded, else why one cannot be. */
td_status td_jobs_check(td_jobs *jobs);

/* What a voice says of itself; valid once td_jobs_check() is TD_OK, until close. */
const td_voice_info *td_jobs_info(const td_jobs *jobs, size_t voice);

typedef struct td_job_request {
    size_t voice;
    const char *text;         /* borrowed for the call, as is all in `options` */
    td_speak_options options; /* with its size */
    bool is_whole;            /* all samples at once at the end, as td_voice_speak() makes them */
} td_job_request;

/* Queues a text. TD_ERR_LIMIT: the queue is full; TD_ERR_CANCELLED: no new work is taken any more. *out: owned,
 * td_job_release(). */
td_status td_jobs_add(td_jobs *jobs, const td_job_request *request, td_job **out);

/* Takes up to `most` samples, waiting up to timeout_ms for the first. *count 0: TD_OK at the end,
 * TD_ERR_TIMEOUT if none came in time, else why the job failed (*error, if not NULL). */
td_status td_job_read(td_job *job, float *samples, size_t most, uint32_t timeout_ms, size_t *count,
                      td_error *error);

/* Waits up to timeout_ms until samples are there or the job has ended. TD_ERR_TIMEOUT: neither; TD_OK: samples
 * can be read; else why it failed. */
td_status td_job_wait(td_job *job, uint32_t timeout_ms, td_error *error);

/* Nobody wants the rest: what waits is dropped, what is being spoken ends with its piece. */
void td_job_cancel(td_job *job);

/* Cancels what is left of it, and gives it back. NULL is fine. */
void td_job_release(td_job *job);

/* From now on td_jobs_add() takes nothing. */
void td_jobs_drain(td_jobs *jobs);

typedef struct td_jobs_stats {
    uint64_t n_added, n_refused, n_done, n_failed, n_cancelled;
    uint32_t waiting, speaking;
    double audio_s, work_s;    /* of jobs that ended: sound made, time it took */
    double first_s, waiting_s; /* sums: from adding to the first samples, and to being taken */
    uint64_t n_first;          /* jobs that first_s counts */
} td_jobs_stats;
void td_jobs_get_stats(td_jobs *jobs, td_jobs_stats *out);

/* Seconds, at least 1, after which a text that came now would be taken. */
uint32_t td_jobs_estimate_wait(td_jobs *jobs);

#endif
