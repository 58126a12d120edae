/* See sound_file.h. */
#include "audio/sound_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audio/decode.h"
#include "base/error.h"

/* libsndfile would take what fails here for a property of the recording. */
static void note_failure(td_sound_file *sound)
{
    if (sound->error == 0) sound->error = errno;
}

static sf_count_t tell_length(void *context)
{
    td_sound_file *sound = context;
    struct stat info;
    if (fstat(sound->fd, &info) == 0) return info.st_size;
    note_failure(sound);
    return 0;
}

static sf_count_t seek(sf_count_t offset, int whence, void *context)
{
    td_sound_file *sound = context;
    const off_t at = lseek(sound->fd, offset, whence);
    /* A wrong header leads to offsets outside of the file. */
    if (at < 0 && errno != EINVAL && errno != EOVERFLOW) note_failure(sound);
    return at;
}

static sf_count_t read_bytes(void *to, sf_count_t count, void *context)
{
    td_sound_file *sound = context;
    sf_count_t done = 0;
    while (done < count) {
        const ssize_t got = read(sound->fd, (char *)to + done, (size_t)(count - done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) note_failure(sound);
        if (got <= 0) break;
        done += got;
    }
    return done;
}

static sf_count_t tell(void *context)
{
    return seek(0, SEEK_CUR, context);
}

/* ---------------------------------------------------------------- whole or cut */

enum {
    MPEG_SLACK = 2 * 1152,    /* frames; writers differ in what they count */
    MPEG_HEAD = 256,          /* bytes in which the count of frames lies */
    MOST_CHUNKS = 4096,       /* of a WAV or AIFF file */
    UNTOLD_BYTES = 0x7fff0000 /* written by programs that write to a pipe */
};

/* At that offset of the file; false if it ends before. */
static bool read_at(td_sound_file *sound, uint64_t at, void *to, size_t bytes)
{
    ssize_t got;
    if (at > INT64_MAX - bytes) return false;
    do
        got = pread(sound->fd, to, bytes, (off_t)at);
    while (got < 0 && errno == EINTR);
    if (got < 0) note_failure(sound);
    return got == (ssize_t)bytes;
}

static uint32_t get_word(const unsigned char *b, bool is_big)
{
    return is_big ? (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3]
                  : (uint32_t)b[3] << 24 | (uint32_t)b[2] << 16 | (uint32_t)b[1] << 8 | b[0];
}

static bool ends_before(td_sound_file *sound, uint64_t at, uint32_t bytes)
{
    return bytes < UNTOLD_BYTES && at + bytes > (uint64_t)tell_length(sound);
}

/* libsndfile takes what is there of the samples of WAV, AIFF and AU. */
static bool lacks_bytes(td_sound_file *sound)
{
    unsigned char head[12];
    if (!read_at(sound, 0, head, sizeof head)) return false;
    if (memcmp(head, ".snd", 4) == 0)
        return ends_before(sound, get_word(head + 4, true), get_word(head + 8, true));
    const bool is_wav = memcmp(head, "RIFF", 4) == 0, is_aiff = memcmp(head, "FORM", 4) == 0;
    if (!is_wav && !is_aiff) return false;
    uint64_t at = sizeof head;
    for (int i = 0; i < MOST_CHUNKS && read_at(sound, at, head, 8); ++i) {
        const uint32_t bytes = get_word(head + 4, is_aiff);
        if (memcmp(head, is_wav ? "data" : "SSND", 4) == 0) return ends_before(sound, at + 8, bytes);
        at += 8 + (uint64_t)bytes + bytes % 2;
    }
    return false;
}

/* Whether an MP3 file tells how many frames it has; without that libsndfile guesses. */
static bool tells_frames(td_sound_file *sound)
{
    unsigned char head[MPEG_HEAD];
    uint64_t at = 0;
    if (!read_at(sound, 0, head, sizeof head)) return false;
    if (memcmp(head, "ID3", 3) == 0) {
        for (int i = 6; i < 10;
             ++i) /* the tag's size: 28 bits, 7 in each byte; without its header of 10 bytes */
            at = at << 7 | (head[i] & 127U);
        at += 10;
    }
    return read_at(sound, at, head, sizeof head) &&
           (memmem(head, sizeof head, "Xing", 4) != NULL || memmem(head, sizeof head, "Info", 4) != NULL);
}

static sf_count_t find_announced(td_sound_file *sound)
{
    const SF_INFO *info = &sound->info;
    switch (info->format & SF_FORMAT_TYPEMASK) {
    case SF_FORMAT_FLAC:
        return info->frames < SF_COUNT_MAX ? info->frames : 0;
    case SF_FORMAT_OGG:
        return info->frames;
    case SF_FORMAT_MPEG:
        return info->frames > MPEG_SLACK && tells_frames(sound) ? info->frames - MPEG_SLACK : 0;
    default:
        return lacks_bytes(sound) ? SF_COUNT_MAX : 0;
    }
}

bool td_sound_file_is_cut(td_sound_file *sound)
{
    float frame[8];
    if (sound->announced == 0) return false;
    if (sound->announced == SF_COUNT_MAX) return true;
    if ((size_t)sound->info.channels > sizeof frame / sizeof *frame) return false;
    return sf_seek(sound->file, sound->announced - 1, SEEK_SET) < 0 ||
           sf_readf_float(sound->file, frame, 1) != 1;
}

/* ---------------------------------------------------------------- opening */

bool td_sound_file_open(const char *path, td_sound_file *out)
{
    SF_VIRTUAL_IO io = {
        .get_filelen = tell_length, .seek = seek, .read = read_bytes, .tell = tell}; /* no write */
    *out = (td_sound_file){.fd = open(path, O_RDONLY | O_CLOEXEC)};
    if (out->fd < 0) {
        out->error = errno;
        return false;
    }
    out->file = sf_open_virtual(&io, SFM_READ, &out->info, out);
    if (out->file == NULL || out->error != 0) return false;
    out->announced = find_announced(out);
    return out->error == 0;
}

void td_sound_file_close(td_sound_file *sound)
{
    if (sound->file != NULL) sf_close(sound->file);
    if (sound->fd >= 0) close(sound->fd);
    *sound = (td_sound_file){.fd = -1};
}

/* Before libsndfile sees it, which would say less. */
static td_status check_file(const char *path)
{
    struct stat about;
    if (stat(path, &about) != 0) return TD_OK; /* opening says why */
    TD_REFUSE_IF(S_ISDIR(about.st_mode), TD_ERR_IO, "%s: is a folder, not an audio file; name a file in it",
                 path);
    TD_REFUSE_IF(!S_ISREG(about.st_mode), TD_ERR_IO,
                 "%s: is a pipe or a device, which cannot seek; save the recording to a file", path);
    TD_REFUSE_IF(about.st_size == 0, TD_ERR_FORMAT,
                 "%s: the file is empty (0 bytes); record or copy it again", path);
    return TD_OK;
}

td_status td_sound_file_fail(const td_sound_file *sound, const char *path)
{
    if (sound->error == ENOENT)
        return TD_FAIL(TD_ERR_NOT_FOUND, "%s: no such audio file; check the path", path);
    return TD_FAIL(TD_ERR_IO, "%s: cannot be read: %s; check the disk and the permissions", path,
                   strerror(sound->error));
}

td_status td_sound_file_require(const char *path, td_sound_file *out)
{
    TD_CHECK(check_file(path));
    if (!td_sound_file_open(path, out)) {
        const char *reason = sf_strerror(NULL);
        if (out->error != 0) return td_sound_file_fail(out, path);
        return TD_FAIL(TD_ERR_FORMAT, "%s: not audio that can be decoded: %.*s; convert it to WAV or FLAC",
                       path, (int)strcspn(reason, "\n"), reason);
    }
    TD_REFUSE_IF(out->info.channels < 1 || out->info.channels > TD_SOUND_CHANNELS_MAX, TD_ERR_FORMAT,
                 "%s: %d channels; save it with one or two", path, out->info.channels);
    TD_REFUSE_IF(out->info.samplerate < TD_DECODE_RATE_MIN || out->info.samplerate > TD_DECODE_RATE_MAX,
                 TD_ERR_FORMAT, "%s: a rate of %d Hz; save it with %d to %d", path, out->info.samplerate,
                 TD_DECODE_RATE_MIN, TD_DECODE_RATE_MAX);
    return TD_OK;
}

td_status td_sound_resampler(uint32_t from, uint32_t to, const char *path, soxr_t *out)
{
    const soxr_io_spec_t io = soxr_io_spec(SOXR_FLOAT32_I, SOXR_FLOAT32_I);
    const soxr_quality_spec_t quality = soxr_quality_spec(SOXR_HQ, 0);
    const soxr_runtime_spec_t runtime = soxr_runtime_spec(1);
    soxr_error_t error = NULL;
    *out = soxr_create(from, to, 1, &error, &io, &quality, &runtime);
    if (error || !*out)
        return TD_FAIL(TD_ERR_HOST_MEMORY, "%s: no resampler from %u to %u Hz: %s", path, from, to,
                       error ? error : "no memory");
    return TD_OK;
}
