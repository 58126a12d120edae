/* Samples to the bytes of an audio format while they come: what a stream needs, where audio/encode.h makes
 * whole files. Formats whose library the build did not find are known and refused by name. Covered by
 * tests/serve.
 */
#ifndef TD_SERVE_ENCODER_H
#define TD_SERVE_ENCODER_H

#include <stdint.h>

#include "serve/bytes.h"
#include "tandem/status.h"

typedef struct td_encoder td_encoder;

typedef struct td_encoder_format {
    const char *name, *type; /* "mp3", "audio/mpeg" */
    const char *missing;     /* what to install to have it; NULL: it is there */
    size_t bytes;            /* of its encoder, which begins with a td_encoder */
    td_status (*open)(td_encoder *encoder, uint32_t rate);
    td_status (*put)(td_encoder *encoder, const float *samples, size_t count);
    td_status (*end)(td_encoder *encoder);
    void (*close)(td_encoder *encoder);
} td_encoder_format;

struct td_encoder {
    const td_encoder_format *format;
    td_bytes out; /* encoded, and not taken yet */
};

/* The formats there are, ended by one without a name. */
extern const td_encoder_format td_encoder_formats[];

/* By name; NULL: there is none. */
const td_encoder_format *td_encoder_find(const char *name);

/* *out: owned, td_encoder_close(). */
td_status td_encoder_open(const td_encoder_format *format, uint32_t rate, td_encoder **out);
td_status td_encoder_put(td_encoder *encoder, const float *samples, size_t count);
td_status td_encoder_end(td_encoder *encoder);
void td_encoder_close(td_encoder *encoder);

#endif
