/* See request.h. */
#include "serve/request.h"

#include <math.h>
#include <string.h>

#include "base/text.h"
#include "serve/server.h"

cJSON *td_request_parse(td_call *call)
{
    const char *text = call->body.data ? (const char *)call->body.data : "";
    const bool is_text = strlen(text) == call->body.size;
    cJSON *body = is_text ? cJSON_ParseWithOpts(text, NULL, true) : NULL;
    if (cJSON_IsObject(body)) return body;
    cJSON_Delete(body);
    td_reply_error(call, 400, NULL, "invalid_json", "the body is not a JSON object");
    return NULL;
}

static bool refuse(td_call *call, const char *name, const char *what)
{
    td_reply_error(call, 400, name, "invalid_field", "%s must be %s", name, what);
    return false;
}

static const cJSON *find(const cJSON *body, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(body, name);
    return cJSON_IsNull(item) ? NULL : item;
}

bool td_request_text(td_call *call, const cJSON *body, const char *name, const char **out)
{
    const cJSON *item = find(body, name);
    *out = NULL;
    if (!item) return true;
    if (!cJSON_IsString(item)) return refuse(call, name, "a text");
    *out = item->valuestring;
    return true;
}

static bool take_number(td_call *call, const char *name, double value, double least, double most, double *out)
{
    if (!(value >= least && value <= most)) {
        td_reply_error(call, 400, name, strcmp(name, "speed") == 0 ? "invalid_speed" : "invalid_field",
                       "%s must be from %g to %g", name, least, most);
        return false;
    }
    *out = value;
    return true;
}

bool td_request_number(td_call *call, const cJSON *body, const char *name, double least, double most,
                       double *out)
{
    const cJSON *item = find(body, name);
    double value;
    if (!item) return true;
    if (cJSON_IsNumber(item)) return take_number(call, name, item->valuedouble, least, most, out);
    if (!cJSON_IsString(item) || td_text_parse_double(item->valuestring, &value) != TD_OK)
        return refuse(call, name, "a number");
    return take_number(call, name, value, least, most, out);
}

bool td_request_manner(td_call *call, const cJSON *body, td_manner *out)
{
    return td_request_number(call, body, "speed", 0.25, 4, &out->speed) &&
           td_request_number(call, body, "temperature", 0, 100, &out->temperature) &&
           td_request_number(call, body, "top_k", 0, 1e6, &out->top_k) &&
           td_request_number(call, body, "top_p", 0, 1, &out->top_p) &&
           td_request_number(call, body, "repetition_penalty", 0, 100, &out->repetition_penalty);
}

bool td_request_flag(td_call *call, const cJSON *body, const char *name, bool *out)
{
    const cJSON *item = find(body, name);
    if (!item) return true;
    if (!cJSON_IsBool(item)) return refuse(call, name, "true or false");
    *out = cJSON_IsTrue(item);
    return true;
}

bool td_query_number(td_call *call, const char *name, double least, double most, double *out)
{
    const char *text = td_call_query(call, name);
    double value;
    if (!text) return true;
    if (td_text_parse_double(text, &value) != TD_OK) return refuse(call, name, "a number");
    return take_number(call, name, value, least, most, out);
}
