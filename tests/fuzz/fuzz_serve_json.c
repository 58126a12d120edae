/* libFuzzer target: any bytes as the body of a request in JSON, read as the speech endpoint reads it. Numbers that are
 * taken are within their limits; texts are texts.
 * clang -fsanitize=fuzzer,address,undefined; start it with the files of tests/fuzz/corpus/serve_json.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "serve/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Answers go nowhere: there is no connection. */
static void read_fields(td_call *call, const cJSON *body)
{
    static const char *const TEXTS[] = {"model", "input", "voice", "response_format", "language"};
    const char *text;
    double speed = 1, seed = 0;
    bool flag = false;
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++)
        if (td_request_text(call, body, TEXTS[i], &text) && text && strlen(text) > call->body.size) abort();
    if (td_request_number(call, body, "speed", 0.25, 4, &speed) && !(speed >= 0.25 && speed <= 4)) abort();
    if (td_request_number(call, body, "seed", 0, 1e15, &seed) && !(seed >= 0 && seed <= 1e15)) abort();
    (void)td_request_flag(call, body, "stream", &flag);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    td_call call = {.method = "POST", .path = "/v1/audio/speech"};
    td_bytes_add(&call.body, data, bytes);
    td_bytes_add(&call.body, "", 1);
    call.body.size = bytes;
    cJSON *body = td_request_parse(&call);
    if (body) read_fields(&call, body);
    cJSON_Delete(body);
    td_bytes_free(&call.body);
    return 0;
}
