/* See encoder.h. PCM and WAV are written here, FLAC by libFLAC, MP3 by LAME, Opus by libopusenc. */
#include "serve/encoder.h"

#include <soxr.h>
#include <stdlib.h>
#include <string.h>

#ifdef TD_HAVE_FLAC
#include <FLAC/stream_encoder.h>
#endif
#ifdef TD_HAVE_LAME
#include <lame/lame.h>
#endif
#ifdef TD_HAVE_OPUSENC
#include <opusenc.h>
#endif

#include "audio/encode.h"
#include "base/error.h"

enum { PIECE = 4096, PCM_RATE = 24000 };

static td_status fail_encoding(const td_encoder *encoder)
{
    return TD_FAIL(TD_ERR_HOST_MEMORY, "encoding %s failed; is there memory left?", encoder->format->name);
}

static void put_shorts(td_bytes *out, const float *samples, size_t count)
{
    unsigned char bytes[2 * PIECE];
    for (size_t n; count > 0; samples += n, count -= n) {
        n = count < PIECE ? count : PIECE;
        td_audio_to_bytes(samples, n, bytes);
        td_bytes_add(out, bytes, 2 * n);
    }
}

/* ---------------------------------------------------------------- pcm: 16 bits at 24 kHz, as OpenAI has it */

typedef struct pcm_encoder {
    td_encoder base;
    soxr_t resampler; /* NULL: the rate is right */
} pcm_encoder;

static td_status open_pcm(td_encoder *encoder, uint32_t rate)
{
    pcm_encoder *e = (pcm_encoder *)encoder;
    if (rate == PCM_RATE) return TD_OK;
    e->resampler = soxr_create(rate, PCM_RATE, 1, NULL, NULL, NULL, NULL);
    return e->resampler ? TD_OK : fail_encoding(encoder);
}

/* samples NULL: what the resampler still holds. */
static td_status put_resampled(pcm_encoder *e, const float *samples, size_t count)
{
    float out[PIECE];
    size_t taken, made;
    do {
        if (soxr_process(e->resampler, samples, count, &taken, out, PIECE, &made) != 0)
            return fail_encoding(&e->base);
        put_shorts(&e->base.out, out, made);
        if (samples) {
            samples += taken;
            count -= taken;
        }
    } while (made > 0 || (samples && count > 0));
    return TD_OK;
}

static td_status put_pcm(td_encoder *encoder, const float *samples, size_t count)
{
    pcm_encoder *e = (pcm_encoder *)encoder;
    if (e->resampler) return put_resampled(e, samples, count);
    put_shorts(&encoder->out, samples, count);
    return TD_OK;
}

static td_status end_pcm(td_encoder *encoder)
{
    pcm_encoder *e = (pcm_encoder *)encoder;
    return e->resampler ? put_resampled(e, NULL, 0) : TD_OK;
}

static void close_pcm(td_encoder *encoder)
{
    soxr_delete(((pcm_encoder *)encoder)->resampler);
}

/* ---------------------------------------------------------------- wav: of a length that is not known yet */

static td_status open_wav(td_encoder *encoder, uint32_t rate)
{
    unsigned char header[TD_WAV_HEADER_BYTES];
    td_audio_wav_header(rate, header);
    td_bytes_add(&encoder->out, header, sizeof header);
    return TD_OK;
}

static td_status put_wav(td_encoder *encoder, const float *samples, size_t count)
{
    put_shorts(&encoder->out, samples, count);
    return TD_OK;
}

/* ---------------------------------------------------------------- flac */

#ifdef TD_HAVE_FLAC
typedef struct flac_encoder {
    td_encoder base;
    FLAC__StreamEncoder *encoder;
} flac_encoder;

static FLAC__StreamEncoderWriteStatus write_flac(const FLAC__StreamEncoder *encoder,
                                                 const FLAC__byte buffer[], size_t bytes, uint32_t samples,
                                                 uint32_t frame, void *context)
{
    (void)encoder;
    (void)samples;
    (void)frame;
    td_bytes_add(context, buffer, bytes);
    return FLAC__STREAM_ENCODER_WRITE_STATUS_OK;
}

