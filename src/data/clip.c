/* Recordings by stamp and header (clip.h). Covered by tests/data/test_dataset.c. */
#include "data/clip.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "audio/decode.h"
#include "audio/sound_file.h"

enum { MAX_RATE_HZ = 48000, SILENCE_DB = 40, KNOWN_ERRORS = 150 };

td_clip td_clip_stamp(const char *path)
{
    struct stat info;
    td_clip clip = {.state = TD_CLIP_UNKNOWN};
    if (stat(path, &info) != 0) {
        clip.detail = errno;
        clip.state = errno == ENOENT || errno == ENOTDIR ? TD_CLIP_MISSING : TD_CLIP_UNREADABLE;
        return clip;
    }
    if (!S_ISREG(info.st_mode)) { /* a pipe would block its reader forever */
        clip.state = TD_CLIP_UNREADABLE;
        clip.detail = S_ISDIR(info.st_mode) ? EISDIR : EINVAL;
        return clip;
    }
    clip.file_bytes = info.st_size;
    clip.mtime_ns = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
    if (info.st_size == 0) clip.state = TD_CLIP_EMPTY;
    return clip;
}

static td_clip_state judge(td_sound_file *sound, const td_clip *clip)
{
    if (clip->frames == 0 || clip->rate_hz == 0) return TD_CLIP_EMPTY;
    if (clip->rate_hz < TD_DECODE_RATE_MIN || clip->rate_hz > TD_DECODE_RATE_MAX) return TD_CLIP_RATE;
    return clip->frames == SF_COUNT_MAX || td_sound_file_is_cut(sound) ? TD_CLIP_CUT : TD_CLIP_GOOD;
}

void td_clip_read(const char *path, td_clip *clip)
{
    td_sound_file sound;
    if (clip->state != TD_CLIP_UNKNOWN) return;
    if (td_sound_file_open(path, &sound)) {
        const SF_INFO *info = &sound.info;
        clip->frames = info->frames > 0 ? (uint64_t)info->frames : 0;
        clip->rate_hz = info->samplerate > 0 ? (uint32_t)info->samplerate : 0;
        clip->channels = info->channels > 0 ? (uint16_t)info->channels : 0;
        clip->state = (uint16_t)judge(&sound, clip);
        if (sound.error != 0) {
            clip->state = TD_CLIP_UNREADABLE;
            clip->detail = sound.error;
        }
    } else {
        clip->state = sound.error != 0 ? TD_CLIP_UNREADABLE : TD_CLIP_NOT_AUDIO;
        clip->detail = sound.error != 0 ? sound.error : sf_error(NULL);
    }
    td_sound_file_close(&sound);
}

static uint32_t clamp_count(uint64_t count)
{
    return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
}

void td_clip_listen(const char *path, td_clip *clip)
{
    td_audio audio;
    if (clip->state != TD_CLIP_GOOD || clip->is_listened) return;
    const uint32_t rate = clip->rate_hz > MAX_RATE_HZ ? MAX_RATE_HZ : clip->rate_hz;
    const td_decode_options options = {.rate = rate, .trim_db = SILENCE_DB};
    const td_status status = td_audio_decode(path, &options, &audio);
    if (status == TD_ERR_HOST_MEMORY || status == TD_ERR_IO) return; /* says nothing about the recording */
    clip->is_listened = 1;
    if (status != TD_OK) {
        clip->state = TD_CLIP_BROKEN;
        return;
    }
    const td_audio_report *report = &audio.report;
    clip->n_bad = clamp_count(report->bad_samples);
    clip->n_clipped = clamp_count(report->clipped_samples);
    clip->peak = (float)report->peak;
    clip->rms = (float)report->rms;
    clip->offset = (float)report->dc;
    clip->silence_s = (float)(report->trimmed_start + report->trimmed_end) / (float)rate;
    if (clip->n_bad > 0) clip->state = TD_CLIP_NOT_FINITE;
    td_audio_free(&audio);
}

/* A file that could not be read may have become readable without a new stamp, so it is always tried again. */
bool td_clip_is_current(const td_clip *known, const td_clip *now)
{
    if (now->state == TD_CLIP_MISSING || now->state == TD_CLIP_UNREADABLE)
        return known->state == now->state && known->detail == now->detail;
    return known->state != TD_CLIP_UNKNOWN && known->state != TD_CLIP_MISSING &&
           known->state != TD_CLIP_UNREADABLE && known->file_bytes == now->file_bytes &&
           known->mtime_ns == now->mtime_ns;
}

double td_clip_seconds(const td_clip *clip)
{
    return clip->state == TD_CLIP_GOOD ? (double)clip->frames / clip->rate_hz : 0;
}

void td_clip_describe(const td_clip *clip, char *out, size_t capacity)
{
    const char *reason = NULL;
    switch ((td_clip_state)clip->state) {
    case TD_CLIP_MISSING:
        snprintf(out, capacity, "is not there");
        return;
    case TD_CLIP_UNREADABLE:
        reason =
            clip->detail == EINVAL ? "It is a pipe or a device, not a file" : strerrordesc_np(clip->detail);
        snprintf(out, capacity, "cannot be opened: %s", reason != NULL ? reason : "unknown error");
        return;
    case TD_CLIP_EMPTY:
        snprintf(out, capacity, "holds no sound");
        return;
    case TD_CLIP_NOT_AUDIO:
        /* libsndfile prints a complaint about a number it does not know, as a forged cache may hold. */
        reason = clip->detail > 0 && clip->detail < KNOWN_ERRORS ? sf_error_number(clip->detail) : "unknown";
        snprintf(out, capacity, "is not a recording that libsndfile can read: %s", reason);
        return;
    case TD_CLIP_BROKEN:
        snprintf(out, capacity, "opens, but cannot be decoded to its end");
        return;
    case TD_CLIP_NOT_FINITE:
        snprintf(out, capacity, "has %u samples that are not finite (NaN or infinite)", clip->n_bad);
        return;
    case TD_CLIP_TWICE:
        snprintf(out, capacity, "are both recordings of this row; keep one of them");
        return;
    case TD_CLIP_CUT:
        snprintf(out, capacity, "is cut short, or does not tell its length; copy it again or save it as WAV");
        return;
    case TD_CLIP_RATE:
        snprintf(out, capacity, "has a rate of %u Hz; save it with %d to %d", clip->rate_hz,
                 TD_DECODE_RATE_MIN, TD_DECODE_RATE_MAX);
        return;
    case TD_CLIP_UNKNOWN:
    case TD_CLIP_GOOD:
    case TD_CLIP_STATES:
        break;
    }
    snprintf(out, capacity, "was not looked at");
}
