/* Bodies in JSON: fields by name, with the answer for one that is not what it must be. Covered by tests/serve
 * and tests/fuzz/fuzz_serve_json.c.
 */
#ifndef TD_SERVE_REQUEST_H
#define TD_SERVE_REQUEST_H

#include <cJSON.h>

#include "serve/http.h"

struct td_manner;

/* The body as an object, or NULL, and the call is answered so. Owned: cJSON_Delete(). */
cJSON *td_request_parse(td_call *call);

/* A text field; NULL if it is absent or null. False: it is of another kind, and the call is answered so. */
bool td_request_text(td_call *call, const cJSON *body, const char *name, const char **out);

/* A number, or a text that is one, as some clients send it; *out stays if the field is absent. */
bool td_request_number(td_call *call, const cJSON *body, const char *name, double least, double most,
                       double *out);

/* "speed", "temperature" and the like. Those that are absent stay as they are. */
bool td_request_manner(td_call *call, const cJSON *body, struct td_manner *out);

bool td_request_flag(td_call *call, const cJSON *body, const char *name, bool *out);

/* The same numbers in a query. */
bool td_query_number(td_call *call, const char *name, double least, double most, double *out);

#endif
