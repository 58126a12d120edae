/* A job as the bytes of a sound, or as events of OpenAI's kind that hold them. See server.h. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "serve/server.h"

/* How long a call for more waits at most. */
enum { LOOK_MS = 250 };

typedef struct stream {
    td_sound_options options;
    uint64_t n_samples;
} stream;

static void put_events(stream *s, td_bytes *out)
{
    unsigned char piece[3 * 4096]; /* whole threes: padding stands at the end of a text alone */
    char text[4 * 4096];
    for (size_t n; (n = td_bytes_take(&s->options.encoder->out, piece, sizeof piece)) > 0;) {
        td_bytes_print(out, "data: {\"type\":\"speech.audio.delta\",\"audio\":\"");
        td_text_base64(piece, n, text);
        td_bytes_add(out, text, td_text_base64_bytes(n));
        td_bytes_print(out, "\"}\n\n");
    }
}

static void put_last_event(const stream *s, td_bytes *out)
{
    const unsigned long long read = s->options.input_tokens, made = s->n_samples / 1024;
    td_bytes_print(out,
                   "data: {\"type\":\"speech.audio.done\",\"usage\":{\"input_tokens\":%llu,"
                   "\"output_tokens\":%llu,\"total_tokens\":%llu}}\n\n",
                   read, made, read + made);
}

static void put_bytes(stream *s, td_bytes *out)
{
    unsigned char piece[16384];
    for (size_t n; (n = td_bytes_take(&s->options.encoder->out, piece, sizeof piece)) > 0;)
        td_bytes_add(out, piece, n);
}

/* Samples that are there, encoded. */
static td_source_state fill(void *context, td_bytes *out)
{
    stream *s = context;
    float samples[4096];
    size_t count = 0;
    td_status status =
        td_job_read(s->options.job, samples, sizeof samples / sizeof *samples, LOOK_MS, &count, NULL);
    if (status == TD_ERR_TIMEOUT) return TD_SOURCE_MORE;
    s->n_samples += count;
    if (count > 0)
        status = td_encoder_put(s->options.encoder, samples, count);
    else if (status == TD_OK)
        status = td_encoder_end(s->options.encoder);
    if (s->options.is_sse)
        put_events(s, out);
    else
        put_bytes(s, out);
    if (status != TD_OK) return TD_SOURCE_FAILED;
    if (count > 0) return TD_SOURCE_MORE;
    if (s->options.is_sse) put_last_event(s, out);
    return TD_SOURCE_END;
}

static void close_stream(void *context)
{
    stream *s = context;
    td_job_release(s->options.job);
    td_encoder_close(s->options.encoder);
    free(s);
}

void td_server_reply_sound(td_call *call, const td_sound_options *options)
{
    const char *type = options->is_sse ? "text/event-stream" : options->encoder->format->type;
    stream *s = NULL;
    if (TD_NEW(&s) != TD_OK) {
        td_job_release(options->job);
        td_encoder_close(options->encoder);
        return; /* and the call is answered so */
    }
    s->options = *options;
    td_reply_source(call, type, &(td_source){.fill = fill, .close = close_stream, .context = s});
}
