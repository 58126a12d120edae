/* See stream.h. */
#include "audio/stream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "audio/sound_file.h"
#include "base/error.h"

enum { CHUNK_SAMPLES = 65536 }; /* of all channels together, read at once */

struct td_audio_stream {
    char *path;
    td_sound_file sound;
    soxr_t resampler; /* NULL: the rate is right already */
    float *chunk;     /* [CHUNK_SAMPLES]: mixed down in place */
    size_t at, count; /* of the chunk's samples: those that are still to be taken */
    bool is_done;     /* the file has no more */
};

td_status td_audio_stream_open(const char *path, uint32_t rate, td_audio_stream **out)
{
    td_audio_stream *s = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(TD_NEW(&s));
    s->sound.fd = -1;
    TD_TRY(TD_NEW_ARRAY(&s->path, strlen(path) + 1));
    memcpy(s->path, path, strlen(path));
    TD_TRY(TD_NEW_ARRAY(&s->chunk, CHUNK_SAMPLES));
    TD_TRY(td_sound_file_require(path, &s->sound));
    const uint32_t own = (uint32_t)s->sound.info.samplerate;
    if (rate && rate != own) TD_TRY(td_sound_resampler(own, rate, path, &s->resampler));
    *out = s;
    return TD_OK;
fail:
    td_audio_stream_close(s);
    return status;
}

void td_audio_stream_close(td_audio_stream *s)
{
    if (!s) return;
    soxr_delete(s->resampler);
    td_sound_file_close(&s->sound);
    free(s->chunk);
    free(s->path);
    free(s);
}

uint32_t td_audio_stream_source_rate(const td_audio_stream *s)
{
    return (uint32_t)s->sound.info.samplerate;
}

uint64_t td_audio_stream_source_frames(const td_audio_stream *s)
{
    return (uint64_t)s->sound.info.frames;
}

/* Mean of the channels, in place. */
static void mix_down(float *samples, size_t frames, size_t channels)
{
    for (size_t i = 0; i < frames; i++) {
        float sum = 0;
        for (size_t c = 0; c < channels; c++) {
            const float x = samples[i * channels + c];
            sum += isfinite(x) ? x : 0;
        }
        samples[i] = sum / (float)channels;
    }
}

static td_status fill_chunk(td_audio_stream *s)
{
    const size_t channels = (size_t)s->sound.info.channels;
    const sf_count_t got = sf_readf_float(s->sound.file, s->chunk, (sf_count_t)(CHUNK_SAMPLES / channels));
    if (s->sound.error != 0) return td_sound_file_fail(&s->sound, s->path);
    TD_REFUSE_IF(sf_error(s->sound.file) != SF_ERR_NO_ERROR, TD_ERR_FORMAT, "%s: is damaged: %s", s->path,
                 sf_strerror(s->sound.file));
    s->at = 0;
    s->count = got > 0 ? (size_t)got : 0;
    s->is_done = s->count == 0;
    mix_down(s->chunk, s->count, channels);
    return TD_OK;
}

/* Some of the chunk, through the resampler; at the end what that still holds. */
static td_status take(td_audio_stream *s, float *to, size_t room, size_t *got)
{
    size_t used = s->count - s->at < room ? s->count - s->at : room;
    *got = used;
    if (s->resampler) {
        const soxr_error_t error = soxr_process(s->resampler, s->is_done ? NULL : s->chunk + s->at,
                                                s->count - s->at, &used, to, room, got);
        TD_REFUSE_IF(error, TD_ERR_HOST_MEMORY, "%s: resampling failed: %s", s->path, error);
    } else if (used) {
        memcpy(to, s->chunk + s->at, used * sizeof *to);
    }
    s->at += used;
    return TD_OK;
}

td_status td_audio_stream_read(td_audio_stream *s, float *to, size_t room, size_t *got)
{
    *got = 0;
    while (*got < room) {
        size_t made;
        if (s->at == s->count && !s->is_done) TD_CHECK(fill_chunk(s));
        TD_CHECK(take(s, to + *got, room - *got, &made));
        *got += made;
        if (made == 0 && s->is_done) break;
    }
    return TD_OK;
}

td_status td_audio_stream_seek(td_audio_stream *s, uint64_t frame)
{
    TD_REFUSE_IF(s->resampler, TD_ERR_ARGUMENT, "%s: a stream that is resampled cannot seek", s->path);
    TD_REFUSE_IF(sf_seek(s->sound.file, (sf_count_t)frame, SEEK_SET) < 0, TD_ERR_IO,
                 "%s: cannot go to sample %llu: %s", s->path, (unsigned long long)frame,
                 sf_strerror(s->sound.file));
    s->at = s->count = 0;
    s->is_done = false;
    return TD_OK;
}
