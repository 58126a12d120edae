/* See encode.h. libsndfile encodes into memory; the file appears whole or not at all. */
#include "audio/encode.h"

#include <math.h>
#include <sndfile.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/file.h"

#define VORBIS_QUALITY 0.7 /* near to transparent for one voice */

typedef struct kind {
    const char *ending;
    int format;
} kind;

static const kind KINDS[] = {
    {".wav", SF_FORMAT_WAV | SF_FORMAT_PCM_16},
    {".flac", SF_FORMAT_FLAC | SF_FORMAT_PCM_16},
    {".ogg", SF_FORMAT_OGG | SF_FORMAT_VORBIS},
    {".mp3", SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III},
};

/* A file in memory that grows. */
typedef struct memory_file {
    char *data; /* owned */
    size_t size, capacity, at;
} memory_file;

static sf_count_t get_length(void *context)
{
    return (sf_count_t)((memory_file *)context)->size;
}

static sf_count_t seek_to(sf_count_t offset, int whence, void *context)
{
    memory_file *f = context;
    const sf_count_t base = whence == SEEK_CUR   ? (sf_count_t)f->at
                            : whence == SEEK_END ? (sf_count_t)f->size
                                                 : 0;
    if (base + offset < 0) return -1;
    f->at = (size_t)(base + offset);
    return (sf_count_t)f->at;
}

static sf_count_t read_some(void *to, sf_count_t count, void *context)
{
    memory_file *f = context;
    const size_t left = f->at < f->size ? f->size - f->at : 0;
    const size_t n = (size_t)count < left ? (size_t)count : left;
    if (n) memcpy(to, f->data + f->at, n);
    f->at += n;
    return (sf_count_t)n;
}

static sf_count_t write_some(const void *from, sf_count_t count, void *context)
{
    memory_file *f = context;
    const size_t n = (size_t)count, end = f->at + n;
    if (td_alloc_grow(&f->data, &f->capacity, end, 1) != TD_OK) return 0;
    memcpy(f->data + f->at, from, n);
    f->at = end;
    if (end > f->size) f->size = end;
    return count;
}

static sf_count_t tell(void *context)
{
    return (sf_count_t)((memory_file *)context)->at;
}

static const kind *find_kind(const char *path)
{
    const char *ending = strrchr(path, '.');
    for (size_t i = 0; ending && i < sizeof KINDS / sizeof KINDS[0]; i++)
        if (strcasecmp(ending, KINDS[i].ending) == 0) return &KINDS[i];
    return NULL;
}

td_status td_audio_check_path(const char *path)
{
    if (find_kind(path)) return TD_OK;
    return TD_FAIL(TD_ERR_CONFIG, "%s: unknown kind of audio file; end the name in .wav, .flac, .ogg or .mp3",
                   path);
}

int16_t td_audio_quantize(float sample)
{
    const float scaled = rintf(sample * 32767.0f);
    return (int16_t)(scaled >= 32767.0f ? 32767.0f : scaled <= -32767.0f ? -32767.0f : scaled);
}

void td_audio_to_bytes(const float *samples, size_t count, unsigned char *out)
{
    for (size_t i = 0; i < count; i++) {
        const uint16_t sample = (uint16_t)td_audio_quantize(samples[i]);
        out[2 * i] = (unsigned char)(sample & 255);
        out[2 * i + 1] = (unsigned char)(sample >> 8);
    }
}

static bool write_samples(SNDFILE *file, const float *samples, size_t count)
{
    int16_t piece[1024];
    for (size_t at = 0; at < count;) {
        const size_t n = count - at < 1024 ? count - at : 1024;
        for (size_t i = 0; i < n; i++)
            piece[i] = td_audio_quantize(samples[at + i]);
        if (sf_writef_short(file, piece, (sf_count_t)n) != (sf_count_t)n) return false;
        at += n;
    }
    return true;
}

