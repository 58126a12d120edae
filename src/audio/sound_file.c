/* See sound_file.h. */
#include "audio/sound_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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
    return out->file != NULL && out->error == 0;
}

void td_sound_file_close(td_sound_file *sound)
{
    if (sound->file != NULL) sf_close(sound->file);
    if (sound->fd >= 0) close(sound->fd);
    *sound = (td_sound_file){.fd = -1};
}