static td_status open_flac(td_encoder *encoder, uint32_t rate)
{
    flac_encoder *e = (flac_encoder *)encoder;
    e->encoder = FLAC__stream_encoder_new();
    if (!e->encoder) return fail_encoding(encoder);
    const bool is_set = FLAC__stream_encoder_set_channels(e->encoder, 1) &&
                        FLAC__stream_encoder_set_bits_per_sample(e->encoder, 16) &&
                        FLAC__stream_encoder_set_sample_rate(e->encoder, rate);
    if (!is_set || FLAC__stream_encoder_init_stream(e->encoder, write_flac, NULL, NULL, NULL,
                                                    &encoder->out) != FLAC__STREAM_ENCODER_INIT_STATUS_OK)
        return fail_encoding(encoder);
    return TD_OK;
}

static td_status put_flac(td_encoder *encoder, const float *samples, size_t count)
{
    flac_encoder *e = (flac_encoder *)encoder;
    FLAC__int32 piece[PIECE];
    for (size_t at = 0; at < count;) {
        const size_t n = count - at < PIECE ? count - at : PIECE;
        for (size_t i = 0; i < n; i++)
            piece[i] = td_audio_quantize(samples[at + i]);
        if (!FLAC__stream_encoder_process_interleaved(e->encoder, piece, (uint32_t)n))
            return fail_encoding(encoder);
        at += n;
    }
    return TD_OK;
}

static td_status end_flac(td_encoder *encoder)
{
    return FLAC__stream_encoder_finish(((flac_encoder *)encoder)->encoder) ? TD_OK : fail_encoding(encoder);
}

static void close_flac(td_encoder *encoder)
{
    flac_encoder *e = (flac_encoder *)encoder;
    if (e->encoder) FLAC__stream_encoder_delete(e->encoder);
}
#endif

/* ---------------------------------------------------------------- mp3 */

#ifdef TD_HAVE_LAME
typedef struct mp3_encoder {
    td_encoder base;
    lame_t lame;
} mp3_encoder;

static td_status open_mp3(td_encoder *encoder, uint32_t rate)
{
    mp3_encoder *e = (mp3_encoder *)encoder;
    e->lame = lame_init();
    if (!e->lame) return fail_encoding(encoder);
    lame_set_in_samplerate(e->lame, (int)rate);
    lame_set_num_channels(e->lame, 1);
    lame_set_mode(e->lame, MONO);
    lame_set_quality(e->lame, 5);
    lame_set_bWriteVbrTag(e->lame, 0); /* it tells the length, and stands at the start */
    return lame_init_params(e->lame) >= 0 ? TD_OK : fail_encoding(encoder);
}

static td_status put_mp3(td_encoder *encoder, const float *samples, size_t count)
{
    unsigned char out[PIECE * 5 / 4 + 7200];
    for (size_t at = 0; at < count;) {
        const size_t n = count - at < PIECE ? count - at : PIECE;
        const int bytes = lame_encode_buffer_ieee_float(((mp3_encoder *)encoder)->lame, samples + at, NULL,
                                                        (int)n, out, (int)sizeof out);
        if (bytes < 0) return fail_encoding(encoder);
        td_bytes_add(&encoder->out, out, (size_t)bytes);
        at += n;
    }
    return TD_OK;
}

static td_status end_mp3(td_encoder *encoder)
{
    unsigned char out[7200];
    const int bytes = lame_encode_flush(((mp3_encoder *)encoder)->lame, out, (int)sizeof out);
    if (bytes < 0) return fail_encoding(encoder);
    td_bytes_add(&encoder->out, out, (size_t)bytes);
    return TD_OK;
}

static void close_mp3(td_encoder *encoder)
{
    mp3_encoder *e = (mp3_encoder *)encoder;
    if (e->lame) lame_close(e->lame);
}
#endif

/* ---------------------------------------------------------------- opus, in Ogg */

#ifdef TD_HAVE_OPUSENC
typedef struct opus_encoder {
    td_encoder base;
    OggOpusEnc *encoder;
    OggOpusComments *comments;
} opus_encoder;

static int write_opus(void *context, const unsigned char *data, opus_int32 bytes)
{
    td_bytes_add(context, data, (size_t)bytes);
    return 0;
}

static int close_nothing(void *context)
{
    (void)context;
    return 0;
}