/* Of an OGG page: polynomial 0x04c11db7, most significant bit first. */
static uint32_t sum_page(const unsigned char *page, size_t bytes)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < bytes; i++) {
        sum ^= (uint32_t)page[i] << 24;
        for (int bit = 0; bit < 8; bit++)
            sum = sum << 1 ^ (sum >> 31 ? 0x04c11db7u : 0);
    }
    return sum;
}

static void put_u32(unsigned char *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(value >> 8 * i);
}

void td_audio_wav_header(uint32_t rate, unsigned char out[TD_WAV_HEADER_BYTES])
{
    /* PCM, one channel, 16 bits. Players read on to the end where a length is the largest there is. */
    static const unsigned char HEADER[TD_WAV_HEADER_BYTES] = {
        'R', 'I', 'F', 'F', 0xff, 0xff, 0xff,     0xff, 'W', 'A', 'V', 'E', 'f', 'm', 't',  ' ',  16,   0,
        0,   0,   1,   0,   1,    0,    [32] = 2, 0,    16,  0,   'd', 'a', 't', 'a', 0xff, 0xff, 0xff, 0xff};
    memcpy(out, HEADER, sizeof HEADER);
    put_u32(out + 24, rate);
    put_u32(out + 28, 2 * rate);
}

/* libsndfile draws the number of an OGG stream; here it is always the same, so that bytes are. */
static void number_stream(unsigned char *data, size_t size)
{
    enum { SERIAL = 14, SUM = 22, LACES = 26, HEAD = 27 };
    for (size_t at = 0; at + HEAD <= size && memcmp(data + at, "OggS", 4) == 0;) {
        unsigned char *page = data + at;
        size_t bytes = HEAD + (size_t)page[LACES];
        for (size_t i = 0; i < page[LACES] && at + HEAD + i < size; i++)
            bytes += page[HEAD + i];
        if (bytes > size - at) return;
        put_u32(page + SERIAL, 1);
        put_u32(page + SUM, 0);
        put_u32(page + SUM, sum_page(page, bytes));
        at += bytes;
    }
}

td_status td_audio_encode_memory(const char *name, const float *samples, size_t count, uint32_t rate,
                                 char **data, size_t *bytes)
{
    const kind *found = find_kind(name);
    SF_VIRTUAL_IO io = {get_length, seek_to, read_some, write_some, tell};
    memory_file memory = {0};
    SNDFILE *file = NULL;
    td_status status = TD_OK;
    *data = NULL;
    TD_TRY(td_audio_check_path(name));
    SF_INFO info = {.samplerate = (int)rate, .channels = 1, .format = found->format};
    file = sf_open_virtual(&io, SFM_WRITE, &info, &memory);
    TD_FAIL_IF(!file, TD_ERR_UNSUPPORTED, "%s: libsndfile cannot write this kind of file: %s", name,
               sf_strerror(NULL));
    double quality = VORBIS_QUALITY;
    (void)sf_command(file, SFC_SET_VBR_ENCODING_QUALITY, &quality, sizeof quality);
    const bool is_written = write_samples(file, samples, count);
    const bool is_closed = sf_close(file) == 0;
    TD_FAIL_IF(!is_written || !is_closed, TD_ERR_HOST_MEMORY,
               "%s: no host memory to encode it in; close other programs", name);
    number_stream((unsigned char *)memory.data, memory.size);
    *data = memory.data;
    *bytes = memory.size;
    return TD_OK;
fail:
    free(memory.data);
    return status;
}

td_status td_audio_encode(const char *path, const float *samples, size_t count, uint32_t rate)
{
    char *data = NULL;
    size_t bytes = 0;
    td_status status = TD_OK;
    TD_TRY(td_audio_encode_memory(path, samples, count, rate, &data, &bytes));
    TD_TRY(td_file_write_atomic(path, data, bytes));
fail:
    free(data);
    return status;
}