static td_status open_opus(td_encoder *encoder, uint32_t rate)
{
    static const OpusEncCallbacks CALLBACKS = {.write = write_opus, .close = close_nothing};
    opus_encoder *e = (opus_encoder *)encoder;
    int error = OPE_OK;
    e->comments = ope_comments_create();
    if (e->comments)
        e->encoder = ope_encoder_create_callbacks(&CALLBACKS, &encoder->out, e->comments, (opus_int32)rate, 1,
                                                  0, &error);
    /* Pages of a fifth of a second, so that sound leaves early. */
    if (!e->encoder || ope_encoder_ctl(e->encoder, OPE_SET_MUXING_DELAY(9600)) != OPE_OK ||
        ope_encoder_ctl(e->encoder, OPE_SET_SERIALNO(1)) != OPE_OK)
        return fail_encoding(encoder);
    return TD_OK;
}

static td_status put_opus(td_encoder *encoder, const float *samples, size_t count)
{
    const bool is_put =
        ope_encoder_write_float(((opus_encoder *)encoder)->encoder, samples, (int)count) == OPE_OK;
    return is_put ? TD_OK : fail_encoding(encoder);
}

static td_status end_opus(td_encoder *encoder)
{
    return ope_encoder_drain(((opus_encoder *)encoder)->encoder) == OPE_OK ? TD_OK : fail_encoding(encoder);
}

static void close_opus(td_encoder *encoder)
{
    opus_encoder *e = (opus_encoder *)encoder;
    if (e->encoder) ope_encoder_destroy(e->encoder);
    if (e->comments) ope_comments_destroy(e->comments);
}
#endif

/* ---------------------------------------------------------------- the table */

#define ROW(name_, type_, struct_)                                                                           \
    .name = #name_, .type = type_, .bytes = sizeof(struct_), .open = open_##name_, .put = put_##name_

const td_encoder_format td_encoder_formats[] = {
#ifdef TD_HAVE_LAME
    {ROW(mp3, "audio/mpeg", mp3_encoder), .end = end_mp3, .close = close_mp3},
#else
    {.name = "mp3", .type = "audio/mpeg", .missing = "libmp3lame"},
#endif
#ifdef TD_HAVE_OPUSENC
    {ROW(opus, "audio/ogg", opus_encoder), .end = end_opus, .close = close_opus},
#else
    {.name = "opus", .type = "audio/ogg", .missing = "libopusenc"},
#endif
#ifdef TD_HAVE_FLAC
    {ROW(flac, "audio/flac", flac_encoder), .end = end_flac, .close = close_flac},
#else
    {.name = "flac", .type = "audio/flac", .missing = "libFLAC"},
#endif
    {ROW(wav, "audio/wav", td_encoder)},
    {ROW(pcm, "audio/pcm", pcm_encoder), .end = end_pcm, .close = close_pcm},
    {0},
};

const td_encoder_format *td_encoder_find(const char *name)
{
    for (const td_encoder_format *f = td_encoder_formats; f->name; f++)
        if (strcmp(f->name, name) == 0) return f;
    return NULL;
}

td_status td_encoder_open(const td_encoder_format *format, uint32_t rate, td_encoder **out)
{
    td_encoder *encoder = NULL;
    td_status status = TD_OK;
    *out = NULL;
    TD_FAIL_IF(format->missing, TD_ERR_UNSUPPORTED,
               "this build cannot write %s; install %s and build again, or ask for wav", format->name,
               format->missing);
    TD_TRY(td_alloc_zeroed(1, format->bytes, &encoder));
    encoder->format = format;
    TD_TRY(format->open(encoder, rate));
    *out = encoder;
    return TD_OK;
fail:
    td_encoder_close(encoder);
    return status;
}

static td_status check_memory(const td_encoder *encoder)
{
    return encoder->out.has_failed ? fail_encoding(encoder) : TD_OK;
}

td_status td_encoder_put(td_encoder *encoder, const float *samples, size_t count)
{
    const td_status status = encoder->format->put(encoder, samples, count);
    return status == TD_OK ? check_memory(encoder) : status;
}

td_status td_encoder_end(td_encoder *encoder)
{
    const td_status status = encoder->format->end ? encoder->format->end(encoder) : TD_OK;
    return status == TD_OK ? check_memory(encoder) : status;
}

void td_encoder_close(td_encoder *encoder)
{
    if (!encoder) return;
    if (encoder->format->close) encoder->format->close(encoder);
    td_bytes_free(&encoder->out);
    free(encoder);
}
